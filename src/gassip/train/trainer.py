"""Train one net on one graph; every method ends here (end of Sec. 4.4).

The epoch kept is the one with the best validation score (ties: the lower validation loss), of a net
that is pruned on the way among those after. Test labels are read once, after that choice.
"""

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.graph.graph import Graph
from gassip.metrics import Metric, all_scores, score
from gassip.nn.net import Architecture, Model, Net, net_for
from gassip.nn.propagate import MaskedGraph
from gassip.nn.size import Size, size_of
from gassip.settings import Gassip
from gassip.train.gradual_pruning import Pruning
from gassip.train.label_propagation import known_labels, opinion, opinion_in_training
from gassip.train.losses import Loss, lesson, supervised


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
    feature_index: Tensor | None = None  # [kept] int64: the columns of x the net reads; None: all
    teacher: Tensor | None = (
        None  # [N, C] class shares that the net is also trained towards; None: labels alone
    )
    searched: Gassip | None = (
        None  # what the search began with, where the contest chose other settings; None: the same
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Solution:
    """A trained net and the graph it runs on."""

    model: Model
    graph: Graph  # with the kept edges only
    scores: dict[str, dict[str, float]]  # metric -> split -> value
    weights_kept: int
    weights_total: int
    edges_kept: int
    edges_total: int
    seconds: float
    best_epoch: int
    size: Size | None = None  # of a `Net`: what is physically there
    details: dict[str, object] = field(
        default_factory=dict
    )  # what a method has to say beyond the counts

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
    model: Model,
    graph: Graph,
    *,
    epochs: int,
    lr: float,
    weight_decay: float,
    metric: Metric = "accuracy",
    loss: Loss = supervised,
    keep: str = "best",
    pruning: Pruning | None = None,
    on_epoch: Callable[[dict[str, float]], None] | None = None,
) -> int:
    """Adam on `loss`; leaves `model` at its best validation epoch, or its `last`, and returns that
    epoch (from 1)."""
    if pruning is not None:
        pruning.check(model)
    masked = MaskedGraph.of(graph, lasting=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay, fused=True)
    best, best_state, best_epoch = (-torch.inf, -torch.inf), model.state_dict(), 0
    for epoch in range(1, epochs + 1):
        model.train()
        optimizer.zero_grad()
        value_of_loss = loss(model, graph, masked, epoch)
        value_of_loss.backward()
        optimizer.step()
        if pruning is not None:
            pruning.step(model, epoch)
        settled = (
            pruning is None or epoch >= pruning.last
        )  # before, it is not yet the net that it is to be
        candidate = settled and (keep == "best" or epoch == epochs)
        row: dict[str, float] = {"epoch": epoch}
        if candidate or (settled and on_epoch):
            value, val_loss = validate(model, graph, masked, metric)
            row |= {"val_loss": val_loss, "val_score": value}
            if candidate and ((value, -val_loss) > best or keep == "last"):
                best, best_epoch = (value, -val_loss), epoch
                best_state = (
                    copy.deepcopy(model.state_dict()) if keep == "best" else model.state_dict()
                )
        if on_epoch:
            on_epoch(row | {"train_loss": float(value_of_loss.detach())})
    model.load_state_dict(best_state)
    model.zero_pruned()
    model.heard = None
    model.eval()
    return best_epoch


@torch.no_grad()
def validate(
    model: Model, graph: Graph, masked: MaskedGraph, metric: Metric
) -> tuple[float, float]:
    """Validation score and loss; where the metric is not defined there, minus the loss stands in
    for it."""
    model.eval()
    return judged(model.run(graph.x, masked), graph, metric)


def judged(scores: Tensor, graph: Graph, metric: Metric) -> tuple[float, float]:
    """Validation score and loss of class scores [N, C]."""
    logits, y = scores[graph.val_mask], graph.y[graph.val_mask]
    loss = float(F.cross_entropy(logits, y))
    value = score(metric, logits, y)
    return -loss if value is None else value, loss


@torch.no_grad()
def predict(model: Model, graph: Graph) -> Tensor:
    """Class scores of every node, [N, C]; with what training labels say, where they count beside
    the model."""
    model.eval()
    masked = MaskedGraph.of(graph)
    scores = model.run(graph.x, masked)
    if not model.label_weight or not bool(graph.train_mask.any()):
        return scores
    return scores + model.label_weight * opinion(known_labels(graph), graph.num_classes, masked)


def solve(
    graph: Graph,
    build: Callable[[], Model],
    *,
    epochs: int,
    lr: float,
    weight_decay: float,
    seed: int,
    metric: Metric = "accuracy",
    loss: Loss = supervised,
    keep: str = "best",
    pruning: Pruning | None = None,
    edges_total: int | None = None,
    on_epoch: Callable[[dict[str, float]], None] | None = None,
) -> Solution:
    """Build a model, train it on `graph` as it is, and count what it is made of; all randomness
    follows from `seed`."""
    began = time.perf_counter()
    with seeded(seed, graph.device):
        model = build().to(graph.device)
        best_epoch = train(
            model,
            graph,
            epochs=epochs,
            lr=lr,
            weight_decay=weight_decay,
            metric=metric,
            loss=loss,
            keep=keep,
            pruning=pruning,
            on_epoch=on_epoch,
        )
    return conclude(model, graph, began=began, best_epoch=best_epoch, edges_total=edges_total)


def conclude(
    model: Model,
    graph: Graph,
    *,
    began: float,
    best_epoch: int,
    edges_total: int | None = None,
    details: dict[str, object] | None = None,
) -> Solution:
    """Score a trained model and count what it is made of; `began` is a reading of
    `time.perf_counter`."""
    kept, total = model.num_weights()
    return Solution(
        model=model,
        graph=graph,
        scores=all_scores(predict(model, graph), graph),
        weights_kept=kept,
        weights_total=total,
        edges_kept=graph.num_edges,
        edges_total=graph.num_edges if edges_total is None else edges_total,
        seconds=time.perf_counter() - began,
        best_epoch=best_epoch,
        size=size_of(model, graph) if isinstance(model, Net) else None,
        details=details or {},
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
    settings, graph = found.settings, oriented(graph, found.settings)
    kept = sparser(graph, found)
    return solve(
        kept,
        lambda: hearing(found_net(graph, found), kept, settings),
        epochs=settings.retrain_epochs,
        lr=settings.retrain_lr,
        weight_decay=settings.retrain_weight_decay,
        seed=seed,
        metric=metric,
        loss=lesson(settings, found.teacher),
        keep=settings.keep_epoch,
        pruning=Pruning.of(settings),
        edges_total=graph.num_edges,
        on_epoch=on_epoch,
    )


def hearing(net: Net, graph: Graph, settings: Gassip) -> Net:
    """The net, beside which training labels count as much as the settings say."""
    net.label_weight = settings.label_weight
    if net.label_weight:
        said = opinion_in_training(known_labels(graph), graph.num_classes, MaskedGraph.of(graph))
        net.heard = net.label_weight * said
    return net


def found_net(graph: Graph, found: Found) -> Net:
    """The found architecture with its pruned weights, at the start that the settings name."""
    net = net_for(graph, found.architecture, found.settings.retrain_dropout, found.feature_index)
    starts = {"fresh": {}, "rewind": found.first_weights, "inherit": found.last_weights}
    net.load_state_dict(starts[found.settings.retrain_start], strict=False)
    net.prune(found.weight_keep)
    return net


def oriented(graph: Graph, settings: Gassip) -> Graph:
    """The graph as the settings have its edges read: as given, or both ways."""
    return graph.both_ways if settings.direction == "both" else graph


def sparser(graph: Graph, found: Found) -> Graph:
    """The graph with the kept edges only; they weigh M_G (`soft`) or as given (`binary`)."""
    graph = oriented(graph, found.settings)
    soft = found.settings.kept_edges == "soft" and found.settings.sparsify
    return graph.keep(found.edge_keep, graph.weight * found.edge_mask if soft else None)
