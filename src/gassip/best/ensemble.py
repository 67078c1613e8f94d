"""The teacher: a weighted mean of up to three predictors, tempered and bias-corrected.

    t_i = bias_corrected( Σ_k w_k temper(p_i^k) )

    p^1   mean of softmax z_i over the best candidates
    p^2   GCN ‖ GCN on a graph that also joins each node with its nearest neighbours in x (kNN)
    p^3   logistic regression on the leading singular vectors of Â²X (spectral.py)

w is uniform unless other weights raise the validation log-likelihood beyond chance.

Shapes: N nodes, C classes, D features.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor

from gassip.best.calibration import bias_corrected, fit_temperature, log_likelihood, temper
from gassip.best.candidates import Candidates
from gassip.best.decisions import LIKELIHOOD, Decided
from gassip.best.edge_cleaning import Cleaned
from gassip.best.recipe import suited
from gassip.best.rules import ENSEMBLE_STEPS, LIKELIHOOD_SIGMAS
from gassip.best.significance import likelier, likelihood_gain
from gassip.best.trials import Request, Trial, Trials, shaped_by
from gassip.graph.graph import Graph
from gassip.graph.similarity import joined
from gassip.nn.net import Architecture
from gassip.settings.best import Teaching
from gassip.settings.training import Recipe
from gassip.train.plan import Decision

KNN_OPERATION = "GCNConv"
KNN_STAGE = "kNN teacher"


@dataclass(frozen=True, eq=False, kw_only=True)
class Teacher:
    """What the student learns from."""

    probs: Tensor  # [N, C] t_i
    trials: list[Trial]  # the candidates, or wider nets, that it comes from
    feature_weight: Tensor  # [D] mean norm of a feature's row of layer 1


def build_teacher(
    trials: Trials,
    cleaned: Cleaned,
    candidates: Candidates,
    recipe: Recipe,
    settings: Teaching,
    knn_graph: Graph | None = None,
) -> Decided[Teacher]:
    """The mean of the best candidates, the kNN-graph net (on `knn_graph` if it was made before)
    and the spectral regression."""
    graph = cleaned.graph
    best = fewest(widened(trials, graph, candidates.ranked, recipe, settings), graph)
    predictors, nets = {"candidates": mean_probs(best)}, list(best)
    if settings.knn > 0:
        request = knn_request(
            knn_graph or joined(graph, settings.knn), candidates.trials[0].architecture, recipe
        )
        knn = trials.train_all(KNN_STAGE, [request])[0]
        predictors["kNN graph"] = knn.probs
        nets.append(knn)
    if settings.spectral:
        predictors["spectral"] = cleaned.judge.probs
    if settings.calibrate:
        weights, decision = ensemble_weights(predictors, graph)
        probs = combined(predictors, weights, graph)
    else:
        probs = torch.stack(list(predictors.values())).mean(0)
        decision = Decision(stage="teacher", taken=f"mean of {', '.join(predictors)}, as they are")
    rows = [trial.net.layers[0].weight.detach().norm(dim=1) for trial in nets]
    teacher = Teacher(
        probs=out_of_fold(probs, candidates),
        trials=best,
        feature_weight=torch.stack(rows).mean(0),
    )
    return Decided(teacher, decision)


def widened(
    trials: Trials, graph: Graph, ranked: Sequence[Trial], recipe: Recipe, settings: Teaching
) -> list[Trial]:
    """The best candidates; with `teacher_hidden`, trained anew that wide on all labels."""
    best = list(ranked[: settings.teachers])
    if settings.teacher_hidden == 0:
        return best
    requests = []
    for trial in best:
        hidden = (settings.teacher_hidden,) * len(trial.architecture.hidden)
        wide = replace(trial.architecture, hidden=hidden)
        adapted = suited(recipe, wide, graph)
        requests.append(Request(architecture=wide, recipe=adapted, graph=graph))
    again = trials.train_all("teacher", requests)
    return sorted(again, key=lambda trial: -trial.value)


def fewest(ranked: Sequence[Trial], graph: Graph) -> list[Trial]:
    """All of them, or the first few whose mean has a higher validation likelihood."""
    best, y = list(ranked), graph.y[graph.val_mask]
    likelihood = log_likelihood(mean_probs(best)[graph.val_mask], y)
    for count in range(len(ranked) - 1, 0, -1):
        fewer = log_likelihood(mean_probs(ranked[:count])[graph.val_mask], y)
        if likelier(fewer, likelihood):
            best, likelihood = list(ranked[:count]), fewer
    return best


def knn_request(knn_graph: Graph, like: Architecture, recipe: Recipe) -> Request:
    """A GCN on the graph joined with its kNN graph: it errs elsewhere than the candidates. By
    labels alone: on so dense a graph passes agree long before the net has learned the classes."""
    architecture = shaped_by(replace(like, ops=(KNN_OPERATION,) * len(like.ops)), recipe)
    recipe = replace(recipe, consistency=0.0)
    return Request(architecture=architecture, recipe=recipe, graph=knn_graph)


def mean_probs(trials: Sequence[Trial]) -> Tensor:
    """[N, C]."""
    return torch.stack([trial.probs for trial in trials]).mean(0)


def ensemble_weights(predictors: dict[str, Tensor], graph: Graph) -> tuple[Tensor, Decision]:
    """w [predictors]: uniform, or the multiples of 1/4 with the highest validation likelihood."""
    nodes = torch.nonzero(graph.val_mask).squeeze(1)
    right = tempered(predictors, graph)[:, nodes, graph.y[nodes]]  # p(y_i), [predictors, n]
    steps, count = int(ENSEMBLE_STEPS), len(predictors)
    grid = [w for w in product(range(steps, -1, -1), repeat=count) if sum(w) == steps]
    table = torch.tensor(grid, dtype=right.dtype, device=right.device) / steps
    likelihood = (table @ right).clamp_min(1e-30).log()  # [weights, n]
    best = int(likelihood.mean(1).argmax())
    uniform = torch.full_like(table[best], 1 / count)
    before = (uniform @ right).clamp_min(1e-30).log()
    gain = likelihood_gain(likelihood[best], before)
    taken = table[best] if gain > LIKELIHOOD_SIGMAS else uniform
    tried = {_told(predictors, uniform): 0.0} | {_told(predictors, table[best]): gain}
    decision = Decision(
        stage="teacher",
        taken=_told(predictors, taken),
        tried=tuple({"name": name, "statistic": value} for name, value in tried.items()),
        statistic=LIKELIHOOD,
        threshold=LIKELIHOOD_SIGMAS,
    )
    return taken, decision


def _told(predictors: dict[str, Tensor], weights: Tensor) -> str:
    pairs = zip(predictors, weights.tolist(), strict=True)
    return ", ".join(f"{name} {weight:.2f}" for name, weight in pairs)


def tempered(predictors: dict[str, Tensor], graph: Graph) -> Tensor:
    """Each predictor at the temperature fitted on validation nodes, [predictors, N, C]."""
    nodes = torch.nonzero(graph.val_mask).squeeze(1)
    y = graph.y[nodes]
    return torch.stack(
        [temper(probs, fit_temperature(probs[nodes], y)) for probs in predictors.values()]
    )


def combined(predictors: dict[str, Tensor], weights: Tensor, graph: Graph) -> Tensor:
    """t [N, C]: the weighted mean, bias-corrected on the validation nodes."""
    nodes = torch.nonzero(graph.val_mask).squeeze(1)
    mean = torch.einsum("k,knc->nc", weights, tempered(predictors, graph))
    return bias_corrected(mean, nodes, graph.y[nodes])


def out_of_fold(probs: Tensor, candidates: Candidates) -> Tensor:
    """t [N, C]; of a labelled node, what the best candidate says that has not seen its label."""
    probs, pairs = probs.clone(), zip(candidates.trials, candidates.folds, strict=True)
    for trial, fold in sorted(pairs, key=lambda pair: pair[0].value):
        probs[fold] = trial.probs[fold]
    return probs
