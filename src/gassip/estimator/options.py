"""Parameters of the classifier as what they stand for."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from gassip.budget.budget import Budget
from gassip.errors import GassipError
from gassip.train.events import Event

EVERY = 20  # epochs between two lines of `verbose`


def budget_of(given: Budget | Mapping[str, Any] | None) -> Budget:
    """A Budget, or one of amounts by name."""
    given = given or {}
    try:
        return given if isinstance(given, Budget) else Budget(**given)
    except TypeError:
        known = ", ".join(field.name for field in fields(Budget))
        raise GassipError(
            f"budget is {given!r}; expected a Budget, or amounts by name: {known}"
        ) from None


def progress(stage: str, total: int, verbose: bool) -> Callable[[Event], None] | None:
    """Tells every twentieth epoch, and each net that is trained after them, on stderr."""
    if not verbose:
        return None

    def tell(row: Event) -> None:
        if "stage" in row or int(row["epoch"]) % EVERY == 0:
            value = f"  val {row['val_score']:.3f}" if "val_score" in row else ""
            about = f"  {row['stage']}" if "stage" in row else ""
            print(f"{stage} {row['epoch']}/{total}{value}{about}", file=sys.stderr, flush=True)

    return tell
