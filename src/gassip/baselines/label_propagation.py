"""Label propagation: no net and no features, only the training labels, spread over the graph. Zhu
and Ghahramani, Learning from Labeled and Unlabeled Data with Label Propagation, CMU-CALD-02-107,
2002.

    Z_0 = Y,   Z_{k+1} = α S Z_k + (1 − α) Y,   S = D^-1/2 A D^-1/2

PyG has the steps; how many validate best is taken.
"""

import time
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.nn.models import LabelPropagation as Propagation

from gassip.baselines._shared.baseline import Baseline
from gassip.baselines._shared.propagation import LEAST, quiet_csr
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.net import Model
from gassip.nn.propagate import MaskedGraph
from gassip.train.context import RunContext
from gassip.train.label_propagation import known_labels
from gassip.train.plan import Solution
from gassip.train.trainer import conclude


class Spread(Model):
    """The labels [N], -1 where unknown, and how many steps they take."""

    labels: Tensor

    def __init__(self, labels: Tensor, classes: int, steps: int, alpha: float) -> None:
        super().__init__()
        self.register_buffer("labels", labels)
        self.classes, self.propagation = classes, Propagation(steps, alpha)

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        known = self.labels >= 0
        y = F.one_hot(self.labels.clamp_min(0), self.classes).float() * known.unsqueeze(1)
        with quiet_csr(graph) as edges:
            share: Tensor = self.propagation(y, edges)
        return share.clamp_min(LEAST).log()


@dataclass(frozen=True, kw_only=True)
class LabelPropagation(Baseline):
    """The number of steps is chosen on validation."""

    alpha: float = 0.9
    steps: tuple[int, ...] = (1, 2, 3, 5, 10, 50)

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        """Nothing is drawn from `run.seed`, and there is no epoch of which to tell."""
        began, solutions = time.perf_counter(), []
        for steps in self.steps:
            model = Spread(known_labels(graph), graph.num_classes, steps, self.alpha)
            details: dict[str, object] = {"steps": steps}
            solutions.append(conclude(model, graph, began=began, best_epoch=0, details=details))
        return max(solutions, key=lambda tried: val_score(tried, run))


def val_score(solution: Solution, run: RunContext) -> float:
    """The validation score by the run's metric; -inf where it is not defined."""
    return solution.scores.get(run.metric, {}).get("val", -torch.inf)
