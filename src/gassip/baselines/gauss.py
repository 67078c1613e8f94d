"""GAUSS: architectures drawn from a controller train one supernet, weighted by importance, on a
curriculum of nodes.

    a ~ p,   r(a) = Π_l 1 / (|O| p(a_l)), clipped,   L = mean_a r(a) · mean_{i ∈ V_L} v_i CE(z_i^a,
             y_i)
    v_i = m_t for the nodes that the best drawn architecture gets wrong with confidence above
        min(5/C, .7), else 1
    m_t = m_0 + (1 − m_0) t / T,   controller ← REINFORCE on the supernet's validation score

Guan et al., Large-Scale Graph Neural Architecture Search, ICML 2022. Until `warmup_epochs`
architectures are drawn evenly. At the end every architecture is scored in the supernet (or
`candidates` drawn ones, where there are more), and the best is trained from scratch.

Shapes: L layers, O operations, N nodes, C classes.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gassip.baselines._shared.baseline import Baseline
from gassip.baselines._shared.controller import Controller, Draw, Reinforce
from gassip.baselines._shared.extra_ops import make_op
from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.metrics import Metric, score
from gassip.nn.dropout import drop
from gassip.nn.net import Model
from gassip.nn.propagate import MaskedGraph
from gassip.settings.presets import NARROW_FROM
from gassip.train.context import RunContext
from gassip.train.plan import Solution
from gassip.train.trainer import seeded, solve

OPS = ("GATv2Conv", "GCNConv", "SAGEConv", "Linear", "GINConv", "GraphConv")
Path = tuple[int, ...]


class GaussNet(Model):
    """`choices[l]` are the operations of layer l; with one each it is a net, with all of them the
    supernet.

    A hidden layer is operation, batch norm of its own, ReLU. The supernet always uses batch
    statistics.
    """

    def __init__(
        self,
        graph: Graph,
        choices: Sequence[tuple[str, ...]],
        hidden: int,
        heads: int,
        dropout: float,
        *,
        norm: bool,
        track: bool,
    ) -> None:
        super().__init__()
        widths = [graph.num_features, *[hidden] * (len(choices) - 1), graph.num_classes]
        self.dropout = dropout
        self.layers = nn.ModuleList(
            nn.ModuleList(
                make_op(n, widths[l], widths[l + 1], heads if l + 1 < len(choices) else 1)
                for n in names
            )
            for l, names in enumerate(choices)
        )
        self.norms = nn.ModuleList(
            nn.ModuleList(
                nn.BatchNorm1d(hidden, track_running_stats=track) if norm else nn.Identity()
                for _ in names
            )
            for names in choices[:-1]
        )

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        return self.along(x, graph, (0,) * len(self.layers))

    def along(self, x: Tensor | Csr, graph: MaskedGraph, path: Path) -> Tensor:
        """Class scores [N, C] of one architecture."""
        h: Tensor | Csr = x
        for l, k in enumerate(path):
            op = _at(self.layers, l, k)
            h = op(drop(h, self.dropout if self.training else 0.0), graph)
            if l + 1 < len(path):
                h = F.relu(_at(self.norms, l, k)(h))
        assert isinstance(h, Tensor)
        return h


def _at(table: nn.ModuleList, l: int, k: int) -> nn.Module:
    row = table[l]
    assert isinstance(row, nn.ModuleList)
    return row[k]


def importance(log_prob: Tensor, options: int, low: float, high: float) -> Tensor:
    """Π_l 1 / (|O| p_l) of each draw, clipped, [B]; log_prob is [B, L]."""
    return torch.exp(-(log_prob + torch.log(torch.tensor(float(options)))).sum(1)).clamp(low, high)


def floor_weight(epoch: int, epochs: int, start: float) -> float:
    """m_t: what a node judged too hard weighs in epoch t of T, linearly from `start` to 1."""
    return start + (1 - start) * epoch / epochs


def node_weights(logits: Tensor, y: Tensor, floor: float, share: float) -> Tensor:
    """v [n]: `floor` for confidently wrong nodes, the surest first and at most `share` of all; 1
    for the others."""
    chance, guess = torch.softmax(logits, 1).max(1)
    bar = min(5 / logits.shape[1], 0.7)
    hard = torch.nonzero((guess != y) & (chance > bar)).squeeze(1)
    hard = hard[
        torch.sort(chance[hard], descending=True, stable=True).indices[: int(share * y.numel())]
    ]
    weight = torch.ones(y.numel(), device=y.device)
    weight[hard] = floor
    return weight


@dataclass(frozen=True, kw_only=True)
class Gauss(Baseline):
    """The supernet, its controller and its curriculum."""

    layers: int = 2
    hidden: int = 64
    heads: int = 2
    dropout: float = 0.8
    batch_norm: bool = True  # as published; `of` leaves it out of small graphs
    epochs: int = 250
    warmup_epochs: int = 50
    drawn: int = 4  # architectures per epoch
    lr: float = 0.01
    weight_decay: float = 5e-4
    min_clip: float = 0.5
    max_clip: float = 2.0
    curriculum_start: float = 0.1
    curriculum_share: float = 0.2
    controller_every: int = 5  # epochs between the controller's lessons
    controller_draws: int = 5  # architectures per lesson
    controller_lr: float = 1e-3
    baseline_decay: float = 0.9
    entropy: float = 0.0
    candidates: int = 100
    retrain_epochs: int = 300
    retrain_lr: float = 0.01
    retrain_weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        if not 0 < self.min_clip <= 1 <= self.max_clip:
            raise GassipError(
                f"the clip is {self.min_clip} to {self.max_clip}; it must lie around 1, above 0"
            )
        if not 0 <= self.curriculum_start <= 1:
            raise GassipError(
                f"curriculum_start is {self.curriculum_start}; a weight lies between 0 and 1"
            )

    @classmethod
    def for_graph(cls, graph: Graph) -> Self:
        """With batch norm from 30,000 nodes on, where the paper too brings it in; on 120 labels it
        costs accuracy."""
        return cls(batch_norm=graph.num_nodes >= NARROW_FROM)

    def search_ops(
        self, graph: Graph, run: RunContext
    ) -> tuple[tuple[str, ...], dict[str, object]]:
        """The architecture, and how the supernet ranked it."""
        with seeded(run.seed, graph.device):
            state = State(self, graph, run.metric)
            for epoch in range(1, self.epochs + 1):
                if epoch > self.warmup_epochs and epoch % self.controller_every == 0:
                    state.teach()
                state.step(epoch)
            table = state.table()
        best = max(table, key=lambda path: table[path])
        named = {" ‖ ".join(OPS[k] for k in path): value for path, value in table.items()}
        return tuple(OPS[k] for k in best), {"supernet_scores": named}

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        began = time.perf_counter()
        ops, details = self.search_ops(graph, run)
        spent = time.perf_counter() - began
        solution = solve(
            graph,
            lambda: GaussNet(
                graph,
                [(name,) for name in ops],
                self.hidden,
                self.heads,
                self.dropout,
                norm=self.batch_norm,
                track=True,
            ),
            epochs=self.retrain_epochs,
            lr=self.retrain_lr,
            weight_decay=self.retrain_weight_decay,
            seed=run.seed,
            metric=run.metric,
            on_epoch=run.on_event,
        )
        details = {"architecture": " ‖ ".join(ops), "search_seconds": spent} | details
        return replace(solution, seconds=solution.seconds + spent, details=details)


class State:
    """Everything that moves during a search."""

    def __init__(self, settings: Gauss, graph: Graph, metric: Metric) -> None:
        self.settings, self.graph, self.metric = settings, graph, metric
        self.masked = MaskedGraph.of(graph)
        choices = [OPS] * settings.layers
        self.net = GaussNet(
            graph,
            choices,
            settings.hidden,
            settings.heads,
            settings.dropout,
            norm=settings.batch_norm,
            track=False,
        )
        self.net.to(graph.device)
        self.optimizer = torch.optim.Adam(
            self.net.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True
        )
        steps = [f"layer{l}" for l in range(settings.layers)]
        self.controller = Controller(
            steps, dict.fromkeys(steps, len(OPS)), tanh_constant=None, temperature=1.0
        ).to(graph.device)
        self.teacher = Reinforce(
            self.controller,
            lr=settings.controller_lr,
            decay=settings.baseline_decay,
            entropy=settings.entropy,
        )

    @torch.no_grad()
    def draw(self, epoch: int) -> tuple[list[Path], Tensor]:
        """Architectures and their importance: evenly at first, then from the controller."""
        settings = self.settings
        if epoch <= settings.warmup_epochs:
            actions = torch.randint(len(OPS), (settings.drawn, settings.layers))
            return [tuple(row) for row in actions.tolist()], torch.ones(
                settings.drawn, device=self.graph.device
            )
        draw: Draw = self.controller.draw(settings.drawn)
        weight = importance(draw.log_prob, len(OPS), settings.min_clip, settings.max_clip)
        return [tuple(row) for row in draw.actions.tolist()], weight

    def step(self, epoch: int) -> None:
        """One step of the supernet's weights."""
        settings, nodes = self.settings, self.graph.train_mask
        y = self.graph.y[nodes]
        self.net.train()
        paths, weight = self.draw(epoch)
        logits = [self.net.along(self.graph.x, self.masked, path)[nodes] for path in paths]
        judge = max(logits, key=lambda z: float((z.argmax(1) == y).float().mean())).detach()
        floor = floor_weight(epoch, settings.epochs, settings.curriculum_start)
        easy = node_weights(judge, y, floor, settings.curriculum_share)
        losses = torch.stack(
            [(easy * F.cross_entropy(z, y, reduction="none")).mean() for z in logits]
        )
        self.optimizer.zero_grad()
        (weight * losses).mean().backward()
        self.optimizer.step()

    def teach(self) -> None:
        """One step of the controller."""
        draw = self.controller.draw(self.settings.controller_draws)
        rewards = [self.value(tuple(row))[0] for row in draw.actions.tolist()]
        self.teacher.step(draw, torch.tensor(rewards, device=self.graph.device))

    @torch.no_grad()
    def value(self, path: Path) -> tuple[float, float]:
        """Validation score and minus the loss of one architecture inside the supernet."""
        self.net.eval()
        nodes = self.graph.val_mask
        logits, y = self.net.along(self.graph.x, self.masked, path)[nodes], self.graph.y[nodes]
        loss = float(F.cross_entropy(logits, y))
        value = score(self.metric, logits, y)
        return -loss if value is None else value, -loss

    @torch.no_grad()
    def table(self) -> dict[Path, tuple[float, float]]:
        """Every architecture in the supernet, or as many as `candidates` of the controller's."""
        if len(OPS) ** self.settings.layers <= self.settings.candidates:
            paths = list(product(range(len(OPS)), repeat=self.settings.layers))
        else:
            paths = sorted(
                {
                    tuple(row)
                    for row in self.controller.draw(self.settings.candidates).actions.tolist()
                }
            )
        return {path: self.value(path) for path in paths}
