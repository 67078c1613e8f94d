"""Whether a graph to label is like the one a net was trained on: numbers of the training graph,
kept in the run, and what differs from them beyond chance.

    far outside   a value further outside the training range than half the range is wide
    outside       more than a tenth of the nodes (at least 20 are needed) outside the training range
    unknown       a text that training did not have (of tables, told by preparation.py); more rare
                  texts than twice as in training
    density       edges per node, ten times as many or a tenth

Shapes: N nodes, D features.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse as sp

from gassip.graph.checks import Table, dense
from gassip.graph.preparation import Preparation

TIMES = 10.0  # as dense, or a tenth as dense
BEYOND = 0.5  # of the training range
SHARE = 0.1  # of the nodes
FEW = 20  # nodes, under which shares say little
ROUNDING = 1e-5  # of a range's ends
NAMED = 3  # features that a warning names


@dataclass(frozen=True, eq=False, kw_only=True)
class Statistics:
    """Of the features of the training graph."""

    low: np.ndarray  # [D] float32
    high: np.ndarray
    mean: np.ndarray

    @staticmethod
    def of(x: Table) -> "Statistics":
        if sp.issparse(x):
            low, high = (bound.toarray().ravel() for bound in (x.min(axis=0), x.max(axis=0)))
        else:
            low, high = x.min(axis=0), x.max(axis=0)
        mean = np.asarray(x.mean(axis=0, dtype=np.float64)).ravel()
        return Statistics(
            low=np.asarray(low, np.float32),
            high=np.asarray(high, np.float32),
            mean=np.asarray(mean, np.float32),
        )

    def to_tensors(self) -> dict[str, np.ndarray]:
        return {"low": self.low, "high": self.high, "mean": self.mean}


def drift(
    x: Table,
    statistics: Statistics | None,
    *,
    degree: tuple[float, float],
    preparation: Preparation | None = None,
    columns: np.ndarray | None = None,
) -> list[str]:
    """What differs, a line each: x [N, D] against the training graph's, and the edges per node,
    now and then. `columns`: the ones that the net reads; None: all."""
    lines = _density(*degree)
    if statistics is None or statistics.low.shape != (x.shape[1],):
        return lines
    read = np.arange(x.shape[1]) if columns is None else columns
    one_hot = _one_hot_columns(preparation)
    numbers = read[~np.isin(read, one_hot)] if one_hot.size else read
    lines += _ranges(x, statistics, numbers, preparation)
    return lines + ([] if preparation is None else _texts(x, statistics, preparation))


def told_once(notes: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Notes of a table, and the lines on what they have not told: new texts are known exactly to
    the table, and to x only as features of 0."""
    told = {note.partition(":")[0] for note in notes if note.startswith("column ")}
    return [*notes, *(line for line in lines if line.partition(":")[0] not in told)]


def _density(now: float, then: float) -> list[str]:
    if then <= 0 or 1 / TIMES < now / then < TIMES:
        return []
    times = f"{now / then:.3g} times as dense" if now else "without an edge"
    return [
        f"the graph is {times}: {now:.3g} edges per node, in training {then:.3g}; "
        "its labels may be worse"
    ]


def _ranges(
    x: Table, then: Statistics, columns: np.ndarray, preparation: Preparation | None
) -> list[str]:
    """Features outside the training range: how many nodes, and the features that are furthest."""
    now = Statistics.of(x)
    width = then.high - then.low
    below, above = then.low - now.low, now.high - then.high  # how far outside, [D]
    least = ROUNDING * np.maximum(np.abs(then.low), np.abs(then.high))
    outside = columns[np.maximum(below, above)[columns] > least[columns]]
    table = sp.csc_array(x[:, outside]) if sp.issparse(x) else x[:, outside]
    found: dict[int, int] = {}
    for place, at in enumerate(outside):
        column = dense(sp.csr_array(table[:, [place]]) if sp.issparse(table) else table[:, place])
        column = column.ravel()
        beyond = np.maximum(then.low[at] - column, column - then.high[at]) - least[at]
        far, all_outside = int((beyond > BEYOND * width[at]).sum()), int((beyond > 0).sum())
        many = all_outside > SHARE * column.size and column.size >= FEW
        if far or many:
            found[int(at)] = all_outside
    if not found:
        return []
    order = sorted(found, key=lambda at: -max(below[at], above[at]) / max(width[at], 1e-12))
    said = [_range(at, found[at], x.shape[0], now, then, preparation) for at in order[:NAMED]]
    more = f", and {len(found) - NAMED} more features" if len(found) > NAMED else ""
    return [f"outside what the net was trained on: {'; '.join(said)}{more}"]


def _range(
    at: int,
    count: int,
    nodes: int,
    now: Statistics,
    then: Statistics,
    preparation: Preparation | None,
) -> str:
    name, mean, scale = f"feature {at}", 0.0, 1.0
    if preparation is not None and at < len(preparation.feature_names):
        name = preparation.feature_names[at]
        if at < len(preparation.numbers):
            mean, scale = preparation.numbers[at].mean, preparation.numbers[at].scale
    low, high, least, most = (
        float(values[at]) * scale + mean for values in (now.low, now.high, then.low, then.high)
    )
    span = f"{low:.4g} to {high:.4g}, in training {least:.4g} to {most:.4g}"
    return f"{name} in {count:,} of {nodes:,} nodes ({span})"


def _one_hot_columns(preparation: Preparation | None) -> np.ndarray:
    """The features of texts; what is new in them is told by name instead."""
    if preparation is None:
        return np.zeros(0, dtype=np.int64)
    first = len(preparation.numbers) + sum(number.missing for number in preparation.numbers)
    return np.arange(first, len(preparation.feature_names))


def _texts(x: Table, then: Statistics, preparation: Preparation) -> list[str]:
    lines, at = list[str](), len(preparation.feature_names) - _one_hot_columns(preparation).size
    for category in preparation.categories:
        last = at + len(category.names) + category.other
        block = dense(x[:, at:last])
        known = block[:, : len(category.names)].sum(1)
        unknown = int((known == 0).sum())
        usual = 2 * float(then.mean[last - 1]) if category.other else 0.0
        enough = block.shape[0] >= FEW or usual == 0
        if unknown > max(usual, SHARE if category.other else 0.0) * block.shape[0] and enough:
            had = f" (in training {usual / 2:.1%})" if category.other else ""
            lines.append(
                f"column {category.name}: {unknown:,} of {block.shape[0]:,} cells hold a text that "
                f"training did not have, or hardly{had}"
            )
        at = last
    return lines
