"""The two sparse products everything runs on: A·H for propagation, X·W for bags of words.

    Y = S(v) D         S [R, C] sparse with values v [nnz], D [C, F] dense
    dD = S(v)ᵀ dY      dv_e = <dY_row(e), D_col(e)>

`torch.nn.functional.embedding_bag` is torch's fastest sparse-times-dense on a CPU and runs on a GPU
too, but its own backward is slow and `torch.sparse` materialises a dense gradient for the values,
so the backward is written here: the same kernel on the transpose, and a sampled product for the
values. Indices are int32.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F

NARROW = 16  # columns under which `product` turns its matrices round


@dataclass(frozen=True, eq=False)
class Csr:
    """A sparse matrix in compressed rows. `value` is None where the caller supplies the values."""

    rowptr: Tensor  # [R + 1] int32
    col: Tensor  # [nnz] int32, sorted inside a row
    value: Tensor | None  # [nnz]
    shape: tuple[int, int]

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
        order = torch.argsort(self.col, stable=True)
        rowptr = torch.zeros(self.shape[1] + 1, dtype=torch.int32, device=self.col.device)
        rowptr[1:] = torch.bincount(self.col, minlength=self.shape[1]).cumsum(0)
        return rowptr, self.row[order].to(torch.int32), order

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


def multiply(matrix: Csr, dense: Tensor, value: Tensor | None = None) -> Tensor:
    """S(v) D, differentiable in `dense` and in `value` (the matrix's own values where None), [R,
    F]."""
    weights = matrix.value if value is None else value
    if weights is None:
        raise ValueError("this pattern has no values of its own; pass value=")
    return _Multiply.apply(matrix, weights.to(dense.dtype), dense)


def iterate(
    matrix: Csr, value: Tensor, dense: Tensor, *, steps: int, back: float, start: float
) -> Tensor:
    """Z_K of Z_0 = start · D, Z_{k+1} = S(v) Z_k + back · D, differentiable in `dense`, [R, F]."""
    return _Iterate.apply(matrix, value.to(dense.dtype), dense, steps, back, start)


def transform(x: "Tensor | Csr", weight: Tensor) -> Tensor:
    """X W for dense or sparse X."""
    return multiply(x, weight) if isinstance(x, Csr) else product(x, weight)


def product(x: Tensor, weight: Tensor) -> Tensor:
    """X W for dense X, [.., N, K] times [.., K, F]; a narrow W, such as that of an output layer,
    has its own kernel."""
    return _Narrow.apply(x, weight) if weight.shape[-1] < NARROW else x @ weight


def segment_sum(pattern: Csr, value: Tensor) -> Tensor:
    """The sum of `value` over each row's entries, [R]; rows without entries give 0."""
    return value.new_zeros(pattern.shape[0]).index_add(0, pattern.row, value)


def _bags(rowptr: Tensor, col: Tensor, value: Tensor, dense: Tensor) -> Tensor:
    return F.embedding_bag(
        col, dense, rowptr, mode="sum", per_sample_weights=value, include_last_offset=True
    )


class _Multiply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, matrix: Csr, value: Tensor, dense: Tensor) -> Tensor:
        ctx.save_for_backward(value, dense)
        ctx.matrix = matrix  # type: ignore[attr-defined]
        return _bags(
            matrix.rowptr, matrix.col, value, dense.detach()
        )  # detached: the kernel prepares no backward

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        value, dense = ctx.saved_tensors  # type: ignore[attr-defined]
        matrix: Csr = ctx.matrix  # type: ignore[attr-defined]
        _, needs_value, needs_dense = ctx.needs_input_grad  # type: ignore[attr-defined]
        grad = grad.contiguous()
        grad_value = matrix.sampled(grad, dense) if needs_value else None
        grad_dense = None
        if needs_dense:
            rowptr, col, order = matrix.transpose
            grad_dense = _bags(rowptr, col, value.index_select(0, order), grad)
        return None, grad_value, grad_dense


class _Iterate(torch.autograd.Function):
    """Its gradient is the same iteration on the transpose: dD = Y_K of Y_0 = start · dZ, Y_{k+1} =
    Sᵀ Y_k + back · dZ.

    By hand: autograd would keep every Z_k, and take three passes over it where one does.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        matrix: Csr,
        value: Tensor,
        dense: Tensor,
        steps: int,
        back: float,
        start: float,
    ) -> Tensor:
        ctx.save_for_backward(value)
        ctx.rest = (matrix, steps, back, start)  # type: ignore[attr-defined]
        return _iterated(
            matrix.rowptr, matrix.col, value, dense.detach().contiguous(), steps, back, start
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[None, None, Tensor, None, None, None]:
        (value,) = ctx.saved_tensors  # type: ignore[attr-defined]
        matrix, *rest = ctx.rest  # type: ignore[attr-defined]
        rowptr, col, order = matrix.transpose
        return (
            None,
            None,
            _iterated(rowptr, col, value.index_select(0, order), grad.contiguous(), *rest),
            None,
            None,
            None,
        )


def _iterated(
    rowptr: Tensor, col: Tensor, value: Tensor, dense: Tensor, steps: int, back: float, start: float
) -> Tensor:
    z = dense if start == 1 else start * dense
    for _ in range(steps):
        z = _bags(rowptr, col, value, z).add_(dense, alpha=back)
    return z


class _Narrow(torch.autograd.Function):
    """X W as (Wᵀ Xᵀ)ᵀ and dW as (dYᵀ X)ᵀ: on a CPU several times faster where W has few columns."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return (weight.mT @ x.mT).mT.contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors  # type: ignore[attr-defined]
        needs_x, needs_weight = ctx.needs_input_grad  # type: ignore[attr-defined]
        grad_x = grad @ weight.mT if needs_x else None
        return grad_x, (grad.mT @ x).mT.contiguous() if needs_weight else None
