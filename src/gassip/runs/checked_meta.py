"""meta.json of a search, every entry of its kind, and the inputs of the search that it holds."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from gassip.errors import GassipError
from gassip.graph.structure import BESIDE
from gassip.runs.format import (
    read_meta,
    soft_edges,
    structure_of,
)
from gassip.settings import Settings
from gassip.settings.old import OLD_RECIPE, schema_1
from gassip.settings.settings import FIELDS, from_flat
from gassip.settings.training import Recipe

SCHEMA = 2  # that is written
SCHEMAS = (1, SCHEMA)  # that are read
Meta = dict[str, Any]
_KINDS: dict[str, type] = {
    **dict.fromkeys(("dataset", "metric", "device"), str),
    **dict.fromkeys(
        (
            "source",
            "settings",
            "net",
            "found",
            "size",
            "budget",
            "accuracy",
            "scores",
            "seconds",
            "versions",
            "files",
        ),
        dict,
    ),
    **dict.fromkeys(("class_names", "architecture", "notes"), list),
    **dict.fromkeys(
        ("nodes", "features", "seed", "weights_kept", "weights_total", "edges_kept", "edges_total"),
        int,
    ),
    **dict.fromkeys(("best_epoch", "threads"), int),
}


_FOUND_KINDS: dict[str, type] = {
    "ops": list,
    "hidden": list,
    "heads": list,
    "batch_norm": bool,
    "layer_norm": bool,
}


_NET_KINDS: dict[str, type] = {
    "hidden": list,
    "heads": list,
    "batch_norm": bool,
    "layer_norm": bool,
    "dropout": float,
    "label_weight": float,
}


# of nets that were saved before there was such an entry
_BEFORE: Meta = {"label_weight": 0.0, "layer_norm": False}


_LOADED: dict[str, type] = {"seed": int, "undirected": bool, "normalize": bool}


_SOURCE_KINDS: dict[object, dict[str, type]] = {
    "dataset": {"name": str} | _LOADED,
    "file": {"path": str} | _LOADED,
}


def checked_meta(folder: Path) -> Meta:
    path, meta = folder / "meta.json", read_meta(folder)
    if meta["schema"] not in SCHEMAS:
        raise GassipError(
            f"{folder} was written by `gassip export` or `pack`; this reads runs of `search`"
        )
    if isinstance(method := meta.get("method"), str):
        raise GassipError(
            f"{folder} holds a run of `gassip run {method}`; this reads runs of `gassip search`"
        )
    _check_kinds(path, meta, _KINDS)
    if meta["schema"] != 1:
        _check_kinds(path, meta, {"recipe": dict, "symmetrised": bool, "soft_edges": bool})
    _check_kinds(path, _BEFORE | meta["net"], _NET_KINDS)
    _check_kinds(path, _BEFORE | meta["found"], _FOUND_KINDS)
    _check_kinds(path, meta["seconds"], {"search": float, "retrain": float})
    _check_kinds(path, meta["source"], _SOURCE_KINDS.get(meta["source"].get("kind"), {"kind": str}))
    if not all(isinstance(name, str) for name in (*meta["class_names"], *meta["architecture"])):
        raise GassipError(f"{path}: class_names and architecture must be lists of names")
    return meta


def _check_kinds(path: Path, values: Meta, kinds: Mapping[str, type]) -> None:
    for name, kind in kinds.items():
        value = values.get(name)
        fits = isinstance(value, (int, float) if kind is float else kind) and (
            kind is bool
        ) == isinstance(value, bool)
        if not fits:
            raise GassipError(
                f"{path}: {name} is {str(value)[:40]!r}; it must be a {kind.__name__}"
            )


def inputs_of(path: Path, meta: Meta) -> dict[str, Any]:
    """Settings, recipe, and how edges are read: the fields of a Plan that meta.json holds."""
    try:
        if meta["schema"] == 1:
            return of_schema_1(meta)
        return {
            "settings": from_flat(meta["settings"]),
            "recipe": Recipe(**_tuples(meta["recipe"])),
            "symmetrised": meta["symmetrised"],
            "soft_edges": meta["soft_edges"],
            "degrees": structure_of(meta) == BESIDE,
        }
    except (GassipError, TypeError, KeyError) as error:
        raise GassipError(
            f"{path}: settings do not fit this version of gassip ({error})"
        ) from error


def _tuples(values: Meta) -> Meta:
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }


def of_schema_1(meta: Meta) -> dict[str, Any]:
    """Schema 1 held one table of inputs and results; `searched` has the inputs if they differ."""
    stages = frozenset(name for name, field in FIELDS.items() if field.stage)
    taken = meta["settings"]
    recipe = {
        field.name: taken.get(OLD_RECIPE.get(field.name, field.name)) for field in fields(Recipe)
    }
    return {
        "settings": Settings.of(**schema_1(meta.get("searched") or taken, stages)),
        "recipe": Recipe(**{name: value for name, value in recipe.items() if value is not None}),
        "symmetrised": taken.get("direction") == "both",
        "soft_edges": soft_edges(meta),
    }
