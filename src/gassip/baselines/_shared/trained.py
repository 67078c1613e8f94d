"""A method with a model of its own, trained by the shared trainer.

    θ* = argmin_θ loss(model_θ, graph),   the epoch with the best validation score

A subclass gives `model`, and where it has them its own `loss` and the edges its model still uses at
inference.
"""

import time
from dataclasses import dataclass, replace

from torch import Tensor

from gassip.baselines._shared.baseline import Baseline
from gassip.graph.graph import Graph
from gassip.nn.net import Model
from gassip.nn.propagate import MaskedGraph
from gassip.train.context import RunContext
from gassip.train.losses import supervised
from gassip.train.plan import Solution
from gassip.train.trainer import solve


@dataclass(frozen=True, kw_only=True)
class Trained(Baseline):
    """What every training needs; a subclass sets the published values."""

    epochs: int = 300
    lr: float = 0.01
    weight_decay: float = 5e-4

    def model(self, graph: Graph) -> Model:
        """A fresh model."""
        raise NotImplementedError

    def loss(self, model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
        return supervised(model, graph, masked, epoch)

    def used(self, model: Model, graph: Graph) -> Tensor | None:
        """Edges [E] that the trained model uses; None where it uses them all."""
        return None

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        began = time.perf_counter()
        solution = solve(
            graph,
            lambda: self.model(graph),
            epochs=self.epochs,
            lr=self.lr,
            weight_decay=self.weight_decay,
            seed=run.seed,
            metric=run.metric,
            loss=self.loss,
            on_epoch=run.on_event,
        )
        keep = self.used(solution.model, graph)
        if keep is None:
            return solution
        seconds = time.perf_counter() - began
        return replace(
            solution, graph=graph.keep(keep), edges_kept=int(keep.sum()), seconds=seconds
        )
