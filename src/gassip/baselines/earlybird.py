"""Early-Bird GCN: the winning ticket of weights and graph is drawn as soon as its masks stand
still.

    each epoch: a step of W on CE, a step of m_g on CE; masks = the highest |W| and the highest m_g;
    stop when max over the last three epochs of Hamming(masks, masks then) < 0.1; retrain W on what
    is left

Hamming is the share of entries that differ. An L1 term on m_g (`l1_edge`), which the authors' code
does not have, presses down exactly the edges that no training label reaches.

You, Lu, Zhou, Fu and Lin, Early-Bird GCNs: Graph-Network Co-Optimization Towards More Efficient GCN
Training and Inference via Drawing Early-Bird Lottery Tickets, AAAI 2022.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gassip.baselines._shared.pruning import (
    EdgeMaskedNet,
    Pruner,
    Start,
    apart,
    check_shares,
    drop_lowest,
    flat,
    step_alone,
    take_over,
)
from gassip.graph.graph import Graph
from gassip.nn.propagate import MaskedGraph
from gassip.train.context import RunContext
from gassip.train.losses import supervised
from gassip.train.plan import Solution
from gassip.train.trainer import conclude, seeded, train

Masks = tuple[Tensor, Tensor]  # weights of all layers in one row, undirected edges; bool


def hamming(one: Tensor, other: Tensor) -> float:
    """The share of entries in which two masks differ."""
    return float((one != other).float().mean()) if one.numel() else 0.0


def settled(masks: Sequence[Masks], window: int, tolerance: float) -> bool:
    """Whether the newest masks lie within `tolerance` of each of the `window` before them, weights
    and edges both."""
    if len(masks) <= window:
        return False
    newest = masks[-1]
    pairs = [
        (now, then)
        for before in masks[-window - 1 : -1]
        for now, then in zip(newest, before, strict=True)
    ]
    return max(hamming(now, then) for now, then in pairs) < tolerance


@dataclass(frozen=True, kw_only=True)
class EarlyBird(Pruner):
    """The lower ends of the published ratios: half of the weights and a fifth of the edges go."""

    version: ClassVar[int] = 3

    dropout: float = 0.8
    weight_share: float = 0.5  # dropped
    edge_share: float = 0.2  # dropped
    window: int = 3
    tolerance: float = 0.1
    draw_epochs: int = 100  # at most
    epochs: int = 300  # of retraining
    l1_edge: float = 0.0
    lr: float = 0.01
    lr_edge: float = 0.001
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        check_shares({"weight_share": self.weight_share, "edge_share": self.edge_share})

    def prune_from(self, start: Start, graph: Graph, run: RunContext) -> Solution:
        began, run = time.perf_counter(), run.counted()
        with seeded(run.seed, graph.device):
            net = EdgeMaskedNet(
                start.graph, start.architecture, self.dropout, start.feature_index
            ).to(graph.device)
            net.prune(start.keep(net))
            (weights, edges), drawn = self.draw(net, start, run)
            keep = apart(weights, [layer.weight for layer in net.layers])
            ticket = take_over(start.net(self.dropout), net, keep)  # training goes on from here
            sparser = start.graph.keep(edges[start.graph.pair])
            best_epoch = train(
                ticket,
                sparser,
                epochs=self.epochs,
                lr=self.lr,
                weight_decay=self.weight_decay,
                metric=run.metric,
                on_epoch=run.on_event,
            )
        details: dict[str, object] = {
            "drawn_at_epoch": drawn,
            "architecture": str(start.architecture),
        }
        return conclude(
            ticket,
            sparser,
            began=began,
            best_epoch=best_epoch,
            edges_total=graph.num_edges,
            details=details,
        )

    def draw(self, net: EdgeMaskedNet, start: Start, run: RunContext) -> tuple[Masks, int]:
        """Train W and m_g in turn until the masks stand still; the masks, and the epoch."""
        graph, given = start.graph, flat(start.keep(net))
        masked = MaskedGraph.of(graph)
        weights = [value for name, value in net.named_parameters() if name != "edge_mask"]
        weight_optimizer = torch.optim.Adam(
            weights, lr=self.lr, weight_decay=self.weight_decay, fused=True
        )
        edge_optimizer = torch.optim.Adam([net.edge_mask], lr=self.lr_edge)
        masks: list[Masks] = []
        net.train()
        for epoch in range(1, self.draw_epochs + 1):
            loss = supervised(net, graph, masked, epoch)
            step_alone(weight_optimizer, weights, loss)
            penalised = (
                supervised(net, graph, masked, epoch) + self.l1_edge * net.edge_mask.abs().sum()
            )
            step_alone(edge_optimizer, [net.edge_mask], penalised)
            masks = [*masks[-self.window :], self.masks(net, given)]
            if run.on_event is not None:
                run.on_event({"epoch": epoch, "train_loss": float(loss.detach())})
            if settled(masks, self.window, self.tolerance):
                break
        return masks[-1], epoch

    @torch.no_grad()
    def masks(self, net: EdgeMaskedNet, given: Tensor) -> Masks:
        """The highest |W| over all layers and the highest m_g, at the ratios."""
        weights = drop_lowest(
            flat([layer.weight.abs() for layer in net.layers]), given, self.weight_share
        )
        # not the clamped score: masks that L1 has pressed below 0 would tie there, and go by number
        edges = net.edge_mask
        return weights, drop_lowest(
            edges, torch.ones_like(edges, dtype=torch.bool), self.edge_share
        )
