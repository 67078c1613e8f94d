"""Plain rivals of a search on rows: label propagation, an MLP and SGC, on a graph folder.

    python -m benchmarks.row_rivals big.graph [--seed 0] [--epochs E]

They read the training rows that the search reads, are trained by the same code, and are judged on
all validation and test nodes. A line of JSON each, with CPU seconds.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

from gassip.deploy.by_rows import label_logits
from gassip.deploy.row_runs import known_labels
from gassip.graph.store import GraphFolder
from gassip.large.rows.direction import direction
from gassip.large.rows.job import Job, chosen_nodes, hops_folder, prepared
from gassip.large.rows.nets import Shape
from gassip.large.rows.scores import SPLITS, all_scores
from gassip.large.rows.search import Options
from gassip.large.rows.trials import Trials

NETS = {
    "MLP, 256 units": Shape(hops=(0,), width=256, depth=2),
    "SGC, two hops": Shape(hops=(2,), depth=1, dropout=0.0),
}
Scores = dict[str, float]


def by_labels(trials: Trials) -> Scores:
    """Accuracy of label propagation alone."""
    graph = trials.hops.graph
    y, known = np.asarray(graph.array("y")), known_labels(graph)
    out = {}
    for name in ("val", "test"):
        nodes = np.flatnonzero(graph.mask(SPLITS[name]) & (y >= 0))
        logits = label_logits(known, trials.classes, trials.edges, nodes=nodes)
        out[name] = float((logits.argmax(1) == y[nodes]).mean())
    return out


def by_net(trials: Trials, shape: Shape, epochs: int | None) -> Scores:
    trained = trials.train("rival", 0, shape, epochs=epochs)
    return all_scores(trials, trained.net, 0.0)["accuracy"]


def rivals(trials: Trials, epochs: int | None) -> Iterator[tuple[str, Callable[[], Scores]]]:
    yield "label propagation", partial(by_labels, trials)
    for name, shape in NETS.items():
        yield name, partial(by_net, trials, shape, epochs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, help="of the nets; as the search without it")
    args = parser.parse_args()
    torch.set_num_threads(1)
    graph = GraphFolder.open(args.graph)
    place = hops_folder(graph, args.graph)
    job = Job(graph=graph, hops=place, options=Options(), seed=args.seed)
    chosen = chosen_nodes(job)
    trials = prepared(job, chosen, direction(job, chosen, []))
    trials.gather()
    for name, score in rivals(trials, args.epochs):
        began = time.process_time()
        row = {"name": name} | {split: round(value, 4) for split, value in score().items()}
        print(json.dumps(row | {"cpu_seconds": round(time.process_time() - began, 1)}), flush=True)


if __name__ == "__main__":
    main()
