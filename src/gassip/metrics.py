"""What a net is judged by: accuracy, macro F1, area under the ROC curve (scikit-learn's, but for plain accuracy)."""

from typing import Literal, get_args

import numpy as np
import torch
from sklearn.metrics import f1_score, roc_auc_score
from torch import Tensor

from gassip.graph import SPLITS, Graph

Metric = Literal["accuracy", "macro-f1", "roc-auc"]
METRICS: tuple[Metric, ...] = get_args(Metric)


def score(metric: Metric, logits: Tensor, y: Tensor) -> float | None:
    """One number in 0..1 for the nodes given; None where the metric is not defined on them."""
    if y.numel() == 0:
        return None
    if metric == "accuracy":
        return float((logits.argmax(1) == y).float().mean())
    truth = y.cpu().numpy()
    if metric == "macro-f1":
        return float(f1_score(truth, logits.argmax(1).cpu().numpy(), average="macro", zero_division=0))
    classes = logits.shape[1]
    if np.unique(truth).size < classes:  # one-vs-rest needs both kinds for every class
        return None
    share = torch.softmax(logits.double(), 1).cpu().numpy()
    if classes == 2:
        return float(roc_auc_score(truth, share[:, 1]))
    return float(roc_auc_score(truth, share, multi_class="ovr"))


def all_scores(logits: Tensor, graph: Graph) -> dict[str, dict[str, float]]:
    """{metric: {split: score}} for every metric and split on which it is defined."""
    table: dict[str, dict[str, float]] = {}
    for metric in METRICS:
        values = {s: score(metric, logits[graph.mask(s)], graph.y[graph.mask(s)]) for s in SPLITS}
        defined = {split: value for split, value in values.items() if value is not None}
        if defined:
            table[metric] = defined
    return table
