"""APPNP: an MLP, then personalised PageRank. Gasteiger, Bojchevski and Günnemann, Predict then
Propagate, ICLR 2019.

    H = W2 ReLU(W1 X),   Z_0 = H,   Z_{k+1} = (1 - α) Â Z_k + α H,   Â = D^-1/2 (A + I) D^-1/2

Dropout on X, on the hidden layer and, in every step, on the entries of Â; weight decay on W1 only.
"""

from dataclasses import dataclass

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
from gassip.train.losses import supervised


class AppnpNet(Model):
    """W1, W2 and K steps of width C."""

    def __init__(self, features: int, classes: int, settings: "Appnp") -> None:
        super().__init__()
        self.steps, self.teleport = settings.steps, settings.teleport
        self.dropout, self.edge_dropout = settings.dropout, settings.edge_dropout
        self.first = nn.Parameter(nn.init.xavier_uniform_(torch.empty(features, settings.hidden)))
        self.second = nn.Parameter(nn.init.xavier_uniform_(torch.empty(settings.hidden, classes)))

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        feature, edge = (self.dropout, self.edge_dropout) if self.training else (0.0, 0.0)
        hidden = drop(F.relu(transform(drop(x, feature), self.first)), feature)
        start = transform(hidden, self.second)
        z = start
        for _ in range(self.steps):
            z = (1 - self.teleport) * self.step(z, graph, edge) + self.teleport * start
        return z

    @staticmethod
    def step(z: Tensor, graph: MaskedGraph, dropout: float) -> Tensor:
        """Â z, with dropout on the entries of Â."""
        value, self_loop = graph.gcn
        value, self_loop = drop(value, dropout), drop(self_loop, dropout)  # type: ignore[assignment]
        return multiply(graph.adjacency, z, value) + self_loop * z


@dataclass(frozen=True, kw_only=True)
class Appnp(Trained):
    """K = 10, α = .1, as published."""

    hidden: int = 64
    steps: int = 10
    teleport: float = 0.1
    dropout: float = 0.5
    edge_dropout: float = 0.5
    first_decay: float = 5e-3  # of W1 alone
    weight_decay: float = 0.0

    def model(self, graph: Graph) -> Model:
        return AppnpNet(graph.num_features, graph.num_classes, self)

    def loss(self, model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
        assert isinstance(model, AppnpNet)
        return (
            supervised(model, graph, masked, epoch)
            + self.first_decay / 2 * model.first.square().sum()
        )
