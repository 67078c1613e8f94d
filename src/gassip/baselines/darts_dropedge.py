"""DARTS whose search sees a random part of the edges, drawn anew every epoch: the paper's in-text
ablation.

    A_t = A ⊙ m_t,   m_t keeps round(keep · P) of the P undirected edges at random,   W ←
                     L_train(A_t),   α ← L_val(A_t)

The found architecture is retrained on all edges. DropEdge: Rong et al., Towards Deep Graph
Convolutional Networks on Node Classification, ICLR 2020; the share kept is the one published there
for Cora.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gassip.baselines._shared.searched import Searched
from gassip.baselines.darts import UNMASKED
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.nn.propagate import MaskedGraph
from gassip.paper.induce import induce
from gassip.paper.loop import epoch
from gassip.paper.state import State
from gassip.settings import Settings
from gassip.train.context import RunContext
from gassip.train.plan import Plan
from gassip.train.trainer import seeded


@dataclass(frozen=True, kw_only=True)
class DartsDropedge(Searched):
    """DARTS with a share of edges kept in each epoch of the search."""

    settings: Settings = UNMASKED
    keep: float = 0.4

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise GassipError(f"keep is {self.keep}; a share lies above 0 and at most at 1")

    def num_steps(self, graph: Graph) -> int:
        return self.settings.search.epochs

    def search(
        self,
        graph: Graph,
        run: RunContext,
        on_draw: Callable[[Tensor], None] | None = None,
    ) -> Plan:
        """`on_draw` is shown the edges [E] of each epoch."""
        with seeded(run.seed, graph.device):
            state = State(graph, self.settings.search)
            while len(state.history) < self.settings.search.epochs:
                kept = drawn_edges(graph, self.keep)
                if on_draw is not None:
                    on_draw(kept)
                state.masked = MaskedGraph.of(graph, kept.float())
                state.history.append(epoch(state, run.metric))
                if run.on_event is not None:
                    run.on_event(state.history[-1])
        return induce(state, self.settings)


def drawn_edges(graph: Graph, keep: float) -> Tensor:
    """A random share of the undirected edges, in both directions, [E] bool."""
    count = int(graph.pair.max()) + 1
    kept = torch.zeros(count, dtype=torch.bool, device=graph.device)
    kept[torch.randperm(count, device=graph.device)[: round(keep * count)]] = True
    return kept[graph.pair]
