"""What a net is judged by: accuracy, macro F1, area under the ROC curve; equal to scikit-learn's,
in one pass.

    F1_c = 2 TP_c / (true_c + called_c)
    AUC_c = (Σ_{i of c} rank_i - p (p + 1) / 2) / (p n)      p nodes of class c, n others; ties
                                                             share their mean rank

Macro F1 is the mean over the classes that occur, as truth or as answer; AUC is one class against
the rest, the mean over the classes (two classes: that of class 1). Hanley and McNeil, Radiology
143, 1982.
"""

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import rankdata
from torch import Tensor

from gassip.graph.graph import SPLITS, Graph

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Metric = Literal["accuracy", "macro-f1", "roc-auc"]
METRICS: tuple[Metric, ...] = get_args(Metric)


def score(metric: Metric, logits: Tensor, y: Tensor) -> float | None:
    """One number in 0..1 for the nodes given; None where the metric is not defined on them."""
    if y.numel() == 0:
        return None
    if metric == "accuracy":
        return float((logits.argmax(1) == y).float().mean())
    truth, classes = y.cpu().numpy(), logits.shape[1]
    if metric == "macro-f1":
        return macro_f1(truth, logits.argmax(1).cpu().numpy(), classes)
    if np.unique(truth).size < classes:  # one-vs-rest needs both kinds for every class
        return None
    share = torch.softmax(logits.double(), 1).cpu().numpy()
    areas = roc_areas(truth, share)
    return float(areas[1] if classes == 2 else areas.mean())


def macro_f1(truth: Ints, called: Ints, classes: int) -> float:
    """The mean of F1_c over the classes that occur."""
    right = np.bincount(truth[truth == called], minlength=classes)
    total = np.bincount(truth, minlength=classes) + np.bincount(called, minlength=classes)
    occur = total > 0
    return float(np.mean(2 * right[occur] / total[occur]))


def roc_areas(truth: Ints, share: Floats) -> Floats:
    """AUC_c of each column of `share` [N, C] against the rest, [C]; every class and its rest must
    occur."""
    of_class = truth[:, None] == np.arange(share.shape[1])
    positive = of_class.sum(0)
    ranks = np.where(of_class, rankdata(share, axis=0), 0.0).sum(0)
    areas: Floats = (ranks - positive * (positive + 1) / 2) / (positive * (truth.size - positive))
    return areas


def all_scores(logits: Tensor, graph: Graph) -> dict[str, dict[str, float]]:
    """{metric: {split: score}} for every metric and split on which it is defined."""
    table: dict[str, dict[str, float]] = {}
    for metric in METRICS:
        values = {s: score(metric, logits[graph.mask(s)], graph.y[graph.mask(s)]) for s in SPLITS}
        defined = {split: value for split, value in values.items() if value is not None}
        if defined:
            table[metric] = defined
    return table


def constant_score(graph: Graph, metric: Metric) -> float | None:
    """The validation score of the class that most training nodes have, named for every node."""
    y, known = graph.y[graph.val_mask], graph.y[graph.train_mask]
    if not y.numel() or not known.numel():
        return None
    logits = torch.zeros(y.numel(), graph.num_classes, device=y.device)
    logits[:, int(known.bincount(minlength=graph.num_classes).argmax())] = 1.0
    return score(metric, logits, y)
