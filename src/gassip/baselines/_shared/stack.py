"""The same operation in every layer: what GCN, SAGE, ARMA and MLP are.

h_l = o(dropout(ReLU(h_{l-1}))),   trained by Adam on the training nodes
"""

from dataclasses import dataclass
from typing import ClassVar

from gassip.baselines._shared.baseline import Baseline
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, Net, net_for
from gassip.train.context import RunContext
from gassip.train.plan import Solution
from gassip.train.trainer import solve


@dataclass(frozen=True, kw_only=True)
class Stack(Baseline):
    """Settings of a hand-made net; a subclass names its operation."""

    op: ClassVar[str]

    layers: int = 2
    hidden: int = 64
    dropout: float = 0.5
    batch_norm: bool = False
    epochs: int = 300
    lr: float = 0.01
    weight_decay: float = 5e-4

    def net(self, graph: Graph) -> Net:
        return self.stacked(self.op, graph)

    def stacked(self, op: str, graph: Graph) -> Net:
        """The net with this operation in every layer."""
        inner = (self.hidden,) * (self.layers - 1)
        shape = Architecture(ops=(op,) * self.layers, hidden=inner, batch_norm=self.batch_norm)
        return net_for(graph, shape, self.dropout)

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        return solve(
            graph,
            lambda: self.net(graph),
            epochs=self.epochs,
            lr=self.lr,
            weight_decay=self.weight_decay,
            seed=run.seed,
            metric=run.metric,
            on_epoch=run.on_event,
        )
