"""If it raises the validation likelihood, label-propagation logits are added to the student's.

    a, w = argmin over validation nodes of mean CE(y, softmax(a z + w o)),   w ≥ 0

for the student as it is (o: train/label_propagation.py). If w gains beyond chance, teachers and
student are trained again with w o added, and that student is taken if its likelihood is higher.

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
from gassip.best.rules import LIKELIHOOD_SIGMAS
from gassip.best.significance import likelier, likelihood_gain
from gassip.best.student import Chosen, Classroom
from gassip.best.trials import Trial, beats
from gassip.graph.graph import Graph
from gassip.nn.propagate import MaskedGraph
from gassip.train.label_propagation import known_labels, label_logits
from gassip.train.plan import Decision, Row

WITHIN = (0.05, 10.0)  # of a and w: if both predictors are always right the optimum has no end


def add_label_propagation(room: Classroom, chosen: Chosen) -> Decided[tuple[Chosen, Tensor]]:
    """The student and its teacher's soft labels [N, C], with label propagation or without."""
    graph, stays = room.graphs[chosen.cut], (chosen, room.teacher.probs)
    weight, gain = label_weight(chosen.trial.probs.clamp_min(LEAST).log(), graph)
    tried: list[Row] = [
        {"name": "without", "score": chosen.trial.value, "statistic": 0.0},
        {"name": "added after training", "statistic": gain},
    ]
    if weight == 0:
        return Decided(stays, _decision("without", tried))
    again = [
        room.trials.train(
            "teacher with labels",
            trial.architecture,
            replace(trial.recipe, label_weight=weight),
            graph,
        )
        for trial in room.teacher.trials
    ]
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


def fit_weights(logits: Tensor, other: Tensor, y: Tensor) -> tuple[float, float]:
    """a and w of logits [n, C] and label logits [n, C] against y [n]: a convex problem."""
    parts = (logits.double(), other.double())

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        both = weights[0] * parts[0] + weights[1] * parts[1]
        slope = (torch.softmax(both, 1) - F.one_hot(y, logits.shape[1])) / y.numel()
        gradient = [float((slope * part).sum()) for part in parts]
        return float(F.cross_entropy(both, y)), np.array(gradient)

    bounds = [WITHIN, (0.0, WITHIN[1])]
    best = minimize(loss, [1.0, 0.0], jac=True, method="L-BFGS-B", bounds=bounds)
    return float(best.x[0]), float(best.x[1])


@torch.no_grad()
def label_weight(logits: Tensor, graph: Graph) -> tuple[float, float]:
    """w beside a net with these logits [N, C], 0 if the gain is not beyond chance; and the gain."""
    y = graph.y[graph.val_mask]
    if y.numel() == 0 or not bool(graph.train_mask.any()):
        return 0.0, 0.0
    other = label_logits(known_labels(graph), graph.num_classes, MaskedGraph.of(graph))
    own, other = logits[graph.val_mask], other[graph.val_mask]
    a, w = fit_weights(own, other, y)
    after = log_likelihood(torch.softmax((a * own + w * other).double(), 1), y)
    before = log_likelihood(torch.softmax(own.double(), 1), y)
    gain = likelihood_gain(after, before)
    return (w if gain > LIKELIHOOD_SIGMAS else 0.0), gain
