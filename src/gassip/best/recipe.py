"""Dropout, weight decay and batch norm: recipes by name, chosen by short trainings.

    strong    dropout .8, weight decay 5e-4
    medium    dropout .5, weight decay 5e-5
    norm      dropout .2, weight decay 5e-5, batch norm
    mild      no dropout, weight decay 5e-5

The first recipe stays unless another validates better beyond chance. With the recipe so taken,
further choices each have one more training, and stay if it has the higher validation score:

    dense features     standardised, or as given
    macro F1           classes weighted by their inverse frequency, or equally
"""

from dataclasses import replace
from typing import Any

from gassip.best.decisions import Decided, among
from gassip.best.rules import NODE_DROPOUT_CAP, NORM_SIGMAS, RECIPE_SIGMAS
from gassip.best.trials import Request, Trial, Trials, winner
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.nn.net import Architecture
from gassip.operations import OPERATIONS
from gassip.settings import Settings
from gassip.settings.training import Recipe
from gassip.train.plan import Decision


def named(name: str, recipe: Recipe) -> Recipe:
    """The recipe with the dropout, weight decay and batch norm that the name stands for."""
    if name == "strong":
        return replace(recipe, dropout=0.8, weight_decay=5e-4, batch_norm=False)
    if name == "medium":
        return replace(recipe, dropout=0.5, weight_decay=5e-5, batch_norm=False)
    if name == "norm":
        return replace(recipe, dropout=0.2, weight_decay=5e-5, batch_norm=True)
    if name == "mild":
        return replace(recipe, dropout=0.0, weight_decay=5e-5, batch_norm=False)
    return recipe


def student_recipe(name: str, recipe: Recipe) -> Recipe:
    """Weaker regularisation for a student: it has a target for every node."""
    if name == "strong":
        return named("medium", recipe)
    if name == "norm":
        return replace(recipe, dropout=0.0)
    return recipe


def capped_dropout(recipe: Recipe, architecture: Architecture) -> Recipe:
    """Less dropout of entries where an operation drops whole nodes besides."""
    if any(OPERATIONS[op].node_dropout for op in architecture.ops):
        return replace(recipe, dropout=min(recipe.dropout, float(NODE_DROPOUT_CAP)))
    return recipe


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
    )


def choose_recipe(
    trials: Trials, graph: Graph, architecture: Architecture, settings: Settings
) -> Decided[tuple[str, Recipe]]:
    """The recipe that validates best for this architecture, by name, with what goes beside it."""
    assert settings.best is not None
    names, epochs = settings.best.recipe.recipes, settings.best.recipe.trial_epochs
    base = first_recipe(settings, trials.metric)
    beside = choices_beside(
        graph, trials.metric, standardise=settings.best.recipe.standardise_features
    )
    if len(names) == 1 and not beside:
        decision = Decision(stage="recipe", taken=names[0])
        return Decided((names[0], named(names[0], base)), decision)

    def train(recipes: dict[str, Recipe]) -> dict[str, Trial]:
        requests = [
            Request(
                architecture=architecture,
                recipe=replace(recipe, epochs=epochs),
                graph=graph,
                what=name,
            )
            for name, recipe in recipes.items()
        ]
        return dict(zip(recipes, trials.train_all("recipe", requests), strict=True))

    tried = train({name: named(name, base) for name in names})
    sigmas = NORM_SIGMAS if names[0] == "norm" else RECIPE_SIGMAS
    best = winner(list(tried.values()), sigmas)
    taken = next(name for name, trial in tried.items() if trial is best)
    recipe, told = named(taken, base), taken
    for name, change in beside.items():
        changed = replace(recipe, **change)
        trial = train({f"{told}, {name}": changed})
        tried |= trial
        challenger = next(iter(trial.values()))
        if challenger.value > best.value:
            best, recipe, told = challenger, changed, f"{told}, {name}"
    return Decided((taken, recipe), among("recipe", tried, best, sigmas))


def choices_beside(graph: Graph, metric: Metric, *, standardise: bool) -> dict[str, dict[str, Any]]:
    """What may be changed in a recipe of any name, in the order in which it is tried."""
    choices: dict[str, dict[str, Any]] = {}
    if standardise and not graph.has_sparse_features and graph.preparation is None:
        choices["features standardised"] = {"standardised": True}
    if metric == "macro-f1":
        choices["classes weighted"] = {"class_weights": True}
    return choices
