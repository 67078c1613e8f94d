"""DSpar: edges drawn by degree, without training. Liu et al., DSpar: An Embarrassingly Simple
Strategy for Efficient GNN Training and Inference via Degree-based Sparsification, TMLR 2023.

    p_ij ∝ 1/d_i + 1/d_j,   π_ij = min(1, c p_ij),   Σ π = n,   A'_ij = A_ij / π_ij where drawn

Edges between nodes of low degree stay; what is drawn weighs 1/π, so that E[A'] = A: the sum over
neighbours, and the degrees, stay unbiased. Then a GCN on A'. Published: n draws with repetition,
weighted 1/(n p); here without, so that n edges stay and the kept share is exact.
"""

import time
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from gassip.baselines.gcn import Gcn
from gassip.graph.graph import Graph
from gassip.graph.undirected import check_share, ends
from gassip.train.context import RunContext
from gassip.train.plan import Solution


def probability(graph: Graph) -> Tensor:
    """p of each undirected edge, [P]; they sum to 1."""
    both = ends(graph)
    degree = torch.bincount(both.reshape(-1), minlength=graph.num_nodes)
    score = (1 / degree[both]).sum(0)
    return score / score.sum()


def inclusion(share: Tensor, count: int) -> Tensor:
    """π = min(1, c · share) [P] in float64, with c such that they sum to `count`."""
    chance = count * share.double()
    sure = torch.zeros_like(chance, dtype=torch.bool)
    while bool(((chance > 1) & ~sure).any()):
        sure |= chance >= 1
        rest = torch.where(sure, 0.0, share.double())
        chance = torch.where(sure, 1.0, rest * (count - int(sure.sum())) / rest.sum())
    return chance


def systematic(chance: Tensor, seed: int) -> Tensor:
    """Σ chance entries of P, each with exactly its chance; bool [P].

    In random order, the entries over which the running sum passes u, u + 1, u + 2, ...
    """
    generator = torch.Generator(device=chance.device).manual_seed(seed)
    order = torch.randperm(chance.numel(), generator=generator, device=chance.device)
    start = torch.rand((), generator=generator, dtype=torch.float64, device=chance.device)
    total = torch.cumsum(chance[order], 0)
    total[-1:] = total[-1:].round()  # a whole number but for rounding
    passed = torch.floor(total - start)
    before = torch.cat([passed.new_full((1,), -1.0), passed[:-1]])
    keep = torch.zeros(chance.numel(), dtype=torch.bool, device=chance.device)
    keep[order[passed > before]] = True
    return keep


@dataclass(frozen=True, kw_only=True)
class Dspar(Gcn):
    """A GCN on the share `keep` of the undirected edges."""

    version: ClassVar[int] = 2

    keep: float = 0.9

    def __post_init__(self) -> None:
        check_share("keep", self.keep)

    def sparser(self, graph: Graph, seed: int) -> Graph:
        share = probability(graph)
        chance = inclusion(share, round(self.keep * share.numel()))
        weight = graph.weight / chance.to(graph.weight.dtype)[graph.pair]
        return graph.keep(systematic(chance, seed)[graph.pair], weight)

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        began = time.perf_counter()
        solution = super().solve(self.sparser(graph, run.seed), run)
        return replace(solution, edges_total=graph.num_edges, seconds=time.perf_counter() - began)
