"""Edges and tables of a graph with numpy and scipy alone: checked, cleaned, canonical.

Everything is float32 under int32 indices. Shapes: N nodes, D features, E directed edges.
"""

from typing import TypeAlias

import numpy as np
from scipy import sparse as sp

from gassip.errors import GassipError

Array = np.ndarray
Table: TypeAlias = np.ndarray | sp.csr_array


def checked_edges(
    edge_index: Array, weight: Array | None, nodes: int
) -> tuple[Array, Array | None]:
    """edge_index [2, E] int64 and weight [E] float32, or one line that says what is wrong."""
    ends = np.asarray(edge_index)
    if ends.ndim != 2 or ends.shape[0] != 2:
        raise GassipError(
            f"edge_index must have shape [2, edges], not {list(ends.shape)}; transpose it?"
        )
    if ends.size and not np.issubdtype(ends.dtype, np.integer):
        raise GassipError(f"edge_index must hold whole numbers, not {ends.dtype}")
    ends = ends.astype(np.int64)
    value = None if weight is None else checked_weight(np.asarray(weight), ends.shape[1])
    low, top = int(ends.min(initial=0)), int(ends.max(initial=-1))
    if low < 0:
        raise GassipError(f"edge_index refers to node {low}; nodes are numbered 0..{nodes - 1}")
    if top >= nodes:
        one_based = int(ends.min()) >= 1 and top == nodes
        hint = "; is the graph 1-based?" if one_based else ""
        raise GassipError(
            f"edge_index refers to node {top}, but x has only {nodes} rows (0..{nodes - 1}){hint}"
        )
    return ends, value


def checked_weight(weight: Array, edges: int) -> Array:
    """[E] float32, finite, 0 or more."""
    if weight.dtype.kind not in "fiub":
        raise GassipError(f"edge_weight must hold numbers, not {weight.dtype}")
    with np.errstate(over="ignore"):
        value: Array = weight.astype(np.float32).reshape(-1)
    if value.size != edges:
        raise GassipError(f"edge_weight has {value.size} entries for {edges} edges")
    if not np.isfinite(value).all() or (value < 0).any():
        raise GassipError(
            "edge_weight has values that are negative, NaN or infinite; weights must be 0 or more"
        )
    if (total := float(value.sum(dtype=np.float64))) > float(np.finfo(np.float32).max):
        raise GassipError(
            f"edge_weight adds up to {total:.3g}, more than float32 holds; scale the weights"
        )
    return value


def merged_edges(
    edges: Array, weight: Array | None, nodes: int, said: list[str]
) -> tuple[Array, Array | None]:
    """Sorted by target, then source; self-loops and weights of 0 dropped; repeats merged (given
    weights are summed). What was done is added to `said`."""
    loops = edges[0] == edges[1]
    if loops.any():
        said.append(
            f"{int(loops.sum())} self-loops dropped (every operation carries the node itself)"
        )
        edges, weight = edges[:, ~loops], None if weight is None else weight[~loops]
    key, inverse = np.unique(edges[1] * nodes + edges[0], return_inverse=True)
    if key.size < edges.shape[1]:
        said.append(f"{edges.shape[1] - key.size} repeated edges merged")
    if weight is not None:
        weight = np.bincount(inverse, weight, minlength=key.size).astype(np.float32)
        if not weight.all():
            count = int((weight == 0).sum())
            said.append(f"{count} edges of weight 0 dropped (an edge of no weight is none)")
            key, weight = key[weight > 0], weight[weight > 0]
    return np.stack([key % nodes, key // nodes]), weight


def both_directions(edges: Array, weight: Array | None) -> tuple[Array, Array | None]:
    """Every edge in both directions; where both were given, the larger weight."""
    both = np.concatenate([edges, edges[::-1]], axis=1)
    n = int(both.max(initial=0)) + 1
    key, inverse = np.unique(both[1] * n + both[0], return_inverse=True)
    if weight is not None:
        merged = np.zeros(key.size, dtype=np.float32)
        np.maximum.at(merged, inverse, np.concatenate([weight, weight]))
        weight = merged
    return np.stack([key % n, key // n]), weight


def clean_edges(
    edge_index: Array, weight: Array | None, nodes: int, undirected: bool
) -> sp.csr_array:
    """Checked and merged edges as a matrix [N, N], row = receiver; reversed too where the run's
    graph was."""
    edges, value = merged_edges(*checked_edges(edge_index, weight, nodes), nodes, [])
    if undirected:
        edges, value = both_directions(edges, value)
    if value is None:
        value = np.ones(edges.shape[1], dtype=np.float32)
    return canonical(sp.csr_array((value, (edges[1], edges[0])), shape=(nodes, nodes)))


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
