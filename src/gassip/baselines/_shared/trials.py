"""Architectures trained one by one and ranked on validation: what random and exhaustive search
share.

    a* = argmax_{a ∈ S} val(train(a)),   ties: the lower validation loss

Every architecture starts from the same seed and is trained as the paper retrains; no test label is
read.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import torch

from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.nn.net import net_for
from gassip.nn.propagate import MaskedGraph
from gassip.paper.state import architecture_of
from gassip.settings import Settings
from gassip.settings.search import Search
from gassip.settings.training import Recipe
from gassip.train.plan import Plan, Row
from gassip.train.trainer import seeded, train, validate


@dataclass(frozen=True)
class Trial:
    """One architecture and how it did on validation."""

    ops: tuple[str, ...]
    val_score: float
    val_loss: float
    seconds: float

    @property
    def row(self) -> Row:
        name = " ‖ ".join(self.ops)
        return {
            "architecture": name,
            "val_score": self.val_score,
            "val_loss": self.val_loss,
            "seconds": self.seconds,
        }


def all_paths(settings: Search) -> list[tuple[str, ...]]:
    """The whole space, O^L architectures."""
    return list(product(settings.ops, repeat=settings.layers))


def try_all(
    graph: Graph,
    settings: Settings,
    paths: Sequence[tuple[str, ...]],
    epochs: int,
    *,
    seed: int,
    metric: Metric,
    on_epoch: Callable[[Row], None] | None = None,
) -> list[Trial]:
    """Train every architecture once; best first."""
    trials = []
    for number, ops in enumerate(paths, 1):
        trials.append(try_one(graph, settings, ops, epochs, seed=seed, metric=metric))
        if on_epoch is not None:
            on_epoch({"epoch": number} | trials[-1].row)
    return sorted(trials, key=lambda trial: (-trial.val_score, trial.val_loss))


def try_one(
    graph: Graph,
    settings: Settings,
    ops: tuple[str, ...],
    epochs: int,
    *,
    seed: int,
    metric: Metric,
) -> Trial:
    """One architecture at its best epoch on validation."""
    began = time.perf_counter()
    with seeded(seed, graph.device):
        net = net_for(graph, architecture_of(settings.search, ops), settings.retraining.dropout)
        train(
            net,
            graph,
            epochs=epochs,
            lr=settings.retraining.lr,
            weight_decay=settings.retraining.weight_decay,
            metric=metric,
        )
    value, loss = validate(net, graph, MaskedGraph.of(graph), metric)
    return Trial(ops, value, loss, time.perf_counter() - began)


def found_from(graph: Graph, settings: Settings, trials: Sequence[Trial]) -> Plan:
    """The best trial as a finding: every weight and every edge stays."""
    architecture = architecture_of(settings.search, trials[0].ops)
    layers = net_for(graph, architecture).layers
    return Plan(
        settings=settings,
        recipe=Recipe.of(settings.retraining, batch_norm=settings.search.batch_norm),
        architecture=architecture,
        weight_keep=[torch.ones_like(layer.weight, dtype=torch.bool) for layer in layers],
        edge_keep=torch.ones(graph.num_edges, dtype=torch.bool, device=graph.device),
        edge_mask=torch.ones(graph.num_edges, device=graph.device),
        first_weights={},
        last_weights={},
        history=[trial.row for trial in trials],
        seconds=sum(t.seconds for t in trials),
    )
