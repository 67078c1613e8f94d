"""Numbers as a page writes them."""

from collections.abc import Mapping
from math import isfinite

METRICS = {"accuracy": "accuracy", "macro-f1": "macro F1", "roc-auc": "ROC AUC"}
SPLITS = {"train": "training", "val": "validation", "test": "test"}


def per_cent(value: float | None, digits: int = 1) -> str:
    """A share as per cent, with the sign; – where it is not known."""
    if value is None or not isfinite(value):
        return "–"
    return f"{100 * value:.{digits}f}\u00a0%"


def count(value: float) -> str:
    return f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 60:
        return f"{seconds:.1f}\u00a0s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}\u00a0min {rest}\u00a0s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}\u00a0h {minutes}\u00a0min"


def number(row: Mapping[str, object], name: str) -> float | None:
    """A finite number of a row; None where it has none."""
    try:
        value = float(str(row[name]))
    except (KeyError, ValueError):
        return None
    return value if isfinite(value) else None


def shown(value: object) -> str:
    """A setting or a statistic in few letters."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(entry) for entry in value) or "–"
    return str(value)
