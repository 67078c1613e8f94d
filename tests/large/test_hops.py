"""Hops by column blocks: exact, resumable, rounded on request."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse as sp

from gassip.errors import GassipError
from gassip.graph.store import GraphFolder
from gassip.large import kernels
from gassip.large.block_model import BlockModel, draw
from gassip.large.hops import Hops, needed, open_hops, propagate
from gassip.large.kernels import Edges, received
from gassip.large.writing import write_block_model

MODEL = BlockModel(nodes=400, degree=6, features=10, classes=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> GraphFolder:
    out = tmp_path_factory.mktemp("large") / "csbm.graph"
    write_block_model(MODEL, draw(MODEL), 0.9, out)
    return GraphFolder.open(out)


def mean_matrix(edges: Edges) -> sp.csr_array:
    values = np.ones(len(edges.indices)) if edges.weight is None else edges.weight
    shape = (edges.nodes, edges.nodes)
    matrix = sp.csr_array((values, np.asarray(edges.indices), edges.indptr), shape=shape)
    degree = matrix.sum(1)
    return sp.diags_array(1 / np.where(degree > 0, degree, np.inf)) @ matrix


def test_mean_by_hand() -> None:
    """Node 0 hears 1 and 2, weights 1 and 3: (1·2 + 3·6) / 4 = 5; node 1 hears nobody."""
    edges = Edges(
        np.array([0, 2, 2, 3]), np.array([1, 2, 0]), np.array([1, 3, 2], dtype=np.float32)
    )
    h = np.array([[1.0], [2.0], [6.0]], dtype=np.float32)
    assert received(edges, h).ravel().tolist() == [5.0, 0.0, 1.0]


def test_gcn_by_hand() -> None:
    """d = 2, 2: Â = [[1/2, 1/2], [1/2, 1/2]]."""
    edges = Edges(np.array([0, 1, 2]), np.array([1, 0]))
    h = np.array([[1.0], [3.0]], dtype=np.float32)
    assert received(edges, h, "gcn").ravel() == pytest.approx([2.0, 2.0])


@pytest.mark.parametrize("weighted", [False, True])
def test_threads_pieces_and_scipy_agree(
    folder: GraphFolder, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = Edges.of(folder)
    if weighted:
        weight = np.random.default_rng(0).random(len(edges.indices), dtype=np.float32)
        edges = Edges(edges.indptr, np.asarray(edges.indices), weight)
    h = np.array(folder.array("x"))
    whole = received(edges, h)
    np.testing.assert_allclose(whole, mean_matrix(edges) @ h, rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(Edges.pieces, "__defaults__", (50,))
    assert np.array_equal(received(edges, h, threads=3), whole)
    monkeypatch.setattr(kernels, "summed", lambda: kernels._by_scipy)
    np.testing.assert_allclose(received(edges, h), whole, rtol=1e-6, atol=1e-6)


def test_hops_of_column_blocks_are_exact(folder: GraphFolder, tmp_path: Path) -> None:
    """Blocks of 4 columns of 10: the same as all at once."""
    hops = open_hops(folder, tmp_path / "hops", steps=3, memory=16 * folder.nodes * 4)
    assert (hops.columns, needed(hops).blocks) == (4, 3)
    edges = Edges.of(folder)
    propagate(hops, edges)
    h = np.array(folder.array("x"))
    for k in range(4):
        assert np.array_equal(hops.block(k, 0, folder.nodes), h)
        h = received(edges, h)
    nodes = np.array([3, 77, 399])
    wanted = np.concatenate([hops.at(0, nodes), hops.at(2, nodes)], axis=1)
    assert np.array_equal(hops.rows(nodes, (0, 2)), wanted)


def test_killed_propagation_goes_on(folder: GraphFolder, tmp_path: Path) -> None:
    hops = open_hops(folder, tmp_path / "hops", steps=2, memory=16 * folder.nodes * 4)
    propagate(hops, Edges.of(folder))
    before = hops.file(0, 1).stat().st_mtime_ns
    hops.file(4, 2).unlink()
    assert needed(hops).blocks == 1
    propagate(hops, Edges.of(folder))
    assert needed(hops).blocks == 0 and hops.file(0, 1).stat().st_mtime_ns == before


@pytest.mark.parametrize(("precision", "most"), [("float16", 1e-3), ("int8", 1 / 127)])
def test_rounded_hops(folder: GraphFolder, tmp_path: Path, precision: str, most: float) -> None:
    exact = open_hops(folder, tmp_path / "exact", steps=2)
    rounded = open_hops(folder, tmp_path / "less", steps=2, precision=precision)  # type: ignore[arg-type]
    for hops in (exact, rounded):
        propagate(hops, Edges.of(folder))
    wanted, found = (hops.block(2, 0, folder.nodes) for hops in (exact, rounded))
    assert np.abs(wanted - found).max() <= most * np.abs(wanted).max()


def test_hops_of_another_graph_are_refused(folder: GraphFolder, tmp_path: Path) -> None:
    open_hops(folder, tmp_path / "hops", steps=2)
    with pytest.raises(GassipError, match="another graph or precision"):
        open_hops(folder, tmp_path / "hops", steps=2, precision="int8")


def test_no_room_is_said_before(
    folder: GraphFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hops: Hops = open_hops(folder, tmp_path / "hops", steps=2)
    monkeypatch.setattr("gassip.large.hops.shutil.disk_usage", lambda path: Full())
    with pytest.raises(GassipError, match="float16 or int8"):
        propagate(hops, Edges.of(folder))


class Full:
    free = 10
