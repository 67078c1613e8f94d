"""Which plan a search hands over: architecture, dropout and cut, by trainings on validation.

    score(plan) = mean over seeds of the validation score
    gain_i      = share_i(other) − share_i(first)      share of trainings right at node i
    sigmas      = mean(gain) / (std(gain) / √n)

1. All architectures and dropouts have short trainings.
2. The other cut is taken if sigmas > SIGMAS, each cut with its best architecture.
3. The plans that are not behind the best by SIGMAS are trained in full; the highest score is taken.
   A short training tells how fast a net learns, and less of how good it will be.

Line 9 of Algorithm 2 takes the most probable architecture: there is nothing to choose then.
"""

import time
from collections.abc import Callable
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

TRIALS = 3  # trainings of each plan, short or in full
SIGMAS = 2.0  # standard errors beyond which two plans differ
HIGHEST = "the highest mean validation score of three short trainings is taken"
IN_FULL = "the highest mean validation score of three trainings is taken"


@dataclass(frozen=True)
class Tried:
    """A plan after its trainings."""

    plan: Plan
    score: float  # mean validation score
    right: Tensor  # [validation nodes], share of the trainings that label each rightly

    @property
    def name(self) -> str:
        return f"{self.plan.architecture}, dropout {self.plan.recipe.dropout:g}"


@dataclass(frozen=True)
class Trainings:
    """Trains plans, and tells of each."""

    graph: Graph
    metric: Metric
    tell: Callable[[Row], None]

    def run(self, stage: str, plans: list[Plan], epochs: int) -> list[Tried]:
        return [self.one(stage, plan, epochs) for plan in plans]

    def one(self, stage: str, plan: Plan, epochs: int) -> Tried:
        began = time.perf_counter()
        tried = try_plan(self.graph, plan, epochs, self.metric)
        row: Row = {"stage": stage, "architecture": tried.name, "val_score": tried.score}
        self.tell(row | {"seconds": time.perf_counter() - began})
        return tried


def choose_plan(
    state: State,
    settings: Settings,
    metric: Metric,
    *,
    symmetrised: bool = False,
    tell: Callable[[Row], None] = lambda row: None,
) -> tuple[Plan, tuple[Decision, ...]]:
    """The plan that the search hands over, and how it was chosen; `tell` hears of every plan that
    was trained."""
    retraining, search = settings.retraining, settings.search
    plans = [
        induce(state, settings, symmetrised=symmetrised, path=path)
        for path in paths_to_try(state, metric)
    ]
    dropouts = tuple(dict.fromkeys((retraining.dropout, *retraining.dropouts)))  # each once
    two_cuts = search.sparsify and search.certain_share < 1
    if len(plans) == len(dropouts) == 1 and not two_cuts:
        return plans[0], ()
    trainings, short = Trainings(state.graph, metric, tell), short_epochs(settings)
    each = [with_dropout(plan, dropout) for plan in plans for dropout in dropouts]
    tried, decisions = trainings.run("induced", each, short), []
    if len(tried) > 1:
        decisions.append(highest_decision("induced", tried, HIGHEST))
    if two_cuts:
        certain = highest_score(tried)
        anywhere = trainings.run("cut", cut_anywhere(state, plans, certain.plan), short)
        better, cut = choose_cut(certain, highest_score(anywhere))
        tried = anywhere if better else tried
        decisions.append(cut)
    level = level_with_the_best(tried)
    if len(level) > 1 and short < retraining.epochs:
        level = trainings.run("induced in full", [one.plan for one in level], retraining.epochs)
        decisions.append(highest_decision("induced in full", level, IN_FULL))
    return highest_score(level).plan, tuple(decisions)


def short_epochs(settings: Settings) -> int:
    """Of the trainings in which all plans compete."""
    return min(settings.search.induce_epochs, settings.retraining.epochs)


def most_trials(settings: Settings) -> int:
    """How many plans are trained at most."""
    search, dropouts = settings.search, {settings.retraining.dropout, *settings.retraining.dropouts}
    count = min(search.induced_from, len(search.ops) ** search.layers)
    two_cuts = search.sparsify and search.certain_share < 1
    if count == len(dropouts) == 1 and not two_cuts:
        return 0
    in_full = short_epochs(settings) < settings.retraining.epochs
    return count * len(dropouts) * (1 + in_full) + count * two_cuts


def cut_anywhere(state: State, plans: list[Plan], best: Plan) -> list[Plan]:
    """The plans without the lowest edges by M_G, wherever these are, with the dropout of the best
    so far."""
    keep, dropout = kept_edges(state, certain_share=1.0), best.recipe.dropout
    return [replace(with_dropout(plan, dropout), edge_keep=keep) for plan in plans]


def with_dropout(plan: Plan, dropout: float) -> Plan:
    """The plan with another dropout in its training."""
    return replace(plan, recipe=replace(plan.recipe, dropout=dropout))


def try_plan(graph: Graph, plan: Plan, epochs: int, metric: Metric) -> Tried:
    """`TRIALS` trainings of so many epochs."""
    short = replace(plan, recipe=replace(plan.recipe, epochs=epochs))
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


def level_with_the_best(tried: list[Tried]) -> list[Tried]:
    """Those that are not behind the one with the highest score beyond chance, itself among them."""
    best = highest_score(tried)
    return [one for one in tried if sigmas_ahead(one, best) >= -SIGMAS]


def sigmas_ahead(one: Tried, other: Tried) -> float:
    """Standard errors by which one plan labels more validation nodes rightly than another."""
    gain = one.right - other.right
    error = float(gain.std(correction=0)) / gain.numel() ** 0.5
    return float(gain.mean()) / error if error > 0 else 0.0


def highest_decision(stage: str, tried: list[Tried], statistic: str) -> Decision:
    rows: list[Row] = [{"name": one.name, "score": one.score} for one in tried]
    return Decision(
        stage=stage, taken=highest_score(tried).name, tried=tuple(rows), statistic=statistic
    )


def choose_cut(certain: Tried, anywhere: Tried) -> tuple[bool, Decision]:
    """Whether the cut of the lowest edges by M_G wherever they are is better, beyond chance, than
    that between certain nodes. A cut may call for another architecture, so each comes with its best
    one."""
    sigmas = sigmas_ahead(anywhere, certain)
    names = [
        f"between certain nodes, {certain.plan.architecture}",
        f"anywhere, {anywhere.plan.architecture}",
    ]
    better = sigmas > SIGMAS
    decision = Decision(
        stage="cut",
        taken=names[better],
        tried=(
            {"name": names[0], "score": float(certain.right.mean())},
            {"name": names[1], "score": float(anywhere.right.mean()), "statistic": sigmas},
        ),
        statistic="standard errors of the gain in validation nodes labelled rightly",
        threshold=SIGMAS,
    )
    return better, decision
