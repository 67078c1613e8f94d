"""Trainings whose validation decides: each net with its own seed, told of in one row.

Shapes: N nodes, C classes, n validation nodes.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from gassip.best.calibration import log_likelihood
from gassip.best.rules import SCORE_SIGMAS
from gassip.best.significance import Validation, gain, likelier
from gassip.best.spectral import spectral_probs
from gassip.graph.graph import Graph
from gassip.metrics import Metric, score
from gassip.nn.net import Architecture, Net, net_for
from gassip.nn.size import count_macs
from gassip.settings.training import Recipe
from gassip.train.by_rows import loss_of
from gassip.train.deadline import Deadline
from gassip.train.gradual_pruning import Pruning
from gassip.train.leaderboard import Standing, kind_of
from gassip.train.output_bias import fit_output_bias
from gassip.train.plan import Row
from gassip.train.processes import each
from gassip.train.trainer import judged, predict, seeded, train, with_label_logits

QUICK_MS = 50.0  # milliseconds of a pass that is measured twice


@dataclass(frozen=True, eq=False, kw_only=True)
class Trial:
    """One trained net, and how it validates."""

    recipe: Recipe
    architecture: Architecture
    net: Net
    first: dict[str, Tensor]  # its parameters before training
    value: float  # validation score
    probs: Tensor  # [N, C] softmax z_i
    validation: Validation  # the same of the validation nodes
    name: str = ""  # stage and number
    best_epoch: int = 0  # the one kept, from 1


Trained = tuple[dict[str, Tensor], float, int]  # a net's weights, its seconds, the epoch kept
Arrays = tuple[dict[str, np.ndarray], float, int]  # the same, as a process sends it


class Memory(Protocol):
    """Where trials keep their nets, so that a killed search need not train them again."""

    def recall(self, name: str) -> Trained | None:
        """The weights of the net of this name, the seconds it took and the epoch kept; None: yet
        to train."""

    def remember(self, name: str, trained: Trained) -> None: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Request:
    """One training that is asked for; `what` names it within its stage, if it has a name."""

    architecture: Architecture
    recipe: Recipe
    graph: Graph
    teacher: Tensor | None = None  # [N, C] soft labels
    feature_index: Tensor | None = None  # columns of x that the net reads; None: all
    what: str = ""
    may_end: bool = False  # whether a training that the deadline ends counts
    start: dict[str, Tensor] | None = None  # the net's state before training; None: drawn anew

    def same(self, other: "Request") -> bool:
        """Whether both ask for the same training, but for its seed."""
        mine, theirs = ((own.architecture, own.recipe, own.may_end) for own in (self, other))
        tensors = (
            self.graph is other.graph
            and self.teacher is other.teacher
            and self.feature_index is other.feature_index
            and self.start is other.start
        )
        return mine == theirs and tensors


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """A request with the name and the seed of its net: all that its bits follow from."""

    request: Request
    stage: str
    name: str
    seed: int
    metric: Metric
    deadline: Deadline | None = None

    def net(self) -> Net:
        """The net before training, under its seed."""
        own = self.request
        architecture = shaped_by(own.architecture, own.recipe)
        net = net_for(own.graph, architecture, own.recipe.dropout, own.feature_index)
        if own.start is not None:
            net.restore(own.start)
        return with_label_logits(net, own.graph, own.recipe.label_weight)

    def train(self) -> Trained:
        """The weights of the trained net, the seconds it took and the epoch kept."""
        began, own = time.perf_counter(), self.request
        with seeded(self.seed, own.graph.device):
            net = self.net()
            epoch = train_by(net, own.graph, own.recipe, own.teacher, self.metric, self.deadline)
            if own.recipe.fit_bias:
                fit_output_bias(net, own.graph)
        if self.deadline is not None and not own.may_end:
            self.deadline.check()
        return net.state_dict(), time.perf_counter() - began, epoch


def shaped_by(architecture: Architecture, recipe: Recipe) -> Architecture:
    """With the norms that the recipe has."""
    return replace(architecture, batch_norm=recipe.batch_norm, standardised=recipe.standardised)


class Trials:
    """Trains nets, each with its own seed, and tells of each in one row. Nets that are asked for
    together are trained in `jobs` processes; their bits do not depend on how many these are."""

    def __init__(
        self,
        graph: Graph,
        *,
        seed: int,
        metric: Metric,
        tell: Callable[[Row], None],
        first_epoch: int = 0,
        memory: Memory | None = None,
        jobs: int = 1,
        deadline: Deadline | None = None,
        prefix: str = "",
    ) -> None:
        self.deadline, self.prefix = deadline, prefix  # of names; seeds do not follow from it
        self.on_trial: Callable[[Request, Trial], None] | None = None
        self.graph = replace(graph, test_mask=torch.zeros_like(graph.test_mask))  # never looked at
        self.seed, self.metric, self.tell = seed, metric, tell
        self.number, self.memory = first_epoch, memory
        self.jobs = jobs if graph.device.type == "cpu" else 1
        self.counts: dict[str, int] = {}  # trainings of each stage so far
        self.board: list[Standing] = []  # every net so far
        self.done: list[tuple[Request, Trial]] = []

    def train(
        self,
        stage: str,
        architecture: Architecture,
        recipe: Recipe,
        graph: Graph,
        *,
        teacher: Tensor | None = None,
        feature_index: Tensor | None = None,
    ) -> Trial:
        """Train `architecture` by `recipe` on `graph`."""
        request = Request(
            architecture=architecture,
            recipe=recipe,
            graph=graph,
            teacher=teacher,
            feature_index=feature_index,
        )
        return self.train_all(stage, [request])[0]

    def train_all(self, stage: str, requests: Sequence[Request]) -> list[Trial]:
        """Every net that is asked for, in that order; one that was trained before is not trained
        again."""
        return self.train_stages([(stage, request) for request in requests])

    def train_stages(self, asked: Sequence[tuple[str, Request]]) -> list[Trial]:
        """The same for nets of several stages, each with the name of its own."""
        requests = [request for _, request in asked]
        known = [self._earlier(request) for request in requests]
        missing = [own for own, trial in zip(asked, known, strict=True) if trial is None]
        trained = iter(self._train_new(missing))
        trials = [next(trained) if trial is None else trial for trial in known]
        self.done += zip(requests, trials, strict=True)
        return trials

    def _earlier(self, request: Request) -> Trial | None:
        return next((trial for own, trial in self.done if own.same(request)), None)

    def _train_new(self, asked: Sequence[tuple[str, Request]]) -> list[Trial]:
        """Train every net, and tell of them in that order."""
        tasks = [self._task(stage, request) for stage, request in asked]
        known = [None if self.memory is None else self.memory.recall(own.name) for own in tasks]
        missing = [k for k, own in enumerate(known) if own is None]
        trials: list[Trial] = []
        work = partial(_train_numbered, [tasks[k] for k in missing])
        with closing(each(work, len(missing), self.jobs)) as results:
            while len(trials) < len(tasks):
                if (trained := known[len(trials)]) is not None:
                    trials.append(self._trial(tasks[len(trials)], trained))
                    continue
                k, arrays = next(results)
                known[missing[k]] = self._kept(tasks[missing[k]], arrays)
        return trials

    def _task(self, stage: str, request: Request) -> Task:
        stage = f"{stage} {request.what}" if request.what else stage
        index = self.counts.get(stage, 0)
        self.counts[stage] = index + 1
        return Task(
            request=request,
            stage=stage,
            name=f"{self.prefix}{stage} {index}",
            seed=seed_of(self.seed, stage, index),
            metric=self.metric,
            deadline=self.deadline,
        )

    def _kept(self, task: Task, trained: "Arrays") -> Trained:
        """What a process sent, as tensors; remembered."""
        device = task.request.graph.device
        weights = {name: torch.from_numpy(own).to(device) for name, own in trained[0].items()}
        kept = (weights, *trained[1:])
        ended = self.deadline is not None and self.deadline.passed  # perhaps before its last epoch
        if self.memory is not None and not ended:
            self.memory.remember(task.name, kept)
        return kept

    def _trial(self, task: Task, trained: Trained) -> Trial:
        """The net with its trained weights, judged and told of."""
        request, (weights, seconds, epoch) = task.request, trained
        with seeded(task.seed, request.graph.device):
            net = task.net()
        first = {name: value.detach().clone() for name, value in net.named_parameters()}
        net.restore(weights)
        net.label_logits = None
        net.eval()
        logits, milliseconds = timed(net, request.graph)
        value, loss = judged(logits, request.graph, self.metric)
        self.board.append(standing(task, net, value, milliseconds, seconds))
        self._tell(task.stage, str(net.architecture), value, loss, seconds)
        probs = torch.softmax(logits, 1)
        trial = Trial(
            recipe=request.recipe,
            architecture=net.architecture,
            net=net,
            first=first,
            value=value,
            probs=probs,
            validation=validated(probs, request.graph, self.metric),
            name=task.name,
            best_epoch=epoch,
        )
        if self.on_trial is not None:
            self.on_trial(request, trial)
        return trial

    def regress(self, stage: str, graph: Graph) -> "Regression":
        """Logistic regression on the leading singular vectors of `graph`."""
        began = time.perf_counter()
        found = Regression.on(graph, self.metric)
        loss = -float(found.likelihood.mean())
        self._tell(stage, "spectral", found.value, loss, time.perf_counter() - began)
        return found

    def _tell(self, stage: str, what: str, value: float, loss: float, seconds: float) -> None:
        self.number += 1
        row: Row = {"epoch": self.number, "stage": stage, "architecture": what}
        self.tell(row | {"val_score": value, "val_loss": loss, "seconds": seconds})


def _train_numbered(tasks: Sequence[Task], k: int) -> Arrays:
    weights, seconds, epoch = tasks[k].train()
    return {name: own.cpu().numpy() for name, own in weights.items()}, seconds, epoch


def timed(net: Net, graph: Graph) -> tuple[Tensor, float]:
    """Class scores [N, C], and the milliseconds of one pass; of a quick one the shorter of two.
    Where other programs take the processor away, its own time is the shorter."""
    taken: list[float] = []
    while not taken or (len(taken) == 1 and taken[0] < QUICK_MS):
        began, busy = time.perf_counter(), time.process_time()
        logits = predict(net, graph)
        passed = min(time.perf_counter() - began, time.process_time() - busy)
        taken.append(1000 * passed)
    return logits, min(taken)


def standing(task: Task, net: Net, value: float, ms: float, seconds: float) -> Standing:
    """The net's row of the leaderboard."""
    graph = task.request.graph
    return Standing(
        name=task.name,
        kind=kind_of(task.name),
        architecture=str(net.architecture),
        val_score=value,
        weights=net.num_weights()[0],
        edges=graph.num_edges,
        macs=count_macs(net, graph),
        ms=ms,
        seconds=seconds,
    )


def seed_of(seed: int, stage: str, index: int) -> int:
    """A net's seed: leaving a stage out, or adding one, does not reseed the others."""
    text = f"{seed} {stage} {index}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:7], "big")


def train_by(
    net: Net,
    graph: Graph,
    recipe: Recipe,
    teacher: Tensor | None,
    metric: Metric,
    deadline: Deadline | None = None,
) -> int:
    """The epoch kept."""
    return train(
        net,
        graph,
        epochs=recipe.epochs,
        lr=recipe.lr,
        weight_decay=recipe.weight_decay,
        metric=metric,
        loss=loss_of(recipe, teacher),
        keep=recipe.keep_epoch,
        schedule=recipe.schedule,
        validate_every=recipe.validate_every,
        pruning=Pruning.of(recipe),
        deadline=deadline,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Regression:
    """Logistic regression on the leading singular vectors of a graph, and how it validates."""

    probs: Tensor  # [N, C]
    value: float  # validation score
    likelihood: Tensor  # [n] log p(y_i)

    @staticmethod
    def on(graph: Graph, metric: Metric) -> "Regression":
        return Regression.of(spectral_probs(graph), graph, metric)

    @staticmethod
    def of(probs: Tensor, graph: Graph, metric: Metric) -> "Regression":
        """Of its class probabilities [N, C]."""
        y = graph.y[graph.val_mask]
        likelihood = log_likelihood(probs[graph.val_mask], y)
        value = score(metric, probs[graph.val_mask].clamp_min(1e-30).log(), y)
        if value is None:
            value = float(likelihood.mean())
        return Regression(probs=probs, value=value, likelihood=likelihood)

    def beats(self, other: "Regression") -> bool:
        """Whether the validation likelihood is higher beyond chance, and the score is higher."""
        return self.value > other.value and likelier(self.likelihood, other.likelihood)


def validated(probs: Tensor, graph: Graph, metric: Metric) -> Validation:
    """Class probabilities [N, C] of the validation nodes."""
    return Validation(metric, probs[graph.val_mask], graph.y[graph.val_mask])


def beats(challenger: Trial, incumbent: Trial, sigmas: float = SCORE_SIGMAS) -> bool:
    """Whether the challenger validates better beyond chance."""
    higher = challenger.value > incumbent.value
    return higher and gain(challenger.validation, incumbent.validation) > sigmas


def winner(trials: Sequence[Trial], sigmas: float = SCORE_SIGMAS) -> Trial:
    """The first, unless a later one beats it."""
    incumbent = trials[0]
    for challenger in trials[1:]:
        if beats(challenger, incumbent, sigmas):
            incumbent = challenger
    return incumbent
