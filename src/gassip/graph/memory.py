"""Graphs from what users hold in memory, as one `Graph`.

    PyG Data      x, edge_index or adj_t, y, optional edge_weight, masks
    networkx      node attributes: y or label, optional split, x or named columns; weight of edges
    scipy sparse  an adjacency matrix [N, N]: row sends, column receives; x and y beside it
    arrays        edge_index [2, E]; x and y beside it
    a list        of one of these

Anything else is refused in one line that says what is supported. networkx is imported by its user.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor

from gassip.errors import GassipError
from gassip.graph.columns import Problems, Table
from gassip.graph.graph import Graph
from gassip.graph.inputs import to_numpy
from gassip.graph.labels import complete_masks
from gassip.graph.networkx_tables import is_networkx, networkx_tables
from gassip.graph.parts import MASKS, row_numbers
from gassip.graph.structure import choose_structure, structural, structural_like
from gassip.graph.tables import Names, are_whole, labels_of, parts_of, split_of

Array: TypeAlias = "np.ndarray | Tensor | Sequence[Any]"
SUPPORTED = (
    "one graph with one class per node: a PyG Data, a networkx graph, a scipy sparse adjacency "
    "matrix or edge_index, x and y"
)
KNOWN = {"x", "y", "edge_index", "edge_weight", "edge_attr", "adj_t", *MASKS}


def as_graph(
    source: Any,
    x: "Array | sp.spmatrix | sp.sparray | None" = None,
    y: "Array | None" = None,
    *,
    masks: "Sequence[Array | None] | None" = None,
    edge_weight: "Array | None" = None,
    class_names: Sequence[str] | None = None,
    name: str = "graph",
    seed: int = 0,
    undirected: bool = False,
    normalize: bool = False,
) -> Graph:
    """One graph from a PyG `Data`, a networkx graph, a scipy adjacency matrix or an edge_index.

    `x`, `y`, `masks` (train, val, test) and `edge_weight` stand beside a matrix or an edge_index,
    or replace what the source holds. Without masks `seed` draws a stratified split.
    """
    source = only_one(source)
    if isinstance(source, Graph):
        return source
    given = {"x": x, "y": y, "edge_weight": edge_weight}
    given |= dict(zip(MASKS, masks or (None,) * 3, strict=True))
    given = {key: value for key, value in given.items() if value is not None}
    options: dict[str, Any] = {"name": name, "seed": seed, "undirected": undirected}
    if is_networkx(source) and "x" not in given:
        return _of_networkx(source, given, options | {"normalize": normalize})
    found, notes = _arrays(source)
    return of_arrays(found | given, notes, class_names=class_names, normalize=normalize, **options)


def of_arrays(found: Mapping[str, Any], notes: Sequence[str], **options: Any) -> Graph:
    """A graph of arrays by name, as a PyG `Data` calls them."""
    for key in ("edge_index", "y"):
        if found.get(key) is None:
            raise GassipError(f"data.{key} is missing; a graph needs edge_index and y")
    if found.get("x") is None:
        return _without_features(found, notes, options)
    return Graph.build(
        found["x"],
        _plain(found["edge_index"]),
        _plain(found["y"]),
        masks=[None if found.get(key) is None else _plain(found[key]) for key in MASKS],
        edge_weight=None if found.get("edge_weight") is None else _plain(found["edge_weight"]),
        notes=notes,
        **options,
    )


def _without_features(
    found: Mapping[str, Any], notes: Sequence[str], options: Mapping[str, Any]
) -> Graph:
    """x is made from the edges; of what, validation decides."""
    blank = np.ones((_plain(found["y"]).shape[0], 1))
    graph = of_arrays({**found, "x": blank}, notes, **options)
    edges, ids = to_numpy(graph.edge_index), graph.ids or row_numbers(graph.num_nodes)
    y, train, val = (to_numpy(tensor) for tensor in (graph.y, graph.train_mask, graph.val_mask))
    kind, note = choose_structure(edges, ids, y, train, val)
    x = torch.from_numpy(structural(kind, edges, ids))
    return replace(graph, x=x, structure=kind, notes=(*graph.notes, note))


def _made_like(found: Mapping[str, Any], like: Graph, options: Mapping[str, Any]) -> Graph:
    """A graph without features, given those that the training graph was given."""
    assert like.structure is not None, "asked for by the caller"
    index = _plain(found["edge_index"])
    nodes = max(int(index.max(initial=0)) + 1, int(found.get("num_nodes") or 0))
    same = nodes <= like.num_nodes and "num_nodes" not in found
    blank = np.ones((like.num_nodes if same else nodes, 1))
    graph = Graph.inputs(blank, index, edge_weight=found.get("edge_weight"), **options)
    edges, ids = to_numpy(graph.edge_index), graph.ids or row_numbers(graph.num_nodes)
    is_own = np.array_equal(edges, to_numpy(like.edge_index)) and len(ids) == like.num_nodes
    if is_own:
        x = structural(like.structure, edges, ids)
    else:
        x = structural_like(like.structure, edges, ids, named=graph.ids is not None)
    return replace(graph, x=torch.from_numpy(x), structure=like.structure)


def unlabelled(source: Any, like: Graph | None = None, x: Any = None) -> Graph:
    """The inputs of any kind that `as_graph` takes; labels are not read. Named columns are prepared
    as those of `like` were."""
    source = only_one(source)
    if isinstance(source, Graph):
        return source
    preparation = None if like is None else like.preparation
    options: dict[str, Any] = {"class_names": () if like is None else like.class_names}
    bare = like is not None and like.featureless
    if is_networkx(source) and x is None and not bare:
        nodes, edges, directed = networkx_tables(source, labels=False)
        parts = parts_of(nodes, edges, labels=False, fit=like is None, preparation=preparation)
        found: dict[str, Any] = {"x": parts.x, "edge_index": parts.edge_index}
        found |= {"edge_weight": parts.edge_weight}
        options |= {"ids": parts.ids, "undirected": not directed}
        options |= {"preparation": parts.preparation}
    else:
        found, _ = _arrays(source)
        if is_networkx(source):
            options["ids"] = tuple(str(node) for node in source)
            found["num_nodes"] = len(options["ids"])
    found = found if x is None else found | {"x": x}
    made = found.get("x") is None and found.get("edge_index") is not None
    if made and like is not None and like.featureless:
        return _made_like(found, like, options)
    for key in ("x", "edge_index"):
        if found.get(key) is None:
            raise GassipError(f"data.{key} is missing; a prediction needs x and edge_index")
    weight = found.get("edge_weight")
    return Graph.inputs(found["x"], _plain(found["edge_index"]), edge_weight=weight, **options)


def with_labels(
    graph: Graph, nodes: np.ndarray, y: np.ndarray, class_names: Sequence[str], seed: int
) -> Graph:
    """The graph with labels y (0..C-1) of some nodes alone: a quarter of each class is for
    validation, the others are for training."""
    labels, train = np.full(graph.num_nodes, -1), np.zeros(graph.num_nodes, dtype=bool)
    labels[nodes], train[nodes] = y, True
    said = list(graph.notes)
    masks = complete_masks((train, None, None), labels, tuple(class_names), seed, said)
    marked = [torch.from_numpy(mask).to(graph.device) for mask in masks]
    return replace(
        graph,
        y=torch.from_numpy(labels).to(graph.device),
        class_names=tuple(class_names),
        whole_labels=False,
        notes=tuple(said),
        train_mask=marked[0],
        val_mask=marked[1],
        test_mask=marked[2],
    )


def only_one(source: Any) -> Any:
    """What a list of one graph holds; graphs of other kinds are refused."""
    if isinstance(source, (list, tuple)) and source and not _is_numbers(source):
        if len(source) > 1:
            raise GassipError(f"{len(source)} graphs were given; supported is {SUPPORTED}")
        return only_one(source[0])
    kind = type(source).__name__
    if kind in ("HeteroData", "TemporalData"):
        raise GassipError(f"a {kind} was given; supported is {SUPPORTED}")
    if kind.endswith("Batch") and getattr(source, "num_graphs", 1) > 1:
        raise GassipError(f"{source.num_graphs} graphs were given; supported is {SUPPORTED}")
    if is_networkx(source) and source.is_multigraph():
        raise GassipError(
            f"a networkx {kind} was given: merge its parallel edges first, networkx.Graph(g) or "
            f"networkx.DiGraph(g)"
        )
    return source


def _is_numbers(values: Sequence[Any]) -> bool:
    """Whether a list is an array: of numbers, or of lists of them."""
    first = values[0]
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    return isinstance(first, (int, float, np.number))


def is_data(source: object) -> bool:
    return any(kind.__module__.startswith("torch_geometric.") for kind in type(source).__mro__)


def _plain(value: Any) -> np.ndarray:
    return to_numpy(value)


def _arrays(source: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What a source holds, by PyG's names, and notes on what is left out."""
    if is_data(source) and hasattr(source, "to_dict"):
        return entries_of(source.to_dict())
    if is_networkx(source):
        nodes, edges, directed = networkx_tables(source, labels=False)
        ids = {name: row for row, name in enumerate(nodes.texts("id"))}
        ends = [[ids[name] for name in edges.texts(end)] for end in ("source", "target")]
        index = np.array(ends, dtype=np.int64).reshape(2, -1)
        index = index if directed else np.concatenate([index, index[::-1]], axis=1)
        return {"edge_index": index}, ()
    if sp.issparse(source):
        return _of_matrix(source), ()
    if isinstance(source, (np.ndarray, Tensor, list, tuple)):
        return {"edge_index": source}, ()
    raise GassipError(f"a {type(source).__name__} was given; supported is {SUPPORTED}")


# PyG


def entries_of(found: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The entries of a `Data` that a graph is made of: adj_t is read where there is no edge_index,
    edge_attr where it can be a weight and there is none."""
    out = {key: found[key] for key in KNOWN if found.get(key) is not None}
    if "adj_t" in out and "edge_index" not in out:
        out |= _of_adj_t(out["adj_t"])
    attribute = out.pop("edge_attr", None)
    if attribute is None:
        return out, ()
    if "edge_weight" in out:
        return out, ("edge_attr is left out: edge_weight is read",)
    if _is_weight(attribute):
        out["edge_weight"] = attribute
        return out, ("edge_attr holds one number per edge and is taken for edge_weight",)
    shape = list(getattr(attribute, "shape", ()))
    return out, (f"edge_attr of shape {shape} is left out: one weight per edge is read",)


def _is_weight(value: object) -> bool:
    """One finite number of 0 or more for each edge."""
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_complex():
        return False
    if value.is_meta or value.is_quantized or value.dim() not in (1, 2):
        return False
    if value.dim() == 2 and value.shape[1] != 1:
        return False
    return bool(value.isfinite().all()) and bool((value >= 0).all())


def _of_adj_t(adj_t: Any) -> dict[str, Any]:
    """The transposed adjacency of PyG: row receives, column sends."""
    if isinstance(adj_t, Tensor):
        entries = adj_t.to_sparse_coo().coalesce()
        if entries.sparse_dim() != 2 or adj_t.shape[0] != adj_t.shape[1]:
            raise GassipError(f"adj_t must be of shape [nodes, nodes], not {list(adj_t.shape)}")
        row, col = entries.indices()
        value = entries.values() if entries.values().dim() == 1 else None
    elif hasattr(adj_t, "coo"):  # torch_sparse
        row, col, value = adj_t.coo()
    else:
        raise GassipError(f"adj_t is a {type(adj_t).__name__}; a sparse tensor is expected")
    index = torch.stack([col, row])
    plain = value is None or bool((to_numpy(value) == 1).all())
    return {"edge_index": index} if plain else {"edge_index": index, "edge_weight": value}


# scipy


def _of_matrix(matrix: Any) -> dict[str, Any]:
    """Row i, column j: an edge from i to j; entries other than 1 are weights."""
    if matrix.shape[0] != matrix.shape[1]:
        raise GassipError(
            f"an adjacency matrix is square, not {list(matrix.shape)}; features are given as x"
        )
    entries = sp.coo_array(matrix)
    index = np.stack([entries.row, entries.col]).astype(np.int64)
    if entries.dtype.kind == "b" or (entries.data == 1).all():
        return {"edge_index": index}
    return {"edge_index": index, "edge_weight": entries.data}


# networkx


def _of_networkx(source: Any, given: Mapping[str, Any], options: Mapping[str, Any]) -> Graph:
    """Node attributes are columns, as in nodes.csv; an array `x` is spread over its entries."""
    nodes, edges, directed = networkx_tables(source, labels="y" not in given)
    if not _has_features(nodes):
        return _of_bare_networkx(source, nodes, given, options)
    parts = parts_of(nodes, edges, labels="y" not in given, fit=True)
    masks = parts.masks or (None,) * 3
    found = {"x": parts.x, "edge_index": parts.edge_index, "edge_weight": parts.edge_weight}
    found |= dict(zip(MASKS, masks, strict=True)) | {"y": parts.y} | dict(given)
    undirected = not directed or bool(options["undirected"])
    return of_arrays(
        found,
        parts.notes,
        **(dict(options) | {"undirected": undirected}),
        ids=parts.ids,
        preparation=parts.preparation,
        class_names=None if "y" in given else parts.class_names,
        whole_labels=None if "y" in given else parts.whole_labels,
    )


def _has_features(nodes: Table) -> bool:
    return bool(set(nodes.columns) - set(Names().of_nodes))


def _of_bare_networkx(
    source: Any, nodes: Table, given: Mapping[str, Any], options: Mapping[str, Any]
) -> Graph:
    """Labels and splits at the nodes, no features."""
    found, notes = _arrays(source)
    names, problems = Names(), Problems()
    classes, whole = None, None
    if "y" not in given:
        found["y"], classes = labels_of(nodes, names, problems)
        whole = are_whole(nodes, names, classes)
        found |= dict(zip(MASKS, split_of(nodes, names, problems) or (None,) * 3, strict=True))
        problems.end()
    ids = tuple(nodes.texts("id"))
    about = {"class_names": classes, "whole_labels": whole, "ids": ids}
    return of_arrays(found | dict(given), notes, **about, **options)
