"""CGP: weights, edges and feature channels pruned little by little in one training, some of them
grown back.

    s_t = s_f + (s_i − s_f)(1 − t/T)³       the share pruned at step t of T, one schedule for each
                                            of the three
    keep k_t = (1 − s_t) n: the highest (1 − ρ) k_t by magnitude, and ρ k_t of the rest by the size
        of their gradient

Liu, Zhan, Ma, Ding, Tao, Wu and Hu, Comprehensive Graph Gradual Pruning for Sparse Training in
Graph Neural Networks, IEEE TNNLS 2023.
"""

import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gassip.baselines._shared.pruning import (
    NOISE,
    EdgeMaskedNet,
    Pruner,
    Start,
    apart,
    check_shares,
    flat,
    take_over,
)
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, Net, net_for
from gassip.nn.propagate import MaskedGraph
from gassip.nn.ranking import highest
from gassip.train.context import RunContext
from gassip.train.losses import supervised
from gassip.train.plan import Solution
from gassip.train.trainer import conclude, seeded, train


def cubic(step: int, steps: int, first: float, last: float) -> float:
    """s_t = s_f + (s_i − s_f)(1 − t/T)³, and s_f from T on."""
    return last + (first - last) * (1 - min(step, steps) / steps) ** 3


def next_keep(score: Tensor, keep: Tensor, growth: Tensor, kept: int, regrow: float) -> Tensor:
    """Exactly `kept` entries: the highest |score| of those alive, and round(regrow · kept) others
    by `growth`.

    `growth` is |gradient|, or -inf where nothing may grow; what is dropped in this step may stay by
    its gradient.
    """
    kept = min(kept, int(keep.sum()))
    grown = round(regrow * kept)
    stay = highest(score.abs().masked_fill(~keep, -torch.inf), kept - grown)
    return stay | highest(growth.masked_fill(stay, -torch.inf), grown)


class CgpNet(EdgeMaskedNet):
    """Three kinds of scores, each with the entries that are alive; a dead one is exactly 0."""

    edge_keep: Tensor  # [P] bool
    channel_keep: Tensor  # [D] bool

    def __init__(
        self,
        graph: Graph,
        architecture: Architecture,
        dropout: float,
        feature_index: Tensor | None = None,
    ) -> None:
        super().__init__(graph, architecture, dropout, feature_index)
        channels = self.layers[0].weight.shape[0]
        self.channel_mask = nn.Parameter(
            1 + NOISE * torch.randn(channels)
        )  # scales the columns of X
        self.register_buffer("edge_keep", torch.ones(self.edge_mask.numel(), dtype=torch.bool))
        self.register_buffer("channel_keep", torch.ones(channels, dtype=torch.bool))

    def edge_score(self) -> Tensor:
        return super().edge_score() * self.edge_keep

    def weight(self, l: int) -> Tensor:
        weight = super().weight(l)
        return weight if l else (self.channel_mask * self.channel_keep).unsqueeze(1) * weight

    def gradients(self, graph: Graph, masked: MaskedGraph) -> tuple[list[Tensor], Tensor, Tensor]:
        """Of the training loss to every weight, edge and channel, the dead ones (at 0) included."""
        weights = self.weight_keeps()
        edges, channels = self.edge_keep.clone(), self.channel_keep.clone()
        with torch.no_grad():
            self.zero_pruned()
            self.edge_mask.mul_(edges)
            self.channel_mask.mul_(channels)
        self.revive()
        wanted = [*(layer.weight for layer in self.layers), self.edge_mask, self.channel_mask]
        self.eval()
        found = torch.autograd.grad(supervised(self, graph, masked, 0), wanted)
        self.settle(weights, edges, channels)
        return list(found[:-2]), found[-2], found[-1]

    def weight_keeps(self) -> list[Tensor]:
        """The weights alive, per layer."""
        keeps = [self.weight_keep(l) for l in range(len(self.layers))]
        pairs = zip(self.layers, keeps, strict=True)
        return [
            torch.ones_like(o.weight, dtype=torch.bool) if keep is None else keep
            for o, keep in pairs
        ]

    def revive(self) -> None:
        """Everything alive, at the values it has."""
        everything = [torch.ones_like(layer.weight, dtype=torch.bool) for layer in self.layers]
        self.settle(everything, torch.ones_like(self.edge_keep), torch.ones_like(self.channel_keep))

    @torch.no_grad()
    def settle(self, weights: list[Tensor], edges: Tensor, channels: Tensor) -> None:
        """These live on, the others are 0."""
        self.prune(weights)
        self.edge_keep.copy_(edges)
        self.channel_keep.copy_(channels)


@dataclass(frozen=True, kw_only=True)
class Cgp(Pruner):
    """Final sparsities and the share grown back are settings; the defaults are ours."""

    dropout: float = 0.5
    gradual_epochs: int = 200  # T
    epochs: int = 200  # after it, with everything fixed
    every: int = 10  # epochs between two steps of the masks
    weight_sparsity: float = 0.5
    edge_sparsity: float = 0.05
    channel_sparsity: float = 0.2
    first_sparsity: float = 0.0
    regrow: float = 0.1
    lr: float = 0.01
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        names = ("weight_sparsity", "edge_sparsity", "channel_sparsity", "first_sparsity", "regrow")
        check_shares({name: getattr(self, name) for name in names})

    def prune_from(self, start: Start, graph: Graph, run: RunContext) -> Solution:
        began, run = time.perf_counter(), run.counted()
        with seeded(run.seed, graph.device):
            net = CgpNet(start.graph, start.architecture, self.dropout, start.feature_index).to(
                graph.device
            )
            net.prune(start.keep(net))
            self.prune_gradually(net, start.graph, run)
            ticket, sparser = folded(net, start.graph)
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
            "channels_kept": int(net.channel_keep.sum()),
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

    def prune_gradually(self, net: CgpNet, graph: Graph, run: RunContext) -> None:
        """T epochs of training W, m_A and m_X; every few of them the masks follow the schedule."""
        masked = MaskedGraph.of(graph)
        factors = [net.edge_mask, net.channel_mask]
        trained = [value for name, value in net.named_parameters() if not name.endswith("_mask")]
        # no decay of factors: Adam would take those that no gradient reaches to 0 at its full rate
        groups = [
            {"params": trained, "weight_decay": self.weight_decay},
            {"params": factors, "weight_decay": 0.0},
        ]
        optimizer = torch.optim.Adam(groups, lr=self.lr, fused=True)
        given = flat(net.weight_keeps()).clone()
        for epoch in range(1, self.gradual_epochs + 1):
            net.train()
            optimizer.zero_grad()
            loss = supervised(net, graph, masked, epoch)
            loss.backward()
            optimizer.step()
            if epoch % self.every == 0 or epoch == self.gradual_epochs:
                self.step_masks(net, graph, masked, epoch, given)
            if run.on_event is not None:
                run.on_event({"epoch": epoch, "train_loss": float(loss.detach())})

    def step_masks(
        self, net: CgpNet, graph: Graph, masked: MaskedGraph, epoch: int, given: Tensor
    ) -> None:
        """Each of the three down to its share at this epoch; a weight that was not `given` is not
        grown."""
        by_weight, by_edge, by_channel = net.gradients(graph, masked)
        keeps = net.weight_keeps()
        row = flat([layer.weight.detach() for layer in net.layers])
        growth = flat(by_weight).abs().masked_fill(~given, -torch.inf)
        kept = self.kept(int(given.sum()), self.weight_sparsity, epoch)
        weights = apart(next_keep(row, flat(keeps), growth, kept, self.regrow), keeps)
        edges = self.step_one(net.edge_mask, net.edge_keep, by_edge, self.edge_sparsity, epoch)
        channels = self.step_one(
            net.channel_mask, net.channel_keep, by_channel, self.channel_sparsity, epoch
        )
        net.settle(weights, edges, channels)

    @torch.no_grad()
    def step_one(
        self, mask: Tensor, keep: Tensor, gradient: Tensor, sparsity: float, epoch: int
    ) -> Tensor:
        """What lives on of the edges or channels; one that is grown back starts at 1 (a weight at
        0)."""
        after = next_keep(
            mask, keep, gradient.abs(), self.kept(mask.numel(), sparsity, epoch), self.regrow
        )
        mask[after & ~keep] = 1.0
        return after

    def kept(self, total: int, sparsity: float, epoch: int) -> int:
        return round(total * (1 - cubic(epoch, self.gradual_epochs, self.first_sparsity, sparsity)))


@torch.no_grad()
def folded(net: CgpNet, graph: Graph) -> tuple[Net, Graph]:
    """A plain net and graph: channel scales multiplied into the first weights, kept edges as they
    were given."""
    keeps = net.weight_keeps()
    keeps[0] = keeps[0] & net.channel_keep.unsqueeze(1)
    plain = take_over(net_for(graph, net.architecture, net.dropout, net.feature_index), net, keeps)
    plain.layers[0].weight.copy_(net.weight(0))
    return plain, graph.keep(net.edge_keep[net.slot])
