"""How alike the two ends of each edge are, for dense or sparse features.

    cos(i, j) = x_i·x_j / (|x_i| |x_j|)
    jaccard(i, j) = |S_i ∩ S_j| / |S_i ∪ S_j|,   S_i = {d: x_id ≠ 0}

Both are 0 where an end has no features. Edges are taken in blocks, so that memory does not grow with their number.
"""

import numpy as np
import torch
from torch import Tensor

from gassip.sparse import Csr

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
            parts.append(np.asarray(table[row[block]].multiply(table[col[block]]).sum(axis=1)).reshape(-1))
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
    present = x.with_value((x.value != 0).float()) if isinstance(x, Csr) and x.value is not None else _present(x)
    size = _row_sums(present, squared=False)
    both = dots(present, adjacency)
    either = size[adjacency.row] + size[adjacency.col64] - both
    return torch.where(either > 0, both / torch.where(either > 0, either, 1.0), 0.0)


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
