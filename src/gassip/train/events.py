"""What a search tells while it runs: one event for each step, to whoever listens.

    listener(event)     called in the process of the caller, between two steps; what it raises ends
                        the search

An event is a flat mapping of names to numbers and texts. Keys that were not measured are absent.

    phase               search   an epoch of Algorithm 2
                        stage    a net that a stage has trained
                        retrain  an epoch of the final training
                        done     the end; comes once
    epoch               the step's number within its phase, from 1
    stage, architecture of a net that a stage has trained; of an epoch, the architecture ahead
    train_loss, val_loss, val_score
    seconds             of this step
    elapsed             seconds since the start
    best                the highest validation score of a net so far
    left                seconds still to go, estimated from the steps so far; 0 in `done`

Needs no torch.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gassip.train.deadline import Deadline

Event = Mapping[str, float | str]
Listener = Callable[[Event], None]
PHASES = ("search", "stage", "retrain")
PASSES = 20  # a supernet's epoch takes about as long as so many epochs of a net, until one is seen


@dataclass(frozen=True, kw_only=True)
class Steps:
    """How many steps of each phase are likely."""

    search: int
    stage: int
    retrain: int


class Watch:
    """Tells a listener of rows, with the time that went by and the time left.

    left = Σ over phases of steps to go · seconds per step, at most the time to the deadline.
    """

    def __init__(
        self,
        listener: Listener,
        steps: Steps,
        *,
        since: float | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        self.listener, self.deadline = listener, deadline
        self.since = time.monotonic() if since is None else since
        self.steps = {phase: float(getattr(steps, phase)) for phase in PHASES}
        self.count = dict.fromkeys(PHASES, 0)
        self.seen = dict.fromkeys(PHASES, 0)  # steps of this process: a resumed search has had more
        self.spent = dict.fromkeys(PHASES, 0.0)
        self.first = dict.fromkeys(PHASES, 0.0)  # of a phase's first step, which waits for a start
        self.last, self.phase = time.monotonic(), PHASES[0]
        self.best: float | None = None

    def row(self, row: Event) -> None:
        """An epoch of the search, or a net of a stage."""
        self.tell("stage" if "stage" in row else "search", row)

    def retrained(self, row: Event) -> None:
        self.tell("retrain", row)

    def done(self) -> None:
        last: dict[str, float | str] = {"phase": "done", "elapsed": self.elapsed, "left": 0.0}
        self.listener(last | self._best())

    def tell(self, phase: str, row: Event) -> None:
        now, following = time.monotonic(), self.count[phase] + 1
        self.seen[phase] += 1
        self.count[phase] = following if phase == "stage" else int(row.get("epoch", following))
        self.spent[phase] += now - self.last
        if self.seen[phase] == 1:
            self.first[phase] = now - self.last
        self.last, self.phase = now, phase
        if phase != "search" and "val_score" in row:
            value = float(row["val_score"])
            self.best = value if self.best is None else max(self.best, value)
        times = {"elapsed": self.elapsed, "left": self.left}
        numbered = {**row, "phase": phase, "epoch": self.count[phase]}
        self.listener({**numbered, **times} | self._best())

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.since

    @property
    def left(self) -> float:
        """Seconds to go; of phases that are over none."""
        to_go = PHASES[PHASES.index(self.phase) :]
        left = sum(max(0.0, self.steps[p] - self.count[p]) * self._pace(p) for p in to_go)
        return left if self.deadline is None else max(0.0, min(left, self.deadline.left))

    def _pace(self, phase: str) -> float:
        """Seconds per step, measured, without the first if there are more; or else inferred from
        another phase."""
        if self.seen[phase] > 1:
            return (self.spent[phase] - self.first[phase]) / (self.seen[phase] - 1)
        if self.seen[phase]:
            return self.spent[phase]
        if phase == "retrain" and self.seen["stage"]:
            return self._pace("stage") / max(1.0, self.steps["retrain"])
        epoch = self._pace("search") / PASSES if self.seen["search"] else 0.0
        return epoch * self.steps["retrain"] if phase == "stage" else epoch

    def _best(self) -> dict[str, float | str]:
        return {} if self.best is None else {"best": self.best}


SHOWN = {
    "val_score": "val {:.3f}",
    "alpha_entropy": "entropy {:.2f}",
    "edges_kept": "edges {:.0%}",
    "weights_kept": "weights {:.0%}",
    "architecture": "{}",
    "stage": "{}",
    "best": "best {:.3f}",
}  # the figures of a line


def figures(event: Event) -> str:
    """The live figures of one step."""
    text = " ".join(form.format(event[name]) for name, form in SHOWN.items() if name in event)
    return text.replace("Conv", "").replace(" ‖ ", "‖")


def clock(seconds: float) -> str:
    """As people read it: 40 s, 3:05 min, 1:10 h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"


class Lines:
    """A listener that writes lines: some of each phase, at least one every ten seconds if `beat` is
    called in between, one at the end."""

    EVERY, BEAT = 5.0, 9.0  # seconds between two lines: where steps are many, where they are long

    def __init__(self, steps: Steps, descriptor: int | None = None) -> None:
        self.steps, self.descriptor = steps, descriptor
        self.said = time.monotonic()
        self.event: dict[str, float | str] = {}

    def __call__(self, event: Event) -> None:
        first = not self.event  # the first step waits for libraries to load: no measure of others
        self.event = dict(event)
        phase = str(event["phase"])
        if phase == "done":
            self.say(f"done after {clock(float(event['elapsed']))}  {figures(event)}, left 0 s")
            return
        total, number = getattr(self.steps, phase), int(event["epoch"])
        often = number % max(1, total // 5) == 0
        if often or time.monotonic() - self.said >= self.EVERY:
            left = "" if first else f", left about {clock(float(event['left']))}"
            self.say(f"{phase} {number}/{max(total, number)}  {figures(event)}{left}")

    def beat(self) -> None:
        """A line if there was none for long: a step may take minutes."""
        if time.monotonic() - self.said < self.BEAT:
            return
        event = self.event
        gone = time.monotonic() - self.said
        after = f"after {event['phase']} {event['epoch']}" if "epoch" in event else "at the start"
        self.say(f"working {after}, {clock(gone)} since  {figures(event)}")

    def say(self, line: str) -> None:
        """Past Python's buffer, which a signal may have interrupted."""
        self.said = time.monotonic()
        if self.descriptor is None:
            print(line, file=sys.stderr, flush=True)
        else:
            os.write(self.descriptor, f"{line}\n".encode(errors="replace"))
