"""What is asked for as a whole: the cells of all experiments, the runs that are missing, and the
parts of the report.

A graph that cannot be had leaves its columns out, with one line; the rest goes on.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
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

MOST = 6  # methods, commits and machines that are named


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
    def named(self) -> str:
        """The methods, or how many they are."""
        few = len(self.methods) < MOST
        return ", ".join(self.methods) if few else f"{len(self.methods)} methods"

    @property
    def title(self) -> str:
        graphs = dict.fromkeys(run.dataset for run in self.runs)
        return f"{self.named} on {', '.join(graphs)}, {len(self.runs)} runs"


class OutOfTime(BaseException):
    """The time limit has passed; like Ctrl-C no failure of the run that it interrupts."""


def overlap_task(epochs: int | None, dataset: str, seed: int) -> dict[str, Any]:
    """The overlaps of one graph and seed, here or on a worker; by None those of UGS."""
    set_threads(1)
    return measured(load(dataset), seed, epochs)


SUBSTITUTE = {
    "ogbn-arxiv": "; arxiv-standin is no substitute: its features are made from the graph alone"
}


def shown(column: Column) -> list[str]:
    """The graph and what is done to it, in words."""
    noise = [f"+{column.noise}"] if column.noise else []
    return [column.dataset, *noise, *([column.attack] if column.attack else [])]


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
        self.absent: set[str] = set()  # graphs that have been told of
        there = {name: self._there(experiment) for name, experiment in experiments.items()}
        self.experiments = {name: there[name] for name in there if there[name].columns}
        if not self.experiments:
            raise GassipError("none of these graphs is to be had; see `gassip datasets`")
        self.planned = {name: self._cells(self.experiments[name]) for name in self.experiments}

    def _there(self, experiment: Experiment) -> Experiment:
        """The experiment without the columns whose graph cannot be had."""
        return replace(experiment, columns=tuple(filter(self._has, experiment.columns)))

    def _has(self, column: Column) -> bool:
        what = " ".join(shown(column))
        if what in self.absent:
            return False
        try:
            if not self.fetch and not available(column.dataset):
                raise GassipError("its files are not here")
            self.graphs.of(column)
        except GassipError as error:
            self.absent.add(what)
            self.say(f"{what} is left out: {error}{SUBSTITUTE.get(column.dataset, '')}")
            return False
        return True

    def _cells(self, experiment: Experiment) -> Cells:
        return {
            (row, column): planned(row, column, self.graphs.of(column), self.amount)
            for column in experiment.columns
            for row in experiment.rows
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
            for name in self._with_overlaps()
            for column, known in self.overlaps(name).items()
            for seed in range(self.amount.trainings)
            if seed not in known
        ]

    def keep_overlap(self, dataset: str, seed: int, entry: dict[str, Any]) -> None:
        kept = self._kept(dataset)
        kept.write(kept.read() | {seed: entry})

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
                seconds += left * sum(entry["seconds"] for entry in known.values()) / len(known)
            else:
                unknown += left
        return Count(there, missing, seconds, unknown)

    def total(self) -> tuple[int, int]:
        """Runs there and missing, each counted once."""
        cells = [cell for name in self.experiments for cell in self.cells(name).values()]
        asked = {run.key for cell in cells for run in cell.runs}
        left = {run.key for cell in cells for run in cell.left()}
        overlaps = [self.counts(name) for name in self._with_overlaps()]
        there = len(asked) - len(left) + sum(count.there for count in overlaps)
        return there, len(left) + sum(count.missing for count in overlaps)

    def _with_overlaps(self) -> list[str]:
        return [name for name in self.experiments if self.experiments[name].show == "overlap"]

    # Report

    def parts(self) -> list[Part]:
        return [self.part(name, experiment) for name, experiment in self.experiments.items()]

    def part(self, name: str, experiment: Experiment) -> Part:
        """The tables and the drawing of one experiment."""
        cells, drawing = self.cells(name), None
        made: list[tables.Table]
        if experiment.show == "statistics":
            graphs = {column: self.graphs.of(column) for column in experiment.columns}
            made = [tables.statistics(name, experiment, graphs)]
        elif experiment.show == "overlap":
            known = self.overlaps(name)
            made = [tables.overlap_table(experiment, known)]
            drawing = overlap_drawing(experiment, known)
        elif experiment.show == "architectures":
            made = [tables.architectures(name, experiment, cells)]
        elif experiment.show == "sizes":
            made = tables.sizes(name, experiment, cells)
        else:
            made = [tables.grid(name, experiment, cells)]
        notes = (*experiment.notes, *tables.remarks(list(cells.values()), experiment.show))
        return Part(name, experiment.title, made, drawing or drawn(name, experiment, cells), notes)

    def made_by(self) -> list[str]:
        """Code, machines and libraries of the records that are shown."""
        cells = [cell for name in self.experiments for cell in self.cells(name).values()]
        shown = {record.run.key: record for cell in cells for record in cell.there}
        return origins(list(shown.values()))


def origins(records: Sequence[Record]) -> list[str]:
    """Each commit, machine and version with the number of its records."""
    if not records:
        return ["no records"]
    commits = Counter((record.commit or "no commit")[:12] for record in records)
    machines = Counter(str(record.machine.get("cpu", "unknown")) for record in records)
    torch = Counter(f"torch {record.versions.get('torch', 'unknown')}" for record in records)
    kinds = (("commits", commits), ("machines", machines), ("libraries", torch))
    lines = [f"{len(records):,} records"]
    for kind, found in kinds:
        names = ", ".join(f"{name} ({count:,})" for name, count in found.most_common(MOST))
        rest = f" and {len(found) - MOST} more" if len(found) > MOST else ""
        lines.append(f"{kind}: {names}{rest}")
    return lines
