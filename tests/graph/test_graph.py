"""The border of Graph: what is refused, what is cleaned, and the few values derived from it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse as sp
from torch.testing import assert_close
from torch_geometric.data import Data

from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph, stratified_split
from gassip.graph.inputs import normalize_rows

# Six nodes in two classes; 0 - 1 - 2 undirected, 3 -> 4 directed, 5 isolated.
X = np.arange(1.0, 13.0).reshape(6, 2)
EDGES = np.array([[0, 1, 1, 2, 3], [1, 0, 2, 1, 4]])
Y = np.array([0, 0, 0, 1, 1, 1])
TRAIN, VAL, TEST = (np.isin(np.arange(6), pair) for pair in ([0, 3], [1, 4], [2, 5]))
MASKS = (TRAIN, VAL, TEST)


def build(**changes: object) -> Graph:
    given: dict[str, object] = {"x": X, "edge_index": EDGES, "y": Y, "masks": MASKS} | changes
    return Graph.build(**given)  # type: ignore[arg-type]


def test_a_plain_graph_comes_through() -> None:
    graph = build(name="six")
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (6, 5, 2, 2)
    assert graph.class_names == ("0", "1")
    assert graph.notes == ()
    assert graph.name == "six"
    assert isinstance(graph.x, torch.Tensor) and graph.x.dtype == torch.float32
    assert_close(graph.x, torch.from_numpy(X).float())
    assert graph.weight.tolist() == [1.0] * 5
    for split, mask in zip(("train", "val", "test"), MASKS, strict=True):
        assert graph.mask(split).tolist() == mask.tolist()


def test_edges_are_sorted_by_target_then_source() -> None:
    graph = build(edge_index=np.array([[3, 2, 1, 0, 1], [4, 1, 2, 1, 0]]))
    assert graph.edge_index.tolist() == [[1, 0, 2, 1, 3], [0, 1, 1, 2, 4]]
    assert graph.adjacency.rowptr.tolist() == [
        0,
        1,
        3,
        4,
        4,
        5,
        5,
    ]  # node 5 is isolated, 3 only sends
    assert graph.adjacency.col.tolist() == [1, 0, 2, 1, 3]


def test_self_loops_are_dropped_and_repeats_merged() -> None:
    edges = np.array([[0, 0, 0, 2, 3], [1, 1, 0, 2, 4]])
    graph = build(edge_index=edges, edge_weight=np.array([0.5, 0.25, 9.0, 9.0, 2.0]))
    assert graph.edge_index.tolist() == [[0, 3], [1, 4]]
    assert graph.edge_weight is not None and graph.edge_weight.tolist() == [0.75, 2.0]
    assert graph.notes[0].startswith("2 self-loops dropped")
    assert graph.notes[1] == "1 repeated edges merged"


def test_undirected_takes_the_larger_of_two_weights() -> None:
    edges = np.array([[0, 1, 3], [1, 0, 4]])
    graph = build(edge_index=edges, edge_weight=np.array([0.5, 2.0, 3.0]), undirected=True)
    assert graph.edge_index.tolist() == [[1, 0, 4, 3], [0, 1, 3, 4]]
    assert graph.edge_weight is not None and graph.edge_weight.tolist() == [2.0, 2.0, 3.0, 3.0]
    assert build(edge_index=edges, undirected=True).edge_index.tolist() == graph.edge_index.tolist()


def test_a_directed_graph_stays_directed() -> None:
    assert build(edge_index=np.array([[3], [4]])).edge_index.tolist() == [[3], [4]]


@pytest.mark.parametrize("weight", [None, np.array([0.5, 2.0, 3.0])])
@pytest.mark.parametrize("last", [[[3], [4]], [[0], [1]]])  # an edge without its reverse; none
def test_read_both_ways_a_graph_is_as_if_built_so(
    weight: np.ndarray | None, last: list[list[int]]
) -> None:
    edges = np.array([[0, 1, *last[0]], [1, 0, *last[1]]])
    one_way = build(edge_index=edges, edge_weight=weight)
    both = one_way.both_ways
    assert (
        both.fingerprint == build(edge_index=edges, edge_weight=weight, undirected=True).fingerprint
    )
    assert both.both_ways is both and one_way.both_ways is both
    changed = last == [[3], [4]] or weight is not None
    assert (both is not one_way) == changed
    assert both.notes == (*one_way.notes, *(["edges are read both ways"] if changed else []))
    bare = one_way.keep(torch.zeros(one_way.num_edges, dtype=torch.bool))
    assert bare.both_ways is bare


def test_pair_numbers_undirected_edges() -> None:
    # stored order: 1->0, 0->1, 2->1, 1->2, 3->4; undirected: {0,1} {1,2} {3,4}
    assert build().pair.tolist() == [0, 0, 1, 1, 2]


def test_keep() -> None:
    graph = build(edge_weight=np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    # stored order 1->0 (2), 0->1 (1), 2->1 (4), 1->2 (3), 3->4 (5)
    kept = graph.keep(torch.tensor([True, False, False, True, True]))
    assert kept.edge_index.tolist() == [[1, 1, 3], [0, 2, 4]]
    assert kept.edge_weight is not None and kept.edge_weight.tolist() == [2.0, 3.0, 5.0]
    other = graph.keep(torch.tensor([True, False, False, False, True]), torch.arange(5.0))
    assert other.edge_weight is not None and other.edge_weight.tolist() == [0.0, 4.0]
    none = build().keep(torch.zeros(5, dtype=torch.bool))
    assert none.num_edges == 0 and none.edge_weight is None and none.num_nodes == 6
    assert none.adjacency.rowptr.tolist() == [0] * 7


def test_labels_keep_their_own_numbers_as_names() -> None:
    graph = build(y=np.array([7, 7, -1, 30, 30, 30]))
    assert graph.y.tolist() == [0, 0, -1, 1, 1, 1]
    assert graph.class_names == ("7", "30")
    assert graph.test_mask.tolist() == [False] * 5 + [
        True
    ]  # node 2 has no label, so it is in no split


@pytest.mark.parametrize(
    "y", [Y.reshape(6, 1), Y.astype(np.float64), np.where(Y == 9, np.nan, Y), torch.from_numpy(Y)]
)
def test_labels_in_other_shapes_and_types(y: np.ndarray) -> None:
    assert build(y=y).y.tolist() == Y.tolist()


def test_nan_is_unlabelled() -> None:
    assert build(y=np.array([0, 0, np.nan, 1, 1, 1])).y.tolist() == [0, 0, -1, 1, 1, 1]


def test_given_class_names_stay() -> None:
    assert build(class_names=["cat", "dog"]).class_names == ("cat", "dog")


def test_a_class_without_validation_node_is_fine() -> None:
    val = np.isin(np.arange(6), [1])
    assert build(masks=(TRAIN, val, TEST)).val_mask.sum() == 1


def test_no_test_node_is_fine() -> None:
    assert not build(masks=(TRAIN, VAL, np.zeros(6, dtype=bool))).test_mask.any()


def test_masks_of_zeros_and_ones_and_as_tensors() -> None:
    graph = build(masks=(TRAIN.astype(np.uint8), torch.from_numpy(VAL), TEST.astype(float)))
    assert graph.val_mask.tolist() == VAL.tolist() and graph.test_mask.tolist() == TEST.tolist()


def test_a_split_is_drawn_and_said() -> None:
    graph = Graph.build(np.eye(12), np.array([[0], [1]]), np.repeat([0, 1], 6), seed=3)
    assert [int(graph.mask(split).sum()) for split in ("train", "val", "test")] == [6, 4, 2]
    assert graph.notes == ("no masks given: stratified 50/25/25 split drawn with seed 3",)


LARGE = sp.csr_array(([1e300], ([2], [1])), shape=(6, 20))

REFUSED: list[tuple[str, dict[str, object], str]] = [
    ("x is a row", {"x": np.ones(6)}, r"x must be a table .* not of shape \(6,\)"),
    ("x has no column", {"x": np.ones((6, 0))}, r"shape \(6, 0\)"),
    ("x has no row", {"x": np.ones((0, 3))}, r"shape \(0, 3\)"),
    ("sparse x has no row", {"x": sp.csr_array((0, 3))}, r"shape \(0, 3\)"),
    ("x is text", {"x": np.full((6, 1), "a")}, "x must hold numbers"),
    ("x is complex", {"x": np.ones((6, 1), dtype=complex)}, "x must hold numbers, not complex"),
    (
        "x has NaN",
        {"x": np.where(X == 5, np.nan, X)},
        "1 values that are NaN or infinite, the first for node 2",
    ),
    (
        "x has inf",
        {"x": np.where(X > 10, np.inf, X)},
        "2 values that are NaN or infinite, the first for node 5",
    ),
    ("x is beyond float32", {"x": np.where(X == 5, 1e300, X)}, "the first for node 2"),
    (
        "sparse x has NaN",
        {"x": sp.csr_array(([1, np.nan], ([0, 4], [0, 1])), shape=(6, 20))},
        "first for node 4",
    ),
    ("sparse x is beyond float32", {"x": LARGE}, "the first for node 2"),
    (
        "edges transposed",
        {"edge_index": EDGES.T},
        r"must have shape \[2, edges\], not \[5, 2\]; transpose it\?",
    ),
    (
        "edges are a row",
        {"edge_index": np.zeros(4, dtype=int)},
        r"must have shape \[2, edges\], not \[4\]",
    ),
    (
        "no edges",
        {"edge_index": np.zeros((2, 0), dtype=int)},
        "the graph has no edges; a GNN needs some",
    ),
    ("only self-loops", {"edge_index": np.array([[1, 2], [1, 2]])}, "no edges besides self-loops"),
    (
        "edges are fractions",
        {"edge_index": EDGES + 0.5},
        "edge_index must hold whole numbers, not float64",
    ),
    (
        "negative node",
        {"edge_index": EDGES - 1},
        r"edge_index refers to node -1; nodes are numbered 0\.\.5",
    ),
    (
        "node too high",
        {"edge_index": np.array([[0], [9]])},
        r"refers to node 9, but x has only 6 rows \(0\.\.5\)$",
    ),
    ("1-based", {"edge_index": np.array([[1], [6]])}, "refers to node 6, .* is the graph 1-based"),
    ("edges sparse", {"edge_index": torch.eye(2).to_sparse()}, "layout torch.sparse_coo .* dense"),
    ("weights too few", {"edge_weight": np.ones(4)}, "edge_weight has 4 entries for 5 edges"),
    ("weight negative", {"edge_weight": np.array([1, 1, 1, 1, -1])}, "negative, NaN or infinite"),
    ("weight NaN", {"edge_weight": np.array([1, 1, 1, 1, np.nan])}, "negative, NaN or infinite"),
    ("weight beyond float32", {"edge_weight": np.full(5, 1e300)}, "negative, NaN or infinite"),
    ("weight is text", {"edge_weight": np.full(5, "a")}, "edge_weight must hold numbers"),
    ("labels too few", {"y": Y[:4]}, "y has 4 labels, but x has 6 rows"),
    ("labels of shape [2, 3, 1]", {"y": np.zeros((2, 3, 1))}, r"one label per node, not shape"),
    ("several labels", {"y": np.ones((6, 2))}, "y marks 2 classes for node 0: multi-label"),
    ("several targets", {"y": np.full((6, 2), 0.5)}, "several targets and regression are not"),
    ("labels are fractions", {"y": Y + 0.5}, "y holds fractions"),
    ("labels infinite", {"y": np.where(Y == 1, np.inf, 0)}, "y holds fractions or infinite"),
    ("labels are dates", {"y": np.full(6, "2020-01-01", "M8[D]")}, "y must hold whole numbers"),
    ("labels are objects", {"y": np.array([{}] * 6)}, "y holds Python objects"),
    ("labels are lengths", {"y": np.array([f"{y}.5" for y in Y])}, "regression is not supported"),
    ("labels below -1", {"y": Y - 5}, "y holds label -5; use -1 for unlabelled"),
    (
        "one class",
        {"y": np.zeros(6, dtype=int)},
        "y holds 1 class; a classifier needs at least two",
    ),
    ("no label", {"y": np.full(6, -1)}, "y holds 0 class"),
    (
        "too few class names",
        {"class_names": ["a"]},
        "y holds label 1, but there are only 1 class names",
    ),
    (
        "mask of several splits",
        {"masks": (TRAIN, VAL, np.ones((6, 10)))},
        r"test_mask has shape \[6, 10\].*mask\[:, 0\]",
    ),
    (
        "mask too short",
        {"masks": (TRAIN[:4], VAL, TEST)},
        "train_mask has 4 entries, but x has 6 rows",
    ),
    ("mask of indices", {"masks": (np.arange(6), VAL, TEST)}, "train_mask must hold True/False"),
    (
        "train and val",
        {"masks": (TRAIN, TRAIN | VAL, TEST)},
        "train_mask and val_mask overlap in 2 nodes, .* node 0",
    ),
    ("train and test", {"masks": (TRAIN, VAL, TRAIN)}, "train_mask and test_mask overlap"),
    ("val and test", {"masks": (TRAIN, VAL, VAL)}, "val_mask and test_mask overlap"),
    ("train empty", {"masks": (TRAIN & False, VAL, TEST)}, "train_mask marks no labelled node"),
    ("val empty", {"masks": (TRAIN, VAL & False, TEST)}, "val_mask marks no labelled node"),
    (
        "class not in train",
        {"masks": (TRAIN & (Y == 0), VAL, TEST)},
        r"class 1 has no training node \(1 such\)",
    ),
    ("seed below 0", {"masks": None, "seed": -1}, "seed must be 0 or more, not -1"),
    (
        "too few to draw",
        {"masks": None, "y": np.array([0, 0, -1, -1, 1, 1])},
        "no class has enough labelled nodes",
    ),
]


@pytest.mark.parametrize(
    ("changes", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(GassipError, match=message) as caught:
        build(**changes)
    assert "\n" not in str(caught.value)


def test_sparse_x_stays_sparse_and_dense_x_becomes_so() -> None:
    dense = np.zeros((6, 20), dtype=np.float32)
    dense[[0, 2, 5], [3, 0, 19]] = [1.0, 2.0, 3.0]
    for x in (
        dense,
        sp.coo_array(dense),
        torch.from_numpy(dense).to_sparse(),
        Csr.from_scipy(sp.csr_array(dense)),
    ):
        graph = build(x=x)
        assert isinstance(graph.x, Csr)
        assert graph.x.to_scipy().toarray().tolist() == dense.tolist()


def test_sparse_x_that_is_nearly_full_becomes_dense() -> None:
    graph = build(x=sp.csr_array(X))
    assert isinstance(graph.x, torch.Tensor) and graph.x.tolist() == X.tolist()


def test_bfloat16_x() -> None:
    graph = build(x=torch.from_numpy(X).to(torch.bfloat16))
    assert isinstance(graph.x, torch.Tensor) and graph.x.tolist() == X.tolist()


def test_the_callers_arrays_are_not_shared() -> None:
    x, y = X.astype(np.float32), Y.copy()
    graph = build(x=x, y=y)
    x[:], y[:] = 0, 0
    assert isinstance(graph.x, torch.Tensor) and graph.x.tolist() == X.tolist()
    assert graph.y.tolist() == Y.tolist()


def test_normalize_rows_by_hand() -> None:
    rows = torch.tensor([[1.0, -3.0], [0.0, 0.0], [5.0, 0.0]])
    expected = [[0.25, -0.75], [0.0, 0.0], [1.0, 0.0]]
    dense, sparse = normalize_rows(rows), normalize_rows(Csr.from_scipy(sp.csr_array(rows.numpy())))
    assert isinstance(dense, torch.Tensor) and dense.tolist() == expected
    assert isinstance(sparse, Csr) and sparse.to_scipy().toarray().tolist() == expected


def test_build_normalizes_when_asked() -> None:
    graph = build(normalize=True)
    assert isinstance(graph.x, torch.Tensor)
    assert_close(graph.x.sum(1), torch.ones(6))


@pytest.mark.parametrize("weighted", [False, True])
def test_data_round_trip(weighted: bool) -> None:
    graph = build(edge_weight=np.arange(1.0, 6.0) if weighted else None)
    again = Graph.from_data(graph.to_data())
    assert again.fingerprint == graph.fingerprint
    assert (again.edge_weight is None) == (not weighted)


def test_sparse_data_round_trip() -> None:
    graph = build(x=np.eye(6, 40))
    assert isinstance(graph.x, Csr)
    assert Graph.from_data(graph.to_data()).fingerprint == graph.fingerprint


@pytest.mark.parametrize("key", ["edge_index", "y"])
def test_data_without_a_part(key: str) -> None:
    data = build().to_data()
    del data[key]
    with pytest.raises(GassipError, match=f"data.{key} is missing"):
        Graph.from_data(data)


def test_data_with_some_masks() -> None:
    data = build().to_data()
    del data["train_mask"]
    with pytest.raises(GassipError, match="there is val_mask and test_mask but no train_mask"):
        Graph.from_data(data)


def test_data_without_masks_is_split() -> None:
    data = Data(x=torch.eye(8), edge_index=torch.tensor([[0], [1]]), y=torch.arange(8) % 2)
    assert int(Graph.from_data(data, seed=1).train_mask.sum()) == 4


def test_fingerprint_of_equal_graphs() -> None:
    assert build().fingerprint == build(name="other", edge_index=EDGES[:, ::-1]).fingerprint
    assert build().to("cpu").fingerprint == build().fingerprint


CHANGES: list[Callable[[Graph], Graph]] = [
    lambda g: replace(g, x=torch.ones(6, 2)),
    lambda g: g.keep(torch.tensor([False, True, True, True, True])),
    lambda g: replace(g, edge_index=g.edge_index.flip(0)),
    lambda g: replace(g, y=1 - g.y),
    lambda g: replace(g, train_mask=g.val_mask, val_mask=g.train_mask),
    lambda g: replace(g, test_mask=~g.test_mask),
    lambda g: replace(g, class_names=("a", "b")),
    lambda g: replace(g, edge_weight=torch.ones(5)),
]


@pytest.mark.parametrize("change", CHANGES)
def test_fingerprint_sees_every_change(change: Callable[[Graph], Graph]) -> None:
    assert change(build()).fingerprint != build().fingerprint


def test_fingerprint_sees_the_width_of_sparse_x() -> None:
    assert build(x=np.eye(6, 40)).fingerprint != build(x=np.eye(6, 41)).fingerprint


@given(st.lists(st.integers(-1, 4), min_size=1, max_size=60), st.integers(0, 2**32))
def test_stratified_split(labels: list[int], seed: int) -> None:
    y = np.array(labels)
    train, val, test = stratified_split(y, seed=seed)
    assert ((train.astype(int) + val + test) == (y >= 0)).all()  # each labelled node in exactly one
    for label in set(labels) - {-1}:
        mine = y == label
        assert (train & mine).sum() == max(1, round(0.5 * mine.sum()))
        assert abs(int((val & mine).sum()) - 0.25 * mine.sum()) <= 0.5
    for mask, again in zip((train, val, test), stratified_split(y, seed=seed), strict=True):
        assert (mask == again).all()


def test_another_seed_draws_another_split() -> None:
    y = np.repeat([0, 1], 50)
    assert (stratified_split(y, seed=0)[0] != stratified_split(y, seed=1)[0]).any()


def _random_edges() -> st.SearchStrategy[list[tuple[int, int]]]:
    return st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=40)


@given(_random_edges(), st.booleans())
def test_edges_of_any_graph(pairs: list[tuple[int, int]], undirected: bool) -> None:
    wanted = {(a, b) for a, b in pairs if a != b}
    if not wanted:
        return
    wanted |= {(b, a) for a, b in wanted} if undirected else set()
    graph = build(edge_index=np.array(pairs).T, undirected=undirected)
    assert [tuple(edge) for edge in graph.edge_index.T.tolist()] == sorted(
        wanted, key=lambda edge: edge[::-1]
    )
    assert int(graph.pair.max()) + 1 == len({frozenset(edge) for edge in wanted})


def test_edges_of_no_weight_are_none() -> None:
    edges = np.array([[0, 1, 2, 0], [1, 2, 3, 1]])
    graph = build(edge_index=edges, edge_weight=np.array([0.0, 0.0, 3.0, 0.5]))
    assert graph.edge_index.tolist() == [[0, 2], [1, 3]]  # 0 → 1 was given twice
    assert graph.edge_weight is not None and graph.edge_weight.tolist() == [0.5, 3.0]
    assert any("1 edges of weight 0 dropped" in note for note in graph.notes)
    with pytest.raises(GassipError, match="edge_weight is 0 for every edge"):
        build(edge_index=edges, edge_weight=np.zeros(4))


def test_a_graph_is_printed_in_one_line(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(nodes=60, edges=200)
    text = repr(graph)
    assert text.startswith(f"Graph('graph': 60 nodes, {graph.num_edges} edges, 6 ")
    assert "features, 3 classes; " in text and text.count("\n") == 0
    assert f"{int(graph.train_mask.sum())} train" in text
