"""Scores of a net of rows over every labelled node, by blocks of rows; what rounded hops cost.

Shapes: N nodes, C classes.
"""

import numpy as np
import torch

from gassip.deploy.by_rows import RowModel
from gassip.deploy.row_runs import known_labels
from gassip.large.rows.search import Found
from gassip.large.rows.training import judged_rows
from gassip.large.rows.trials import Trials, numpy_layers
from gassip.metrics import METRICS, score
from gassip.nn.net import Net

Scores = dict[str, dict[str, float]]
SPLITS = {"train": 1, "val": 2, "test": 3}


def cost_of_rounding(trials: Trials, found: Found, precision: str) -> str:
    """The first net that was taught, on rounded and on exact hops of the validation nodes."""
    first = trials.first
    if first is None:
        return f"{precision} hops: no net was trained to compare them with"
    ks = range(first.shape.hops[-1] + 1)
    exact = trials.hops.exact_rows(trials.chosen.val, ks)
    if exact is None:
        return f"{precision} hops: exact ones of these validation nodes were not kept"
    logits = judged_rows(first.net, torch.from_numpy(exact))
    value = score(trials.metric, logits, trials.tables.val.target)
    changed = float((logits.argmax(1) != first.logits.argmax(1)).float().mean())
    return (
        f"{precision} hops: validation {trials.metric} {first.value:.4f}, with exact hops "
        f"{value or 0:.4f}; {changed:.2%} of the labels differ"
    )


def model_of(trials: Trials, net: Net, label_weight: float, refit: bool = False) -> RowModel:
    return RowModel(
        layers=numpy_layers(net),
        hops=trials.hops,
        edges=trials.edges,
        label_weight=label_weight,
        labels=known_labels(trials.hops.graph, refit) if label_weight else None,
        threads=trials.threads,
    )


def all_scores(trials: Trials, net: Net, label_weight: float, refit: bool = False) -> Scores:
    """{metric: {split: score}} over every labelled node; test labels are read here, once. After a
    refit validation nodes are training nodes."""
    graph = trials.hops.graph
    y, split = np.asarray(graph.array("y")), np.array(graph.array("split"))
    if refit:
        split[split == SPLITS["val"]] = SPLITS["train"]
    kept: dict[str, list[np.ndarray]] = {name: [] for name in SPLITS}
    for start, scores in model_of(trials, net, label_weight, refit).blocks(trials.tasks):
        stop = start + len(scores)
        for name, number in SPLITS.items():
            kept[name].append(scores[(split[start:stop] == number) & (y[start:stop] >= 0)])
    table: Scores = {}
    for metric in METRICS:
        for name, number in SPLITS.items():
            truth = torch.from_numpy(y[(split == number) & (y >= 0)].astype(np.int64))
            value = score(metric, torch.from_numpy(np.concatenate(kept[name])), truth)
            if value is not None:
                table.setdefault(metric, {})[name] = value
    return table
