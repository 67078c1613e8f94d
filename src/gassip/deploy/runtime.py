"""Read a run's folder with numpy and scipy alone: no torch, no PyG.

`load` gives a `Model` (model.py), which labels the run's graph, that graph with nodes and edges
added, or another one. `python -m gassip.runtime RUN --out labels.csv` does so from the command line
(labelling.py).

Shapes: N nodes, D features of x, d of them read, C classes.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse as sp

from gassip.deploy.model import Model as Model
from gassip.deploy.model import softmax as softmax
from gassip.deploy.numpy_layers import Layer, layers_of
from gassip.deploy.stored import stored_tensors, too_large
from gassip.errors import GassipError
from gassip.graph.checks import Array, Table, canonical, checked
from gassip.runs.format import (
    Precision,
    Tensors,
    label_weight,
    on_other_graphs,
    read_ids,
    read_meta,
    read_preparation,
    read_statistics,
    read_tensors,
    soft_edges,
    structure_of,
    unpack,
)


def load(folder: str | Path, *, precision: Precision | None = None, reorder: bool = False) -> Model:
    """Read and check a run's folder, or what `gassip export --format runtime` wrote.

    `precision` rounds the weights as that format would; None takes them as they are stored.
    `reorder` pays where there will be hundreds of full passes over a large graph: it makes the
    first one slower.
    """
    folder = Path(folder)
    meta = read_meta(folder)
    net = read_tensors(folder, "model.safetensors", meta)
    graph, inputs = stored_tensors(folder, meta)
    with _fitting(folder):
        layers = layers_of(meta["architecture"], unpack(net, meta, precision), _classes(meta))
        index = _feature_index(net.get("feature_index"), meta["features"])
        parts = _graph_parts(inputs, graph, meta, layers[0].weights[0].shape[0])
        parts |= {"ids": read_ids(inputs, meta["nodes"]), "structure": structure_of(meta)}
        parts |= {"preparation": read_preparation(folder, meta), "soft": soft_edges(meta)}
    _check_width(folder, layers[0], meta["features"] if index is None else index.size)
    source = meta["source"]
    return Model(
        layers=layers,
        class_names=tuple(meta["class_names"]),
        features=meta["features"],
        feature_index=index,
        undirected=bool(source.get("undirected")),
        normalize=bool(source.get("normalize")),
        weighted=source.get("weighted") is not False,
        edges_total=meta["edges_total"],
        statistics=read_statistics(folder, meta),
        elsewhere=on_other_graphs(meta),
        absent=too_large(meta),
        reorder=reorder,
        **parts,
    )


@contextmanager
def _fitting(folder: Path) -> Iterator[None]:
    """Files that contradict each other are one line."""
    try:
        yield
    except KeyError as error:
        raise GassipError(
            f"{folder}: the run is not complete: {error.args[0]} is missing"
        ) from error
    except (GassipError, ValueError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise GassipError(f"{folder}: the run does not fit itself: {error}") from error


def _classes(meta: Mapping[str, Any]) -> int:
    return len(meta["class_names"])


def _check_width(folder: Path, first: Layer, width: int) -> None:
    read = first.weights[0].shape[0]
    if read != width:
        raise GassipError(f"{folder}: the first layer reads {read} features, x has {width}")


def _graph_parts(
    inputs: Tensors, graph: Tensors, meta: Mapping[str, Any], width: int
) -> dict[str, Any]:
    """What a `Model` holds of the run's graph; no edge where that is too large."""
    apart, weight = too_large(meta) is not None, label_weight(meta)
    return {
        "x": _stored_x(inputs, meta["nodes"], width),
        "edges": sp.csr_array((0, 0)) if apart else _stored_edges(graph, meta["nodes"]),
        "y": inputs.get("y"),
        "test_mask": inputs.get("test_mask", graph.get("test_mask")),
        "label_weight": weight,
        "labels": _stored_labels(inputs, graph, meta) if weight and not apart else None,
    }


def _feature_index(index: Array | None, features: int) -> Array | None:
    if index is not None and (index.ndim != 1 or (index < 0).any() or (index >= features).any()):
        raise GassipError(f"feature_index names columns outside 0..{features - 1}")
    return index


def _stored_x(inputs: Tensors, nodes: int, width: int) -> Table | None:
    if "x" in inputs:
        if inputs["x"].shape != (nodes, width):
            raise GassipError(f"x is {list(inputs['x'].shape)}, not {[nodes, width]}")
        return inputs["x"]
    if "x_data" in inputs:
        return checked(inputs["x_data"], inputs["x_indices"], inputs["x_indptr"], (nodes, width))
    return None


def _stored_labels(inputs: Tensors, graph: Tensors, meta: Mapping[str, Any]) -> Array | None:
    """Those of training nodes, -1 elsewhere; None where the run was saved without its inputs."""
    if "y" not in inputs:
        return None
    y, train = inputs["y"], inputs["train_mask"] if "train_mask" in inputs else graph["train_mask"]
    if (
        y.shape != (meta["nodes"],)
        or train.shape != y.shape
        or (y[train] >= len(meta["class_names"])).any()
    ):
        raise GassipError(
            f"y is {list(y.shape)} under a mask of {list(train.shape)}, or names a class there "
            f"is not"
        )
    return np.where(train, y, -1)


def _stored_edges(graph: Tensors, nodes: int) -> sp.csr_array:
    if "edge_index" in graph:  # of a run's folder, sorted by receiver
        sender, receiver = graph["edge_index"]
        if (receiver < 0).any() or (np.diff(receiver) < 0).any():
            raise GassipError("edge_index is not sorted by receiver")
        if receiver.size and int(receiver[-1]) >= nodes:
            raise GassipError(f"edge_index refers to node {receiver[-1]} of {nodes}")
        if "train_mask" in graph and graph["train_mask"].shape != (nodes,):
            raise GassipError(f"train_mask has not one entry for each of {nodes} nodes")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(receiver, minlength=nodes))])
    else:
        sender, indptr = graph["sender"], graph["indptr"]
    weight = (
        graph["edge_weight"] if "edge_weight" in graph else np.ones(sender.size, dtype=np.float32)
    )
    edges = checked(weight, sender, indptr, (nodes, nodes))
    return canonical(edges) if (weight == 0).any() else edges
