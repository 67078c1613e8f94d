"""The labels and the nodes that a score is taken over.

Shapes: N nodes or rows.
"""

from typing import Any

import numpy as np

from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.graph.inputs import to_numpy
from gassip.graph.memory import is_data, only_one


def class_codes(data: Any, y: Any, classes: np.ndarray, rows: int) -> np.ndarray:
    """The class of each node as 0..C-1, -1 where unlabelled: of y, or else of the data's labels."""
    given = y if y is not None else labels_of(only_one(data))
    if given is None or len(given) != rows:
        raise GassipError(f"y must hold one label for each of the {rows} nodes, -1 where unknown")
    values = to_numpy(given)
    one_hot = values.ndim == 2 and values.shape[1] > 1
    values = (_of_one_hot(values, classes) if one_hot else values.reshape(-1)).tolist()
    index = {value: at for at, value in enumerate(classes.tolist())}
    blank = {-1, "", None} - set(index)
    known = {**index, **dict.fromkeys(blank, -1)}
    codes = [-1 if value != value else known.get(value) for value in values]
    if None in codes:
        unknown = values[codes.index(None)]
        raise GassipError(f"y holds label {unknown}, which the training graph did not have")
    return np.array(codes, dtype=np.int64)


def _of_one_hot(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The class of each row; None for a row of zeros."""
    if y.shape[1] != classes.size:
        raise GassipError(f"y has {y.shape[1]} columns, but there are {classes.size} classes")
    values = np.empty(y.shape[0], dtype=object)
    values[:] = [classes[row.argmax()] if row.any() else None for row in y]
    return values


def labels_of(source: Any) -> Any:
    """The labels of a Graph or a PyG Data, as the user has them; None where there are none."""
    if isinstance(source, Graph):
        names = np.array([*source.classes.tolist(), None], dtype=object)  # -1: the last
        return names[to_numpy(source.y)]
    y = source.get("y") if is_data(source) else None
    return None if y is None else to_numpy(y)


def given_test_mask(data: Any) -> Any:
    """The test nodes of a Graph or a PyG Data; None where there are none."""
    if isinstance(data, Graph):
        return data.test_mask
    return data.get("test_mask") if is_data(data) else None


def checked_mask(mask: Any, rows: int) -> np.ndarray:
    """[N] bool."""
    nodes = to_numpy(mask)
    if nodes.dtype != bool or nodes.shape != (rows,):
        raise GassipError(f"mask must hold True/False for each of the {rows} nodes")
    return nodes
