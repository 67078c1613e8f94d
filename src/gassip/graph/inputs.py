"""Features and edges as they come, checked, cleaned and turned into what a graph stores."""

from collections.abc import Callable

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor

from gassip.errors import GassipError
from gassip.graph.checks import both_directions, checked_edges, merged_edges
from gassip.graph.csr import Csr
from gassip.graph.limits import check_columns

SPARSE_BELOW = 0.15  # density under which X is kept as CSR


def normalize_rows(x: Tensor | Csr) -> Tensor | Csr:
    """Each row divided by the sum of its absolute values; empty rows stay zero."""
    if isinstance(x, Csr):
        assert x.value is not None
        total = torch.zeros(x.shape[0]).index_add_(0, x.row, x.value.abs()).clamp_min_(1e-12)
        return x.with_value(x.value / total[x.row])
    return x / x.abs().sum(1, keepdim=True).clamp_min(1e-12)


def to_numpy(value: "np.ndarray | Tensor") -> np.ndarray:
    """A dense tensor from any device, or what numpy takes for an array."""
    if not isinstance(value, Tensor):
        return np.asarray(value)
    if value.layout != torch.strided:
        raise GassipError(
            f"a tensor of layout {value.layout} was given where a dense one is expected; use "
            f".to_dense()"
        )
    short = value.is_floating_point() and value.element_size() < 4  # numpy has no bfloat16
    array: np.ndarray = (value.float() if short else value).numpy(force=True)
    return array


def to_table(x: Tensor) -> "np.ndarray | sp.csr_array":
    """A tensor as numpy; one of torch's sparse layouts as scipy."""
    if x.layout == torch.strided:
        return to_numpy(x)
    coo = x.detach().to_sparse_coo().coalesce()
    if coo.sparse_dim() != 2 or coo.dense_dim() != 0:
        raise GassipError(
            f"x must be a sparse table [nodes, features], not a hybrid of shape {list(x.shape)}"
        )
    row, col = to_numpy(coo.indices())
    return sp.csr_array((to_numpy(coo.values()), (row, col)), shape=tuple(x.shape))


def checked_inputs(
    x: "np.ndarray | Tensor | sp.spmatrix | sp.sparray | Csr",
    edge_index: "np.ndarray | Tensor",
    edge_weight: "np.ndarray | Tensor | None",
    undirected: bool,
    normalize: bool,
    said: list[str],
) -> tuple[Tensor | Csr, np.ndarray, np.ndarray | None]:
    """Features, edges and their weights, checked and cleaned."""
    features = _features(x)
    weight = None if edge_weight is None else to_numpy(edge_weight)
    edges, weight = _edges(to_numpy(edge_index), weight, features.shape[0], said)
    if undirected:
        edges, weight = both_directions(edges, weight)
    return normalize_rows(features) if normalize else features, edges, weight


def _features(x: "np.ndarray | Tensor | sp.spmatrix | sp.sparray | Csr") -> Tensor | Csr:
    """Finite float32 [N, D]; CSR where sparse enough to pay."""
    x = x.to_scipy() if isinstance(x, Csr) else to_table(x) if isinstance(x, Tensor) else x
    table = x if sp.issparse(x) else np.asarray(x)
    if len(table.shape) != 2 or 0 in table.shape:
        raise GassipError(
            f"x must be a table [nodes, features] with at least one of each, not of shape "
            f"{table.shape}"
        )
    if table.dtype.kind not in "fiub":
        raise GassipError(f"x must hold numbers, not {table.dtype}")
    with np.errstate(
        over="ignore"
    ):  # what float32 cannot hold becomes infinite and is reported as such
        table = table.astype(np.float32)
    if sp.issparse(table):
        matrix = sp.csr_array(table)
        check_columns(matrix.shape[1], matrix.nnz)
        _check_finite(
            matrix.data, lambda at: int(np.searchsorted(matrix.indptr, at, side="right")) - 1
        )
        dense = matrix.nnz >= SPARSE_BELOW * matrix.shape[0] * matrix.shape[1]
        return torch.from_numpy(matrix.toarray()) if dense else Csr.from_scipy(matrix)
    _check_finite(table.ravel(), lambda at: at // table.shape[1])
    if np.count_nonzero(table) < SPARSE_BELOW * table.size:
        return Csr.from_scipy(sp.csr_array(table))
    return torch.from_numpy(table)


def _check_finite(values: np.ndarray, row_of: Callable[[int], int]) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        first = f"the first for node {row_of(int(bad[0]))}"
        raise GassipError(
            f"x has {bad.size} values that are NaN or infinite, {first}; fill or drop them"
        )


def _edges(
    edge_index: np.ndarray, weight: np.ndarray | None, n: int, said: list[str]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Checked and merged edges (graph/checks.py), of which there must be some."""
    edges, weight = checked_edges(edge_index, weight, n)
    if edges.shape[1] == 0:
        raise GassipError(
            "the graph has no edges; a GNN needs some (for features alone use an MLP)"
        )
    if bool((edges[0] == edges[1]).all()):
        raise GassipError("the graph has no edges besides self-loops; a GNN needs some")
    edges, weight = merged_edges(edges, weight, n, said)
    if edges.shape[1] == 0:
        raise GassipError("edge_weight is 0 for every edge; a GNN needs some edges with weight")
    return edges, weight
