"""Edges and tables of a graph with numpy and scipy alone: checked, cleaned, canonical.

Everything is float32 under int32 indices. Shapes: N nodes, D features, E directed edges.
"""

from typing import TypeAlias

import numpy as np
from scipy import sparse as sp

from gassip.errors import GassipError

Array = np.ndarray
Table: TypeAlias = np.ndarray | sp.csr_array


def clean_edges(
    edge_index: Array, weight: Array | None, nodes: int, undirected: bool
) -> sp.csr_array:
    """As graph.py: self-loops dropped, repeats merged (given weights summed), reversed where the
    run's graph was."""
    ends = np.asarray(edge_index)
    if ends.ndim != 2 or ends.shape[0] != 2 or ends.dtype.kind not in "iu":
        raise GassipError(
            f"edge_index must be whole numbers of shape [2, edges], not {ends.dtype} "
            f"{list(ends.shape)}"
        )
    if ends.size and not 0 <= int(ends.min()) <= int(ends.max()) < nodes:
        raise GassipError(
            f"edge_index refers to nodes {ends.min()}..{ends.max()}; there are only 0..{nodes - 1}"
        )
    value = (
        np.ones(ends.shape[1], dtype=np.float32)
        if weight is None
        else np.asarray(weight, np.float32).reshape(-1)
    )
    if value.size != ends.shape[1] or not np.isfinite(value).all() or (value < 0).any():
        raise GassipError(
            f"edge_weight must hold {ends.shape[1]} numbers of 0 or more, one for each edge"
        )
    apart = ends[0] != ends[1]
    edges = sp.csr_array((value[apart], (ends[1][apart], ends[0][apart])), shape=(nodes, nodes))
    edges = edges.maximum(edges.T) if undirected else edges
    edges = canonical(edges)
    return pattern(edges) if weight is None else edges


def canonical(matrix: sp.csr_array) -> sp.csr_array:
    """Rows sorted, repeats summed, zeros dropped, float32 and int32."""
    out = sp.csr_array(
        matrix, dtype=np.float32, copy=True
    )  # what was read from a file cannot be written to
    out.sum_duplicates()
    out.eliminate_zeros()
    indices, indptr = out.indices.astype(np.int32), out.indptr.astype(np.int32)
    return sp.csr_array((out.data, indices, indptr), shape=out.shape)


def pattern(matrix: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(
        (np.ones_like(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape
    )


def row_sums(indptr: Array, data: Array) -> Array:
    return np.bincount(
        np.repeat(np.arange(indptr.size - 1), np.diff(indptr)), data, indptr.size - 1
    ).astype(np.float32)


def scaled(matrix: sp.csr_array, factor: Array, *, both: bool) -> sp.csr_array:
    """m_ij f_i, and f_j where `both`; inf as a divisor has made f 0."""
    value = matrix.data * np.repeat(factor.astype(np.float32), np.diff(matrix.indptr))
    if both:
        value *= factor.astype(np.float32)[matrix.indices]
    return sp.csr_array((value, matrix.indices, matrix.indptr), shape=matrix.shape)


def take(matrix: sp.csr_array, rows: Array) -> sp.csr_array:
    """Some rows; scipy's own indexing costs several times as much for a few of them."""
    first = matrix.indptr[rows]
    counts = matrix.indptr[rows + 1] - first
    indptr = np.zeros(rows.size + 1, dtype=np.int32)
    np.cumsum(counts, out=indptr[1:])
    at = np.arange(indptr[-1]) + np.repeat(first - indptr[:-1], counts)
    return sp.csr_array(
        (matrix.data[at], matrix.indices[at], indptr), shape=(rows.size, matrix.shape[1])
    )


def normalized(x: Table) -> Table:
    """Each row divided by the sum of its absolute values; empty rows stay zero."""
    if isinstance(x, sp.csr_array):
        return scaled(x, 1 / np.maximum(row_sums(x.indptr, np.abs(x.data)), 1e-12), both=False)
    return x / np.maximum(np.abs(x).sum(1, keepdims=True), 1e-12)


def dense(x: Table) -> Array:
    return x.toarray() if isinstance(x, sp.csr_array) else x


def checked(data: Array, indices: Array, indptr: Array, shape: tuple[int, int]) -> sp.csr_array:
    """scipy trusts these arrays and reads out of bounds where they lie, so they are checked
    first."""
    rises = (
        indptr.shape == (shape[0] + 1,) and indptr[0] == 0 and bool((np.diff(indptr) >= 0).all())
    )
    inside = indices.size == 0 or (int(indices.min()) >= 0 and int(indices.max()) < shape[1])
    if not rises or not inside or indptr[-1] != indices.size or data.shape != indices.shape:
        raise GassipError(f"a sparse table does not have the shape {list(shape)}")
    return sp.csr_array((data, indices.astype(np.int32), indptr.astype(np.int32)), shape=shape)
