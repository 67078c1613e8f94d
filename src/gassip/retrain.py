"""Train one net on one graph; every method ends here (end of Sec. 4.4).

The epoch kept is the one with the best validation score (ties: the lower validation loss). Test labels are read once,
after that choice.
"""

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.graph import Graph
from gassip.metrics import Metric, all_scores, score
from gassip.ops import MaskedGraph
from gassip.settings import Gassip
from gassip.space import Architecture, Net, net_for


@dataclass(frozen=True, eq=False, kw_only=True)
class Found:
    """What a search hands over: an architecture, which of its weights exist, which edges exist."""

    settings: Gassip
    architecture: Architecture
    weight_keep: list[Tensor]  # per layer, bool, of the shape of its weight
    edge_keep: Tensor  # [E] bool
    edge_mask: Tensor  # [E] M_G at the end; ones without sparsification
    first_weights: dict[str, Tensor]  # the net's parameters as the search started (rewind)
    last_weights: dict[str, Tensor]  # and as it ended, masks multiplied in (inherit)
    history: list[dict[str, float | str]]
    seconds: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Solution:
    """A trained net and the graph it runs on."""

    model: Net
    graph: Graph  # with the kept edges only
    scores: dict[str, dict[str, float]]  # metric -> split -> value
    weights_kept: int
    weights_total: int
    edges_kept: int
    edges_total: int
    seconds: float
    best_epoch: int

    @property
    def accuracy(self) -> dict[str, float]:
        return self.scores["accuracy"]


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Everything random inside follows from `seed`; the caller's random state is untouched."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def train(
    net: Net,
    graph: Graph,
    *,
    epochs: int,
    lr: float,
    weight_decay: float,
    metric: Metric = "accuracy",
    on_epoch: Callable[[dict[str, float]], None] | None = None,
) -> int:
    """Adam on the training nodes; leaves `net` at its best validation epoch and returns that epoch (from 1)."""
    masked = MaskedGraph.of(graph)
    optimizer = torch.optim.Adam(net.parameters(), lr=lr, weight_decay=weight_decay, fused=True)
    best, best_state, best_epoch = (-torch.inf, -torch.inf), net.state_dict(), 0
    for epoch in range(1, epochs + 1):
        net.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(net.run(graph.x, masked)[graph.train_mask], graph.y[graph.train_mask])
        loss.backward()
        optimizer.step()
        value, val_loss = validate(net, graph, masked, metric)
        if (value, -val_loss) > best:
            best, best_state, best_epoch = (value, -val_loss), copy.deepcopy(net.state_dict()), epoch
        if on_epoch:
            on_epoch({"epoch": epoch, "train_loss": float(loss), "val_loss": val_loss, "val_score": value})
    net.load_state_dict(best_state)
    net.zero_pruned()
    net.eval()
    return best_epoch


@torch.no_grad()
def validate(net: Net, graph: Graph, masked: MaskedGraph, metric: Metric) -> tuple[float, float]:
    """Validation score and loss; where the metric is not defined there, minus the loss stands in for it."""
    net.eval()
    logits, y = net.run(graph.x, masked)[graph.val_mask], graph.y[graph.val_mask]
    loss = float(F.cross_entropy(logits, y))
    value = score(metric, logits, y)
    return -loss if value is None else value, loss


@torch.no_grad()
def predict(net: Net, graph: Graph) -> Tensor:
    """Class scores of every node, [N, C]."""
    net.eval()
    return net.run(graph.x, MaskedGraph.of(graph))


def solve(
    graph: Graph,
    architecture: Architecture,
    *,
    epochs: int,
    lr: float,
    weight_decay: float,
    dropout: float,
    seed: int,
    metric: Metric = "accuracy",
    edges_total: int | None = None,
    weight_keep: list[Tensor] | None = None,
    start: dict[str, Tensor] | None = None,
    on_epoch: Callable[[dict[str, float]], None] | None = None,
) -> Solution:
    """Train one architecture on `graph` as it is; `weight_keep` prunes it first, `start` sets its weights."""
    began = time.perf_counter()
    with seeded(seed, graph.device):
        net = net_for(graph, architecture, dropout)
        if start is not None:
            net.load_state_dict(start, strict=False)
        if weight_keep is not None:
            net.prune(weight_keep)
        best_epoch = train(net, graph, epochs=epochs, lr=lr, weight_decay=weight_decay, metric=metric, on_epoch=on_epoch)
    kept, total = net.num_weights()
    return Solution(
        model=net,
        graph=graph,
        scores=all_scores(predict(net, graph), graph),
        weights_kept=kept,
        weights_total=total,
        edges_kept=graph.num_edges,
        edges_total=graph.num_edges if edges_total is None else edges_total,
        seconds=time.perf_counter() - began,
        best_epoch=best_epoch,
    )


def retrain(
    graph: Graph,
    found: Found,
    *,
    seed: int = 0,
    metric: Metric = "accuracy",
    on_epoch: Callable[[dict[str, float]], None] | None = None,
) -> Solution:
    """Train what a search found on the sparser graph, with the pruned weights at exactly 0."""
    settings = found.settings
    starts = {"fresh": None, "rewind": found.first_weights, "inherit": found.last_weights}
    return solve(
        sparser(graph, found),
        found.architecture,
        epochs=settings.retrain_epochs,
        lr=settings.retrain_lr,
        weight_decay=settings.retrain_weight_decay,
        dropout=settings.retrain_dropout,
        seed=seed,
        metric=metric,
        edges_total=graph.num_edges,
        weight_keep=found.weight_keep,
        start=starts[settings.retrain_start],
        on_epoch=on_epoch,
    )


def sparser(graph: Graph, found: Found) -> Graph:
    """The graph with the kept edges only; they weigh M_G (`soft`) or as given (`binary`)."""
    soft = found.settings.kept_edges == "soft" and found.settings.sparsify
    return graph.keep(found.edge_keep, graph.weight * found.edge_mask if soft else None)
