"""A student that is behind its teacher is pruned from a larger net, to as many weights or to more.

behind     val(teacher) − val(student) > margin, and beyond chance
pruned     a net `prune_from` times as large loses its smallest weights while it trains
           (train/gradual_pruning.py); size_share first, then each of `size_steps`
"""

from dataclasses import replace

from torch import Tensor

from gassip.best.decisions import Decided
from gassip.best.rules import (
    LARGER_MARGIN,
    MCNEMAR_SIGMAS,
    PRUNE_DECAY,
    PRUNE_MARGIN,
    PRUNE_RATE,
    gcn_weights,
)
from gassip.best.significance import beyond_chance, mcnemar
from gassip.best.student import Chosen, Classroom
from gassip.best.trials import Trial, right, winner
from gassip.settings import Settings
from gassip.settings.best import Pruned
from gassip.settings.training import Recipe
from gassip.train.plan import Decision, Row

STATISTIC = "validation score behind the teacher; pruned nets: McNemar's test, in standard errors"


def prune_if_behind(
    room: Classroom, chosen: Chosen, architectures: list[tuple[str, ...]], settings: Settings
) -> Decided[Chosen]:
    """The student, or a pruned net that beats it, as long as it is behind its teacher."""
    assert settings.best is not None
    pruning, size_share = settings.best.pruning, settings.best.student.size_share
    taught = right(room.teacher.probs, room.graph)
    trial, tried = chosen.trial, [_row("as it is", chosen.trial, chosen.trial)]
    for share in shares(pruning, size_share):
        margin = PRUNE_MARGIN if share == size_share else LARGER_MARGIN
        if not far_behind(trial.right, taught, margin):
            break
        recipe = pruning_recipe(share, room, pruning)
        rivals = [
            room.train(f"size {share:g}", ops, chosen.cut, share * pruning.prune_from, recipe)
            for ops in prune_candidates(architectures, settings)
        ]
        best = max(rivals, key=lambda rival: rival.value)  # none is known to be good
        tried += [_row(f"{rival.architecture}, size {share:g}", rival, trial) for rival in rivals]
        trial = winner([trial, best])
    taken = "as it is" if trial is chosen.trial else f"pruned {trial.architecture}"
    decision = Decision(
        stage="pruning",
        taken=f"{taken}, {len(trial.net.layers)} layers",
        tried=tuple(tried),
        statistic=STATISTIC,
        threshold=MCNEMAR_SIGMAS,
    )
    return Decided(Chosen(trial, chosen.cut), decision)


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


def far_behind(student: Tensor, teacher: Tensor, margin: float) -> bool:
    """Whether a student gets fewer validation nodes right [n], by `margin` and beyond chance."""
    behind = float(teacher.float().mean() - student.float().mean())
    return behind > margin and beyond_chance(teacher, student)


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
    gain = mcnemar(trial.right, incumbent.right)
    return {"name": name, "score": trial.value, "statistic": gain}
