"""DropEdge: another random part of the edges in each epoch. Rong et al., DropEdge: Towards Deep
Graph Convolutional Networks on Node Classification, ICLR 2020.

    A_t = A ⊙ M_t,   M_t keeps a share p of the entries,   h' = D_t^-1/2 (A_t + I) D_t^-1/2 h W

At evaluation the graph is whole.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from gassip.baselines._shared.trained import Trained
from gassip.graph.graph import Graph
from gassip.graph.undirected import check_share
from gassip.nn.net import Architecture, Model, net_for
from gassip.nn.propagate import MaskedGraph
from gassip.train.losses import supervised


def thinned(masked: MaskedGraph, share: float) -> MaskedGraph:
    """The graph with exactly round(share · E) of its directed edges, drawn anew; the others weigh
    0."""
    count = masked.edge_weight.numel()
    keep = torch.zeros_like(masked.edge_weight)
    keep[torch.randperm(count, device=keep.device)[: round(share * count)]] = 1.0
    return MaskedGraph(masked.adjacency, masked.edge_weight * keep)


@dataclass(frozen=True, kw_only=True)
class DropEdge(Trained):
    """A GCN; defaults as published for Cora."""

    layers: int = 2
    hidden: int = 128
    dropout: float = 0.8
    keep: float = 0.4
    epochs: int = 400
    lr: float = 0.007
    weight_decay: float = 1e-5

    def __post_init__(self) -> None:
        check_share("keep", self.keep)

    @classmethod
    def for_graph(cls, graph: Graph) -> Self:
        """The settings of the semi-supervised 2-layer GCN, where there are some for this graph."""
        return cls(**PUBLISHED.get(graph.name.split("-")[0], {}))  # type: ignore[arg-type]

    def model(self, graph: Graph) -> Model:
        shape = Architecture(
            ops=("GCNConv",) * self.layers, hidden=(self.hidden,) * (self.layers - 1)
        )
        return net_for(graph, shape, self.dropout)

    def loss(self, model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
        return supervised(model, graph, thinned(masked, self.keep), epoch)


PUBLISHED: dict[str, dict[str, float]] = {  # for Cora: the defaults
    "citeseer": {"keep": 0.2, "lr": 0.01, "weight_decay": 5e-4, "dropout": 0.3},
    "pubmed": {"keep": 0.7, "lr": 0.003, "weight_decay": 5e-3, "dropout": 0.5},
}
