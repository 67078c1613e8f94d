"""gassip run: one method on one graph, with one seed or many, and its records."""

import argparse
import multiprocessing
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from gassip.commands.common import (
    EMBEDDED,
    METRICS,
    Parser,
    command,
    fail,
    filled,
    machine_flags,
    print_summary,
    progress,
    say_which_graph,
    score_rows,
    seconds_row,
    set_threads,
    share,
    whole,
)
from gassip.errors import GassipError

if TYPE_CHECKING:
    from gassip.bench.records import Book, Record, Run
    from gassip.graph.graph import Graph
    from gassip.train.context import Event, Listener
    from gassip.train.plan import Solution

DIRECTIONS = ("auto", "given", "both")


def add(commands: Any) -> None:
    example = "gassip run gcn --dataset cora --seeds 10 --record"
    parser = command(
        commands, run, "run", "train one method on a graph, with one seed or many", example
    )
    what_flags(parser)
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
        type=filled,
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
    parser.add_argument(
        "--record", action="store_true", help="append to the record book; skip what is there"
    )
    parser.add_argument(
        "--retry", action="store_true", help="with --record: try again what failed before"
    )
    parser.add_argument(
        "--results",
        metavar="DIR",
        type=filled,
        default="results",
        help="the record book (default %(default)s)",
    )
    parser.add_argument(
        "--jobs", type=whole(1), default=1, metavar="N", help="processes, of one thread each"
    )
    parser.add_argument(
        "--out", metavar="DIR", type=filled, help="write a run's folder; for one seed"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the run in DIR")
    machine_flags(parser)


def what_flags(parser: Parser) -> None:
    """The method, the graph, and what validation judges by."""
    parser.add_argument("method", metavar="METHOD", help="one of `gassip methods`")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--dataset",
        metavar="NAME",
        type=filled,
        help=f"one of `gassip datasets` (default: the embedded graph {EMBEDDED})",
    )
    which.add_argument(
        "--data",
        metavar="PATH",
        type=filled,
        help="own graph: .npz, PyG's .pt, folder with nodes.csv, edges.csv",
    )
    parser.add_argument(
        "--split-seed",
        type=whole(0),
        default=0,
        metavar="N",
        help="of the split where one is drawn",
    )
    parser.add_argument("--undirected", action="store_true", help="add the reverse of every edge")
    parser.add_argument(
        "--direction",
        choices=DIRECTIONS,
        help="of edges: given, both, auto: by validation, as a search does (default: auto for "
        "--data, given for --dataset)",
    )
    parser.add_argument(
        "--normalize", action=argparse.BooleanOptionalAction, help="divide rows of x by their sum"
    )
    parser.add_argument(
        "--metric", choices=METRICS, default="accuracy", help="what validation judges by"
    )


def run(args: argparse.Namespace) -> int:
    from gassip.bench.records import Book, of_version, to_do
    from gassip.methods import entry
    from gassip.runs import write as artefact

    _check(args)
    if args.out:
        artefact.check_target(Path(args.out), args.overwrite)
    pin_threads(args)
    runs, graph, tuned = plan(args)
    book = Book(args.results) if args.record else None
    there: list[Record] = []
    if book is not None:
        there, said = book.read(runs[0].dataset)
        for line in said:
            print(f"gassip: {line}", file=sys.stderr)
        there = of_version(there, args.method, entry(args.method).load().version)
    left = to_do(runs, there, retry=args.retry)
    keys = {asked.key for asked in runs}
    done = {record.run.key: record for record in there if record.run.key in keys}
    if len(left) < len(runs) and not args.quiet:
        print(
            f"{len(runs) - len(left)} of {len(runs)} runs are in {args.results}; skipped",
            file=sys.stderr,
        )
    if args.jobs > 1 and len(left) > 1:
        done |= _in_processes(args, left, book, tuned)
    else:
        done |= _here(args, left, graph, book, tuned)
    records = [done[asked.key] for asked in runs if asked.key in done]
    _print(args, records)
    for reason in dict.fromkeys(record.reason for record in records if record.status != "ok"):
        fail(f"{args.method} failed: {reason}")
    return 0 if all(record.status == "ok" for record in records) else 1


def _check(args: argparse.Namespace) -> None:
    if args.out and (args.seeds > 1 or args.searches > 1):
        raise GassipError(
            "--out writes one run's folder; it cannot go with --seeds or --searches above 1"
        )
    if args.out and args.record:
        raise GassipError(
            "--out and --record exclude each other: a recorded run may be skipped and leave no "
            "folder"
        )
    if args.device != "cpu":
        raise GassipError(f"--device is {args.device!r}; `gassip run` works on the cpu")


def pin_threads(args: argparse.Namespace) -> None:
    """--threads; the processes of --jobs have one each."""
    set_threads(args.threads)


def plan(args: argparse.Namespace) -> "tuple[list[Run], Graph, bool]":
    """The runs that are asked for, their graph, and whether their settings are the tuned ones."""
    from gassip.bench import tuned
    from gassip.bench.execute import graph_of
    from gassip.bench.records import Run
    from gassip.methods import Searcher, changed, entry, parsed, plain_settings
    from gassip.runs.write import inputs_fingerprint

    named = entry(args.method)
    dataset = Path(args.data).resolve().stem if args.data else args.dataset or EMBEDDED
    first = Run(
        method=args.method,
        settings={},
        dataset=dataset,
        split_seed=args.split_seed,
        undirected=args.undirected,
        normalize=args.normalize,
        noise=args.noise,
        noise_seed=args.noise_seed if args.noise or (args.attack or "").startswith("prbcd") else 0,
        attack=args.attack,
        metric=args.metric,
    )
    first, graph = directed(first, graph_of(first, args.data), args)
    method = named.make(graph)
    inputs = inputs_fingerprint(graph) if args.data else None
    chosen = {} if args.untuned else tuned.chosen_for(dataset, args.method, inputs)
    method = changed(method, chosen)
    method = changed(method, parsed(method, _given(args.set)))
    first = replace(
        first, settings=plain_settings(method), fingerprint=graph.fingerprint if args.data else None
    )
    searches: list[int | None] = [None]
    if isinstance(method, Searcher):
        searches = [args.seed + s for s in range(args.searches)]
    elif args.searches > 1:
        raise GassipError(f"{args.method} has no search apart from its training; use --seeds alone")
    trainings = [args.seed + r for r in range(args.seeds)]
    runs = [replace(first, search_seed=s, retrain_seed=r) for s in searches for r in trainings]
    say_which_graph(args)
    return runs, graph, bool(chosen) and not args.set


def directed(run: "Run", graph: "Graph", args: argparse.Namespace) -> "tuple[Run, Graph]":
    """The run with its edges read as a search would read them: both ways if that raises the
    validation log-likelihood."""
    from gassip.bench.execute import graph_of
    from gassip.best.direction import choose_direction

    direction = args.direction or ("auto" if args.data else "given")
    both = not run.undirected and choose_direction(graph, direction, run.metric).value
    if not both:
        return run, graph
    if direction == "auto" and not args.quiet:
        what = "edges are read both ways, which validation prefers"
        print(f"gassip: {what} (--direction given leaves them)", file=sys.stderr)
    run = replace(run, undirected=True)
    return run, graph_of(run, args.data)


def _given(words: Sequence[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    for name, sign, _ in pairs:
        if not name or not sign:
            raise GassipError(
                f"--set {name!r} is not of the form NAME=VALUE, such as --set hidden=64"
            )
    return {name.replace("-", "_"): text for name, _, text in pairs}


def _here(
    args: argparse.Namespace, runs: "list[Run]", graph: "Graph", book: "Book | None", tuned: bool
) -> "dict[str, Record]":
    """One after the other in this process."""
    from gassip.bench.execute import carry_out

    done: dict[str, Record] = {}
    rows: list[Event] = []

    def tell(record: "Record", solution: "Solution | None") -> None:
        done[record.run.key] = record
        if book is not None:
            book.append(record)
        if args.out and solution is not None:
            _save(args, graph, record, solution, rows)

    @contextmanager
    def watch(stage: str, total: int) -> "Iterator[Listener]":
        with progress(f"{args.method}, {stage}", total, args.quiet) as show:

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
        method=args.method,
        settings=record.run.settings,
        seconds=record.seconds,
        seed=args.seed,
        metric=args.metric,
        source=kind | {"name": record.run.dataset} | options | perturbed,
        history=rows,
        overwrite=args.overwrite,
    )


# Processes


def _in_processes(
    args: argparse.Namespace, runs: "list[Run]", book: "Book | None", tuned: bool
) -> "dict[str, Record]":
    """The runs dealt out to `--jobs` processes; each records its own. Ctrl-C ends them; what is
    recorded stays."""
    context = multiprocessing.get_context("spawn")
    shares = [part for part in deal(runs, args.jobs) if part]
    results = None if book is None else str(book.folder)
    done: dict[str, Record] = {}
    alone = len({asked.search_seed for asked in runs}) > 1
    workers: dict[Connection, Any] = {}
    usual = signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # which a process inherits, so that Ctrl-C is ours alone
    try:
        for part in shares:
            ours, theirs = context.Pipe(duplex=False)
            worker = context.Process(
                target=work, args=(theirs, part, args.data, tuned, results, alone), daemon=True
            )
            worker.start()
            theirs.close()
            workers[ours] = (worker, part)
        signal.signal(signal.SIGINT, usual)
        with progress(args.method, len(runs), args.quiet) as show:
            while workers:
                for ready in wait(list(workers)):
                    assert isinstance(ready, Connection)
                    _collect(ready, workers, done, book, tuned)
                    if done:
                        last = list(done.values())[-1]
                        value = last.scores.get(last.run.metric, {}).get("val", float("nan"))
                        show({"epoch": len(done), "val_score": value})
    finally:
        signal.signal(signal.SIGINT, usual)
        for worker, _ in workers.values():
            worker.terminate()
            worker.join()
    return done


def _collect(
    ready: Connection,
    workers: dict[Connection, Any],
    done: "dict[str, Record]",
    book: "Book | None",
    tuned: bool,
) -> None:
    """One record from a process, or its end; a process that was killed leaves a record of the run
    it died in."""
    from gassip.bench.execute import unfinished

    try:
        record = ready.recv()
        done[record.run.key] = record
        return
    except EOFError:
        worker, part = workers.pop(ready)
        worker.join()
    left = [asked for asked in part if asked.key not in done]
    if left:
        record = unfinished(left[0], worker.exitcode, tuned)
        done[record.run.key] = record
        if book is not None:
            book.append(record)
        print(
            f"gassip: a process ended early ({record.reason}); {len(left) - 1} runs not begun",
            file=sys.stderr,
        )


def deal(runs: "Sequence[Run]", jobs: int) -> "list[list[Run]]":
    """Even shares; runs of one search stay together where there are several searches."""
    searches = sorted({asked.search_seed for asked in runs if asked.search_seed is not None})
    if len(searches) > 1:
        return [
            [asked for asked in runs if searches.index(asked.search_seed) % jobs == at]  # type: ignore[arg-type]
            for at in range(jobs)
        ]
    return [list(runs[at::jobs]) for at in range(jobs)]


def work(
    pipe: Connection,
    runs: "list[Run]",
    path: str | None,
    tuned: bool,
    results: str | None,
    alone: bool,
) -> None:
    """A process's share of the runs; `alone`: no other has a part of its searches."""
    import torch

    from gassip.bench.execute import carry_out
    from gassip.bench.records import Book

    torch.set_num_threads(1)
    book = None if results is None else Book(results)

    def tell(record: "Record", solution: "Solution | None") -> None:
        if book is not None:
            book.append(record)
        pipe.send(record)

    carry_out(runs, tell, path=path, tuned=tuned, book=book if alone else None)
    pipe.close()


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
    if good:
        tuned = ", tuned settings" if good[0].tuned else ""
        print_summary(
            f"{args.method} on {good[0].run.dataset}{tuned}, {len(good)} run(s)", _rows(good)
        )
    if args.out and good:
        print(f"written to {args.out}")


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
