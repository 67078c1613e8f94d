"""The cells of an experiment: which runs each needs, and which records it has.

A cell is filled by every record of its method on its graph with its settings, whatever the seeds,
that the present version of the method has made. Other versions and settings are never mixed in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from gassip.bench.asked import method_for, seeded
from gassip.bench.execute import graph_of
from gassip.bench.records import Book, Record, Run, latest, to_do
from gassip.graph.graph import Graph
from gassip.methods import METHODS, Searcher
from gassip.reproduce.experiments import Column, Row

Say = Callable[[str], None]


@dataclass(frozen=True)
class Amount:
    """How many runs a cell is to have: searches × trainings, and as many of a method without a
    search."""

    searches: int
    trainings: int


@dataclass(frozen=True, eq=False)
class Cell:
    """The runs of one row on one column, and the records that there are."""

    row: Row
    column: Column
    runs: Sequence[Run]
    tuned: bool
    version: int
    there: Sequence[Record] = ()  # of this version, with these settings, of any seed
    stale: Sequence[int] = ()  # other versions of the method that have records of this graph

    @property
    def good(self) -> list[Record]:
        return [record for record in self.there if record.status == "ok"]

    def left(self, *, retry: bool = False) -> list[Run]:
        """The runs that are still to be done."""
        return to_do(self.runs, self.there, retry=retry)


@dataclass
class Graphs:
    """The graphs of columns, each read once."""

    read: dict[Column, Graph] = field(default_factory=dict)

    def of(self, column: Column) -> Graph:
        plain = replace(column, label="")
        if plain not in self.read:
            self.read[plain] = graph_of(asked(column))
        return self.read[plain]


def asked(column: Column, method: str = "") -> Run:
    """A run on the column's graph, without settings and seeds."""
    return Run(
        method=method,
        settings={},
        dataset=column.dataset,
        noise=column.noise,
        attack=column.attack,
    )


def planned(row: Row, column: Column, graph: Graph, amount: Amount) -> Cell:
    """The cell with the runs that it needs, still without records."""
    run = asked(column, row.method)
    method, tuned = method_for(run, graph, row.settings)
    searches, trainings = amount.searches, amount.trainings
    if not isinstance(method, Searcher):
        searches, trainings = 1, searches * trainings
    runs = seeded(run, method, seed=0, searches=searches, trainings=trainings)
    return Cell(row, column, runs, tuned, method.version)


@dataclass
class Shelf:
    """The records of a folder, each dataset read once."""

    book: Book
    say: Say = print
    read: dict[str, list[Record]] = field(default_factory=dict)

    def of(self, dataset: str) -> list[Record]:
        if dataset not in self.read:
            self.read[dataset], said = self.book.read(dataset)
            for line in said:
                self.say(line)
        return self.read[dataset]

    def fill(self, cell: Cell) -> Cell:
        """The cell with its records."""
        like = unseeded(cell.runs[0])
        column, all_of = cell.column, self.of(cell.column.dataset)
        mine = [record for record in all_of if record.run.method == cell.row.method]
        there = [record for record in mine if record.method_version == cell.version]
        there = [record for record in there if unseeded(record.run) == like]
        here = [record.method_version for record in mine if on(record.run, column)]
        kept = list(latest(there).values())
        return replace(cell, there=kept, stale=sorted({*here} - {cell.version}))

    def seconds(self, runs: Sequence[Run]) -> float | None:
        """About how long the runs take, by records of the method on the same dataset, else of one
        of the same class; None without any."""
        if not runs:
            return 0.0
        records = [record for record in self.of(runs[0].dataset) if record.status == "ok"]
        place = METHODS[runs[0].method].place
        alike = {name for name, method in METHODS.items() if method.place == place}
        for names in ({runs[0].method}, alike):
            mine = [record.seconds for record in records if record.run.method in names]
            if mine:
                search, train = (fmean(seconds[phase] for seconds in mine) for phase in PHASES)
                return search * len({run.search_seed for run in runs}) + train * len(runs)
        return None


PHASES = ("search", "retrain")


def on(run: Run, column: Column) -> bool:
    return (run.noise, run.attack) == (column.noise, column.attack)


def unseeded(run: Run) -> str:
    """Equal for runs that differ in their seeds alone."""
    return replace(run, search_seed=None, retrain_seed=0).key
