"""UGS: graph and weights pruned together, round by round, each round rewound to the start.

    L = CE(A ⊙ m_g, W ⊙ m_θ) + λ_g ‖m_g‖₁ + λ_θ ‖m_θ‖₁        m beside fixed 0/1 masks
    a round: train W, m_g, m_θ; at the best validation epoch drop the lowest 5 % of the remaining
        m_g and the lowest
    20 % of the remaining m_θ (one ranking over all layers); W ← W_0; train W with the masks fixed

Chen, Sui, Chen, Zhang and Wang, A Unified Lottery Ticket Hypothesis for Graph Neural Networks, ICML
2021. The published sparsity levels are the rounds: level r leaves .95^r of the edges and .8^r of
the weights. Every level goes with the result; the net is the level asked for, or the one that
validates best.
"""

import time
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gassip.baselines._shared.pruning import (
    EdgeMaskedNet,
    Pruner,
    Start,
    apart,
    check_shares,
    drop_lowest,
    flat,
    take_over,
)
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.metrics import all_scores
from gassip.nn.net import Architecture, Model, Net
from gassip.nn.propagate import MaskedGraph
from gassip.train.context import RunContext
from gassip.train.losses import Loss, supervised
from gassip.train.plan import Solution
from gassip.train.trainer import conclude, predict, seeded, train, validate

LARGE = 10_000  # nodes, from which on the published L1 weights are those of PubMed


class UgsNet(EdgeMaskedNet):
    """m_θ beside every weight and m_g beside every undirected edge, both about 1 at the start."""

    def __init__(
        self,
        graph: Graph,
        architecture: Architecture,
        dropout: float,
        feature_index: Tensor | None,
        noise: float,
    ) -> None:
        super().__init__(graph, architecture, dropout, feature_index)
        self.weight_masks = nn.ParameterList(torch.ones_like(layer.weight) for layer in self.layers)
        with torch.no_grad():  # noise decides between entries that no gradient reaches
            for mask in [self.edge_mask, *self.weight_masks]:
                mask.copy_(1 + noise * torch.randn_like(mask))

    def weight(self, l: int) -> Tensor:
        return super().weight(l) * self.weight_masks[l]


@dataclass(frozen=True, kw_only=True)
class Ugs(Pruner):
    """Published counts and L1 weights; hidden 64 as the other rows (published: 512)."""

    version: ClassVar[int] = 2

    dropout: float = 0.5
    rounds: int = 20
    level: int | None = None  # the round whose net is the result; None: the best on validation
    epochs: int = 200  # with trainable masks, and again with fixed ones
    edge_share: float = 0.05  # of the remaining edges, dropped each round
    weight_share: float = 0.2  # of the remaining weights
    l1_edge: float = 1e-2
    l1_weight: float = 1e-2
    noise: float = 1e-5
    lr: float = 0.01
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        check_shares({"edge_share": self.edge_share, "weight_share": self.weight_share})
        if self.level is not None and not 1 <= self.level <= self.rounds:
            raise GassipError(f"level is {self.level}; there are the rounds 1 to {self.rounds}")

    @classmethod
    def for_graph(cls, graph: Graph) -> Self:
        """The published L1 weights: as they stand for Cora and CiteSeer, PubMed's for graphs of its
        size and larger."""
        return cls() if graph.num_nodes < LARGE else cls(l1_edge=1e-6, l1_weight=1e-3)

    def prune_from(self, start: Start, graph: Graph, run: RunContext) -> Solution:
        began, run = time.perf_counter(), run.counted()
        current = start.graph
        levels: list[dict[str, float]] = []
        best: tuple[float, Net, Graph, int] | None = None
        with seeded(run.seed, graph.device):
            dense = start.net(self.dropout)
            keep = start.keep(dense)
            for number in range(1, (self.level or self.rounds) + 1):
                current, keep = self.prune(current, dense, keep, run)
                ticket = take_over(start.net(self.dropout), dense, keep)
                epoch = self.fit(ticket, current, run)
                value, _ = validate(ticket, current, MaskedGraph.of(current), run.metric)
                levels.append({"round": number, "val": value} | told(ticket, current))
                # of equal rounds the sparser
                if best is None or value >= best[0] or number == self.level:
                    best = (value, ticket, current, epoch)
        assert best is not None
        details: dict[str, object] = {
            "rounds": levels,
            "architecture": str(start.architecture),
        }
        _, ticket, current, epoch = best
        ticket.eval()
        return conclude(
            ticket,
            current,
            began=began,
            best_epoch=epoch,
            edges_total=graph.num_edges,
            details=details,
        )

    def prune(
        self,
        graph: Graph,
        dense: Net,
        keep: list[Tensor],
        run: RunContext,
    ) -> tuple[Graph, list[Tensor]]:
        """One round of trainable masks: the sparser graph and the weights that remain."""
        net = UgsNet(graph, dense.architecture, self.dropout, dense.feature_index, self.noise).to(
            graph.device
        )
        take_over(net, dense, keep)
        net.edge_mask.requires_grad_(self.edge_share > 0)
        self.fit(net, graph, run, self.penalised)
        scores = [mask.detach().abs() for mask in net.weight_masks]
        weights = apart(drop_lowest(flat(scores), flat(keep), self.weight_share), keep)
        # not the clamped score: masks below 0 would tie there, and go by their number
        edges = net.edge_mask.detach()
        alive = drop_lowest(edges, torch.ones_like(edges, dtype=torch.bool), self.edge_share)
        return graph.keep(alive[graph.pair]), weights

    def penalised(self, model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
        """CE + λ_g ‖m_g‖₁ + λ_θ ‖m_θ‖₁."""
        assert isinstance(model, UgsNet)
        loss = F.cross_entropy(
            model.run(graph.x, masked)[graph.train_mask], graph.y[graph.train_mask]
        )
        loss = (
            loss
            + self.l1_weight * torch.stack([mask.abs().sum() for mask in model.weight_masks]).sum()
        )
        return loss + self.l1_edge * model.edge_mask.abs().sum() if self.edge_share > 0 else loss

    def fit(
        self,
        net: Net,
        graph: Graph,
        run: RunContext,
        loss: Loss = supervised,
    ) -> int:
        return train(
            net,
            graph,
            epochs=self.epochs,
            lr=self.lr,
            weight_decay=self.weight_decay,
            metric=run.metric,
            loss=loss,
            on_epoch=run.on_event,
        )


def told(ticket: Net, graph: Graph) -> dict[str, float]:
    """What a level is reported by; its test score chooses nothing."""
    scores = all_scores(predict(ticket, graph), graph)["accuracy"]
    return {
        "test": scores["test"],
        "edges": graph.num_edges,
        "weights": ticket.num_weights()[0],
    }
