"""The presets.

literal   the formulas as printed
paper     the reading of the paper's gaps that works (PAPER.md), with its components only
best      past the paper (METHOD.md); its rules follow from facts of the graph
good      best with fewer candidates, students and cuts
fast      the best of a few plain light nets, without a teacher
"""

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gassip.best.rules import Facts, derived
from gassip.errors import GassipError
from gassip.operations import MORE_OPS, NARROW_OPS
from gassip.settings.best import Best
from gassip.settings.settings import Settings

if TYPE_CHECKING:  # the command line makes its flags from here without waiting for torch
    from gassip.graph.graph import Graph

PRESETS = ("best", "good", "fast", "paper", "literal")
NARROW_FROM = 30_000  # nodes: Physics and larger, as in the paper's appendix
THREE_LAYERS_FROM = 100_000  # nodes: ogbn-arxiv
PAPER: dict[str, Any] = {
    "weight_form": "double",
    "weight_gain": 1.0,
    "score_mean": 0.0,
    "weight_rule": "size",
    "sampled_paths": 1,
    "induced_from": 6,
    "induced_by": "both",
    "retrain_dropouts": (0.5,),
    "loss_nodes": "unlabelled",
    "structure_dropout": True,
    "edge_rule": "budget",
    "edge_share": 0.92,
    "certain_share": 0.5,
    "keep_last": True,
    "kept_edges": "binary",
}
BEST_SEARCH: dict[str, Any] = {
    "ops": MORE_OPS,
    "epochs": 15,
    "warmup_epochs": 5,
    "weight_form": "double",
    "weight_gain": 1.0,
    "weight_groups": "unit",
    "score_mean": 0.0,
    "score_std": 0.0,
    "sampled_paths": 1,
    "loss_nodes": "all",
    "kept_edges": "binary",
    "direction": "auto",
    "retrain_epochs": 150,
    "retrain_lr": 0.03,
    "schedule": "cosine",
    "validate_every": 5,
}

GOOD: dict[str, Any] = {
    "epochs": 10,
    "warmup_epochs": 5,
    "recipes": ("strong", "medium", "norm"),
    "trial_epochs": 30,
    "candidates": 3,
    "default_candidates": ("Linear+APPNP10", "GCNConv+GCNConv", "SAGEConv+SAGEConv"),
    "teachers": 2,
    "knn": 0,
    "students": 1,
    "edge_rankings": ("support",),
    "edge_shares": (0.89,),
    "size_steps": (),
    "label_propagation": False,
}  # changes to `best`


def preset(name: str, graph: "Graph", overrides: Mapping[str, Any] | None = None) -> Settings:
    """The settings of a preset for this graph, with some replaced by flat name."""
    from gassip.best.facts import facts_of  # needs torch

    check_preset(name)
    return MAKERS[name](facts_of(graph)).changed(**dict(overrides or {}))


def check_preset(name: str) -> None:
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise GassipError(f"there is no preset {name!r}; {hint}choose one of {', '.join(PRESETS)}")


def best(facts: Facts | None = None) -> Settings:
    """`best`, for a graph with these facts; without facts, before its rules."""
    base = Settings(best=Best()).changed(**BEST_SEARCH)
    return base if facts is None else base.changed(**derived(facts, base.flat()))


def good(facts: Facts | None = None) -> Settings:
    """`best` in a fraction of the time."""
    return best(facts).changed(**GOOD)


def fast(facts: Facts | None = None) -> Settings:
    """The best of a few plain nets."""
    return best(facts).changed(plain_only=True)


def paper(facts: Facts | None = None) -> Settings:
    """`literal` with the reading of its gaps that works."""
    return literal(facts).changed(**PAPER)


def literal(facts: Facts | None = None) -> Settings:
    """The printed formulas, and the sizes of the appendix: from 30,000 nodes on SAGEConv is left
    out and batch norm comes in (with dropout .5, chosen on the validation nodes of Physics), from
    100,000 on there are three layers."""
    base = Settings()
    if facts is not None and facts.nodes >= NARROW_FROM:
        base = base.changed(ops=NARROW_OPS, batch_norm=True, dropout=0.5, retrain_dropout=0.5)
    if facts is not None and facts.nodes >= THREE_LAYERS_FROM:
        base = base.changed(layers=3)
    return base


MAKERS = {"best": best, "good": good, "fast": fast, "paper": paper, "literal": literal}
