"""Pieces of work that are done before they are asked for, in processes that would have to wait.

What is asked for comes first; what is only expected follows in the processes that are free. A piece
that was expected and is never asked for is not heard of: neither its result nor its error.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Generic, TypeVar

from gassip.train.processes import Batch, Piece, wait

W = TypeVar("W")
T = TypeVar("T")


class Ahead(Generic[W, T]):
    """Work in at most `jobs` processes; `same` tells whether two pieces are one."""

    def __init__(self, work: Callable[[W], T], same: Callable[[W, W], bool], jobs: int) -> None:
        self.work, self.same, self.jobs = work, same, jobs
        self.batches: list[tuple[Batch[T], list[W]]] = []
        self.done: list[tuple[W, Piece[T]]] = []

    def expect(self, likely: Sequence[W]) -> None:
        """Begin with these while this process is busy itself: one process is left to it."""
        self._start(likely, self.jobs - 1)

    def look(self) -> None:
        """Take what has come, so that no process waits with it."""
        self._gather(0.0)

    def results(self, asked: Sequence[W], likely: Sequence[W] = ()) -> Generator[tuple[int, T]]:
        """(k, result) of every piece that is asked for, as they finish."""
        self._gather(0.0)
        running, waiting = self._retired()
        begun = [*running, *(own for own, _ in self.done)]
        fresh = [own for own in asked if not self._among(own, begun)]
        more = self._apart([*likely, *waiting], [*begun, *asked]) if self.jobs > 1 else []
        if not running and len(fresh) == len(asked) and (self.jobs <= 1 or len(fresh + more) <= 1):
            yield from ((k, self.work(own)) for k, own in enumerate(fresh))
            return
        # what is asked for does not wait for what is not
        self._start([*fresh, *more], max(self.jobs - len(running), min(1, len(fresh))))
        left = dict(enumerate(asked))
        while left:
            for k, place in [(k, self._place(own)) for k, own in left.items()]:
                if place is not None:
                    del left[k]
                    yield k, self._value(place)
                    break
            else:
                self._gather(None)

    def close(self) -> None:
        """End what is still running."""
        for batch, _ in self.batches:
            batch.close()
        self.batches.clear()

    def _start(self, work: Sequence[W], jobs: int) -> None:
        if work and jobs > 0:
            numbered = partial(_numbered, self.work, list(work))
            self.batches.append((Batch(numbered, len(work), jobs), list(work)))

    def _gather(self, timeout: float | None) -> None:
        """What has come until now, or what comes next."""
        ready = wait((batch for batch, _ in self.batches), timeout)
        for batch, work in self.batches:
            self.done += [(work[piece.number], piece) for piece in batch.finished(ready)]
        self.batches = [own for own in self.batches if own[0].workers]

    def _retired(self) -> tuple[list[W], list[W]]:
        """What the batches are at, and what they would have begun with next; they do not now."""
        running: list[W] = []
        waiting: list[W] = []
        for batch, work in self.batches:
            at, after = batch.retire()
            running += [work[k] for k in at]
            waiting += [work[k] for k in after]
        return running, waiting

    def _among(self, work: W, others: Sequence[W]) -> bool:
        return any(self.same(work, own) for own in others)

    def _apart(self, likely: Sequence[W], others: Sequence[W]) -> list[W]:
        """Each once, and none of the others."""
        apart: list[W] = []
        for own in likely:
            if not self._among(own, [*others, *apart]):
                apart.append(own)
        return apart

    def _value(self, place: int) -> T:
        """A result; after an error nothing goes on."""
        try:
            return self.done.pop(place)[1].value()
        except Exception:
            self.close()
            raise

    def _place(self, work: W) -> int | None:
        """Where its result is, if it is there."""
        return next((k for k, (own, _) in enumerate(self.done) if self.same(work, own)), None)


def _numbered(work: Callable[[W], T], pieces: Sequence[W], k: int) -> T:
    return work(pieces[k])
