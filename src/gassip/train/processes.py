"""Independent pieces of work in several processes: w(0), w(1), ..., each in whichever is free.

    each(w, n, jobs)   yields (k, w(k)) for k < n, in the order in which they finish
    Batch(w, n, jobs)  the same, while this process does something else

A process has as many torch threads as the caller, so that w(k) has the same bits in any of them. It
is forked where that is safe (Linux, one thread, and w on the CPU): then w is not copied. Elsewhere
it is spawned, and w must be a function of a module, or a partial of one.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Generic, Literal, Protocol, TypeVar

import torch

from gassip.errors import GassipError
from gassip.threads import set_threads

T = TypeVar("T")
WATCH = 1.0  # seconds between two looks at whether the caller still lives


class Counter(Protocol):
    """`multiprocessing.Value` of a whole number."""

    value: int

    def get_lock(self) -> threading.Lock: ...


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start_method() -> Literal["fork", "spawn"]:
    """fork only with one thread: the threads of OpenMP do not outlive a fork."""
    return "fork" if sys.platform == "linux" and torch.get_num_threads() == 1 else "spawn"


def each(work: Callable[[int], T], count: int, jobs: int) -> Generator[tuple[int, T]]:
    """(k, work(k)) for every k < count, as they finish, in at most `jobs` processes; with one job,
    or one piece, in this one."""
    if min(jobs, count) <= 1:
        yield from ((k, work(k)) for k in range(count))
        return
    batch, left = Batch(work, count, jobs), count
    try:
        while left > 0:
            for piece in batch.finished(wait([batch])):
                left -= 1
                yield piece.number, piece.value()
    finally:
        batch.close()


@dataclass(frozen=True)
class Piece(Generic[T]):
    """What a process made of w(number): a result, or an error that is raised when it is read."""

    number: int
    result: T | None
    error: Exception | None = None

    def value(self) -> T:
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]


class Batch(Generic[T]):
    """Pieces of work that processes do in turn, beside this one."""

    def __init__(self, work: Callable[[int], T], count: int, jobs: int) -> None:
        self.count, self.left = count, set(range(count))
        context = get_context("fork") if start_method() == "fork" else get_context("spawn")
        self.following: Counter = context.Value("q", 0)  # type: ignore[assignment]
        threads, parent = torch.get_num_threads(), os.getpid()
        self.workers: dict[Connection, BaseProcess] = {}
        for _ in range(min(jobs, count)):
            ours, theirs = context.Pipe(duplex=False)
            # not a daemon: these may not have children, and a caller may be such a child itself
            worker: BaseProcess = context.Process(
                target=_work, args=(theirs, work, count, self.following, threads, parent)
            )
            worker.start()
            theirs.close()
            self.workers[ours] = worker

    def retire(self) -> tuple[list[int], list[int]]:
        """No further piece is begun. Those that were and are not finished, and those that were
        not."""
        with self.following.get_lock():
            begun = self.following.value
            self.following.value = max(begun, self.count)
        waiting = [k for k in range(begun, self.count) if k in self.left]
        self.left.difference_update(waiting)
        return sorted(self.left), waiting

    def finished(self, ready: Iterable[Connection]) -> Generator[Piece[T]]:
        """What these of its processes have sent; of one that is gone, the pieces that are left have
        its error."""
        for pipe in [own for own in ready if own in self.workers]:
            try:
                piece = Piece(*pipe.recv())
            except EOFError:
                worker = self.workers.pop(pipe)
                worker.join()
                pipe.close()
                if worker.exitcode:
                    error = GassipError(lost(worker.exitcode))
                    yield from [Piece(k, None, error) for k in sorted(self.left)]
                    self.left.clear()
                continue
            self.left.discard(piece.number)
            yield piece

    def close(self) -> None:
        for pipe, worker in self.workers.items():
            worker.terminate()
            worker.join()
            pipe.close()
        self.workers.clear()


def wait(batches: Iterable[Batch[T]], timeout: float | None = None) -> list[Connection]:
    """The pipes of batches on which something has come, at the latest after `timeout` seconds."""
    pipes = [pipe for batch in batches for pipe in batch.workers]
    return [pipe for pipe in connection.wait(pipes, timeout) if isinstance(pipe, Connection)]


def lost(status: int) -> str:
    """The line for a process that ended early."""
    cause = f"signal {-status}" if status < 0 else f"status {status}"
    return (
        f"a training process ended early ({cause}), perhaps for want of memory; "
        f"use --jobs 1, or --resume to go on"
    )


def _work(
    pipe: Connection,
    work: Callable[[int], object],
    count: int,
    following: Counter,
    threads: int,
    parent: int,
) -> None:
    """One process: the next piece, again and again."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller ends its workers
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    set_threads(threads)
    while (k := _take(following)) < count:
        try:
            pipe.send((k, work(k), None))
        except BrokenPipeError:
            return
        except Exception as error:
            pipe.send((k, None, error))
    pipe.close()


def _take(following: Counter) -> int:
    with following.get_lock():
        following.value += 1
        return following.value - 1


def _end_with(parent: int) -> None:
    """A killed caller leaves no process behind."""
    while os.getppid() == parent:
        time.sleep(WATCH)
    os._exit(1)
