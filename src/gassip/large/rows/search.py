"""The search on rows, all of it on one screen: `search_rows`.

    1 candidates   which hops, dropout, depth: successive halving, rows × 4 as candidates / 2
    2 teacher      the best shapes, wide, on all labelled rows: the mean of their probabilities
    3 layers       more layers with hops, each trained on the hidden layer below it (greedy)
    4 student      narrow, pruned while it trains; labels, and the teacher's where there are none
    5 labels       label-propagation logits, if the validation likelihood rises, as in `best`;
                   for the training graph alone, a student trained beside them

The first option stays unless another validates better beyond chance. Every net is an ordinary one:
TAGk ‖ Linear, TAGk ‖ TAG2 ‖ Linear, ...

Shapes: N nodes, n rows, D features, K hops, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import torch
from torch import Tensor

from gassip.best.calibration import log_likelihood
from gassip.best.decisions import LIKELIHOOD, SCORE
from gassip.best.rules import FEW_WEIGHTS, LIKELIHOOD_SIGMAS, SCORE_SIGMAS, SIZE_SHARE
from gassip.best.significance import likelihood_gain
from gassip.large.rows.labels import (
    Teacher,
    added,
    affords_labels,
    better_likelihood,
    folds,
    offsets_of,
    taken_of,
    training_weight,
)
from gassip.large.rows.nets import Shape
from gassip.large.rows.training import Trained, epochs_for, folded_probs
from gassip.large.rows.trials import UPPER_HOPS, Chain, Trials, weights_of
from gassip.operations import gcn_weights
from gassip.train.plan import Decision, Row

FEWEST_ROWS, MOST_ROWS = 8_000, 100_000  # of the first rung, and of the last
RUNG_EPOCHS = 20
TEACHERS, TEACHER_WIDTH, CHAIN_WIDTH = 3, 256, 64
MOST_SEGMENTS = 3
CANDIDATES, WIDE, LAYERS = 0.3, 0.4, 0.4  # shares of the time left: a quarter is the student's
STRONG_DECAYS = 1e-2, 1e-1  # of weights, against columns of noise
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
    serves: str = "any"  # graphs; of `own` training may rely on its labels


@dataclass(frozen=True, kw_only=True)
class Student:
    """What is needed to train the final net again: a chain of `length` segments."""

    shape: Shape  # of its first segment, but for the width
    weights: int  # in all
    length: int
    number: int  # among the sizes, from 0
    label_weight: float = 0.0  # of label-propagation logits in its training


@dataclass(frozen=True, eq=False, kw_only=True)
class Found:
    """What a search on rows hands over."""

    trained: Trained
    student: Student
    probs: Tensor | None  # [n, C] of the teacher, for the nodes without a label to train on
    label_weight: float = 0.0
    decisions: tuple[Decision, ...]
    cut: bool = False  # whether a time limit ended the search


def search_rows(trials: Trials, options: Options) -> Found:
    """The stages of the module's head. With a deadline each has a share of the time left; the
    student has what then is left."""
    made: list[Decision] = []
    with trials.pace.within(CANDIDATES):
        shapes = halving(trials, made)
    shape, length, teacher = shapes[0], 1, None
    if options.teach and not trials.late:
        with trials.pace.within(WIDE):
            wide = [replace(shape, width=teacher_width(trials)) for shape in shapes[:TEACHERS]]
            teachers = trials.train_all("teacher", 0, wide, fit=True)
        with trials.pace.within(LAYERS):
            leading = best_of(trials, teachers)
            chain, length = grown(trials, leading, made)
        shape = leading.shape
        trials.pace.keep((length - 1) * trials.pace.passing)  # for the scores of all nodes
        teacher = taught(trials, teachers, chain, made)
    probs = None if teacher is None else teacher.others
    trained, student = best_student(trials, shape, length, probs, options, made)
    found = Found(trained=trained, student=student, probs=probs, decisions=tuple(made))
    found = with_labels(trials, found, teacher, options)
    return replace(found, cut=trials.late or trials.pace.shortened)


def candidates(steps: int) -> list[Shape]:
    """Hops 0..k for every k; the farthest without hop 0; other dropout, decay, depth, basis."""
    upto = [tuple(range(k + 1)) for k in range(steps + 1)]
    shapes = [Shape(hops=hops) for hops in reversed(upto)]
    for hops in (upto[-1], upto[min(2, steps)]):
        shapes += [Shape(hops=hops, dropout=0.5), Shape(hops=hops, signed=True)]
        shapes += [Shape(hops=hops, decay=decay) for decay in STRONG_DECAYS]
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
        epochs = rung_epochs(rows)
        answers = trials.train_all("candidate", number, shapes, table=table, epochs=epochs)
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


def rung_epochs(rows: int) -> int:
    """So many; of few rows more, since a net of a few steps tells nothing."""
    return max(RUNG_EPOCHS, min(epochs_for(rows), RUNG_EPOCHS * FEWEST_ROWS // max(1, rows)))


def teacher_width(trials: Trials) -> int:
    return TEACHER_WIDTH if len(trials.tables.train) >= 20_000 else TEACHER_WIDTH // 2


def chain_width(trials: Trials) -> int:
    """64, less where N × width numbers would fill memory."""
    nodes = trials.hops.graph.nodes
    return CHAIN_WIDTH if nodes <= 2_000_000 else CHAIN_WIDTH // 2


def best_of(trials: Trials, teachers: Sequence[Trained]) -> Trained:
    """The first, unless another validates better beyond chance."""
    best = max(teachers, key=lambda teacher: teacher.value)
    return best if trials.gain(best, teachers[0]) > SCORE_SIGMAS else teachers[0]


def grown(trials: Trials, wide: Trained, made: list[Decision]) -> tuple[Chain | None, int]:
    """Layers with hops on a net of moderate width, as long as each validates better; None: the
    first did not. And how many a student has: as many, unless a wide net of one validates better
    still."""
    if trials.late or not trials.affords_layer(chain_width(trials)):
        return None, 1
    shape = replace(wide.shape, width=chain_width(trials))
    base = trials.train("teacher layer", 0, shape)
    chain, rows = trials.begin(base), [_row("1 layer with hops", base, 0.0)]
    upper = replace(shape, hops=UPPER_HOPS, depth=2, signed=False)
    while chain.length < MOST_SEGMENTS and trials.affords_layer(upper.width):
        longer = trials.longer(chain, "teacher layer", upper)
        statistic = trials.gain(longer.trained, chain.trained)
        rows.append(_row(f"{longer.length} layers with hops", longer.trained, statistic))
        if statistic <= SCORE_SIGMAS:
            break
        chain = longer
    chain.release()
    taken, length = str(rows[chain.length - 1]["name"]), chain.length
    if length > 1:
        statistic = trials.gain(wide, chain.trained)
        rows.append(_row(f"1 layer with hops, {wide.shape.width} wide", wide, statistic))
        if statistic > SCORE_SIGMAS:
            taken, length = str(rows[-1]["name"]), 1
    made.append(_decision("layers", taken, rows))
    return (chain if chain.length > 1 else None), length


def taught(
    trials: Trials, teachers: Sequence[Trained], chain: Chain | None, made: list[Decision]
) -> Teacher:
    """What the teacher says: the wide nets, the chain or both, by validation likelihood."""
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
    return Teacher(val[taken], others[taken])


def _mean_others(trials: Trials, teachers: Sequence[Trained]) -> Tensor:
    rows, scaling = trials.tables.others, trials.tables.scaling
    return torch.stack([folded_probs(one.net, rows, scaling) for one in teachers]).mean(0)


def best_student(
    trials: Trials,
    shape: Shape,
    length: int,
    probs: Tensor | None,
    options: Options,
    made: list[Decision],
) -> tuple[Trained, Student]:
    """The smallest size, unless a larger one validates better beyond chance. While the last one
    does, sizes grow on, up to a teacher's; once if the student is behind the best candidate."""
    waiting, best = sizes_of(trials, options), None
    given = len(waiting)
    rows: list[Row] = []
    while waiting:
        size = waiting.pop(0)
        if best is not None and not affords(trials, size, length):
            break
        asked = Student(shape=shape, weights=size, length=length, number=len(rows))
        trained = train_student(trials, asked, probs)
        statistic = 0.0 if best is None else trials.gain(trained, best)
        rows.append(_row(f"{trained.net.num_weights()[0]:,} weights", trained, statistic))
        better = statistic > SCORE_SIGMAS
        if best is None or better:
            best, taken, chosen = trained, str(rows[-1]["name"]), asked
        once = len(rows) == given and behind_candidate(trials, best)
        if not waiting and (better or once):
            waiting = larger(trials, shape, size, options)
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


def sizes_of(trials: Trials, options: Options) -> list[int]:
    """Weights of the students, in the order in which they are tried."""
    gcn = gcn_weights(trials.hops.features, trials.classes)
    sizes = [max(float(FEW_WEIGHTS), share * gcn) for share in options.sizes]
    return list(dict.fromkeys(int(min(size, options.most_weights)) for size in sizes))


def behind_candidate(trials: Trials, student: Trained) -> bool:
    best = trials.best_candidate
    return best is not None and trials.gain(best, student) > SCORE_SIGMAS


def larger(trials: Trials, shape: Shape, size: int, options: Options) -> list[int]:
    """Three times the size, at most that of a teacher and what the budget leaves; none beyond."""
    wide = weights_of(replace(shape, width=teacher_width(trials)), trials.tables, trials.classes)
    most = int(min(wide, options.most_weights))
    return [min(3 * size, most)] if size < most else []


def affords(trials: Trials, weights: int, length: int) -> bool:
    """Whether another student can be trained to its end; the first one always is."""
    rows = len(trials.tables.train) + len(trials.chosen.others)
    training = trials.pace.of_training(rows * epochs_for(rows), PRUNE_FROM * weights)
    return not trials.late and trials.pace.allows(training + (length - 1) * trials.pace.passing)


def train_student(trials: Trials, asked: Student, probs: Tensor | None) -> Trained:
    """A chain of segments, pruned from PRUNE_FROM times as many weights."""
    shape, length = asked.shape, asked.length
    share, stage = asked.weights // length, f"student {asked.number + 1}"
    tables, offsets = trials.tables, None
    if asked.label_weight:
        stage, offsets = f"{stage} with labels", offsets_of(trials).times(asked.label_weight)
        tables = tables.beside(offsets)
    most = TEACHER_WIDTH if length == 1 else chain_width(trials)
    depth = shape.depth if length == 1 else 2  # of a chain each segment has a hidden layer
    width = fitting(trials, len(shape.hops) * trials.hops.features, share, most, depth)
    dropout = min(shape.dropout, 0.1) if probs is not None else shape.dropout
    first = replace(shape, width=width, dropout=dropout, depth=depth)
    table = None if probs is None else tables.taught(probs)
    with trials.pace.within(1 / length):
        trained = trials.train(
            stage, 0, first, table=table, tables=tables, prune_to=share, fit=True
        )
    chain = trials.begin(trained)
    while chain.length < length and trials.affords_layer(chain_width(trials)):
        hidden = chain.last.layers[-1].weight.shape[0]
        most = TEACHER_WIDTH if chain.length == length - 1 else chain_width(trials)
        width = fitting(trials, len(UPPER_HOPS) * hidden, share, most)
        upper = replace(first, hops=UPPER_HOPS, width=width, depth=2, signed=False)
        with trials.pace.within(1 / (length - chain.length)):
            chain = trials.longer(
                chain, stage, upper, probs, prune_to=share, fit=True, offsets=offsets
            )
    chain.release()
    return chain.trained


def fitting(trials: Trials, inputs: int, weights: int, most: int, depth: int = 2) -> int:
    """The width F at which the layers have PRUNE_FROM times the weights:
    (depth − 2) F² + (inputs + C + 1) F of them."""
    inner, rest = depth - 2, inputs + trials.classes + 1
    wanted = PRUNE_FROM * weights
    width = wanted / rest
    if inner:
        width = (sqrt(rest**2 + 4 * inner * wanted) - rest) / (2 * inner)
    return int(min(most, max(4, width)))


def with_labels(trials: Trials, found: Found, teacher: Teacher | None, options: Options) -> Found:
    """Label propagation added to the student's logits; or, where only the training graph is to be
    served, in the training of a new student, if that validates better."""
    if not options.label_propagation or not affords_labels(trials, 1):
        return found
    first = added(trials, found.trained)
    rows, taken = first.rows, taken_of(first.rows, first.weight)
    out = replace(found, label_weight=first.weight)
    if options.serves == "own" and affords_labels(trials, 2 + folds(trials)):
        again = trained_with_labels(trials, found, teacher)
        rise, level = better_likelihood(trials, again.trained.logits, first.logits)
        rows.append(_row(f"trained with weight {again.label_weight:.2f}", again.trained, rise))
        if level and rise > LIKELIHOOD_SIGMAS:
            out, taken = again, str(rows[-1]["name"])
    made = _decision("label propagation", taken, rows, LIKELIHOOD, float(LIKELIHOOD_SIGMAS))
    return replace(out, decisions=(*found.decisions, made))


def trained_with_labels(trials: Trials, found: Found, teacher: Teacher | None) -> Found:
    """A student like the one that was found, and its teacher, beside label propagation."""
    weight = training_weight(trials, found.trained)
    student = replace(found.student, label_weight=weight)
    probs = None
    if teacher is not None:
        probs = teacher.beside(offsets_of(trials), trials.tables.val.target)
    trained = train_student(trials, student, probs)
    return replace(found, trained=trained, student=student, probs=probs, label_weight=weight)


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
