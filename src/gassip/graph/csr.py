"""A sparse matrix S [R, C] in compressed rows, its transpose and its pattern with a diagonal.

    row r holds entries rowptr[r] .. rowptr[r + 1] - 1, entry e stands in column col[e]

Indices are int32. Products with gradients are in nn/kernels.py.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Csr:
    """A sparse matrix in compressed rows. `value` is None where the caller supplies the values."""

    rowptr: Tensor  # [R + 1] int32
    col: Tensor  # [nnz] int32, sorted inside a row
    value: Tensor | None  # [nnz]
    shape: tuple[int, int]
    once: bool = False  # for one product and its gradient: not worth a transpose

    @staticmethod
    def from_scipy(matrix: sp.spmatrix | sp.sparray) -> "Csr":
        """A canonical copy of any scipy sparse matrix: rows sorted, repeats summed, zeros
        dropped."""
        csr = sp.csr_array(matrix, dtype=np.float32, copy=True)
        csr.sum_duplicates()
        csr.eliminate_zeros()
        return Csr(
            torch.from_numpy(csr.indptr.astype(np.int32)),
            torch.from_numpy(csr.indices.astype(np.int32)),
            torch.from_numpy(csr.data),
            (int(csr.shape[0]), int(csr.shape[1])),
        )

    @staticmethod
    def from_sorted_edges(row: Tensor, col: Tensor, shape: tuple[int, int]) -> "Csr":
        """The pattern of edges already sorted by row, without values."""
        rowptr = torch.zeros(shape[0] + 1, dtype=torch.int32, device=row.device)
        rowptr[1:] = torch.bincount(row, minlength=shape[0]).cumsum(0)
        return Csr(rowptr, col.to(torch.int32), None, shape)

    def to_scipy(self) -> sp.csr_array:
        """A scipy copy; a pattern without values becomes a matrix of ones."""
        value = torch.ones(self.nnz) if self.value is None else self.value
        arrays = (value.cpu().numpy(), self.col.cpu().numpy(), self.rowptr.cpu().numpy())
        return sp.csr_array(
            arrays, shape=self.shape, copy=True
        )  # else it would share memory with the tensors

    def to(self, device: torch.device | str) -> "Csr":
        value = None if self.value is None else self.value.to(device)
        return Csr(self.rowptr.to(device), self.col.to(device), value, self.shape)

    def columns(self, index: Tensor) -> "Csr":
        """Only the columns named in `index` (ascending), renumbered 0, 1, ... in its order."""
        place = torch.full((self.shape[1],), -1, dtype=torch.int32, device=self.col.device)
        place[index] = torch.arange(index.numel(), dtype=torch.int32, device=self.col.device)
        col = place[self.col64]
        kept = col >= 0
        before = torch.zeros(self.nnz + 1, dtype=torch.int32, device=self.col.device)
        before[1:] = kept.cumsum(0)
        value = None if self.value is None else self.value[kept]
        return Csr(before[self.rowptr.long()], col[kept], value, (self.shape[0], index.numel()))

    def with_value(self, value: Tensor) -> "Csr":
        """The same pattern with other values; the transpose is shared."""
        other = Csr(self.rowptr, self.col, value, self.shape)
        other.__dict__["transpose"] = self.transpose
        return other

    @property
    def nnz(self) -> int:
        return self.col.numel()

    @cached_property
    def row(self) -> Tensor:
        """The row of each entry, [nnz] int64."""
        counts = self.rowptr.diff().long()
        return torch.repeat_interleave(torch.arange(self.shape[0], device=self.col.device), counts)

    @cached_property
    def col64(self) -> Tensor:
        """The column of each entry as int64, for the torch functions that insist on it."""
        return self.col.long()

    @cached_property
    def transpose(self) -> tuple[Tensor, Tensor, Tensor]:
        """Row pointers and columns of Sᵀ, and where each of its entries stands in S."""
        if self.col.device.type == "cpu":  # by counting, which is faster than to sort
            arrays = (np.arange(self.nnz), self.col.numpy(), self.rowptr.numpy())
            turned = sp.csr_array(arrays, shape=self.shape).tocsc()
            parts = (turned.indptr, turned.indices, turned.data)
            rowptr, col, order = (torch.from_numpy(part) for part in parts)
            return rowptr, col, order
        order = torch.argsort(self.col, stable=True)
        rowptr = torch.zeros(self.shape[1] + 1, dtype=torch.int32, device=self.col.device)
        rowptr[1:] = torch.bincount(self.col, minlength=self.shape[1]).cumsum(0)
        return rowptr, self.row[order].to(torch.int32), order

    @cached_property
    def transposed_value(self) -> Tensor:
        """The values in the order of Sᵀ, [nnz]."""
        assert self.value is not None
        return self.value.index_select(0, self.transpose[2])

    @cached_property
    def looped(self) -> tuple["Csr", Tensor, Tensor]:
        """The pattern of a square S with its diagonal, last in each row; where each entry of S
        stands in it, and each entry of the diagonal."""
        nodes = torch.arange(self.shape[0], device=self.col.device)
        entry, loop = (
            torch.arange(self.nnz, device=self.col.device) + self.row,
            self.rowptr[1:].long() + nodes,
        )
        col = torch.empty(self.nnz + self.shape[0], dtype=torch.int32, device=self.col.device)
        col[entry], col[loop] = self.col, nodes.to(torch.int32)
        rowptr = self.rowptr + torch.arange(
            self.shape[0] + 1, dtype=torch.int32, device=self.col.device
        )
        return Csr(rowptr, col, None, self.shape), entry, loop

    def sampled(self, left: Tensor, right: Tensor) -> Tensor:
        """<left_row(e), right_col(e)> for each entry e, without the dense product, [nnz]."""
        with (
            warnings.catch_warnings()
        ):  # torch calls its CSR layout beta each time a process first uses it
            warnings.simplefilter("ignore", UserWarning)
            zeros = left.new_zeros(self.nnz)
            template = torch.sparse_csr_tensor(
                self.rowptr, self.col, zeros, self.shape, check_invariants=False
            )
        return torch.sparse.sampled_addmm(template, left, right.t(), beta=0.0).values()
