"""What a classifier has of a run's folder: the graph, the labels as its user has them, the net."""

import numpy as np

from gassip.estimator.tasks import Form
from gassip.graph.graph import Graph
from gassip.runs.read import Run
from gassip.runs.stored import stored_graph
from gassip.train.plan import Solution

COUNTS = ("weights_kept", "weights_total", "edges_kept", "edges_total", "best_epoch")


def stored_labels(run: Run) -> tuple[Graph, np.ndarray, Form]:
    """The graph, its classes [C], and whether nodes are asked for by number; the names of the
    classes where the run is not a classifier's."""
    graph, stored = stored_graph(run), run.meta["source"].get("classifier")
    said = stored if isinstance(stored, dict) else {}
    classes = said.get("classes")
    if not isinstance(classes, list) or len(classes) != graph.num_classes:
        classes = list(graph.class_names)
    form: Form = "nodes" if said.get("form") == "nodes" else "graph"
    return graph, np.array(classes), form


def stored_solution(run: Run, graph: Graph) -> Solution:
    """The net with the figures of its training."""
    return Solution(
        model=run.model,
        graph=graph,
        scores=run.meta["scores"],
        seconds=run.meta["seconds"]["retrain"],
        **{name: run.meta[name] for name in COUNTS},
    )
