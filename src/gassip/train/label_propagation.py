"""Training labels as a second opinion beside the net, on the graph that they belong to (METHOD.md).

    q   = Z_5 of Z_0 = Y,   Z_{k+1} = .7 Â Z_k + .3 Y       Y [N, C]: 1 at a training node's label,
        else 0 (APPNP5)
    o_i = log(q_i + ε π)                                    π_c = (n_c + 1) / (n + C) of n labels, ε
                                                            = .01
    z'  = z + w o                                           a product of two opinions; w is one
        number

Labels spread over the graph (Zhu and Ghahramani, 2002) tell much where most nodes have labelled
ones near them, and take no weights. A net that is trained beside them learns what they do not tell.
So that it sees of a labelled node what it will see of others, o of a training node comes in
training from the labels of the other nine tenths of them.

    a, w = argmin over validation nodes of mean CE(y, softmax(a z + w o)),   w ≥ 0,   for a net
    trained without them

They are tried where validation nodes are then likelier by more than chance, and heard where the
same is true of the net that is trained beside them (student.py).

Shapes: N nodes, C classes.
"""

from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.nn import functional as F

from gassip.best.calibration import gains, log_likelihood
from gassip.graph.graph import Graph
from gassip.nn.propagate import MaskedGraph, propagate
from gassip.operations import OPERATIONS, SPREAD
from gassip.runs.format import FAINT

TENTHS = 10
LEAST, MOST = (
    0.05,
    10.0,
)  # of a and w: where both opinions are always right, the likeliest has no end


def known_labels(graph: Graph) -> Tensor:
    """The labels of training nodes, -1 elsewhere, [N]."""
    return torch.where(graph.train_mask, graph.y, -1)


def opinion(labels: Tensor, classes: int, graph: MaskedGraph) -> Tensor:
    """o [N, C] from labels [N], -1 where unknown."""
    known = labels >= 0
    y = F.one_hot(labels.clamp_min(0), classes).float() * known.unsqueeze(1)
    common = (y.sum(0) + 1) / (known.sum() + classes)
    return (propagate(OPERATIONS[SPREAD], graph, (y,)) + FAINT * common).log()


def opinion_in_training(labels: Tensor, classes: int, graph: MaskedGraph) -> Tensor:
    """The same, but of each labelled node without its own tenth of the labels."""
    out = opinion(labels, classes, graph)
    nodes = torch.nonzero(labels >= 0).squeeze(1)
    order = torch.randperm(nodes.numel(), generator=torch.Generator().manual_seed(0)).to(
        nodes.device
    )
    for k in range(TENTHS):
        part = nodes[order[k::TENTHS]]
        out[part] = opinion(labels.index_fill(0, part, -1), classes, graph)[part]
    return out


class Fit(NamedTuple):
    """How much two opinions count."""

    own: float  # a
    labels: float  # w


def fitted(scores: Tensor, said: Tensor, y: Tensor) -> Fit:
    """a and w, [n, C] and [n, C] against y [n]: a convex question."""
    own, other = scores.double(), said.double()

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        logits = weights[0] * own + weights[1] * other
        slope = (torch.softmax(logits, 1) - F.one_hot(y, own.shape[1])) / y.numel()
        by_weight = [float((slope * part).sum()) for part in (own, other)]
        return float(F.cross_entropy(logits, y)), np.array(by_weight)

    best = minimize(
        loss, [1.0, 0.0], jac=True, method="L-BFGS-B", bounds=[(LEAST, MOST), (0.0, MOST)]
    )
    return Fit(float(best.x[0]), float(best.x[1]))


@torch.no_grad()
def weight_of_labels(scores: Tensor, graph: Graph) -> float:
    """w beside a net with these scores [N, C]; 0 where validation nodes gain nothing that chance
    does not explain."""
    y = graph.y[graph.val_mask]
    if y.numel() == 0 or not bool(graph.train_mask.any()):
        return 0.0
    said = opinion(known_labels(graph), graph.num_classes, MaskedGraph.of(graph))[graph.val_mask]
    own = scores[graph.val_mask]
    fit = fitted(own, said, y)
    both = fit.own * own + fit.labels * said
    likely, likely_before = (log_likelihood(torch.softmax(z.double(), 1), y) for z in (both, own))
    return fit.labels if gains(likely, likely_before) else 0.0
