"""Stored entries of a sparse matrix, and products with what dropout leaves of them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse as sp
from torch import Tensor

from gassip.graph.csr import Csr
from gassip.nn.dropout import passing

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class Entries:
    """A sparse matrix S without gradients: its entries row by row."""

    rowptr: Tensor  # [rows + 1] int32
    col: Tensor  # [nnz] int32
    value: Tensor  # [nnz]

    @cached_property
    def row(self) -> npt.NDArray[np.int32]:
        """The row of each entry, [nnz]."""
        return np.repeat(
            np.arange(self.rowptr.numel() - 1, dtype=np.int32), self.rowptr.diff().numpy()
        )

    def times(self, dense: Tensor) -> Tensor:
        """S D without a gradient, [rows, F]."""
        return torch.embedding_bag(dense, self.col, self.rowptr, False, 0, False, self.value, True)[
            0
        ]  # 0: sums

    def transposed_times(self, dense: Tensor, frame: sp.csc_array) -> Tensor:
        """Sᵀ D without a gradient, [columns, F]; `frame` is any matrix of the shape of Sᵀ, to be
        filled.

        Slower than `times`, but faster than to transpose for one product.
        """
        frame.data, frame.indices, frame.indptr = (
            self.value.numpy(),
            self.col.numpy(),
            self.rowptr.numpy(),
        )
        return torch.from_numpy(frame @ dense.numpy())

    def among(self, passed: Flags, scale: float) -> "Entries":
        """Those marked in `passed` [nnz] only, `scale` times as large."""
        index = np.flatnonzero(
            passed
        )  # numpy: without branches, which random numbers would mislead
        rowptr = np.zeros(self.rowptr.numel(), dtype=np.int32)
        np.cumsum(np.bincount(self.row.take(index), minlength=rowptr.size - 1), out=rowptr[1:])
        col, value = self.col.numpy().take(index), self.value.numpy().take(index)
        value *= np.float32(scale)
        return Entries(
            rowptr=torch.from_numpy(rowptr),
            col=torch.from_numpy(col),
            value=torch.from_numpy(value),
        )


def rows_of(matrix: Csr, rows: Tensor) -> tuple[Csr, Tensor]:
    """The matrix with these rows only, in this order, and which entries it took."""
    starts, counts = matrix.rowptr.long()[rows], matrix.rowptr.diff().long()[rows]
    rowptr = torch.zeros(rows.numel() + 1, dtype=torch.int64)
    rowptr[1:] = counts.cumsum(0)
    entries = torch.repeat_interleave(starts - rowptr[:-1], counts) + torch.arange(int(rowptr[-1]))
    value = None if matrix.value is None else matrix.value[entries]
    return Csr(
        rowptr.to(torch.int32), matrix.col[entries], value, (rows.numel(), matrix.shape[1])
    ), entries


def both_ways(matrix: Csr) -> tuple[Entries, Entries]:
    """S and Sᵀ."""
    assert matrix.value is not None
    rowptr, col, order = matrix.transpose
    columns = Entries(rowptr=rowptr, col=col, value=matrix.value[order])
    return Entries(rowptr=matrix.rowptr, col=matrix.col, value=matrix.value), columns


@dataclass(frozen=True, eq=False, kw_only=True)
class Sparse:
    """The rows of a sparse X that a field reads, their transpose, and where each entry of the rows
    stands in X."""

    rows: Entries
    columns: Entries
    entries: Ints

    @staticmethod
    def of(x: Csr, nodes: Tensor) -> "Sparse":
        matrix, entries = rows_of(x, nodes)
        rows, columns = both_ways(matrix)
        return Sparse(rows=rows, columns=columns, entries=entries.numpy())

    def dropped(self, bits: Tensor, p: float) -> Entries:
        """The entries that `dropout.kept` keeps under these random numbers, one per entry of X."""
        least, scale = passing(p)
        return self.rows.among((bits.numpy() >= least).take(self.entries), scale)
