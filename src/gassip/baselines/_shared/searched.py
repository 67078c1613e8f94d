"""A method on the settings of a search: search, then retrain what was found.

    plan = search(G),   W* = argmin L_train(plan, W)

A subclass gives `search` and `num_steps`.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Self

from gassip.baselines._shared.baseline import Baseline
from gassip.graph.graph import Graph
from gassip.settings import Settings, preset
from gassip.train.context import RunContext
from gassip.train.plan import Plan, Solution
from gassip.train.trainer import retrain


@dataclass(frozen=True, kw_only=True)
class Searched(Baseline):
    """The settings of a search, with the search."""

    settings: Settings = field(default_factory=Settings)

    @classmethod
    def for_graph(cls, graph: Graph, preset_name: str = "literal", **overrides: Any) -> Self:
        """A preset for this graph with some fields replaced."""
        return cls(settings=preset(preset_name, graph, overrides))

    def num_steps(self, graph: Graph) -> int:
        """How many events a search tells."""
        raise NotImplementedError

    def search(self, graph: Graph, run: RunContext) -> Plan:
        raise NotImplementedError

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        plan = self.search(graph, run.silent())
        return with_search(self.solve_from(plan, graph, run), plan.seconds)

    def solve_from(self, plan: Plan, graph: Graph, run: RunContext) -> Solution:
        """What a search found, retrained."""
        solution = retrain(graph, plan, seed=run.seed, metric=run.metric, on_epoch=run.on_event)
        details = {"architecture": str(plan.architecture), "search_seconds": 0.0}
        return replace(solution, details=details)


def with_search(solution: Solution, seconds: float) -> Solution:
    """The solution with the time of the search that was part of the run."""
    details = solution.details | {"search_seconds": seconds}
    return replace(solution, seconds=solution.seconds + seconds, details=details)
