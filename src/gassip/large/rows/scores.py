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
from gassip.metrics import macro_f1, score
from gassip.nn.net import Net

Scores = dict[str, dict[str, float]]
SPLITS = {"train": 1, "val": 2, "test": 3}
AREA_NODES = 100_000  # of a split: ranks of N × C scores would take gigabytes


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
    """{metric: {split: score}} over every labelled node, the area under the ROC curve over at most
    AREA_NODES of a split, drawn evenly; test labels are read here, once. After a refit validation
    nodes are training nodes."""
    graph = trials.hops.graph
    y, split = np.asarray(graph.array("y")), np.array(graph.array("split"))
    if refit:
        split[split == SPLITS["val"]] = SPLITS["train"]
    drawn = drawn_nodes(y, split)
    called = np.empty(len(y), dtype=np.int32)  # the label alone: N × C scores would fill memory
    kept = []
    for start, scores in model_of(trials, net, label_weight, refit).blocks(trials.tasks):
        stop = start + len(scores)
        called[start:stop] = scores.argmax(1)
        kept.append(scores[drawn[start:stop]])
    logits, truth, of_split = torch.from_numpy(np.concatenate(kept)), y[drawn], split[drawn]
    table: Scores = {}
    for name, number in SPLITS.items():
        nodes, some = (split == number) & (y >= 0), of_split == number
        if not nodes.any():
            continue
        table.setdefault("accuracy", {})[name] = float((called[nodes] == y[nodes]).mean())
        f1 = macro_f1(y[nodes].astype(np.int64), called[nodes].astype(np.int64), trials.classes)
        table.setdefault("macro-f1", {})[name] = f1
        known = torch.from_numpy(truth[some].astype(np.int64))
        area = score("roc-auc", logits[torch.from_numpy(some)], known)
        if area is not None:
            table.setdefault("roc-auc", {})[name] = area
    return table


def drawn_nodes(y: np.ndarray, split: np.ndarray) -> np.ndarray:
    """All labelled nodes of a split, or AREA_NODES of them drawn evenly, [N] bool."""
    drawn = np.zeros(len(y), dtype=bool)
    rng = np.random.default_rng(0)
    for number in SPLITS.values():
        nodes = np.flatnonzero((split == number) & (y >= 0))
        if len(nodes) > AREA_NODES:
            nodes = rng.choice(nodes, AREA_NODES, replace=False)
        drawn[nodes] = True
    return drawn
