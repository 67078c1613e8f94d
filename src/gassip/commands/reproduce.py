"""gassip reproduce: the paper's tables and figures, from records; runs that are missing are done
as `gassip run --record` does them."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gassip.commands.clustered import cluster_flag
from gassip.commands.common import command, set_threads, warn, whole
from gassip.errors import GassipError

if TYPE_CHECKING:
    from gassip.bench.records import Book
    from gassip.reproduce.work import Batch, Work
    from gassip.train.deadline import Deadline

FULL = 10  # searches, and trainings of each: the 100 runs of the paper


def add(commands: Any) -> None:
    example = "gassip reproduce main --datasets cora,citeseer"
    text = "the paper's tables and figures, with controls; runs that are missing are done"
    parser = command(commands, run, "reproduce", text, example)
    parser.add_argument(
        "names",
        metavar="EXPERIMENT",
        nargs="*",
        help="a table or figure of --list (default: all)",
    )
    parser.add_argument(
        "--list", action="store_true", help="list them, with the runs there, missing, and the time"
    )
    parser.add_argument("--datasets", metavar="A,B", help="graphs (default: those of the paper)")
    parser.add_argument(
        "--searches", type=whole(1), metavar="S", help="of a method that searches (default 1)"
    )
    parser.add_argument(
        "--seeds", type=whole(1), metavar="R", help="trainings of each search (default 3)"
    )
    parser.add_argument(
        "--full", action="store_true", help="the paper's 100 runs: --searches 10 --seeds 10"
    )
    parser.add_argument(
        "--render-only", action="store_true", help="do no runs; render what is recorded"
    )
    parser.add_argument("--retry", action="store_true", help="try again what failed before")
    parser.add_argument(
        "--time-limit",
        metavar="TIME",
        help="stop then, render what is there; the same command goes on later (90m, 8h)",
    )
    parser.add_argument(
        "--results",
        metavar="DIR",
        default="results",
        help="the record book (default %(default)s)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        default="reproduce",
        help="folder of the report: index.md, index.html, drawings (default %(default)s)",
    )
    parser.add_argument(
        "--jobs", type=whole(1), default=1, metavar="N", help="processes, of one thread each"
    )
    cluster_flag(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    from gassip.bench.records import Book
    from gassip.reproduce.cells import Amount
    from gassip.reproduce.work import Work

    _check(args)
    book = Book(args.results)
    work = Work(
        _experiments(args),
        book,
        Amount(*_amount(args)),
        say=warn,
        fetch=not (args.list or args.render_only),
    )
    if args.list:
        _list(work)
        return 0
    from gassip.reproduce.pages import check_folder

    check_folder(Path(args.out))
    set_threads(1)
    if not args.render_only:
        _carry_out(args, work, book)
    return _render(args, work)


def _check(args: argparse.Namespace) -> None:
    if args.full and (args.searches or args.seeds):
        raise GassipError("--full is --searches 10 --seeds 10; leave one of them out")
    if args.cluster and args.jobs > 1:
        raise GassipError("--cluster and --jobs exclude each other; leave one out")
    for flag in ("jobs", "cluster", "time_limit", "retry"):
        given = getattr(args, flag) not in (None, False, 1)
        if given and (args.list or args.render_only):
            other = "--list" if args.list else "--render-only"
            raise GassipError(f"{other} does no runs; leave --{flag.replace('_', '-')} out")


def _amount(args: argparse.Namespace) -> tuple[int, int]:
    return (FULL, FULL) if args.full else (args.searches or 1, args.seeds or 3)


def _experiments(args: argparse.Namespace) -> "dict[str, Any]":
    """Those asked for, on the graphs asked for."""
    from gassip.graph.known_datasets import DATASETS
    from gassip.reproduce.experiments import chosen, known

    datasets = None
    if args.datasets is not None:
        datasets = list(dict.fromkeys(name for name in args.datasets.split(",") if name))
        for name in datasets:
            known("dataset", name, DATASETS)
    made = {name: experiment.on(datasets) for name, experiment in chosen(args.names).items()}
    for name, experiment in made.items():
        if not experiment.columns and args.names:
            raise GassipError(f"{name} is not to be had on {args.datasets}; see --list")
    return {name: experiment for name, experiment in made.items() if experiment.columns}


# Runs


def _carry_out(args: argparse.Namespace, work: "Work", book: "Book") -> None:
    """What is missing, until all is there or --time-limit, counted from the start, is over."""
    from gassip.reproduce.work import OutOfTime
    from gassip.train.deadline import LONGEST, Deadline, interrupted, seconds_of

    seconds = LONGEST if args.time_limit is None else seconds_of(args.time_limit)
    deadline = Deadline.after(seconds, since=args.since)
    try:
        with interrupted(deadline, OutOfTime):
            _runs(args, work, book, deadline)
            _overlaps(args, work)
    except OutOfTime:
        warn(f"{args.time_limit} is over; the same command goes on where it stopped")
    work.read_anew()


def _runs(args: argparse.Namespace, work: "Work", book: "Book", deadline: "Deadline") -> None:
    """All in a cluster or in processes at once, else cell after cell; again as long as that helps:
    a process that is killed leaves the rest of its share."""
    from gassip.reproduce.work import OutOfTime

    together, before = bool(args.cluster) or args.jobs > 1, None
    retry = args.retry
    while batches := work.batches(together=together, retry=retry):
        left = sum(len(batch.runs) for batch in batches)
        if before is not None and left >= before:
            return
        for at, batch in enumerate(batches, 1):
            if deadline.passed:  # where nothing interrupts a run
                raise OutOfTime
            if not args.quiet:
                print(f"{at} of {len(batches)}: {batch.title}", file=sys.stderr)
            _batch(args, batch, book)
        work.read_anew()
        before, retry = left, False


def _batch(args: argparse.Namespace, batch: "Batch", book: "Book") -> None:
    """As `gassip run --record` does it."""
    from gassip.commands.run import carried_out

    how = {"quiet": args.quiet, "jobs": args.jobs, "cluster": args.cluster}
    asked = argparse.Namespace(methods=[batch.named], data=None, out=None, **how)
    carried_out(asked, batch.runs, None, book, batch.methods if batch.tuned else ())


def _overlaps(args: argparse.Namespace, work: "Work") -> None:
    from gassip.large.cluster import connected
    from gassip.reproduce.work import overlap_task

    asked = work.overlaps_left()
    if not asked:
        return
    if not args.quiet:
        print(f"overlaps of removed edges, {len(asked)} seeds", file=sys.stderr)
    with connected(args.cluster) as tasks:
        tasks.map(overlap_task, None, asked, lambda at, entry: work.keep_overlap(*asked[at], entry))


# What is said


def _list(work: "Work") -> None:
    from rich.table import Table

    from gassip.commands.summary import print_table

    table = Table("name", "what", "graphs", "there", "missing", "time", box=None)
    for name, experiment in work.experiments.items():
        there, missing, known, unknown = work.counts(name)
        time = duration(known) + (f" + {unknown} unknown" if unknown else "")
        names = ", ".join(dict.fromkeys(column.dataset for column in experiment.columns))
        table.add_row(name, experiment.title, names, f"{there:,}", f"{missing:,}", time)
    print_table(table)
    print(
        "time: of one process, by the seconds of records on the same graph; unknown: runs of "
        "methods without one"
    )


def duration(seconds: float) -> str:
    """90 as 2 min, 7,200 as 2.0 h."""
    if seconds < 3600:
        return f"{-(-seconds // 60):.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


def _render(args: argparse.Namespace, work: "Work") -> int:
    from gassip.reproduce.pages import write

    parts, made = work.parts(), work.made_by()
    files = write(Path(args.out), parts, made)
    there, missing = work.total()
    rest = f"; {missing:,} are missing" if missing else ""
    print(f"written to {args.out}: {', '.join(file.name for file in files)}; {there:,} runs{rest}")
    return 0
