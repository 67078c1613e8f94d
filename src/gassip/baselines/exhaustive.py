"""Exhaustive search: every architecture of the paper's space trained once, the best on validation
taken.

    a* = argmax_{a ∈ O^L} val(train(a)),   5² = 25 architectures (4² on Physics, 4³ = 64 on arXiv)

The whole table goes with the result, so that any searcher's pick has a rank (`rank_of`). A control
of our own; the space is the appendix of Xie et al., KDD 2024.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gassip.baselines._shared.trials import all_paths, found_from, try_all
from gassip.baselines.gassip import GassipMethod, trained
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.paper.loop import Row
from gassip.train.trainer import Found, Solution


@dataclass(frozen=True, kw_only=True)
class Exhaustive(GassipMethod):
    """The space and the retraining are the search's; the search is not run."""

    prune: bool = field(default=False, metadata={"help": "off: there is no weight mask"})
    sparsify: bool = field(default=False, metadata={"help": "off: there is no edge mask"})
    trial_epochs: int = field(
        default=300, metadata={"help": "epochs each architecture is trained for"}
    )

    def paths(self, seed: int) -> list[tuple[str, ...]]:
        """The architectures to try."""
        return all_paths(self)

    def num_steps(self, graph: Graph) -> int:
        return len(self.paths(0))

    def search(
        self,
        graph: Graph,
        *,
        seed: int,
        metric: Metric = "accuracy",
        on_epoch: Callable[[Row], None] | None = None,
        partial: Path | None = None,
    ) -> Found:
        """Begins anew where it was killed: nothing is kept in `partial`."""
        settings = self.plain()
        trials = try_all(
            graph,
            settings,
            self.paths(seed),
            self.trial_epochs,
            seed=seed,
            metric=metric,
            on_epoch=on_epoch,
        )
        return found_from(graph, settings, trials)

    def solve(
        self,
        graph: Graph,
        *,
        seed: int,
        metric: Metric = "accuracy",
        found: Found | None = None,
        on_epoch: Callable[[dict[str, float]], None] | None = None,
    ) -> Solution:
        searched = found or self.search(graph, seed=seed, metric=metric)
        solution = trained(
            graph, searched, found is None, seed=seed, metric=metric, on_epoch=on_epoch
        )
        return replace(solution, details=solution.details | {"trials": searched.history})


def rank_of(architecture: str, trials: Sequence[dict[str, float | str]]) -> int:
    """The place of an architecture in a table of trials, 1 for the best validation score (ties: the
    lower loss)."""
    ordered = sorted(trials, key=lambda t: (-float(t["val_score"]), float(t["val_loss"])))
    return 1 + [t["architecture"] for t in ordered].index(architecture)
