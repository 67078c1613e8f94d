"""Graphs from what users hold in memory: pandas frames."""

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from gassip.errors import GassipError, GassipWarning
from gassip.graph.columns import Problems
from gassip.graph.datasets import build
from gassip.graph.graph import Graph
from gassip.graph.inputs import to_numpy
from gassip.graph.parts import Parts
from gassip.graph.structure import structural_like
from gassip.graph.table_files import EXTRA
from gassip.graph.table_frames import table_of_frame
from gassip.graph.tables import Names, parts_of

if TYPE_CHECKING:
    import pandas as pd


INDEX = "index of nodes"


def from_frames(
    nodes: "pd.DataFrame",
    edges: "pd.DataFrame",
    *,
    label: str = "label",
    id: str | None = "id",
    split: str = "split",
    source: str = "source",
    target: str = "target",
    weight: str = "weight",
    like: Graph | None = None,
    name: str = "frames",
    seed: int = 0,
    undirected: bool = False,
) -> Graph:
    """A graph from two DataFrames. Columns of `nodes` besides id, label and split are features:
    numbers, texts, booleans, dates, missing cells.

    `id=None` takes the index of `nodes`. With `like`, the columns are prepared as those of that
    graph were and no label is read: a graph to predict on.
    """
    names = Names(id=id, label=label, split=split, source=source, target=target, weight=weight)
    parts = _frame_parts(nodes, edges, names, like)
    if like is not None:
        for line in parts.notes:  # what training did not have
            warnings.warn(line, GassipWarning, stacklevel=2)
        return _inputs_like(parts, like, name, undirected)
    return build(parts, name=name, seed=seed, undirected=undirected, normalize=False)


def _frame_parts(
    nodes: "pd.DataFrame", edges: "pd.DataFrame", names: Names, like: Graph | None
) -> Parts:
    try:
        import pandas as pd
    except ImportError as error:
        raise GassipError(f"from_frames {EXTRA}") from error
    for what, frame in (("nodes", nodes), ("edges", edges)):
        if not isinstance(frame, pd.DataFrame):
            raise GassipError(f"{what} is a {type(frame).__name__}; it must be a pandas DataFrame")
    if like is not None and like.preparation is None and not like.featureless:
        raise GassipError("`like` was not made from a table; its x has no column names")
    if names.id is None:
        nodes = nodes.assign(**{INDEX: nodes.index.astype(str)})
        names = Names(**{**vars(names), "id": INDEX})
    problems = Problems()
    return parts_of(
        table_of_frame(nodes, "nodes", problems),
        table_of_frame(edges, "edges", problems),
        names=names,
        labels=like is None,
        preparation=None if like is None else like.preparation,
        problems=problems,
    )


def _inputs_like(parts: Parts, like: Graph, name: str, undirected: bool) -> Graph:
    if like.featureless:
        assert like.structure is not None
        given = replace(parts, x=np.ones((len(parts.node_ids()), 1)))
        edges = to_numpy(_inputs(given, like, name, undirected=False).edge_index)
        x = structural_like(like.structure, edges, parts.node_ids(), named=True)
        graph = _inputs(given, like, name, undirected)
        return replace(graph, x=torch.from_numpy(x), structure=like.structure)
    return _inputs(parts, like, name, undirected)


def _inputs(parts: Parts, like: Graph, name: str, undirected: bool) -> Graph:
    return Graph.inputs(
        parts.x,
        parts.edge_index,
        edge_weight=parts.edge_weight,
        class_names=like.class_names,
        name=name,
        undirected=undirected,
        ids=parts.ids,
        preparation=parts.preparation,
    )
