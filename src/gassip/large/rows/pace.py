"""What the stages of a search on rows take, by rates measured while it runs.

    training     seconds per row and weight, of the last net, or of a short trial
    reading      seconds in which all hops were read once
    passing      seconds of a hidden layer of all nodes and its hops
    edges        edges a second at 64 columns

A stage may take a share of the time left, the student all that is left but for the scores of all
nodes. It is trained for as many epochs, or on as many rows, as fit: its schedule always ends.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gassip.train.deadline import Deadline

FEWEST_EPOCHS = 4  # of a student; with less time it has fewer rows
FEWEST_ROWS = 2_000
MARGIN = 1.3  # by which a training may take longer than the one that was measured


@dataclass(eq=False)
class Pace:
    """Rates, and the moment at which the stage under way has to end."""

    deadline: Deadline | None = None
    training: float = 0.0
    reading: float = 0.0
    passing: float = 0.0
    edges: float = 0.0
    shortened: bool = False  # whether some training had less than it would have without a limit

    @property
    def late(self) -> bool:
        return self.deadline is not None and self.deadline.passed

    @contextmanager
    def within(self, share: float) -> Iterator[None]:
        """What is done in the block may take a share of the time left."""
        end = self.deadline
        if end is not None:
            self.deadline = end.earlier((1 - share) * max(0.0, end.left))
        try:
            yield
        finally:
            self.shortened = self.shortened or self.late
            self.deadline = end

    def keep(self, seconds: float) -> None:
        """That much less is left."""
        self.deadline = None if self.deadline is None else self.deadline.earlier(seconds)

    def allows(self, seconds: float) -> bool:
        """Whether that many seconds are left."""
        return self.deadline is None or seconds < self.deadline.left

    def measured(self, seconds: float, rows: float, weights: int) -> None:
        """A training of so many rows, each as often as it was seen."""
        if rows and weights:
            self.training = seconds / (rows * weights)

    def of_training(self, rows: float, weights: int) -> float:
        """Seconds, by the last training."""
        return MARGIN * self.training * rows * weights

    def of_spreading(self, edges: int, columns: int, steps: int) -> float:
        """Seconds to pass so many columns on; 0 if nothing was measured."""
        return MARGIN * edges * columns * steps / 64 / self.edges if self.edges else 0.0

    def fitted(self, rows: int, epochs: int, weights: int) -> tuple[int, int]:
        """Rows and epochs that fit into the time left, at most those given."""
        if self.deadline is None or not self.training:
            return rows, epochs
        seen = max(0.0, self.deadline.left) / self.of_training(1, weights)
        if seen >= rows * epochs:
            return rows, epochs
        self.shortened = True
        fewer = min(epochs, int(seen / rows))
        if fewer >= FEWEST_EPOCHS:
            return rows, fewer
        least = min(epochs, FEWEST_EPOCHS)
        return min(rows, max(FEWEST_ROWS, int(seen / least))), least
