from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gassip.best.edge_ranking import Known
from gassip.best.ensemble import Teacher
from gassip.best.pipeline import search
from gassip.best.pruning import far_behind, prune_candidates, pruning_recipe, shares
from gassip.best.significance import Validation
from gassip.best.student import Classroom, widest
from gassip.best.trials import Trials
from gassip.deploy.runtime import load
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, Net, net_for
from gassip.operations import MORE_OPS, gcn_weights
from gassip.runs.write import open_run, save
from gassip.settings import Settings, preset
from gassip.settings.training import Recipe
from gassip.train.batched import retrain_many
from gassip.train.gradual_pruning import Pruning, besides
from gassip.train.plan import Plan
from gassip.train.trainer import predict, retrain, seeded, train
from tests.conftest import random_graph
from tests.small import num_params, with_recipe


def small() -> Graph:
    return random_graph(1, nodes=60, edges=150, features=12)


def wide(graph: Graph, *, batch_norm: bool = False) -> Net:
    with seeded(0, graph.device):
        return net_for(
            graph, Architecture(ops=("SAGEConv", "GATConv"), hidden=(16,), batch_norm=batch_norm)
        )


def found_for(graph: Graph, weights: int) -> Plan:
    settings = preset("paper", graph, {"epochs": 2, "warmup_epochs": 1, "retrain_epochs": 30})
    found = search(graph, settings, seed=0)
    keep = [torch.ones_like(own) for own in found.weight_keep]
    return with_recipe(replace(found, weight_keep=keep), prune_to=weights)


def test_the_schedule_by_hand() -> None:
    pruning = Pruning.of(Recipe(epochs=300, prune_to=50))
    assert pruning == Pruning(weights=50, first=10, last=200)
    own = Pruning(weights=50, first=10, last=20)
    assert [own.share_left(epoch) for epoch in (1, 10, 15, 20, 25)] == [1, 1, 0.125, 0, 0]
    assert Pruning.of(Recipe()) is None


def test_the_largest_weights_stay_over_all_layers_together() -> None:
    graph = small()
    net = wide(graph)
    before = torch.cat([layer.weight.detach().flatten() for layer in net.layers])
    others = num_params(graph, net.architecture) - before.numel()
    Pruning(weights=others + 40, first=0, last=1).step(net, 1)
    after = torch.cat([layer.weight.detach().flatten() for layer in net.layers])
    largest = torch.zeros_like(before, dtype=torch.bool)
    largest[before.abs().topk(40).indices] = True
    assert torch.equal(after, torch.where(largest, before, 0.0))
    assert net.num_weights() == (others + 40, num_params(graph, net.architecture))


def test_halfway_as_many_stay_as_the_schedule_says_and_may_come_back() -> None:
    graph = small()
    net = wide(graph)
    total = sum(layer.weight.numel() for layer in net.layers)
    others = num_params(graph, net.architecture) - total
    pruning = Pruning(weights=others + 100, first=0, last=4)
    pruning.step(net, 2)
    left = sum(int((layer.weight != 0).sum()) for layer in net.layers)
    assert left == round(100 + (total - 100) * 0.125)
    assert all(net.weight_keep(l) is None for l in range(2))  # nothing is gone for good
    gone = torch.nonzero(net.layers[0].weight.detach() == 0)[0]
    with torch.no_grad():
        net.layers[0].weight[tuple(gone)] = 9.0  # what a step of the optimizer may do
    pruning.step(net, 4)
    assert net.layers[0].weight[tuple(gone)] == 9.0
    kept = [layer.weight.detach().clone() for layer in net.layers]
    pruning.step(net, 5)  # over
    assert all(torch.equal(layer.weight, own) for layer, own in zip(net.layers, kept, strict=True))


@pytest.mark.parametrize("keep", ["best", "last"])
@pytest.mark.parametrize("batch_norm", [False, True])
def test_a_trained_net_has_that_many_weights_and_a_later_epoch(keep: str, batch_norm: bool) -> None:
    graph, pruning = small(), Pruning(weights=150, first=1, last=12)
    net = wide(graph, batch_norm=batch_norm)
    told: list[float] = []
    options = {"epochs": 20, "lr": 0.05, "weight_decay": 1e-4, "keep": keep, "pruning": pruning}
    epoch = train(net, graph, **options, on_epoch=lambda row: told.append(row["epoch"]))  # type: ignore[arg-type]
    assert 12 <= epoch <= 20 and (keep == "best" or epoch == 20)
    assert told == list(range(1, 21))
    assert net.num_weights()[0] == 150
    zeros = sum(int((layer.weight == 0).sum()) for layer in net.layers)
    assert zeros >= num_params(graph, net.architecture) - 150
    quiet = wide(graph, batch_norm=batch_norm)
    assert train(quiet, graph, **options) == epoch  # type: ignore[arg-type]
    assert torch.equal(predict(net, graph), predict(quiet, graph))


def test_as_a_control_any_weights_stay_from_the_first_epoch_on() -> None:
    graph, pruning = small(), Pruning(weights=150, first=1, last=12, rule="random")
    nets = [wide(graph) for _ in range(3)]
    for seed, net in zip((0, 0, 1), nets, strict=True):
        with seeded(seed, graph.device):
            pruning.step(net, 1)
    first = [net.weight_keep(0) for net in nets]
    assert first[0] is not None and first[1] is not None and first[2] is not None
    assert torch.equal(first[0], first[1]) and not torch.equal(first[0], first[2])
    assert nets[0].num_weights()[0] == 150
    trained = wide(graph)
    assert train(trained, graph, epochs=20, lr=0.05, weight_decay=1e-4, pruning=pruning) >= 12
    assert trained.num_weights()[0] == 150
    assert Pruning.of(Recipe(prune_to=5, prune_rule="random")) == Pruning(
        weights=5, first=10, last=200, rule="random"
    )


def test_a_net_with_fewer_weights_is_left_alone() -> None:
    graph = small()
    plain, asked = (wide(graph) for _ in range(2))
    options = {"epochs": 6, "lr": 0.05, "weight_decay": 1e-4, "keep": "last"}
    train(plain, graph, **options)  # type: ignore[arg-type]
    train(asked, graph, **options, pruning=Pruning(weights=10**6, first=1, last=4))  # type: ignore[arg-type]
    assert torch.equal(predict(plain, graph), predict(asked, graph))


def test_retraining_prunes_and_a_saved_run_holds_what_is_left(tmp_path: Path) -> None:
    graph = small()
    found = found_for(graph, 400)
    solution, again, other = (retrain(graph, found, seed=seed) for seed in (1, 1, 2))
    assert solution.weights_kept == 400 < solution.weights_total
    assert all(
        torch.equal(*pair)
        for pair in zip(solution.model.parameters(), again.model.parameters(), strict=True)
    )
    masks = [own.model.weight_keep(0) for own in (solution, other) if isinstance(own.model, Net)]
    assert not torch.equal(*masks)  # type: ignore[arg-type] # each training prunes for itself
    meta = save(tmp_path / "run", graph, found, solution, preset="paper")
    assert meta["size"]["params"] == 400  # and one bit for each that there was
    assert meta["size"]["bytes"] < 4 * 400 + solution.weights_total // 8 + 1500
    run = open_run(tmp_path / "run")
    assert all(
        torch.equal(*pair)
        for pair in zip(run.model.parameters(), again.model.parameters(), strict=True)
    )
    assert run.model.num_weights() == (400, solution.weights_total)
    light = load(tmp_path / "run").predict_proba()  # without torch
    np.testing.assert_allclose(light, predict(solution.model, solution.graph).softmax(1), atol=1e-5)
    assert retrain(graph, run.plan, seed=1).scores == solution.scores
    many = retrain_many(graph, found, seeds=[1, 2])
    assert [own.scores for own in many] == [solution.scores, other.scores]


def test_the_state_of_a_pruned_net_comes_back() -> None:
    graph = small()
    net, twin = wide(graph), wide(graph)
    Pruning(weights=120, first=0, last=1).step(net, 1)
    twin.restore(net.state_dict())
    assert twin.num_weights() == net.num_weights()
    assert torch.equal(predict(net, graph), predict(twin, graph))
    twin.restore(wide(graph).state_dict())
    assert twin.weight_keep(0) is None


def room_for(graph: Graph, recipe: Recipe) -> Classroom:
    teacher = Teacher(
        probs=torch.full((graph.num_nodes, graph.num_classes), 1 / graph.num_classes),
        trials=[],
        feature_weight=torch.ones(graph.num_features),
    )
    return Classroom(
        trials=Trials(graph, seed=0, metric="accuracy", tell=lambda row: None),
        graph=graph,
        teacher=teacher,
        recipe=recipe,
        trial_epochs=1,
        heads=1,
        known=Known(graph, teacher.probs, torch.ones(graph.num_edges), 0),
        cuts={},
        graphs={},
        features=None,
    )


def test_a_pruned_student_is_wider_and_has_as_many_weights() -> None:
    graph, best = small(), preset("best", small()).best
    assert best is not None
    weights = int(0.35 * gcn_weights(graph.num_features, graph.num_classes))
    room = room_for(graph, Recipe(lr=0.01, weight_decay=5e-5))
    own = pruning_recipe(0.35, room, best.pruning)
    assert (own.prune_to, own.epochs) == (weights, 400)
    assert (own.lr, own.weight_decay) == (0.02, 2e-4)  # twice the rate, and at least 2e-4
    heavier = pruning_recipe(0.35, room_for(graph, Recipe(weight_decay=5e-4)), best.pruning)
    assert heavier.weight_decay == 5e-4
    assert pruning_recipe(0.35, room, replace(best.pruning, prune_from=1)) == room.recipe
    ops, times = ("SAGEConv", "SAGEConv"), best.pruning.prune_from
    thin, broad = (widest(graph, ops, own, 1, share, None) for share in (0.35, 0.35 * times))
    assert num_params(graph, broad) > 3 * own.prune_to > 2 * num_params(graph, thin)


def test_how_far_behind_a_net_is() -> None:
    def said(right: torch.Tensor) -> Validation:
        return Validation("accuracy", torch.eye(2)[(~right).long()], torch.zeros_like(right).long())

    teacher, nodes = said(torch.ones(1000, dtype=torch.bool)), torch.arange(1000)
    assert far_behind(said(nodes >= 20), teacher, 0.01)
    assert not far_behind(said(nodes >= 20), teacher, 0.02)
    assert not far_behind(said(nodes >= 9), teacher, 0.01)  # beyond chance, but less than a point
    assert not far_behind(teacher, said(nodes >= 20), 0.01)
    few = torch.arange(50)
    # each has one that the other has not
    assert not far_behind(said(few != 0), said(few != 1), 0.01)


def test_what_is_tried_beyond_the_narrow_net() -> None:
    named = ("ArmaConv+ArmaConv", "Linear+APPNP5", "GCNConv+GCNConv+GCNConv")
    plain = Settings.of(ops=MORE_OPS, prune_candidates=named)
    students: list[tuple[str, ...]] = [("Linear", "APPNP5"), ("SAGEConv", "SAGEConv")]

    def sizes(**changes: object) -> list[float]:
        best = plain.changed(**changes).best
        assert best is not None
        return shares(best.pruning, best.student.size_share)

    assert sizes() == [0.35, 1.0, 3.0]
    assert sizes(prune_from=1) == [1.0, 3.0]  # nothing is pruned: larger nets only
    assert sizes(size_share=1.2) == [1.2, 3.0]
    assert sizes(size_steps=()) == []
    assert prune_candidates(students, plain) == [*students, ("ArmaConv", "ArmaConv")]
    for own in (
        {"prune_from": 1},
        {"prune_candidates": ()},
        {"final_ops": "GCNConv+GCNConv"},
        {"ops": ("GCNConv", "Linear")},
    ):
        assert prune_candidates(students, plain.changed(**own)) == students


@pytest.mark.parametrize("rule", ["magnitude", "random"])
def test_what_the_search_removed_stays_removed(rule: str) -> None:
    graph = small()
    net = wide(graph)
    gone = [torch.rand_like(layer.weight) < 0.5 for layer in net.layers]
    net.prune([~own for own in gone])
    before = net.num_weights()[0]
    pruning = Pruning(weights=before - 20, first=0, last=3, rule=rule)
    train(net, graph, epochs=5, lr=0.1, weight_decay=0.0, pruning=pruning)
    assert net.num_weights()[0] == before - 20
    assert all(
        bool((layer.weight[own] == 0).all()) for layer, own in zip(net.layers, gone, strict=True)
    )
    Pruning(weights=10**6, first=0, last=1, rule=rule).finish(
        net
    )  # nothing to prune, and nothing comes back
    assert net.num_weights()[0] == before - 20


def test_fewer_weights_than_biases_and_norms_are_refused() -> None:
    graph = small()
    net = wide(graph, batch_norm=True)
    others = besides(net.named_parameters())
    assert others == num_params(graph, net.architecture) - sum(
        layer.weight.numel() for layer in net.layers
    )
    with pytest.raises(GassipError, match=rf"^prune_to is {others}; .* give {others + 1} or more"):
        train(
            net,
            graph,
            epochs=2,
            lr=0.1,
            weight_decay=0.0,
            pruning=Pruning(weights=others, first=0, last=1),
        )


def test_a_net_to_be_pruned_is_not_all_biases_and_norms() -> None:
    graph = random_graph(1, nodes=60, edges=150, features=2)
    recipe = Recipe(prune_to=300, batch_norm=True)
    net = net_for(graph, widest(graph, ("GCNConv", "GCNConv"), recipe, 1, 100.0, None))
    assert 100 < besides(net.named_parameters()) <= 150
