"""What a search shows while it runs: stage, best so far, time left (gassip.train.events).

    a terminal             one live line; colours unless NO_COLOR is set
    a pipe, a dumb one     lines, at least one every ten seconds
    --quiet                nothing

Between two events the time left is counted down.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gassip.train.deadline import ticking
from gassip.train.events import Event, Lines, Listener, Steps, clock, figures

WIDE_ONLY = ("alpha_entropy",)  # figures of a line in a pipe that 80 columns have no room for


@contextmanager
def watching(steps: Steps, quiet: bool) -> Iterator[Listener]:
    """A listener for a whole run."""
    if quiet:
        yield lambda event: None
    elif is_live():
        with live_line() as listener:
            yield listener
    else:
        with lines(steps) as listener:
            yield listener


def is_live() -> bool:
    """Whether stderr is a terminal that can rewrite a line."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")


@contextmanager
def lines(steps: Steps) -> Iterator[Listener]:
    """Some lines of each phase; a beat where a step is long."""
    told = Lines(steps)
    beats = Lines(steps, _descriptor())

    def beat() -> None:
        beats.said, beats.event = max(told.said, beats.said), told.event
        beats.beat()

    with ticking(beat):
        yield told


class Estimate:
    """The latest event, and the time left now: that of the event less the time since."""

    def __init__(self) -> None:
        self.heard = time.monotonic()
        self.count, self.event = 0, dict[str, float | str]()

    def hear(self, event: Event) -> None:
        self.heard, self.count, self.event = time.monotonic(), self.count + 1, dict(event)

    @property
    def text(self) -> str:
        if not self.count:
            return "first step"
        first = {name: self.event[name] for name in ("best",) if name in self.event}
        rest = {name: v for name, v in self.event.items() if name not in ("best", *WIDE_ONLY)}
        words = (self._left(), figures(first), figures(rest))
        return " ".join(word for word in words if word)

    def _left(self) -> str:
        """Nothing after one step: it waits for libraries to load and is no measure of others."""
        if self.count < 2:
            return ""
        left = float(self.event["left"]) - (time.monotonic() - self.heard)
        return f"left {clock(max(0.0, left))}"


@contextmanager
def live_line() -> Iterator[Listener]:
    """A bar of the time gone by, that time, the time left and the figures of the latest step."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.text import Text

    latest = Estimate()

    class Figures(ProgressColumn):
        """Drawn anew several times a second."""

        def render(self, task: Task) -> Text:
            return Text(latest.text, no_wrap=True, overflow="ellipsis")

    columns = (TextColumn("{task.description}"), BarColumn(10), Elapsed(), Figures())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("start", total=1.0)

        def show(event: Event) -> None:
            latest.hear(event)
            gone, left = float(event["elapsed"]), float(event["left"])
            share = gone / max(1e-9, gone + left)
            bar.update(task, completed=share, description=str(event["phase"]))

        yield show


def _descriptor() -> int | None:
    """Of stderr, where it has one."""
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return None
