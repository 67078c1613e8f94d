"""Columns of degree beside given features: worked out by hand, chosen by validation, and carried
from the search to labels of other graphs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse as sp

from gassip.best.degrees import choose_degrees, may_read_degrees
from gassip.best.pipeline import search
from gassip.best.spectral import degrees as of_regression
from gassip.commands.predict import _labels
from gassip.deploy.labelling import label_text
from gassip.deploy.runtime import load
from gassip.errors import GassipError
from gassip.estimator import GassipClassifier
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.graph.structure import BESIDE, DEGREES
from gassip.runs.read import open_run
from gassip.runs.stored import stored_graph
from gassip.runs.write import save
from gassip.settings import preset
from gassip.train.inductive import inductive_score
from gassip.train.plan import Plan, Solution
from gassip.train.trainer import retrain
from tests.best.kinds import degrees
from tests.conftest import random_graph

QUICK: dict[str, Any] = {
    "epochs": 2,
    "warmup_epochs": 1,
    "trial_epochs": 20,
    "retrain_epochs": 40,
    "hidden": 16,
    "candidates": 2,
    "students": 1,
    "teachers": 1,
    "size_steps": (),
    "edge_shares": (0.89,),
}


def three_nodes(sparse: bool) -> Graph:
    """0 -> 1, 2 -> 1, 1 -> 2, and two features."""
    x = np.array([[0.5, 0], [0, 2], [3, 0]], dtype=np.float32)
    return Graph.build(
        sp.csr_array(x) if sparse else x,
        np.array([[0, 2, 1], [1, 1, 2]]),
        np.array([0, 1, 1]),
        masks=(np.array([True, True, False]), np.array([False, False, True]), None),
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_columns_by_hand(sparse: bool) -> None:
    graph = three_nodes(sparse)
    wide = graph.with_degrees
    x = wide.x.to_scipy().toarray() if isinstance(wide.x, Csr) else wide.x.numpy()
    assert x.shape == (3, 2 + DEGREES) and wide.structure == BESIDE
    log2, log3 = np.log([2, 3])
    # node 1 receives from 0 (which receives nothing) and from 2 (which receives from 1)
    np.testing.assert_allclose(
        x[:, :5],
        [[0.5, 0, 0, log2, 0], [0, 2, log3, log2, log2 / 2], [3, 0, log2, log2, log3]],
        rtol=1e-6,
    )
    assert x[:, 5:].argmax(1).tolist() == [1, 2, 1]  # degrees 1, 3, 2: their powers of two
    assert wide.with_degrees is wide and graph.with_degrees is wide
    given = wide.without_degrees
    assert given.structure is None and given.fingerprint == graph.fingerprint


def test_the_regression_reads_standardised_columns() -> None:
    columns = of_regression(random_graph(0, nodes=30).with_degrees)
    std, one = columns.std(0, correction=0), torch.ones((), dtype=torch.float64)
    varies = std > 1e-9
    assert columns.shape == (30, DEGREES)
    torch.testing.assert_close(columns.mean(0), torch.zeros_like(std))
    torch.testing.assert_close(std[varies], (one / DEGREES**0.5).expand(int(varies.sum())))


def test_degrees_are_taken_where_they_tell() -> None:
    graph = degrees(400)
    made = choose_degrees(graph, "accuracy")
    assert made.value and made.decision.taken == "with"
    shuffled = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    assert not choose_degrees(replace(graph, y=graph.y[shuffled]), "accuracy").value


def test_there_is_a_choice_only_beside_given_features() -> None:
    graph = random_graph(0)
    assert may_read_degrees(graph)
    assert not may_read_degrees(replace(graph, structure="degree"))
    assert not may_read_degrees(graph.keep(torch.zeros(graph.num_edges, dtype=torch.bool)))


@pytest.fixture(scope="module")
def found() -> tuple[Graph, Plan, Solution]:
    graph = degrees(400)
    plan = search(graph, preset("best", graph, QUICK), seed=0)
    return graph, plan, retrain(graph, plan, seed=0)


def test_a_graph_of_degrees_is_won(found: tuple[Graph, Plan, Solution]) -> None:
    graph, plan, solution = found
    assert plan.degrees and plan.on(graph).structure == BESIDE
    assert solution.accuracy["test"] > 0.85  # a third of the nodes are of the largest class
    without = preset("best", graph, QUICK | {"degree_features": False})
    plain = retrain(graph, search(graph, without, seed=0), seed=0)
    assert plain.accuracy["test"] < solution.accuracy["test"] - 0.1


def test_kept_edges_leave_the_columns_as_they_are(found: tuple[Graph, Plan, Solution]) -> None:
    graph, plan, _ = found
    cut = replace(plan, edge_keep=torch.arange(graph.num_edges) % 2 == 0)
    assert isinstance(graph.with_degrees.x, torch.Tensor)
    torch.testing.assert_close(cut.on(graph).x, graph.with_degrees.x)


def test_nodes_held_out_are_not_counted(found: tuple[Graph, Plan, Solution]) -> None:
    graph, plan, solution = found
    made = inductive_score(graph, plan, solution, seed=0, metric="accuracy")
    assert made is not None and made.score > 0.7


def written(graph: Graph, path: Path) -> None:
    masks = {f"{split}_mask": graph.mask(split).numpy() for split in ("train", "val", "test")}
    given = {"x": graph.x, "edge_index": graph.edge_index, "y": graph.y}
    arrays = {name: np.asarray(value) for name, value in given.items()}
    np.savez(path, allow_pickle=False, **arrays, **masks)


def test_a_run_labels_its_own_graph_and_another(
    found: tuple[Graph, Plan, Solution], tmp_path: Path
) -> None:
    graph, plan, solution = found
    own, other = tmp_path / "own.npz", tmp_path / "other.npz"
    written(graph, own)
    written(degrees(300, seed=1), other)
    source = {"kind": "file", "path": str(own), "seed": 0, "undirected": False, "normalize": False}
    run = tmp_path / "run"
    meta = save(run, graph, plan, solution, source=source | {"prepared": True})
    assert meta["source"]["structure"] == BESIDE and meta["features"] == 16 + DEGREES
    opened = open_run(run)
    assert opened.plan.degrees and stored_graph(opened).structure == BESIDE
    assert _labels(run, None) == _labels(run, str(own))
    same_labels(_labels(run, str(own)), label_text(run, str(own)))
    same_labels(_labels(run, None), label_text(run, None))
    same_labels(_labels(run, str(other)), label_text(run, str(other)))
    y = [row.split(",")[1] for row in label_text(run, str(other)).split()[1:]]
    assert np.mean(np.array(y).astype(int) == degrees(300, seed=1).y.numpy()) > 0.7


def same_labels(by_torch: str, by_runtime: str) -> None:
    rows = [[row.split(",") for row in text.split()[1:]] for text in (by_torch, by_runtime)]
    for one, two in zip(*rows, strict=True):
        assert one[:2] == two[:2] and abs(float(one[2]) - float(two[2])) < 1e-4


def test_what_new_nodes_would_change_is_refused(
    found: tuple[Graph, Plan, Solution], tmp_path: Path
) -> None:
    graph, plan, solution = found
    save(tmp_path / "run", graph, plan, solution)
    model = load(tmp_path / "run")
    with pytest.raises(GassipError, match="degree, which new nodes change for all"):
        model.extend(np.zeros((1, 16)), np.array([[400], [0]]))
    with pytest.raises(GassipError, match="x has 15 features; the run's graph has 16"):
        model.prepare(np.zeros((3, 15)), np.array([[0], [1]]))


@pytest.mark.parametrize("form", ["onnx", "c", "wasm", "html", "executorch"])
def test_forms_that_make_no_columns_are_refused(
    form: str, found: tuple[Graph, Plan, Solution], tmp_path: Path
) -> None:
    from gassip.deploy.formats import FORMATS

    graph, plan, solution = found
    save(tmp_path / "run", graph, plan, solution)
    if form in ("onnx", "executorch"):
        pytest.importorskip("onnxruntime" if form == "onnx" else form)
    with pytest.raises(GassipError, match=r"reads columns of degree .* --format runtime"):
        FORMATS[form].write(str(tmp_path / "run"), str(tmp_path / "out"), False, {})


def test_the_classifier_makes_them_for_another_graph(tmp_path: Path) -> None:
    graph, other = degrees(400), degrees(300, seed=1)
    made = GassipClassifier(settings=QUICK).fit(graph)
    assert made.plan_.degrees and made.n_features_in_ == 16
    labels = made.predict(other)
    assert np.mean(labels == other.y.numpy()) > 0.7
    made.save(tmp_path / "run")
    again = GassipClassifier.load(tmp_path / "run")
    assert again.n_features_in_ == 16
    np.testing.assert_array_equal(again.predict(other), labels)


def test_rows_without_edges_have_no_degrees() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    made = GassipClassifier(settings=QUICK).fit(x, (x[:, 0] > 0).astype(int))
    assert not made.plan_.degrees and made.predict(x[:5]).shape == (5,)
