"""Label propagation from the training nodes, as logits that are added to a net's.

    q   = Z_5 of Z_0 = Y,   Z_{k+1} = .7 Â Z_k + .3 Y    Y [N, C]: one-hot labels, 0 if unknown
    o_i = log(q_i + ε π)                                 π_c = (n_c + 1) / (n + C), ε = .01
    z'  = z + w o                                        w is one number of the recipe

Label propagation (Zhu and Ghahramani, 2002) takes no weights and belongs to the graph of the
labels. A net trained with these logits learns what they do not tell. In training, o of a labelled
node is out of fold: it comes from the labels of the other nine tenths.

Shapes: N nodes, C classes.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.graph.graph import Graph
from gassip.nn.propagate import MaskedGraph, propagate
from gassip.operations import OPERATIONS, PRIOR_WEIGHT, SPREAD

FOLDS = 10


def known_labels(graph: Graph) -> Tensor:
    """The labels of training nodes, -1 elsewhere, [N]."""
    return torch.where(graph.train_mask, graph.y, -1)


def label_logits(labels: Tensor, classes: int, graph: MaskedGraph) -> Tensor:
    """o [N, C] from labels [N], -1 where unknown."""
    known = labels >= 0
    y = F.one_hot(labels.clamp_min(0), classes).float() * known.unsqueeze(1)
    prior = (y.sum(0) + 1) / (known.sum() + classes)
    return (propagate(OPERATIONS[SPREAD], graph, (y,)) + PRIOR_WEIGHT * prior).log()


def out_of_fold_label_logits(labels: Tensor, classes: int, graph: MaskedGraph) -> Tensor:
    """o [N, C], of each labelled node without the labels of its own fold."""
    out = label_logits(labels, classes, graph)
    nodes = torch.nonzero(labels >= 0).squeeze(1)
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(nodes.numel(), generator=generator).to(nodes.device)
    for k in range(FOLDS):
        fold = nodes[order[k::FOLDS]]
        out[fold] = label_logits(labels.index_fill(0, fold, -1), classes, graph)[fold]
    return out
