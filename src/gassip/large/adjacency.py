"""Edges of a graph folder as given or read both ways.

    both ways     N_i ∪ {j : i ∈ N_j}, sorted; the reverse of an edge is as heavy as the edge

Shapes: N nodes, E edges.
"""

from pathlib import Path

import numpy as np
from scipy import sparse as sp

from gassip.errors import GassipError
from gassip.graph.store import GraphFolder
from gassip.large.kernels import Edges

CUT = "~"  # between how edges are read and which of them were kept


def as_matrix(edges: Edges) -> sp.csr_array:
    """In memory, with the weights or ones of a byte each."""
    values = np.ones(len(edges.indices), dtype=np.int8) if edges.weight is None else edges.weight
    narrow = edges.indptr.astype(np.int32) if edges.indptr[-1] < 2**31 else edges.indptr
    shape = (edges.nodes, edges.nodes)
    return sp.csr_array((np.asarray(values), np.asarray(edges.indices), narrow), shape=shape)


def symmetric(edges: Edges) -> bool:
    """Whether every edge has its reverse, equally heavy."""
    if not np.array_equal(in_degree(edges), np.diff(edges.indptr)):
        return False
    matrix = as_matrix(edges)
    back = matrix.T.tocsr()
    return bool(
        np.array_equal(back.indices, matrix.indices) and np.array_equal(back.data, matrix.data)
    )


def in_degree(edges: Edges) -> np.ndarray:
    """How often each node sends, [N]."""
    count = np.zeros(edges.nodes, dtype=np.int64)
    for start, stop in edges.pieces():
        piece = np.asarray(edges.indices[edges.indptr[start] : edges.indptr[stop]])
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
