"""Nets of PyG's layers as its documentation writes them, with dense X, and the usual loop."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric.nn import GATConv, GCNConv

from gassip.graph.graph import Graph


class Stacked(nn.Module):
    """Two layers, dropout before each."""

    def __init__(
        self, first: nn.Module, second: nn.Module, dropout: float, activation: Any
    ) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.dropout, self.activation = dropout, activation

    def forward(self, x: Any, edge_index: Any) -> Any:
        h = self.first(F.dropout(x, self.dropout, self.training), edge_index)
        h = F.dropout(self.activation(h), self.dropout, self.training)
        return self.second(h, edge_index)


def gcn(graph: Graph, hidden: int = 64, dropout: float = 0.5, *, cached: bool = False) -> Stacked:
    """`cached` keeps the normalised edges, which pays in training."""
    first = GCNConv(graph.num_features, hidden, cached=cached)
    return Stacked(first, GCNConv(hidden, graph.num_classes, cached=cached), dropout, F.relu)


def gat(graph: Graph) -> Stacked:
    """Eight heads of eight, as published."""
    first = GATConv(graph.num_features, 8, heads=8, dropout=0.6)
    second = GATConv(64, graph.num_classes, heads=1, concat=False, dropout=0.6)
    return Stacked(first, second, 0.6, F.elu)


def plain_gat(graph: Graph) -> Stacked:
    """One head of 64, for inference."""
    return Stacked(GATConv(graph.num_features, 64), GATConv(64, graph.num_classes), 0.5, F.relu)


def train(
    net: nn.Module,
    data: Any,
    epochs: int,
    lr: float = 0.01,
    validated: Callable[[Any], object] = lambda right: right[0].item(),
) -> None:
    """Adam, and in every epoch a validation; `validated` gets which nodes are right, [N]."""
    optimizer = torch.optim.Adam(net.parameters(), lr=lr, weight_decay=5e-4, fused=True)
    for _ in range(epochs):
        net.train()
        optimizer.zero_grad()
        scores = net(data.x, data.edge_index)[data.train_mask]
        F.cross_entropy(scores, data.y[data.train_mask]).backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            validated(net(data.x, data.edge_index).argmax(1) == data.y)


def accuracy(graph: Graph, epochs: int = 200) -> dict[str, float]:
    """Validation and test accuracy of GCN-64 at its best validation epoch."""
    torch.manual_seed(0)
    data, best = graph.to_data(), {"val": -1.0, "test": 0.0}

    def validated(right: Any) -> None:
        found = {part: float(right[data[f"{part}_mask"]].float().mean()) for part in best}
        if found["val"] > best["val"]:
            best.update(found)

    train(gcn(graph), data, epochs, validated=validated)
    return best
