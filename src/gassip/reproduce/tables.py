"""An experiment as tables: our figures beside the printed ones.

82.37 ± 0.71 (10 × 5)     mean and deviation over 10 searches with 5 trainings each
–                         no record
°                         a net of fixed kind whose width and dropout are not tuned here
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import fmean, stdev
from typing import Any

from gassip.bench.records import Record
from gassip.graph.graph import Graph
from gassip.methods import METHODS
from gassip.methods.known import HAND_MADE, SPARSIFIER
from gassip.reproduce.cells import Cell
from gassip.reproduce.experiments import Column, Experiment, Row, printed
from gassip.reproduce.overlap import NAMES, SHARES

NONE, UNTUNED, TOGETHER = "–", "°", "†"
Cells = dict[tuple[Row, Column], Cell]
Value = Callable[[Record], float | None]
Seeds = dict[int, dict[str, Any]]  # what overlap.py has measured, by seed


@dataclass(frozen=True)
class Table:
    """Texts; `numbers` are the columns that stand to the right."""

    name: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[int] = frozenset()


def accuracy(record: Record) -> float | None:
    """On the test nodes, in per cent."""
    return 100 * record.accuracy["test"] if "test" in record.accuracy else None


def seconds(show: str, whole: bool) -> Value:
    """Of the search or of the training alone; of both where they cannot be told apart."""

    def value(record: Record) -> float | None:
        return sum(record.seconds.values()) if whole else record.seconds.get(show)

    return value


def value_of(row: Row, show: str) -> Value:
    return seconds(show, row.whole) if show in ("search", "retrain") else accuracy


def values(cell: Cell | None, show: str = "accuracy") -> list[float]:
    """Of the runs that went well; seconds of a search once for all its trainings."""
    if cell is None:
        return []
    good = cell.good
    if show == "search" and not cell.row.whole:
        good = list({record.run.search_seed or 0: record for record in good}.values())
    found = [value_of(cell.row, show)(record) for record in good]
    return [value for value in found if value is not None]


def spread(found: Sequence[float]) -> str:
    """Mean and, of several, sample deviation."""
    if len(found) == 1:
        return f"{found[0]:.2f}"
    return f"{fmean(found):.2f} ± {stdev(found):.2f}"


def counted(records: Sequence[Record]) -> str:
    """How many runs there are: searches × trainings where they are that."""
    searches = Counter(record.run.search_seed for record in records)
    each = set(searches.values())
    if None in searches or len(each) > 1:
        return str(len(records))
    return f"{len(searches)} × {each.pop()}"


def figure(cell: Cell | None, show: str = "accuracy") -> str:
    """A cell's text."""
    found = values(cell, show)
    if cell is None or not cell.there:
        return NONE
    if not found:
        words = {"oom": "out of memory", "failed": "failed", "ok": NONE}
        return words[cell.there[-1].status]
    if show in ("search", "retrain"):
        together = TOGETHER if show == "retrain" and ran_together(cell) else ""
        return f"{fmean(found):,.1f}{together} ({len(found)})"
    bad = len(cell.there) - len(cell.good)
    failed = f", {bad} failed" if bad else ""
    mark = UNTUNED if is_untuned(cell) else ""
    return f"{spread(found)}{mark} ({counted(cell.good)}{failed})"


def ran_together(cell: Cell) -> bool:
    """Whether trainings of several seeds went through one batch, and share its seconds."""
    return any(record.batched > 1 for record in cell.good)


def is_untuned(cell: Cell) -> bool:
    family = METHODS[cell.row.method].family
    return family in (HAND_MADE, SPARSIFIER) and not cell.tuned


def label(row: Row) -> str:
    return f"{row.beside}: {row.label}" if row.beside else row.label


def grid(name: str, experiment: Experiment, cells: Cells) -> Table:
    """A row for each method, a column for each graph, the printed figure behind it."""
    paper = printed(name)
    heads, rows = ["method"], [[label(row)] for row in experiment.rows]
    for column in experiment.columns:
        known = any(column.label in line for line in paper.values())
        heads += [column.label, "printed"] if known else [column.label]
        for row, line in zip(experiment.rows, rows, strict=True):
            line.append(figure(cells.get((row, column)), experiment.show))
            line += [paper.get(row.label, {}).get(column.label, NONE)] if known else []
    return Table(experiment.title, heads, rows, after_first(heads))


def sizes(name: str, experiment: Experiment, cells: Cells) -> list[Table]:
    """One table for each graph: accuracy beside weights and edges."""
    with_printed = bool(printed(name))
    heads = ["method", "accuracy", *["printed"] * with_printed, "weights", "edges"]
    made = []
    for column in experiment.columns:
        rows = [sizes_row(row, cells.get((row, column))) for row in experiment.rows]
        for row, line in zip(experiment.rows, rows, strict=True):
            paper = printed(name).get(row.label, {}).get(column.label, NONE)
            line[2:2] = [paper] * with_printed
        title = f"{experiment.title}: {column.label}"
        made.append(Table(title, heads, rows, after_first(heads)))
    return made


def sizes_row(row: Row, cell: Cell | None) -> list[str]:
    good = cell.good if cell else []
    if not good:
        return [label(row), figure(cell), NONE, NONE]
    weights, edges, total = (mean(good, n) for n in ("weights_kept", "edges_kept", "edges_total"))
    share = f" ({edges / total:.0%})" if total else ""
    return [label(row), figure(cell), f"{weights:,.0f}", f"{edges:,.0f}{share}"]


def mean(records: Sequence[Record], name: str) -> float:
    return fmean(float(getattr(record, name) or 0) for record in records)


def architectures(name: str, experiment: Experiment, cells: Cells) -> Table:
    """What each search found, and how often."""
    heads, rows = ["graph", "found (searches)", "printed"], []
    for column in experiment.columns:
        for row in experiment.rows:
            paper = printed(name).get(row.label, {}).get(column.label, NONE)
            rows.append([column.label, found(cells.get((row, column))), paper])
    return Table(experiment.title, heads, rows)


def found(cell: Cell | None) -> str:
    """The architectures by how many searches found each."""
    good = cell.good if cell else []
    by_search = {record.run.search_seed: record.architecture for record in good}
    names = Counter(" ‖ ".join(ops) for ops in by_search.values() if ops)
    return ", ".join(f"{ops} ({count})" for ops, count in names.most_common()) or NONE


def statistics(name: str, experiment: Experiment, graphs: Mapping[Column, Graph]) -> Table:
    """The graphs as they are read here, beside what the paper prints."""
    heads, paper = ["graph"], printed(name)
    for kind in paper:
        heads += [kind, "printed"]
    rows = []
    for column in experiment.columns:
        graph = graphs.get(column)
        line = [column.label]
        for kind in paper:
            ours = f"{getattr(graph, f'num_{kind}'):,}" if graph is not None else NONE
            line += [ours, paper[kind].get(column.label, NONE)]
        rows.append(line)
    return Table(experiment.title, heads, rows, after_first(heads))


def overlap_table(experiment: Experiment, known: Mapping[Column, Seeds]) -> Table:
    """A row for each pair of nets, a column for each share of edges that is removed."""
    heads = ["graph", "nets", *(f"{share:.0%} removed" for share in SHARES), "seeds"]
    rows = [
        line
        for column in experiment.columns
        for line in overlap_rows(column, known.get(column, {}))
    ]
    return Table(f"{experiment.title}, per cent", heads, rows, frozenset(range(2, len(heads))))


def by_share(name: str, seeds: Seeds) -> list[list[float]]:
    """The overlaps of a pair, for each share those of all seeds."""
    each = [entry["overlaps"][name] for entry in seeds.values()]
    return [list(found) for found in zip(*each, strict=True)]


def overlap_rows(column: Column, seeds: Seeds) -> list[list[str]]:
    """A line for each pair, in per cent."""
    rows = []
    for name in NAMES:
        found = by_share(name, seeds)
        cells = [f"{100 * fmean(each):.1f}" for each in found]
        spreads = [f" ± {100 * stdev(each):.1f}" for each in found if len(each) > 1]
        texts = [a + b for a, b in zip_longest(cells, spreads, fillvalue="")]
        rows.append([column.label, name, *texts, str(len(seeds))])
    return rows


def after_first(heads: Sequence[str]) -> frozenset[int]:
    return frozenset(range(1, len(heads)))


def differences(cells: Sequence[Cell]) -> list[str]:
    """Each row less the controls that share its searches: mean and standard error over searches of
    the differences of equal seeds."""
    by_place = {(cell.row.label, cell.column): cell for cell in cells}
    out = []
    for cell in cells:
        found = by_place.get((cell.row.control_of, cell.column))
        steps = by_search(found, cell) if found is not None else []
        if found is not None and steps:
            error = f" ± {stdev(steps) / len(steps) ** 0.5:.2f}" if len(steps) > 1 else ""
            what = f"{found.row.label} less “{cell.row.label}”: {fmean(steps):+.2f}{error}"
            out.append(f"{cell.column.label}: {what} ({counted_searches(len(steps))}).")
    return out


def counted_searches(count: int) -> str:
    return f"standard error over {count} searches" if count > 1 else "one search"


def by_search(found: Cell, other: Cell) -> list[float]:
    """The mean difference of each search, over the trainings that both have."""
    theirs = {(r.run.search_seed, r.run.retrain_seed): accuracy(r) for r in other.good}
    steps: dict[int | None, list[float]] = {}
    for record in found.good:
        mine, seed = accuracy(record), record.run.search_seed
        their = theirs.get((seed, record.run.retrain_seed))
        if mine is not None and their is not None:
            steps.setdefault(seed, []).append(mine - their)
    return [fmean(each) for each in steps.values()]


def remarks(cells: Sequence[Cell], show: str = "accuracy") -> list[str]:
    """What a reader has to know of these cells: controls, untuned nets, what is missing, what is
    not used."""
    out = differences(cells) if show == "accuracy" else []
    if show in ("accuracy", "sizes") and any(is_untuned(c) and c.good for c in cells):
        out.append("° width and dropout are not tuned on this graph (`gassip tune` tunes them).")
    if show == "retrain" and any(ran_together(cell) for cell in cells):
        out.append("† ran together with other seeds, which share the seconds: faster than alone.")
    missing, runs = sum(len(cell.left()) for cell in cells), sum(len(cell.runs) for cell in cells)
    if missing:
        out.append(f"{missing:,} of the {runs:,} runs asked for are missing.")
    old = sorted(
        {f"{cell.row.method} (now version {cell.version})" for cell in cells if cell.stale}
    )
    if old:
        out.append(f"Records of other versions of a method are not used: {', '.join(old)}.")
    return out
