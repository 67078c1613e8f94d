"""GCN-Jaccard: cut edges between unlike nodes, then a GCN. Wu et al., Adversarial Examples for
Graph Data: Deep Insights into Attack and Defense, IJCAI 2019.

    keep (i, j)  iff  |S_i ∩ S_j| / |S_i ∪ S_j| ≥ t,   S_i = {d: x_id ≠ 0}

For features that are no bag of words, the cosine in its place.
"""

import time
from dataclasses import dataclass, replace
from typing import Literal

from gassip.baselines.gcn import Gcn
from gassip.graph.graph import Graph
from gassip.graph.similarity import cosine, is_bag, jaccard
from gassip.train.context import RunContext
from gassip.train.plan import Solution


@dataclass(frozen=True, kw_only=True)
class GcnJaccard(Gcn):
    """A GCN on the edges whose ends are alike."""

    threshold: float = 0.01
    similarity: Literal["auto", "jaccard", "cosine"] = "auto"  # auto: Jaccard for bags of words

    def sparser(self, graph: Graph) -> Graph:
        words = self.similarity == "jaccard" or (self.similarity == "auto" and is_bag(graph.x))
        alike = (jaccard if words else cosine)(graph.x, graph.adjacency)
        return graph.keep(alike >= self.threshold)

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        began = time.perf_counter()
        solution = super().solve(self.sparser(graph), run)
        return replace(solution, edges_total=graph.num_edges, seconds=time.perf_counter() - began)
