"""Random mask: the control for every weight pruning.

W' = W ⊙ M,   M fixed before training, with a share of zeros drawn at random in each layer
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gassip.baselines.gcn import Gcn
from gassip.graph.graph import Graph
from gassip.graph.undirected import check_share
from gassip.nn.net import Net


def random_keep(like: Tensor, share: float) -> Tensor:
    """Bool of the shape of `like`, with round(share · size) entries False."""
    removed = torch.randperm(like.numel(), device=like.device)[: round(share * like.numel())]
    keep = torch.ones(like.numel(), dtype=torch.bool, device=like.device)
    keep[removed] = False
    return keep.view(like.shape)


@dataclass(frozen=True, kw_only=True)
class RandomMask(Gcn):
    """A GCN without the share `removed` of its weights from the start."""

    version: ClassVar[int] = 2

    dropout: float = 0.8  # as tuned for the GCN beside it
    removed: float = 0.5

    def __post_init__(self) -> None:
        check_share("removed", self.removed)

    def net(self, graph: Graph) -> Net:
        net = super().net(graph)
        net.prune([random_keep(layer.weight, self.removed) for layer in net.layers])
        return net
