"""New nodes of a graph that is larger than memory, by the stored hops of their neighbours.

    (S^k h)_i = Σ_j m_ij (S^{k-1} h)_j / Σ_j m_ij,   j old (stored) or new

Old nodes keep their hops: an edge from a new node to an old one changes nothing there. Labels of
neighbours do not count beside the net.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gassip.deploy.row_runs import RowRun
from gassip.errors import GassipError
from gassip.graph.checks import clean_edges
from gassip.graph.columns import Table
from gassip.graph.preparation import Preparation
from gassip.graph.tables import parts_of

KEPT_HOPS = (
    "the run's graph is too large to be read as a whole: old nodes keep their hops, and edges from "
    "new nodes to old ones change nothing there"
)
NO_LABELS = (
    "the net was trained with label propagation, which new nodes of such a graph do not hear: "
    "their labels are worse; search with --for any"
)


@dataclass(frozen=True, eq=False, kw_only=True)
class RowLabeller:
    """Labels new nodes beside a graph that stays in its folder."""

    run: RowRun
    undirected: bool

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.run.class_names

    @property
    def preparation(self) -> Preparation | None:
        return self.run.graph.preparation

    @property
    def features(self) -> int:
        return self.run.model.hops.features

    @cached_property
    def _numbers(self) -> dict[str, int] | None:
        """Of the ids; None: they are the numbers themselves."""
        ids = self.run.graph.ids()
        return None if ids is None else {name: at for at, name in enumerate(ids)}

    def known(self, names: Iterable[str]) -> dict[str, int]:
        """The numbers of those names that are nodes of the graph."""
        numbers, nodes = self._numbers, self.run.graph.nodes
        if numbers is not None:
            return {name: numbers[name] for name in names if name in numbers}
        digits = (name for name in names if name.isdecimal() and len(name) < 12)
        return {name: int(name) for name in digits if int(name) < nodes and str(int(name)) == name}

    def scored(self, nodes: Table, edges: Table) -> tuple[list[str], np.ndarray, list[str]]:
        """Ids and class scores of the new nodes, and what there is to warn of."""
        tables = ((nodes, "id"), (edges, "source"), (edges, "target"))
        named = [text for table, column in tables for text in _texts(table, column)]
        old = self.known(dict.fromkeys(named))
        parts = parts_of(
            nodes,
            edges,
            labels=False,
            prepared=False,
            preparation=self.preparation,
            known=tuple(old),
        )
        x, total = np.asarray(parts.x, dtype=np.float32), len(old) + parts.x.shape[0]
        if x.shape[1] != self.features or not np.isfinite(x).all():
            raise GassipError(f"x must hold {self.features} finite numbers for each node")
        received = clean_edges(parts.edge_index, parts.edge_weight, total, self.undirected)
        numbers = np.array(list(old.values()), dtype=np.int64)
        scores = self.run.model.new_nodes(x, received[len(old) :], numbers)
        lines = [KEPT_HOPS, *([NO_LABELS] if self.run.labels_in_training else [])]
        return list(parts.node_ids()), scores, [*parts.notes, *lines]


def _texts(table: Table, column: str) -> list[str]:
    return table.texts(column) if column in table.columns else []
