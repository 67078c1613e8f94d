"""Independent pieces of work in several processes: w(0), w(1), ..., each in whichever is free.

    each(w, n, jobs)   yields (k, w(k)) for k < n, in the order in which they finish

A process has as many torch threads as the caller, so that w(k) has the same bits in any of them. It
is forked where that is safe (Linux, one thread, and w on the CPU): then w is not copied. Elsewhere
it is spawned, and w must be a function of a module, or a partial of one.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Literal, Protocol, TypeVar

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
    context = get_context("fork") if start_method() == "fork" else get_context("spawn")
    following: Counter = context.Value("q", 0)  # type: ignore[assignment]
    threads, parent = torch.get_num_threads(), os.getpid()
    workers: dict[Connection, BaseProcess] = {}
    try:
        for _ in range(min(jobs, count)):
            ours, theirs = context.Pipe(duplex=False)
            # not a daemon: these may not have children, and a caller may be such a child itself
            worker: BaseProcess = context.Process(
                target=_work, args=(theirs, work, count, following, threads, parent)
            )
            worker.start()
            theirs.close()
            workers[ours] = worker
        yield from _gather(workers, count)
    finally:
        for pipe, worker in workers.items():
            worker.terminate()
            worker.join()
            pipe.close()


def _gather(workers: dict[Connection, BaseProcess], count: int) -> Generator[tuple[int, T]]:
    """What the workers send, until all is there or one is gone."""
    open_pipes, left = list(workers), count
    while left > 0:
        for pipe in wait(open_pipes):
            assert isinstance(pipe, Connection)
            try:
                k, result, error = pipe.recv()
            except EOFError:
                open_pipes.remove(pipe)
                worker = workers[pipe]
                worker.join()
                if worker.exitcode:
                    raise GassipError(lost(worker.exitcode)) from None
                continue
            if error is not None:
                raise error
            left -= 1
            yield k, result


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
