"""Which plan a search hands over: architecture and dropout, then the cut, by short trainings.

    score(plan) = mean over seeds of the validation score
    gain_i      = share_i(other cut) − share_i(first cut)      share of trainings right at node i
    the other cut is taken if mean(gain) > CUT_SIGMAS · std(gain) / √n

Line 9 of Algorithm 2 takes the most probable architecture: there is nothing to choose then.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.paper.induce import induce, kept_edges, paths_to_try
from gassip.paper.state import State
from gassip.settings import Settings
from gassip.train.batched import retrain_many
from gassip.train.plan import Decision, Plan, Row, Solution
from gassip.train.trainer import predict

TRIALS = 3  # short trainings of each plan
CUT_SIGMAS = 2.0  # standard errors by which a cut must be better than the first
HIGHEST = "the highest mean validation score of three short trainings is taken"


@dataclass(frozen=True)
class Tried:
    """A plan after its short trainings."""

    plan: Plan
    score: float  # mean validation score
    right: Tensor  # [validation nodes], share of the trainings that label each rightly

    @property
    def name(self) -> str:
        return f"{self.plan.architecture}, dropout {self.plan.recipe.dropout:g}"


def choose_plan(
    state: State, settings: Settings, metric: Metric, *, symmetrised: bool = False
) -> tuple[Plan, tuple[Decision, ...]]:
    """The plan that the search hands over, and how it was chosen."""
    retraining, search = settings.retraining, settings.search
    plans = [
        induce(state, settings, symmetrised=symmetrised, path=path)
        for path in paths_to_try(state, metric)
    ]
    dropouts = tuple(dict.fromkeys((retraining.dropout, *retraining.dropouts)))  # each once
    two_cuts = search.sparsify and search.certain_share < 1
    if len(plans) == len(dropouts) == 1 and not two_cuts:
        return plans[0], ()
    first = [
        try_plan(state.graph, with_dropout(plan, dropout), settings, metric)
        for plan in plans
        for dropout in dropouts
    ]
    best = highest_score(first)
    induced = induced_decision(first, best)
    if not two_cuts:
        return best.plan, (induced,)
    keep, dropout = kept_edges(state, certain_share=1.0), best.plan.recipe.dropout
    anywhere = [
        try_plan(
            state.graph, replace(with_dropout(plan, dropout), edge_keep=keep), settings, metric
        )
        for plan in plans
    ]
    taken, cut = choose_cut(best, highest_score(anywhere))
    return taken.plan, (*((induced,) if len(first) > 1 else ()), cut)


def with_dropout(plan: Plan, dropout: float) -> Plan:
    """The plan with another dropout in its training."""
    return replace(plan, recipe=replace(plan.recipe, dropout=dropout))


def try_plan(graph: Graph, plan: Plan, settings: Settings, metric: Metric) -> Tried:
    """`TRIALS` trainings of `induce_epochs`."""
    short = replace(plan, recipe=replace(plan.recipe, epochs=settings.search.induce_epochs))
    solutions = retrain_many(graph, short, seeds=range(TRIALS), metric=metric)
    score = sum(validation_score(solution, metric) for solution in solutions) / TRIALS
    right = torch.stack([labelled_rightly(graph, solution) for solution in solutions])
    return Tried(plan, score, right.double().mean(0))


def validation_score(solution: Solution, metric: Metric) -> float:
    """Where the metric is not defined on the validation nodes, accuracy stands in for it."""
    return solution.scores.get(metric, {}).get("val", solution.accuracy["val"])


def labelled_rightly(graph: Graph, solution: Solution) -> Tensor:
    """Of each validation node whether it is labelled rightly, [V] bool."""
    labels = predict(solution.model, solution.graph)[graph.val_mask].argmax(1)
    return labels == graph.y[graph.val_mask]


def highest_score(tried: list[Tried]) -> Tried:
    """The first of those with the highest score."""
    return max(tried, key=lambda one: one.score)


def induced_decision(tried: list[Tried], best: Tried) -> Decision:
    rows: list[Row] = [{"name": one.name, "score": one.score} for one in tried]
    return Decision(stage="induced", taken=best.name, tried=tuple(rows), statistic=HIGHEST)


def choose_cut(certain: Tried, anywhere: Tried) -> tuple[Tried, Decision]:
    """The plan whose cut is between certain nodes; the best one with the lowest edges by M_G
    wherever they are, if that validates better beyond chance. A cut may call for another
    architecture, so each comes with its best one."""
    gain = anywhere.right - certain.right
    error = float(gain.std(correction=0)) / gain.numel() ** 0.5
    sigmas = float(gain.mean()) / error if error > 0 else 0.0
    names = [
        f"between certain nodes, {certain.plan.architecture}",
        f"anywhere, {anywhere.plan.architecture}",
    ]
    better = sigmas > CUT_SIGMAS
    decision = Decision(
        stage="cut",
        taken=names[better],
        tried=(
            {"name": names[0], "score": float(certain.right.mean())},
            {"name": names[1], "score": float(anywhere.right.mean()), "statistic": sigmas},
        ),
        statistic="standard errors of the gain in validation nodes labelled rightly",
        threshold=CUT_SIGMAS,
    )
    return (anywhere if better else certain), decision
