"""Candidates: architectures of which the best, after short trainings, are trained in full; these
teach and compete to be the student.

The default candidates (GCN, SAGE, MLP and APPNP among them) come first, then those whose paths of
the supernet validate best. The recipe was chosen with the first candidate. If another one is ahead
after the short trainings, recipes compete with that one, and what wins is for the full ones. With
many labels each candidate is cross-fitted: candidate k does not see the k-th fold of the training
labels, and the teacher's probabilities of a labelled node are out of fold.

Shapes: N nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.best.recipe import suited
from gassip.best.rules import CROSS_FIT_FROM, RANKED_PATHS
from gassip.best.tasks import Asked
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
    recipes: list[str]  # by name
    given: dict[str, Recipe]  # of full trainings, before they were suited to an architecture

    @property
    def ranked(self) -> list[Trial]:
        """Best on validation first; of equals the earlier."""
        return sorted(self.trials, key=lambda trial: -trial.value)

    @property
    def best_recipe(self) -> tuple[str, Recipe]:
        """Of the candidate that validates best."""
        name = self.recipes[self.trials.index(self.ranked[0])]
        return name, self.given[name]

    @property
    def epochs(self) -> int:
        """Of a full training."""
        return next(iter(self.given.values())).epochs

    def best_architectures(self, count: int) -> list[tuple[str, ...]]:
        """The operations of the `count` best, best first."""
        return list(dict.fromkeys(trial.architecture.ops for trial in self.ranked))[:count]


def choose_candidates(state: State, settings: Settings, metric: Metric) -> list[Architecture]:
    """The default candidates, then the supernet's best paths (or, as a control, any)."""
    assert settings.best is not None
    chosen, search = settings.best.candidates, settings.search
    known = default_candidates(settings)
    ranked = [
        tuple(search.ops[k] for k in path) for path in paths_by(chosen.ranking, state, metric)
    ]
    light = [ops for ops in ranked if all(OPERATIONS[op].steps == 1 for op in ops[:-1])]
    both = dict.fromkeys([*known, *(light or ranked)])  # many steps only where a layer is narrow
    return [architecture_of(search, ops) for ops in both][: chosen.candidates]


def default_candidates(settings: Settings) -> list[tuple[str, ...]]:
    """The operations of those that are known before the search."""
    assert settings.best is not None
    search = settings.search
    named = [tuple(text.split("+")) for text in settings.best.candidates.default_candidates]
    allowed = NET_OPS if set(MORE_OPS) <= set(search.ops) else search.ops
    return [ops for ops in named if len(ops) >= search.layers and set(ops) <= set(allowed)]


def first_candidate(settings: Settings) -> list[Architecture]:
    """The first candidate, if it is known before the search."""
    return [architecture_of(settings.search, ops) for ops in default_candidates(settings)[:1]]


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


def train_candidates(
    trials: Trials,
    graph: Graph,
    architectures: Sequence[Architecture],
    name: str,
    recipe: Recipe,
    epochs: int,
) -> Candidates:
    """All of them by the recipe of that name, for a few epochs."""
    short = replace(recipe, epochs=min(epochs, recipe.epochs))
    folds = label_folds(graph, len(architectures), trials.seed)
    pairs = zip(architectures, folds, strict=True)
    requests = [_request(graph, architecture, fold, short) for architecture, fold in pairs]
    trained = trials.train_all("candidate trial", requests)
    return Candidates(trained, folds, [name] * len(folds), {name: recipe})


def train_best(
    trials: Trials,
    graph: Graph,
    candidates: Candidates,
    count: int,
    name: str,
    recipe: Recipe,
    beside: Sequence[Asked] = (),
    expected: Sequence[Asked] = (),
) -> Candidates:
    """The same, of which the `count` best are trained in full by the recipe of that name. A short
    training by that recipe goes on: the learning rate starts again, and falls again. Nets of other
    stages are trained `beside`, and what is `expected` to be asked for next, so that no process
    waits."""
    best = sorted(candidates.trials.index(trial) for trial in candidates.ranked[:count])
    wholes = {
        k: _request(graph, candidates.trials[k].architecture, candidates.folds[k], recipe)
        for k in best
    }
    longer = {
        k: request for k, request in wholes.items() if request.recipe != candidates.trials[k].recipe
    }
    requests = [continued(request, candidates.trials[k]) for k, request in longer.items()]
    trained, names = list(candidates.trials), list(candidates.recipes)
    asked = [*(("candidate", request) for request in requests), *beside]
    done = trials.train_stages(asked, expected)
    for (k, whole), trial in zip(longer.items(), done[: len(longer)], strict=True):
        trained[k], names[k] = replace(trial, recipe=whole.recipe), name
    given = candidates.given | {name: recipe}
    return replace(candidates, trials=trained, recipes=names, given=given)


def continued(whole: Request, short: Trial) -> Request:
    """The rest of a training, from where a shorter one by the same recipe ended."""
    rest = whole.recipe.epochs - short.recipe.epochs
    if rest <= 0 or replace(short.recipe, epochs=whole.recipe.epochs) != whole.recipe:
        return whole
    recipe = replace(whole.recipe, epochs=rest, consistency_ramp=1)
    return replace(whole, recipe=recipe, start=short.net.state_dict())


def _request(graph: Graph, architecture: Architecture, fold: Tensor, recipe: Recipe) -> Request:
    return Request(
        architecture=architecture,
        recipe=suited(recipe, architecture, graph),
        graph=replace(graph, train_mask=graph.train_mask & ~fold) if bool(fold.any()) else graph,
    )


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
