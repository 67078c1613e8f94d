"""The search on rows, all of it on one screen: `search_rows`.

    1 candidates   which hops, dropout, depth: successive halving, rows × 4 as candidates / 2
    2 teacher      the best shapes, wide, on all labelled rows: the mean of their probabilities
    3 layers       more layers with hops, each trained on the hidden layer below it (greedy)
    4 student      narrow, pruned while it trains; labels, and the teacher's where there are none
    5 labels       label-propagation logits, if the validation likelihood rises, as in `best`

The first option stays unless another validates better beyond chance. Every net is an ordinary one:
TAGk ‖ Linear, TAGk ‖ TAG2 ‖ Linear, ...

Shapes: N nodes, n rows, D features, K hops, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gassip.best.calibration import log_likelihood
from gassip.best.decisions import LIKELIHOOD, SCORE
from gassip.best.label_propagation import fit_weights
from gassip.best.rules import FEW_WEIGHTS, LIKELIHOOD_SIGMAS, SCORE_SIGMAS, SIZE_SHARE
from gassip.best.significance import likelihood_gain, mcnemar
from gassip.deploy.by_rows import label_logits
from gassip.large.rows.nets import Shape
from gassip.large.rows.training import Trained, epochs_for, folded_probs
from gassip.large.rows.trials import UPPER_HOPS, Chain, Trials
from gassip.operations import OPERATIONS, SPREAD, gcn_weights
from gassip.train.plan import Decision, Row

FEWEST_ROWS, MOST_ROWS = 8_000, 100_000  # of the first rung, and of the last
RUNG_EPOCHS = 20
TEACHERS, TEACHER_WIDTH, CHAIN_WIDTH = 3, 256, 64
MOST_SEGMENTS = 3
CANDIDATES, WIDE, LAYERS = 0.3, 0.4, 0.4  # shares of the time left: a quarter is the student's
PRUNE_FROM = 4  # as the setting of `best`
HIGHEST = "validation score; the highest is taken"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a user may set of a search on rows."""

    sizes: tuple[float, ...] = (float(SIZE_SHARE), 1.0, 3.0)  # of a GCN-64's weights, tried in turn
    most_weights: float = float("inf")  # a budget
    teach: bool = True
    label_propagation: bool = True
    edge_shares: tuple[float, ...] = ()  # of edges kept, tried in turn; none: all stay
    edge_rankings: tuple[str, ...] = ("support", "curriculum")


@dataclass(frozen=True, kw_only=True)
class Student:
    """What is needed to train the final net again: a chain of `length` segments."""

    shape: Shape  # of its first segment, but for the width
    weights: int  # in all
    length: int
    number: int  # among the sizes, from 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Found:
    """What a search on rows hands over."""

    trained: Trained
    student: Student
    probs: Tensor | None  # [n, C] of the teacher, for the nodes without a label to train on
    label_weight: float
    decisions: tuple[Decision, ...]
    cut: bool  # whether a time limit ended the search


def search_rows(trials: Trials, options: Options) -> Found:
    """The stages of the module's head. With a deadline each has a share of the time left; the
    student has what then is left."""
    made: list[Decision] = []
    with trials.pace.within(CANDIDATES):
        shapes = halving(trials, made)
    chain, probs = None, None
    if options.teach and not trials.late:
        with trials.pace.within(WIDE):
            wide = [replace(shape, width=teacher_width(trials)) for shape in shapes[:TEACHERS]]
            teachers = trials.train_all("teacher", 0, wide, fit=True)
        with trials.pace.within(LAYERS):
            chain = grown(trials, teachers, made)
        layers = 0 if chain is None else chain.length - 1
        trials.pace.keep(layers * trials.pace.passing)  # the scores of all nodes pass them too
        probs = taught_probs(trials, teachers, chain, made)
    trained, student = best_student(trials, shapes[0], chain, probs, options, made)
    weight = label_weight(trials, trained, options, made)
    return Found(
        trained=trained,
        student=student,
        probs=probs,
        label_weight=weight,
        decisions=tuple(made),
        cut=trials.late or trials.pace.shortened,
    )


def candidates(steps: int) -> list[Shape]:
    """Hops 0..k for every k; the farthest without hop 0; other dropout, depth and basis."""
    upto = [tuple(range(k + 1)) for k in range(steps + 1)]
    shapes = [Shape(hops=hops) for hops in reversed(upto)]
    for hops in (upto[-1], upto[min(2, steps)]):
        shapes += [Shape(hops=hops, dropout=0.5), Shape(hops=hops, signed=True)]
    shapes.append(Shape(hops=upto[-1], depth=3))
    if steps > 1:
        shapes.append(Shape(hops=upto[-1][1:]))
    return list(dict.fromkeys(shapes))


def halving(trials: Trials, made: list[Decision]) -> list[Shape]:
    """Shapes, the best on validation first."""
    shapes, train = candidates(trials.tables.steps), trials.tables.train.first(MOST_ROWS)
    rows = min(len(train), max(FEWEST_ROWS, len(train) // 16))
    number = 0
    tried: list[Row] = []
    while True:
        table = train.first(rows)
        answers = trials.train_all("candidate", number, shapes, table=table, epochs=RUNG_EPOCHS)
        results = [(trained.shape, trained) for trained in answers]
        number += len(results)
        results.sort(key=lambda pair: -pair[1].value)
        trials.best_candidate = max(
            (trained for trained in (trials.best_candidate, results[0][1]) if trained is not None),
            key=lambda trained: trained.value,
        )
        tried = [
            {"name": f"{shape}, {rows:,} rows", "score": trained.value}
            for shape, trained in results
        ]
        shapes = [shape for shape, _ in results]
        if len(shapes) <= TEACHERS or rows == len(train) or trials.late:
            break
        shapes = shapes[: max(TEACHERS, (len(shapes) + 1) // 2)]
        rows = min(len(train), 4 * rows)
    made.append(_decision("hops", str(shapes[0]), tried, HIGHEST, None))
    return shapes


def teacher_width(trials: Trials) -> int:
    return TEACHER_WIDTH if len(trials.tables.train) >= 20_000 else TEACHER_WIDTH // 2


def chain_width(trials: Trials) -> int:
    """64, less where N × width numbers would fill memory."""
    nodes = trials.hops.graph.nodes
    return CHAIN_WIDTH if nodes <= 2_000_000 else CHAIN_WIDTH // 2


def grown(trials: Trials, teachers: Sequence[Trained], made: list[Decision]) -> Chain | None:
    """Layers with hops on a net of moderate width, as long as each validates better; None: the
    first did not."""
    if trials.late or not trials.affords_layer(chain_width(trials)):
        return None
    shape = replace(teachers[0].shape, width=chain_width(trials))
    base = trials.train("teacher layer", 0, shape)
    chain, rows = trials.begin(base), [_row("1 layer with hops", base, 0.0)]
    upper = Shape(hops=UPPER_HOPS, width=chain_width(trials), dropout=shape.dropout)
    while chain.length < MOST_SEGMENTS and trials.affords_layer(upper.width):
        longer = trials.longer(chain, "teacher layer", upper)
        statistic = trials.gain(longer.trained, chain.trained)
        rows.append(_row(f"{longer.length} layers with hops", longer.trained, statistic))
        if statistic <= SCORE_SIGMAS:
            break
        chain = longer
    chain.release()
    taken = str(rows[chain.length - 1]["name"])
    made.append(_decision("layers", taken, rows))
    return chain if chain.length > 1 else None


def taught_probs(
    trials: Trials, teachers: Sequence[Trained], chain: Chain | None, made: list[Decision]
) -> Tensor:
    """The teacher's probabilities [n, C] of the nodes without a label to train on: the wide nets,
    the chain or both, by validation likelihood."""
    y = trials.tables.val.target
    val = {"wide nets": torch.stack([teacher.probs for teacher in teachers]).mean(0)}
    others = {"wide nets": _mean_others(trials, teachers)}
    if chain is not None:
        val["layers"], others["layers"] = chain.trained.probs, chain.others()
        val["both"] = (val["wide nets"] + val["layers"]) / 2
        others["both"] = (others["wide nets"] + others["layers"]) / 2
    taken = "wide nets"
    rows: list[Row] = []
    for name, probs in val.items():
        better = likelihood_gain(log_likelihood(probs, y), log_likelihood(val[taken], y))
        rows.append({"name": name, "statistic": better})
        taken = name if better > LIKELIHOOD_SIGMAS else taken
    made.append(_decision("teacher", taken, rows, LIKELIHOOD, float(LIKELIHOOD_SIGMAS)))
    return others[taken]


def _mean_others(trials: Trials, teachers: Sequence[Trained]) -> Tensor:
    rows, scaling = trials.tables.others, trials.tables.scaling
    return torch.stack([folded_probs(one.net, rows, scaling) for one in teachers]).mean(0)


def best_student(
    trials: Trials,
    shape: Shape,
    chain: Chain | None,
    probs: Tensor | None,
    options: Options,
    made: list[Decision],
) -> tuple[Trained, Student]:
    """The smallest size, unless a larger one validates better beyond chance."""
    gcn = gcn_weights(trials.hops.features, trials.classes)
    length = 1 if chain is None else chain.length
    sizes = [max(float(FEW_WEIGHTS), share * gcn) for share in options.sizes]
    bounded = dict.fromkeys(int(min(size, options.most_weights)) for size in sizes)
    best: Trained | None = None
    rows: list[Row] = []
    for k, size in enumerate(bounded):
        if best is not None and not affords(trials, size, length):
            break
        asked = Student(shape=shape, weights=size, length=length, number=k)
        trained = train_student(trials, asked, probs)
        statistic = 0.0 if best is None else trials.gain(trained, best)
        rows.append(_row(f"{trained.net.num_weights()[0]:,} weights", trained, statistic))
        if best is None or statistic > SCORE_SIGMAS:
            best, taken, chosen = trained, str(rows[-1]["name"]), asked
    assert best is not None
    early = trials.best_candidate
    if early is not None and trials.pace.shortened:  # too little time for a student
        weights, statistic = early.net.num_weights()[0], trials.gain(early, best)
        if weights <= options.most_weights:
            rows.append(_row(f"the best candidate, {weights:,} weights", early, statistic))
            if statistic > SCORE_SIGMAS:
                best, taken = early, str(rows[-1]["name"])
                chosen = Student(shape=early.shape, weights=weights, length=1, number=0)
    made.append(_decision("student", taken, rows))
    return best, chosen


def affords(trials: Trials, weights: int, length: int) -> bool:
    """Whether another student can be trained to its end; the first one always is."""
    rows = len(trials.tables.train) + len(trials.chosen.others)
    training = trials.pace.of_training(rows * epochs_for(rows), PRUNE_FROM * weights)
    return not trials.late and trials.pace.allows(training + (length - 1) * trials.pace.passing)


def train_student(trials: Trials, asked: Student, probs: Tensor | None) -> Trained:
    """A chain of segments, pruned from PRUNE_FROM times as many weights."""
    shape, length = asked.shape, asked.length
    share, stage = asked.weights // length, f"student {asked.number + 1}"
    most = TEACHER_WIDTH if length == 1 else chain_width(trials)
    width = fitting(trials, len(shape.hops) * trials.hops.features, share, most)
    dropout = min(shape.dropout, 0.1) if probs is not None else shape.dropout
    first = replace(shape, width=width, dropout=dropout, depth=2)
    table = None if probs is None else trials.tables.taught(probs)
    with trials.pace.within(1 / length):
        trained = trials.train(stage, 0, first, table=table, prune_to=share, fit=True)
    chain = trials.begin(trained)
    while chain.length < length and trials.affords_layer(chain_width(trials)):
        hidden = chain.last.layers[-1].weight.shape[0]
        most = TEACHER_WIDTH if chain.length == length - 1 else chain_width(trials)
        width = fitting(trials, len(UPPER_HOPS) * hidden, share, most)
        upper = Shape(hops=UPPER_HOPS, width=width, dropout=dropout)
        with trials.pace.within(1 / (length - chain.length)):
            chain = trials.longer(chain, stage, upper, probs, prune_to=share, fit=True)
    chain.release()
    return chain.trained


def fitting(trials: Trials, inputs: int, weights: int, most: int) -> int:
    """The width at which two layers have PRUNE_FROM times the weights."""
    width = PRUNE_FROM * weights // (inputs + trials.classes + 1)
    return int(min(most, max(4, width)))


def label_weight(trials: Trials, student: Trained, options: Options, made: list[Decision]) -> float:
    """w of best/label_propagation.py, a = 1; 0 unless the likelihood rises beyond chance."""
    steps = 2 * OPERATIONS[SPREAD].steps  # here, and for the scores of all nodes
    spreading = trials.pace.of_spreading(trials.hops.graph.edges, trials.classes, steps)
    if not options.label_propagation or trials.late or not trials.pace.allows(spreading):
        return 0.0
    split = np.asarray(trials.hops.graph.array("split"))
    known = np.where(split == 1, trials.chosen.y, -1)
    val, y = trials.chosen.val, trials.tables.val.target
    other = label_logits(known, trials.classes, trials.edges, trials.threads, val)
    near = torch.from_numpy(other)
    _, weight = fit_weights(student.logits, near, y, scaled=False)
    after = student.logits + weight * near
    statistic = likelihood_gain(
        log_likelihood(torch.softmax(after.double(), 1), y), log_likelihood(student.probs, y)
    )
    lost = mcnemar(student.logits.argmax(1) == y, after.argmax(1) == y) > SCORE_SIGMAS
    taken = statistic > LIKELIHOOD_SIGMAS and weight > 0 and not lost
    name = f"added after training, weight {weight:.2f}"
    rows: list[Row] = [
        {"name": "without", "statistic": 0.0},
        {"name": name, "statistic": statistic},
    ]
    answer = name if taken else "without"
    made.append(_decision("label propagation", answer, rows, LIKELIHOOD, float(LIKELIHOOD_SIGMAS)))
    return weight if taken else 0.0


def _row(name: str, trained: Trained, statistic: float) -> Row:
    return {"name": name, "score": trained.value, "statistic": statistic}


def _decision(
    stage: str,
    taken: str,
    tried: Sequence[Row],
    statistic: str = SCORE,
    threshold: float | None = float(SCORE_SIGMAS),
) -> Decision:
    return Decision(
        stage=stage, taken=taken, tried=tuple(tried), statistic=statistic, threshold=threshold
    )
