"""`Net`: one architecture as a plain module, one operation per layer (layer.py).

    h_0 = X,   h_l = o_l(dropout(norm(ReLU(h_{l-1})))),   no ReLU or norm before the first layer
    h_0 = (X − mean) / std by column, where the columns of X are standardised; constant columns: 0

Shapes: N nodes, D features, C classes, F width of a layer, O operations of a layer, B columns of
its weight matrix.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.dropout import drop, dropped_relu, kept_like, thinned
from gassip.nn.kernels import product, transform
from gassip.nn.layer import Architecture as Architecture
from gassip.nn.layer import Layer as Layer
from gassip.nn.layer import Layers as Layers
from gassip.nn.layer import norms_of
from gassip.nn.model import Model as Model
from gassip.nn.propagate import MaskedGraph
from gassip.operations import OPERATIONS

TINY = 1e-6  # deviation of a column that is rounding, in units of its mean
THIN_FROM = 2**18  # entries of X
# columns of X per unit of the first layer up to which S X pays: taken once, or in every step
LASTING, TRAINING = 8, 2


class Net(Model):
    """One architecture as a module.

    `weight_keep_l` marks the weights of layer l that exist; the others are exactly 0 and stay so.
    It is None where all exist. `feature_index` names the columns of x that the first layer reads,
    in order; None means all of them.
    """

    feature_index: Tensor | None  # [kept] int64
    input_scale: Tensor | None  # [kept]: x · scale + shift is what the first layer reads
    input_shift: Tensor | None
    _picked: tuple[Tensor | Csr, int, Tensor | Csr] | None = None
    _read: tuple[Tensor | Csr, int, Tensor | Csr] | None = None

    def __init__(
        self,
        features: int,
        classes: int,
        architecture: Architecture,
        dropout: float = 0.0,
        feature_index: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.architecture = architecture
        self.dropout = dropout
        self.register_buffer("feature_index", feature_index)
        widths = architecture.widths(
            features if feature_index is None else feature_index.numel(), classes
        )
        self.layers = Layers(
            Layer(*width, (name,), heads)
            for name, width, heads in zip(
                architecture.ops, widths, (*architecture.heads, 1), strict=True
            )
        )
        for name, start in (("input_scale", torch.ones), ("input_shift", torch.zeros)):
            value = start(widths[0][0]) if architecture.standardised else None
            self.register_buffer(name, value)
        self.norms = norms_of(architecture)
        for l in range(len(self.layers)):
            self.register_buffer(f"weight_keep_{l}", None)

    def extra_repr(self) -> str:
        kept, total = self.num_weights()
        return f"{self.architecture}, {kept:,} of {total:,} weights, dropout={self.dropout:.2g}"

    def weight_keep(self, l: int) -> Tensor | None:
        """Which weights of layer l exist, bool of its shape; None: all."""
        return self._buffers[f"weight_keep_{l}"]

    def prune(self, weight_keep: list[Tensor]) -> None:
        """Remove the weights not marked; they are 0 from here on."""
        for l, keep in enumerate(weight_keep):
            mask = keep.to(self.layers[l].weight.device, torch.bool, copy=True)
            self.register_buffer(f"weight_keep_{l}", None if bool(mask.all()) else mask)
        self.zero_pruned()

    def restore(self, state: dict[str, Tensor]) -> None:
        """A state of such a net, with the weights that it says do not exist."""
        keep = [
            state.get(f"weight_keep_{l}", torch.ones_like(layer.weight))
            for l, layer in enumerate(self.layers)
        ]
        self.prune(keep)
        self.load_state_dict(state)

    @torch.no_grad()
    def zero_pruned(self) -> None:
        for l, layer in enumerate(self.layers):
            if (keep := self.weight_keep(l)) is not None:
                layer.weight.mul_(keep)

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        scores = self.layer(len(self.layers) - 1, self.hidden(x, graph), graph)
        return scores if self.label_logits is None else scores + self.label_logits

    def run_several(self, x: Tensor | Csr, graph: MaskedGraph, count: int) -> Tensor:
        """Side by side where the last layer goes over the edges: there they are narrow."""
        if len(self.layers) == 1:
            return super().run_several(x, graph, count)
        last = len(self.layers) - 1
        each = [self.products(last, self.hidden(x, graph)) for _ in range(count)]
        products = [torch.stack(of_matrix, 1) for of_matrix in zip(*each, strict=True)]
        scores = self.layers[last].propagate(0, products, graph)
        return scores if self.label_logits is None else scores + self.label_logits.unsqueeze(1)

    def hidden(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor | Csr:
        """What the last layer reads."""
        h = self.dropped(self.inputs(x), 0)
        for l in range(len(self.layers) - 1):
            h = self.dropped(self.layer(l, h, graph), l + 1)
        return h

    def layer(self, l: int, h: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        """Layer l of what it reads, [N, F]."""
        if l == 0 and self.smooths_first(h, graph):
            return self.first(h, graph)  # type: ignore[arg-type]
        return self.layers[l].propagate(0, self.products(l, h), graph)

    def products(self, l: int, h: Tensor | Csr) -> tuple[Tensor, ...]:
        """H W of layer l, one [N, F] for each of its matrices."""
        layer, products = self.layers[l], transform(h, self.weight(l))
        if self.drops and (rate := OPERATIONS[layer.ops[0]].node_dropout):
            products = products * kept_like(products[:, :1], rate)
        return layer.apart(products)

    def dropped(self, h: Tensor | Csr, l: int) -> Tensor | Csr:
        """What layer l reads: dropout(norm(ReLU(h))), of X dropout alone."""
        rate = self.dropout if self.drops else 0.0
        if isinstance(h, Csr) and rate > 0 and worth_thinning(h):
            return thinned(h, rate)
        if isinstance(h, Csr) or l == 0:
            return drop(h, rate)
        return drop(self.norms[l - 1](F.relu(h)), rate) if self.norms else dropped_relu(h, rate)

    @property
    def drops(self) -> bool:
        """Whether there is dropout now."""
        return self.training and self.dropout > 0

    def smooths_first(self, x: Tensor | Csr, graph: MaskedGraph) -> bool:
        """Whether the first layer takes less time as (S X) W than as S (X W): dense X needs no
        gradient through S, and without dropout S X is the same every time."""
        layer = self.layers[0]
        if isinstance(x, Csr) or x.requires_grad or graph.edge_weight.requires_grad:
            return False
        most = LASTING if graph.lasting and not self.drops else TRAINING if self.training else 1
        operation = OPERATIONS[layer.ops[0]]
        return (
            operation.commutes
            and not (self.drops and operation.node_dropout)
            and x.shape[1] <= most * layer.out_width
        )

    def first(self, x: Tensor, graph: MaskedGraph) -> Tensor:
        """The first layer as (S X) W_1 (+ X W_2), or with the hops before it."""
        layer = self.layers[0]
        inputs = (*graph.smoothed(layer.ops[0], x, again=not self.drops), x)
        parts = [
            product(part, weight)
            for part, weight in zip(inputs, layer.apart(self.weight(0)), strict=False)
        ]
        out = parts[0]
        for part in parts[1:]:
            out = out + part
        return out + layer.bias[0]

    def weight(self, l: int) -> Tensor:
        """W of layer l as it is used, the pruned ones at 0."""
        weight, keep = self.layers[l].weight, self.weight_keep(l)
        return weight if keep is None else weight * keep

    def inputs(self, x: Tensor | Csr) -> Tensor | Csr:
        """What the first layer reads of x; made anew only for another x, or one that was written
        to."""
        if self.feature_index is None and self.input_scale is None:
            return x
        if isinstance(x, Tensor) and (x.requires_grad or torch.is_inference_mode_enabled()):
            return self._scaled(self._columns(x))  # such a tensor is of use only once
        last, version = self._read, 0 if isinstance(x, Csr) else x._version
        if last is None or last[0] is not x or last[1] != version:
            last = (x, version, self._scaled(self.picked(x)))
            if not torch.is_inference_mode_enabled():
                self._read = last
        return last[2]

    def picked(self, x: Tensor | Csr) -> Tensor | Csr:
        """The columns of x that the first layer reads; picked anew only for another x, or one that
        was written to."""
        if self.feature_index is None:
            return x
        if isinstance(x, Tensor) and (x.requires_grad or torch.is_inference_mode_enabled()):
            return self._columns(x)  # a graph or an inference tensor is of use only once
        last, version = self._picked, 0 if isinstance(x, Csr) else x._version
        if last is None or last[0] is not x or last[1] != version:
            last = (x, version, self._columns(x))
            if not torch.is_inference_mode_enabled():
                self._picked = last
        return last[2]

    def _columns(self, x: Tensor | Csr) -> Tensor | Csr:
        index = self.feature_index
        if index is None:
            return x
        return x.columns(index) if isinstance(x, Csr) else x.index_select(1, index)

    def _scaled(self, x: Tensor | Csr) -> Tensor | Csr:
        """Columns that were picked, standardised if they are to be."""
        if self.input_scale is None or self.input_shift is None:
            return x
        return dense_of(x) * self.input_scale + self.input_shift

    @torch.no_grad()
    def standardise(self, x: Tensor | Csr) -> None:
        """Scale and shift of the columns of x that are read: mean 0, deviation 1; 0 if constant."""
        if self.input_scale is None or self.input_shift is None:
            return
        dense = dense_of(x).double()
        columns = dense if self.feature_index is None else dense[:, self.feature_index]
        scale, shift = scale_and_shift(columns)
        self.input_scale.copy_(scale)
        self.input_shift.copy_(shift)

    def num_weights(self) -> tuple[int, int]:
        """Weights kept by the mask and weights in all; biases, attention and norms count as
        kept."""
        keeps = [self.weight_keep(l) for l in range(len(self.layers))]
        total = sum(p.numel() for p in self.parameters())
        pruned = sum(k.numel() - int(k.sum()) for k in keeps if k is not None)
        return total - pruned, total


def net_for(
    graph: Graph,
    architecture: Architecture,
    dropout: float = 0.0,
    feature_index: Tensor | None = None,
) -> Net:
    """A fresh net of the right sizes on the graph's device."""
    net = Net(graph.num_features, graph.num_classes, architecture, dropout, feature_index)
    net.to(graph.device)
    net.standardise(graph.x)
    return net


def worth_thinning(x: Csr) -> bool:
    """Whether what dropout removes from X is better not stored; small products are too quick."""
    return x.nnz >= THIN_FROM and x.col.device.type == "cpu"


def scale_and_shift(x: Tensor) -> tuple[Tensor, Tensor]:
    """What brings each column to mean 0 and deviation 1; to 0 where it is constant."""
    std, mean = x.std(0, correction=0), x.mean(0)
    scale = torch.where(std > TINY * mean.abs(), 1 / std.clamp_min(1e-30), 0.0)
    return scale, -mean * scale


def dense_of(x: Tensor | Csr) -> Tensor:
    """x with its zeros."""
    if isinstance(x, Tensor):
        return x
    return torch.from_numpy(x.to_scipy().toarray()).float().to(x.col.device)
