import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from gassip import runtime
from gassip.artefact import open_run
from gassip.baselines.correct_and_smooth import CorrectAndSmooth, Smoothed
from gassip.batched import retrain_many
from gassip.budget import Budget, fit_budget
from gassip.cli import main
from gassip.correction import corrected, fitted, known_labels, likeliest_strength, residual, spread
from gassip.errors import GassipError
from gassip.estimator import GassipClassifier
from gassip.export import to_executorch, to_onnx, to_runtime
from gassip.graph import Graph
from gassip.ops import MaskedGraph
from gassip.retrain import predict, retrain
from gassip.search import search
from gassip.settings import Gassip, preset
from gassip.shrink import shrink_net
from gassip.size import count_macs
from gassip.space import Architecture
from runs import random_net, save_run

MakeGraph = Callable[..., Graph]
FEW = Gassip(epochs=2, warmup_epochs=1, retrain_epochs=5, hidden=4, correction=True)


@pytest.fixture(scope="module")
def graph(make_graph: MakeGraph) -> Graph:
    return make_graph(3, nodes=60, edges=150, features=9, weighted=True)


@pytest.fixture(scope="module")
def cliques() -> Graph:
    """Groups of ten nodes that know each other and share a class which the features do not tell; a third labelled."""
    rng = np.random.default_rng(0)
    nodes = np.arange(300)
    ends = np.stack(np.nonzero((nodes[:, None] // 10 == nodes // 10) & (nodes[:, None] != nodes)))
    y = rng.integers(0, 3, 30)[nodes // 10]
    x = rng.normal(size=(300, 5)).astype(np.float32)
    return Graph.build(x, ends, y, masks=(nodes % 3 == 0, nodes % 3 == 1, nodes % 3 == 2))


@pytest.fixture(scope="module")
def saved(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose scores labels correct."""
    net = random_net(graph, Architecture(ops=("GCNConv", "SAGEConv"), hidden=(8,)), columns=4)
    net.correction = 7.5
    folder = tmp_path_factory.mktemp("correction") / "run"
    save_run(folder, graph, net)
    return folder


# Equations


def test_residual_by_hand() -> None:
    scores = torch.tensor([[0.0, 0.0], [0.0, 0.0], [np.log(3.0), 0.0]], dtype=torch.float32)
    found = residual(scores, torch.tensor([1, -1, 0]))
    torch.testing.assert_close(found, torch.tensor([[-0.5, 0.5], [0, 0], [0.25, -0.25]]))


def test_residual_is_the_slope_by_which_labels_get_likelier(graph: Graph) -> None:
    scores = torch.randn(graph.num_nodes, graph.num_classes, dtype=torch.float64, requires_grad=True)
    labels = known_labels(graph)
    known = labels >= 0
    F.cross_entropy(scores[known], labels[known], reduction="sum").backward()
    assert scores.grad is not None
    torch.testing.assert_close(residual(scores.detach(), labels), -scores.grad)


def test_spread_is_ten_steps_of_page_rank(graph: Graph) -> None:
    scores, labels = torch.randn(graph.num_nodes, graph.num_classes), known_labels(graph)
    weight = torch.zeros(graph.num_nodes, graph.num_nodes)
    weight[graph.edge_index[1], graph.edge_index[0]] = graph.weight
    weight += torch.eye(graph.num_nodes)
    root = weight.sum(1).rsqrt()
    smooth = root[:, None] * weight * root
    wrong = residual(scores, labels)
    z = wrong
    for _ in range(10):
        z = 0.9 * smooth @ z + 0.1 * wrong
    masked = MaskedGraph.of(graph)
    torch.testing.assert_close(spread(scores, labels, masked), z, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(corrected(scores, labels, masked, 3.0), scores + 3 * z, rtol=1e-4, atol=1e-5)


def test_only_labels_of_training_nodes_are_known(graph: Graph) -> None:
    labels = known_labels(graph)
    assert bool((labels[graph.train_mask] == graph.y[graph.train_mask]).all())
    assert bool((labels[~graph.train_mask] == -1).all())


# How much


def test_fitted_is_the_likeliest_whatever_the_scores_are_sure_of() -> None:
    torch.manual_seed(0)
    own, added = torch.randn(400, 3, dtype=torch.float64), torch.randn(400, 3, dtype=torch.float64)
    y = torch.distributions.Categorical(logits=own + 2 * added).sample()
    strength = fitted(own, added, y)
    assert strength == pytest.approx(2, rel=0.25)
    assert fitted(5 * own, added, y) == pytest.approx(5 * strength, rel=1e-3)  # five times as sure, so as much to say

    def loss(by: float) -> float:
        steps = torch.linspace(0.2, 3, 57)
        return min(float(F.cross_entropy(step * (own + by * added), y)) for step in steps)

    assert loss(strength) <= min(loss(strength - 0.2), loss(strength + 0.2))
    assert fitted(own, -added, y) == 0  # what misleads is not turned round


def test_labels_are_heard_where_they_help(cliques: Graph) -> None:
    scores = torch.zeros(cliques.num_nodes, 3)  # a net that knows nothing
    strength = likeliest_strength(scores, cliques, "accuracy")
    assert strength > 0
    after = corrected(scores, known_labels(cliques), MaskedGraph.of(cliques), strength)
    assert float((after.argmax(1) == cliques.y).float().mean()) > 0.95


def test_labels_are_not_heard_where_they_do_not_help(cliques: Graph) -> None:
    scores = 9.0 * F.one_hot(cliques.y, 3)  # a net that knows all
    assert likeliest_strength(scores, cliques, "accuracy") == 0
    shuffled = cliques.y[torch.randperm(cliques.num_nodes, generator=torch.Generator().manual_seed(0))]
    assert likeliest_strength(torch.zeros(cliques.num_nodes, 3), replace(cliques, y=shuffled), "accuracy") == 0
    nobody = torch.zeros_like(cliques.train_mask)
    for without in (replace(cliques, train_mask=nobody), replace(cliques, val_mask=nobody)):
        assert likeliest_strength(torch.zeros(cliques.num_nodes, 3), without, "accuracy") == 0


def test_no_test_label_has_a_part_in_it(cliques: Graph) -> None:
    other = replace(cliques, y=torch.where(cliques.test_mask, (cliques.y + 1) % 3, cliques.y))
    scores = torch.randn(cliques.num_nodes, 3, generator=torch.Generator().manual_seed(1))
    strength = likeliest_strength(scores, cliques, "accuracy")
    assert strength > 0 and strength == likeliest_strength(scores, other, "accuracy")


# Nets


def test_a_retrained_net_is_corrected_where_that_helps(cliques: Graph) -> None:
    settings = replace(FEW, ops=("Linear",), sparsify=False, prune=False)
    found = search(cliques, settings)
    solution = retrain(cliques, found)
    without = retrain(cliques, replace(found, settings=replace(settings, correction=False)))
    assert solution.model.correction > 0 == without.model.correction
    assert solution.details["correction"] == solution.model.correction
    assert solution.accuracy["test"] > without.accuracy["test"] + 0.3
    assert solution.weights_kept == without.weights_kept
    assert solution.size is not None and without.size is not None
    more = 10 * (solution.graph.num_edges + 2 * cliques.num_nodes) * 3
    assert solution.size.macs == without.size.macs + more
    torch.testing.assert_close(predict(without.model, cliques), solution.model(cliques.x, cliques.edge_index))
    for one, many in zip([solution], retrain_many(cliques, found, seeds=[0]), strict=True):
        assert many.model.correction == pytest.approx(one.model.correction, rel=1e-2)
        assert many.accuracy == one.accuracy


def test_a_classifier_corrects_its_own_graph_and_no_other(cliques: Graph) -> None:
    settings = replace(FEW, ops=("Linear",), sparsify=False, prune=False)
    model = GassipClassifier(settings=settings).fit(cliques)
    assert model.solution_.model.correction > 0
    assert model.score(cliques) == pytest.approx(model.solution_.accuracy["test"])
    assert isinstance(cliques.x, torch.Tensor)
    other = replace(cliques, x=cliques.x + 1)
    plain = torch.softmax(model.model_(other.x, other.edge_index).double(), 1)
    np.testing.assert_allclose(model.predict_proba(other), plain.detach().numpy(), rtol=1e-5)


def test_presets(graph: Graph) -> None:
    assert preset("best", graph).correction and not preset("paper", graph).correction


def test_another_graph_gets_the_nets_own_scores(graph: Graph, saved: Path) -> None:
    run = open_run(saved)
    other = Graph.inputs(graph.x, graph.edge_index, class_names=graph.class_names)
    torch.testing.assert_close(predict(run.model, other), run.model(graph.x, graph.edge_index))


def test_bounds_on_time_turn_it_off(cliques: Graph) -> None:
    found = search(cliques, FEW)
    assert not fit_budget(cliques, found, Budget(max_macs="100%")).settings.correction
    assert fit_budget(cliques, found, Budget(max_params="100%")).settings.correction


def test_a_smaller_net_is_corrected_as_much(graph: Graph, saved: Path) -> None:
    net = open_run(saved).model
    assert shrink_net(net).correction == net.correction == 7.5
    macs = count_macs(net, graph)
    net.correction = 0.0
    assert macs > count_macs(net, graph)


# Where it is used


def test_every_form_computes_what_torch_does(graph: Graph, saved: Path, tmp_path: Path) -> None:
    run, model = open_run(saved), runtime.load(saved)
    kept = replace(graph, edge_index=run.edge_index, edge_weight=run.edge_weight)
    expected = predict(run.model, kept).numpy()
    np.testing.assert_allclose(model.scores(), expected, rtol=1e-4, atol=1e-4)
    assert np.abs(expected - replace(model, correction=0.0).scores()).max() > 0.1
    to_runtime(saved, tmp_path / "small")
    np.testing.assert_array_equal(runtime.load(tmp_path / "small").scores(), model.scores())
    for name, dynamic in (("fixed.onnx", False), ("any.onnx", True)):  # each is compared before it is written
        assert to_onnx(saved, tmp_path / name, dynamic=dynamic) > 0
    pytest.importorskip("executorch")
    assert to_executorch(saved, tmp_path / "net.pte") > 0


def test_an_export_that_forgets_the_labels_is_refused(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gassip.onnx_graph._corrected", lambda build, model, scores, labels, total: scores)
    with pytest.raises(GassipError, match="does not agree with torch"):
        to_onnx(saved, tmp_path / "net.onnx")


def test_some_nodes_get_what_they_get_among_all(saved: Path) -> None:
    model, nodes = runtime.load(saved), [7, 3, 3, 59]
    few = model.scores(nodes=nodes)  # before all are asked for
    np.testing.assert_allclose(few, model.scores()[nodes], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(runtime.load(saved, reorder=True).scores(), model.scores(), rtol=1e-4, atol=1e-4)


def test_the_runs_own_graph_is_known_again(graph: Graph, saved: Path) -> None:
    model = runtime.load(saved)
    assert graph.edge_weight is not None and isinstance(graph.x, torch.Tensor)
    own = (graph.x.numpy(), graph.edge_index.numpy(), graph.edge_weight.numpy())
    np.testing.assert_allclose(model.scores(*own), model.scores(), rtol=1e-5, atol=1e-5)
    fewer = (own[0][:-1], np.array([[0], [1]]), None)  # another graph has no labels
    np.testing.assert_array_equal(model.scores(*fewer), replace(model, correction=0.0).scores(*fewer))


def test_new_nodes_hear_the_old_ones_labels(saved: Path) -> None:
    model = runtime.load(saved)
    features = np.ones((1, model.features), dtype=np.float32)
    grown = model.extend(features, np.array([[0], [60]]))
    plain = replace(model, correction=0.0).extend(features, np.array([[0], [60]]))
    assert grown.labels is not None and grown.labels[60] == -1
    assert np.abs(grown.scores()[60] - plain.scores()[60]).max() > 1e-3  # node 0 is labelled


def test_without_its_labels_a_folder_has_the_nets_own_scores(graph: Graph, saved: Path, tmp_path: Path) -> None:
    meta = to_runtime(saved, tmp_path / "bare", inputs=False)
    assert "labels" in meta["agreement"] and "not corrected" in meta["agreement"]
    bare, plain = runtime.load(tmp_path / "bare"), replace(runtime.load(saved), correction=0.0)
    assert bare.labels is None and graph.edge_weight is not None and isinstance(graph.x, torch.Tensor)
    given = (graph.x.numpy(), graph.edge_index.numpy(), graph.edge_weight.numpy())
    np.testing.assert_allclose(bare.scores(*given), plain.scores(), rtol=1e-5, atol=1e-5)


def test_the_command_corrects_the_runs_graph_and_no_other(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    masks = {f"{split}_mask": graph.mask(split).numpy() for split in ("train", "val", "test")}
    assert graph.edge_weight is not None and isinstance(graph.x, torch.Tensor)
    arrays = {"x": graph.x.numpy(), "edge_index": graph.edge_index.numpy(), "edge_weight": graph.edge_weight.numpy()}
    np.savez("mine.npz", **arrays, **masks, y=graph.y.numpy())  # type: ignore[arg-type]
    net = random_net(graph, Architecture(ops=("GCNConv", "SAGEConv"), hidden=(8,)))
    net.correction = 20.0
    source = {"kind": "file", "path": "mine.npz", "seed": 0, "undirected": False, "normalize": False}
    save_run(Path("run"), graph, net, source=source)
    texts = []
    for name, more in (("a.csv", []), ("b.csv", ["--data", "mine.npz"])):
        assert main(["predict", "run", "--out", name, *more]) == 0
        texts.append(Path(name).read_text())
    assert runtime.main(["run", "--out", "c.csv"]) == 0
    assert texts[0] == texts[1]
    labels = [[line.split(",")[1] for line in text.splitlines()] for text in (texts[0], Path("c.csv").read_text())]
    assert labels[0] == labels[1]
    arrays["x"][0, 0] += 1  # another graph, though a little
    np.savez("other.npz", **arrays)  # type: ignore[arg-type]
    assert main(["predict", "run", "--out", "d.csv", "--data", "other.npz"]) == 0
    assert Path("d.csv").read_text() != texts[0]


@pytest.mark.parametrize("bad", [-1.0, True, "much", None])
def test_a_strength_that_is_none_is_refused(saved: Path, tmp_path: Path, bad: object) -> None:
    from gassip import store

    meta = json.loads((saved / "meta.json").read_text())
    meta["net"]["correction"] = bad
    with pytest.raises(GassipError, match="correction is"):
        store.correction(meta)


# The rival


def test_correct_and_smooth_takes_what_validates_best(cliques: Graph) -> None:
    solution = CorrectAndSmooth(hidden=4, epochs=3).solve(cliques, seed=0)
    values = solution.details["val"]
    assert isinstance(values, dict) and set(values) == {"scale 0", "scale 1", "scale 3", "scores"}
    assert solution.accuracy["val"] == max(values.values()) == values[str(solution.details["correction"])]
    assert solution.accuracy["test"] > 0.9
    plain = solution.details["plain"]
    assert isinstance(plain, dict) and plain["accuracy"]["test"] < 0.6


def test_correct_and_smooth_by_hand(path: Graph) -> None:
    """The path 0 - 1 - 2, 3 apart; nodes 0 and 1 are labelled; one step of each with α = 1/2."""
    settings = CorrectAndSmooth(hidden=2, alpha=0.5, steps=1)
    model = Smoothed(settings.net(path), known_labels(path), settings, 1.0).eval()
    share = torch.softmax(model.net(path.x, path.edge_index), 1).detach()
    truth = torch.eye(2)[path.y]
    half = 0.5**0.5  # 1 / √(d_i d_j) of both edges
    sent = half * (truth[1] - share[1])  # what node 2 hears of what is wrong at node 1
    own = torch.stack([truth[0], truth[1], share[2] + 0.5 * sent, share[3]])
    heard = torch.stack([half * own[1], half * (own[0] + own[2]), half * own[1], torch.zeros(2)])
    expected = (0.5 * own + 0.5 * heard).clamp(0, 1)
    torch.testing.assert_close(model(path.x, path.edge_index).exp(), expected.clamp_min(1e-9))
