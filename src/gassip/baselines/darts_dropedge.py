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
from pathlib import Path

import torch
from torch import Tensor

from gassip.baselines.darts import Darts
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.nn.propagate import MaskedGraph
from gassip.paper.loop import Row, State, epoch, induce
from gassip.train.trainer import Found, seeded


@dataclass(frozen=True, kw_only=True)
class DartsDropedge(Darts):
    """DARTS with a share of edges kept in each epoch of the search."""

    keep: float = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.keep <= 1:
            raise GassipError(f"keep is {self.keep}; a share lies above 0 and at most at 1")

    def search(
        self,
        graph: Graph,
        *,
        seed: int,
        metric: Metric = "accuracy",
        on_epoch: Callable[[Row], None] | None = None,
        partial: Path | None = None,
        on_draw: Callable[[Tensor], None] | None = None,
    ) -> Found:
        """`on_draw` is shown the edges [E] of each epoch. A killed one begins anew: nothing is kept
        in `partial`."""
        with seeded(seed, graph.device):
            state = State(graph, self.plain())
            while len(state.history) < self.epochs:
                kept = drawn_edges(graph, self.keep)
                if on_draw is not None:
                    on_draw(kept)
                state.masked = MaskedGraph.of(graph, kept.float())
                state.history.append(epoch(state, metric))
                if on_epoch is not None:
                    on_epoch(state.history[-1])
        return induce(state)


def drawn_edges(graph: Graph, keep: float) -> Tensor:
    """A random share of the undirected edges, in both directions, [E] bool."""
    count = int(graph.pair.max()) + 1
    kept = torch.zeros(count, dtype=torch.bool, device=graph.device)
    kept[torch.randperm(count, device=graph.device)[: round(keep * count)]] = True
    return kept[graph.pair]
