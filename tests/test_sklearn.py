"""GassipClassifier in its ecosystem: scikit-learn's own checks, model selection over nodes,
PyG's explainers, saving, and the sources that `fit` takes."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import sparse as sp
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import Explainer, GNNExplainer

from gassip.errors import GassipError
from gassip.estimator import GassipClassifier
from gassip.graph.graph import Graph

QUICK: dict[str, Any] = {
    "hidden": 8,
    "epochs": 1,
    "warmup_epochs": 1,
    "retrain_epochs": 60,
    "retrain_dropout": 0.2,
    "sparsify": False,
    "induced_from": 1,
    "ops": ("GCNConv", "Linear"),
}


def quick(**parameters: Any) -> GassipClassifier:
    return GassipClassifier(preset="paper", settings=QUICK, **parameters)


def expected_failures(estimator: BaseEstimator) -> dict[str, str]:
    """By name of the check, with the reason: none fails."""
    return {}


@pytest.mark.filterwarnings("ignore")  # the checks warn of what they skip
@parametrize_with_checks([quick()], expected_failed_checks=expected_failures)
def test_scikit_learns_own_checks(estimator: BaseEstimator, check: Callable[..., None]) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def graph(make_graph: Callable[..., Graph]) -> Graph:
    return make_graph(nodes=60, edges=200)


@pytest.fixture(scope="module")
def nodes(graph: Graph) -> np.ndarray:
    return np.arange(graph.num_nodes)


@pytest.fixture(scope="module")
def names(graph: Graph) -> np.ndarray:
    return np.array(["red", "green", "blue"])[graph.y.numpy()]


@pytest.fixture(scope="module")
def by_number(graph: Graph, nodes: np.ndarray, names: np.ndarray) -> GassipClassifier:
    return quick(graph=graph).fit(nodes[:40], names[:40])


def test_cross_validation_over_the_nodes_of_a_graph(
    graph: Graph, nodes: np.ndarray, names: np.ndarray
) -> None:
    scores = cross_val_score(quick(graph=graph), nodes, names, cv=2)
    first = quick(graph=graph).fit(nodes[30:], names[30:])
    assert scores.shape == (2,) and first.score(nodes[:30], names[:30]) == pytest.approx(scores[0])


def test_a_grid_over_settings(graph: Graph, nodes: np.ndarray, names: np.ndarray) -> None:
    grid = {"settings": [QUICK, QUICK | {"hidden": 4}]}
    found = GridSearchCV(quick(graph=graph.to_data()), grid, cv=2).fit(nodes[:, None], names)
    assert found.best_params_["settings"]["hidden"] in (4, 8)
    assert found.predict(nodes[:5]).shape == (5,)


def test_labels_of_other_nodes_are_never_read(
    graph: Graph, nodes: np.ndarray, names: np.ndarray, by_number: GassipClassifier
) -> None:
    garbage = graph.to_data()
    garbage.y = torch.zeros(60, dtype=torch.long)
    again = quick(graph=garbage).fit(nodes[:40], names[:40])
    assert (again.predict_proba(nodes) == by_number.predict_proba(nodes)).all()
    assert by_number.classes_.tolist() == ["blue", "green", "red"]
    assert not by_number.graph_.test_mask.any() and (by_number.graph_.y[40:] == -1).all()


def test_predictions_for_the_nodes_asked_for(by_number: GassipClassifier) -> None:
    whole = by_number.predict_proba()
    assert (by_number.predict_proba(np.array([7, 3])) == whole[[7, 3]]).all()
    with pytest.raises(GassipError, match="numbers from 0 to 59"):
        by_number.predict(np.array([60]))
    with pytest.raises(GassipError, match="numbers of nodes"):
        by_number.predict(np.ones((3, 2)))


def test_save_and_load(by_number: GassipClassifier, tmp_path: Path) -> None:
    by_number.save(tmp_path / "run")
    again = GassipClassifier.load(tmp_path / "run")
    assert again.classes_.tolist() == by_number.classes_.tolist()
    assert (again.predict_proba(np.arange(9)) == by_number.predict_proba(np.arange(9))).all()
    assert again.fit_summary()["scores"] == by_number.fit_summary()["scores"]
    with pytest.raises(GassipError, match="exists"):
        by_number.save(tmp_path / "run")


def test_a_loaded_classifier_knows_its_graph_again_and_labels_others(
    graph: Graph, tmp_path: Path
) -> None:
    data = graph.to_data()
    fitted = quick(verbose=True).fit(data)
    fitted.save(tmp_path / "run")
    again = GassipClassifier.load(tmp_path / "run")
    assert (again.predict(data) == fitted.predict(data)).all()
    assert again.score(data) == pytest.approx(fitted.score(data))
    other = Data(x=data.x, edge_index=data.edge_index[:, :-4])
    np.testing.assert_allclose(again.predict_proba(other), fitted.predict_proba(other), atol=1e-6)


def test_a_table_without_edges_is_kept_by_joblib(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(30, 3))
    fitted = quick().fit(rows, np.arange(30) % 2)
    assert "joined to its 10 nearest" in fitted.fit_summary()["notes"][-1]
    with pytest.raises(GassipError, match=r"joblib\.dump"):
        fitted.save(tmp_path / "run")


def test_verbose_tells_the_progress(graph: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    quick(verbose=True).fit(graph)
    assert "retrain 20/60  val 0." in capsys.readouterr().err


def test_print_shows_operations_and_widths(by_number: GassipClassifier) -> None:
    text = repr(by_number.model_)
    first = by_number.plan_.architecture.ops[0]
    assert f"{first}, 6 -> 8" in text and "8 -> 3" in text and "weights" in text


def test_pygs_explainer_works_on_to_pyg(graph: Graph, by_number: GassipClassifier) -> None:
    model = by_number.to_pyg()
    data = graph.to_data()
    torch.testing.assert_close(
        model(data.x, data.edge_index), by_number.model_(data.x, data.edge_index)
    )
    explainer = Explainer(
        model,
        algorithm=GNNExplainer(epochs=5),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={
            "mode": "multiclass_classification",
            "task_level": "node",
            "return_type": "raw",
        },
    )
    found = explainer(data.x, data.edge_index, index=3)
    assert found.edge_mask.shape == (graph.num_edges,) and found.node_mask.shape == (60, 6)
    if "GCNConv" in by_number.plan_.architecture.ops:
        near = (data.edge_index == 3).any(0)
        assert float(found.edge_mask[near].sum()) > 0
    torch.testing.assert_close(
        model(data.x, data.edge_index), by_number.model_(data.x, data.edge_index)
    )


def test_fit_takes_every_source(graph: Graph, names: np.ndarray) -> None:
    ends = graph.edge_index.numpy()
    matrix = sp.csr_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(60, 60))
    net = nx.DiGraph()
    net.add_nodes_from(range(60))
    net.add_edges_from(ends.T.tolist())
    x = graph.x.numpy() if isinstance(graph.x, torch.Tensor) else graph.x
    fitted = [quick().fit(source, names, x=x) for source in (matrix, ends, net)]
    for own, source in zip(fitted, (matrix, ends, net), strict=True):
        assert own.classes_.tolist() == ["blue", "green", "red"]
        assert (own.predict(source, x=x) == fitted[0].predict()).all()
        assert own.score(source, names, x=x) == fitted[0].score(matrix, names, x=x)
    listed = quick().fit([graph.to_data()])
    assert listed.classes_.tolist() == [0, 1, 2]


def test_fit_refuses_other_graphs_in_one_line(graph: Graph) -> None:
    for source in (HeteroData(), [graph.to_data()] * 2, nx.MultiGraph()):
        with pytest.raises(GassipError, match=r"supported is one graph|parallel edges") as caught:
            quick().fit(source)
        assert "\n" not in str(caught.value)


def test_the_examples_of_the_documentation_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (Path(__file__).parent.parent / "docs" / "PYTHON.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    exec(compile(code, "docs/PYTHON.md", "exec"), {})
    assert (tmp_path / "runs" / "from-python" / "meta.json").is_file()
