"""Decisions of `best`, gathered on the way: what was tried, the statistic, the threshold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gassip.best.rules import SCORE_SIGMAS
from gassip.best.significance import gain
from gassip.best.trials import Trial
from gassip.train.plan import Decision, Row

T = TypeVar("T")
SCORE = "gain in the validation score over what came first, in standard errors"
LIKELIHOOD = "gain in validation log-likelihood, in standard errors"


@dataclass(frozen=True)
class Decided(Generic[T]):
    """What a stage returns: a value, and how it was decided."""

    value: T
    decision: Decision


class Decisions:
    """`log(stage(...))` is the stage's value; its decision is kept."""

    def __init__(self) -> None:
        self.made: list[Decision] = []

    def __call__(self, decided: Decided[T]) -> T:
        self.made.append(decided.decision)
        return decided.value


def among(
    stage: str,
    trials: Mapping[str, Trial],
    taken: Trial,
    sigmas: float = SCORE_SIGMAS,
) -> Decision:
    """The decision between trials by name, the first of which stays unless beaten."""
    first = next(iter(trials.values()))
    rows: list[Row] = [
        {"name": name, "score": trial.value, "statistic": gain(trial.validation, first.validation)}
        for name, trial in trials.items()
    ]
    name = next(name for name, trial in trials.items() if trial is taken)
    return Decision(stage=stage, taken=name, tried=tuple(rows), statistic=SCORE, threshold=sigmas)


def numbered(trials: Sequence[Trial]) -> dict[str, Trial]:
    """Trials by architecture; a number tells equal ones apart."""
    out: dict[str, Trial] = {}
    for trial in trials:
        name = str(trial.architecture)
        out[name if name not in out else f"{name} ({len(out) + 1})"] = trial
    return out
