"""IMP: iterative magnitude pruning, each round rewound to the start.

    a round: train W ⊙ m; of the weights alive drop the fifth of smallest |w| (one ranking over all
    layers); W ← W_0; train W with m fixed

Frankle and Carbin, The Lottery Ticket Hypothesis, ICLR 2019; the network-only baseline of Chen,
Sui, Chen, Zhang and Wang, A Unified Lottery Ticket Hypothesis for Graph Neural Networks, ICML 2021.
No mask is trained and no edge goes.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from gassip.baselines._shared.pruning import apart, drop_lowest, flat, take_over
from gassip.baselines.ugs import Ugs
from gassip.graph.graph import Graph
from gassip.nn.net import Net, net_for
from gassip.train.context import RunContext


@dataclass(frozen=True, kw_only=True)
class Imp(Ugs):
    """The rounds of UGS with the weight's own size as its score."""

    version: ClassVar[int] = 2

    edge_share: float = 0.0

    def prune(
        self, graph: Graph, dense: Net, keep: list[Tensor], run: RunContext
    ) -> tuple[Graph, list[Tensor]]:
        """One round: the weights that remain, by their size at the best validation epoch."""
        net = take_over(
            net_for(graph, dense.architecture, self.dropout, dense.feature_index), dense, keep
        )
        self.fit(net, graph, run)
        sizes = flat([layer.weight.detach().abs() for layer in net.layers])
        return graph, apart(drop_lowest(sizes, flat(keep), self.weight_share), keep)
