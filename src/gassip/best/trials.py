"""Trainings whose validation decides: each net with its own seed, told of in one row.

Shapes: N nodes, C classes, n validation nodes.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from gassip.best.calibration import log_likelihood
from gassip.best.rules import SCORE_SIGMAS
from gassip.best.significance import Validation, gain, likelier
from gassip.best.spectral import spectral_probs
from gassip.best.tasks import Arrays, Asked, Task, train_task
from gassip.best.tasks import Request as Request
from gassip.best.tasks import Trained as Trained
from gassip.best.tasks import seed_of as seed_of
from gassip.best.tasks import shaped_by as shaped_by
from gassip.graph.graph import Graph
from gassip.metrics import Metric, score
from gassip.nn.net import Architecture, Net
from gassip.nn.size import count_macs
from gassip.settings.training import Recipe
from gassip.train.ahead import Ahead
from gassip.train.deadline import Deadline
from gassip.train.leaderboard import Standing, kind_of
from gassip.train.plan import Row
from gassip.train.trainer import judged, predict, seeded

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


class Memory(Protocol):
    """Where trials keep their nets, so that a killed search need not train them again."""

    def recall(self, name: str) -> Trained | None:
        """The weights of the net of this name, the seconds it took and the epoch kept; None: yet
        to train."""

    def remember(self, name: str, trained: Trained) -> None: ...


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
        self.untold: list[Callable[[], None]] | None = None  # rows that are to come later
        self.ahead = Ahead(train_task, Task.same, jobs if graph.device.type == "cpu" else 1)
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

    def train_all(
        self, stage: str, requests: Sequence[Request], expected: Sequence[Asked] = ()
    ) -> list[Trial]:
        """Every net that is asked for, in that order; one that was trained before is not trained
        again."""
        return self.train_stages([(stage, request) for request in requests], expected)

    def train_stages(self, asked: Sequence[Asked], expected: Sequence[Asked] = ()) -> list[Trial]:
        """The same for nets of several stages, each with the name of its own. What is `expected` to
        be asked for next is trained in processes that would have to wait."""
        requests = [request for _, request in asked]
        known = [self._earlier(request) for request in requests]
        missing = [own for own, trial in zip(asked, known, strict=True) if trial is None]
        trained = iter(self._train_new(missing, expected))
        trials = [next(trained) if trial is None else trial for trial in known]
        self.done += zip(requests, trials, strict=True)
        return trials

    def expect(self, expected: Sequence[Asked]) -> None:
        """Nets that will be asked for, or may be, are trained while this process is busy."""
        self.ahead.expect(self._likely(expected))

    def looking(self, hear: Callable[[Row], None] | None) -> Callable[[Row], None]:
        """A listener that takes what has come by then, so that no process waits with it."""

        def told(row: Row) -> None:
            self.ahead.look()
            if hear is not None:
                hear(row)

        return told

    @property
    def alone(self) -> bool:
        """Whether there is one process only, so that nothing is trained before it is asked for."""
        return self.ahead.jobs <= 1

    def close(self) -> None:
        """End what is being trained and was not asked for."""
        self.ahead.close()

    def _earlier(self, request: Request) -> Trial | None:
        return next((trial for own, trial in self.done if own.same(request)), None)

    def _train_new(self, asked: Sequence[Asked], expected: Sequence[Asked]) -> list[Trial]:
        """Train every net, and tell of them in that order."""
        if not asked:
            return []
        tasks = self._tasks(asked, self.counts)
        known = [None if self.memory is None else self.memory.recall(own.name) for own in tasks]
        missing = [k for k, own in enumerate(known) if own is None]
        trials: list[Trial] = []
        results = self.ahead.results([tasks[k] for k in missing], self._likely(expected))
        while len(trials) < len(tasks):
            if (trained := known[len(trials)]) is not None:
                trials.append(self._trial(tasks[len(trials)], trained))
                continue
            k, arrays = next(results)
            known[missing[k]] = self._kept(tasks[missing[k]], arrays)
        return trials

    def _likely(self, expected: Sequence[Asked]) -> list[Task]:
        """What is yet to train of nets that may be asked for; none where no process is free."""
        if self.alone:
            return []
        tasks = self._tasks(
            [own for own in expected if self._earlier(own[1]) is None], dict(self.counts)
        )
        return [own for own in tasks if self.memory is None or self.memory.recall(own.name) is None]

    def _tasks(self, asked: Sequence[Asked], counts: dict[str, int]) -> list[Task]:
        """Each numbered within its stage, from what has been counted."""
        return [self._task(stage, request, counts) for stage, request in asked]

    def _task(self, stage: str, request: Request, counts: dict[str, int]) -> Task:
        stage = f"{stage} {request.what}" if request.what else stage
        index = counts.get(stage, 0)
        counts[stage] = index + 1
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

    @contextmanager
    def telling_later(self) -> Iterator[None]:
        """Rows of stages that run before or beside the search are told after its own."""
        self.untold = []
        yield
        rows, self.untold = self.untold, None
        for tell in rows:
            tell()

    def _tell(self, stage: str, what: str, value: float, loss: float, seconds: float) -> None:
        if self.untold is not None:
            self.untold.append(lambda: self._tell(stage, what, value, loss, seconds))
            return
        self.number += 1
        row: Row = {"epoch": self.number, "stage": stage, "architecture": what}
        self.tell(row | {"val_score": value, "val_loss": loss, "seconds": seconds})


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
