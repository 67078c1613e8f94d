"""Exhaustive search: every architecture of the paper's space trained once, the best on validation
taken.

    a* = argmax_{a ∈ O^L} val(train(a)),   5² = 25 architectures (4² on Physics, 4³ = 64 on arXiv)

The whole table goes with the result, so that any searcher's pick has a rank (`rank_of`). A control
of our own; the space is the appendix of Xie et al., KDD 2024.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gassip.baselines._shared.searched import Searched
from gassip.baselines._shared.trials import all_paths, found_from, try_all
from gassip.baselines.darts import UNMASKED
from gassip.graph.graph import Graph
from gassip.settings import Settings
from gassip.train.context import RunContext
from gassip.train.plan import Plan, Solution


@dataclass(frozen=True, kw_only=True)
class Exhaustive(Searched):
    """The space and the retraining are the search's; the search is not run."""

    settings: Settings = UNMASKED
    trial_epochs: int = field(
        default=300, metadata={"help": "epochs each architecture is trained for"}
    )

    def paths(self, seed: int) -> list[tuple[str, ...]]:
        """The architectures to try."""
        return all_paths(self.settings.search)

    def num_steps(self, graph: Graph) -> int:
        return len(self.paths(0))

    def search(self, graph: Graph, run: RunContext) -> Plan:
        trials = try_all(
            graph,
            self.settings,
            self.paths(run.seed),
            self.trial_epochs,
            seed=run.seed,
            metric=run.metric,
            on_epoch=run.on_event,
        )
        return found_from(graph, self.settings, trials)

    def solve_from(self, plan: Plan, graph: Graph, run: RunContext) -> Solution:
        """What a search found, retrained; the trials of the search go with it."""
        solution = super().solve_from(plan, graph, run)
        return replace(solution, details=solution.details | {"trials": plan.history})


def rank_of(architecture: str, trials: Sequence[dict[str, float | str]]) -> int:
    """The place of an architecture in a table of trials, 1 for the best validation score (ties: the
    lower loss)."""
    ordered = sorted(trials, key=lambda t: (-float(t["val_score"]), float(t["val_loss"])))
    return 1 + [t["architecture"] for t in ordered].index(architecture)
