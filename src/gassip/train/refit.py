"""Refit: what was found, trained on training and validation labels together.

    V_train' = V_train ∪ V_val,   V_val' = ∅,   epochs = the epoch kept on validation

Nothing is left to validate on: the last epoch is kept, and there is no validation score. Test
labels are read for the final number alone.
"""

from dataclasses import replace

import torch

from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.train.plan import Plan

NOTE = "trained on training and validation labels; nothing is left to validate on"


def with_validation_labels(graph: Graph) -> Graph:
    """The graph whose validation nodes are for training too."""
    return replace(
        graph,
        train_mask=graph.train_mask | graph.val_mask,
        val_mask=torch.zeros_like(graph.val_mask),
        notes=(*graph.notes, NOTE),
    )


def refit_plan(plan: Plan, best_epoch: int) -> Plan:
    """The plan to train for as many epochs as were best on validation."""
    if best_epoch < 1:
        raise GassipError("the epoch kept on validation is not known; search again to have one")
    return replace(plan, recipe=replace(plan.recipe, epochs=best_epoch, keep_epoch="last"))
