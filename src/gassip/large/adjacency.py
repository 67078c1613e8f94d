"""Edges of a graph folder as given or read both ways.

    both ways     N_i ∪ {j : i ∈ N_j}, sorted; the reverse of an edge is as heavy as the edge

Shapes: N nodes, E edges.
"""

from pathlib import Path

import numpy as np
from scipy import sparse as sp

from gassip.errors import GassipError
from gassip.graph.store import GraphFolder
from gassip.large.arrays import slab
from gassip.large.kernels import Edges

CUT = "~"  # between how edges are read and which of them were kept


def as_matrix(edges: Edges) -> sp.csr_array:
    """In memory, with the weights or ones of a byte each."""
    values = np.ones(len(edges.indices), dtype=np.int8) if edges.weight is None else edges.weight
    narrow = edges.indptr.astype(np.int32) if edges.indptr[-1] < 2**31 else edges.indptr
    shape = (edges.nodes, edges.nodes)
    return sp.csr_array((np.asarray(values), np.asarray(edges.indices), narrow), shape=shape)


def symmetric(edges: Edges) -> bool:
    """Whether every edge has its reverse, equally heavy: sums of hashes of all edges and of all
    reverses agree, which else happens once in 2⁶⁴ times."""
    if not np.array_equal(in_degree(edges), np.diff(edges.indptr)):
        return False
    difference = 0
    with np.errstate(over="ignore"):
        for start, stop in edges.pieces():
            part = slice(int(edges.indptr[start]), int(edges.indptr[stop]))
            sender = slab(edges.indices, part.start, part.stop).astype(np.uint64)
            counts = np.diff(edges.indptr[start : stop + 1])
            receiver = np.repeat(np.arange(start, stop, dtype=np.uint64), counts)
            weight = np.zeros(1, dtype=np.uint64)
            if edges.weight is not None:
                weight = hashed(slab(edges.weight, part.start, part.stop).view(np.uint32))
            difference += int(hashed(hashed(sender) + receiver + weight).sum())
            difference -= int(hashed(hashed(receiver) + sender + weight).sum())
    return difference % 2**64 == 0


def hashed(values: np.ndarray) -> np.ndarray:
    """splitmix64: every bit of a number moves every other."""
    z = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def in_degree(edges: Edges) -> np.ndarray:
    """How often each node sends, [N]."""
    count = np.zeros(edges.nodes, dtype=np.int64)
    for start, stop in edges.pieces():
        piece = slab(edges.indices, int(edges.indptr[start]), int(edges.indptr[stop]))
        count += np.bincount(piece, minlength=edges.nodes)
    return count


def both_ways(edges: Edges) -> Edges:
    """Every edge and its reverse; of two weights the larger."""
    matrix = as_matrix(edges)
    joined = matrix.maximum(matrix.T.tocsr())
    joined.sort_indices()
    weight = None if edges.weight is None else joined.data
    return Edges(joined.indptr.astype(np.int64), joined.indices, weight)


def stored_edges(folder: GraphFolder, key: str, path: Path) -> Edges:
    """The edges as `given`, or read `both` ways, or a cut of these: kept beside the hops in
    `path`."""
    if key == "given":
        return Edges.of(folder)
    if CUT in key:
        kept = ["indptr", "indices", *(("weight",) if folder.has("weight") else ())]
        files = [path / f"cut-{name}.npy" for name in kept]
        if not all(file.exists() for file in files):
            raise GassipError(f"{path} no longer holds the edges that were kept; search again")
        return Edges.mapped([str(file) for file in files])
    names = ("indptr", "indices", "weight") if folder.has("weight") else ("indptr", "indices")
    if not all((path / f"both-{name}.npy").exists() for name in names):
        path.mkdir(parents=True, exist_ok=True)
        made = both_ways(Edges.of(folder))
        for name in names:
            beside = path / f"both-{name}.partial.npy"
            np.save(beside, getattr(made, name))
            beside.replace(path / f"both-{name}.npy")
    return Edges.mapped([str(path / f"both-{name}.npy") for name in names])
