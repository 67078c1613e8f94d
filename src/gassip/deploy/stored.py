"""The graph of a run as arrays: from the run's own files, or of a search on rows from the folder of
the graph, if that fits into memory.

    graph     edge_index [2, E] (or indptr and sender), edge_weight, masks
    inputs    x, y, ids

Shapes: N nodes, D features, E directed edges.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gassip.errors import GassipError
from gassip.graph.parts import SPLITS
from gassip.graph.store import GraphFolder, is_graph_folder
from gassip.large.adjacency import stored_edges
from gassip.runs.format import Tensors, read_tensors

PER_EDGE = 60  # bytes: senders, weights and two normalised matrices
SHARE = 2  # of the machine's memory, a half


def is_row_run(meta: Mapping[str, Any]) -> bool:
    return isinstance(meta.get("rows"), dict)


def stored_tensors(folder: Path, meta: Mapping[str, Any]) -> tuple[Tensors, Tensors]:
    """Graph and inputs; two empty ones where the graph of a search on rows is too large."""
    if is_row_run(meta):
        return ({}, {}) if too_large(meta) else row_tensors(folder, meta)
    there = "inputs.safetensors" in meta["files"]
    inputs = read_tensors(folder, "inputs.safetensors", meta) if there else {}
    return read_tensors(folder, "graph.safetensors", meta), inputs


def too_large(meta: Mapping[str, Any]) -> str | None:
    """Why the graph of a search on rows is not read as a whole; None if it is, or lies in the
    run."""
    if not is_row_run(meta):
        return None
    need = 8 * meta["nodes"] * meta["features"] + PER_EDGE * meta["edges_kept"]
    most = memory() // SHARE
    if need <= most:
        return None
    return (
        f"the graph {meta['rows']['graph']} as a whole needs {need / 2**30:.1f} GiB, half of this "
        f"machine's memory is {most / 2**30:.1f}; `gassip predict RUN --out FILE` labels it by "
        f"rows, and another graph can be given"
    )


def memory() -> int:
    """Bytes of this machine; 4 GiB where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**32


def own_graph(folder: Path, meta: Mapping[str, Any]) -> GraphFolder:
    """The graph folder of a search on rows, unchanged since."""
    told = meta["rows"]
    path = Path(told["graph"])
    if not is_graph_folder(path):
        raise GassipError(f"{path} is no graph folder; the run {folder} was made from one")
    graph = GraphFolder.open(path)
    if graph.meta["files"] != told["files"]:
        raise GassipError(f"{path} is no longer the graph that {folder} was made from")
    return graph


def row_tensors(folder: Path, meta: Mapping[str, Any]) -> tuple[Tensors, Tensors]:
    """The graph's folder, read into memory, with the edges that the run kept."""
    graph, told = own_graph(folder, meta), meta["rows"]
    edges = stored_edges(graph, told["edges"], Path(told["hops"]))
    arrays: Tensors = {"indptr": edges.indptr, "sender": np.array(edges.indices)}
    if edges.weight is not None:
        arrays["edge_weight"] = np.array(edges.weight)
    masks = [graph.mask(number) for number in range(1, len(SPLITS) + 1)]
    if meta["source"].get("refit"):
        masks[0], masks[1] = masks[0] | masks[1], np.zeros_like(masks[1])
    arrays |= {f"{name}_mask": mask for name, mask in zip(SPLITS, masks, strict=True)}
    inputs: Tensors = {
        "x": np.array(graph.array("x")),
        "y": np.asarray(graph.array("y"), dtype=np.int64),
    }
    if (ids := graph.ids()) is not None:
        inputs["ids"] = np.frombuffer(json.dumps(ids).encode(), dtype=np.uint8)
    return arrays, inputs
