"""A method of one's own: a frozen dataclass of its settings with `solve`, compared with a GCN.

    y = (X + A_mean X) W + b       one linear layer over a node and the mean of its neighbours

In a fork the class goes into gassip/baselines/, with one line in METHODS (gassip/methods/known.py):
`gassip run`, `tune`, records and tables then know it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

import gassip
from gassip.baselines._shared.trained import Trained
from gassip.graph.csr import Csr
from gassip.methods import entry
from gassip.nn.kernels import transform
from gassip.nn.net import Model
from gassip.nn.propagate import MaskedGraph, received
from gassip.train.context import RunContext


class MeanNet(Model):
    """W and b."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(features, classes)))
        self.bias = nn.Parameter(torch.zeros(classes))

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        product = transform(x, self.weight)  # X W, of a sparse X too
        return product + received(graph, "mean", product) + self.bias


@dataclass(frozen=True, kw_only=True)
class Mean(Trained):
    """What `Trained` does not know: the model and the settings that differ."""

    epochs: int = 60
    lr: float = 0.1

    def model(self, graph: gassip.Graph) -> Model:
        return MeanNet(graph.num_features, graph.num_classes)


graph = gassip.load("debian")
run = RunContext(seed=0)
for name, method in {"mean": Mean(), "sgc": entry("sgc").make(graph)}.items():
    solution = method.solve(graph, run)
    print(name, "test accuracy", round(solution.accuracy["test"], 3), solution.weights_kept)
