"""What is asked for as a whole: the cells of all experiments, the runs that are missing, and the
parts of the report.

A graph that cannot be had leaves its columns out, with one line; the rest goes on.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from gassip.bench.execute import flat, searches
from gassip.bench.records import Book, Record, Run
from gassip.errors import GassipError
from gassip.graph.datasets import available, load
from gassip.reproduce import tables
from gassip.reproduce.cells import Amount, Graphs, Say, Shelf, planned
from gassip.reproduce.experiments import Column, Experiment
from gassip.reproduce.figures import drawn, overlap_drawing
from gassip.reproduce.overlap import Kept, measured
from gassip.reproduce.pages import Part
from gassip.reproduce.tables import Cells, Seeds
from gassip.threads import set_threads
from gassip.train.deadline import Deadline, ticking

MOST = 6  # commits and machines that are named


class Count(NamedTuple):
    """Runs of an experiment; `seconds` for those missing whose method has records."""

    there: int
    missing: int
    seconds: float
    unknown: int


class Batch(NamedTuple):
    """Runs that are carried out together; `tuned`: all with the tuned settings, or none."""

    runs: list[Run]
    tuned: bool

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run.method for run in self.runs))

    @property
    def title(self) -> str:
        graphs = dict.fromkeys(run.dataset for run in self.runs)
        return f"{', '.join(self.methods)} on {', '.join(graphs)}, {len(self.runs)} runs"


class OutOfTime(BaseException):
    """The time limit has passed; like Ctrl-C no failure of the run that it interrupts."""


@contextmanager
def until(deadline: Deadline) -> Iterator[None]:
    """The block ends with OutOfTime at the deadline."""

    def look() -> None:
        if deadline.passed:
            raise OutOfTime

    with ticking(look):
        yield


def overlap_task(epochs: int | None, dataset: str, seed: int) -> dict[str, Any]:
    """The overlaps of one graph and seed, here or on a worker; by None those of UGS."""
    set_threads(1)
    return measured(load(dataset), seed, epochs)


SUBSTITUTE = {
    "ogbn-arxiv": "; arxiv-standin is no substitute: its features are made from the graph alone"
}


class Work:
    """The experiments with their cells; `fetch`: graphs may be downloaded."""

    def __init__(
        self,
        experiments: Mapping[str, Experiment],
        book: Book,
        amount: Amount,
        *,
        say: Say,
        fetch: bool,
    ) -> None:
        self.book, self.amount, self.say, self.fetch = book, amount, say, fetch
        self.graphs, self.shelf = Graphs(), Shelf(book, say)
        self.absent: set[tuple[str, str | None]] = set()  # graphs that have been told of
        there = {name: self._there(own) for name, own in experiments.items()}
        self.experiments = {name: own for name, own in there.items() if own.columns}
        if not self.experiments:
            raise GassipError("none of these graphs is to be had; see `gassip datasets`")
        self.planned = {name: self._cells(own) for name, own in self.experiments.items()}

    def _there(self, own: Experiment) -> Experiment:
        """The experiment without the columns whose graph cannot be had."""
        return replace(own, columns=tuple(filter(self._has, own.columns)))

    def _has(self, column: Column) -> bool:
        what = (column.dataset, column.attack)
        if what in self.absent:
            return False
        try:
            if not self.fetch and not available(column.dataset):
                raise GassipError("its files are not here")
            self.graphs.of(column)
        except GassipError as error:
            self.absent.add(what)
            name = " ".join(filter(None, what))
            self.say(f"{name} is left out: {error}{SUBSTITUTE.get(column.dataset, '')}")
            return False
        return True

    def _cells(self, own: Experiment) -> Cells:
        return {
            (row, column): planned(row, column, self.graphs.of(column), self.amount)
            for column in own.columns
            for row in own.rows
        }

    def cells(self, name: str) -> Cells:
        """Of one experiment, with the records that were read."""
        return {place: self.shelf.fill(cell) for place, cell in self.planned[name].items()}

    def read_anew(self) -> None:
        """The records as they are now."""
        self.shelf = Shelf(self.book, self.say)

    # Runs

    def batches(self, *, together: bool, retry: bool) -> list[Batch]:
        """The runs that are missing, each once: one search or one method after another, or all at
        once; those with tuned settings apart from the others."""
        left: dict[bool, dict[str, Run]] = {True: {}, False: {}}
        for name in self.experiments:
            for cell in self.cells(name).values():
                left[cell.tuned] |= {run.key: run for run in cell.left(retry=retry)}
        out = []
        for tuned, by_key in left.items():
            runs = list(by_key.values())
            parts = [runs] if together and runs else [flat(alike) for alike in searches(runs)]
            out += [Batch(part, tuned) for part in parts]
        return out

    def overlaps(self, name: str) -> dict[Column, Seeds]:
        """What is measured of an experiment's graphs."""
        columns = self.experiments[name].columns
        return {column: self._kept(column.dataset).read() for column in columns}

    def _kept(self, dataset: str) -> Kept:
        return Kept.of(self.book.folder, dataset)

    def overlaps_left(self) -> list[tuple[str, int]]:
        """Graphs and seeds whose overlaps are missing."""
        return [
            (column.dataset, seed)
            for name, own in self.experiments.items()
            if own.show == "overlap"
            for column, known in self.overlaps(name).items()
            for seed in range(self.amount.trainings)
            if seed not in known
        ]

    def keep_overlap(self, dataset: str, seed: int, own: dict[str, Any]) -> None:
        kept = self._kept(dataset)
        kept.write(kept.read() | {seed: own})

    def counts(self, name: str) -> Count:
        """Runs there, runs missing, about how many seconds these take, and those not known."""
        if self.experiments[name].show == "overlap":
            return self._overlap_counts(name)
        there = missing = unknown = 0
        known = 0.0
        for cell in self.cells(name).values():
            left = cell.left()
            seconds = self.shelf.seconds(left)
            there, missing = there + len(cell.runs) - len(left), missing + len(left)
            known, unknown = known + (seconds or 0.0), unknown + len(left) * (seconds is None)
        return Count(there, missing, known, unknown)

    def _overlap_counts(self, name: str) -> Count:
        there = missing = unknown = 0
        seconds = 0.0
        for known in self.overlaps(name).values():
            left = sum(seed not in known for seed in range(self.amount.trainings))
            there, missing = there + self.amount.trainings - left, missing + left
            if known:
                seconds += left * sum(own["seconds"] for own in known.values()) / len(known)
            else:
                unknown += left
        return Count(there, missing, seconds, unknown)

    def total(self) -> tuple[int, int]:
        """Runs there and missing, each counted once."""
        cells = [cell for name in self.experiments for cell in self.cells(name).values()]
        asked = {run.key for cell in cells for run in cell.runs}
        left = {run.key for cell in cells for run in cell.left()}
        overlaps = [self.counts(n) for n, own in self.experiments.items() if own.show == "overlap"]
        there = len(asked) - len(left) + sum(own.there for own in overlaps)
        return there, len(left) + sum(own.missing for own in overlaps)

    # Report

    def parts(self) -> list[Part]:
        return [self.part(name, own) for name, own in self.experiments.items()]

    def part(self, name: str, own: Experiment) -> Part:
        """The tables and the drawing of one experiment."""
        cells, drawing = self.cells(name), None
        made: list[tables.Table]
        if own.show == "statistics":
            graphs = {column: self.graphs.of(column) for column in own.columns}
            made = [tables.statistics(name, own, graphs)]
        elif own.show == "overlap":
            known = self.overlaps(name)
            made, drawing = [tables.overlap_table(own, known)], overlap_drawing(own, known)
        elif own.show == "architectures":
            made = [tables.architectures(name, own, cells)]
        elif own.show == "sizes":
            made = tables.sizes(name, own, cells)
        else:
            made = [tables.grid(name, own, cells)]
        notes = (*own.notes, *tables.remarks(list(cells.values()), own.show))
        return Part(name, own.title, made, drawing or drawn(name, own, cells), notes)

    def made_by(self) -> list[str]:
        """Code, machines and libraries of the records that are shown."""
        cells = [cell for name in self.experiments for cell in self.cells(name).values()]
        shown = {record.run.key: record for cell in cells for record in cell.there}
        return origins(list(shown.values()))


def origins(records: Sequence[Record]) -> list[str]:
    """Each commit, machine and version with the number of its records."""
    if not records:
        return ["no records"]
    commits = Counter((own.commit or "no commit")[:12] for own in records)
    machines = Counter(str(own.machine.get("cpu", "unknown")) for own in records)
    torch = Counter(f"torch {own.versions.get('torch', 'unknown')}" for own in records)
    kinds = (("commits", commits), ("machines", machines), ("libraries", torch))
    lines = [f"{len(records):,} records"]
    for kind, found in kinds:
        names = ", ".join(f"{name} ({count:,})" for name, count in found.most_common(MOST))
        rest = f" and {len(found) - MOST} more" if len(found) > MOST else ""
        lines.append(f"{kind}: {names}{rest}")
    return lines
