"""Settings that `gassip tune` chose by validation score.

Those of the named datasets come with the package, in tuned.json beside this file; `gassip tune`
writes tuned.json in the current folder, which is read first.

{dataset: {method: {"settings": {field: value}, "metric": name, "seeds": [seed],
                    "inputs": fingerprint of x and edges (own graphs alone),
                    "scores": [{"settings": {field: value}, "val": [score per seed], "mean":
                    score}]}}}
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

from gassip.errors import GassipError
from gassip.methods import Method

GRID: dict[str, tuple[float, ...]] = {"hidden": (16, 64, 128, 256), "dropout": (0.5, 0.6, 0.8)}
Table = dict[str, dict[str, dict[str, Any]]]


def default_path() -> Path:
    return Path(str(resources.files("gassip.bench"))) / "tuned.json"


def local_path() -> Path:
    """Where the user is."""
    return Path("tuned.json")


def read(path: Path | None = None) -> Table:
    """The table; empty where there is no file."""
    path = path or default_path()
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise GassipError(f"cannot read tuned settings from {path}: {error}") from error
    if not isinstance(table, dict) or not all(isinstance(part, dict) for part in table.values()):
        raise GassipError(
            f"{path} must hold {{dataset: {{method: ...}}}}; write it with `gassip tune`"
        )
    return table


def settings_for(dataset: str, method: str, path: Path | None = None) -> dict[str, Any]:
    """The fields that were tuned for this method on this dataset; none where it was not."""
    return dict(_entry(read(path), dataset, method).get("settings", {}))


def chosen_for(dataset: str, method: str, inputs: str | None = None) -> dict[str, Any]:
    """The same, of the current folder before the package's; an own graph is known by the
    fingerprint of its inputs, not by its name alone."""
    here = _entry(read(local_path()), dataset, method)
    if here and here.get("inputs") == inputs:
        return dict(here.get("settings", {}))
    return settings_for(dataset, method) if inputs is None else {}


def _entry(table: Table, dataset: str, method: str) -> dict[str, Any]:
    found = table.get(dataset, {}).get(method, {})
    if not isinstance(found, dict) or not isinstance(found.get("settings", {}), dict):
        raise GassipError(
            f"tuned.json: {dataset}, {method} is damaged; write it with `gassip tune`"
        )
    return found


def grid(method: Method) -> list[dict[str, float]]:
    """Every combination of the grid's fields that the method has."""
    known = {f.name for f in fields(method)}  # type: ignore[arg-type]
    names = [name for name in GRID if name in known]
    return [
        dict(zip(names, values, strict=True)) for values in product(*(GRID[name] for name in names))
    ]


def best(scores: Mapping[int, list[float]]) -> int:
    """The combination with the highest mean validation score; of equal ones the earlier, which is
    the smaller."""
    return max(scores, key=lambda at: (sum(scores[at]) / len(scores[at]), -at))
