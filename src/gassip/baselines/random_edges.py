"""Random edges: the control for every sparsifier.

A' = A without a share of its undirected edges, each as likely to go; then a GCN on A'
"""

import time
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from gassip.baselines.gcn import Gcn
from gassip.graph.graph import Graph
from gassip.graph.undirected import check_share, draw, ends
from gassip.train.context import RunContext
from gassip.train.plan import Solution


@dataclass(frozen=True, kw_only=True)
class RandomEdges(Gcn):
    """A GCN without the share `removed` of the undirected edges."""

    version: ClassVar[int] = 2

    dropout: float = 0.8  # as tuned for the GCN beside it
    removed: float = 0.1

    def __post_init__(self) -> None:
        check_share("removed", self.removed)

    def sparser(self, graph: Graph, seed: int) -> Graph:
        count = ends(graph).shape[1]
        kept = count - round(self.removed * count)
        return graph.keep(draw(torch.ones(count, device=graph.device), kept, seed)[graph.pair])

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        began = time.perf_counter()
        solution = super().solve(self.sparser(graph, run.seed), run)
        return replace(solution, edges_total=graph.num_edges, seconds=time.perf_counter() - began)
