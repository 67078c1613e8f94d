"""What the pruning baselines share: trainable edge weights, counts that are exact, one global
ranking over layers.

    A' = A ⊙ m,  m ≥ 0 trainable, one per undirected edge, applied before any normalisation
    keep the n − round(p · n) highest of the n scores that remain

Shapes: E directed edges, P undirected edges.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gassip.baselines._shared.baseline import Baseline
from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, Net, net_for
from gassip.nn.propagate import MaskedGraph
from gassip.nn.ranking import highest
from gassip.train.context import RunContext
from gassip.train.plan import Plan, Solution

NOISE = 1e-5  # as published for UGS


class EdgeMaskedNet(Net):
    """A net that weighs each undirected edge of one graph by a trainable m, which starts at about
    1."""

    slot: Tensor  # [E] the undirected edge of each directed one

    def __init__(
        self,
        graph: Graph,
        architecture: Architecture,
        dropout: float,
        feature_index: Tensor | None = None,
    ) -> None:
        super().__init__(
            graph.num_features, graph.num_classes, architecture, dropout, feature_index
        )
        self.register_buffer("slot", graph.pair, persistent=False)
        pairs = int(graph.pair.max()) + 1 if graph.num_edges else 0
        # [P]; the noise decides between edges that no gradient reaches, which would else go by
        # their number
        self.edge_mask = nn.Parameter(1 + NOISE * torch.randn(pairs))

    def edge_score(self) -> Tensor:
        """m [P]: below 0 a weight would turn a degree negative, so 0 is the least."""
        return self.edge_mask.clamp_min(0)

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        weight = graph.edge_weight * self.edge_score().index_select(0, self.slot)
        return super().run(x, MaskedGraph(graph.adjacency, weight))


@dataclass(frozen=True, eq=False)
class Start:
    """What pruning starts from: a graph, the shape of a net and the weights that exist."""

    graph: Graph
    architecture: Architecture
    feature_index: Tensor | None = None  # the columns of x that the net reads; None: all
    weight_keep: list[Tensor] | None = None  # per layer; None: all weights exist

    @staticmethod
    def gcn(graph: Graph, hidden: int) -> "Start":
        """A GCN of two layers on the whole graph."""
        return Start(graph, Architecture(ops=("GCNConv", "GCNConv"), hidden=(hidden,)))

    @staticmethod
    def of(plan: Plan, graph: Graph) -> "Start":
        """What a search has found."""
        return Start(plan.on(graph), plan.architecture, plan.feature_index, plan.weight_keep)

    def net(self, dropout: float) -> Net:
        """A net of this shape with fresh weights, none of them removed."""
        return net_for(self.graph, self.architecture, dropout, self.feature_index)

    def keep(self, net: Net) -> list[Tensor]:
        """The weights that exist before pruning, per layer of `net`."""
        if self.weight_keep is not None:
            return [keep.clone() for keep in self.weight_keep]
        return [torch.ones_like(layer.weight, dtype=torch.bool) for layer in net.layers]


@dataclass(frozen=True, kw_only=True)
class Pruner(Baseline, ABC):
    """A method that prunes what it starts from: a GCN, or what a search has found."""

    hidden: int = 64

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        """On a GCN of two layers and the whole graph."""
        return self.prune_from(Start.gcn(graph, self.hidden), graph, run)

    def solve_from(self, plan: Plan, graph: Graph, run: RunContext) -> Solution:
        """On the architecture, the weights and the edges that a search has kept."""
        return self.prune_from(Start.of(plan, graph), graph, run)

    @abstractmethod
    def prune_from(self, start: Start, graph: Graph, run: RunContext) -> Solution: ...


def take_over(net: Net, source: Net, keep: list[Tensor]) -> Net:
    """`net` with the weights of `source`, the pruned ones at 0."""
    state = source.state_dict()
    taken = {name: state[name] for name in state if name.startswith(("layers.", "norms."))}
    net.load_state_dict(taken, strict=False)
    net.prune(keep)
    return net


def step_alone(
    optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter], loss: Tensor
) -> None:
    """One step of these parameters and no others, down `loss`."""
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()


def drop_lowest(score: Tensor, alive: Tensor, share: float) -> Tensor:
    """`alive` without the lowest `share` of it: exactly round(share · n) of n go."""
    count = int(alive.sum())
    return highest(score.masked_fill(~alive, -torch.inf), count - round(share * count))


def flat(parts: Sequence[Tensor]) -> Tensor:
    """The entries of all layers in one row, for a ranking over all of them."""
    return torch.cat([part.flatten() for part in parts])


def apart(row: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The inverse of `flat`."""
    parts = row.split([part.numel() for part in like])
    return [part.view_as(shape) for part, shape in zip(parts, like, strict=True)]


def check_shares(shares: Mapping[str, float]) -> None:
    """Each at least 0 and below 1: something has to remain."""
    for name, value in shares.items():
        if not 0 <= value < 1:
            raise GassipError(f"{name} is {value}; it must be at least 0 and below 1")
