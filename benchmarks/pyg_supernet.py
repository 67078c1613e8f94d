"""The same supernet as a PyG user would write it: PyG's layers, dense X, the same three steps per
epoch.

PyG's SAGEConv and GATConv take no edge weight; GraphConv(mean) and GATConv(edge_dim=1) do the same
amount of work.
"""

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch_geometric.nn import ARMAConv, GATConv, GCNConv, GraphConv

from gassip.graph.graph import Graph
from gassip.paper import curriculum
from gassip.paper.supernet import Path, top_paths
from gassip.settings.search import Search


class Dense(nn.Linear):
    """Linear with the signature of the others."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x)


class Attention(GATConv):
    """GATConv with the mask as an edge feature, the nearest it offers."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, edge_index, edge_attr=edge_weight.unsqueeze(1))


def layer(width: tuple[int, int]) -> nn.ModuleList:
    return nn.ModuleList(
        [
            GCNConv(*width),
            Attention(*width, edge_dim=1),
            GraphConv(*width, aggr="mean"),
            ARMAConv(*width),
            Dense(*width),
        ]
    )


class PygSearch:
    """State and steps of one search on PyG's layers."""

    def __init__(self, graph: Graph, settings: Search) -> None:
        data = graph.to_data()
        self.graph, self.settings = graph, settings
        self.x, self.edge_index = data.x, data.edge_index
        hidden, last = (graph.num_features, settings.hidden), (settings.hidden, graph.num_classes)
        self.layers = nn.ModuleList([layer(hidden), layer(last)])
        self.alpha = nn.Parameter(1e-3 * torch.randn(2, 5))
        self.scores = [
            [
                {
                    k: nn.Parameter(torch.randn_like(p))
                    for k, p in op.named_parameters()
                    if p.dim() > 1
                }
                for op in ops
            ]
            for ops in self.layers
        ]
        flat = [p for ops in self.scores for op in ops for p in op.values()]
        self.optimizer = torch.optim.Adam([*self.layers.parameters(), *flat], lr=0.01)
        self.alpha_optimizer = torch.optim.Adam([self.alpha], lr=0.03)
        self.edge_score = nn.Parameter(torch.ones(int(graph.pair.max()) + 1))
        self.threshold = nn.Parameter(torch.tensor(0.5))
        self.logits = torch.randn(graph.num_nodes, graph.num_classes)

    def run(self, edge_weight: Tensor, path: Path | None, dropout: float) -> Tensor:
        h = self.x
        for l, ops in enumerate(self.layers):
            h = F.dropout(F.relu(h) if l else h, dropout)
            share = torch.softmax(self.alpha[l], 0)
            if path is None:
                h = sum(share[k] * self.operation(l, k, h, edge_weight) for k in range(len(ops)))  # type: ignore[assignment]
            else:
                h = self.operation(l, path[l], h, edge_weight)
        return h

    def operation(self, l: int, k: int, h: Tensor, edge_weight: Tensor) -> Tensor:
        op, scores = self.layers[l][k], self.scores[l][k]  # type: ignore[index]
        masked = {
            name: p * torch.sigmoid(scores[name]) if name in scores else p
            for name, p in op.named_parameters()
        }
        return functional_call(op, masked, (h, self.edge_index, edge_weight))  # type: ignore[no-any-return]

    def edge_mask(self) -> Tensor:
        return torch.sigmoid(self.edge_score - self.threshold)[self.graph.pair]

    def epoch(self) -> None:
        graph, settings = self.graph, self.settings
        self.optimizer.zero_grad()
        logits = self.run(self.edge_mask().detach(), None, settings.dropout)
        F.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask]).backward()
        self.optimizer.step()
        self.structure_step()
        logits = self.run(self.edge_mask().detach(), None, 0.0)
        loss = F.cross_entropy(logits[graph.val_mask], graph.y[graph.val_mask])
        (self.alpha.grad,) = torch.autograd.grad(loss, (self.alpha,))
        self.alpha_optimizer.step()
        self.logits = logits.detach()

    def structure_step(self) -> None:
        graph, settings = self.graph, self.settings
        pseudo_label = curriculum.pseudo_labels(self.logits, graph.y, graph.train_mask)
        difficulty = curriculum.node_view_difficulty(
            graph, self.logits, pseudo_label, settings.lambda1
        )
        node_weight = curriculum.node_weights(graph, difficulty)
        gradients = []
        for path in top_paths(self.alpha, settings.num_archs):
            mask = self.edge_mask()
            logits = self.run(mask, path, 0.0)
            loss = curriculum.structure_loss(
                logits, pseudo_label, node_weight, graph.train_mask, mask, settings.beta
            )
            gradients.append(torch.autograd.grad(loss, (self.edge_score, self.threshold)))
        stacked = torch.stack([g for g, _ in gradients])
        update, _ = curriculum.score_update(stacked, settings.update_rule, 5.0, 1e-8, True)
        with torch.no_grad():
            self.edge_score -= settings.lr_edge * update
            self.threshold -= settings.lr_edge * torch.stack([t for _, t in gradients]).mean()
