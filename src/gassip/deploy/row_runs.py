"""Runs of a search on rows: their graph stays in its folder. Labels by blocks of rows, no torch.

    meta.json["rows"]     graph and hops (folders), steps, precision, edges (given or both)

Shapes: N nodes, C classes.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from gassip.deploy.by_rows import RowModel
from gassip.deploy.numpy_layers import layers_of
from gassip.deploy.stored import is_row_run, own_graph
from gassip.errors import GassipError
from gassip.graph.store import META, GraphFolder, parquet, sha256
from gassip.large.adjacency import CUT, stored_edges
from gassip.large.hops import Hops, needed, open_hops, propagate
from gassip.runs.format import (
    label_weight,
    labels_in_training,
    on_other_graphs,
    read_meta,
    read_tensors,
    unpack,
)
from gassip.runs.output import Labels, label_lines


@dataclass(frozen=True, eq=False, kw_only=True)
class RowRun:
    """A run and the graph that it labels."""

    model: RowModel
    class_names: tuple[str, ...]
    graph: GraphFolder
    labels_in_training: bool = False  # whether the net relies on label propagation
    elsewhere: str | None = None  # what is missing on this other graph; None: nothing

    def blocks(self) -> Iterator[Labels]:
        """Ids, labels and probabilities of consecutive nodes."""
        for start, scores in self.model.blocks():
            grown = np.exp(scores - scores.max(1, keepdims=True).astype(np.float64))
            probs = (grown / grown.sum(1, keepdims=True)).max(1)
            ids = ids_of(self.graph, start, start + len(scores))
            yield ids, [self.class_names[best] for best in scores.argmax(1)], probs.tolist()

    def write_csv(self, out: TextIO) -> int:
        """id, label, probability: the number of nodes."""
        return label_lines(out, self.blocks())


def load_row_run(folder: str | Path, data: str | Path | None = None, threads: int = 1) -> RowRun:
    """The run on its own graph folder, or on another one, whose hops are computed if they are not
    there."""
    folder = Path(folder)
    meta = read_meta(folder)
    if not is_row_run(meta):
        raise GassipError(f"{folder} is no run of a search on rows; gassip.runtime reads it")
    state = read_tensors(folder, "model.safetensors", meta)
    layers = layers_of(meta["architecture"], unpack(state, meta, None), len(meta["class_names"]))
    told, on_its_graph = meta["rows"], data is None or is_its_graph(meta, Path(data))
    if not on_its_graph:  # another graph has all its edges
        told = told | {"edges": told["edges"].partition(CUT)[0]}
    graph = own_graph(folder, meta) if data is None else GraphFolder.open(data)
    if (features := graph.meta["features"]) != meta["features"]:
        raise GassipError(f"{graph.path} has {features} features, not {meta['features']}")
    hops = _hops(graph, told, on_its_graph)
    edges = stored_edges(graph, told["edges"], hops.path)
    if needed(hops).blocks:
        propagate(hops, edges, threads=threads)
    weight = label_weight(meta) if on_its_graph else 0.0
    model = RowModel(
        layers=layers,
        hops=hops,
        edges=edges,
        label_weight=weight,
        labels=known_labels(graph, bool(meta["source"].get("refit"))) if weight else None,
        threads=threads,
    )
    return RowRun(
        model=model,
        class_names=tuple(meta["class_names"]),
        graph=graph,
        labels_in_training=labels_in_training(meta),
        elsewhere=None if on_its_graph else on_other_graphs(meta),
    )


def is_its_graph(meta: Mapping[str, Any], path: Path) -> bool:
    """Whether a folder holds the graph that the run was made on."""
    return bool((path / META).exists() and sha256(path / META) == meta["source"].get("fingerprint"))


def _hops(graph: GraphFolder, told: Mapping[str, Any], on_its_graph: bool) -> Hops:
    path = Path(told["hops"]) if on_its_graph else graph.path / "hops" / hops_name(told)
    return open_hops(
        graph, path, steps=told["steps"], precision=told["precision"], edges_key=told["edges"]
    )


def hops_name(told: Mapping[str, Any]) -> str:
    return f"{told['edges']}-{told['precision']}"


def known_labels(graph: GraphFolder, refit: bool = False) -> np.ndarray:
    """Of training nodes, after a refit of validation nodes too, -1 elsewhere, [N]."""
    known = graph.mask(1) | graph.mask(2) if refit else graph.mask(1)
    return np.where(known, np.asarray(graph.array("y")), -1)


def ids_of(graph: GraphFolder, start: int, stop: int) -> Sequence[str]:
    """What the user calls some consecutive nodes."""
    if "ids.parquet" not in graph.meta["files"]:
        return [str(row) for row in range(start, stop)]
    file = parquet().ParquetFile(graph.path / "ids.parquet", memory_map=True)
    told = file.metadata
    ends = np.cumsum([told.row_group(k).num_rows for k in range(told.num_row_groups)])
    first, last = (int(np.searchsorted(ends, row, side="right")) for row in (start, stop - 1))
    table = file.read_row_groups(range(first, last + 1))
    before = start - (int(ends[first - 1]) if first else 0)
    return [str(name) for name in table["id"].slice(before, stop - start).to_pylist()]


def write_labels(
    folder: Path, data: str | Path | None, out: str, warn: Callable[[str], None]
) -> None:
    """A CSV of all nodes, block by block, beside the file and then renamed; - is stdout."""
    run = load_row_run(folder, data)
    if run.elsewhere:
        warn(run.elsewhere)
    if out == "-":
        run.write_csv(sys.stdout)
        return
    path = Path(out)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("w", encoding="utf-8", newline="") as file:
            count = run.write_csv(file)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    print(f"written to {out}: {count} nodes")
