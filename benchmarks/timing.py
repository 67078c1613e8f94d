"""Medians of alternating runs, and bars: what disturbs the machine disturbs both sides.

With one thread the clock is the process's CPU time, so that other processes do not count; else it
is the wall's.
"""

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from gassip.graph.datasets import available

# The last line of a child's code: the peak of its resident memory. Not getrusage: its maximum
# outlives exec, so that a child starts with the peak of its parent.
PEAK_GIB = """
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(peak / 2**20)
"""


@dataclass(frozen=True)
class Bar:
    """A figure beside what it should reach."""

    title: str
    value: float
    bar: float
    at_least: bool
    detail: str = ""

    @property
    def met(self) -> bool:
        return self.value >= self.bar if self.at_least else self.value <= self.bar

    def __str__(self) -> str:
        word, sign = "ok  " if self.met else "MISS", "≥" if self.at_least else "≤"
        return f"{word}  {self.title}: {self.value:.3g} (bar {sign} {self.bar:g}){self.detail}"


def at_least(title: str, value: float, bar: float, detail: str = "") -> Bar:
    return told(Bar(title, value, bar, True, detail))


def at_most(title: str, value: float, bar: float, detail: str = "") -> Bar:
    return told(Bar(title, value, bar, False, detail))


def told(bar: Bar) -> Bar:
    print(bar, flush=True)
    return bar


def here(names: Iterable[str]) -> list[str]:
    """The datasets whose files are here; the others are named."""
    names = list(names)
    for name in names:
        if not available(name):
            print(f"left out: {name} is not under $GASSIP_DATA", flush=True)
    return [name for name in names if available(name)]


def alternate(
    sides: dict[str, Callable[[], object]], *, repeats: int, warmup: int = 3, again: bool = False
) -> dict[str, float]:
    """Median seconds of each side, one call of every side in turn, `repeats` times.

    With `again` a side is called twice and the second call is timed: it finds its own arrays in the
    cache, not those of the side before.
    """
    for _ in range(warmup):
        for run in sides.values():
            run()
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    spans: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, run in sides.items():
            if again:
                run()
            began = clock()
            run()
            spans[name].append(clock() - began)
    return {name: statistics.median(span) for name, span in spans.items()}
