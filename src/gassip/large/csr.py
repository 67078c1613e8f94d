"""Edges in any order, turned into senders by receiver without sorting in memory, and renumbered.

    indptr[t + 1] − indptr[t] = number of edges into t
    order: reverse Cuthill-McKee, so that the rows of neighbours lie near each other

Shapes: N nodes, E edges.
"""

from pathlib import Path

import numpy as np
from scipy import sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from gassip.graph.store import create, index_type


def locality_order(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """order[k]: the node that comes to stand at k."""
    nodes = len(indptr) - 1
    ones = np.broadcast_to(np.int8(1), indices.shape)
    narrow = indptr.astype(np.int32) if indptr[-1] < 2**31 else indptr
    matrix = sp.csr_array((ones, indices, narrow), shape=(nodes, nodes), copy=False)
    return np.asarray(reverse_cuthill_mckee(matrix, symmetric_mode=False), dtype=np.int64)


def write_csr(
    folder: Path,
    indptr: np.ndarray,
    indices: np.ndarray,
    weight: np.ndarray | None,
    order: np.ndarray | None,
) -> None:
    """The arrays of the store, in the order given, row by row sorted by sender."""
    nodes, kind = len(indptr) - 1, index_type(len(indptr) - 1)
    values = np.ones(len(indices), dtype=np.int8) if weight is None else weight
    matrix = sp.csr_array((values, indices, indptr), shape=(nodes, nodes), copy=False)
    if order is not None:
        matrix = matrix[order]
        place = np.empty(nodes, dtype=matrix.indices.dtype)
        place[order] = np.arange(nodes)
        matrix.indices = place[matrix.indices]
    matrix.sort_indices()
    np.save(folder / "indptr.npy", matrix.indptr.astype(np.int64))
    np.save(folder / "indices.npy", matrix.indices.astype(kind))
    if weight is not None:
        np.save(folder / "weight.npy", matrix.data.astype(np.float32))


def counted(nodes: int, receiver: np.ndarray) -> np.ndarray:
    """indptr [N + 1] of sorted receivers."""
    indptr = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(receiver, minlength=nodes), out=indptr[1:])
    return indptr


def permuted_rows(folder: Path, name: str, values: np.ndarray, order: np.ndarray | None) -> None:
    """Rows of an array in the order given, block by block."""
    out = create(folder, name, str(values.dtype), values.shape)
    rows = max(1, 2**26 // max(1, values[:1].nbytes))
    for start in range(0, len(values), rows):
        stop = min(start + rows, len(values))
        taken = slice(start, stop) if order is None else order[start:stop]
        out[start:stop] = values[taken]
    out.flush()
