"""Graphs from memory: every kind of source gives the same graph; others are refused in a line."""

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import sparse as sp
from torch_geometric.data import Batch, Data, HeteroData

from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.graph.memory import as_graph, unlabelled, with_labels

EDGES = np.array([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
X = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
Y = np.array([0, 1, 0, 1, 0, 1])
TRAIN, VAL, TEST = (np.array(mask, dtype=bool) for mask in np.eye(3, dtype=int).repeat(2, 1))
MASKS = (TRAIN, VAL, TEST)
DATA = Data(
    x=torch.from_numpy(X),
    edge_index=torch.from_numpy(EDGES),
    y=torch.from_numpy(Y),
    **dict(zip(("train_mask", "val_mask", "test_mask"), map(torch.from_numpy, MASKS), strict=True)),
)


def adj_t() -> Data:
    """The same edges as PyG's transposed adjacency: row receives."""
    ends, values = torch.from_numpy(EDGES[::-1].copy()), torch.ones(EDGES.shape[1])
    with torch.sparse.check_sparse_tensor_invariants():
        matrix = torch.sparse_coo_tensor(ends, values, (6, 6)).to_sparse_csr()
    found = Data(**{key: value for key, value in DATA.to_dict().items() if key != "edge_index"})
    found.adj_t = matrix
    return found


def matrix() -> sp.csr_array:
    return sp.csr_array((np.ones(6), (EDGES[0], EDGES[1])), shape=(6, 6))


SOURCES: dict[str, Callable[[], Graph]] = {
    "Data": lambda: as_graph(DATA),
    "a list of one": lambda: as_graph([DATA]),
    "a batch of one": lambda: as_graph(Batch.from_data_list([DATA])),
    "adj_t": lambda: as_graph(adj_t()),
    "scipy": lambda: as_graph(matrix(), X, Y, masks=MASKS),
    "edge_index": lambda: as_graph(EDGES, X, Y, masks=MASKS),
    "lists": lambda: as_graph(EDGES.tolist(), X.tolist(), Y.tolist(), masks=MASKS),
    "networkx and x": lambda: as_graph(nx.DiGraph(EDGES.T.tolist()), X, Y, masks=MASKS),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_same_graph(kind: str) -> None:
    expected = Graph.build(X, EDGES, Y, masks=MASKS)
    assert SOURCES[kind]().fingerprint == expected.fingerprint


@pytest.mark.parametrize(
    ("y", "names"),
    [
        (Y, ("0", "1")),
        (Y[:, None], ("0", "1")),
        (np.eye(2)[Y], ("0", "1")),
        (np.array(["b", "a"] * 3), ("a", "b")),
    ],
)
@pytest.mark.parametrize("source", [EDGES, matrix(), nx.DiGraph(EDGES.T.tolist())])
def test_forms_of_y_for_every_source(source: Any, y: np.ndarray, names: tuple[str, ...]) -> None:
    graph = as_graph(source, X, y, masks=MASKS)
    assert graph.class_names == names
    assert graph.y.tolist() == (Y if names == ("0", "1") else 1 - Y).tolist()


@pytest.mark.parametrize(
    "given", [(None, None, None), (TRAIN | VAL, None, TEST), (TRAIN, VAL, None)]
)
@pytest.mark.parametrize("source", [EDGES, matrix(), nx.DiGraph(EDGES.T.tolist())])
def test_masks_absent_are_drawn_and_said_so(source: Any, given: Any) -> None:
    graph = as_graph(source, X, Y, masks=given)
    assert bool(graph.train_mask.any()) and bool(graph.val_mask.any())
    assert any("given" in note for note in graph.notes)


def test_attributes_of_networkx_are_columns() -> None:
    graph = nx.Graph()
    for node in range(8):
        split = ("train", "train", "val", "test")[node // 2]
        graph.add_node(f"n{node}", label="ab"[node % 2], age=node, town="xy"[node % 2], split=split)
    graph.add_edges_from(
        (f"n{a}", f"n{(a + 1) % 8}", {"weight": 2.0, "since": a}) for a in range(8)
    )
    found = as_graph(graph)
    assert found.class_names == ("a", "b") and found.ids == tuple(f"n{node}" for node in range(8))
    assert found.num_edges == 16 and found.weight.tolist() == [2.0] * 16
    assert found.preparation is not None
    assert found.preparation.feature_names == ("age", "town=x", "town=y")
    assert found.train_mask.tolist() == [True] * 4 + [False] * 4
    assert any("since" in note for note in found.notes)
    bare = nx.Graph()
    bare.add_nodes_from(graph)
    bare.add_edges_from(graph.edges)
    for node in graph:
        bare.nodes[node].update(age=graph.nodes[node]["age"], town=graph.nodes[node]["town"])
    again = unlabelled(bare, found)
    torch.testing.assert_close(again.x, found.x)


def test_vectors_at_the_nodes_of_networkx() -> None:
    graph = nx.DiGraph(EDGES.T.tolist())
    for node in graph:
        graph.nodes[node].update(x=X[node], y=int(Y[node]), train_mask=bool(TRAIN[node]))
        graph.nodes[node].update(val_mask=bool(VAL[node]), test_mask=bool(TEST[node]))
    found = as_graph(graph)
    scaled = (X - X.mean(0)) / X.std(0)
    assert isinstance(found.x, torch.Tensor)
    np.testing.assert_allclose(found.x.numpy(), scaled, atol=1e-5)
    assert found.test_mask.tolist() == TEST.tolist()
    graph.nodes[0]["x"] = X[0, :1]
    with pytest.raises(GassipError, match="node attribute x has 1 to 2 entries"):
        as_graph(graph)


def test_edge_attr_is_a_weight_or_is_said_to_be_left_out() -> None:
    one = DATA.clone()
    one.edge_attr = torch.full((6, 1), 3.0)
    graph = as_graph(one)
    assert graph.weight.tolist() == [3.0] * 6 and "edge_attr" in graph.notes[0]
    one.edge_attr = torch.ones(6, 4)
    graph = as_graph(one)
    assert graph.edge_weight is None and "shape [6, 4] is left out" in graph.notes[0]


def hetero() -> HeteroData:
    found = HeteroData()
    found["a"].x = torch.ones(2, 2)
    return found


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "HeteroData": (hetero, "a HeteroData was given; supported is one graph with one class"),
    "several": (lambda: [DATA, DATA], "2 graphs were given; supported is one graph"),
    "a batch": (lambda: Batch.from_data_list([DATA, DATA]), "2 graphs were given"),
    "a text": (lambda: "cora", "a str was given; supported is"),
    "nothing": (lambda: None, "a NoneType was given; supported is"),
    "parallel": (lambda: nx.MultiGraph([(0, 1), (0, 1)]), "merge its parallel edges first"),
    "no label": (lambda: nx.path_graph(3), "has an attribute label or y"),
    "no nodes": (nx.Graph, "has no nodes"),
    "not square": (lambda: sp.csr_array((2, 3)), r"is square, not \[2, 3\]"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_other_kinds_are_refused_in_one_line(kind: str) -> None:
    source, message = REFUSED[kind]
    with pytest.raises(GassipError, match=message) as caught:
        as_graph(source())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.linspace(0, 1, 6), "regression is not supported"),
        (np.ones((6, 2)), "multi-label targets are not supported"),
        (np.random.default_rng(0).normal(size=(6, 2)), "regression are not supported"),
    ],
)
def test_other_targets_are_refused_in_one_line(y: np.ndarray, message: str) -> None:
    with pytest.raises(GassipError, match=message):
        as_graph(EDGES, X, y)


def test_labels_of_some_nodes_alone(make_graph: Callable[..., Graph]) -> None:
    graph, nodes = make_graph(nodes=30), np.arange(12)
    found = with_labels(graph, nodes, nodes % 3, ("a", "b", "c"), seed=0)
    assert (found.y[12:] == -1).all() and not found.test_mask.any()
    assert torch.equal(found.train_mask | found.val_mask, torch.arange(30) < 12)
    assert int(found.val_mask.sum()) == 3  # a quarter of each class of four
