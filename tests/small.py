"""Settings and plans that several tests start from."""

from dataclasses import replace
from typing import Any

from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, net_for
from gassip.settings import Settings
from gassip.settings.training import Recipe
from gassip.train.plan import Plan

BARE: dict[str, Any] = {
    "default_candidates": (),
    "knn": 0,
    "spectral": False,
    "consistency": 0.0,
    "distillation": 0.0,
    "recipes": ("given",),
    "standardise_features": False,
    "clean_shares": (),
    "label_propagation": False,
    "prune_candidates": (),
}


def bare_best(**given: Any) -> Settings:
    """`best` on the paper's search, every stage that can be left out left out."""
    return Settings.of(**(BARE | given))


def inputs_of(settings: Settings, **recipe: Any) -> dict[str, Any]:
    """The fields of a Plan that follow from settings, some of the recipe replaced."""
    search = settings.search
    made = Recipe.of(settings.retraining, batch_norm=search.batch_norm)
    return {
        "settings": settings,
        "recipe": replace(made, **recipe),
        "symmetrised": settings.direction == "both",
        "soft_edges": search.sparsify and search.kept_edges == "soft",
    }


def with_recipe(plan: Plan, **changes: Any) -> Plan:
    return replace(plan, recipe=replace(plan.recipe, **changes))


def num_params(graph: Graph, architecture: Architecture) -> int:
    return sum(p.numel() for p in net_for(graph, architecture).parameters())
