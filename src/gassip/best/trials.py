"""Trainings whose validation decides: each net with its own seed, told of in one row.

Shapes: N nodes, C classes, n validation nodes.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from gassip.best.calibration import log_likelihood
from gassip.best.rules import SCORE_SIGMAS
from gassip.best.significance import Validation, gain, likelier
from gassip.best.spectral import spectral_probs
from gassip.graph.graph import Graph
from gassip.metrics import Metric, score
from gassip.nn.net import Architecture, Net, net_for
from gassip.settings.training import Recipe
from gassip.train.gradual_pruning import Pruning
from gassip.train.losses import training_loss
from gassip.train.plan import Row
from gassip.train.trainer import judged, predict, seeded, train, with_label_logits


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


class Memory(Protocol):
    """Where trials keep their nets, so that a killed search need not train them again."""

    def recall(self, name: str) -> "tuple[dict[str, Tensor], float] | None":
        """The weights of the net of this name, and the seconds it took; None: yet to train."""

    def remember(self, name: str, weights: dict[str, Tensor], seconds: float) -> None: ...


class Trials:
    """Trains nets one after the other, each with its own seed, and tells of each in one row."""

    def __init__(
        self,
        graph: Graph,
        *,
        seed: int,
        metric: Metric,
        tell: Callable[[Row], None],
        first_epoch: int = 0,
        memory: Memory | None = None,
    ) -> None:
        self.graph = replace(graph, test_mask=torch.zeros_like(graph.test_mask))  # never looked at
        self.seed, self.metric, self.tell = seed, metric, tell
        self.number, self.memory = first_epoch, memory
        self.counts: dict[str, int] = {}  # trainings of each stage so far

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
        began = time.perf_counter()
        self.number += 1
        index = self.counts.get(stage, 0)
        self.counts[stage] = index + 1
        name = f"{stage} {index}"
        architecture = replace(architecture, batch_norm=recipe.batch_norm)
        with seeded(seed_of(self.seed, stage, index), graph.device):
            net = net_for(graph, architecture, recipe.dropout, feature_index)
            net = with_label_logits(net, graph, recipe.label_weight)
            first = {name: value.detach().clone() for name, value in net.named_parameters()}
            known = None if self.memory is None else self.memory.recall(name)
            if known is None:
                train_by(net, graph, recipe, teacher, self.metric)
            else:
                net.restore(known[0])
                net.label_logits = None
        logits = predict(net, graph)
        value, loss = judged(logits, graph, self.metric)
        seconds = time.perf_counter() - began if known is None else known[1]
        if known is None and self.memory is not None:
            self.memory.remember(name, net.state_dict(), seconds)
        self._tell(stage, str(architecture), value, loss, seconds)
        probs = torch.softmax(logits, 1)
        return Trial(
            recipe=recipe,
            architecture=architecture,
            net=net,
            first=first,
            value=value,
            probs=probs,
            validation=validated(probs, graph, self.metric),
        )

    def regress(self, stage: str, graph: Graph) -> "Regression":
        """Logistic regression on the leading singular vectors of `graph`."""
        began = time.perf_counter()
        self.number += 1
        found = Regression.on(graph, self.metric)
        loss = -float(found.likelihood.mean())
        self._tell(stage, "spectral", found.value, loss, time.perf_counter() - began)
        return found

    def _tell(self, stage: str, what: str, value: float, loss: float, seconds: float) -> None:
        row: Row = {"epoch": self.number, "stage": stage, "architecture": what}
        self.tell(row | {"val_score": value, "val_loss": loss, "seconds": seconds})


def seed_of(seed: int, stage: str, index: int) -> int:
    """A net's seed: leaving a stage out, or adding one, does not reseed the others."""
    text = f"{seed} {stage} {index}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:7], "big")


def train_by(
    net: Net, graph: Graph, recipe: Recipe, teacher: Tensor | None, metric: Metric
) -> None:
    train(
        net,
        graph,
        epochs=recipe.epochs,
        lr=recipe.lr,
        weight_decay=recipe.weight_decay,
        metric=metric,
        loss=training_loss(recipe, teacher),
        keep=recipe.keep_epoch,
        pruning=Pruning.of(recipe),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Regression:
    """Logistic regression on the leading singular vectors of a graph, and how it validates."""

    probs: Tensor  # [N, C]
    value: float  # validation score
    likelihood: Tensor  # [n] log p(y_i)

    @staticmethod
    def on(graph: Graph, metric: Metric) -> "Regression":
        probs, y = spectral_probs(graph), graph.y[graph.val_mask]
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
