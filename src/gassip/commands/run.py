"""gassip run: methods on one graph, with one seed or many, and their records."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from gassip.commands.clustered import cluster_flag, in_cluster
from gassip.commands.common import Parser, command, fail, machine_flags, whole
from gassip.commands.run_plan import named, pin_threads, plan, what_flags
from gassip.commands.run_processes import in_processes
from gassip.commands.summary import print_summary, progress, score_rows, seconds_row, share
from gassip.errors import GassipError

if TYPE_CHECKING:
    from gassip.bench.records import Book, Record, Run
    from gassip.graph.graph import Graph
    from gassip.train.context import Event, Listener
    from gassip.train.plan import Solution


def add(commands: Any) -> None:
    example = "gassip run gcn --dataset cora --seeds 10 --record"
    parser = command(
        commands, run, "run", "train methods on a graph, with one seed or many", example
    )
    text = "one of `gassip methods`; several share the search where they have the same"
    parser.add_argument("methods", nargs="+", metavar="METHOD", help=text)
    what_flags(parser)
    seed_flags(parser)
    record_flags(parser)
    machine_flags(parser)


def seed_flags(parser: Parser) -> None:
    """How often, on which perturbed graph, by which settings."""
    parser.add_argument(
        "--seed", type=whole(0), default=0, metavar="N", help="the first seed (default 0)"
    )
    parser.add_argument(
        "--seeds", type=whole(1), default=1, metavar="R", help="trainings, with seeds N, N + 1, ..."
    )
    parser.add_argument(
        "--searches", type=whole(1), default=1, metavar="S", help="of a method that searches"
    )
    parser.add_argument(
        "--noise", type=whole(0), default=0, metavar="K", help="random undirected edges to add"
    )
    parser.add_argument(
        "--noise-seed", type=whole(0), default=0, metavar="N", help="of --noise and of prbcd"
    )
    parser.add_argument(
        "--attack",
        metavar="KIND-RATE",
        help="mettack-0.05 (cora, citeseer), prbcd-0.05 (any graph)",
    )
    parser.add_argument(
        "--untuned", action="store_true", help="the method's own defaults, not those `tune` chose"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting; may be repeated",
    )


def record_flags(parser: Parser) -> None:
    """What is kept of the runs, and by how many processes they are done."""
    parser.add_argument(
        "--record", action="store_true", help="append to the record book; skip what is there"
    )
    parser.add_argument(
        "--retry", action="store_true", help="with --record: try again what failed before"
    )
    parser.add_argument(
        "--results",
        metavar="DIR",
        default="results",
        help="the record book (default %(default)s)",
    )
    parser.add_argument(
        "--jobs", type=whole(1), default=1, metavar="N", help="processes, of one thread each"
    )
    cluster_flag(parser)
    parser.add_argument("--out", metavar="DIR", help="write a run's folder; for one seed")
    parser.add_argument("--overwrite", action="store_true", help="replace the run in DIR")


def run(args: argparse.Namespace) -> int:
    from gassip.bench.records import Book, to_do
    from gassip.runs import write as artefact

    _check(args)
    if args.out:
        artefact.check_target(Path(args.out), args.overwrite)
    pin_threads(args)
    runs, graph, tuned = plan(args)
    book = Book(args.results) if args.record else None
    there = [] if book is None else recorded(book, runs[0].dataset, args.methods)
    left = to_do(runs, there, retry=args.retry)
    keys = {asked.key for asked in runs}
    done = {record.run.key: record for record in there if record.run.key in keys}
    if len(left) < len(runs) and not args.quiet:
        print(
            f"{len(runs) - len(left)} of {len(runs)} runs are in {args.results}; skipped",
            file=sys.stderr,
        )
    done |= carried_out(args, left, graph, book, tuned)
    records = [done[asked.key] for asked in runs if asked.key in done]
    _print(args, records)
    failed = ((r.run.method, r.reason) for r in records if r.status != "ok")
    for method, reason in dict.fromkeys(failed):
        fail(f"{method} failed: {reason}")
    return 0 if all(record.status == "ok" for record in records) else 1


def carried_out(
    args: argparse.Namespace,
    runs: "list[Run]",
    graph: "Graph | None",
    book: "Book | None",
    tuned: tuple[str, ...],
) -> "dict[str, Record]":
    """The runs in a cluster, in processes or here, and their records by key; `graph` for --out."""
    if args.cluster and runs:
        return in_cluster(args, runs, book, tuned)
    if args.jobs > 1 and len(runs) > 1:
        return in_processes(args, runs, book, tuned)
    return _here(args, runs, graph, book, tuned)


def recorded(book: "Book", dataset: str, methods: "Sequence[str]") -> "list[Record]":
    """The records of a dataset, of these methods in their present version; damaged lines are
    told."""
    from gassip.bench.records import of_version
    from gassip.methods import entry

    records, said = book.read(dataset)
    for line in said:
        print(f"gassip: {line}", file=sys.stderr)
    for method in methods:
        records = of_version(records, method, entry(method).load().version)
    return records


def _check(args: argparse.Namespace) -> None:
    if args.out and (args.seeds > 1 or args.searches > 1 or len(args.methods) > 1):
        raise GassipError(
            "--out writes one run's folder; it cannot go with several methods, or --seeds or "
            "--searches above 1"
        )
    if args.out and args.record:
        raise GassipError(
            "--out and --record exclude each other: a recorded run may be skipped and leave no "
            "folder"
        )
    if args.cluster and (args.out or args.jobs > 1):
        other = "--out" if args.out else "--jobs"
        raise GassipError(f"--cluster and {other} exclude each other; leave one out")
    if args.device != "cpu":
        raise GassipError(f"--device is {args.device!r}; `gassip run` works on the cpu")


def _here(
    args: argparse.Namespace,
    runs: "list[Run]",
    graph: "Graph | None",
    book: "Book | None",
    tuned: tuple[str, ...],
) -> "dict[str, Record]":
    """One after the other in this process."""
    from gassip.bench.execute import carry_out

    done: dict[str, Record] = {}
    rows: list[Event] = []

    def tell(record: "Record", solution: "Solution | None") -> None:
        done[record.run.key] = record
        if book is not None:
            book.append(record)
        if args.out and solution is not None and graph is not None:
            _save(args, graph, record, solution, rows)

    @contextmanager
    def watch(stage: str, total: int) -> "Iterator[Listener]":
        with progress(f"{named(args)}, {stage}", total, args.quiet) as show:

            def epoch(row: "Event") -> None:
                if stage == "train":
                    rows.append(row)
                show(row)

            yield epoch

    carry_out(runs, tell, path=args.data, tuned=tuned, watch=watch, book=book)
    return done


def _save(
    args: argparse.Namespace, graph: "Graph", record: "Record", solution: "Solution", rows: Any
) -> None:
    from gassip.runs import write as artefact

    kind = (
        {"kind": "file", "path": str(Path(args.data).resolve())}
        if args.data
        else {"kind": "dataset"}
    )
    options = {
        "seed": args.split_seed,
        "undirected": record.run.undirected,
        "normalize": args.normalize,
    }
    perturbed = {"noise": args.noise, "noise_seed": record.run.noise_seed, "attack": args.attack}
    artefact.save_method(
        args.out,
        graph,
        solution,
        method=record.run.method,
        settings=record.run.settings,
        seconds=record.seconds,
        seed=args.seed,
        metric=args.metric,
        source=kind | {"name": record.run.dataset} | options | perturbed,
        history=rows,
        overwrite=args.overwrite,
    )


# Summary


def _print(args: argparse.Namespace, records: "list[Record]") -> None:
    from gassip.runs.write import to_json

    if args.json:
        print(
            to_json({"records": [asdict(record) | {"key": record.run.key} for record in records]}),
            end="",
        )
        return
    for record in records:
        if record.status != "ok":
            print(f"seed {record.run.retrain_seed}: {record.status} ({record.reason})")
    good = [record for record in records if record.status == "ok"]
    for method in dict.fromkeys(args.methods):
        _print_method(method, [record for record in good if record.run.method == method])
    if args.out and good:
        print(f"written to {args.out}")


def _print_method(method: str, good: "list[Record]") -> None:
    if good:
        tuned = ", tuned settings" if good[0].tuned else ""
        title = f"{method} on {good[0].run.dataset}{tuned}, {len(good)} run(s)"
        print_summary(title, _rows(good))


def _rows(good: "list[Record]") -> list[tuple[str, str]]:
    first = good[0]
    if len(good) == 1:
        scores = score_rows(first.scores)
    else:
        values = {
            s: [record.accuracy[s] for record in good]
            for s in ("train", "val", "test")
            if s in first.accuracy
        }
        text = "   ".join(f"{s} {fmean(v):.4f} ± {stdev(v):.4f}" for s, v in values.items())
        scores = [("accuracy", text)]
    rows = [("architecture", " ‖ ".join(first.architecture))] if first.architecture else []
    rows += scores
    for what in ("weights", "edges"):
        kept, total = getattr(first, f"{what}_kept"), getattr(first, f"{what}_total")
        rows.append((f"{what} kept", share(kept, total) if total else str(kept)))
    seconds = {
        phase: fmean(record.seconds[phase] for record in good) for phase in ("search", "retrain")
    }
    return [*rows, seconds_row(seconds)]
