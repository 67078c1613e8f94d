"""Magnitude: train, remove the smallest weights of all layers together, train on. Han et al.,
Learning both Weights and Connections for Efficient Neural Networks, NeurIPS 2015.

    keep w  iff  |w| is among the largest (1 - p) of all |w|
"""

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from gassip.baselines.gcn import Gcn
from gassip.graph.graph import Graph
from gassip.graph.undirected import check_share
from gassip.nn.net import Net
from gassip.train.context import RunContext
from gassip.train.plan import Solution
from gassip.train.trainer import solve


def largest_weights(weights: Sequence[Tensor], share: float) -> list[Tensor]:
    """Bool of each shape: the largest in size stay, round(share · all) go."""
    joined = torch.cat([weight.detach().abs().reshape(-1) for weight in weights])
    keep = torch.ones(joined.numel(), dtype=torch.bool, device=joined.device)
    keep[joined.topk(round(share * joined.numel()), largest=False).indices] = False
    parts = keep.split([weight.numel() for weight in weights])
    return [part.view(weight.shape) for part, weight in zip(parts, weights, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Magnitude(Gcn):
    """A GCN trained, pruned by the share `removed`, and trained on."""

    version: ClassVar[int] = 2

    dropout: float = 0.8  # as tuned for the GCN beside it
    removed: float = 0.5
    tune_epochs: int = 100
    tune_lr: float = 0.01

    def __post_init__(self) -> None:
        check_share("removed", self.removed)

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        began = time.perf_counter()
        dense = super().solve(graph, run).model
        assert isinstance(dense, Net)
        net = copy.deepcopy(dense)
        net.prune(largest_weights([layer.weight for layer in net.layers], self.removed))
        solution = solve(
            graph,
            lambda: net,
            epochs=self.tune_epochs,
            lr=self.tune_lr,
            weight_decay=self.weight_decay,
            seed=run.seed,
            metric=run.metric,
            on_epoch=run.on_event,
        )
        return replace(solution, seconds=time.perf_counter() - began)
