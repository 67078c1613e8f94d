"""DARTS+UGS: search first, prune afterwards.

    a* = argmax α of DARTS;   then UGS's rounds on a* from fresh weights and the whole graph

Liu, Simonyan and Yang, DARTS, ICLR 2019, and Chen et al., A Unified Lottery Ticket Hypothesis for
Graph Neural Networks, ICML 2021; the pair is a baseline of Xie et al., KDD 2024.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from gassip.baselines.darts import Darts
from gassip.baselines.ugs import Ugs
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.paper.loop import Row
from gassip.train.trainer import Found, Solution


@dataclass(frozen=True, kw_only=True)
class DartsUgs(Ugs):
    """UGS on what DARTS finds; `search_epochs` None is DARTS's own number."""

    search_epochs: int | None = None

    def darts(self, graph: Graph) -> Darts:
        darts = Darts.of(graph, prune=False, sparsify=False)
        return darts if self.search_epochs is None else replace(darts, epochs=self.search_epochs)

    def num_steps(self, graph: Graph) -> int:
        return self.darts(graph).num_steps(graph)

    def search(
        self,
        graph: Graph,
        *,
        seed: int,
        metric: Metric = "accuracy",
        on_epoch: Callable[[Row], None] | None = None,
        partial: Path | None = None,
    ) -> Found:
        return self.darts(graph).search(
            graph, seed=seed, metric=metric, on_epoch=on_epoch, partial=partial
        )

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
        solution = super().solve(graph, seed=seed, metric=metric, found=searched, on_epoch=on_epoch)
        before = searched.seconds if found is None else 0.0
        details = solution.details | {"search_seconds": before}
        return replace(solution, seconds=solution.seconds + before, details=details)
