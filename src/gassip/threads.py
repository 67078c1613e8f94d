"""How many threads torch, numpy and scipy have while nets are trained: one, unless chosen.

On busy cores two threads of torch take up to twelve times the time of one. So a search and a
training have one, and what the caller had is restored after them; `set_threads` chooses another
number for the whole process. Equal seeds give equal bits at equal numbers of threads.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
CHOSEN: ContextVar[bool] = ContextVar("CHOSEN", default=False)  # by set_threads, or further out


def set_threads(threads: int) -> None:
    """The threads of torch, numpy and scipy from here on, searches and trainings too."""
    import scipy.linalg  # noqa: F401 - has a BLAS of its own, which can be limited once it is there
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(threads)
    threadpool_limits(threads)
    CHOSEN.set(True)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread, and then as many as before; nothing where the number has been chosen."""
    import scipy.linalg  # noqa: F401 - as above
    import torch
    from threadpoolctl import threadpool_limits

    if CHOSEN.get():
        yield
        return
    before, mark = torch.get_num_threads(), CHOSEN.set(True)
    try:
        torch.set_num_threads(1)
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
        CHOSEN.reset(mark)


def on_one_thread(call: Callable[P, R]) -> Callable[P, R]:
    """The function, under `one_thread`."""

    @wraps(call)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with one_thread():
            return call(*args, **kwargs)

    return limited
