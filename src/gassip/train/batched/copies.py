"""R copies of a net: weights stacked, random numbers apart, and all layers but the first.

Shapes: R copies, n nodes of a field, F width of a layer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.dropout import DroppedRelu, kept, words
from gassip.nn.kernels import product
from gassip.nn.net import Net
from gassip.nn.propagate import MaskedGraph
from gassip.operations import OPERATIONS
from gassip.train.batched.entries import Entries, Sparse, rows_of
from gassip.train.batched.hops import (
    Hop,
    attend,
    edge_values,
    propagate,
    repeated,
    with_neighbours,
)

HEAP = (
    2**25 - 2**16
)  # bytes: having freed a block of this size, glibc keeps what is freed later for the next epoch
FIRST = "layers.0.weight"


@dataclass(frozen=True, eq=False, kw_only=True)
class Field:
    """The nodes a loss on some targets reads, targets first, then their neighbours, hop by hop."""

    nodes: Tensor  # [n]
    y: Tensor  # [targets]
    hops: list[Hop]  # per layer, the first layer's first
    x: "Tensor | Sparse"  # [n, D]


class Copies:
    """R nets of one architecture; their weights are stacked, [R, ...] each, but for the first
    layer's, a list."""

    def __init__(
        self, nets: Sequence[Net], generators: Sequence[torch.Generator], graph: Graph
    ) -> None:
        self.graph, self.net, self.generators, self.count = graph, nets[0], generators, len(nets)
        self.masked = MaskedGraph.of(graph)
        torch.empty(HEAP, dtype=torch.uint8)  # given back at once
        self._pool = torch.empty(0, dtype=torch.int64)
        self.x = nets[0].picked(graph.x)
        named = [dict(net.named_parameters()) for net in nets]
        self.first = [tensors.pop(FIRST).detach().clone() for tensors in named]
        self.weights = {
            name: nn.Parameter(torch.stack([tensors[name].detach() for tensors in named]))
            for name in named[0]
        }
        self.keeps = [_stacked_keep(nets, l) for l in range(len(nets[0].layers))]
        batch_norm = nets[0].architecture.batch_norm
        self.running = [
            (torch.zeros(self.count, width), torch.ones(self.count, width))
            for width in nets[0].architecture.hidden
            if batch_norm
        ]

    def state(self) -> dict[str, list[Tensor]]:
        """Every parameter and running figure by its name in `Net`, one of each copy."""
        state: dict[str, list[Tensor]] = {name: list(value) for name, value in self.weights.items()}
        for l, (mean, var) in enumerate(self.running):
            state |= {f"norms.{l}.running_mean": list(mean), f"norms.{l}.running_var": list(var)}
        return state | {FIRST: list(self.first)}

    def field(self, targets: Tensor) -> Field:
        """The field of the nodes marked in `targets`; batch norm reads every node, so with it
        nothing is left out. Layer norm reads the node alone."""
        nodes = torch.nonzero(targets).squeeze(1)
        y, sizes = self.graph.y[nodes], [nodes.numel()]
        everything = self.net.architecture.batch_norm
        for layer in reversed(list(self.net.layers)):
            if everything or OPERATIONS[layer.ops[0]].norm is not None:
                nodes = with_neighbours(nodes, self.graph, everything=everything)
            sizes.append(nodes.numel())
        place = torch.full((self.graph.num_nodes,), -1)
        place[nodes] = torch.arange(nodes.numel())
        sizes = sizes[::-1]
        layers = zip(self.net.layers, sizes[:-1], sizes[1:], strict=True)
        hops = [
            self._hop(layer.ops[0], nodes, place, before, after) for layer, before, after in layers
        ]
        x = Sparse.of(self.x, nodes) if isinstance(self.x, Csr) else self.x[nodes]
        return Field(nodes=nodes, y=y, hops=hops, x=x)

    def _hop(self, op: str, nodes: Tensor, place: Tensor, before: int, after: int) -> Hop:
        """The edges into the first `after` nodes, and where the operation counts the node itself,
        that one last."""
        operation = OPERATIONS[op]
        if operation.norm is None:
            none = Csr(
                torch.zeros(after + 1, dtype=torch.int32),
                nodes[:0].int(),
                torch.empty(0),
                (after, before),
            )
            return Hop(nodes_in=before, nodes_out=after, pattern=none, many=none)
        rows, edges = rows_of(self.graph.adjacency, nodes[:after])
        value, self_value = edge_values(operation, self.masked)
        row, col, value = rows.row, place[rows.col64], value[edges]
        if self_value is not None:
            loops = torch.arange(after)
            row, col, value = (
                torch.cat([row, loops]),
                torch.cat([col, loops]),
                torch.cat([value, self_value[nodes[:after]]]),
            )
            order = torch.argsort(row, stable=True)
            row, col, value = row[order], col[order], value[order]
        pattern = replace(Csr.from_sorted_edges(row, col, (after, before)), value=value)
        return Hop(
            nodes_in=before, nodes_out=after, pattern=pattern, many=repeated(pattern, self.count)
        )

    def rest(self, h: Tensor, field: Field, *, training: bool) -> Tensor:
        """Class scores of the field's targets, [R, targets, C], from what the first layer gives."""
        p = self.net.dropout if training else 0.0
        for l in range(1, len(self.net.layers)):
            if self.net.norms:
                h = self._norm(l - 1, F.relu(h), training)
                h = (
                    h
                    if p == 0.0
                    else h * kept(self.bits(h.shape[2], field.nodes[: h.shape[1]]), p, h.dtype)
                )
            elif p == 0.0:
                h = F.relu(h, inplace=not training)
            else:
                h = DroppedRelu.apply(h, self.bits(h.shape[2], field.nodes[: h.shape[1]]), p)
            h = self.layer(l, field.hops[l], h, self._weight(l))
        return h

    def _weight(self, l: int) -> Tensor:
        """W of layer l as it is used, [R, K, B]."""
        weight, keep = self.weights[f"layers.{l}.weight"], self.keeps[l]
        return weight if keep is None else weight * keep

    def dropped(self, x: "Tensor | Sparse", r: int) -> Entries:
        """A sparse X as copy r sees it in its next epoch."""
        assert isinstance(self.x, Csr) and isinstance(x, Sparse)
        p = self.net.dropout
        return x.rows if p == 0.0 else x.dropped(self._draw(self.x.nnz, self.generators[r]), p)

    def _draw(self, count: int, generator: torch.Generator) -> Tensor:
        """8-bit random numbers; the next call writes over them, [count]."""
        if self._pool.numel() < words(count):
            self._pool = torch.empty(words(count), dtype=torch.int64)
        return (
            self._pool[: words(count)]
            .random_(-(2**63), None, generator=generator)
            .view(torch.int8)[:count]
        )

    def bits(self, width: int, nodes: Tensor) -> Tensor:
        """What a single run draws for its [N, width] values, for these nodes only, [R, n,
        width]."""
        bits = torch.empty(self.count, nodes.numel(), width, dtype=torch.int8)
        for row, generator in zip(bits, self.generators, strict=True):
            drawn = self._draw(self.graph.num_nodes * width, generator).view(-1, width)
            torch.index_select(drawn, 0, nodes, out=row)
        return bits

    def _norm(self, l: int, h: Tensor, training: bool) -> Tensor:
        """The norm of each copy, `nn.BatchNorm1d` or `nn.LayerNorm`."""
        norm = self.net.norms[l]
        if isinstance(norm, nn.LayerNorm):
            gain, shift = (self.weights[f"norms.{l}.{name}"] for name in ("weight", "bias"))
            own = F.layer_norm(h, norm.normalized_shape, eps=norm.eps)
            return own * gain.unsqueeze(1) + shift.unsqueeze(1)
        assert isinstance(norm, nn.BatchNorm1d) and norm.momentum is not None
        mean, var = self.running[l]
        wide = h.transpose(0, 1).reshape(h.shape[1], -1)  # [N, R·F]: one channel per copy and unit
        weight, bias = (
            self.weights[f"norms.{l}.{name}"].reshape(-1) for name in ("weight", "bias")
        )
        out = F.batch_norm(
            wide, mean.view(-1), var.view(-1), weight, bias, training, norm.momentum, norm.eps
        )
        return out.view(h.shape[1], self.count, -1).transpose(0, 1)

    def layer(self, l: int, hop: Hop, h: Tensor, weight: Tensor) -> Tensor:
        """Layer l of every copy, [R, nodes_in, K] -> [R, nodes_out, F]; A (H W) is (A H) W where
        that is less work."""
        layer = self.net.layers[l]
        width = layer.out_width
        commutes = OPERATIONS[layer.ops[0]].commutes
        if not commutes or not hop.less_work_first(h.shape[2], width):
            return self.propagate(l, hop, product(h, weight))
        out = product(propagate(hop, h), weight[:, :, :width])
        if weight.shape[2] > width:
            out = out + product(h[:, : hop.nodes_out], weight[:, :, width:])
        return out + self.weights[f"layers.{l}.bias"]

    def propagate(self, l: int, hop: Hop, products: Tensor) -> Tensor:
        """The operation of layer l on the products of every copy, [R, nodes_in, B] -> [R,
        nodes_out, F]."""
        layer = self.net.layers[l]
        operation, width = OPERATIONS[layer.ops[0]], layer.out_width
        bias = self.weights[f"layers.{l}.bias"]
        if operation.norm is None:
            return products[:, : hop.nodes_out] + bias
        if operation.attention:
            out = attend(hop, products[:, :, :width], self.weights[f"layers.{l}.attention"])
        else:
            out = propagate(hop, products[:, :, :width])
        if operation.matrices == 2:  # the second is for the node itself
            out = out.add_(products[:, : hop.nodes_out, width:])
        return out.add_(bias)


def _stacked_keep(nets: Sequence[Net], l: int) -> Tensor | None:
    """The weight masks of layer l as numbers, [R, in, B]; None where all weights exist."""
    keeps = [net.weight_keep(l) for net in nets]
    if all(keep is None for keep in keeps):
        return None
    weight = nets[0].layers[l].weight.detach()
    return torch.stack(
        [torch.ones_like(weight) if keep is None else keep.to(weight.dtype) for keep in keeps]
    )
