"""Dropout, weight decay and norm: recipes by name, chosen by short trainings.

    strong    dropout .8, weight decay 5e-4
    medium    dropout .5, weight decay 5e-5
    norm      dropout .2, weight decay 5e-5, batch norm
    mild      no dropout, weight decay 5e-5
    layer     dropout .2, weight decay 5e-5, layer norm

The first recipe stays unless another validates better beyond chance. With the recipe so taken,
further choices each have one more training, and stay if it has the higher validation score:

    dense features     standardised, or as given
    macro F1           classes weighted by their inverse frequency, or equally
"""

from dataclasses import dataclass, replace
from typing import Any

from gassip.best.decisions import Decided, among
from gassip.best.rules import (
    NODE_DROPOUT_CAP,
    NORM_SIGMAS,
    RECIPE_SIGMAS,
    ROW_BATCH,
    ROW_EPOCHS,
    ROW_RATE,
    ROWS_FROM,
)
from gassip.best.tasks import Asked
from gassip.best.trials import Request, Trial, Trials, beats, winner
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.nn.net import Architecture
from gassip.operations import OPERATIONS
from gassip.settings import Settings
from gassip.settings.training import Recipe
from gassip.train.by_rows import fits
from gassip.train.plan import Decision

STAGE = "recipe"
NAMED = {  # dropout, weight decay, norm
    "strong": (0.8, 5e-4, ""),
    "medium": (0.5, 5e-5, ""),
    "norm": (0.2, 5e-5, "batch"),
    "mild": (0.0, 5e-5, ""),
    "layer": (0.2, 5e-5, "layer"),
}


def named(name: str, recipe: Recipe) -> Recipe:
    """The recipe with the dropout, weight decay and norm that the name stands for."""
    if name not in NAMED:
        return recipe
    dropout, decay, norm = NAMED[name]
    return replace(
        recipe,
        dropout=dropout,
        weight_decay=decay,
        batch_norm=norm == "batch",
        layer_norm=norm == "layer",
    )


def student_recipe(name: str, recipe: Recipe) -> Recipe:
    """Weaker regularisation for a student: it has a target for every node."""
    if name == "strong":
        return named("medium", recipe)
    if name in ("norm", "layer"):
        return replace(recipe, dropout=0.0)
    return recipe


def capped_dropout(recipe: Recipe, architecture: Architecture) -> Recipe:
    """Less dropout of entries where an operation drops whole nodes besides."""
    if any(OPERATIONS[op].node_dropout for op in architecture.ops):
        return replace(recipe, dropout=min(recipe.dropout, float(NODE_DROPOUT_CAP)))
    return recipe


def suited(recipe: Recipe, architecture: Architecture, graph: Graph) -> Recipe:
    """The recipe as it suits an architecture: less dropout where it drops whole nodes; with many
    labels mini-batches, where it reads edges in its first layer alone."""
    recipe = capped_dropout(recipe, architecture)
    many = int(graph.train_mask.sum()) >= ROWS_FROM and recipe.consistency == 0
    if not many or recipe.label_weight > 0 or not fits(architecture, graph):
        return recipe
    return replace(
        recipe,
        batch_rows=int(ROW_BATCH),
        lr=float(ROW_RATE),
        epochs=min(recipe.epochs, int(ROW_EPOCHS) * (2 if recipe.prune_to > 0 else 1)),
    )


def first_recipe(settings: Settings, metric: Metric = "accuracy") -> Recipe:
    """The recipe before any is chosen: the final training's, and the losses of `best`."""
    assert settings.best is not None
    teaching = settings.best.teaching
    return replace(
        Recipe.of(settings.retraining, batch_norm=settings.search.batch_norm),
        consistency=teaching.consistency,
        consistency_temperature=teaching.consistency_temperature,
        consistency_ramp=teaching.consistency_ramp,
        distillation=settings.best.student.distillation,
        prune_rule=settings.best.pruning.prune_rule,
        fit_bias=metric == "macro-f1",
        standardised=settings.best.recipe.standardised,
    )


@dataclass(frozen=True, eq=False)
class Taken:
    """A recipe by name, and the short training that speaks for it; None: there was no other."""

    name: str
    recipe: Recipe
    trial: Trial | None = None
    level: tuple[str, ...] = ()  # recipes that are not behind it beyond chance, itself among them


def choose_recipe(
    trials: Trials,
    graph: Graph,
    architecture: Architecture,
    settings: Settings,
    names: tuple[str, ...] = (),
) -> Decided[Taken]:
    """The recipe that validates best for this architecture, of those named or all."""
    assert settings.best is not None
    names, base = names or settings.best.recipe.recipes, first_recipe(settings, trials.metric)
    recipes = {name: named(name, base) for name in names}
    if len(names) == 1:
        decision = Decision(stage="recipe", taken=names[0])
        return Decided(Taken(names[0], recipes[names[0]]), decision)
    tried = short_trials(trials, graph, architecture, recipes, settings)
    sigmas = NORM_SIGMAS if names[0] == "norm" else RECIPE_SIGMAS
    best = winner(list(tried.values()), sigmas)
    name = next(name for name, trial in tried.items() if trial is best)
    level = tuple(recipe for recipe, trial in tried.items() if not beats(best, trial))
    return Decided(Taken(name, recipes[name], best, level), among("recipe", tried, best, sigmas))


def choose_beside(
    trials: Trials, graph: Graph, architecture: Architecture, taken: Taken, settings: Settings
) -> Decided[Taken]:
    """The same recipe, with each change that gives it the higher validation score."""
    best, recipe, told = taken.trial, taken.recipe, taken.name
    if best is None:
        best = short_trials(trials, graph, architecture, {told: recipe}, settings)[told]
    tried = {told: best}
    for name, change in choices_beside(graph, trials.metric, settings).items():
        changed, further = replace(recipe, **change), f"{told}, {name}"
        tried |= short_trials(trials, graph, architecture, {further: changed}, settings)
        if tried[further].value > best.value:
            best, recipe, told = tried[further], changed, further
    decision = among("beside the recipe", tried, best, 0.0)
    return Decided(Taken(taken.name, recipe, best, taken.level), decision)


def short_trials(
    trials: Trials,
    graph: Graph,
    architecture: Architecture,
    recipes: dict[str, Recipe],
    settings: Settings,
) -> dict[str, Trial]:
    """A short training by each recipe, by name."""
    requests = short_requests(graph, architecture, recipes, settings)
    return dict(zip(recipes, trials.train_all(STAGE, requests), strict=True))


def short_requests(
    graph: Graph, architecture: Architecture, recipes: dict[str, Recipe], settings: Settings
) -> list[Request]:
    assert settings.best is not None
    epochs = settings.best.recipe.trial_epochs
    return [
        Request(
            architecture=architecture,
            recipe=suited(replace(recipe, epochs=epochs), architecture, graph),
            graph=graph,
            what=name,
        )
        for name, recipe in recipes.items()
    ]


def first_trials(
    graph: Graph, architecture: Architecture, settings: Settings, metric: Metric
) -> list[Asked]:
    """The trainings by which a recipe will be chosen for this architecture."""
    assert settings.best is not None
    names, base = settings.best.recipe.recipes, first_recipe(settings, metric)
    recipes = {name: named(name, base) for name in names if len(names) > 1}
    return [(STAGE, own) for own in short_requests(graph, architecture, recipes, settings)]


def choices_beside(graph: Graph, metric: Metric, settings: Settings) -> dict[str, dict[str, Any]]:
    """What may be changed in a recipe of any name, in the order in which it is tried."""
    assert settings.best is not None
    choices: dict[str, dict[str, Any]] = {}
    recipe = settings.best.recipe
    dense = not graph.has_sparse_features and graph.preparation is None
    if recipe.standardise_features and dense and not recipe.standardised:
        choices["features standardised"] = {"standardised": True}
    if metric == "macro-f1":
        choices["classes weighted"] = {"class_weights": True}
    return choices
