"""The help that gassip-best has from validation labels, given to plain nets (METHOD.md, Results).

    GCN, SAGE, MLP and APPNP are trained; z' = t log p + b + w o of each; the best on validation

t and b are bias-corrected temperature scaling, w o label propagation from the training nodes, taken
if the validation likelihood rises beyond chance. All of them are fitted as gassip-best fits them.

Shapes: N nodes, C classes.
"""

import time
from dataclasses import dataclass, replace
from math import log

import torch
from torch import Tensor

from gassip.baselines._shared.stack import Stack
from gassip.best.calibration import LEAST, fit_power_and_bias
from gassip.best.label_propagation import label_weight
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.metrics import all_scores
from gassip.nn.net import Architecture, Model, Net, net_for
from gassip.nn.propagate import MaskedGraph
from gassip.train.context import RunContext
from gassip.train.label_propagation import known_labels, label_logits
from gassip.train.plan import Solution
from gassip.train.trainer import predict, solve

PLAIN = ("GCNConv+GCNConv", "SAGEConv+SAGEConv", "Linear+Linear", "Linear+APPNP10")


class FittedNet(Model):
    """A trained net, and the numbers that were fitted to its answers on validation nodes."""

    power: Tensor  # [1]
    bias: Tensor  # [C]
    labels: Tensor  # [N], -1 where unknown

    def __init__(self, net: Net, power: Tensor, bias: Tensor, labels: Tensor, weight: float):
        super().__init__()
        self.net, self.weight = net, weight
        for name, value in (("power", power), ("bias", bias), ("labels", labels)):
            self.register_buffer(name, value)

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        log_share = torch.log_softmax(self.net.run(x, graph), 1)
        logits = self.power * log_share + self.bias
        if self.weight:
            logits = logits + self.weight * label_logits(self.labels, logits.shape[1], graph)
        return logits


@dataclass(frozen=True, kw_only=True)
class Fitted(Stack):
    """The best of four plain nets on validation, with this help."""

    plain: tuple[str, ...] = PLAIN

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        began = time.perf_counter()
        run = run.counted()
        solutions = {text: fitted(self.trained(text, graph, run)) for text in self.plain}
        values = {
            text: solution.scores.get(run.metric, {}).get("val", -torch.inf)
            for text, solution in solutions.items()
        }
        best = max(values, key=lambda text: values[text])
        details: dict[str, object] = {"net": best, "val": values}
        return replace(solutions[best], details=details, seconds=time.perf_counter() - began)

    def trained(self, text: str, graph: Graph, run: RunContext) -> Solution:
        """The plain net of these operations."""
        ops = tuple(text.split("+"))
        shape = Architecture(ops=ops, hidden=(self.hidden,) * (len(ops) - 1))
        return solve(
            graph,
            lambda: net_for(graph, shape, self.dropout),
            epochs=self.epochs,
            lr=self.lr,
            weight_decay=self.weight_decay,
            seed=run.seed,
            metric=run.metric,
            on_epoch=run.on_event,
        )


def fitted(plain: Solution) -> Solution:
    """The same net with t, b and w; as it is without validation nodes."""
    graph, net = plain.graph, plain.model
    assert isinstance(net, Net)
    if not bool(graph.val_mask.any()):
        return plain
    log_share = torch.log_softmax(predict(net, graph).double(), 1).clamp_min(log(LEAST))
    power, bias = fit_power_and_bias(log_share[graph.val_mask], graph.y[graph.val_mask])
    logits = (power * log_share + bias).float()
    weight, _ = label_weight(logits, graph, scaled=False)
    model = FittedNet(net, power.float(), bias.float(), known_labels(graph), weight).eval()
    scores = all_scores(predict(model, graph), graph)
    return replace(plain, model=model, scores=scores, size=None)
