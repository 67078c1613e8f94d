"""How good the net is: scores by split, the confusion matrix, each class, calibration.

    recall_c     of the nodes of class c, the share that is labelled c
    precision_c  of the nodes labelled c, the share that is of class c
    F1_c         2 P R / (P + R)
    ECE          Σ_b n_b / n |accuracy_b − confidence_b| over ten bins of confidence

Everything here is computed after the search, from the net that was handed over.
"""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

import numpy as np

from gassip.draw.chart import Panel, Series
from gassip.draw.scale import per_cent as axis_per_cent
from gassip.graph.checks import Array
from gassip.report.facts import Facts
from gassip.report.html import section, table, tag
from gassip.report.searched import drawn
from gassip.report.words import METRICS, SPLITS, count, per_cent

BINS = 10
MOST_CLASSES = 40  # of a confusion matrix


def score_part(run: Facts) -> Iterator[Element]:
    """Scores and calibration in one column, the classes beside them, as far as there is room."""
    overall = [*all_scores(run), *_new_nodes(run), *calibration(run)]
    classes: list[Element] = []
    for split in ("test", "val"):
        nodes = known_nodes(run, split)
        if nodes is not None:
            assert run.probs is not None and run.y is not None
            classes = _of_split(run, split, run.probs[nodes], run.y[nodes])
            break
    if overall or classes:
        first = [tag("div", tag("h3", "All classes"), *overall)] if overall else []
        beside = [tag("div", *classes, class_="side")] if classes else []
        yield section("scores", "How good it is", tag("div", *first, *beside, class_="columns"))


def all_scores(run: Facts) -> Iterator[Element]:
    scores = run.meta.get("scores") or {}
    splits = [s for s in SPLITS if any(run.score(s, metric) is not None for metric in scores)]
    rows = [[METRICS.get(m, m), *(per_cent(run.score(s, m), 2) for s in splits)] for m in scores]
    if rows:
        heads = ["score", *(SPLITS[s] for s in splits)]
        yield table(heads, rows, name="Scores by split", numbers=range(1, len(heads)))


def _new_nodes(run: Facts) -> Iterator[Element]:
    """What the net is worth on nodes that come later (gassip.train.inductive)."""
    if not (made := run.meta.get("inductive")):
        return
    text = (
        f"On new nodes: {per_cent(made['score'])} on {count(made['nodes'])} validation nodes that "
        "were held out with their edges while the net was trained anew, then added. On the same "
        f"nodes the net of this run, which had their edges, has {per_cent(made['seen'])}."
    )
    yield tag("p", text, class_="small")


def known_nodes(run: Facts, split: str) -> Array | None:
    """Labelled nodes of a split; None where there are none or nothing is predicted."""
    if run.probs is None or run.y is None or split not in run.masks:
        return None
    nodes = np.flatnonzero(run.masks[split] & (run.y >= 0))
    return nodes if len(nodes) else None


def _of_split(run: Facts, split: str, probs: Array, y: Array) -> list[Element]:
    matrix = confusion(probs.argmax(1), y, len(run.classes))
    name = SPLITS[split].capitalize()
    classes = tag(
        "div",
        tag("h3", f"{name} nodes: each class"),
        _classes(run, matrix, f"Scores of each class, {SPLITS[split]} nodes"),
    )
    return [classes, *_matrix(run, matrix, split)]


def confusion(predicted: Array, y: Array, classes: int) -> Array:
    """[C, C]: rows are the true class, columns the predicted one."""
    return np.bincount(y * classes + predicted, minlength=classes**2).reshape(classes, classes)


def by_class(matrix: Array) -> Array:
    """precision, recall, F1 of each class, [C, 3]; nan where nothing defines it."""
    right = np.diag(matrix).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision, recall = right / matrix.sum(0), right / matrix.sum(1)
        f1 = 2 * right / (matrix.sum(0) + matrix.sum(1))
    return np.stack([precision, recall, f1], 1)


def _classes(run: Facts, matrix: Array, name: str) -> Element:
    rows = [
        [label, count(total), *(per_cent(float(value)) for value in values)]
        for label, total, values in zip(
            run.classes, matrix.sum(1), by_class(matrix), strict=True
        )
    ]  # fmt: skip
    heads = ["class", "nodes", "precision", "recall", "F1"]
    return table(heads, rows, name=name, numbers=(1, 2, 3, 4), sortable=True)


def _matrix(run: Facts, matrix: Array, split: str) -> Iterator[Element]:
    """Rows shaded by their shares."""
    if len(run.classes) > MOST_CLASSES:
        return
    name = f"Confusion matrix, {SPLITS[split]} nodes"
    shares = matrix / matrix.sum(1, keepdims=True).clip(1)
    head = tag("tr", tag("th", "true \\ predicted", scope="col"),
               *(tag("th", name, scope="col", class_="n") for name in run.classes))  # fmt: skip
    body = []
    for k, label in enumerate(run.classes):
        cells = [_shaded(int(c), float(s)) for c, s in zip(matrix[k], shares[k], strict=True)]
        body.append(tag("tr", tag("th", label, scope="row"), *cells))
    made = tag("table", tag("thead", head), tag("tbody", *body), class_="confusion",
               aria_label=name)  # fmt: skip
    scroll = tag("div", made, class_="scroll", tabindex=0, role="region", aria_label=name)
    yield tag("div", tag("h3", name), scroll)


def _shaded(value: int, share: float) -> Element:
    return tag("td", count(value) if value else "·", class_="n", style=f"--share:{share:.2f}")


def calibration(run: Facts) -> Iterator[Element]:
    """Accuracy against confidence on validation and test nodes, and the expected error."""
    series, notes = [], []
    for colour, split in enumerate(("val", "test"), 1):
        nodes = known_nodes(run, split)
        if nodes is None:
            continue
        assert run.probs is not None and run.y is not None
        points, error = reliability(run.probs[nodes], run.y[nodes])
        tips = [f"{SPLITS[split]}: {count(n)} nodes, confidence {per_cent(a)}, right {per_cent(b)}"
                for a, b, n in points]  # fmt: skip
        series.append(
            Series(name=SPLITS[split], x=[p[0] for p in points], y=[p[1] for p in points],
                   colour=colour, size=3.0, tips=tips)
        )  # fmt: skip
        notes.append(f"{SPLITS[split]} {per_cent(error)}")
    if series:
        ideal = Series(name="ideal", x=[0.0, 1.0], y=[0.0, 1.0], colour=6, dashed=True)
        made = Panel(title="Calibration: how often it is right", unit="per cent of the nodes",
                     below="when it says so many per cent", series=[ideal, *series],
                     form_x=axis_per_cent, form_y=axis_per_cent, bounds=(0.0, 1.0))  # fmt: skip
        text = (
            "Each point is the nodes of one range of confidence; above the line the net is right "
            "more often than it says. Mean distance from it (expected calibration error): "
            f"{', '.join(notes)}."
        )
        yield drawn(made)
        yield tag("p", text, class_="small")


def reliability(probs: Array, y: Array) -> tuple[list[tuple[float, float, int]], float]:
    """(confidence, accuracy, nodes) of each bin that has nodes, and ECE."""
    sure, right = probs.max(1), probs.argmax(1) == y
    group = np.minimum((sure * BINS).astype(int), BINS - 1)
    points = []
    for at in np.unique(group):
        inside = group == at
        points.append((float(sure[inside].mean()), float(right[inside].mean()), int(inside.sum())))
    error = sum(n * abs(a - b) for a, b, n in points) / len(y)
    return points, error
