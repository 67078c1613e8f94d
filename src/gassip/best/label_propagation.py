"""If it raises the validation likelihood, label-propagation logits are added to the student's.

    a, w = argmin over validation nodes of mean CE(y, softmax(a z + w o)),   w ≥ 0

for the student as it is (o: train/label_propagation.py). What follows depends on the graphs that
the net serves:

    own   if w gains beyond chance, teachers go on and a student starts anew with w o added, and
          that student is taken if its likelihood is higher
    any   the student stays as it is; w o is added on the training graph alone (a = 1) if that gains

A net that was trained with w o is worse on a graph without labels.

Shapes: N nodes, C classes, n validation nodes.
"""

from dataclasses import replace

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.nn import functional as F

from gassip.best.calibration import LEAST, log_likelihood
from gassip.best.decisions import LIKELIHOOD, Decided
from gassip.best.ensemble import combined, mean_probs
from gassip.best.rules import FURTHER, LABEL_WEIGHTS, LIKELIHOOD_SIGMAS
from gassip.best.significance import likelier, likelihood_gain
from gassip.best.student import Chosen, Classroom
from gassip.best.trials import Request, Trial, beats, validated
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.nn.propagate import MaskedGraph
from gassip.settings.training import Recipe
from gassip.train.label_propagation import known_labels, label_logits
from gassip.train.plan import Decision, Row
from gassip.train.trainer import judged


def add_label_propagation(
    room: Classroom, chosen: Chosen, serves: str
) -> Decided[tuple[Chosen, Tensor]]:
    """The student and its teacher's soft labels [N, C], with label propagation or without."""
    if serves == "own":
        return train_with_labels(room, chosen)
    decided = add_after_training(chosen, room.graphs[chosen.cut], room.trials.metric)
    return Decided((decided.value, room.teacher.probs), decided.decision)


def add_after_training(chosen: Chosen, graph: Graph, metric: Metric) -> Decided[Chosen]:
    """The same net, to whose logits w o is added wherever training labels are known."""
    trial, logits = chosen.trial, chosen.trial.probs.clamp_min(LEAST).log()
    weight, gain = label_weight(logits, graph, scaled=False)
    tried: list[Row] = [
        {"name": "without", "score": trial.value, "statistic": 0.0},
        {"name": "added after training", "statistic": gain},
    ]
    if weight == 0:
        return Decided(chosen, _decision("without", tried))
    recipe = replace(trial.recipe, label_weight=weight, labels_in_training=False)
    added = logits + weight * label_logits(
        known_labels(graph), graph.num_classes, MaskedGraph.of(graph)
    )
    probs = torch.softmax(added.double(), 1).float()
    value, _ = judged(added, graph, metric)
    beside = replace(
        trial, recipe=recipe, value=value, probs=probs, validation=validated(probs, graph, metric)
    )
    tried[1] |= {"name": f"added after training, weight {weight:.2f}", "score": value}
    if beats(trial, beside):
        return Decided(chosen, _decision("without", tried))
    return Decided(Chosen(beside, chosen.cut), _decision(str(tried[1]["name"]), tried))


def train_with_labels(room: Classroom, chosen: Chosen) -> Decided[tuple[Chosen, Tensor]]:
    """Teachers go on, and the student is trained anew, beside the logits."""
    graph, stays = room.graphs[chosen.cut], (chosen, room.teacher.probs)
    weight, gain = label_weight(chosen.trial.probs.clamp_min(LEAST).log(), graph)
    tried: list[Row] = [
        {"name": "without", "score": chosen.trial.value, "statistic": 0.0},
        {"name": "added after training", "statistic": gain},
    ]
    if weight == 0:
        return Decided(stays, _decision("without", tried))
    requests = [
        Request(
            architecture=trial.architecture,
            recipe=further(trial.recipe, weight),
            graph=graph,
            start=trial.net.state_dict(),
        )
        for trial in room.teacher.trials
    ]
    again = room.trials.train_all("teacher with labels", requests)
    one = torch.ones(1, device=graph.device)
    probs = combined({"candidates": mean_probs(again)}, one, graph)
    student = room.trials.train(
        "student with labels",
        chosen.trial.architecture,
        replace(chosen.trial.recipe, label_weight=weight),
        graph,
        teacher=probs,
        feature_index=chosen.trial.net.feature_index,
    )
    tried.append(
        {
            "name": f"trained with weight {weight:.2f}",
            "score": student.value,
            "statistic": likelihood_gain(*likelihoods(student, chosen.trial, graph)),
        }
    )
    if not raises_likelihood(student, chosen.trial, graph):
        return Decided(stays, _decision("without", tried))
    return Decided((Chosen(student, chosen.cut), probs), _decision(str(tried[-1]["name"]), tried))


def further(recipe: Recipe, weight: float) -> Recipe:
    """For a teacher that goes on from what it has learned, beside the logits."""
    return replace(recipe, label_weight=weight, epochs=max(1, recipe.epochs // int(FURTHER)))


def _decision(taken: str, tried: list[Row]) -> Decision:
    return Decision(
        stage="label propagation",
        taken=taken,
        tried=tuple(tried),
        statistic=LIKELIHOOD,
        threshold=LIKELIHOOD_SIGMAS,
    )


def likelihoods(challenger: Trial, incumbent: Trial, graph: Graph) -> tuple[Tensor, Tensor]:
    """log p(y_i) of both, [n]."""
    val, y = graph.val_mask, graph.y[graph.val_mask]
    return log_likelihood(challenger.probs[val], y), log_likelihood(incumbent.probs[val], y)


def raises_likelihood(challenger: Trial, incumbent: Trial, graph: Graph) -> bool:
    """Whether the validation likelihood is higher beyond chance. The score swings from training to
    training: it only must not speak against it beyond chance."""
    return likelier(*likelihoods(challenger, incumbent, graph)) and not beats(incumbent, challenger)


def fit_weights(
    logits: Tensor, other: Tensor, y: Tensor, scaled: bool = True
) -> tuple[float, float]:
    """a (1 unless `scaled`) and w of logits [n, C] and label logits [n, C] against y [n]: a convex
    problem."""
    parts = (logits.double(), other.double())

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        both = weights[0] * parts[0] + weights[1] * parts[1]
        slope = (torch.softmax(both, 1) - F.one_hot(y, logits.shape[1])) / y.numel()
        gradient = [float((slope * part).sum()) for part in parts]
        return float(F.cross_entropy(both, y)), np.array(gradient)

    least, most = LABEL_WEIGHTS
    bounds = [(least, most) if scaled else (1.0, 1.0), (0.0, most)]
    best = minimize(loss, [1.0, 0.0], jac=True, method="L-BFGS-B", bounds=bounds)
    return float(best.x[0]), float(best.x[1])


@torch.no_grad()
def label_weight(logits: Tensor, graph: Graph, scaled: bool = True) -> tuple[float, float]:
    """w beside a net with these logits [N, C], 0 if the gain is not beyond chance; and the gain."""
    y = graph.y[graph.val_mask]
    if y.numel() == 0 or not bool(graph.train_mask.any()):
        return 0.0, 0.0
    other = label_logits(known_labels(graph), graph.num_classes, MaskedGraph.of(graph))
    net_logits, other = logits[graph.val_mask], other[graph.val_mask]
    a, w = fit_weights(net_logits, other, y, scaled)
    after = log_likelihood(torch.softmax((a * net_logits + w * other).double(), 1), y)
    before = log_likelihood(torch.softmax(net_logits.double(), 1), y)
    gain = likelihood_gain(after, before)
    return (w if gain > LIKELIHOOD_SIGMAS else 0.0), gain
