import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from gassip.baselines.correct_and_smooth import CorrectAndSmooth, Smoothed
from gassip.baselines.label_propagation import LabelPropagation
from gassip.best.label_propagation import fit_weights, label_weight, raises_likelihood
from gassip.best.pipeline import search
from gassip.best.steps import num_rows
from gassip.best.trials import Trial, validated
from gassip.budget.fit import Budget, fit_budget
from gassip.cli import main
from gassip.deploy import labelling, runtime
from gassip.deploy.export import to_executorch, to_onnx, to_runtime
from gassip.errors import GassipError, GassipWarning
from gassip.estimator import GassipClassifier
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, Net
from gassip.nn.propagate import MaskedGraph
from gassip.nn.size import count_macs
from gassip.runs.write import open_run
from gassip.settings import Settings, preset
from gassip.settings.training import Recipe
from gassip.train.batched import retrain_many
from gassip.train.context import RunContext
from gassip.train.label_propagation import known_labels, label_logits, out_of_fold_label_logits
from gassip.train.losses import supervised
from gassip.train.shrink import shrink_net
from gassip.train.trainer import predict, retrain, with_label_logits
from tests.saved_runs import random_net, save_run
from tests.small import with_recipe

MakeGraph = Callable[..., Graph]
FEW = Settings.of(epochs=2, warmup_epochs=1, retrain_epochs=5, hidden=4)


@pytest.fixture(scope="module")
def graph(make_graph: MakeGraph) -> Graph:
    return make_graph(3, nodes=60, edges=150, features=9, weighted=True)


@pytest.fixture(scope="module")
def cliques() -> Graph:
    """Groups of ten nodes that know each other and share a class which the features do not tell; a
    third labelled."""
    rng = np.random.default_rng(0)
    nodes = np.arange(300)
    ends = np.stack(np.nonzero((nodes[:, None] // 10 == nodes // 10) & (nodes[:, None] != nodes)))
    y = rng.integers(0, 3, 30)[nodes // 10]
    x = rng.normal(size=(300, 5)).astype(np.float32)
    return Graph.build(x, ends, y, masks=(nodes % 3 == 0, nodes % 3 == 1, nodes % 3 == 2))


@pytest.fixture(scope="module")
def saved(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run beside whose net labels count."""
    net = random_net(graph, Architecture(ops=("GCNConv", "SAGEConv"), hidden=(8,)), columns=4)
    net.label_weight = 1.5
    folder = tmp_path_factory.mktemp("labels") / "run"
    save_run(folder, graph, net)
    return folder


# Equations


def test_label_logits_by_hand(path: Graph) -> None:
    """0 - 1 - 2, 3 apart; nodes 0 and 1 are labelled, 0 and 1."""
    root = np.array([1 / 2, 1 / 3, 1 / 2, 1]) ** 0.5
    edges = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]])
    y = np.array([[1, 0], [0, 1], [0, 0], [0, 0]], dtype=float)
    z = y
    for _ in range(5):
        z = 0.7 * (root[:, None] * edges * root) @ z + 0.3 * y
    found = label_logits(known_labels(path), 2, MaskedGraph.of(path))
    np.testing.assert_allclose(found.numpy(), np.log(z + 0.01 * np.array([0.5, 0.5])), rtol=1e-5)
    assert found[3].tolist() == pytest.approx([np.log(0.005)] * 2)  # nothing arrives there


def test_where_nothing_arrives_the_classes_are_as_common_as_among_labels(graph: Graph) -> None:
    labels = torch.full((graph.num_nodes,), -1)
    labels[:4] = torch.tensor([0, 0, 0, 2])
    found = label_logits(labels, 3, MaskedGraph.of(graph))[-1]  # without edges
    assert found.exp().tolist() == pytest.approx([0.01 * 4 / 7, 0.01 * 1 / 7, 0.01 * 2 / 7])


def test_only_labels_of_training_nodes_are_known(graph: Graph) -> None:
    labels = known_labels(graph)
    assert bool((labels[graph.train_mask] == graph.y[graph.train_mask]).all())
    assert bool((labels[~graph.train_mask] == -1).all())


def test_in_training_no_node_hears_its_own_label(cliques: Graph) -> None:
    """Of a clique one node is labelled: it hears nothing of itself, the others hear it."""
    labels = torch.full((cliques.num_nodes,), -1)
    labels[::10] = cliques.y[::10]
    masked = MaskedGraph.of(cliques)
    said, whole = (form(labels, 3, masked) for form in (out_of_fold_label_logits, label_logits))
    apart = labels >= 0
    assert bool((said[apart] < np.log(0.01)).all()) and bool(
        (whole[apart].max(1).values > np.log(0.1)).all()
    )
    torch.testing.assert_close(said[~apart], whole[~apart])
    assert bool((said[~apart].argmax(1) == cliques.y[~apart]).all())


def test_in_training_nine_tenths_of_the_labels_are_heard(cliques: Graph) -> None:
    labels = known_labels(cliques)
    said = out_of_fold_label_logits(labels, 3, MaskedGraph.of(cliques))
    assert float((said.argmax(1) == cliques.y).float().mean()) > 0.95


# How much


def test_fit_finds_both_weights() -> None:
    torch.manual_seed(0)
    own, said = torch.randn(4000, 3), torch.randn(4000, 3)
    y = torch.distributions.Categorical(logits=own + 2 * said).sample()
    fit = fit_weights(own, said, y)
    assert list(fit) == pytest.approx([1, 2], rel=0.15)
    surer = fit_weights(5 * own, said, y)
    assert list(surer) == pytest.approx([fit[0] / 5, fit[1]], rel=1e-2)

    def loss(a: float, w: float) -> float:
        return float(F.cross_entropy((a * own + w * said).double(), y))

    best = loss(*fit)
    assert all(
        best <= loss(fit[0] + da, fit[1] + dw) for da in (-0.1, 0, 0.1) for dw in (-0.1, 0, 0.1)
    )
    assert fit_weights(own, -said, y)[1] == 0  # what misleads is not turned round
    sure = F.one_hot(y, 3).float()
    assert max(fit_weights(sure, sure, y)) <= 10  # nothing speaks against ever more


def test_labels_are_heard_where_they_help(cliques: Graph) -> None:
    scores = torch.randn(
        cliques.num_nodes, 3, generator=torch.Generator().manual_seed(0)
    )  # a net that knows nothing
    weight, gain = label_weight(scores, cliques)
    assert weight > 1 and gain > 3


def test_labels_are_not_heard_where_they_do_not_help(cliques: Graph) -> None:
    scores = 9.0 * F.one_hot(cliques.y, 3)  # a net that knows all
    assert label_weight(scores, cliques)[0] == 0
    generator = torch.Generator().manual_seed(0)
    shuffled = cliques.y[torch.randperm(cliques.num_nodes, generator=generator)]
    drawn = torch.randn(cliques.num_nodes, 3, generator=generator)
    weight, gain = label_weight(drawn, replace(cliques, y=shuffled))
    assert weight == 0 and gain < 3
    nobody = torch.zeros_like(cliques.train_mask)
    for without in (replace(cliques, train_mask=nobody), replace(cliques, val_mask=nobody)):
        assert label_weight(drawn, without) == (0, 0)


def test_no_test_label_has_a_part_in_it(cliques: Graph) -> None:
    other = replace(cliques, y=torch.where(cliques.test_mask, (cliques.y + 1) % 3, cliques.y))
    scores = torch.randn(cliques.num_nodes, 3, generator=torch.Generator().manual_seed(1))
    found = label_weight(scores, cliques)
    assert found[0] > 0 and found == label_weight(scores, other)


# Nets


def test_a_net_is_trained_beside_the_labels(cliques: Graph) -> None:
    plain = search(cliques, FEW.changed(ops=("Linear",), sparsify=False, prune=False))
    found = with_recipe(plain, label_weight=1.0)
    solution, without = retrain(cliques, found), retrain(cliques, plain)
    assert solution.model.label_weight == 1.0 and without.model.label_weight == 0.0
    assert solution.accuracy["test"] > without.accuracy["test"] + 0.3
    assert solution.weights_kept == without.weights_kept
    assert solution.size is not None and without.size is not None
    more = 5 * (solution.graph.num_edges + 2 * cliques.num_nodes) * 3
    assert solution.size.macs == without.size.macs + more
    said = label_logits(known_labels(cliques), 3, MaskedGraph.of(cliques))
    alone = solution.model(cliques.x, cliques.edge_index)
    torch.testing.assert_close(predict(solution.model, cliques), alone + said)
    assert retrain_many(cliques, found, seeds=[0])[0].accuracy == solution.accuracy
    again = retrain(cliques, found)
    torch.testing.assert_close(
        predict(again.model, cliques), predict(solution.model, cliques), rtol=0, atol=0
    )


def test_what_a_net_hears_moves_its_training(cliques: Graph) -> None:
    """By hand: the bias' first gradient is that of the scores with w o added, of training nodes
    without their own."""
    net = Net(5, 3, Architecture(ops=("Linear",), hidden=()))
    net = with_label_logits(net, cliques, 2.0)
    masked = MaskedGraph.of(cliques)
    said = 2.0 * out_of_fold_label_logits(known_labels(cliques), 3, masked)
    supervised(net, cliques, masked, 1).backward()
    assert isinstance(cliques.x, torch.Tensor)
    logits = (cliques.x @ net.layers[0].weight + net.layers[0].bias + said).detach()
    train = cliques.train_mask
    slope = torch.softmax(logits[train], 1) - F.one_hot(cliques.y[train], 3)
    assert net.layers[0].bias.grad is not None
    torch.testing.assert_close(net.layers[0].bias.grad[0], slope.mean(0))


def test_the_contest_decides(cliques: Graph) -> None:
    few = {"epochs": 2, "retrain_epochs": 3, "trial_epochs": 2, "prune_epochs": 3, "size_steps": ()}
    heard = search(
        cliques,
        preset(
            "best",
            cliques,
            few | {"ops": ("Linear",), "default_candidates": ("Linear+Linear",), "for": "own"},
        ),
    )
    assert heard.recipe.label_weight > 0 and heard.teacher is not None
    deaf = {
        "label_propagation": False,
        "ops": ("Linear",),
        "default_candidates": ("Linear+Linear",),
    }
    without = search(cliques, preset("best", cliques, few | deaf))
    assert without.recipe.label_weight == 0 and without.teacher is not None
    right = [
        (own.argmax(1) == cliques.y)[cliques.test_mask].float().mean()
        for own in (heard.teacher, without.teacher)
    ]
    assert right[0] > right[1] + 0.3
    stages = [str(row.get("stage")) for row in heard.history]
    assert stages[-2:] == [
        "teacher with labels",
        "student with labels",
    ]  # one finalist anew, then the final net
    assert len(heard.history) <= num_rows(heard.settings)
    assert float(heard.history[-1]["val_score"]) > 0.9
    assert retrain(cliques, heard).accuracy["test"] > 0.9


def test_labels_are_heard_where_nodes_are_likelier_and_not_fewer_are_right_beyond_chance(
    cliques: Graph,
) -> None:
    """Of 100 validation nodes."""
    y = cliques.y[cliques.val_mask]

    def net(right: int, sure: float) -> Trial:
        """Says the right class of so many validation nodes, this surely; of the others another,
        less surely."""
        said = torch.where(torch.arange(100) < right, y, (y + 1) % 3)
        height = torch.where(torch.arange(100) < right, sure, 0.36)
        share = torch.full((300, 3), 1 / 3)
        other = (1 - height) / 2
        share[cliques.val_mask] = other[:, None] + F.one_hot(said, 3) * (height - other)[:, None]
        own = random_net(cliques, Architecture(ops=("Linear", "Linear"), hidden=(2,)))
        hits = (share.argmax(1) == cliques.y)[cliques.val_mask]
        assert int(hits.sum()) == right
        return Trial(
            recipe=Recipe(),
            architecture=own.architecture,
            net=own,
            first={},
            value=right / 100,
            validation=validated(share, cliques, "accuracy"),
            probs=share,
        )

    unsure, sure = net(80, 0.4), net(78, 0.99)
    assert raises_likelihood(
        sure, unsure, cliques
    )  # by 5.5 standard errors; 2 fewer right, and 2 ≤ 2 √2
    assert not raises_likelihood(
        net(75, 0.99), unsure, cliques
    )  # by 3.4; but 5 fewer, and 5 > 2 √5
    assert not raises_likelihood(net(82, 0.4), unsure, cliques)  # more right, hardly likelier
    assert not raises_likelihood(unsure, sure, cliques)


def test_labels_that_do_not_help_are_tried_and_left(
    cliques: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels by the features, at random over the cliques: a net that reads features needs no
    neighbour's label."""
    drawn = torch.randint(3, (cliques.num_nodes,), generator=torch.Generator().manual_seed(0))
    own = replace(
        cliques, y=drawn, x=torch.cat([3.0 * F.one_hot(drawn, 3), torch.ones(drawn.numel(), 2)], 1)
    )
    few = {
        "epochs": 2,
        "retrain_epochs": 30,
        "trial_epochs": 10,
        "prune_epochs": 3,
        "size_steps": (),
    }
    settings = preset(
        "best",
        own,
        few | {"ops": ("Linear",), "default_candidates": ("Linear+Linear",), "for": "own"},
    )
    monkeypatch.setattr("gassip.best.label_propagation.label_weight", lambda *given: (1.0, 4.0))
    found = search(own, settings)
    assert [row.get("stage") for row in found.history][-1] == "student with labels"
    assert found.recipe.label_weight == 0


def test_for_any_graph_the_net_is_trained_alone(cliques: Graph) -> None:
    """The same net as without label propagation, to the bit; labels count on its own graph."""
    few = {"epochs": 2, "retrain_epochs": 3, "trial_epochs": 2, "prune_epochs": 3, "size_steps": ()}
    nets = {"ops": ("Linear",), "default_candidates": ("Linear+Linear",)}
    made = preset("best", cliques, few | nets)
    beside = search(cliques, made)
    alone = search(cliques, made.changed(label_propagation=False))
    assert beside.recipe.label_weight > 0 and not beside.recipe.labels_in_training
    assert beside.decisions[-1].taken.startswith("added after training, weight")
    assert len(beside.history) == len(alone.history) <= num_rows(made)
    one, other = retrain(cliques, beside), retrain(cliques, alone)
    for name, value in one.model.state_dict().items():
        torch.testing.assert_close(value, other.model.state_dict()[name], rtol=0, atol=0)
    assert one.accuracy["test"] > 0.9 > other.accuracy["test"]
    weight = beside.recipe.label_weight
    said = label_logits(known_labels(cliques), 3, MaskedGraph.of(cliques))
    torch.testing.assert_close(
        predict(one.model, cliques), predict(other.model, cliques) + weight * said
    )
    assert one.model.label_logits is None


def test_the_weight_alone_is_the_best_one() -> None:
    torch.manual_seed(0)
    own, said = torch.randn(4000, 3), torch.randn(4000, 3)
    y = torch.distributions.Categorical(logits=own + 2 * said).sample()
    a, w = fit_weights(3 * own, said, y, scaled=False)

    def loss(w: float) -> float:
        return float(F.cross_entropy((3 * own + w * said).double(), y))

    assert a == 1 and loss(w) <= min(loss(w - 0.05), loss(w + 0.05))


def test_a_classifier_hears_labels_of_its_own_graph_and_of_no_other(cliques: Graph) -> None:
    few = {"epochs": 2, "retrain_epochs": 3, "trial_epochs": 2, "prune_epochs": 3, "size_steps": ()}
    nets = {"ops": ("Linear",), "default_candidates": ("Linear+Linear",)}
    model = GassipClassifier(settings=few | nets).fit(cliques)
    assert model.plan_.recipe.label_weight == model.solution_.model.label_weight > 0
    assert model.score(cliques) == pytest.approx(model.solution_.accuracy["test"])
    assert isinstance(cliques.x, torch.Tensor)
    other = replace(cliques, x=cliques.x + 1)
    plain = torch.softmax(model.model_(other.x, other.edge_index).double(), 1)
    with pytest.warns(GassipWarning, match="labels of the training graph"):
        probs = model.predict_proba(other)
    np.testing.assert_allclose(probs, plain.detach().numpy(), rtol=1e-5)


def test_presets(graph: Graph) -> None:
    best = preset("best", graph).best
    assert best is not None and best.labels.label_propagation
    assert preset("paper", graph).best is None


def test_another_graph_gets_the_nets_own_scores(graph: Graph, saved: Path) -> None:
    run = open_run(saved)
    other = Graph.inputs(graph.x, graph.edge_index, class_names=graph.class_names)
    torch.testing.assert_close(predict(run.model, other), run.model(graph.x, graph.edge_index))


def test_bounds_on_time_turn_it_off(cliques: Graph) -> None:
    found = with_recipe(search(cliques, FEW), label_weight=1.0)
    assert fit_budget(cliques, found, Budget(max_macs="100%")).recipe.label_weight == 0
    assert fit_budget(cliques, found, Budget(max_params="100%")).recipe.label_weight == 1


def test_a_smaller_net_has_as_much_beside_it(graph: Graph, saved: Path) -> None:
    net = open_run(saved).model
    assert shrink_net(net).label_weight == net.label_weight == 1.5
    macs = count_macs(net, graph)
    net.label_weight = 0.0
    assert macs > count_macs(net, graph)


# Where it is used


def test_every_form_computes_what_torch_does(graph: Graph, saved: Path, tmp_path: Path) -> None:
    run, model = open_run(saved), runtime.load(saved)
    kept = replace(graph, edge_index=run.edge_index, edge_weight=run.edge_weight)
    expected = predict(run.model, kept).numpy()
    np.testing.assert_allclose(model.scores(), expected, rtol=1e-4, atol=1e-4)
    assert np.abs(expected - replace(model, label_weight=0.0).scores()).max() > 0.1
    to_runtime(saved, tmp_path / "small")
    np.testing.assert_array_equal(runtime.load(tmp_path / "small").scores(), model.scores())
    for name, dynamic in (
        ("fixed.onnx", False),
        ("any.onnx", True),
    ):  # each is compared before it is written
        assert to_onnx(saved, tmp_path / name, dynamic=dynamic) > 0
    pytest.importorskip("executorch")
    assert to_executorch(saved, tmp_path / "net.pte") > 0


def test_an_export_that_forgets_the_labels_is_refused(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gassip.deploy.runtime.Model.label_logits", lambda model, inputs: None)
    with pytest.raises(GassipError, match="does not agree with torch"):
        to_onnx(saved, tmp_path / "net.onnx")


def test_some_nodes_get_what_they_get_among_all(saved: Path) -> None:
    model, nodes = runtime.load(saved), [7, 3, 3, 59]
    few = model.scores(nodes=nodes)  # before all are asked for
    np.testing.assert_allclose(few, model.scores()[nodes], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        runtime.load(saved, reorder=True).scores(), model.scores(), rtol=1e-4, atol=1e-4
    )


def test_the_runs_own_graph_is_known_again(graph: Graph, saved: Path) -> None:
    model = runtime.load(saved)
    assert graph.edge_weight is not None and isinstance(graph.x, torch.Tensor)
    own = (graph.x.numpy(), graph.edge_index.numpy(), graph.edge_weight.numpy())
    np.testing.assert_allclose(model.scores(*own), model.scores(), rtol=1e-5, atol=1e-5)
    fewer = (own[0][:-1], np.array([[0], [1]]), None)  # another graph has no labels
    np.testing.assert_array_equal(
        model.scores(*fewer), replace(model, label_weight=0.0).scores(*fewer)
    )


def test_new_nodes_hear_the_old_ones_labels(saved: Path) -> None:
    model = runtime.load(saved)
    features = np.ones((1, model.features), dtype=np.float32)
    grown = model.extend(features, np.array([[0], [60]]))
    plain = replace(model, label_weight=0.0).extend(features, np.array([[0], [60]]))
    assert grown.labels is not None and grown.labels[60] == -1
    more = grown.scores()[60] - plain.scores()[60]
    assert more.argmax() == grown.labels[0] >= 0  # the neighbour's


def test_without_its_labels_a_folder_has_the_nets_own_scores(
    graph: Graph, saved: Path, tmp_path: Path
) -> None:
    meta = to_runtime(saved, tmp_path / "bare", inputs=False)
    assert "without the run's labels" in meta["agreement"]
    bare, plain = runtime.load(tmp_path / "bare"), replace(runtime.load(saved), label_weight=0.0)
    assert (
        bare.labels is None and graph.edge_weight is not None and isinstance(graph.x, torch.Tensor)
    )
    given = (graph.x.numpy(), graph.edge_index.numpy(), graph.edge_weight.numpy())
    np.testing.assert_allclose(bare.scores(*given), plain.scores(), rtol=1e-5, atol=1e-5)


def test_the_command_hears_labels_of_the_runs_graph_and_of_no_other(
    graph: Graph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    masks = {f"{split}_mask": graph.mask(split).numpy() for split in ("train", "val", "test")}
    assert graph.edge_weight is not None and isinstance(graph.x, torch.Tensor)
    arrays = {
        "x": graph.x.numpy(),
        "edge_index": graph.edge_index.numpy(),
        "edge_weight": graph.edge_weight.numpy(),
    }
    np.savez("mine.npz", **arrays, **masks, y=graph.y.numpy())  # type: ignore[arg-type]
    net = random_net(graph, Architecture(ops=("GCNConv", "SAGEConv"), hidden=(8,)))
    net.label_weight = 2.0
    source = {
        "kind": "file",
        "path": "mine.npz",
        "seed": 0,
        "undirected": False,
        "normalize": False,
    }
    save_run(Path("run"), graph, net, source=source)
    texts = []
    for name, more in (("a.csv", []), ("b.csv", ["--data", "mine.npz"])):
        assert main(["predict", "run", "--out", name, *more]) == 0
        texts.append(Path(name).read_text())
    assert labelling.main(["run", "--out", "c.csv"]) == 0
    assert texts[0] == texts[1]
    labels = [
        [line.split(",")[1] for line in text.splitlines()]
        for text in (texts[0], Path("c.csv").read_text())
    ]
    assert labels[0] == labels[1]
    arrays["x"][0, 0] += 1  # another graph, though a little
    np.savez("other.npz", **arrays)  # type: ignore[arg-type]
    capsys.readouterr()
    assert main(["predict", "run", "--out", "d.csv", "--data", "other.npz"]) == 0
    assert Path("d.csv").read_text() != texts[0]
    assert labelling.main(["run", "--out", "e.csv", "--data", "other.npz"]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "label propagation" in line]
    assert len(said) == 2 and said[0] == said[1] and "weight 2.00" in said[0]


@pytest.mark.parametrize("bad", [-1.0, True, "much", None])
def test_a_strength_that_is_none_is_refused(saved: Path, tmp_path: Path, bad: object) -> None:
    from gassip.runs import format as store

    meta = json.loads((saved / "meta.json").read_text())
    meta["net"]["label_weight"] = bad
    with pytest.raises(GassipError, match="label_weight is"):
        store.label_weight(meta)


# The rivals


def test_label_propagation_by_hand(path: Graph) -> None:
    """0 - 1 - 2, 3 apart; nodes 0 and 1 are labelled, 0 and 1; one step with α = 1/2."""
    solution = LabelPropagation(alpha=0.5, steps=(1,)).solve(path, RunContext(0))
    half = 0.5**1.5  # α / √(d_i d_j)
    expected = torch.tensor([[0.5, half], [half, 0.5], [0, half], [0, 0]])
    torch.testing.assert_close(predict(solution.model, path).exp(), expected.clamp_min(1e-9))
    assert solution.weights_kept == solution.weights_total == 0


def test_label_propagation_takes_the_steps_that_validate_best(cliques: Graph) -> None:
    solution = LabelPropagation().solve(cliques, RunContext(0))
    alone = [
        LabelPropagation(steps=(k,)).solve(cliques, RunContext(0)).accuracy["val"]
        for k in LabelPropagation().steps
    ]
    assert solution.accuracy["val"] == max(alone) > 0.9


def test_correct_and_smooth_takes_what_validates_best(cliques: Graph) -> None:
    solution = CorrectAndSmooth(hidden=4, epochs=3).solve(cliques, RunContext(0))
    values = solution.details["val"]
    assert isinstance(values, dict) and set(values) == {"scale 0", "scale 1", "scale 3"}
    assert (
        solution.accuracy["val"]
        == max(values.values())
        == values[str(solution.details["correction"])]
    )
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
