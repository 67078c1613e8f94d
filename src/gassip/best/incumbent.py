"""The best net so far, ready to be handed over at any time: highest on validation, ties to the
smaller."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from gassip.best.trials import Trial
from gassip.graph.graph import Graph
from gassip.nn.net import Net
from gassip.settings import Settings
from gassip.train.plan import Plan, Solution
from gassip.train.trainer import conclude


@dataclass(frozen=True, eq=False, kw_only=True)
class Incumbent:
    """A trained net, how it validates, and the plan that it follows."""

    net: Net
    value: float  # validation score
    best_epoch: int
    name: str  # of its row of the leaderboard
    plan: Plan
    cut: bool = False  # whether the time was up before all was done

    @property
    def order(self) -> tuple[float, int]:
        return self.value, -self.net.num_weights()[0]

    def solution(self, graph: Graph, *, began: float) -> Solution:
        """The net as it is, judged on the graph with its test nodes."""
        return conclude(
            self.net,
            self.plan.on(graph),
            began=began,
            best_epoch=self.best_epoch,
            edges_total=self.plan.edge_keep.numel(),
        )


class BestSoFar:
    """Holds the incumbent; one assignment replaces it, so that it is whole at any time."""

    def __init__(self) -> None:
        self.taken: Incumbent | None = None

    def offer(self, trial: Trial, plan: Callable[[], Plan]) -> None:
        """`plan` is made only if the trial is better."""
        order = (trial.value, -trial.net.num_weights()[0])
        if self.taken is None or order > self.taken.order:
            self.taken = Incumbent(
                net=trial.net,
                value=trial.value,
                best_epoch=trial.best_epoch,
                name=trial.name,
                plan=plan(),
            )

    def offer_solution(self, plan: Plan, solution: Solution, value: float) -> None:
        """What a search found, retrained."""
        assert isinstance(solution.model, Net)
        offered = Incumbent(
            net=solution.model,
            value=value,
            best_epoch=solution.best_epoch,
            name="retrained",
            plan=plan,
        )
        if self.taken is None or offered.order > self.taken.order:
            self.taken = offered


def plan_of(trial: Trial, graph: Graph, settings: Settings, *, symmetrised: bool) -> Plan:
    """A net without a search: all of its weights, all edges of `graph`."""
    net, every = trial.net, torch.ones(graph.num_edges, device=graph.device)
    return Plan(
        settings=settings,
        recipe=trial.recipe,
        architecture=trial.architecture,
        symmetrised=symmetrised,
        weight_keep=[torch.ones_like(layer.weight, dtype=torch.bool) for layer in net.layers],
        edge_keep=every.bool(),
        edge_mask=every,
        first_weights=trial.first,
        last_weights={name: value.detach().clone() for name, value in net.named_parameters()},
        history=[],
        seconds=0.0,
        feature_index=net.feature_index,
    )
