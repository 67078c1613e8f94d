"""Medians of alternating runs: what disturbs the machine disturbs both sides.

With one thread the clock is the process's CPU time, so that other processes do not count; else it
is the wall's.
"""

import statistics
import time
from collections.abc import Callable

import torch


def alternate(
    sides: dict[str, Callable[[], object]], *, repeats: int, warmup: int = 3
) -> dict[str, float]:
    """Median seconds of each side, one call of every side in turn, `repeats` times."""
    for _ in range(warmup):
        for run in sides.values():
            run()
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    spans: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, run in sides.items():
            began = clock()
            run()
            spans[name].append(clock() - began)
    return {name: statistics.median(span) for name, span in spans.items()}


def report(
    title: str, ratio: float, bar: float, *, higher_is_better: bool, detail: str = ""
) -> bool:
    """Print one line and say whether the bar is met."""
    met = ratio >= bar if higher_is_better else ratio <= bar
    sign = "≥" if higher_is_better else "≤"
    threads = f"{torch.get_num_threads()} thread(s)"
    print(
        f"{'ok  ' if met else 'MISS'}  {title}: {ratio:.2f} (bar {sign} {bar:g}), "
        f"{threads}{detail}",
        flush=True,
    )
    return met
