"""Edges in any order → senders by receiver, out of core; and an order of nodes for locality.

    key = t N + s       sorted within a bucket of receivers; of equal keys the largest weight stays
    order               breadth-first, so that the rows of neighbours lie near each other

    PREFIXindptr.npy [N + 1], PREFIXindices.npy [E], PREFIXweight.npy [E] if edges have weights

Shapes: N nodes, E edges.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from gassip.graph.store import index_type
from gassip.large.arrays import Appending, mapped, slab

BUCKETS, LEAST = 128, 10_000  # at most so many, of at least so many receivers
AT_ONCE = 2**22  # edges that are split at once
BUSIEST = 20_000  # neighbours of a node from which the order without numba takes too long
Edge = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # receivers, senders, weights


class EdgeSorter:
    """Edges as they come; in the end senders by receiver, each edge once."""

    def __init__(self, folder: Path, prefix: str, nodes: int, weighted: bool) -> None:
        self.folder, self.prefix, self.nodes, self.weighted = folder, prefix, nodes, weighted
        self.width = max(LEAST, -(-nodes // BUCKETS))  # receivers of a bucket
        self.given = 0

    def __enter__(self) -> "EdgeSorter":
        self.stack = ExitStack()
        count = -(-self.nodes // self.width)
        self.keys = [self._bucket("keys", k, "int64") for k in range(count)]
        self.weights = [self._bucket("weights", k, "float32") for k in range(count * self.weighted)]
        return self

    def _bucket(self, kind: str, number: int, dtype: str) -> Appending:
        path = self.folder / f"{self.prefix}{kind}-{number}.npy"
        return self.stack.enter_context(Appending(path, dtype))

    def __exit__(self, *error: object) -> None:
        self.stack.close()
        for file in (*self.keys, *self.weights):
            file.path.unlink(missing_ok=True)

    def add(self, receiver: np.ndarray, sender: np.ndarray, weight: np.ndarray | None) -> None:
        bucket = (receiver // self.width).astype(np.int16)
        order = np.argsort(bucket, kind="stable")
        keys = (receiver - bucket.astype(np.int64) * self.width) * self.nodes + sender
        keys, ends = keys[order], np.searchsorted(bucket[order], np.arange(len(self.keys) + 1))
        for number in np.flatnonzero(np.diff(ends)):
            part = slice(ends[number], ends[number + 1])
            self.keys[number].append(keys[part])
            if weight is not None:
                self.weights[number].append(weight[order[part]])
        self.given += len(receiver)

    def write(self) -> int:
        """The arrays; how many edges there are, each counted once."""
        self.stack.close()
        names = [self.folder / f"{self.prefix}{name}.npy" for name in ("indices", "weight")]
        counts = np.zeros(self.nodes + 1, dtype=np.int64)
        with ExitStack() as stack:
            senders = stack.enter_context(Appending(names[0], index_type(self.nodes)))
            weights = None
            if self.weighted:
                weights = stack.enter_context(Appending(names[1], "float32"))
            for number in range(len(self.keys)):
                keys, weight = self._sorted(number)
                senders.append(keys % self.nodes)
                if weights is not None:
                    weights.append(weight)
                low = number * self.width
                most = min(self.width, self.nodes - low)
                counts[low + 1 : low + 1 + most] = np.bincount(keys // self.nodes, minlength=most)
        np.save(self.folder / f"{self.prefix}indptr.npy", np.cumsum(counts))
        return senders.rows

    def _sorted(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        keys = np.load(self.keys[number].path)
        if not self.weighted:
            keys.sort()
            return keys[firsts(keys)], keys[:0]
        order = np.argsort(keys, kind="stable")
        keys, weight = keys[order], np.load(self.weights[number].path)[order]
        at = np.flatnonzero(firsts(keys))
        return keys[at], np.maximum.reduceat(weight, at) if len(at) else weight


def firsts(keys: np.ndarray) -> np.ndarray:
    """Which of sorted keys differ from the one before, [n] bool."""
    return np.concatenate([np.ones(min(1, len(keys)), dtype=bool), keys[1:] != keys[:-1]])


def sorted_edges(
    folder: Path, prefix: str, nodes: int, weighted: bool, given: Iterable[Edge]
) -> int:
    """All of an iterable of edges; their number."""
    with EdgeSorter(folder, prefix, nodes, weighted) as sorter:
        for receiver, sender, weight in given:
            sorter.add(receiver, sender, weight)
        return sorter.write()


def stored_pieces(folder: Path, prefix: str) -> Iterator[Edge]:
    """Edges that were sorted before, some millions at a time."""
    indptr, indices = (
        np.load(folder / f"{prefix}indptr.npy"),
        mapped(folder / f"{prefix}indices.npy"),
    )
    path = folder / f"{prefix}weight.npy"
    weight = mapped(path) if path.exists() else None
    start = 0
    while start < len(indptr) - 1:
        after = int(np.searchsorted(indptr, indptr[start] + AT_ONCE, side="right")) - 1
        stop = min(len(indptr) - 1, max(start + 1, after))
        low, high = int(indptr[start]), int(indptr[stop])
        receiver = np.repeat(np.arange(start, stop), np.diff(indptr[start : stop + 1]))
        sender = slab(indices, low, high).astype(np.int64)
        yield receiver, sender, None if weight is None else slab(weight, low, high)
        start = stop


def both_ways(edges: Iterator[Edge]) -> Iterator[Edge]:
    for receiver, sender, weight in edges:
        yield receiver, sender, weight
        yield sender, receiver, weight


def ordered_edges(folder: Path, prefix: str, place: np.ndarray | None, weighted: bool) -> None:
    """indptr.npy, indices.npy, weight.npy: node k comes to stand at place[k]."""
    if place is None:
        for name in ("indptr", "indices", *(("weight",) * weighted)):
            (folder / f"{prefix}{name}.npy").replace(folder / f"{name}.npy")
        return
    nodes = len(place)
    moved = ((place[t], place[s], w) for t, s, w in stored_pieces(folder, prefix))
    sorted_edges(folder, "", nodes, weighted, moved)


# The order of the nodes


def places(folder: Path, prefix: str, symmetric: bool, memory: int) -> np.ndarray | str:
    """place[k]: where node k comes to stand; or why the nodes keep the order of their files."""
    read = prefix
    if not symmetric:
        read = f"{prefix}both-"
        nodes = len(mapped(folder / f"{prefix}indptr.npy")) - 1
        bare = ((t, s, None) for t, s, _ in stored_pieces(folder, prefix))
        sorted_edges(folder, read, nodes, False, both_ways(bare))
    indptr, indices = np.load(folder / f"{read}indptr.npy"), mapped(folder / f"{read}indices.npy")
    nodes, walk = len(indptr) - 1, breadth_first()
    need = 40 * nodes + (indices.nbytes if walk else 20 * len(indices))
    if need > memory:
        return (
            f"nodes keep the order of their files: another needs {need / 2**30:.1f} GiB of memory"
        )
    if walk is not None:
        order = walk(indptr, indices, np.argsort(np.diff(indptr), kind="stable"))
    elif int(np.diff(indptr).max()) > BUSIEST:
        return "nodes keep the order of their files: with such large hubs another needs numba"
    else:
        order = by_scipy(indptr, indices)
    place = np.empty(nodes, dtype=np.int64)
    place[order] = np.arange(nodes)
    return place


@cache
def breadth_first() -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None:
    """Compiled; None without numba."""
    try:
        import numba
    except ImportError:
        return None
    compiled: Any = numba.njit(cache=True, boundscheck=False)(_breadth_first)
    return compiled


def _breadth_first(indptr: np.ndarray, indices: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Nodes as a walk from the first of `starts`, then from the next not yet met, meets them."""
    order = np.empty(len(starts), dtype=np.int64)
    met = np.zeros(len(starts), dtype=np.bool_)
    filled = 0
    for start in starts:
        if met[start]:
            continue
        at, met[start], order[filled] = filled, True, start
        filled += 1
        while at < filled:
            node = order[at]
            for e in range(indptr[node], indptr[node + 1]):
                near = indices[e]
                if not met[near]:
                    met[near], order[filled] = True, near
                    filled += 1
            at += 1
    return order


def by_scipy(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Reverse Cuthill-McKee; quadratic in the neighbours of a node."""
    nodes = len(indptr) - 1
    narrow = indptr.astype(np.int32) if indptr[-1] < 2**31 else indptr
    ones = np.ones(len(indices), dtype=np.int8)
    matrix = sp.csr_array((ones, np.asarray(indices), narrow), shape=(nodes, nodes))
    return np.asarray(reverse_cuthill_mckee(matrix, symmetric_mode=True), dtype=np.int64)
