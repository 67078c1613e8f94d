"""Edges cut on rows: rankings by hand, cuts on validation, M_G carried over."""

import json
from pathlib import Path

import numpy as np
import pytest

from gassip import cli
from gassip.deploy import runtime
from gassip.large.block_model import BlockModel, draw
from gassip.large.edge_cut import EdgeNumbers, edge_scores, kept_edges, write_cut
from gassip.large.kernels import Edges
from gassip.large.writing import write_block_model

# 0 - 1, 0 - 2, 1 - 2, 2 - 3, both ways
EDGES = Edges(np.array([0, 2, 4, 7, 8]), np.array([1, 2, 0, 2, 0, 1, 3, 2]))
PROBS = np.array([[1, 0], [1, 0], [0.5, 0.5], [0, 1]], dtype=np.float32)
X = np.array([[1, 0], [2, 0], [0, 3], [1, 1]], dtype=np.float32)
KNOWN = EdgeNumbers(np.diff(EDGES.indptr), X, PROBS)


def test_rankings_by_hand() -> None:
    """Degrees 2, 2, 3, 1."""
    third = 1 / 3
    np.testing.assert_allclose(
        edge_scores(EDGES, KNOWN.inverse_degree),
        [1, 0.5 + third, 1, 0.5 + third, 0.5 + third, 0.5 + third, 1 + third, 1 + third],
        rtol=1e-6,
    )
    agreement = [1, 0.5, 1, 0.5, 0.5, 0.5, 0.5, 0.5]
    np.testing.assert_allclose(edge_scores(EDGES, KNOWN.agreement), agreement)
    root = 1 / np.sqrt(2)
    cosines = [1, 0, 1, 0, 0, 0, root, root]
    np.testing.assert_allclose(edge_scores(EDGES, KNOWN.similarity), cosines, atol=1e-6)


@pytest.mark.parametrize("ranking", ["random", "support", "similarity", "inverse_degree"])
def test_both_directions_stay_or_go_together(ranking: str) -> None:
    model = BlockModel(nodes=300, degree=8, features=4, classes=3)
    drawn = draw(model)
    ends = np.concatenate([drawn.pairs, drawn.pairs[:, ::-1]])
    ends = ends[np.lexsort((ends[:, 0], ends[:, 1]))]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(ends[:, 1], minlength=300))])
    edges = Edges(indptr, ends[:, 0])
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 300).astype(np.float32)
    known = EdgeNumbers(np.diff(indptr), drawn.x, probs)
    keep = kept_edges(edges, edge_scores(edges, getattr(known, ranking)), 0.3)
    pairs = {(int(s), int(t)) for s, t in ends[keep]}
    assert pairs == {(t, s) for s, t in pairs}
    assert 0.3 <= keep.mean() < 0.5
    before, after = (
        np.bincount(ends[:, 1], minlength=300),
        np.bincount(ends[keep, 1], minlength=300),
    )
    assert ((after > 0) == (before > 0)).all()  # nobody's last edge goes


def test_a_cut_by_hand(tmp_path: Path) -> None:
    """The highest two of eight are 2 - 3; every node keeps its highest: 0 - 1 stays too."""
    keep = kept_edges(EDGES, edge_scores(EDGES, KNOWN.inverse_degree), 0.25)
    assert keep.tolist() == [True, False, True, False, False, False, True, True]
    write_cut(EDGES, keep, tmp_path)
    assert np.load(tmp_path / "cut-indptr.npy").tolist() == [0, 1, 2, 3, 4]
    assert np.load(tmp_path / "cut-indices.npy").tolist() == [1, 0, 3, 2]


def test_a_search_takes_a_cut_and_its_run_is_ordinary(tmp_path: Path) -> None:
    """Features tell the classes, edges little: some may go."""
    model = BlockModel(
        nodes=900, degree=10, features=6, classes=3, homophily=0.5, labelled=0.3, signal=3.0
    )
    write_block_model(model, draw(model), 0.9, tmp_path / "csbm.graph")
    words = ["--data", str(tmp_path / "csbm.graph"), "--large", "on", "--preset", "fast"]
    words += ["--size-steps", "1", "--edge-shares", "0.6", "--out", str(tmp_path / "run")]
    assert cli.main(["search", *words, "--quiet"]) == 0
    meta = json.loads((tmp_path / "run" / "meta.json").read_bytes())
    made = {row["stage"]: row for row in json.loads((tmp_path / "run/decisions.json").read_bytes())}
    names = [row["name"].partition(",")[0] for row in made["edges"]["tried"]]
    assert names == ["all edges", "support", "curriculum", "random"]
    assert len(made["edge mask"]["tried"]) == 4
    assert meta["edges_kept"] < 0.75 * meta["edges_total"] and "~" in meta["rows"]["edges"]
    kept = [path.name for path in (tmp_path / "csbm.graph" / "hops").iterdir()]
    assert len(kept) == 2  # of all edges, and of those that were taken
    assert cli.main(["evaluate", str(tmp_path / "run"), "--seeds", "1", "--quiet"]) == 0
    found = json.loads((tmp_path / "run" / "evaluate.json").read_bytes())
    assert found["scores"]["accuracy"]["test"]["mean"] == meta["accuracy"]["test"]
    assert runtime.load(tmp_path / "run").edges.nnz == meta["edges_kept"]
    assert cli.main(["predict", str(tmp_path / "run"), "--out", str(tmp_path / "l.csv")]) == 0
