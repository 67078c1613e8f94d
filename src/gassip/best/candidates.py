"""Candidates: architectures trained in full, of which the best teach and compete to be the student.

The default candidates come first, then those whose paths of the supernet validate best. With many
labels each candidate is cross-fitted: candidate k does not see the k-th fold of the training
labels, and the teacher's probabilities of a labelled node are out of fold.

Shapes: N nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.best.recipe import capped_dropout
from gassip.best.rules import CROSS_FIT_FROM, RANKED_PATHS
from gassip.best.trials import Request, Trial, Trials
from gassip.graph.graph import Graph
from gassip.metrics import Metric, score
from gassip.nn.kernels import transform
from gassip.nn.net import Architecture
from gassip.operations import MORE_OPS, NET_OPS, OPERATIONS
from gassip.paper.state import State, architecture_of
from gassip.paper.supernet import Path, top_paths
from gassip.settings import Settings
from gassip.settings.training import Recipe


@dataclass(frozen=True, eq=False)
class Candidates:
    """Trained candidates in the order of what was known of them before, and the folds they miss."""

    trials: list[Trial]
    folds: list[Tensor]  # [N] bool each: training nodes whose labels a candidate has not seen

    @property
    def ranked(self) -> list[Trial]:
        """Best on validation first; of equals the earlier."""
        return sorted(self.trials, key=lambda trial: -trial.value)

    def best_architectures(self, count: int) -> list[Architecture]:
        """Of the `count` best, in the order in which they were candidates."""
        best = self.ranked[:count]
        return [trial.architecture for trial in self.trials if trial in best]


def choose_candidates(
    state: State, settings: Settings, metric: Metric, *, hurt: bool
) -> list[Architecture]:
    """The default candidates, then the supernet's best paths (or, as a control, any); where edges
    hurt, those come first that smooth least."""
    assert settings.best is not None
    chosen, search = settings.best.candidates, settings.search
    named = [tuple(text.split("+")) for text in chosen.default_candidates]
    allowed = NET_OPS if set(MORE_OPS) <= set(search.ops) else search.ops
    known = [ops for ops in named if len(ops) == search.layers and set(ops) <= set(allowed)]
    ranked = [
        tuple(search.ops[k] for k in path) for path in paths_by(chosen.ranking, state, metric)
    ]
    light = [ops for ops in ranked if all(OPERATIONS[op].steps == 1 for op in ops[:-1])]
    both = dict.fromkeys([*known, *(light or ranked)])  # many steps only where a layer is narrow
    candidates = [architecture_of(search, ops) for ops in both][: chosen.candidates]
    return sorted(candidates, key=smoothing) if hurt else candidates


def paths_by(ranking: str, state: State, metric: Metric) -> list[Path]:
    paths = ranked_paths(state, metric)
    if ranking == "random":
        return [paths[k] for k in torch.randperm(len(paths)).tolist()]
    return paths


@torch.no_grad()
def ranked_paths(state: State, metric: Metric) -> list[Path]:
    """The most probable architectures by how their paths of the supernet validate, best first."""
    graph, net, weights = state.graph, state.supernet, state.weights()
    products, y = transform(graph.x, weights[0]), graph.y[graph.val_mask]
    values = []
    for path in top_paths(net.alpha, int(RANKED_PATHS)):
        logits = net(graph.x, state.masked, weights, path=path, first_products=products)
        loss = float(F.cross_entropy(logits[graph.val_mask], y))
        value = score(metric, logits[graph.val_mask], y)
        values.append((-loss if value is None else value, -loss, path))
    return [path for *_, path in sorted(values, key=lambda row: row[:2], reverse=True)]


def smoothing(architecture: Architecture) -> tuple[bool, int]:
    """Whether any operation mixes a node with its neighbours, and how many read edges at all."""
    operations = [OPERATIONS[op] for op in architecture.ops]
    mixes = any(not operation.own_weights for operation in operations)
    return mixes, sum(operation.norm is not None for operation in operations)


def train_candidates(
    trials: Trials, graph: Graph, architectures: Sequence[Architecture], recipe: Recipe
) -> Candidates:
    folds = label_folds(graph, len(architectures), trials.seed)
    requests = [
        Request(
            architecture=architecture,
            recipe=capped_dropout(recipe, architecture),
            graph=replace(graph, train_mask=graph.train_mask & ~fold),
        )
        for architecture, fold in zip(architectures, folds, strict=True)
    ]
    return Candidates(trials.train_all("candidate", requests), folds)


def label_folds(graph: Graph, count: int, seed: int) -> list[Tensor]:
    """The training nodes [N] that each of `count` nets does not see; none where labels are few."""
    nodes = torch.nonzero(graph.train_mask).squeeze(1)
    none = torch.zeros_like(graph.train_mask)
    if count < 2 or nodes.numel() < CROSS_FIT_FROM * graph.num_nodes:
        return [none] * count
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(nodes.numel(), generator=generator).to(nodes.device)
    folds = [none.clone() for _ in range(count)]
    for k, fold in enumerate(folds):
        fold[nodes[order[k::count]]] = True
    return folds
