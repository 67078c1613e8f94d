"""A table without edges as a graph: each row is joined to its nearest rows.

    training rows    x scaled to deviation 1; edges between i and its K nearest, both ways
    new rows         receive from their K nearest training rows and send to none

A new row therefore changes nothing for the others: its prediction is the same alone or among many.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor

from gassip.graph.csr import Csr
from gassip.graph.graph import Graph

NEAREST = 10  # rows that a row is joined to


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The training rows, scaled, and how their nearest are found."""

    scaler: Any
    finder: Any

    @staticmethod
    def of(table: "np.ndarray | sp.csr_array") -> "Neighbours":
        from sklearn.neighbors import NearestNeighbors
        from sklearn.preprocessing import StandardScaler

        scaler = StandardScaler(with_mean=not sp.issparse(table)).fit(table)
        nearest = min(NEAREST, table.shape[0] - 1)
        return Neighbours(
            scaler, NearestNeighbors(n_neighbors=nearest).fit(scaler.transform(table))
        )

    @property
    def count(self) -> int:
        """Rows that each row is joined to."""
        return int(self.finder.n_neighbors)

    def training_graph(self, table: "np.ndarray | sp.csr_array") -> Graph:
        """The training rows as a graph without labels."""
        nearest = self.finder.kneighbors(return_distance=False)
        edges = np.stack([nearest.ravel(), np.repeat(np.arange(len(nearest)), nearest.shape[1])])
        x = self.scaler.transform(table)
        return Graph.inputs(x, edges, class_names=(), name="table", undirected=True)

    def extended(self, graph: Graph, table: "np.ndarray | sp.csr_array") -> Graph:
        """The graph of the training rows with new rows after them."""
        x = self.scaler.transform(table)
        nearest = torch.from_numpy(self.finder.kneighbors(x, return_distance=False))
        first, count = graph.num_nodes, nearest.shape[0]
        receiver = (first + torch.arange(count)).repeat_interleave(nearest.shape[1])
        new = torch.stack([nearest.flatten(), receiver])
        order = torch.argsort(new[1] * (first + count) + new[0])
        more = graph.edge_weight
        weight = None if more is None else torch.cat([more, more.new_ones(order.numel())])
        nobody = torch.zeros(count, dtype=torch.bool, device=graph.device)
        return replace(
            graph,
            x=_stacked(graph.x, x),
            edge_index=torch.cat([graph.edge_index, new[:, order].to(graph.device)], 1),
            edge_weight=weight,
            y=torch.cat([graph.y, torch.full((count,), -1, device=graph.device)]),
            train_mask=torch.cat([graph.train_mask, nobody]),
            val_mask=torch.cat([graph.val_mask, nobody]),
            test_mask=torch.cat([graph.test_mask, nobody]),
        )


def _stacked(x: Tensor | Csr, more: Any) -> Tensor | Csr:
    """Rows below rows, kept as the first are."""
    if isinstance(x, Csr):
        rows = sp.vstack([x.to_scipy(), sp.csr_array(more)])
        return Csr.from_scipy(sp.csr_array(rows, dtype=np.float32)).to(x.rowptr.device)
    dense = more.toarray() if sp.issparse(more) else more
    return torch.cat([x, torch.from_numpy(np.asarray(dense, dtype=np.float32)).to(x.device)])
