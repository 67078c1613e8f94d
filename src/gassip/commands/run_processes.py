"""`gassip run --jobs`: the runs dealt out to processes, and their records collected."""

import argparse
import multiprocessing
import signal
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from gassip.commands.clustered import shares
from gassip.commands.run_plan import named
from gassip.commands.summary import progress

if TYPE_CHECKING:
    from gassip.bench.records import Book, Record, Run
    from gassip.train.plan import Solution


def in_processes(
    args: argparse.Namespace, runs: "list[Run]", book: "Book | None", tuned: tuple[str, ...]
) -> "dict[str, Record]":
    """The runs dealt out to `--jobs` processes; each records its own. Ctrl-C ends them; what is
    recorded stays."""
    context = multiprocessing.get_context("spawn")
    dealt = [part for part in deal(runs, args.jobs) if part]
    results = None if book is None else str(book.folder)
    done: dict[str, Record] = {}
    alone = len(shares(runs)) > 1
    workers: dict[Connection, Any] = {}
    usual = signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # which a process inherits, so that Ctrl-C is ours alone
    try:
        for part in dealt:
            ours, theirs = context.Pipe(duplex=False)
            worker = context.Process(
                target=work, args=(theirs, part, args.data, tuned, results, alone), daemon=True
            )
            worker.start()
            theirs.close()
            workers[ours] = (worker, part)
        signal.signal(signal.SIGINT, usual)
        with progress(named(args), len(runs), args.quiet) as show:
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
    tuned: tuple[str, ...],
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
    """Even shares; runs of one search stay together where there is more than that search."""
    parts = shares(runs)
    if len(parts) == 1:
        parts = [[asked] for asked in runs]
    return [[asked for part in parts[at::jobs] for asked in part] for at in range(jobs)]


def work(
    pipe: Connection,
    runs: "list[Run]",
    path: str | None,
    tuned: tuple[str, ...],
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
