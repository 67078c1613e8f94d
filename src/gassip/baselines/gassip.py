"""GASSIP as one method among the others: the search of Algorithm 2, then retraining of what it
found.

    (a*, M_W*, M_G*) = search(G),   W* = argmin L_train(A ⊙ M_G*, W ⊙ M_W*, a*)

Xie et al., Towards Lightweight Graph Neural Network Search with Curriculum Graph Sparsification,
KDD 2024. Its ablations are the same method with `prune`, `sparsify` or `curriculum` off;
`gassip-best` is the same with the settings of the preset `best` (METHOD.md).
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.paper.loop import Row, search
from gassip.runs.checkpoint import FolderCheckpoint
from gassip.settings import Gassip, num_rows, preset
from gassip.train.trainer import Found, Solution, retrain


@dataclass(frozen=True, kw_only=True)
class GassipMethod(Gassip):
    """The settings of a search, with the search."""

    @classmethod
    def of(cls, graph: Graph, name: str = "paper", **overrides: Any) -> Self:
        """A preset for this graph with some fields replaced."""
        base = preset(name, graph, overrides)
        return cls(**{f.name: getattr(base, f.name) for f in fields(Gassip)})

    def plain(self) -> Gassip:
        """The settings alone, as a run folder keeps them."""
        return Gassip(**{f.name: getattr(self, f.name) for f in fields(Gassip)})

    def num_steps(self, graph: Graph) -> int:
        """How many rows a search tells."""
        return num_rows(self.plain())

    def search(
        self,
        graph: Graph,
        *,
        seed: int,
        metric: Metric = "accuracy",
        on_epoch: Callable[[Row], None] | None = None,
        partial: Path | None = None,
    ) -> Found:
        settings, kept = self.plain(), None
        if partial is not None:
            kept = FolderCheckpoint(
                partial, graph=graph, settings=settings, seed=seed, metric=metric
            )
        return search(graph, settings, seed=seed, metric=metric, on_epoch=on_epoch, checkpoint=kept)

    def solve(
        self,
        graph: Graph,
        *,
        seed: int,
        metric: Metric = "accuracy",
        found: Found | None = None,
        on_epoch: Callable[[dict[str, float]], None] | None = None,
    ) -> Solution:
        searched = found or self.search(graph, seed=seed, metric=metric)
        return trained(graph, searched, found is None, seed=seed, metric=metric, on_epoch=on_epoch)


def trained(
    graph: Graph,
    found: Found,
    count_search: bool,
    *,
    seed: int,
    metric: Metric,
    on_epoch: Callable[[dict[str, float]], None] | None,
) -> Solution:
    """What was found, retrained; the seconds include the search where it was part of the run."""
    solution = retrain(graph, found, seed=seed, metric=metric, on_epoch=on_epoch)
    before = found.seconds if count_search else 0.0
    details = {"architecture": str(found.architecture), "search_seconds": before}
    return replace(solution, seconds=solution.seconds + before, details=details)
