"""GASSO: a supernet whose layers each see the graph through edge weights of their own; its
prediction is the result.

    h_l = Σ_o softmax(α_l)_o o(h_{l-1}; A ⊙ σ(w_l))
    W ← L_train,   α ← L_val,   w_l ← λ Σ_e ||z_i − z_j||² σ(w_l,e) + Σ_e w_l,e²      (z =
                   log-softmax, held fixed)

Qin et al., Graph Differentiable Architecture Search with Structure Learning, NeurIPS 2021. There is
no discrete architecture, so all operations, α and the edge weights of all layers are what has to be
stored, and are counted.

Shapes: L layers, O operations, E directed edges.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gassip.baselines._shared.baseline import Baseline
from gassip.baselines._shared.extra_ops import Op, lean, make_op
from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.dropout import drop
from gassip.nn.kernels import multiply, transform
from gassip.nn.net import Model
from gassip.nn.propagate import MaskedGraph
from gassip.train.context import RunContext
from gassip.train.plan import Solution
from gassip.train.trainer import solve

OPS = ("GATConv", "GCNConv", "GINConv", "SAGEConv", "Linear")


class LinearGin(Op):
    """W (x_i + Σ_j m_ij x_j) + b: GIN with one Linear in place of the MLP, as in the authors'
    code; with an MLP the mixture loses three points of validation on Cora."""

    def __init__(self, in_width: int, out_width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_width, out_width)

    def forward(self, h: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        product = transform(h, self.linear.weight.t())
        near = multiply(graph.adjacency, product, graph.edge_weight)
        return product + near + self.linear.bias


def gasso_op(name: str, in_width: int, out_width: int, heads: int) -> Op:
    """An operation of GASSO's space."""
    if name == "GINConv":
        return LinearGin(in_width, out_width)
    return make_op(name, in_width, out_width, heads)


class GassoNet(Model):
    """The supernet; `alpha` [L, O] and `edge_score` [L, E] are buffers, stepped by optimisers of
    their own."""

    alpha: Tensor
    edge_score: Tensor

    def __init__(
        self, graph: Graph, layers: int, hidden: int, heads: int, dropout: float, alpha_start: float
    ) -> None:
        super().__init__()
        widths = [graph.num_features, *[hidden] * (layers - 1), graph.num_classes]
        self.dropout = dropout
        self.layers = nn.ModuleList(
            nn.ModuleList(
                gasso_op(name, widths[l], widths[l + 1], heads if l + 1 < layers else 1)
                for name in OPS
            )
            for l in range(layers)
        )
        self.register_buffer("alpha", alpha_start * torch.randn(layers, len(OPS)))
        self.register_buffer("edge_score", torch.ones(layers, graph.num_edges))

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        return self.mixture(x, graph, self.alpha)

    def mixture(self, x: Tensor | Csr, graph: MaskedGraph, alpha: Tensor) -> Tensor:
        """Class scores [N, C] with the operations mixed by softmax(alpha)."""
        if graph.adjacency.nnz != self.edge_score.shape[1]:
            known = self.edge_score.shape[1]
            raise GassipError(
                f"the graph has {graph.adjacency.nnz} edges; GASSO has weights for the {known} "
                f"it saw"
            )
        h: Tensor | Csr = x
        for l, ops in enumerate(self.layers):
            assert isinstance(ops, nn.ModuleList)
            h = drop(F.relu(h) if l > 0 else h, self.dropout if self.training else 0.0)  # type: ignore[arg-type]
            masked = MaskedGraph(
                graph.adjacency, graph.edge_weight * torch.sigmoid(self.edge_score[l])
            )
            h = mixed(
                [op for op in ops if isinstance(op, Op)], h, masked, torch.softmax(alpha[l], 0)
            )
        assert isinstance(h, Tensor)
        return h

    def num_weights(self) -> tuple[int, int]:
        """Every operation, α and every edge weight: without any of them there is no prediction."""
        total = (
            sum(p.numel() for p in self.parameters()) + self.alpha.numel() + self.edge_score.numel()
        )
        return total, total


def mixed(ops: list[Op], h: Tensor | Csr, graph: MaskedGraph, share: Tensor) -> Tensor:
    """Σ_o share_o o(h)."""
    total = share[0] * lean(ops[0], h, graph)
    for k, op in enumerate(ops[1:], start=1):
        total = total + share[k] * lean(op, h, graph)
    return total


def structure_loss(edge_score: Tensor, difference: Tensor, smoothness: float) -> Tensor:
    """Σ_l λ Σ_e ||z_i − z_j||² σ(w_l,e) + Σ_e w_l,e², for scores [L, E] and squared differences
    [E]."""
    return smoothness * (difference * torch.sigmoid(edge_score)).sum() + edge_score.square().sum()


def edge_differences(graph: MaskedGraph, z: Tensor) -> Tensor:
    """||z_i − z_j||² for every edge, [E]: |z_i|² + |z_j|² − 2 <z_i, z_j>."""
    size = z.square().sum(1)
    crossed = graph.adjacency.sampled(z, z)
    return (graph.at_receiver(size) + graph.at_sender(size) - 2 * crossed).clamp_min(0)


@dataclass(frozen=True, kw_only=True)
class Gasso(Baseline):
    """Published settings; `alpha_nodes` is the one that paper and code disagree on."""

    version: ClassVar[int] = 2

    layers: int = 2
    hidden: int = 64
    heads: int = 1
    dropout: float = 0.8
    epochs: int = 250
    warmup_epochs: int = 10
    lr: float = 0.01
    weight_decay: float = 1e-4
    lr_alpha: float = 0.03
    alpha_start: float = 1e-3
    lr_structure: float = 0.04
    smoothness: float = 0.6
    alpha_nodes: Literal["val", "train"] = "val"

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        solution = solve(
            graph,
            lambda: GassoNet(
                graph, self.layers, self.hidden, self.heads, self.dropout, self.alpha_start
            ),
            epochs=self.epochs,
            lr=self.lr,
            weight_decay=self.weight_decay,
            seed=run.seed,
            metric=run.metric,
            loss=Steps(self),
            on_epoch=run.on_event,
        )
        net = solution.model
        assert isinstance(net, GassoNet)
        share = torch.softmax(net.alpha, 1)
        details: dict[str, object] = {
            "architecture": " ‖ ".join(
                f"{OPS[int(row.argmax())]} {float(row.max()):.2f}" for row in share
            ),
            "alpha": share.tolist(),
            "edge_weights": net.edge_score.numel(),
            "mean_edge_weight": float(torch.sigmoid(net.edge_score).mean()),
        }
        return replace(solution, details=details)


class Steps:
    """One epoch as the trainer sees it: w and α are stepped here, and the loss that steps W is
    returned."""

    def __init__(self, settings: Gasso) -> None:
        self.settings = settings
        self.optimizers: tuple[torch.optim.Optimizer, torch.optim.Optimizer] | None = None

    def __call__(self, model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
        assert isinstance(model, GassoNet)
        if epoch > self.settings.warmup_epochs:
            if self.optimizers is None:
                alpha = torch.optim.Adam(
                    [model.alpha], lr=self.settings.lr_alpha, betas=(0.5, 0.999)
                )
                self.optimizers = (
                    alpha,
                    torch.optim.SGD([model.edge_score], lr=self.settings.lr_structure),
                )
            self.step_structure(model, graph, masked)
            self.step_alpha(model, graph, masked)
        logits = model.run(graph.x, masked)
        return F.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask])

    def step_structure(self, model: GassoNet, graph: Graph, masked: MaskedGraph) -> None:
        """w down its loss, at z as it stands."""
        assert self.optimizers is not None
        with torch.no_grad():
            difference = edge_differences(masked, torch.log_softmax(model.run(graph.x, masked), 1))
        scores = model.edge_score.detach().requires_grad_()
        loss = structure_loss(scores, difference, self.settings.smoothness)
        (model.edge_score.grad,) = torch.autograd.grad(loss, (scores,))
        self.optimizers[1].step()

    def step_alpha(self, model: GassoNet, graph: Graph, masked: MaskedGraph) -> None:
        """α down the loss on its nodes, at W as it stands."""
        assert self.optimizers is not None
        nodes = graph.val_mask if self.settings.alpha_nodes == "val" else graph.train_mask
        alpha = model.alpha.detach().requires_grad_()
        logits = model.mixture(graph.x, masked, alpha)
        loss = F.cross_entropy(logits[nodes], graph.y[nodes])
        (model.alpha.grad,) = torch.autograd.grad(loss, (alpha,))
        self.optimizers[0].step()
