"""Rankings of edges for removal: the lowest go, but never a node's last edge.

    curriculum       M_G of the search
    agreement        Σ_c t_ic t_jc of the teacher
    inverse-degree   1/d_i + 1/d_j
    support          agreement · inverse-degree: what goes are edges across classes at hubs
    similarity       cos(x_i, x_j)
    random           the control

torch is imported by the functions: settings read the names of RANKINGS without it.
Shapes: N nodes, E directed edges, C classes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from gassip.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class Known:
    """What a ranking may read."""

    graph: "Graph"
    teacher: "Tensor"  # [N, C]
    edge_mask: "Tensor"  # [E] M_G
    seed: int


def curriculum(known: Known) -> "Tensor":
    return known.edge_mask


def agreement(known: Known) -> "Tensor":
    return known.graph.adjacency.sampled(known.teacher, known.teacher)


def inverse_degree(known: Known) -> "Tensor":
    from gassip.graph.undirected import num_neighbours

    inverse = 1 / num_neighbours(known.graph).clamp_min(1).float()
    adjacency = known.graph.adjacency
    return inverse[adjacency.row] + inverse[adjacency.col64]


def support(known: Known) -> "Tensor":
    return inverse_degree(known) * agreement(known)


def similarity(known: Known) -> "Tensor":
    from gassip.graph.similarity import cosine

    return cosine(known.graph.x, known.graph.adjacency)


def random(known: Known) -> "Tensor":
    import torch

    generator = torch.Generator().manual_seed(known.seed)
    return torch.rand(known.graph.num_edges, generator=generator).to(known.graph.device)


RANKINGS: dict[str, Callable[[Known], "Tensor"]] = {
    "support": support,
    "curriculum": curriculum,
    "agreement": agreement,
    "inverse-degree": inverse_degree,
    "similarity": similarity,
    "random": random,
}


def kept_edges(known: Known, ranking: str, share: float) -> "Tensor":
    """Which edges stay if the lowest of a ranking go, [E] bool."""
    import torch

    from gassip.graph.undirected import keep_highest

    if share >= 1:
        return torch.ones(known.graph.num_edges, dtype=torch.bool, device=known.graph.device)
    return keep_highest(known.graph, RANKINGS[ranking](known), share)
