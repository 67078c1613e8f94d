"""GASSIP as one method among the others: the search of Algorithm 2, then retraining of what it
found.

    (a*, M_W*, M_G*) = search(G),   W* = argmin L_train(A ⊙ M_G*, W ⊙ M_W*, a*)

Xie et al., Towards Lightweight Graph Neural Network Search with Curriculum Graph Sparsification,
KDD 2024. Its ablations are the same method with `prune`, `sparsify` or `curriculum` off;
`gassip-best` is the same with the settings of the preset `best` (METHOD.md).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gassip.baselines._shared.searched import Searched
from gassip.best.pipeline import search
from gassip.best.steps import num_rows
from gassip.graph.graph import Graph
from gassip.runs.checkpoint import FolderCheckpoint
from gassip.train.context import RunContext
from gassip.train.plan import Plan


@dataclass(frozen=True, kw_only=True)
class GassipMethod(Searched):
    """Algorithm 2 on these settings."""

    version: ClassVar[int] = 8

    def num_steps(self, graph: Graph) -> int:
        return num_rows(self.settings)

    def search(self, graph: Graph, run: RunContext) -> Plan:
        return search(graph, self.settings, seed=run.seed, metric=run.metric, on_epoch=run.on_event)

    def resume(self, folder: Path, graph: Graph, run: RunContext) -> Plan:
        """Like `search`, from where a killed one stopped; `folder` holds its state until then."""
        kept = FolderCheckpoint(
            folder, graph=graph, settings=self.settings, seed=run.seed, metric=run.metric
        )
        return search(
            graph,
            self.settings,
            seed=run.seed,
            metric=run.metric,
            on_epoch=run.on_event,
            checkpoint=kept,
        )


@dataclass(frozen=True, kw_only=True)
class GassipBest(GassipMethod):
    """The same on the settings of `best`, whose stages past the paper have a version of their
    own."""

    version: ClassVar[int] = 13
