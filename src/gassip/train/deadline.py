"""A deadline: when a search has to hand over what it has.

    left = at − now            on the clock that all processes of a machine share
    10m = 600 s                durations as people write them

Needs no torch: the command line reads durations before anything heavy is imported.
"""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from gassip.errors import GassipError

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
LONGEST = 365 * 24 * 3600.0
TICK = 0.25  # seconds between two looks at the clock
AGAIN = 5.0  # seconds after which a TimeUp that something swallowed is raised again


class TimeUp(Exception):
    """The deadline passed before this step was done."""


@dataclass(frozen=True)
class Deadline:
    """A moment of `time.monotonic`, which counts alike in every process of the machine."""

    at: float

    @staticmethod
    def after(seconds: float, *, since: float | None = None) -> "Deadline":
        """`seconds` from now, or from a reading of `time.monotonic`."""
        return Deadline((time.monotonic() if since is None else since) + seconds)

    @property
    def left(self) -> float:
        return self.at - time.monotonic()

    @property
    def passed(self) -> bool:
        return self.left <= 0

    def earlier(self, seconds: float) -> "Deadline":
        """What leaves that many seconds for the steps after it."""
        return Deadline(self.at - seconds)

    def check(self) -> None:
        if self.passed:
            raise TimeUp


def seconds_of(given: str | float) -> float:
    """60, "60s", "10m" or "2h" in seconds."""
    text = f"{given}".strip().lower()
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([smh]?)", text)
    seconds = float(found[1]) * UNITS[found[2]] if found else 0.0
    if isinstance(given, bool) or not 0 < seconds <= LONGEST:
        raise GassipError(f"time limit is {given!r}; give a duration such as 60s, 10m or 2h")
    return seconds


def process_age() -> float:
    """Seconds since this process began; where the system does not tell, those it has computed."""
    try:
        with open("/proc/self/stat", "rb") as file:
            began = int(file.read().rpartition(b")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began)
    except (OSError, AttributeError, ValueError, IndexError):
        return time.process_time()


class Ticker:
    """The handler of SIGALRM: calls `tick`, after the ticker that was there before."""

    def __init__(self, tick: Callable[[], None], before: "Ticker | None") -> None:
        self.tick, self.before, self.armed = tick, before, True

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.before is not None:
            self.before(number, frame)
        if self.armed:
            self.tick()


@contextmanager
def ticking(tick: Callable[[], None]) -> Iterator[None]:
    """Call `tick` four times a second, in the midst of a long step too; what it raises ends the
    block. Outside of a main thread, and on Windows, it is never called."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.getsignal(signal.SIGALRM)
    ticker = Ticker(tick, before if isinstance(before, Ticker) else None)
    signal.signal(signal.SIGALRM, ticker)
    signal.siginterrupt(signal.SIGALRM, False)
    timer = signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
    try:
        yield
    finally:
        ticker.armed = False
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)


@contextmanager
def interrupted(deadline: Deadline, error: type[BaseException] = TimeUp) -> Iterator[None]:
    """The block ends with TimeUp, or another error, at the deadline."""
    moment = deadline.at

    def look() -> None:
        nonlocal moment
        if time.monotonic() >= moment:
            moment += AGAIN
            raise error

    with ticking(look):
        yield
