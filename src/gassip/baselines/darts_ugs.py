"""DARTS+UGS: search first, prune afterwards.

    a* = argmax α of DARTS;   then UGS's rounds on a* from fresh weights and the whole graph

Liu, Simonyan and Yang, DARTS, ICLR 2019, and Chen et al., A Unified Lottery Ticket Hypothesis for
Graph Neural Networks, ICML 2021; the pair is a baseline of Xie et al., KDD 2024.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gassip.baselines._shared.searched import with_search
from gassip.baselines.darts import Darts
from gassip.baselines.ugs import Ugs
from gassip.graph.graph import Graph
from gassip.train.context import RunContext
from gassip.train.plan import Plan, Solution


@dataclass(frozen=True, kw_only=True)
class DartsUgs(Ugs):
    """UGS on what DARTS finds; `search_epochs` None is DARTS's own number."""

    search_epochs: int | None = None

    def darts(self, graph: Graph) -> Darts:
        options: dict[str, Any] = {}
        if self.search_epochs is not None:
            options["epochs"] = self.search_epochs
        return Darts.for_graph(graph, prune=False, sparsify=False, **options)

    def num_steps(self, graph: Graph) -> int:
        return self.darts(graph).num_steps(graph)

    def search(self, graph: Graph, run: RunContext) -> Plan:
        return self.darts(graph).search(graph, run)

    def resume(self, folder: Path, graph: Graph, run: RunContext) -> Plan:
        """Like `search`, from where a killed one stopped; `folder` holds its state until then."""
        return self.darts(graph).resume(folder, graph, run)

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        """Search and prune."""
        plan = self.search(graph, run.silent())
        return with_search(super().solve_from(plan, graph, run), plan.seconds)

    def solve_from(self, plan: Plan, graph: Graph, run: RunContext) -> Solution:
        """Prune what a search has found."""
        return with_search(super().solve_from(plan, graph, run), 0.0)
