"""Names of settings in earlier versions: settings files and run folders of schema 1 stay
readable."""

from collections.abc import Mapping
from typing import Any

RENAMED = {
    "finalists": "candidates",
    "portfolio": "default_candidates",
    "similar": "knn",
    "edge_rules": "edge_rankings",
    "spare": "prune_from",
    "prunable": "prune_candidates",
    "hear_labels": "label_propagation",
}
RANKINGS = {"hubs": "inverse-degree"}
DECIDED = ("retrain_weights", "label_weight", "prune_to")  # once fields, now results of a search


OLD_RECIPE = {
    "start": "retrain_start",
    "epochs": "retrain_epochs",
    "lr": "retrain_lr",
    "weight_decay": "retrain_weight_decay",
    "dropout": "retrain_dropout",
    "prune_to": "retrain_weights",
}  # fields of Recipe under their names in schema 1, where these differ


def renamed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under their present names and values."""
    out = {RENAMED.get(name, name): value for name, value in given.items()}
    if "edge_rankings" in out and isinstance(out["edge_rankings"], (list, tuple)):
        out["edge_rankings"] = [RANKINGS.get(name, name) for name in out["edge_rankings"]]
    if out.pop("recipe", "auto") == "given":
        out["recipes"] = ["given"]
    return out


def schema_1(given: Mapping[str, Any], stages: frozenset[str]) -> dict[str, Any]:
    """The 83 fields of schema 1; those of `best` alone only where there were teachers."""
    out = renamed({name: value for name, value in given.items() if name not in DECIDED})
    if given["teachers"] == 0:
        out = {name: value for name, value in out.items() if name not in stages}
    return out
