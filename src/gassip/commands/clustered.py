"""--cluster of `run`, `evaluate` and `front`: runs as tasks of Ray, with the bits of one process.

A task returns what it found; this process alone writes records, each as it arrives. So a task that
dies with its worker and is started again doubles nothing, and what has arrived is not lost.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gassip.commands.common import set_threads
from gassip.commands.run_plan import named
from gassip.commands.summary import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gassip.bench.records import Book, Record, Run
    from gassip.large.cluster import Tasks

HELP = "tasks of Ray: auto (this machine, or the cluster that runs here), or HOST:PORT of a head"
Asked = tuple[str | None, tuple[str, ...]]  # path of the graph, methods with tuned settings


def cluster_flag(parser: Any, text: str = HELP) -> None:
    parser.add_argument("--cluster", metavar="ADDRESS", help=text)


def shares(runs: "Sequence[Run]") -> "list[list[Run]]":
    """Runs of one search together, each other run alone."""
    from gassip.bench.execute import flat, searches

    out: list[list[Run]] = []
    for alike in searches(runs):
        one = flat(alike)
        out += [one] if one[0].search_seed is not None else [[run] for run in one]
    return out


def record_task(shared: Asked, runs: "list[Run]") -> "list[Record]":
    """The records of some runs, here or on a worker. A graph that cannot be read is no result of
    the method: it ends the command."""
    from gassip.bench.execute import carry_out, graph_of

    path, tuned = shared
    set_threads(1)
    if path is not None:
        Path(path).stat()
    graph_of(runs[0], path)
    records: list[Record] = []
    carry_out(runs, lambda record, solution: records.append(record), path=path, tuned=tuned)
    return records


def collected(
    tasks: "Tasks",
    runs: "Sequence[Run]",
    asked: Asked,
    book: "Book | None",
    show: "Callable[[dict[str, float | str]], None]" = lambda row: None,
    task: "Callable[[Asked, list[Run]], list[Record]]" = record_task,
) -> "dict[str, Record]":
    """All records by key, written to the book as they come."""
    done: dict[str, Record] = {}

    def arrived(at: int, records: "list[Record]") -> None:
        for record in records:
            done[record.run.key] = record
            if book is not None:
                book.append(record)
            value = record.scores.get(record.run.metric, {}).get("val", float("nan"))
            show({"epoch": len(done), "val_score": value})

    tasks.map(task, asked, [(part,) for part in shares(runs)], arrived)
    return done


def in_cluster(
    args: argparse.Namespace, runs: "list[Run]", book: "Book | None", tuned: tuple[str, ...]
) -> "dict[str, Record]":
    from gassip.large.cluster import connected

    path = str(Path(args.data).resolve()) if args.data else None
    with (
        connected(args.cluster) as tasks,
        progress(named(args), len(runs), args.quiet) as show,
    ):
        return collected(tasks, runs, (path, tuned), book, show)
