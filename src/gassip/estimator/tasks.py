"""What `fit` was given, as one graph with labels.

    graph    a PyG Data, networkx graph, Graph, ... with its own labels, or with y beside it
    nodes    numbers of nodes of one graph, as cross_val_score and GridSearchCV deal them
    table    rows without edges: each is joined to its nearest rows

Shapes: N nodes, n rows.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy import sparse as sp
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.graph.inputs import to_numpy
from gassip.graph.memory import as_graph, is_data, only_one, unlabelled, with_labels
from gassip.graph.neighbours import Neighbours
from gassip.graph.networkx_tables import is_networkx

Form = Literal["graph", "nodes", "table"]


@dataclass(frozen=True, eq=False)
class Task:
    """A graph with labels, and what the user calls its classes."""

    graph: Graph
    classes: np.ndarray  # the values of y, in the order of the graph's classes
    form: Form
    neighbours: Neighbours | None = None


def graph_task(data: Any, y: Any, x: Any, seed: int) -> Task:
    source = only_one(data)
    if isinstance(source, Graph) and y is not None:
        raise GassipError("a Graph has its own labels; do not pass y")
    graph = as_graph(source, x, None if y is None else np.asarray(y), seed=seed)
    return Task(graph, graph.classes, "graph")


def nodes_task(graph: Any, nodes: Any, y: Any, seed: int) -> Task:
    inputs = unlabelled(graph)
    rows = node_numbers(nodes, inputs.num_nodes)
    if y is None:
        raise GassipError("fit(nodes, y) needs y, the label of each node")
    classes, codes = encoded(y, rows.size)
    names = [str(value) for value in classes]
    return Task(with_labels(inputs, rows, codes, names, seed), classes, "nodes")


def table_task(table: Any, y: Any, seed: int) -> Task:
    """Of rows that scikit-learn has validated."""
    check_classification_targets(y)
    classes, codes = encoded(y, table.shape[0])
    if classes.size < 2:
        raise GassipError(f"y holds {classes.size} class; a classifier needs at least two")
    neighbours = Neighbours.of(table)
    names = [str(value) for value in classes]
    graph = neighbours.training_graph(table)
    labelled = with_labels(graph, np.arange(codes.size), codes, names, seed)
    note = f"no edges given: each row is joined to its {neighbours.count} nearest"
    return Task(replace(labelled, notes=(*labelled.notes, note)), classes, "table", neighbours)


def is_table(data: Any) -> bool:
    """Rows of features: an array, a list of rows or a frame; a sparse matrix that is not square."""
    if sp.issparse(data):
        return bool(data.shape[0] != data.shape[1])
    if isinstance(data, (Graph, Tensor, str)) or is_data(data) or is_networkx(data):
        return False
    if isinstance(data, (list, tuple)):
        return not any(
            is_data(item) or is_networkx(item) or isinstance(item, Graph) for item in data
        )
    return hasattr(data, "__array__") or hasattr(data, "__len__")


def node_numbers(nodes: Any, count: int) -> np.ndarray:
    """[n] int64 from [n] or [n, 1]; each names a node of the graph."""
    found = to_numpy(nodes)
    found = found.reshape(-1) if found.ndim == 2 and found.shape[1] == 1 else found
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise GassipError(
            f"nodes must be numbers of nodes, [n] or [n, 1], not {found.dtype} of shape "
            f"{list(found.shape)}"
        )
    if found.size and (int(found.min()) < 0 or int(found.max()) >= count):
        raise GassipError(f"nodes must be numbers from 0 to {count - 1}")
    return found.astype(np.int64)


def encoded(y: Any, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The values of y and the number of each row's."""
    labels = to_numpy(y)
    labels = labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1 or labels.size != rows:
        raise GassipError(f"y has shape {list(labels.shape)}; one label for each of {rows} nodes")
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    return classes, codes
