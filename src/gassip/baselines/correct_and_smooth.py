"""Correct and smooth: a net's errors on training nodes, spread over the graph, then the labels
themselves. Huang et al., Combining Label Propagation and Simple Models Out-performs Graph Neural
Networks, ICLR 2021.

    correct   E_0 = Y − P on training nodes, 0 elsewhere,   E_{k+1} = α S E_k + (1 − α) E_0,   P' =
              P + scale · E_K
    smooth    P'_i = Y_i on training nodes,   P_{k+1} = α S P_k + (1 − α) P',   S = D^-1/2 A D^-1/2

PyG has both steps. The scale is the one that validates best: each node's own (autoscale), or a
number.
"""

import time
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.nn.models import CorrectAndSmooth as Propagation

from gassip.baselines._shared.propagation import LEAST, quiet_csr
from gassip.baselines._shared.stack import Stack
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.metrics import all_scores
from gassip.nn.net import Model, Net
from gassip.nn.propagate import MaskedGraph
from gassip.train.context import RunContext
from gassip.train.label_propagation import known_labels
from gassip.train.plan import Solution
from gassip.train.trainer import predict


class Smoothed(Model):
    """A trained net, and the labels that correct and smooth what it says."""

    labels: Tensor  # [N], -1 where unknown

    def __init__(
        self, net: Net, labels: Tensor, settings: "CorrectAndSmooth", scale: float
    ) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("labels", labels)
        options = {"autoscale": scale == 0, "scale": scale}
        self.propagation = Propagation(
            settings.steps, settings.alpha, settings.steps, settings.alpha, **options
        )

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        share, known = torch.softmax(self.net.run(x, graph), 1), self.labels >= 0
        with quiet_csr(graph) as edges:
            smoothed: Tensor = self.propagation(share, self.labels[known], known, edges)
        return smoothed.clamp_min(LEAST).log()


@dataclass(frozen=True, kw_only=True)
class CorrectAndSmooth(Stack):
    """An MLP, as published, or another net, with its errors passed on."""

    base: Literal["Linear", "GCNConv", "SAGEConv"] = "Linear"
    alpha: float = 0.8
    steps: int = 50
    scales: tuple[float, ...] = (0.0, 1.0, 3.0)  # that compete on validation; 0: autoscale

    def net(self, graph: Graph) -> Net:
        return self.stacked(self.base, graph)

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        began = time.perf_counter()
        plain = super().solve(graph, run)
        choices = {f"scale {scale:g}": self.smoothed(plain, scale) for scale in self.scales}
        values = {
            name: choice.scores.get(run.metric, {}).get("val", -torch.inf)
            for name, choice in choices.items()
        }
        best = max(values, key=lambda name: values[name])
        details: dict[str, object] = {"correction": best, "val": values, "plain": plain.scores}
        return replace(choices[best], details=details, seconds=time.perf_counter() - began)

    def smoothed(self, plain: Solution, scale: float) -> Solution:
        """The trained net corrected and smoothed with this scale."""
        assert isinstance(plain.model, Net)
        model = Smoothed(plain.model, known_labels(plain.graph), self, scale).eval()
        return replace(
            plain,
            model=model,
            scores=all_scores(predict(model, plain.graph), plain.graph),
            size=None,
        )
