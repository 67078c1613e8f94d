from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from torch_geometric.data import Data

import gassip
from gassip.budget.fit import Budget
from gassip.budget.limits import limits
from gassip.errors import GassipError
from gassip.estimator import GassipClassifier
from gassip.graph.graph import Graph
from gassip.settings import preset

SMALL = {
    "hidden": 8,
    "epochs": 6,
    "warmup_epochs": 2,
    "retrain_epochs": 4,
    "edge_rule": "budget",
    "edge_share": 0.5,
}
VALUES = torch.tensor([10, 20, 40])  # the user's own labels


@pytest.fixture(scope="module")
def data(make_graph: Callable[..., Graph]) -> Data:
    data = make_graph(nodes=60, edges=200).to_data()
    data.y = VALUES[data.y]
    return data


@pytest.fixture(scope="module")
def fitted(data: Data) -> GassipClassifier:
    return GassipClassifier(seed=1, settings=SMALL).fit(data)


def test_fit_returns_self_and_sets_fitted_attributes(data: Data) -> None:
    classifier = GassipClassifier(settings=SMALL)
    assert classifier.fit(data) is classifier
    assert classifier.classes_.tolist() == [10, 20, 40] and classifier.n_features_in_ == 6
    assert isinstance(classifier.model_, torch.nn.Module)
    assert (
        classifier.solution_.edges_kept
        == classifier.plan_.edge_keep.sum()
        <= classifier.graph_.num_edges
    )
    assert is_classifier(classifier)


def test_predictions_speak_in_the_users_labels(fitted: GassipClassifier, data: Data) -> None:
    share = fitted.predict_proba(data)
    assert share.shape == (60, 3)
    np.testing.assert_allclose(share.sum(1), 1)
    assert set(fitted.predict(data).tolist()) <= {10, 20, 40}
    assert (fitted.predict(data) == np.array([10, 20, 40])[share.argmax(1)]).all()


def test_the_training_graph_is_known_again_whatever_its_labels(
    fitted: GassipClassifier, data: Data
) -> None:
    bare = Data(x=data.x, edge_index=data.edge_index)
    expected = fitted.predict_proba()
    assert (fitted.predict_proba(data) == expected).all() and (
        fitted.predict_proba(bare) == expected
    ).all()


def test_another_graph_is_taken_with_its_own_edges(fitted: GassipClassifier, data: Data) -> None:
    other = Data(x=data.x, edge_index=data.edge_index[:, :-1])
    logits = fitted.model_(other.x, other.edge_index)
    np.testing.assert_allclose(
        fitted.predict_proba(other), torch.softmax(logits.double(), 1).detach(), atol=1e-6
    )


def test_score_is_the_metric_on_the_test_nodes(fitted: GassipClassifier, data: Data) -> None:
    right = torch.from_numpy(fitted.predict(data)) == data.y
    assert fitted.score(data) == pytest.approx(float(right[data.test_mask].float().mean()))
    assert fitted.score(data) == pytest.approx(fitted.solution_.accuracy["test"])
    assert fitted.score(data, mask=data.train_mask) == pytest.approx(
        fitted.solution_.accuracy["train"]
    )


def test_score_without_masks_uses_the_drawn_ones(data: Data) -> None:
    bare = Data(x=data.x, edge_index=data.edge_index, y=data.y)
    classifier = GassipClassifier(settings=SMALL, seed=2).fit(bare)
    assert classifier.score(bare) == pytest.approx(classifier.solution_.accuracy["test"])
    other = Data(x=data.x, edge_index=data.edge_index[:, :-1], y=data.y)
    with pytest.raises(GassipError, match="no test_mask"):
        classifier.score(other)


def test_score_on_a_graph_that_lacks_a_class(fitted: GassipClassifier, data: Data) -> None:
    # classes are matched by value: 40 alone must not be taken for the first class
    nodes = torch.arange(60)
    only = Data(x=data.x, edge_index=data.edge_index, y=torch.where(data.y == 40, 40, -1))
    share = (torch.from_numpy(fitted.predict(data)) == 40)[data.y == 40].float().mean()
    assert fitted.score(only, mask=nodes >= 0) == pytest.approx(float(share))
    only.y[0] = 99
    with pytest.raises(GassipError, match="label 99"):
        fitted.score(only, mask=nodes >= 0)


def test_a_graph_serves_as_well_as_data(
    make_graph: Callable[..., Graph], fitted: GassipClassifier
) -> None:
    graph = make_graph(nodes=60, edges=200)
    classifier = GassipClassifier(seed=1, settings=preset("best", graph, SMALL)).fit(graph)
    assert classifier.classes_.tolist() == [0, 1, 2]
    assert (
        classifier.predict_proba(graph) == fitted.predict_proba()
    ).all()  # equal seeds, equal bits
    assert classifier.score(graph) == pytest.approx(classifier.solution_.accuracy["test"])


def frames(graph: Graph, labels: list[str] | list[int]) -> tuple[pd.DataFrame, pd.DataFrame]:
    x, named = graph.to_data().x.numpy(), np.array(labels)
    nodes = pd.DataFrame(x, columns=[f"c{k}" for k in range(x.shape[1])])
    nodes.insert(0, "id", [f"n{k}" for k in range(graph.num_nodes)])
    nodes["label"] = named[graph.y.numpy()]
    source, target = (nodes["id"].to_numpy()[ends] for ends in graph.edge_index.numpy())
    return nodes, pd.DataFrame({"source": source, "target": target})


@pytest.mark.parametrize("labels", [["red", "green", "blue"], [10, 20, 40], ["1", "2", "7"]])
def test_a_graph_of_frames_is_labelled_as_the_frame_was(
    make_graph: Callable[..., Graph], labels: list[str] | list[int]
) -> None:
    nodes, edges = frames(make_graph(nodes=60, edges=200), labels)
    graph = gassip.from_frames(nodes, edges)
    classifier = GassipClassifier(settings=SMALL).fit(graph)
    assert classifier.classes_.tolist() == sorted(labels)
    found = classifier.predict(graph)
    assert set(found.tolist()) <= set(labels)
    # own labels, so that they compare with the frame's column
    right = (found == nodes["label"].to_numpy())[graph.test_mask.numpy()].mean()
    assert classifier.score(graph) == pytest.approx(right)
    assert classifier.score(graph, nodes["label"]) == pytest.approx(right)


def test_another_graph_that_differs_is_warned_of_with_the_figure(
    fitted: GassipClassifier, data: Data
) -> None:
    thin = Data(x=data.x, edge_index=torch.tensor([[0, 1], [1, 0]]))  # 2 edges for 370
    with pytest.warns(gassip.GassipWarning, match=r"0\.00541 times as dense: 0\.0333 edges per"):
        fitted.predict(thin)
    x = data.x.clone()
    x[3, 2] = 1e6
    with pytest.warns(gassip.GassipWarning, match="feature 2 in 1 of 60 nodes") as caught:
        fitted.predict(Data(x=x, edge_index=data.edge_index))
    assert caught[0].filename == __file__


def test_the_summary_has_the_score_on_new_nodes(
    fitted: GassipClassifier, data: Data, tmp_path: Path
) -> None:
    summary = fitted.fit_summary()
    made, constant = summary["inductive"], summary["constant"]
    assert made is None or 0 <= made["score"] <= 1  # None: too few validation nodes
    counts = fitted.graph_.y[fitted.graph_.val_mask].bincount()
    largest = fitted.graph_.y[fitted.graph_.train_mask].bincount().argmax()
    assert constant == pytest.approx(float(counts[largest] / counts.sum()))
    fitted.save(tmp_path / "run")
    again = GassipClassifier.load(tmp_path / "run").fit_summary()
    assert (again["inductive"], again["constant"]) == (made, constant)


def test_sklearn_habits(fitted: GassipClassifier) -> None:
    parameters = fitted.get_params()
    assert parameters["seed"] == 1 and parameters["settings"] == SMALL
    names = {"preset", "seed", "metric", "device", "settings", "budget", "graph", "verbose"}
    names |= {"callback", "jobs", "time_limit", "refit"}
    assert set(parameters) == names
    other = clone(fitted).set_params(seed=7)
    assert other.seed == 7 and fitted.seed == 1
    with pytest.raises(NotFittedError):
        other.predict()


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"metric": "loss"}, "no metric 'loss'"),
        ({"preset": "paperr"}, "no preset"),
        ({"device": "abacus"}, "device 'abacus'"),
        ({"settings": {"hiden": 3}}, "no setting 'hiden'"),
    ],
)
def test_wrong_parameters_are_named(data: Data, parameters: dict[str, object], match: str) -> None:
    with pytest.raises(GassipError, match=match):
        GassipClassifier(**parameters).fit(data)  # type: ignore[arg-type]


def test_wrong_input_is_named(fitted: GassipClassifier, data: Data) -> None:
    with pytest.raises(GassipError, match=r"x has 5 features; .* 6"):
        fitted.predict(Data(x=data.x[:, :5], edge_index=data.edge_index))
    with pytest.raises(GassipError, match="edge_index is missing"):
        fitted.predict(Data(x=data.x))
    with pytest.raises(GassipError, match="1-based"):
        fitted.predict(Data(x=data.x, edge_index=torch.tensor([[1], [60]])))
    with pytest.raises(GassipError, match="mask must hold"):
        fitted.score(data, mask=torch.ones(3, dtype=torch.bool))
    with pytest.raises(GassipError, match=r"mask=\.\.\."):
        fitted.score(data, data.train_mask)


@pytest.mark.parametrize(
    "budget", [Budget(max_params=40, max_macs="50%"), {"max_params": 40, "max_edges": "50%"}]
)
def test_a_budget_is_kept(data: Data, budget: Budget | dict[str, float | str]) -> None:
    classifier = GassipClassifier(settings=SMALL, budget=budget)
    assert clone(classifier).get_params()["budget"] == budget
    classifier.fit(data)
    size, whole = (
        classifier.solution_.size,
        limits(Budget(max_macs="50%", max_edges="50%"), classifier.graph_),
    )
    assert (
        size is not None
        and size.params == sum(p.numel() for p in classifier.model_.parameters()) <= 40
    )
    assert size.macs <= whole.macs if isinstance(budget, Budget) else size.edges <= whole.edges
    assert classifier.predict(data).shape == (60,)


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"max_params": 3}, "cannot be met on graph: the least is 8"),
        ({"max_weight": 3}, "expected a Budget, or amounts by name: max_params, max_edges"),
        ("25%", "expected a Budget"),
        ({"max_params": "lots"}, "expected a number above 0 or a share"),
    ],
)
def test_a_budget_that_cannot_be_kept_or_read_is_refused(
    data: Data, budget: Any, message: str
) -> None:
    with pytest.raises(GassipError, match=message):
        GassipClassifier(settings=SMALL, budget=budget).fit(data)


def test_another_graph_is_read_both_ways_where_the_first_was(
    make_graph: Callable[..., Graph],
) -> None:
    one_way = make_graph(nodes=60, edges=200, undirected=False).to_data()
    paper = SMALL | {"direction": "both"}
    classifier = GassipClassifier(preset="paper", seed=1, settings=paper).fit(one_way)
    other = Data(x=one_way.x, edge_index=one_way.edge_index[:, :-1])
    both = Data(x=other.x, edge_index=torch.cat([other.edge_index, other.edge_index.flip(0)], 1))
    assert (classifier.predict_proba(other) == classifier.predict_proba(both)).all()
    assert (classifier.predict_proba(one_way) == classifier.predict_proba()).all()
    own = classifier.graph_.both_ways
    assert (classifier.predict_proba(own) == classifier.predict_proba()).all()
