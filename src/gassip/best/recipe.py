"""Dropout, weight decay and batch norm: recipes by name, chosen by short trainings.

The first recipe stays unless another validates better beyond chance.
"""

from dataclasses import replace

from gassip.best.decisions import Decided, among
from gassip.best.rules import NODE_DROPOUT_CAP, NORM_SIGMAS, RECIPE_SIGMAS
from gassip.best.trials import Request, Trials, winner
from gassip.graph.graph import Graph
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


def first_recipe(settings: Settings) -> Recipe:
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
    )


def choose_recipe(
    trials: Trials, graph: Graph, architecture: Architecture, settings: Settings
) -> Decided[tuple[str, Recipe]]:
    """The recipe that validates best for the first candidate, by name."""
    assert settings.best is not None
    names, epochs = settings.best.recipe.recipes, settings.best.recipe.trial_epochs
    base = first_recipe(settings)
    if len(names) == 1:
        decision = Decision(stage="recipe", taken=names[0])
        return Decided((names[0], named(names[0], base)), decision)
    requests = [
        Request(
            architecture=architecture,
            recipe=replace(named(name, base), epochs=epochs),
            graph=graph,
            what=name,
        )
        for name in names
    ]
    tried = dict(zip(names, trials.train_all("recipe", requests), strict=True))
    sigmas = NORM_SIGMAS if names[0] == "norm" else RECIPE_SIGMAS
    best = winner(list(tried.values()), sigmas)
    taken = next(name for name, trial in tried.items() if trial is best)
    return Decided((taken, named(taken, base)), among("recipe", tried, best, sigmas))
