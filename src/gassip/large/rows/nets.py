"""Nets over hops as ordinary nets: trained on rows, run on graphs.

    TAGk ‖ Linear ‖ ...     y_i = W_2 ReLU(Σ_k (S^k x)_i W_1k + b_1) + b_2

A row is the hops of one node side by side, nearest first. Training standardises columns and, behind
ReLUs, batches; both are affine, so that afterwards they go into weights and biases:

    ((v − μ) / σ) W + b = v (W / σ) + (b − (μ / σ) W)

Shapes: n rows, D features, K hops, F width of a layer, C classes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.errors import GassipError
from gassip.nn.dropout import kept_like
from gassip.nn.net import Architecture, Net

OPS = ("Linear", "SAGEConv", "TAG2", "TAG3", "TAG4")  # by the farthest hop
MOST_HOPS = len(OPS) - 1
PIECE = 2**15  # rows that are scaled at once
WEIGHT_DECAY = 1e-4


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A candidate: which hops, and the layers behind them."""

    hops: tuple[int, ...]  # ascending
    width: int = 64
    depth: int = 2  # layers in all
    dropout: float = 0.2
    signed: bool = False  # trained on S^k x − S^{k−1} x instead of S^k x
    decay: float = WEIGHT_DECAY  # of all weights

    @property
    def architecture(self) -> Architecture:
        ops = (OPS[self.hops[-1]], *("Linear",) * (self.depth - 1))
        return Architecture(ops=ops, hidden=(self.width,) * (self.depth - 1), batch_norm=True)

    def __str__(self) -> str:
        whole = self.hops == tuple(range(self.hops[-1] + 1))
        which = f"0-{self.hops[-1]}" if whole else "+".join(map(str, self.hops))
        more = ", signed" if self.signed else ""
        more += f", decay {self.decay:g}" if self.decay != WEIGHT_DECAY else ""
        return f"hops {which}, {self.depth} layers of {self.width}, dropout {self.dropout}{more}"


def fresh(features: int, classes: int, shape: Shape) -> Net:
    """A net of that shape; the matrices of hops that it leaves out are 0 and stay so."""
    net = Net(features, classes, shape.architecture, shape.dropout)
    missing = [k for k in range(shape.hops[-1] + 1) if k not in shape.hops]
    if missing:
        keep = [torch.ones_like(layer.weight, dtype=torch.bool) for layer in net.layers]
        for k in missing:
            keep[0][:, columns(net, k)] = False
        net.prune(keep)
    return net


def columns(net: Net, k: int) -> slice:
    """Where the first layer holds the matrix of hop k: the farthest comes first."""
    width, last = net.layers[0].out_width, OPS.index(net.architecture.ops[0])
    return slice((last - k) * width, (last - k + 1) * width)


def stacked(net: Net) -> Tensor:
    """The matrices of the first layer over each other, nearest hop first, [(K + 1) D, F]."""
    return torch.cat(net.layers[0].apart(net.weight(0))[::-1])


def run_rows(net: Net, rows: Tensor, basis: "Basis | None" = None) -> Tensor:
    """Class scores [n, C] of rows [n, (K + 1) D]; equal to the net on the graph."""
    matrix = stacked(net) if basis is None else basis.matrix(stacked(net))
    h = torch.addmm(net.layers[0].bias[0], rows, matrix)
    for l in range(1, len(net.layers)):
        h = F.relu(h)
        h = net.norms[l - 1](h) if net.norms else h
        if net.training and net.dropout:
            h = h * kept_like(h, net.dropout)
        h = torch.addmm(net.layers[l].bias[0], h, net.weight(l))
    return h


@dataclass(frozen=True, eq=False)
class Scaling:
    """Rows are standardised once, for all trainings: (v − μ) / σ."""

    mean: Tensor  # [(K + 1) D]
    deviation: Tensor  # [(K + 1) D]

    @staticmethod
    def fit(rows: Tensor) -> "Scaling":
        deviation, mean = torch.std_mean(rows, dim=0, correction=0)
        return Scaling(mean, torch.where(deviation > 1e-6, deviation, 1.0))

    @staticmethod
    def none(columns: int) -> "Scaling":
        return Scaling(torch.zeros(columns), torch.ones(columns))

    def first(self, columns: int) -> "Scaling":
        return Scaling(self.mean[:columns], self.deviation[:columns])

    def apply_(self, rows: Tensor) -> Tensor:
        """In place, piece by piece."""
        for part in rows.split(PIECE):
            part.sub_(self.mean).div_(self.deviation)
        return rows

    def undone(self, rows: Tensor) -> Tensor:
        return rows * self.deviation + self.mean


@dataclass(frozen=True, eq=False)
class Basis:
    """Training on differences of hops, standardised, is another matrix on the hops themselves:

    Σ_k (x_k − x_{k−1}) / s_k · W_k = Σ_k z_k σ_k (W_k / s_k − W_{k+1} / s_{k+1}) + a constant
    """

    scale: Tensor  # s [(K + 1) D]
    deviation: Tensor  # σ [(K + 1) D]
    features: int

    @staticmethod
    def fit(rows: Tensor, scaling: Scaling, features: int) -> "Basis":
        x = rows * scaling.deviation
        nearer = F.pad(x, (features, 0))[:, : x.shape[1]]
        scale = torch.std(x - nearer, dim=0, correction=0)
        return Basis(torch.where(scale > 1e-6, scale, 1.0), scaling.deviation, features)

    def matrix(self, given: Tensor) -> Tensor:
        scaled = given / self.scale[:, None]
        following = F.pad(scaled[self.features :], (0, 0, 0, self.features))
        return (scaled - following) * self.deviation[:, None]


@torch.no_grad()
def folded(net: Net, scaling: Scaling, basis: Basis | None = None) -> Net:
    """The same function of raw hops, without scaling and without batch norm."""
    shape = net.architecture
    out = Net(
        net.layers[0].weight.shape[0],
        net.layers[-1].out_width,
        Architecture(ops=shape.ops, hidden=shape.hidden),
        net.dropout,
    )
    weights = [net.weight(l).clone() for l in range(len(net.layers))]
    biases = [layer.bias[0].clone() for layer in net.layers]
    matrix = stacked(net) if basis is None else basis.matrix(stacked(net))
    matrix = matrix / scaling.deviation[:, None]
    biases[0] -= scaling.mean @ matrix
    weights[0] = torch.cat(matrix.split(net.layers[0].weight.shape[0])[::-1], dim=1)
    for l in range(1, len(weights)):
        if net.norms:
            scale, shift = affine(net, l - 1)
            biases[l] += shift @ weights[l]
            weights[l] *= scale[:, None]
    for layer, weight, bias in zip(out.layers, weights, biases, strict=True):
        layer.weight.copy_(weight)
        layer.bias[0] = bias
    keep = [weight != 0 for weight in weights]
    out.prune(keep)
    return out.eval()


def affine(net: Net, at: int) -> tuple[Tensor, Tensor]:
    """Batch norm in evaluation: h · scale + shift."""
    norm = net.norms[at]
    if not isinstance(norm, torch.nn.BatchNorm1d):
        raise GassipError("layer norm does not fold into weights; nets over hops have batch norm")
    assert norm.running_var is not None and norm.running_mean is not None
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    return scale, norm.bias - norm.running_mean * scale


@torch.no_grad()
def joined(lower: Net, upper: Net) -> Net:
    """`upper` on the hidden layer in front of the last layer of `lower`, as one net."""
    first, last = lower.architecture, upper.architecture
    ops = (*first.ops[:-1], *last.ops)
    out = Net(
        lower.layers[0].weight.shape[0],
        upper.layers[-1].out_width,
        Architecture(ops=ops, hidden=(*first.hidden, *last.hidden)),
        upper.dropout,
    )
    given = [*list(lower.layers)[:-1], *upper.layers]
    for layer, source in zip(out.layers, given, strict=True):
        layer.weight.copy_(source.weight)
        layer.bias.copy_(source.bias)
    out.prune([layer.weight != 0 for layer in out.layers])
    return out.eval()
