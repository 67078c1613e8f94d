"""The first layer of R copies: by autograd for dense X, by hand for sparse X."""

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor, nn

from gassip.nn.dropout import kept
from gassip.operations import OPERATIONS
from gassip.train.adam import Adam
from gassip.train.batched.copies import Copies, Field
from gassip.train.batched.entries import Entries, Sparse
from gassip.train.batched.hops import (
    Hop,
)


class DenseFirst:
    """The first layer on a dense X, under autograd like all others."""

    def __init__(self, copies: Copies, train: Field, val: Field, adam: Adam) -> None:
        self.copies, self.train, self.val = copies, train, val
        weight = nn.Parameter(torch.stack(copies.first))
        copies.first = list(weight.detach())
        self.weights = [weight, *copies.weights.values()]
        self.move = adam.of(self.weights)

    def opening(self) -> Tensor:
        """What the first layer gives in the next epoch, [R, nodes_out, F]."""
        return self.output(self.train, self.copies.net.dropout)

    def step(self, loss: Tensor) -> tuple[Tensor, Tensor]:
        """All weights down the loss; then the first layer's output of the next epoch, and
        validation's class scores."""
        self.move(torch.autograd.grad(loss, self.weights))
        with torch.no_grad():
            shown = self.copies.rest(self.output(self.val, 0.0), self.val, training=False)
        return self.opening(), shown

    def output(self, field: Field, p: float) -> Tensor:
        x, copies, keep = field.x, self.copies, self.copies.keeps[0]
        assert isinstance(x, Tensor)
        weight = self.weights[0] if keep is None else self.weights[0] * keep
        if p == 0.0:
            return copies.propagate(0, field.hops[0], torch.matmul(x, weight))
        return copies.layer(
            0, field.hops[0], x * kept(copies.bits(x.shape[1], field.nodes), p, x.dtype), weight
        )


class SparseFirst:
    """The first layer on a sparse X: Y_r = A X_r W_r + b_r of one matrix and a fixed A, of others
    Y_r = X_r W_r; dW_r = X_rᵀ Aᵀ dY_r.

    One visit to each copy does all that reads its W: what lies between stays in the cache.
    """

    def __init__(self, copies: Copies, train: Field, val: Field, adam: Adam) -> None:
        self.copies, self.train, self.val = copies, train, val
        operation = OPERATIONS[copies.net.layers[0].ops[0]]
        self.whole = operation.commutes and operation.matrices == 1
        self.bias = copies.weights["layers.0.bias"]
        self.rest = [
            weight
            for weight in copies.weights.values()
            if not self.whole or weight is not self.bias
        ]
        self.move_rest = adam.of([*self.rest, self.bias] if self.whole else self.rest)
        self.move = [adam.of([weight]) for weight in copies.first]
        self.frame = sp.csc_array(
            (copies.first[0].shape[0], train.hops[0].nodes_in), dtype=np.float32
        )
        self.inputs: list[Entries] = []

    def opening(self) -> Tensor:
        """What the first layer gives in the first epoch, [R, nodes_out, F]."""
        self.leaf = self.empty(self.train)
        with torch.no_grad():
            for r, out in enumerate(self.leaf.unbind()):
                self.inputs.append(self.copies.dropped(self.train.x, r))
                self.write(self.train.hops[0], self.inputs[r], r, self.bias[r], out)
        return self.given(self.train, self.leaf.requires_grad_())

    def step(self, loss: Tensor) -> tuple[Tensor, Tensor]:
        """All weights down the loss; then the first layer's output of the next epoch, and
        validation's class scores."""
        grad, *others = torch.autograd.grad(loss, [self.leaf, *self.rest])
        self.move_rest([*others, grad.sum(1, keepdim=True)] if self.whole else others)
        self.leaf, seen = self.empty(self.train), self.empty(self.val)
        assert isinstance(self.val.x, Sparse)
        with torch.no_grad():
            parts = zip(
                grad.unbind(), seen.unbind(), self.leaf.unbind(), self.bias.unbind(), strict=True
            )
            for r, (grad_out, val_out, train_out, bias) in enumerate(parts):
                self.move[r]([self.gradient(r, grad_out)])
                self.write(self.val.hops[0], self.val.x.rows, r, bias, val_out)
                self.inputs[r] = self.copies.dropped(self.train.x, r)
                self.write(self.train.hops[0], self.inputs[r], r, bias, train_out)
            shown = self.copies.rest(self.given(self.val, seen), self.val, training=False)
        return self.given(self.train, self.leaf.requires_grad_()), shown

    def empty(self, field: Field) -> Tensor:
        nodes = field.hops[0].nodes_out if self.whole else field.hops[0].nodes_in
        return torch.empty(self.copies.count, nodes, self.copies.first[0].shape[1])

    def write(self, hop: Hop, x: Entries, r: int, bias: Tensor, out: Tensor) -> None:
        """Y_r into `out`."""
        products = x.times(self.copies.first[r])
        if self.whole:
            torch.add(hop.both_ways[0].times(products), bias, out=out)
        else:
            out.copy_(products)

    def gradient(self, r: int, grad: Tensor) -> Tensor:
        """dW_r from dY_r; 0 where the weight is pruned, so that it stays 0."""
        grad = self.train.hops[0].both_ways[1].times(grad) if self.whole else grad.contiguous()
        x, rows, keep = self.train.x, self.inputs[r], self.copies.keeps[0]
        assert isinstance(x, Sparse)
        whole = x.columns.times(grad) if rows is x.rows else rows.transposed_times(grad, self.frame)
        return whole if keep is None else whole.mul_(keep[r])

    def given(self, field: Field, y: Tensor) -> Tensor:
        """The first layer's output from Y, [R, nodes_out, F]."""
        return y if self.whole else self.copies.propagate(0, field.hops[0], y)
