"""How alike the two ends of each edge are, for dense or sparse features.

    cos(i, j) = x_i·x_j / (|x_i| |x_j|)
    jaccard(i, j) = |S_i ∩ S_j| / |S_i ∪ S_j|,   S_i = {d: x_id ≠ 0}

Both are 0 where an end has no features. Edges are taken in blocks, so that memory does not grow
with their number. And whom each node is most like, by the cosine, in a bag of words with each word
weighing log(N / nodes that have it):

    A + w S,   S_ij = 1 where i is among the k nodes most like j or j among those most like i,   w Σ
               S = 2 Σ A

And how much more often neighbours have one label than chance has it:

    h = (s − r) / (1 − r),   s share of edges whose ends have one label,   r = Σ_c p_c²,   p_c share
                             of ends in class c
"""

from dataclasses import replace

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor

from gassip.graph.csr import Csr
from gassip.graph.graph import Graph

BLOCK = 1 << 16  # edges at a time
DENSE_BLOCK = 1 << 24  # values at a time, for dense features


def dots(x: Tensor | Csr, adjacency: Csr) -> Tensor:
    """x_i·x_j for each entry (i, j), [E]."""
    parts = []
    if isinstance(x, Csr):
        table = x.to_scipy()
        row, col = adjacency.row.cpu().numpy(), adjacency.col.cpu().numpy()
        for start in range(0, adjacency.nnz, BLOCK):
            block = slice(start, start + BLOCK)
            parts.append(
                np.asarray(table[row[block]].multiply(table[col[block]]).sum(axis=1)).reshape(-1)
            )
        joined = np.concatenate(parts) if parts else np.zeros(0, np.float32)
        return torch.from_numpy(joined.astype(np.float32)).to(adjacency.col.device)
    step = max(1, DENSE_BLOCK // x.shape[1])
    sums = [
        (x[adjacency.row[start : start + step]] * x[adjacency.col64[start : start + step]]).sum(1)
        for start in range(0, adjacency.nnz, step)
    ]
    return torch.cat(sums) if sums else x.new_zeros(0)


def cosine(x: Tensor | Csr, adjacency: Csr) -> Tensor:
    """cos(i, j) for each entry (i, j), [E]."""
    norm = _row_sums(x, squared=True).sqrt()
    below = norm[adjacency.row] * norm[adjacency.col64]
    return torch.where(below > 0, dots(x, adjacency) / torch.where(below > 0, below, 1.0), 0.0)


def jaccard(x: Tensor | Csr, adjacency: Csr) -> Tensor:
    """jaccard(i, j) for each entry (i, j), [E]."""
    present = (
        x.with_value((x.value != 0).float())
        if isinstance(x, Csr) and x.value is not None
        else _present(x)
    )
    size = _row_sums(present, squared=False)
    both = dots(present, adjacency)
    either = size[adjacency.row] + size[adjacency.col64] - both
    return torch.where(either > 0, both / torch.where(either > 0, either, 1.0), 0.0)


def joined(graph: Graph, count: int) -> Graph:
    """A + w S: the graph with light edges between each node and the `count` nodes most like it."""
    node, other = nearest(graph.without_degrees.x, count)
    n, ones = graph.num_nodes, np.ones(node.size, np.float32)
    alike = sp.csr_array((ones, (node, other)), shape=(n, n))
    alike = alike.maximum(alike.T)
    if alike.nnz == 0:
        return graph
    sender, receiver = graph.edge_index.cpu().numpy()
    given = sp.csr_array((graph.weight.cpu().numpy(), (receiver, sender)), shape=(n, n))
    share = 2 * float(given.sum()) / alike.nnz or 1.0  # of a graph without edges, only S
    both = sp.coo_array(
        (given + np.float32(share) * alike).tocsr()
    )  # row by row: sorted by receiver
    edges = torch.from_numpy(np.stack([both.col, both.row]).astype(np.int64))
    weight = torch.from_numpy(both.data.astype(np.float32))
    return replace(graph, edge_index=edges.to(graph.device), edge_weight=weight.to(graph.device))


def nearest(x: Tensor | Csr, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Node, and one of the at most `count` others whose cosine with it is highest and above 0."""
    table = unit_rows(x)
    n = table.shape[0]
    count, step, parts = min(count, n - 1), max(1, DENSE_BLOCK // n), []
    for start in range(0, n if count > 0 else 0, step):
        rows = np.arange(start, min(n, start + step))
        product = table[rows] @ table.T
        cosines = product.toarray() if sp.issparse(product) else product
        cosines[np.arange(rows.size), rows] = -1
        top = np.argpartition(cosines, -count, axis=1)[:, -count:]
        alike = np.take_along_axis(cosines, top, 1) > 0
        parts.append(np.stack([np.repeat(rows, alike.sum(1)), top[alike]]))
    node, other = np.concatenate(parts, 1) if parts else np.zeros((2, 0), np.int64)
    return node, other


def unit_rows(x: Tensor | Csr) -> "np.ndarray | sp.csr_array":
    """x with rows of length 1 (or 0), words weighed by how rare they are where it is a bag of
    words."""
    if isinstance(x, Tensor):
        return (x / x.norm(dim=1, keepdim=True).clamp_min(1e-12)).cpu().numpy()
    table = x.to_scipy()
    if is_bag(x):
        table.data[:] = 1
        rarity = np.log(table.shape[0] / np.maximum(table.sum(0), 1)).astype(np.float32)
        table = sp.csr_array(table @ sp.diags_array(rarity))
    length = np.sqrt(np.asarray(table.multiply(table).sum(1)))
    return sp.csr_array(sp.diags_array((1 / np.maximum(length, 1e-12)).astype(np.float32)) @ table)


def is_bag(x: Tensor | Csr) -> bool:
    """Whether each row holds one value besides 0: a bag of words, perhaps divided by its size."""
    if isinstance(x, Csr):
        assert x.value is not None
        value, row = x.value, x.row
    else:
        row, column = torch.nonzero(x, as_tuple=True)
        value = x[row, column]
    low = value.new_full((x.shape[0],), torch.inf).scatter_reduce(0, row, value, "amin")
    high = value.new_full((x.shape[0],), -torch.inf).scatter_reduce(0, row, value, "amax")
    return bool((value > 0).all() and (low[row] == high[row]).all())


def _present(x: Tensor | Csr) -> Tensor:
    assert isinstance(x, Tensor)
    return (x != 0).float()


def _row_sums(x: Tensor | Csr, *, squared: bool) -> Tensor:
    """Σ_d x_id, or Σ_d x_id², [N]."""
    if isinstance(x, Csr):
        assert x.value is not None
        value = x.value**2 if squared else x.value
        return value.new_zeros(x.shape[0]).index_add(0, x.row, value)
    return (x**2 if squared else x).sum(1)
