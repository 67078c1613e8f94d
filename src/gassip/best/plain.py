"""Plain nets: light, trained on labels alone, seconds each. The preset `fast` takes the best of
them; under a time limit they are the first that can be handed over.

The first architecture is trained by each recipe, and by the best of them with each change beside
it (best/recipe.py); the others by what validated best.
"""

from dataclasses import replace
from typing import Any

from gassip.best.decisions import Decided, numbered
from gassip.best.recipe import choices_beside, first_recipe, named, suited
from gassip.best.student import shaped, widest
from gassip.best.trials import Request, Trial, Trials
from gassip.graph.graph import Graph
from gassip.settings import Settings
from gassip.settings.training import Recipe
from gassip.train.plan import Decision

HIGHEST = "highest validation score; of equals the net with fewer weights"


def plain_architectures(settings: Settings) -> list[tuple[str, ...]]:
    """Those named that have as many layers as the search; if none has, graph convolutions."""
    assert settings.best is not None
    layers = settings.search.layers
    given = [tuple(text.split("+")) for text in settings.best.plain.plain]
    return [ops for ops in given if len(ops) == layers] or [("GCNConv",) * layers]


def plain_request(
    graph: Graph,
    ops: tuple[str, ...],
    name: str,
    settings: Settings,
    *,
    cut: bool = False,
    **changes: Any,
) -> Request:
    """The widest net of these operations as light as a student, by the recipe of this name, some
    of it changed."""
    assert settings.best is not None
    recipe = replace(plain_recipe(name, settings), **changes)
    heads, share = settings.search.heads, settings.best.student.size_share
    architecture = widest(graph, ops, recipe, heads, share, None)
    recipe = suited(recipe, shaped(ops, 1, 1, recipe), graph)
    return Request(architecture=architecture, recipe=recipe, graph=graph, what=name, may_end=cut)


def plain_recipe(name: str, settings: Settings) -> Recipe:
    """Labels alone, for no more epochs than the final training has."""
    assert settings.best is not None
    epochs = min(settings.best.plain.plain_epochs, settings.retraining.epochs)
    base = replace(first_recipe(settings), consistency=0.0, distillation=0.0, epochs=epochs)
    return named(name, base)


def first_plain(trials: Trials, settings: Settings) -> Trial:
    """The first net of all: it may end at the deadline and counts all the same."""
    assert settings.best is not None
    name, ops = settings.best.recipe.recipes[0], plain_architectures(settings)[0]
    request = plain_request(trials.graph, ops, name, settings, cut=True)
    return trials.train_all("plain", [request])[0]


def choose_plain(trials: Trials, settings: Settings) -> Decided[Trial]:
    """The plain net that validates best."""
    assert settings.best is not None
    names, (first, *others) = settings.best.recipe.recipes, plain_architectures(settings)
    requests = [plain_request(trials.graph, first, name, settings) for name in names]
    tried = trials.train_all("plain", requests)
    recipe, changes = names[tried.index(highest(tried))], dict[str, Any]()
    for change in choices_beside(trials.graph, trials.metric, settings).values():
        request = plain_request(trials.graph, first, recipe, settings, **changes, **change)
        (trial,) = trials.train_all("plain", [request])
        if trial.value > highest(tried).value:
            changes |= change
        tried.append(trial)
    requests = [plain_request(trials.graph, ops, recipe, settings, **changes) for ops in others]
    tried += trials.train_all("plain", requests)
    taken = highest(tried)
    by_name = numbered(tried)
    decision = Decision(
        stage="plain",
        taken=next(name for name, trial in by_name.items() if trial is taken),
        tried=tuple({"name": name, "score": trial.value} for name, trial in by_name.items()),
        statistic=HIGHEST,
    )
    return Decided(taken, decision)


def highest(trials: list[Trial]) -> Trial:
    return max(trials, key=lambda trial: (trial.value, -trial.net.num_weights()[0]))
