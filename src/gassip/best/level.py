"""Never behind a plain net: if the student validates worse than the best candidate, others follow.

    as it is                          the student
    all features                      the best candidate's operations, as light, taught
    labels alone                      the same without a teacher
    labels alone, larger              the same as wide as the candidate

They are tried in this order, the light ones first, until one is level with the best candidate; if
none is, the one with the highest validation score is taken. GCN, SAGE, MLP and APPNP are among the
candidates, so that no graph is lost to one of them beyond the noise of validation.
"""

from collections.abc import Iterator
from dataclasses import replace

from gassip.best.candidates import Candidates
from gassip.best.decisions import SCORE, Decided
from gassip.best.rules import SCORE_SIGMAS
from gassip.best.significance import gain
from gassip.best.student import ALL_EDGES, Chosen, Classroom
from gassip.best.trials import Request, Trial
from gassip.train.plan import Decision, Row


def keep_level(
    room: Classroom, chosen: Chosen, candidates: Candidates, share: float
) -> Decided[Chosen]:
    """The student, or the first net that is level with the best candidate."""
    best, taken, name = candidates.ranked[0], chosen, "as it is"
    tried = [_row(name, chosen.trial, chosen.trial)]
    tried.append(_row(f"best candidate, {best.architecture}", best, chosen.trial))
    for following, request in others(room, best, share):
        if not ahead(best, taken.trial):
            break
        trial = room.trials.train_all("level", [request])[0]
        tried.append(_row(following, trial, chosen.trial))
        if trial.value > taken.trial.value:
            taken, name = Chosen(trial, ALL_EDGES), following
    decision = Decision(
        stage="level with the best candidate",
        taken=name,
        tried=tuple(tried),
        statistic=SCORE,
        threshold=0.0,
    )
    return Decided(taken, decision)


def ahead(best: Trial, trial: Trial) -> bool:
    """Whether a candidate's validation score is higher than that of a net to be handed over."""
    return best.value > trial.value and gain(best.validation, trial.validation) > SCORE_SIGMAS


def others(room: Classroom, best: Trial, share: float) -> Iterator[tuple[str, Request]]:
    """What is tried, in turn; all of it on all edges."""
    ops, cut = best.architecture.ops, room.cut("", 1.0)
    alone = replace(best.recipe, distillation=0.0)
    everything = replace(room, features=None)
    if room.features is not None:
        yield "all features", everything.request(ops, cut, share, room.recipe)
    yield "labels alone", everything.request(ops, cut, share, alone)
    light = everything.request(ops, cut, share, alone)
    if light.architecture.hidden < best.architecture.hidden:
        yield "labels alone, larger", replace(light, architecture=best.architecture)


def _row(name: str, trial: Trial, first: Trial) -> Row:
    return {
        "name": name,
        "score": trial.value,
        "statistic": gain(trial.validation, first.validation),
    }
