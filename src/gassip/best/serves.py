"""For which graphs the final net is trained: with label propagation in its training, or without.

    without   trained without it; w o is added to the logits on the training graph alone
    with      trained with w o added, so that it may rely on labels that no other graph has

Both are trained and judged on the validation nodes of the training graph and, without any label
propagation, on new nodes (train/inductive.py). `with` is taken

    own   if its validation score on the training graph is higher
    any   if that is higher beyond chance, and the score on new nodes is not lower beyond chance

so that what helps on the training graph is not bought with other graphs unless asked for.

Shapes: N nodes, C classes, n validation nodes, h held-out nodes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gassip.best.decisions import SCORE
from gassip.best.rules import SCORE_SIGMAS
from gassip.best.significance import Validation, gain
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.train.inductive import Inductive, held_out, held_out_logits, inductive_of
from gassip.train.plan import Decision, Plan, Row, Solution
from gassip.train.trainer import predict

STAGE = "graphs served"
WITHOUT, WITH = "trained without label propagation", "trained with label propagation"
Trained = tuple[Plan, Solution]


@dataclass(frozen=True, eq=False)
class Judged:
    """One of the two nets, on the training graph and on new nodes."""

    plan: Plan
    solution: Solution
    here: Validation  # [n, C]
    new: Validation | None  # [h, C]; None: it could not be judged
    inductive: Inductive | None  # the same as a score


@dataclass(frozen=True, eq=False)
class Served:
    """The net that is taken."""

    plan: Plan
    solution: Solution
    inductive: Inductive | None  # its score on new nodes


def weigh_graphs(
    graph: Graph,
    plan: Plan,
    solution: Solution,
    train: Callable[[Plan], Trained],
    *,
    seed: int,
    metric: Metric,
) -> Served | None:
    """The net that serves the graphs asked for, its plan with the decision; None if label
    propagation has no part in it. `train` trains a plan as the first was trained."""
    best = plan.settings.best
    if best is None or not plan.recipe.label_weight:
        return None
    other = replace(plan.recipe, labels_in_training=not plan.recipe.labels_in_training)
    both = [(plan, solution), train(replace(plan, recipe=other))]
    both.sort(key=lambda trained: trained[0].recipe.labels_in_training)
    first, second = (judge(graph, *trained, seed=seed, metric=metric) for trained in both)
    taken = second if relies_on_labels(first, second, best.labels.serves) else first
    made = decision(first, second, taken, best.labels.serves)
    chosen = replace(taken.plan, decisions=(*plan.decisions, made))
    return Served(chosen, taken.solution, taken.inductive)


def judge(graph: Graph, plan: Plan, solution: Solution, *, seed: int, metric: Metric) -> Judged:
    began, held, val = time.perf_counter(), held_out(graph, seed), graph.val_mask
    logits = held_out_logits(graph, plan, held, seed=seed, metric=metric)
    probs = _probs(predict(solution.model, solution.graph))
    here = Validation(metric, probs[val], graph.y[val])
    if logits is None:
        return Judged(plan, solution, here, None, None)
    new, seen = (
        Validation(metric, judged, graph.y[held]) for judged in (_probs(logits), probs[held])
    )
    return Judged(plan, solution, here, new, inductive_of(new.score(), seen.score(), held, began))


def _probs(logits: Tensor) -> Tensor:
    return torch.softmax(logits.double(), 1).float()


def relies_on_labels(without: Judged, trained_with: Judged, serves: str) -> bool:
    """Whether the net that is trained with label propagation is taken."""
    ahead = gain(trained_with.here, without.here)
    if serves == "own":
        return ahead > 0
    if without.new is None or trained_with.new is None:
        return False  # not known to be as good elsewhere
    return ahead > SCORE_SIGMAS and gain(without.new, trained_with.new) <= SCORE_SIGMAS


def decision(without: Judged, trained_with: Judged, taken: Judged, serves: str) -> Decision:
    rows = [
        _row(WITHOUT, without, 0.0),
        _row(WITH, trained_with, gain(trained_with.here, without.here)),
    ]
    rule = "" if serves == "own" else "; the latter only if level on new nodes too"
    return Decision(
        stage=STAGE,
        taken=WITH if taken is trained_with else WITHOUT,
        tried=tuple(rows),
        statistic=f"{SCORE}{rule} (--for {serves})",
        threshold=0.0 if serves == "own" else float(SCORE_SIGMAS),
    )


def _row(name: str, judged: Judged, statistic: float) -> Row:
    row: Row = {"name": name, "statistic": statistic}
    here, new = judged.here.score(), None if judged.new is None else judged.new.score()
    if here is not None:
        row["score"] = here
    if new is not None:
        row["new_nodes"] = new
    return row
