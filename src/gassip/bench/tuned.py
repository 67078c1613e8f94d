"""Settings that `gassip tune` chose by validation score, kept in tuned.json beside this file.

{dataset: {method: {"settings": {field: value}, "metric": name, "seeds": [seed],
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
    return dict(read(path).get(dataset, {}).get(method, {}).get("settings", {}))


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
