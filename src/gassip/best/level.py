"""Never behind a plain net: if the student validates worse than the best candidate, others follow.

    as it is                          the student
    all features                      the best candidate's operations, as light, taught
    labels alone                      the same without a teacher
    labels alone, larger              the same as wide as the candidate

They are tried in this order, the light ones first, until one is level with the best candidate; if
none is, the one with the highest validation score is taken. A net with more weights is taken only
if it validates better beyond chance. GCN, SAGE, MLP and APPNP are among the
candidates, so that no graph is lost to one of them beyond the noise of validation. Where candidates
learn from a consistency loss too, the four are trained besides on labels alone; where each misses a
fold of the labels, the best of them on all labels. That is done for a short while, and in full if
the best is ahead of the student by then.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gassip.best.candidates import Candidates
from gassip.best.decisions import SCORE, Decided
from gassip.best.recipe import suited
from gassip.best.rules import PLAIN_DECAY, PLAIN_DROPOUT, SCORE_SIGMAS
from gassip.best.significance import gain
from gassip.best.student import ALL_EDGES, Chosen, Classroom, shaped
from gassip.best.tasks import Asked
from gassip.best.trials import Request, Trial
from gassip.graph.graph import Graph
from gassip.train.plan import Decision, Row


def keep_level(
    room: Classroom,
    chosen: Chosen,
    candidates: Candidates,
    share: float,
    plain: Sequence[str] = (),
    short: int = 1,
) -> Decided[Chosen]:
    """The student, or the first net that is level with the best candidate or plain net."""
    rivals = [*candidates.ranked, *plain_nets(room, chosen.trial, candidates, plain, short)]
    best, taken, name = max(rivals, key=lambda trial: trial.value), chosen, "as it is"
    tried = [_row(name, chosen.trial, chosen.trial)]
    tried.append(_row(f"best candidate, {best.architecture}", best, chosen.trial))
    for following, request in others(room, best, share):
        if not ahead(best, taken.trial):
            break
        trial = room.trials.train_all("level", [request])[0]
        tried.append(_row(following, trial, chosen.trial))
        if preferred(trial, taken.trial):
            taken, name = Chosen(trial, ALL_EDGES), following
    decision = Decision(
        stage="level with the best candidate",
        taken=name,
        tried=tuple(tried),
        statistic=SCORE,
        threshold=0.0,
    )
    return Decided(taken, decision)


def plain_nets(
    room: Classroom, student: Trial, candidates: Candidates, plain: Sequence[str], short: int
) -> list[Trial]:
    """The best of plain nets, on all labels and on labels alone; none where candidates are such
    nets, nor if it is not ahead of the student after a short training: a longer one will not bring
    it ahead beyond chance."""
    asked = plain_trials(room.graph, candidates, plain, short)
    if not asked:
        return []
    tried = room.trials.train_stages(asked)
    first = max(tried, key=lambda trial: trial.value)
    if first.value <= student.value:
        return []
    request = asked[tried.index(first)][1]
    recipe = replace(request.recipe, epochs=candidates.epochs)
    recipe = suited(recipe, request.architecture, room.graph)
    return room.trials.train_all("plain", [replace(request, recipe=recipe)])


def plain_trials(
    graph: Graph, candidates: Candidates, plain: Sequence[str], short: int
) -> list[Asked]:
    """The short trainings of plain nets; known before the candidates are trained in full."""
    best = candidates.ranked[0]
    if best.recipe.consistency == 0:
        if not any(bool(fold.any()) for fold in candidates.folds):
            return []
        recipe = replace(best.recipe, epochs=min(short, best.recipe.epochs))
        request = Request(architecture=best.architecture, recipe=recipe, graph=graph)
        return [("plain trial", request)]
    recipe = replace(
        best.recipe,
        consistency=0.0,
        distillation=0.0,
        dropout=float(PLAIN_DROPOUT),
        weight_decay=float(PLAIN_DECAY),
        batch_norm=False,
        layer_norm=False,
        epochs=min(short, candidates.epochs),
    )
    width = best.architecture.hidden[0]
    shapes = [shaped(tuple(text.split("+")), width, 1, recipe) for text in plain]
    own = [Request(architecture=shape, recipe=recipe, graph=graph) for shape in shapes]
    return [("plain trial", request) for request in own]


def preferred(trial: Trial, taken: Trial) -> bool:
    """Whether a net validates better; one with more weights must do so beyond chance."""
    heavier = trial.net.num_weights()[0] > taken.net.num_weights()[0]
    return ahead(trial, taken) if heavier else trial.value > taken.value


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
