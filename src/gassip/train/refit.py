"""Refit: what was found, trained on training and validation labels together.

    V_train' = V_train ∪ V_val,   V_val' = ∅,   epochs = the epoch kept on validation

Nothing is left to validate on: the last epoch is kept, and there is no validation score. Test
labels are read for the final number alone. A bias for each class that was fitted to validation
nodes (train/output_bias.py) is fitted once more to the net as it was found, and goes with the plan.
"""

from dataclasses import replace

import torch

from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.nn.net import Net
from gassip.train.output_bias import fitted_bias
from gassip.train.plan import Plan
from gassip.train.trainer import retrain

NOTE = "trained on training and validation labels; nothing is left to validate on"


def with_validation_labels(graph: Graph) -> Graph:
    """The graph whose validation nodes are for training too."""
    return replace(
        graph,
        train_mask=graph.train_mask | graph.val_mask,
        val_mask=torch.zeros_like(graph.val_mask),
        notes=(*graph.notes, NOTE),
    )


def refit_plan(plan: Plan, best_epoch: int, graph: Graph, *, seed: int, metric: Metric) -> Plan:
    """The plan to train for as many epochs as were best on validation; `graph` has its validation
    nodes."""
    if best_epoch < 1:
        raise GassipError("the epoch kept on validation is not known; search again to have one")
    bias = bias_of(plan, graph, seed, metric) if plan.recipe.fit_bias else ()
    recipe = replace(plan.recipe, epochs=best_epoch, keep_epoch="last", output_bias=bias)
    return replace(plan, recipe=recipe)


def bias_of(plan: Plan, graph: Graph, seed: int, metric: Metric) -> tuple[float, ...]:
    """What was fitted to validation nodes beside the net that this plan gives."""
    without = replace(plan, recipe=replace(plan.recipe, fit_bias=False))
    solution = retrain(graph, without, seed=seed, metric=metric)
    assert isinstance(solution.model, Net)
    return fitted_bias(solution.model, solution.graph)
