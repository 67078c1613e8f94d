"""A recipe is chosen with a net that learns something: while the one it was chosen with does not,
recipes compete with the next candidate, `mild` among them.

A net has learned something if it is ahead, beyond chance, of the class that most training nodes
have, and not behind, beyond chance, of the spectral regression (spectral.py), or else at least half
of the way to it: trainings are short. Recipes are level on one that has not, and what stays, by no
merit of its own, would be the recipe of all candidates.
"""

from collections.abc import Callable, Sequence

import torch

from gassip.best.recipe import Taken
from gassip.best.rules import SCORE_SIGMAS
from gassip.best.significance import Validation, gain
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.nn.net import Architecture

GENTLE = "mild"  # learns where dropout removes what tells


def first_that_learns(
    architectures: Sequence[Architecture],
    names: Sequence[str],
    judge: Validation,
    common: Validation,
    recipe_for: Callable[[Architecture, tuple[str, ...]], Taken],
) -> Taken:
    """The recipe of the first candidate whose net learns something; of the best net if none does.

    `names` are the recipes that compete, `judge` is the regression, `common` the class that most
    training nodes have."""
    gentle = tuple(dict.fromkeys((*names, GENTLE)))
    best: Taken | None = None
    for k, architecture in enumerate(architectures):
        taken = recipe_for(architecture, gentle if k else tuple(names))
        if taken.trial is None or has_learned(taken.trial.validation, judge, common):
            return taken
        if best is None or best.trial is None or taken.trial.value > best.trial.value:
            best = taken
    assert best is not None, "there is a candidate"
    return best


def has_learned(net: Validation, judge: Validation, common: Validation) -> bool:
    """Whether it is ahead of the commonest class, and of half of what the regression gains on it if
    it is behind the regression, beyond chance."""
    if gain(net, common) <= SCORE_SIGMAS:
        return False
    if gain(judge, net) <= SCORE_SIGMAS:
        return True
    own, most, least = net.score(), judge.score(), common.score()
    if own is None or most is None or least is None:  # the metric is not defined there
        return False
    return 2 * own >= most + least


def commonest(graph: Graph, metric: Metric) -> Validation:
    """The class that most training nodes have, said of every validation node."""
    y, known = graph.y[graph.val_mask], graph.y[graph.train_mask]
    probs = torch.zeros(y.numel(), graph.num_classes, device=graph.device)
    probs[:, int(known.bincount(minlength=graph.num_classes).argmax())] = 1.0
    return Validation(metric, probs, y)
