"""Which architecture, where multiply-adds or time are bounded: the most probable ones, each cut to
the same cost.

    a* = argmax_{a ∈ P_R(O, α)} val(a cut to the budget, trained for a third of the epochs)

α is learned by nets that cost what they like. Under a bound a dear operation gets fewer units than
a cheap one, and the most probable architecture may be the worse for it; so the R most probable ones
compete at equal cost. A net that teachers have chosen has had such a contest without a bound; it
meets itself with cheaper operations, taught by the same teacher on the same edges. Validation
chooses, ties go to the one that was found first, and no rival sees a test label.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

from gassip.best.pipeline import Checkpoint, search
from gassip.best.trials import Trained
from gassip.budget.budget import Budget
from gassip.budget.fit import fit_limits, retrain_within
from gassip.budget.limits import limits
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.operations import OPERATIONS
from gassip.paper.induce import induce
from gassip.paper.state import State
from gassip.paper.supernet import top_paths
from gassip.settings import Settings
from gassip.train.plan import Plan, Row, Solution
from gassip.train.trainer import retrain, seeded

RIVALS = 4
TRIAL = 3  # a trial has this part of the epochs of a retraining


class Remembering:
    """A checkpoint that passes everything on and knows the state in which the search ended."""

    def __init__(self, inner: Checkpoint | None) -> None:
        self.inner = inner
        self.tensors: Callable[[], dict[str, Tensor]] = dict
        self.history: list[Row] = []

    def load(self) -> tuple[dict[str, Tensor], list[Row]] | None:
        saved = None if self.inner is None else self.inner.load()
        if saved is not None:
            kept, self.history = saved
            self.tensors = lambda: kept
        return saved

    def save(self, tensors: Callable[[], dict[str, Tensor]], history: list[Row]) -> None:
        self.tensors, self.history = tensors, history
        if self.inner is not None:
            self.inner.save(tensors, history)

    def recall(self, name: str) -> Trained | None:
        return None if self.inner is None else self.inner.recall(name)

    def remember(self, name: str, trained: Trained) -> None:
        if self.inner is not None:
            self.inner.remember(name, trained)


def search_within(
    graph: Graph,
    settings: Settings,
    budget: Budget,
    *,
    seed: int = 0,
    metric: Metric = "accuracy",
    on_epoch: Callable[[Row], None] | None = None,
    checkpoint: Checkpoint | None = None,
    jobs: int = 1,
) -> list[Plan]:
    """What one search found; where multiply-adds or time are bounded, the next most probable
    architectures behind."""
    memory = Remembering(checkpoint)
    plan = search(
        graph,
        settings,
        seed=seed,
        metric=metric,
        on_epoch=on_epoch,
        checkpoint=memory,
        jobs=jobs,
    )
    if budget.max_macs is None and budget.max_latency_ms is None:
        return [plan]
    if plan.teacher is not None or not memory.tensors():
        # a contest has chosen among architectures already, without the bound, or without a supernet
        return [plan, *cheaper(plan)]
    return [plan, *others(graph, plan, memory)]


def others(graph: Graph, plan: Plan, memory: Remembering, count: int = RIVALS) -> list[Plan]:
    """The most probable architectures but the first, each with its own part of the supernet's
    weights and masks."""
    graph = plan.on(graph, all_edges=True)
    with seeded(0, graph.device):  # the state draws a start, which the kept one replaces
        state = State(graph, plan.settings.search)
        state.restore(memory.tensors(), memory.history)
        return [
            replace(
                induce(state, plan.settings, symmetrised=plan.symmetrised, path=path),
                weighted=plan.weighted,
            )
            for path in top_paths(state.supernet.alpha, count)
            if tuple(plan.settings.search.ops[k] for k in path) != plan.architecture.ops
        ]


def cheaper(plan: Plan) -> list[Plan]:
    """The same net with cheaper operations for some or all of the dear ones."""
    choices = [(op, *OPERATIONS[op].cheaper) for op in plan.architecture.ops]
    return [_swapped(plan, ops) for ops in list(product(*choices))[1:]]


def _swapped(plan: Plan, ops: tuple[str, ...]) -> Plan:
    gone = {f"layers.{l}.attention" for l, op in enumerate(ops) if not OPERATIONS[op].attention}
    first, last = (
        {name: value for name, value in weights.items() if name not in gone}
        for weights in (plan.first_weights, plan.last_weights)
    )
    keep = list(plan.weight_keep)
    for l, op in enumerate(ops):
        dropped = OPERATIONS[plan.architecture.ops[l]].matrices - OPERATIONS[op].matrices
        keep[l] = nearer_hops(keep[l], plan.architecture.ops[l], dropped)
        for weights in (first, last):
            if (name := f"layers.{l}.weight") in weights:
                weights[name] = nearer_hops(weights[name], plan.architecture.ops[l], dropped)
    heads = tuple(
        h if OPERATIONS[op].attention else 1
        for op, h in zip(ops, plan.architecture.heads, strict=False)
    )
    architecture = replace(plan.architecture, ops=ops, heads=heads)
    return replace(
        plan,
        architecture=architecture,
        weight_keep=keep,
        first_weights=first,
        last_weights=last,
    )


def nearer_hops(weight: Tensor, op: str, dropped: int) -> Tensor:
    """The matrices [in, matrices · out] of `op` without those of the farthest hops."""
    width = weight.shape[1] // OPERATIONS[op].matrices
    return weight[:, dropped * width :]


def choose(
    graph: Graph,
    plans: Sequence[Plan],
    budget: Budget,
    *,
    seed: int = 0,
    metric: Metric = "accuracy",
) -> Plan:
    """The one of `plans` that validates best within the budget after a short training; they stay
    uncut."""
    if len(plans) == 1:
        return plans[0]
    blind = replace(graph, test_mask=torch.zeros_like(graph.test_mask))
    bound = limits(budget, plans[0].on(graph, all_edges=True))
    best, chosen = -torch.inf, plans[0]
    for plan in plans:
        try:
            cut = fit_limits(graph, plan, budget, bound)
        except GassipError:  # where none fits, the caller meets the same line for the first
            continue
        short = replace(cut.recipe, epochs=-(-cut.recipe.epochs // TRIAL))
        trial = retrain(blind, replace(cut, recipe=short), seed=seed, metric=metric)
        if (value := trial.scores.get(metric, {}).get("val", -torch.inf)) > best:
            best, chosen = value, plan
    return chosen


def retrain_best(
    graph: Graph,
    plans: Sequence[Plan],
    budget: Budget,
    *,
    seed: int = 0,
    metric: Metric = "accuracy",
    on_epoch: Callable[[dict[str, float]], None] | None = None,
) -> tuple[Plan, Solution]:
    """The best of what `search_within` found, cut, retrained and shrunk."""
    plan = choose(graph, plans, budget, seed=seed, metric=metric)
    return retrain_within(graph, plan, budget, seed=seed, metric=metric, on_epoch=on_epoch)
