"""SGC: one linear layer over a smoothed X. Wu et al., Simplifying Graph Convolutional Networks,
ICML 2019.

    Y = Â^K X W + b,   Â = D^-1/2 (A + I) D^-1/2

X W comes first: the same, and Â^K X of a sparse X would be dense.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gassip.baselines._shared.trained import Trained
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.dropout import drop
from gassip.nn.kernels import transform
from gassip.nn.net import Model
from gassip.nn.propagate import MaskedGraph, received


class SgcNet(Model):
    """W and b, and K steps."""

    def __init__(self, features: int, classes: int, settings: "Sgc") -> None:
        super().__init__()
        self.steps, self.dropout = settings.steps, settings.dropout
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(features, classes)))
        self.bias = nn.Parameter(torch.zeros(classes))

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        h = transform(drop(x, self.dropout if self.training else 0.0), self.weight)
        for _ in range(self.steps):
            h = received(graph, "gcn", h)
        return h + self.bias


@dataclass(frozen=True, kw_only=True)
class Sgc(Trained):
    """K = 2, no dropout, a high rate."""

    steps: int = 2
    dropout: float = 0.0
    epochs: int = 100
    lr: float = 0.2
    weight_decay: float = 5e-5

    def model(self, graph: Graph) -> Model:
        return SgcNet(graph.num_features, graph.num_classes, self)
