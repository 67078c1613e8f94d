"""What a run keeps of its graph besides tensors of numbers: preparation, ranges, names of nodes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gassip.errors import GassipError
from gassip.graph.drift import Statistics
from gassip.graph.preparation import Preparation
from gassip.runs.format.meta import read_file
from gassip.runs.format.tensors import Array, read_tensors

PREPARATION = "preparation.json"  # how named columns become x, where the graph came from tables
STATISTICS = "statistics.safetensors"  # ranges and means of the training graph's features


def read_preparation(folder: Path, meta: Mapping[str, Any]) -> Preparation | None:
    """How named columns become x; None for a run whose x was given."""
    if PREPARATION not in meta["files"]:
        return None
    made = Preparation.from_json(read_file(folder, PREPARATION, meta))
    if len(made.feature_names) != meta["features"]:
        raise GassipError(
            f"{folder / PREPARATION} makes {len(made.feature_names)} features; the run has "
            f"{meta['features']}"
        )
    return made


def read_statistics(folder: Path, meta: Mapping[str, Any]) -> Statistics | None:
    """What drift is told by; None for a run of an earlier version."""
    if STATISTICS not in meta["files"]:
        return None
    found = read_tensors(folder, STATISTICS, meta)
    for name in ("low", "high", "mean"):
        values = found.get(name)
        if values is None or values.shape != (meta["features"],) or values.dtype != np.float32:
            raise GassipError(f"{folder / STATISTICS}: {name} is not one number per feature")
    return Statistics(low=found["low"], high=found["high"], mean=found["mean"])


def read_ids(tensors: Mapping[str, Array], nodes: int) -> tuple[str, ...] | None:
    """What the user calls the nodes, from inputs.safetensors; None: their numbers."""
    if (stored := tensors.get("ids")) is None:
        return None
    try:
        ids = json.loads(stored.tobytes())
    except (ValueError, RecursionError) as error:
        raise GassipError(f"the ids of the nodes are damaged ({error})") from error
    if not isinstance(ids, list) or len(ids) != nodes or not all(type(node) is str for node in ids):
        raise GassipError(f"the ids of the nodes are not {nodes} texts")
    return tuple(ids)
