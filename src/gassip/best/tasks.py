"""One training that is asked for, and all that its bits follow from.

    seed = sha256(seed of the search, stage, index within the stage)

Shapes: N nodes, C classes.
"""

import hashlib
import time
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.nn.net import Architecture, Net, net_for
from gassip.settings.training import Recipe
from gassip.train.by_rows import loss_of
from gassip.train.deadline import Deadline
from gassip.train.gradual_pruning import Pruning
from gassip.train.output_bias import fit_output_bias
from gassip.train.trainer import seeded, train, with_label_logits

Trained = tuple[dict[str, Tensor], float, int]  # a net's weights, its seconds, the epoch kept
Arrays = tuple[dict[str, np.ndarray], float, int]  # the same, as a process sends it


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


Asked = tuple[str, Request]  # a stage, and what it asks for


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

    def same(self, other: "Task") -> bool:
        """Whether both are the same training, with the same seed."""
        mine, theirs = ((own.name, own.seed, own.metric) for own in (self, other))
        return mine == theirs and self.request.same(other.request)


def shaped_by(architecture: Architecture, recipe: Recipe) -> Architecture:
    """With the norms that the recipe has."""
    return replace(
        architecture,
        batch_norm=recipe.batch_norm,
        layer_norm=recipe.layer_norm,
        standardised=recipe.standardised,
    )


def train_task(task: Task) -> Arrays:
    """As a process does it."""
    weights, seconds, epoch = task.train()
    return {name: own.cpu().numpy() for name, own in weights.items()}, seconds, epoch


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
