"""Label propagation beside a student of rows, on the training graph alone or in its training too.

    any   w o is added to the logits of the student as it is, if the validation likelihood rises
    own   besides, a student is trained anew on rows with w o as further columns, which go past
          the net to its output; the teacher's logits have w o added too

o is that of train/label_propagation.py. Of a training row it is out of fold: a tenth of the labels,
its own among them, is hidden while o is computed. A student trained beside w o is worse on nodes
whose neighbours' labels are not known.

Shapes: N nodes, C classes, n rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gassip.best.calibration import LEAST, log_likelihood
from gassip.best.label_propagation import fit_weights
from gassip.best.rules import LIKELIHOOD_SIGMAS, SCORE_SIGMAS
from gassip.best.significance import likelihood_gain, mcnemar
from gassip.deploy.by_rows import label_logits
from gassip.large.rows.data import Offsets
from gassip.large.rows.training import Trained
from gassip.large.rows.trials import Trials
from gassip.operations import OPERATIONS, SPREAD
from gassip.train.label_propagation import FOLDS
from gassip.train.plan import Row


@dataclass(frozen=True, eq=False)
class Teacher:
    """Probabilities of the validation nodes, and of the nodes without a label to train on."""

    val: Tensor  # [n, C]
    others: Tensor

    def beside(self, o: Offsets, y: Tensor) -> Tensor:
        """softmax(a log p + w o) of the others [n, C]; a and w fit the validation labels best."""
        a, w = fit_weights(self.val.clamp_min(LEAST).log(), o.val, y)
        return torch.softmax(a * self.others.clamp_min(LEAST).log() + w * o.others, 1)


def known_labels(trials: Trials) -> np.ndarray:
    """Labels that training may read, -1 elsewhere, [N]; after a refit those of validation too."""
    split = np.asarray(trials.hops.graph.array("split"))
    known = (split == 1) if len(trials.chosen.val) else (split == 1) | (split == 2)
    return np.where(known, trials.chosen.y, -1)


def logits_at(trials: Trials, known: np.ndarray, nodes: np.ndarray) -> Tensor:
    """o [n, C]"""
    made = label_logits(known, trials.classes, trials.edges, trials.threads, nodes)
    return torch.from_numpy(made)


def affords_labels(trials: Trials, times: int) -> bool:
    """Whether labels can be spread so often, and once more for the scores of all nodes."""
    steps = (times + 1) * OPERATIONS[SPREAD].steps
    spreading = trials.pace.of_spreading(trials.hops.graph.edges, trials.classes, steps)
    return not trials.late and trials.pace.allows(spreading)


def folds(trials: Trials) -> int:
    """Into which the training rows are cut: each is at most a tenth of the known labels."""
    known = int((known_labels(trials) >= 0).sum())
    return -(-FOLDS * len(trials.chosen.train) // max(1, known))


def offsets_of(trials: Trials) -> Offsets:
    """o of the chosen nodes, of training rows out of fold; computed once."""
    if trials.offsets is None:
        trials.offsets = _offsets(trials)
    return trials.offsets


def _offsets(trials: Trials) -> Offsets:
    known, chosen = known_labels(trials), trials.chosen
    nodes = np.concatenate([chosen.val, chosen.others])
    rest = logits_at(trials, known, nodes)
    train = torch.empty(len(chosen.train), trials.classes)
    order = np.random.default_rng(0).permutation(len(chosen.train))
    count = folds(trials)
    for k in range(count):
        rows = np.sort(order[k::count])
        hidden = known.copy()
        hidden[chosen.train[rows]] = -1
        train[torch.from_numpy(rows)] = logits_at(trials, hidden, chosen.train[rows])
    val = len(chosen.val)
    return Offsets(train, rest[:val], rest[val:])


@dataclass(frozen=True, eq=False)
class Added:
    """Label propagation added to the logits of a student that was trained without it."""

    weight: float  # 0: it stays without
    logits: Tensor  # [n, C] of the validation nodes, with what is added
    rows: list[Row]  # of the decision


def added(trials: Trials, student: Trained) -> Added:
    """w, if the likelihood rises beyond chance and the score does not fall beyond it."""
    near = logits_at(trials, known_labels(trials), trials.chosen.val)
    _, weight = fit_weights(student.logits, near, trials.tables.val.target, scaled=False)
    after = student.logits + weight * near
    rise, level = better_likelihood(trials, after, student.logits)
    name = f"added after training, weight {weight:.2f}"
    rows: list[Row] = [
        {"name": "without", "statistic": 0.0},
        {"name": name, "statistic": rise},
    ]
    if rise > LIKELIHOOD_SIGMAS and weight > 0 and level:
        return Added(weight, after, rows)
    return Added(0.0, student.logits, rows)


def training_weight(trials: Trials, student: Trained) -> float:
    """w of a z + w o that fits the validation labels best; a is left to the training."""
    return fit_weights(student.logits, offsets_of(trials).val, trials.tables.val.target)[1]


def better_likelihood(trials: Trials, after: Tensor, before: Tensor) -> tuple[float, bool]:
    """Standard errors by which the likelihood of logits [n, C] is higher, and whether as many are
    right, but for chance."""
    y = trials.tables.val.target
    both = [log_likelihood(torch.softmax(z.double(), 1), y) for z in (after, before)]
    lost = mcnemar(before.argmax(1) == y, after.argmax(1) == y)
    return likelihood_gain(both[0], both[1]), lost <= SCORE_SIGMAS


def taken_of(rows: Sequence[Row], weight: float) -> str:
    return str(rows[1 if weight else 0]["name"])
