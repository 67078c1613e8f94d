"""The two sparse products everything runs on: A·H for propagation, X·W for bags of words.

    Y = S(v) D         S [R, C] sparse with values v [nnz], D [C, F] dense
    dD = S(v)ᵀ dY      dv_e = <dY_row(e), D_col(e)>

`torch.nn.functional.embedding_bag` is torch's fastest sparse-times-dense on a CPU and runs on a GPU
too, but its own backward is slow and `torch.sparse` materialises a dense gradient for the values,
so the backward is written here: the same kernel on the transpose, and a sampled product for the
values.
"""

import torch
from scipy import sparse as sp
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F

from gassip.graph.csr import Csr

NARROW = 16  # columns under which products and softmax have kernels of their own
BROAD = 32  # columns from which a product is quickest as it is written
LONG = 128  # entries of a row of X from which it is not, with fewer columns


def multiply(matrix: Csr, dense: Tensor, value: Tensor | None = None) -> Tensor:
    """S(v) D, differentiable in `dense` and in `value` (the matrix's own values where None), [R,
    F]."""
    weights = matrix.value if value is None else value
    if weights is None:
        raise ValueError("this pattern has no values of its own; pass value=")
    stored = value is None and weights.dtype == dense.dtype
    return _Multiply.apply(matrix, weights.to(dense.dtype), dense, stored)


def iterate(matrix: Csr, dense: Tensor, *, steps: int, back: float, start: float) -> Tensor:
    """Z_K of Z_0 = start · D, Z_{k+1} = S Z_k + back · D, differentiable in `dense`, [R, F]."""
    return _Iterate.apply(matrix, dense, steps, back, start)


def transform(x: Tensor | Csr, weight: Tensor) -> Tensor:
    """X W for dense or sparse X."""
    return multiply(x, weight) if isinstance(x, Csr) else product(x, weight)


def product(x: Tensor, weight: Tensor) -> Tensor:
    """X W for dense X, [.., N, K] times [.., K, F]; a narrow W, such as that of an output layer,
    has its own kernel, and one of a few dozen columns where rows of X are long."""
    width = weight.shape[-1]
    if width < NARROW:
        return _Narrow.apply(x, weight)
    turned = width < BROAD and x.dim() == 2 and x.shape[1] >= LONG
    return _Turned.apply(x, weight) if turned else x @ weight


def log_softmax(z: Tensor) -> Tensor:
    """log softmax of each row of [N, C]; torch takes five to ten times as long where C is small."""
    return _LogSoftmax.apply(z) if z.shape[1] < NARROW else F.log_softmax(z, 1)


def softmax(z: Tensor) -> Tensor:
    """softmax of each row of [N, C]."""
    return log_softmax(z).exp()


def row_sums(dense: Tensor) -> Tensor:
    """[N, 1], as a product: faster than a sum over few columns."""
    return dense @ dense.new_ones(dense.shape[1], 1)


def segment_sum(pattern: Csr, value: Tensor) -> Tensor:
    """The sum of `value` over each row's entries, [R]; rows without entries give 0."""
    return value.new_zeros(pattern.shape[0]).index_add(0, pattern.row, value)


def _bags(rowptr: Tensor, col: Tensor, value: Tensor, dense: Tensor) -> Tensor:
    # not by torch.nn.functional, whose checks take as long as a small product; 0: sums
    return torch.embedding_bag(dense, col, rowptr, False, 0, False, value, True)[0]


def _transposed_times(matrix: Csr, value: Tensor, dense: Tensor) -> Tensor:
    """Sᵀ D by columns, on a CPU: slower than by rows, but faster than to transpose first."""
    arrays = (value.numpy(), matrix.col.numpy(), matrix.rowptr.numpy())
    turned = sp.csc_array(arrays, shape=matrix.shape[::-1])
    return torch.from_numpy(turned @ dense.numpy())


class _Multiply(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx, matrix: Csr, value: Tensor, dense: Tensor, stored: bool
    ) -> Tensor:
        ctx.save_for_backward(value, dense)
        ctx.matrix, ctx.stored = matrix, stored  # type: ignore[attr-defined]
        return _bags(
            matrix.rowptr, matrix.col, value, dense.detach()
        )  # detached: the kernel prepares no backward

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None, None]:
        value, dense = ctx.saved_tensors  # type: ignore[attr-defined]
        matrix: Csr = ctx.matrix  # type: ignore[attr-defined]
        _, needs_value, needs_dense, _ = ctx.needs_input_grad  # type: ignore[attr-defined]
        grad = grad.contiguous()
        grad_value = matrix.sampled(grad, dense) if needs_value else None
        grad_dense = None
        if needs_dense and matrix.once:
            grad_dense = _transposed_times(matrix, value, grad)
        elif needs_dense:
            rowptr, col, order = matrix.transpose
            stored = ctx.stored  # type: ignore[attr-defined]
            turned = matrix.transposed_value if stored else value.index_select(0, order)
            grad_dense = _bags(rowptr, col, turned, grad)
        return None, grad_value, grad_dense, None


class _Iterate(torch.autograd.Function):
    """Its gradient is the same iteration on the transpose: dD = Y_K of Y_0 = start · dZ, Y_{k+1} =
    Sᵀ Y_k + back · dZ.

    By hand: autograd would keep every Z_k, and take three passes over it where one does.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx, matrix: Csr, dense: Tensor, steps: int, back: float, start: float
    ) -> Tensor:
        ctx.rest = (matrix, steps, back, start)  # type: ignore[attr-defined]
        assert matrix.value is not None
        value, dense = matrix.value.to(dense.dtype), dense.detach().contiguous()
        return _iterated(matrix.rowptr, matrix.col, value, dense, steps, back, start)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[None, Tensor, None, None, None]:
        matrix, *rest = ctx.rest  # type: ignore[attr-defined]
        rowptr, col, _ = matrix.transpose
        value = matrix.transposed_value.to(grad.dtype)
        return None, _iterated(rowptr, col, value, grad.contiguous(), *rest), None, None, None


def _iterated(
    rowptr: Tensor, col: Tensor, value: Tensor, dense: Tensor, steps: int, back: float, start: float
) -> Tensor:
    z = dense if start == 1 else start * dense
    for _ in range(steps):
        z = _bags(rowptr, col, value, z).add_(dense, alpha=back)
    return z


class _Narrow(torch.autograd.Function):
    """X W with dW as (dYᵀ X)ᵀ: on a CPU twice as fast where W has few columns."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors  # type: ignore[attr-defined]
        needs_x, needs_weight = ctx.needs_input_grad  # type: ignore[attr-defined]
        grad_x = grad @ weight.mT if needs_x else None
        return grad_x, (grad.mT @ x).mT.contiguous() if needs_weight else None


class _Turned(torch.autograd.Function):
    """X W as (Wᵀ Xᵀ)ᵀ and dW as (dYᵀ X)ᵀ: on a CPU up to 1.7 times as fast where W has a few dozen
    columns, to equal bits."""

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


class _LogSoftmax(torch.autograd.Function):
    """y = z − max z − log Σ exp(z − max z);   dz = dy − exp(y) Σ dy."""

    @staticmethod
    def forward(ctx: FunctionCtx, z: Tensor) -> Tensor:
        z = z - z.amax(1, keepdim=True)
        out = z.sub_(row_sums(z.exp()).log_())
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> Tensor:
        (out,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad - out.exp().mul_(row_sums(grad))
