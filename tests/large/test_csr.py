"""Edges sorted out of core, rows moved in parts, and the order of the nodes."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gassip.large import arrays, csr
from gassip.large.adjacency import symmetric
from gassip.large.arrays import permuted_rows
from gassip.large.kernels import Edges


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csr, "LEAST", 7)
    monkeypatch.setattr(csr, "AT_ONCE", 11)
    monkeypatch.setattr(arrays, "PIECE", 40)


def drawn(nodes: int, edges: int, seed: int = 0) -> Iterator[csr.Edge]:
    """In two portions, some edges twice, the second time heavier."""
    generator = np.random.default_rng(seed)
    for weight in (1.0, 2.0):
        ends = generator.integers(nodes, size=(2, edges))
        ends[:, :5] = [[0] * 5, range(5)]
        yield ends[0], ends[1], np.full(edges, weight, dtype=np.float32)


def test_edges_are_sorted_by_receiver_and_the_heaviest_stays(tmp_path: Path) -> None:
    nodes = 50
    kept = csr.sorted_edges(tmp_path, "raw-", nodes, True, drawn(nodes, 60))
    wanted: dict[tuple[int, int], float] = {}
    for receiver, sender, weight in drawn(nodes, 60):
        assert weight is not None
        for t, s, w in zip(receiver.tolist(), sender.tolist(), weight.tolist(), strict=True):
            wanted[t, s] = max(w, wanted.get((t, s), 0.0))
    found: dict[tuple[int, int], float] = {}
    for receiver, sender, weight in csr.stored_pieces(tmp_path, "raw-"):
        assert weight is not None
        found |= dict(zip(zip(receiver, sender, strict=True), weight, strict=True))
    assert kept == len(wanted) and found == wanted
    assert list(found) == sorted(found)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "raw-indices.npy",
        "raw-indptr.npy",
        "raw-weight.npy",
    ]


@pytest.mark.parametrize("room", [1, 100, 10**6])
def test_rows_are_moved_in_parts(tmp_path: Path, room: int) -> None:
    values = np.arange(60, dtype=np.float32).reshape(20, 3)
    place = np.random.default_rng(0).permutation(20)
    permuted_rows(tmp_path, "x", values, place, room)
    moved = np.load(tmp_path / "x.npy")
    np.testing.assert_array_equal(moved[place], values)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def test_near_nodes_stand_together(tmp_path: Path) -> None:
    """A shuffled cycle: its edges span a few places after, whatever the walk begins with."""
    nodes = 200
    names = np.random.default_rng(0).permutation(nodes)
    ends = (names, np.roll(names, 1), None)
    csr.sorted_edges(tmp_path, "raw-", nodes, False, [ends])
    place = csr.places(tmp_path, "raw-", symmetric=False, memory=10**6)
    assert not isinstance(place, str)
    assert sorted(place) == list(range(nodes))
    assert np.abs(place[ends[0]] - place[ends[1]]).max() <= 2
    csr.ordered_edges(tmp_path, "raw-", place, weighted=False)
    edges = Edges.mapped([str(tmp_path / f"{name}.npy") for name in ("indptr", "indices")])
    assert (np.diff(edges.indptr) == 1).all()
    assert edges.indices[place[ends[0][3]]] == place[ends[1][3]]


def test_an_order_that_does_not_fit_is_left_out(tmp_path: Path) -> None:
    csr.sorted_edges(tmp_path, "raw-", 50, True, drawn(50, 60))
    found = csr.places(tmp_path, "raw-", symmetric=False, memory=100)
    assert isinstance(found, str) and "keep the order of their files" in found


def test_a_hub_without_numba(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """scipy's order is quadratic in the neighbours of a node: not tried beyond some."""
    monkeypatch.setattr(csr, "breadth_first", lambda: None)
    spokes = np.arange(1, 50)
    csr.sorted_edges(tmp_path, "raw-", 50, False, [(spokes, 0 * spokes, None)])
    assert not isinstance(csr.places(tmp_path, "raw-", False, 10**6), str)
    monkeypatch.setattr(csr, "BUSIEST", 40)
    assert "hubs" in csr.places(tmp_path, "raw-", False, 10**6)


@pytest.mark.parametrize("weighted", [False, True])
def test_symmetry_is_told_by_hashes(weighted: bool) -> None:
    """A cycle both ways; then one way where every degree is 1, or with one other weight."""
    indptr = np.arange(0, 12, 2)
    indices = np.array([[(k - 1) % 5, (k + 1) % 5] for k in range(5)]).reshape(-1)
    weight = np.ones(10, dtype=np.float32) if weighted else None
    assert symmetric(Edges(indptr, indices, weight))
    if weight is None:
        assert not symmetric(Edges(np.arange(6), (np.arange(5) + 1) % 5))
    else:
        weight[3] = 2.0
        assert not symmetric(Edges(indptr, indices, weight))
