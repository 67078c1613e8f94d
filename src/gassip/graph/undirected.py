"""Undirected edges as units: what a cut that keeps a graph symmetric chooses among.

Shapes: E directed edges, P undirected ones.
"""

import torch
from torch import Tensor

from gassip.errors import GassipError
from gassip.graph.graph import Graph


def ends(graph: Graph) -> Tensor:
    """The two nodes of each undirected edge, [2, P]."""
    count = int(graph.pair.max()) + 1 if graph.num_edges else 0
    both = graph.edge_index.new_zeros((2, count))
    return both.index_copy(
        1, graph.pair, torch.stack([graph.edge_index.amin(0), graph.edge_index.amax(0)])
    )


def num_neighbours(graph: Graph) -> Tensor:
    """Undirected edges at each node, [N]."""
    return torch.bincount(ends(graph).flatten(), minlength=graph.num_nodes)


def keep_highest(graph: Graph, value: Tensor, share: float) -> Tensor:
    """Without the lowest of the undirected edges, so that `share` of them stay, but with every
    node's last one, [E].

    An undirected edge has the mean value of its directions.
    """
    both = ends(graph)
    count = both.shape[1]
    total, weight = (torch.zeros(count, device=value.device).index_add_(0, graph.pair, values)
                     for values in (value, torch.ones_like(value)))  # fmt: skip
    left = num_neighbours(graph).tolist()
    keep, remaining = [True] * count, count - round(share * count)
    pairs = both.t().tolist()
    for p in torch.sort(total / weight, stable=True).indices.tolist():
        if remaining == 0:
            break
        i, j = pairs[p]
        if left[i] > 1 and left[j] > 1:
            keep[p], left[i], left[j], remaining = False, left[i] - 1, left[j] - 1, remaining - 1
    return torch.tensor(keep, dtype=torch.bool, device=value.device)[graph.pair]


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
