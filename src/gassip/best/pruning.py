"""A student that is behind its teacher is pruned from a larger net, to as many weights or to more.

behind     val(teacher) − val(student) > margin, and beyond chance
pruned     a net `prune_from` times as large loses its smallest weights while it trains
           (train/gradual_pruning.py); size_share first, then each of `size_steps`
"""

from dataclasses import replace

from gassip.best.decisions import SCORE, Decided
from gassip.best.rules import (
    LARGER_MARGIN,
    PRUNE_BRIEF,
    PRUNE_DECAY,
    PRUNE_MARGIN,
    PRUNE_RATE,
    SCORE_SIGMAS,
)
from gassip.best.significance import Validation, gain
from gassip.best.student import Chosen, Classroom
from gassip.best.trials import Request, Trial, Trials, beats, validated, winner
from gassip.operations import gcn_weights
from gassip.settings import Settings
from gassip.settings.best import Pruned
from gassip.settings.training import Recipe
from gassip.train.plan import Decision, Row


def prune_if_behind(
    room: Classroom, chosen: Chosen, architectures: list[tuple[str, ...]], settings: Settings
) -> Decided[Chosen]:
    """The student, or a pruned net that beats it, as long as it is behind its teacher."""
    assert settings.best is not None
    pruning, size_share = settings.best.pruning, settings.best.student.size_share
    taught = validated(room.teacher.probs, room.graph, room.trials.metric)
    taken = "as it is"
    trial, tried = chosen.trial, [_row(taken, chosen.trial, chosen.trial)]
    for share in shares(pruning, size_share):
        margin = PRUNE_MARGIN if share == size_share else LARGER_MARGIN
        if not far_behind(trial.validation, taught, margin):
            break
        recipe = pruning_recipe(share, room, pruning)
        requests = [
            room.request(ops, chosen.cut, share * pruning.prune_from, recipe)
            for ops in prune_candidates(architectures, settings)
        ]
        rivals = train_pruned(room.trials, f"pruned {share:g}", requests, taught, margin)
        best = max(rivals, key=lambda rival: rival.value)  # none is known to be good
        names = [f"{rival.architecture}, size {share:g}" for rival in rivals]
        tried += [_row(name, rival, trial) for name, rival in zip(names, rivals, strict=True)]
        if winner([trial, best]) is best:
            trial, taken = best, names[rivals.index(best)]
    decision = Decision(
        stage="pruning",
        taken=taken,
        tried=tuple(tried),
        statistic=SCORE,
        threshold=SCORE_SIGMAS,
    )
    return Decided(Chosen(trial, chosen.cut), decision)


def train_pruned(
    trials: Trials, stage: str, requests: list[Request], taught: Validation, margin: float
) -> list[Trial]:
    """The best of the nets that are asked for; of those trained by mini-batches, which are quick,
    and then, if it is far behind the teacher, of the others."""
    quick = [request for request in requests if request.recipe.batch_rows > 0]
    rivals = best_in_full(trials, stage, quick, [])
    if any(not far_behind(rival.validation, taught, margin) for rival in rivals):
        return rivals
    others = [request for request in requests if request not in quick]
    return rivals + best_in_full(trials, stage, others, rivals)


def best_in_full(
    trials: Trials, stage: str, requests: list[Request], rivals: list[Trial]
) -> list[Trial]:
    """Several compete by trainings a quarter as long, and the best of them is trained in full,
    unless a rival is ahead of it beyond chance by then."""
    if len(requests) + len(rivals) > 1 and requests:
        tried = trials.train_all(f"{stage} briefly", [brief(request) for request in requests])
        first = max(tried, key=lambda trial: trial.value)
        if any(beats(rival, first) for rival in rivals):
            return []
        requests = [requests[tried.index(first)]]
    return trials.train_all(stage, requests)


def brief(request: Request) -> Request:
    """The same training with fewer epochs, in which as many weights go."""
    epochs = max(1, round(request.recipe.epochs / PRUNE_BRIEF))
    return replace(request, recipe=replace(request.recipe, epochs=epochs))


def shares(pruning: Pruned, size_share: float) -> list[float]:
    """What is tried: as many weights, pruned from a larger net, and more."""
    larger = sorted(step for step in pruning.size_steps if step > size_share)
    return [size_share, *larger] if larger and pruning.prune_from > 1 else larger


def prune_candidates(
    architectures: list[tuple[str, ...]], settings: Settings
) -> list[tuple[str, ...]]:
    """The architectures that compete to be pruned."""
    assert settings.best is not None
    pruning = settings.best.pruning
    if pruning.prune_from == 1 or settings.best.student.final_ops:
        return architectures
    named = [tuple(text.split("+")) for text in pruning.prune_candidates]
    search = settings.search
    allowed = [ops for ops in named if len(ops) == search.layers and set(ops) <= set(search.ops)]
    return list(dict.fromkeys([*architectures, *allowed]))


def is_behind(room: Classroom, chosen: Chosen) -> bool:
    """Whether a student after a short training is so far behind its teacher that a pruned net, or
    a larger one, is likely to take its place."""
    taught = validated(room.teacher.probs, room.graph, room.trials.metric)
    return far_behind(chosen.trial.validation, taught, LARGER_MARGIN)


def far_behind(student: Validation, teacher: Validation, margin: float) -> bool:
    """Whether a student's validation score is lower, by `margin` and beyond chance."""
    lower, higher = student.score(), teacher.score()
    if lower is None or higher is None or higher - lower <= margin:
        return False
    return gain(teacher, student) > SCORE_SIGMAS


def pruning_recipe(share: float, room: Classroom, pruning: Pruned) -> Recipe:
    """For a net that loses all but `share` of a GCN-64's weights: longer, and with larger steps."""
    if pruning.prune_from == 1:
        return room.recipe
    weights = gcn_weights(room.graph.num_features, room.graph.num_classes)
    return replace(
        room.recipe,
        prune_to=int(share * weights),
        epochs=pruning.prune_epochs,
        lr=float(PRUNE_RATE * room.recipe.lr),
        weight_decay=float(max(PRUNE_DECAY, room.recipe.weight_decay)),
    )


def _row(name: str, trial: Trial, incumbent: Trial) -> Row:
    statistic = gain(trial.validation, incumbent.validation)
    return {"name": name, "score": trial.value, "statistic": statistic}
