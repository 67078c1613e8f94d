"""One architecture of the search space, and one layer of it: its operations, whose weights lie side
by side in one matrix, so that one product X·W serves them all. A net has one operation per layer.

Shapes: N nodes, F width of a layer, O operations of a layer, B columns of its weight matrix.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn

from gassip.errors import GassipError
from gassip.nn.propagate import MaskedGraph, propagate
from gassip.operations import OPERATIONS


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """One operation per layer and the sizes around it."""

    ops: tuple[str, ...]
    hidden: tuple[int, ...]  # width of each hidden layer
    heads: tuple[
        int, ...
    ] = ()  # of GATConv in each hidden layer, 1 where not given; the output layer has one
    batch_norm: bool = False
    layer_norm: bool = False  # instead: each node by the mean and deviation of its own units
    standardised: bool = False  # the columns of x, by mean and deviation of the training graph

    def __post_init__(self) -> None:
        inner = len(self.ops) - 1
        object.__setattr__(self, "heads", self.heads or (1,) * inner)
        if len(self.hidden) != inner or len(self.heads) != inner:
            given = f"{len(self.hidden)} widths and {len(self.heads)} heads"
            raise GassipError(
                f"{len(self.ops)} layers have {inner} hidden ones; {given} were given, one each "
                f"is needed"
            )
        if any(h < 1 or w < 1 or w % h for w, h in zip(self.hidden, self.heads, strict=True)):
            raise GassipError(
                f"heads {list(self.heads)} do not divide the hidden widths {list(self.hidden)}"
            )
        if self.batch_norm and self.layer_norm:
            raise GassipError(
                "batch_norm and layer_norm are both on; a net has one norm before each layer: "
                "choose one"
            )

    def __str__(self) -> str:
        return " ‖ ".join(self.ops)

    def widths(self, features: int, classes: int) -> list[tuple[int, int]]:
        """(in, out) of every layer."""
        return list(zip([features, *self.hidden], [*self.hidden, classes], strict=True))


def norms_of(architecture: Architecture) -> nn.ModuleList:
    """The norm before each layer but the first; none where the architecture has none.

        g ⊙ (h_i − mean) / sqrt(var + 1e-5) + b

    batch norm: mean and variance of a unit over the nodes; layer norm: of a node over its units.
    """
    if architecture.layer_norm:
        return nn.ModuleList(nn.LayerNorm(width) for width in architecture.hidden)
    widths = architecture.hidden if architecture.batch_norm else ()
    return nn.ModuleList(nn.BatchNorm1d(width) for width in widths)


class Layer(nn.Module):
    """The operations of one layer: products side by side, then each operation's own propagation."""

    def __init__(self, in_width: int, out_width: int, ops: tuple[str, ...], heads: int = 1) -> None:
        super().__init__()
        self.ops = ops
        self.out_width = out_width
        counts = [OPERATIONS[name].matrices for name in ops]
        self.first = [
            sum(counts[:k]) for k in range(len(ops) + 1)
        ]  # where each operation's matrices start
        self.weight = nn.Parameter(torch.empty(in_width, sum(counts) * out_width))
        self.bias = nn.Parameter(torch.zeros(len(ops), out_width))
        attends = any(OPERATIONS[name].attention for name in ops)
        self.attention = (
            nn.Parameter(torch.empty(2, heads, out_width // heads)) if attends else None
        )
        self.reset(gain=1.0)

    def extra_repr(self) -> str:
        heads = f", heads={self.heads}" if self.attention is not None else ""
        return f"{' + '.join(self.ops)}, {self.weight.shape[0]} -> {self.out_width}{heads}"

    @property
    def heads(self) -> int:
        """Attention heads, 1 without attention."""
        return 1 if self.attention is None else self.attention.shape[1]

    @torch.no_grad()
    def reset(self, gain: float) -> None:
        """Glorot's uniform start for each matrix, times `gain`."""
        bound = gain * sqrt(6 / (self.weight.shape[0] + self.out_width))
        self.weight.uniform_(-bound, bound)
        self.bias.zero_()
        if self.attention is not None:
            nn.init.xavier_uniform_(self.attention)

    def columns(self, k: int) -> slice:
        """The columns of the weight matrix that belong to operation k."""
        return slice(self.first[k] * self.out_width, self.first[k + 1] * self.out_width)

    def beside(self, per_unit: Tensor) -> Tensor:
        """A value per operation and unit, [O, F], for every column of the weight matrix, [B]."""
        counts = torch.tensor(self.first, device=per_unit.device).diff()
        return per_unit.repeat_interleave(counts, 0).flatten()

    def propagate(self, k: int, products: Sequence[Tensor], graph: MaskedGraph) -> Tensor:
        """Operation k on its own products, one [N, F] for each of its matrices -> [N, F]; with
        products of several passes, [N, S, F] each, the same shape."""
        operation, first = OPERATIONS[self.ops[k]], products[0]
        if first.dim() == 3 and operation.attention:  # each pass has its own
            passes = [[product[:, s] for product in products] for s in range(first.shape[1])]
            each = [propagate(operation, graph, one_pass, self.attention) for one_pass in passes]
            return torch.stack(each, 1) + self.bias[k]
        rows = [product.flatten(1) for product in products]
        return propagate(operation, graph, rows, self.attention).view_as(first) + self.bias[k]

    def apart(self, products: Tensor) -> tuple[Tensor, ...]:
        """Products side by side -> one [N, F] each; in one split, whose gradient is one
        concatenation."""
        if products.shape[1] == self.out_width:
            return (products,)
        return products.split(self.out_width, dim=1)


class Layers(nn.ModuleList):
    """A list of layers that a type checker can see into."""

    def __getitem__(self, l: int) -> Layer:  # type: ignore[override]
        layer = super().__getitem__(l)
        assert isinstance(layer, Layer)
        return layer

    def __iter__(self) -> Iterator[Layer]:
        return (self[l] for l in range(len(self)))
