"""Dropout by 8-bit comparisons, of dense and of sparse values.

    y = x k / (1 - p),   k = 1 with probability 1 - p, else 0,   p rounded to 1 / 256

Eight comparisons per 64-bit random number take a tenth of the time of `F.dropout` on a CPU.
"""

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F

from gassip.graph.csr import Csr


def drop(x: Tensor | Csr, p: float) -> Tensor | Csr:
    """Dropout; of a sparse matrix only the stored values, which is the same (a zero stays zero)."""
    if p == 0.0:
        return x
    if isinstance(x, Csr):
        assert x.value is not None
        return x.with_value(x.value * kept_like(x.value, p))
    if x.requires_grad:
        return x * kept_like(x, p)
    return kept_like(x, p).mul_(x)  # into what was made anyway


def thinned(x: Csr, p: float) -> Csr:
    """Dropout of a sparse matrix whose dropped entries are not stored, on a CPU; the same random
    numbers as `drop`. Worth it where the matrix is large, or what it is multiplied by wide."""
    assert x.value is not None
    least, scale = passing(p)
    # numpy: without branches, which random numbers would mislead
    index = np.flatnonzero(random_bits(x.value).numpy() >= least)
    rowptr = np.searchsorted(index, x.rowptr.numpy()).astype(np.int32)
    col = x.col.numpy().take(index)
    value = x.value.numpy().take(index) * np.float32(scale)
    rows, columns, values = (torch.from_numpy(part) for part in (rowptr, col, value))
    return Csr(rows, columns, values, x.shape, once=True)


def dropped_relu(h: Tensor, p: float) -> Tensor:
    """dropout(ReLU(h)) in fewer passes over memory."""
    return F.relu(h) if p == 0.0 else DroppedRelu.apply(h, random_bits(h), p)


def kept_like(like: Tensor, p: float) -> Tensor:
    """1 / (1 - p) with probability 1 - p, else 0, of the shape of `like`."""
    return kept(random_bits(like), p, like.dtype)


def random_bits(like: Tensor) -> Tensor:
    """8-bit random numbers of the shape of `like`."""
    bits = torch.empty(words(like.numel()), dtype=torch.int64, device=like.device)
    return bits.random_(-(2**63), None).view(torch.int8)[: like.numel()].view(like.shape)


def words(count: int) -> int:
    """How many 64-bit random numbers the dropout of `count` values takes."""
    return (count + 7) // 8


def kept(bits: Tensor, p: float, dtype: torch.dtype) -> Tensor:
    """Random 8-bit numbers -> 1 / (1 - p) with probability 1 - p, else 0; p is rounded to 1 /
    256."""
    least, scale = passing(p)
    # straight into numbers: torch's way to bool and back takes ten times as long
    passed = torch.ge(bits, least, out=torch.empty(bits.shape, dtype=dtype, device=bits.device))
    return passed.mul_(scale)


def passing(p: float) -> tuple[int, float]:
    """The least 8-bit number that `kept` lets pass, and what it multiplies by: 1 / (1 - p) of the
    rounded p."""
    steps = min(round(p * 256), 255)
    return steps - 128, 256 / (256 - steps)


class DroppedRelu(torch.autograd.Function):
    """y = dropout(ReLU(h)); dh = dy / (1 - p) where y > 0."""

    @staticmethod
    def forward(ctx: FunctionCtx, h: Tensor, bits: Tensor, p: float) -> Tensor:
        ctx.scale = passing(p)[1]  # type: ignore[attr-defined]
        out = kept(bits, p, h.dtype).mul_(h).clamp_min_(0.0)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, None, None]:
        (out,) = ctx.saved_tensors  # type: ignore[attr-defined]
        grad = torch.ops.aten.threshold_backward(grad, out, 0.0)
        return grad.mul_(ctx.scale), None, None  # type: ignore[attr-defined]
