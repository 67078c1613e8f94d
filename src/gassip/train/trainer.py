"""Train one net on one graph; every method ends here (end of Sec. 4.4).

The epoch kept is the one with the best validation score (ties: the lower validation loss), of all
or of the later half of the epochs; of a net that is pruned on the way among those after. Test
labels are read once, after that choice.
"""

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import cos, pi

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.graph.graph import Graph
from gassip.metrics import Metric, all_scores, score
from gassip.nn.net import Model, Net, net_for
from gassip.nn.propagate import MaskedGraph
from gassip.nn.size import size_of
from gassip.threads import on_one_thread
from gassip.train.adam import Adam
from gassip.train.allocation import keep_freed_memory
from gassip.train.by_rows import ByRows, loss_of
from gassip.train.deadline import Deadline, TimeUp
from gassip.train.divergence import check_loss, check_scores
from gassip.train.gradual_pruning import Pruning
from gassip.train.label_propagation import (
    known_labels,
    label_logits,
    out_of_fold_label_logits,
)
from gassip.train.losses import Loss, supervised
from gassip.train.output_bias import add_output_bias, fit_output_bias
from gassip.train.plan import Plan, Solution

State = dict[str, Tensor]  # of a model


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Everything random inside follows from `seed`; the caller's random state is untouched."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


@dataclass
class Best:
    """The best net of a training so far: its state, epoch and (score, −loss)."""

    state: State
    epoch: int = 0
    value: tuple[float, float] = (-torch.inf, -torch.inf)

    def offer(self, model: Model, value: tuple[float, float], epoch: int) -> None:
        if value > self.value:
            self.state, self.epoch = copy.deepcopy(model.state_dict()), epoch
            self.value = value

    def at_deadline(self, model: Model, epoch: int, pruning: Pruning | None) -> None:
        """After `epoch` nothing more is trained: the best so far stays, else the present net."""
        if self.epoch:
            return
        if pruning is not None:
            raise TimeUp
        self.state, self.epoch = model.state_dict(), epoch


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
    schedule: str = "constant",
    validate_every: int = 1,
    pruning: Pruning | None = None,
    on_epoch: Callable[[dict[str, float]], None] | None = None,
    deadline: Deadline | None = None,
) -> int:
    """Adam on `loss`, validated every few epochs and in the last; leaves `model` at its best
    validation epoch, of all or of the `late` ones, or its `last`, and returns that epoch (from 1).
    A deadline ends the training after any epoch; `TimeUp` if no net is left then: one that is
    pruned on the way was not yet as small as it is to be."""
    if pruning is not None:
        pruning.check(model)
    keep_freed_memory()
    masked = MaskedGraph.of(graph, lasting=True)
    weights = list(model.parameters())
    step = Adam(lr, weight_decay).of(weights)
    best = Best(model.state_dict())
    for epoch in range(1, epochs + 1):
        if deadline is not None and deadline.passed and epoch > 1:
            best.at_deadline(model, epoch - 1, pruning)
            break
        model.train()
        factor = decayed(schedule, epoch, epochs)
        for value_of_loss in losses(model, graph, masked, loss, epoch):
            check_loss(value_of_loss, graph, epoch, lr)
            for weight in weights:
                weight.grad = None
            value_of_loss.backward()
            step([weight.grad for weight in weights], factor)
        if pruning is not None:
            pruning.step(model, epoch)
        # before, it is not yet the net that it is to be
        settled = pruning is None or epoch >= pruning.last
        settled = settled and (epoch % validate_every == 0 or epoch == epochs)
        candidate = settled and may_be_kept(keep, epoch, epochs)
        row: dict[str, float] = {"epoch": epoch}
        if candidate or (settled and on_epoch):
            value, val_loss = validate(model, graph, masked, metric)
            row |= {"val_loss": val_loss, "val_score": value}
            if candidate and keep == "last":
                best.state, best.epoch = model.state_dict(), epoch
            elif candidate:
                best.offer(model, (value, -val_loss), epoch)
        if on_epoch:
            on_epoch(row | {"train_loss": float(value_of_loss.detach())})
    model.load_state_dict(best.state)
    model.zero_pruned()
    model.label_logits = None
    model.eval()
    return best.epoch


def losses(
    model: Model, graph: Graph, masked: MaskedGraph, loss: Loss, epoch: int
) -> Iterator[Tensor]:
    """One loss for each step of an epoch: of the whole graph, or of mini-batches of rows."""
    if isinstance(loss, ByRows) and isinstance(model, Net) and loss.suits(model, graph):
        yield from loss.batches(model, graph, masked)
    else:
        yield loss(model, graph, masked, epoch)


def may_be_kept(keep: str, epoch: int, epochs: int) -> bool:
    """Any epoch, the later half, or the last alone; the last one always."""
    return keep == "best" or (keep == "late" and 2 * epoch > epochs) or epoch == epochs


def decayed(schedule: str, epoch: int, epochs: int) -> float:
    """The factor of the learning rate in an epoch (from 1): (1 + cos(π (e − 1) / T)) / 2, or 1."""
    return (1 + cos(pi * (epoch - 1) / epochs)) / 2 if schedule == "cosine" else 1.0


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
    return scores + model.label_weight * label_logits(
        known_labels(graph), graph.num_classes, masked
    )


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
    schedule: str = "constant",
    validate_every: int = 1,
    pruning: Pruning | None = None,
    edges_total: int | None = None,
    on_epoch: Callable[[dict[str, float]], None] | None = None,
    deadline: Deadline | None = None,
    fit: bool = False,
    bias: tuple[float, ...] = (),
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
            schedule=schedule,
            validate_every=validate_every,
            pruning=pruning,
            on_epoch=on_epoch,
            deadline=deadline,
        )
        if isinstance(model, Net):
            if fit and not bias:
                fit_output_bias(model, graph)
            add_output_bias(model, bias)
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
    predicted = predict(model, graph)
    check_scores(predicted, graph)
    return Solution(
        model=model,
        graph=graph,
        scores=all_scores(predicted, graph),
        weights_kept=kept,
        weights_total=total,
        edges_kept=graph.num_edges,
        edges_total=graph.num_edges if edges_total is None else edges_total,
        seconds=time.perf_counter() - began,
        best_epoch=best_epoch,
        size=size_of(model, graph) if isinstance(model, Net) else None,
        details=details or {},
    )


@on_one_thread
def retrain(
    graph: Graph,
    plan: Plan,
    *,
    seed: int = 0,
    metric: Metric = "accuracy",
    on_epoch: Callable[[dict[str, float]], None] | None = None,
    deadline: Deadline | None = None,
) -> Solution:
    """Train what a search found on the sparser graph, with the pruned weights at exactly 0."""
    recipe, kept = plan.recipe, plan.on(graph)
    return solve(
        kept,
        lambda: with_label_logits(
            planned_net(kept, plan), kept, recipe.label_weight, recipe.labels_in_training
        ),
        epochs=recipe.epochs,
        lr=recipe.lr,
        weight_decay=recipe.weight_decay,
        seed=seed,
        metric=metric,
        loss=loss_of(recipe, plan.teacher),
        keep=recipe.keep_epoch,
        schedule=recipe.schedule,
        validate_every=recipe.validate_every,
        pruning=Pruning.of(recipe),
        edges_total=plan.edge_keep.numel(),
        on_epoch=on_epoch,
        deadline=deadline,
        fit=recipe.fit_bias,
        bias=recipe.output_bias,
    )


def with_label_logits(net: Net, graph: Graph, weight: float, in_training: bool = True) -> Net:
    """The net, to whose logits label-propagation logits are added with this weight: in training
    and at prediction, or at prediction alone."""
    net.label_weight = weight
    if weight and in_training:
        logits = out_of_fold_label_logits(
            known_labels(graph), graph.num_classes, MaskedGraph.of(graph)
        )
        net.label_logits = weight * logits
    return net


def planned_net(graph: Graph, plan: Plan) -> Net:
    """The plan's architecture with its pruned weights, at the start that the recipe names."""
    net = net_for(graph, plan.architecture, plan.recipe.dropout, plan.feature_index)
    starts = {"fresh": {}, "rewind": plan.first_weights, "inherit": plan.last_weights}
    net.load_state_dict(starts[plan.recipe.start], strict=False)
    net.prune(plan.weight_keep)
    return net
