"""What a method is given besides the graph: a seed, the metric of validation, and a listener."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from gassip.train.events import Event as Event
from gassip.train.events import Listener as Listener

if TYPE_CHECKING:
    from gassip.metrics import Metric


@dataclass(frozen=True)
class RunContext:
    """All randomness of a run follows from `seed`, every choice from `metric` on validation nodes.

    `on_event` hears of each epoch of a training, or of each step of a search that stands apart.
    """

    seed: int
    metric: "Metric" = "accuracy"
    on_event: Listener | None = None

    def silent(self) -> Self:
        """The same run without a listener, for a search inside `solve`."""
        return replace(self, on_event=None)

    def counted(self) -> Self:
        """The same run with one running epoch number over several trainings."""
        if self.on_event is None:
            return self
        listener, done = self.on_event, 0

        def count(event: Event) -> None:
            nonlocal done
            done += 1
            listener({**event, "epoch": done})

        return replace(self, on_event=count)
