"""GIN: sums, then an MLP. Xu et al., How Powerful are Graph Neural Networks?, ICLR 2019.

    h'_i = MLP((1 + ε) h_i + Σ_{j ∈ N_i} m_ij h_j),   MLP(z) = W2 ReLU(norm(W1 z + b1)) + b2

The first product of the MLP comes before the sum, which is the same and keeps X sparse.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gassip.baselines._shared.trained import Trained
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.dropout import drop
from gassip.nn.kernels import multiply, transform
from gassip.nn.net import Model
from gassip.nn.propagate import MaskedGraph


class GinLayer(nn.Module):
    """One sum and its MLP."""

    def __init__(
        self, in_width: int, hidden: int, out_width: int, *, train_eps: bool, batch_norm: bool
    ) -> None:
        super().__init__()
        self.first = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_width, hidden)))
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.norm = nn.BatchNorm1d(hidden) if batch_norm else None
        self.second = nn.Parameter(nn.init.xavier_uniform_(torch.empty(hidden, out_width)))
        self.second_bias = nn.Parameter(torch.zeros(out_width))
        self.eps: Tensor
        if train_eps:
            self.eps = nn.Parameter(torch.zeros(()))
        else:
            self.register_buffer("eps", torch.zeros(()))

    def propagate(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        product = transform(x, self.first)
        z = (
            (1 + self.eps) * product
            + multiply(graph.adjacency, product, graph.edge_weight)
            + self.first_bias
        )
        z = F.relu(z if self.norm is None else self.norm(z))
        return z @ self.second + self.second_bias


class GinNet(Model):
    """Layers with ReLU and dropout between them."""

    def __init__(self, features: int, classes: int, settings: "Gin") -> None:
        super().__init__()
        self.dropout = settings.dropout
        widths = [features, *[settings.hidden] * (settings.layers - 1), classes]
        self.layers = nn.ModuleList(
            GinLayer(
                a, settings.hidden, b, train_eps=settings.train_eps, batch_norm=settings.batch_norm
            )
            for a, b in pairwise(widths)
        )

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        h: Tensor | Csr = x
        for l, layer in enumerate(self.layers):
            assert isinstance(layer, GinLayer)
            h = F.relu(h) if l > 0 and isinstance(h, Tensor) else h
            h = layer.propagate(drop(h, self.dropout if self.training else 0.0), graph)
        assert isinstance(h, Tensor)
        return h


@dataclass(frozen=True, kw_only=True)
class Gin(Trained):
    """GIN-0: ε fixed at 0."""

    layers: int = 2
    hidden: int = 64
    dropout: float = 0.5
    train_eps: bool = False
    batch_norm: bool = False

    def model(self, graph: Graph) -> Model:
        return GinNet(graph.num_features, graph.num_classes, self)
