"""The graph of a run as its folder holds it: what the net reads, no more.

Columns of x that the net does not read are 0, removed edges are not there.
"""

import numpy as np
import torch
from scipy import sparse as sp

from gassip.errors import GassipError
from gassip.graph.checks import checked
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.runs.format import read_ids, read_tensors, structure_of
from gassip.runs.read import Run


def stored_graph(run: Run) -> Graph:
    """The kept edges, the columns read, labels and masks."""
    meta = run.meta
    tensors = read_tensors(run.folder, "inputs.safetensors", meta)
    return Graph(
        x=_features(run, tensors),
        edge_index=run.edge_index,
        edge_weight=run.edge_weight,
        y=run.labels(),
        train_mask=run.masks["train"],
        val_mask=run.masks["val"],
        test_mask=run.masks["test"],
        class_names=tuple(meta["class_names"]),
        name=meta["dataset"],
        notes=tuple(meta["notes"]),
        ids=read_ids(tensors, meta["nodes"]),
        preparation=run.preparation,
        structure=structure_of(meta),
    )


def _features(run: Run, tensors: dict[str, np.ndarray]) -> torch.Tensor | Csr:
    """x [N, D]; columns that the net does not read are 0."""
    index = run.model.feature_index
    wide = int(run.meta["features"])
    columns = np.arange(wide) if index is None else index.numpy()
    shape = (int(run.meta["nodes"]), columns.size)
    if "x" in tensors:
        if tensors["x"].shape != shape:
            raise GassipError(f"{run.folder}: inputs.safetensors holds no x of shape {list(shape)}")
        x = torch.zeros(shape[0], wide)
        x[:, torch.from_numpy(columns)] = torch.from_numpy(tensors["x"].astype(np.float32))
        return x
    try:
        parts = (tensors["x_data"], tensors["x_indices"], tensors["x_indptr"])
    except KeyError as error:
        raise GassipError(f"{run.folder}: inputs.safetensors holds no x") from error
    read = checked(*parts, shape)
    moved = (read.data, columns[read.indices], read.indptr)
    return Csr.from_scipy(sp.csr_array(moved, shape=(shape[0], wide)))
