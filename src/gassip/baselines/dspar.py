"""DSpar: edges drawn by degree, without training. Liu et al., DSpar: An Embarrassingly Simple
Strategy for Efficient GNN Training and Inference via Degree-based Sparsification, TMLR 2023.

    p_ij ∝ 1/d_i + 1/d_j

Edges between nodes of low degree stay; then a GCN on what was drawn.
"""

import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gassip.baselines.gcn import Gcn
from gassip.graph.graph import Graph
from gassip.graph.undirected import check_share, draw, ends
from gassip.train.context import RunContext
from gassip.train.plan import Solution


def probability(graph: Graph) -> Tensor:
    """p of each undirected edge, [P]; they sum to 1."""
    both = ends(graph)
    degree = torch.bincount(both.reshape(-1), minlength=graph.num_nodes)
    score = (1 / degree[both]).sum(0)
    return score / score.sum()


@dataclass(frozen=True, kw_only=True)
class Dspar(Gcn):
    """A GCN on the share `keep` of the undirected edges."""

    keep: float = 0.9

    def __post_init__(self) -> None:
        check_share("keep", self.keep)

    def sparser(self, graph: Graph, seed: int) -> Graph:
        chance = probability(graph)
        return graph.keep(draw(chance, round(self.keep * chance.numel()), seed)[graph.pair])

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        began = time.perf_counter()
        solution = super().solve(self.sparser(graph, run.seed), run)
        return replace(solution, edges_total=graph.num_edges, seconds=time.perf_counter() - began)
