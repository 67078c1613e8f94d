"""Hops of the features, S^k X for k = 1..K, computed once and kept on disk.

    HOPS/meta.json               counts, precision, which graph and which edges
    HOPS/<first>-<k>.npy         [N, B] columns from `first` of S^k X, S the mean over neighbours
    HOPS/<first>-<k>-scale.npy   [B] of int8: value = stored · scale

Columns do not depend on each other: a block of B columns goes through all hops, in memory, while
the edges stream by. A block that is there is not computed again, so that a killed run goes on. Sums
are float32; float16 and int8 round what is stored, not what is passed on.

Shapes: N nodes, D features, B columns of a block, n rows that are asked for.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from gassip.errors import GassipError
from gassip.graph.store import META, GraphFolder, sha256
from gassip.large.arrays import slab
from gassip.large.cluster import RayTasks, Tasks
from gassip.large.kernels import Edges, compiled_here, received

Precision = Literal["float32", "float16", "int8"]
BYTES = {"float32": 4, "float16": 2, "int8": 1}
RATE = {True: 10e6, False: 4e6}  # edges a second at 64 columns, compiled or not: a first guess
WRITE = 0.15e9  # bytes a second
WIDEST = 64  # columns of a block
ROWS = 2**16  # rows that are read at once


@dataclass(frozen=True, kw_only=True)
class Need:
    """What propagation takes."""

    blocks: int
    columns: int  # of a block
    memory: int  # bytes
    disk: int  # bytes that are not there yet
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.blocks} blocks of {self.columns} columns, {self.memory / 2**30:.1f} GiB of "
            f"memory, {self.disk / 2**30:.1f} GiB on disk, about {self.seconds:.0f} s"
        )


@dataclass(frozen=True, eq=False)
class Hops:
    """Hops 0..K of a graph folder; hop 0 is x.npy."""

    path: Path
    graph: GraphFolder
    steps: int  # K
    columns: int  # B
    precision: Precision = "float32"

    @property
    def features(self) -> int:
        return int(self.graph.meta["features"])

    @property
    def starts(self) -> range:
        """The first column of every block."""
        return range(0, self.features, self.columns)

    def file(self, first: int, k: int, more: str = "") -> Path:
        return self.path / f"{first}-{k}{more}.npy"

    def stored(self, first: int, k: int) -> np.ndarray:
        """A block of columns of hop k ≥ 1, mapped."""
        return np.load(self.file(first, k), mmap_mode="r", allow_pickle=False)

    def block(self, k: int, start: int, stop: int) -> np.ndarray:
        """Rows start..stop of hop k, [stop − start, D] float32."""
        if k == 0:
            return slab(self.graph.array("x"), start, stop)
        parts = [
            self._widened(first, k, slab(self.stored(first, k), start, stop))
            for first in self.starts
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def at(self, k: int, nodes: np.ndarray) -> np.ndarray:
        """Hop k of a few nodes, [n, D] float32; only their pages are read."""
        if k == 0:
            return np.asarray(self.graph.array("x")[nodes])
        parts = [self._widened(first, k, self.stored(first, k)[nodes]) for first in self.starts]
        return np.concatenate(parts, axis=1)

    def rows(self, nodes: np.ndarray, ks: Sequence[int]) -> np.ndarray:
        """Hops ks of nodes in ascending order side by side, [n, len(ks) · D] float32."""
        width = self.features
        out = np.empty((len(nodes), len(ks) * width), dtype=np.float32)
        for start, stop, low, high in chunks(nodes, self.graph.nodes):
            for at, k in enumerate(ks):
                here = self.block(k, start, stop)
                out[low:high, at * width : (at + 1) * width] = here[nodes[low:high] - start]
        return out

    def exact_rows(self, nodes: np.ndarray, ks: Sequence[int]) -> np.ndarray | None:
        """As `rows`, not rounded, of the nodes that propagation was told; None: others were."""
        if not all(self.file(first, k, "-exact").exists() for first in self.starts for k in ks[1:]):
            return None
        parts = [self.rows(nodes, (0,))]
        for k in ks[1:]:
            parts += [np.load(self.file(first, k, "-exact")) for first in self.starts]
        return np.concatenate(parts, axis=1) if len(parts[-1]) == len(nodes) else None

    def _widened(self, first: int, k: int, values: np.ndarray) -> np.ndarray:
        if self.precision != "int8":
            return np.asarray(values, dtype=np.float32)
        return np.asarray(values * np.load(self.file(first, k, "-scale")), dtype=np.float32)


def chunks(nodes: np.ndarray, total: int) -> Iterator[tuple[int, int, int, int]]:
    """Ranges of rows that hold some of the ascending `nodes`, and which of these."""
    for start in range(0, total, ROWS):
        stop = min(total, start + ROWS)
        low, high = np.searchsorted(nodes, (start, stop))
        if low < high:
            yield start, stop, int(low), int(high)


def needed(hops: Hops) -> Need:
    """Told before the work starts."""
    nodes, edges = hops.graph.nodes, hops.graph.edges
    wanting = [first for first in hops.starts if not _whole(hops, first)]
    columns = sum(min(hops.columns, hops.features - first) for first in wanting)
    disk = nodes * columns * hops.steps * BYTES[hops.precision]
    compute = edges * hops.steps * columns / 64 / RATE[compiled_here()]
    return Need(
        blocks=len(wanting),
        columns=hops.columns,
        memory=2 * 4 * nodes * hops.columns + 12 * nodes,
        disk=disk,
        seconds=compute + disk / WRITE,
    )


def open_hops(
    graph: GraphFolder,
    path: Path,
    *,
    steps: int,
    memory: int | None = None,
    precision: Precision = "float32",
    edges_key: str = "given",
) -> Hops:
    """The folder of hops, made if it is not there; one of another graph or kind is refused."""
    if precision not in get_args(Precision):
        raise GassipError(f"hop precision is {precision!r}; there are {', '.join(BYTES)}")
    meta = {
        "format": "gassip-hops-1",
        "graph": sha256(graph.path / META),
        "precision": precision,
        "edges": edges_key,
    }
    path.mkdir(parents=True, exist_ok=True)
    columns = block_width(graph, memory)
    if (path / META).exists():
        found = json.loads((path / META).read_bytes())
        if {key: found.get(key) for key in meta} != meta:
            raise GassipError(f"{path} holds hops of another graph or precision; remove it")
        columns = int(found["columns"])
    else:
        replace_text(path / META, json.dumps(meta | {"columns": columns}, indent=1))
    return Hops(path, graph, steps, columns, precision)


def block_width(graph: GraphFolder, memory: int | None) -> int:
    """Columns of a block: a power of two whose input and output fit into half of `memory`."""
    width = WIDEST
    if memory is not None:
        while width > 1 and 16 * graph.nodes * width > memory:
            width //= 2
    return int(min(width, graph.meta["features"]))


def check_room(hops: Hops, need: Need) -> None:
    free = shutil.disk_usage(hops.path).free
    if need.disk > free:
        raise GassipError(
            f"hops of {hops.graph.path} need {need.disk / 2**30:.1f} GiB on disk; {hops.path} has "
            f"{free / 2**30:.1f}; free some, or store them as float16 or int8"
        )


def propagate(
    hops: Hops,
    edges: Edges,
    *,
    threads: int = 1,
    exact: np.ndarray | None = None,
    tasks: Tasks | None = None,
    said: Callable[[str], None] = lambda text: None,
    seconds: float | None = None,
) -> Hops:
    """All blocks that are not there yet, and the hops that there are then; of the nodes `exact`
    unrounded values are kept besides. In `seconds` perhaps fewer hops: as the first one goes."""
    check_room(hops, needed(hops))
    wanting = [first for first in hops.starts if not _whole(hops, first)]
    if isinstance(tasks, RayTasks):
        items = [(first, threads, exact) for first in wanting]
        tasks.map(propagate_task, (hops, edges.names), items)
        return hops
    end = None if seconds is None else time.perf_counter() + seconds
    for at, first in enumerate(wanting):
        began = time.perf_counter()
        hops = propagate_block(hops, edges, first, threads, exact, len(wanting) - at, end)
        rate = hops.steps * hops.graph.edges / (time.perf_counter() - began) / 1e6
        said(f"hops 1..{hops.steps} from column {first}: {rate:.1f} M edges/s")
    return hops


def propagate_task(
    shared: tuple[Hops, tuple[str, ...]], first: int, threads: int, exact: np.ndarray | None
) -> None:
    """One block on a worker, which maps the edges itself."""
    hops, names = shared
    propagate_block(hops, Edges.mapped(names), first, threads, exact)


def propagate_block(
    hops: Hops,
    edges: Edges,
    first: int,
    threads: int = 1,
    exact: np.ndarray | None = None,
    blocks: int = 1,
    end: float | None = None,
) -> Hops:
    """Hops 1..K of one block of columns, the first of so many blocks; K falls to what is done by
    `end`, on the clock of time.perf_counter, if all go on as the first hop went."""
    began, h = time.perf_counter(), _features(hops, first)
    k = 0
    while k < hops.steps:
        k += 1
        h = received(edges, h, "mean", threads)
        if exact is not None:
            replace_array(hops.file(first, k, "-exact"), h[exact])
        _write(hops, first, k, h)
        if k == 1 and end is not None:
            now = time.perf_counter()
            whole = int((end - began) / max(1e-9, (now - began) * blocks))
            hops = replace(hops, steps=min(hops.steps, max(1, whole)))
    return hops


def _features(hops: Hops, first: int) -> np.ndarray:
    """Columns of x, in memory."""
    x, width = hops.graph.array("x"), min(hops.columns, hops.features - first)
    h = np.empty((hops.graph.nodes, width), dtype=np.float32)
    for start in range(0, len(h), ROWS):
        stop = min(len(h), start + ROWS)
        h[start:stop] = slab(x, start, stop)[:, first : first + width]
    return h


def _write(hops: Hops, first: int, k: int, h: np.ndarray) -> None:
    """Beside its name, then renamed."""
    scale: np.ndarray | None = None
    if hops.precision == "int8":
        largest = np.maximum(np.abs(h.max(0)), np.abs(h.min(0)))
        scale = (np.where(largest > 0, largest, 1) / 127).astype(np.float32)
        replace_array(hops.file(first, k, "-scale"), scale)
    path = hops.file(first, k)
    beside = path.with_suffix(".partial.npy")
    out = np.lib.format.open_memmap(beside, mode="w+", dtype=hops.precision, shape=h.shape)
    offset, dtype = int(out.offset), out.dtype
    del out
    with beside.open("r+b") as file:
        file.seek(offset)
        for start in range(0, len(h), ROWS):
            part = h[start : start + ROWS]
            rounded = part if scale is None else np.rint(part / scale)
            file.write(np.ascontiguousarray(rounded, dtype=dtype).tobytes())
    os.replace(beside, path)


def _whole(hops: Hops, first: int) -> bool:
    return all(hops.file(first, k).exists() for k in range(1, hops.steps + 1))


def replace_array(path: Path, values: np.ndarray) -> None:
    beside = path.with_suffix(".partial.npy")
    np.save(beside, values)
    os.replace(beside, path)


def replace_text(path: Path, text: str) -> None:
    beside = path.with_name(path.name + ".partial")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)
