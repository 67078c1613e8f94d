"""Training labels correct a net's scores around them, on the graph that it was trained on (METHOD.md).

    r_i = [y_i = c]_c − softmax z_i   for labelled nodes, 0 for the others
    z'  = z + s · Z_10,               Z_0 = r,   Z_{k+1} = .9 Â Z_k + .1 r        (APPNP10, on what is wrong)

r is minus the gradient by z of the labels' cross-entropy: one step of boosting, spread over the graph. s makes the
validation nodes likeliest; it is 0 unless they are likelier by more than chance, and the score is higher. It takes no
weights, but the labels have to be at hand where the net is used. After Huang et al., Combining Label Propagation and
Simple Models Out-performs Graph Neural Networks, ICLR 2021, who add to class shares, which can become negative, and
then smooth once more (baselines/correct_and_smooth.py).

Shapes: N nodes, C classes.
"""

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.nn import functional as F

from gassip.calibration import gains, log_likelihood
from gassip.graph import Graph
from gassip.metrics import Metric, score
from gassip.ops import OPERATIONS, MaskedGraph
from gassip.store import SPREAD

LEAST = 0.05  # a


def residual(scores: Tensor, labels: Tensor) -> Tensor:
    """r [N, C] from scores [N, C] and labels [N], -1 where unknown."""
    known = labels >= 0
    truth = F.one_hot(labels.clamp_min(0), scores.shape[1]).to(scores.dtype)
    return (truth - torch.softmax(scores, 1)) * known.unsqueeze(1)


def spread(scores: Tensor, labels: Tensor, graph: MaskedGraph) -> Tensor:
    """Z_10 [N, C]."""
    return OPERATIONS[SPREAD].propagate(graph, (residual(scores, labels),), None)


def corrected(scores: Tensor, labels: Tensor, graph: MaskedGraph, strength: float) -> Tensor:
    """z' [N, C]."""
    return scores + strength * spread(scores, labels, graph)


def known_labels(graph: Graph) -> Tensor:
    """The labels of training nodes, -1 elsewhere, [N]."""
    return torch.where(graph.train_mask, graph.y, -1)


@torch.no_grad()
def likeliest_strength(scores: Tensor, graph: Graph, metric: Metric) -> float:
    """s; 0 where validation nodes gain nothing by it that chance does not explain."""
    y = graph.y[graph.val_mask]
    own = scores[graph.val_mask].double()
    added = spread(scores, known_labels(graph), MaskedGraph.of(graph))[graph.val_mask].double()
    if y.numel() == 0 or not bool(added.any()):
        return 0.0
    strength = fitted(own, added, y)
    after = own + strength * added
    before, now = score(metric, own, y), score(metric, after, y)
    higher = before is None or now is None or now > before
    likely, likely_before = (log_likelihood(torch.softmax(z, 1), y) for z in (after, own))
    return strength if higher and gains(likely, likely_before) else 0.0


def fitted(own: Tensor, added: Tensor, y: Tensor) -> float:
    """s = b / a with a, b = argmin mean CE(y, softmax(a z + b Z_10)), b ≥ 0: convex, and whatever z is sure of."""

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        logits = weights[0] * own + weights[1] * added
        slope = (torch.softmax(logits, 1) - F.one_hot(y, own.shape[1])) / y.numel()
        by_weight = [float((slope * part).sum()) for part in (own, added)]
        return float(F.cross_entropy(logits, y)), np.array(by_weight)

    best = minimize(loss, [1.0, 0.0], jac=True, method="L-BFGS-B", bounds=[(LEAST, None), (0.0, None)])
    return float(best.x[1] / best.x[0])
