"""Undirected edges as units: what a cut that keeps a graph symmetric chooses among.

Shapes: E directed edges, P undirected ones.
"""

import torch
from torch import Tensor

from gassip.errors import GassipError
from gassip.graph import Graph


def ends(graph: Graph) -> Tensor:
    """The two nodes of each undirected edge, [2, P]."""
    count = int(graph.pair.max()) + 1 if graph.num_edges else 0
    both = graph.edge_index.new_zeros((2, count))
    return both.index_copy(1, graph.pair, torch.stack([graph.edge_index.amin(0), graph.edge_index.amax(0)]))


def draw(score: Tensor, count: int, seed: int) -> Tensor:
    """`count` of P without repetition, the next always with probability ∝ `score`; bool [P].

    The largest of log score + Gumbel noise are such a draw.
    """
    generator = torch.Generator(device=score.device).manual_seed(seed)
    noise = torch.rand(score.shape, generator=generator, dtype=torch.float64, device=score.device)
    key = score.double().log() - torch.log(-torch.log(noise.clamp_min(1e-300)))
    keep = torch.zeros(score.numel(), dtype=torch.bool, device=score.device)
    keep[key.topk(count).indices] = True
    return keep


def check_share(name: str, value: float) -> None:
    """A share in 0..1, or one line."""
    if not 0 <= value <= 1:
        raise GassipError(f"{name} is {value}; a share lies between 0 and 1")
