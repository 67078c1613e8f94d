from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.budget.cuts import cut_edges
from gassip.graph.graph import Graph
from gassip.metrics import METRICS, Metric
from gassip.nn.net import Architecture, Layer, Model, Net, net_for
from gassip.nn.propagate import MaskedGraph
from gassip.settings import Settings
from gassip.train.batched import retrain_many
from gassip.train.plan import Plan, Solution
from gassip.train.trainer import may_be_kept, predict, retrain, seeded, solve, train
from tests.small import inputs_of

ARCHITECTURE = Architecture(ops=("GCNConv", "SAGEConv"), hidden=(4,))
Log = list[dict[str, float]]


def layers_of(net: Model) -> list[Layer]:
    assert isinstance(net, Net)
    return [layer for layer in net.layers if isinstance(layer, Layer)]


@pytest.fixture
def graph(make_graph: Callable[..., Graph]) -> Graph:
    return make_graph(2, nodes=36, edges=60)


def quick(
    graph: Graph, *, seed: int = 0, metric: Metric = "accuracy", log: Log | None = None
) -> Solution:
    on_epoch = None if log is None else log.append
    return solve(
        graph,
        lambda: net_for(graph, ARCHITECTURE, 0.5),
        epochs=25,
        lr=0.05,
        weight_decay=1e-3,
        seed=seed,
        metric=metric,
        on_epoch=on_epoch,
    )


def found(graph: Graph, **settings: float | str | bool) -> Plan:
    """A hand-made finding: every other edge and weight, M_G rising from 0 to 1, recognisable
    weights."""
    with seeded(0, graph.device):
        net = net_for(graph, ARCHITECTURE)
    first = {name: torch.full_like(p, 0.1) for name, p in net.named_parameters()}
    return Plan(
        **inputs_of(Settings.of(retrain_epochs=3, hidden=4).changed(**settings)),
        architecture=ARCHITECTURE,
        weight_keep=[
            torch.arange(w.weight.numel()).view_as(w.weight) % 2 == 0 for w in layers_of(net)
        ],
        edge_keep=torch.arange(graph.num_edges) % 2 == 0,
        edge_mask=torch.linspace(0, 1, graph.num_edges),
        first_weights=first,
        last_weights={name: 2 * p for name, p in first.items()},
        history=[],
        seconds=0.0,
    )


def parameters(solution: Solution) -> Tensor:
    return torch.cat([p.detach().flatten() for p in solution.model.parameters()])


def test_the_best_validation_epoch_is_restored(graph: Graph) -> None:
    epochs = []
    for seed in range(4):
        log: Log = []
        solution = quick(graph, seed=seed, log=log)
        best = max(
            log, key=lambda row: (row["val_score"], -row["val_loss"])
        )  # ties: the lower loss
        assert solution.best_epoch == best["epoch"]
        assert solution.accuracy["val"] == best["val_score"]
        logits = predict(solution.model, graph)[graph.val_mask]
        assert float(F.cross_entropy(logits, graph.y[graph.val_mask])) == pytest.approx(
            best["val_loss"]
        )
        assert not solution.model.training
        epochs.append(solution.best_epoch)
    assert min(epochs) < 25  # or restoring was not put to the test


def test_training_lowers_the_loss(graph: Graph) -> None:
    log: Log = []
    quick(graph, log=log)
    assert sum(row["train_loss"] for row in log[-5:]) < sum(row["train_loss"] for row in log[:5])


def test_equal_seeds_equal_bits(graph: Graph) -> None:
    one, same, other = quick(graph), quick(graph), quick(graph, seed=1)
    assert torch.equal(parameters(one), parameters(same)) and one.scores == same.scores
    assert not torch.equal(parameters(one), parameters(other))


def test_the_callers_random_state_is_untouched(graph: Graph) -> None:
    before = torch.get_rng_state()
    quick(graph)
    assert torch.equal(torch.get_rng_state(), before)


def test_test_labels_change_nothing_but_test_scores(graph: Graph) -> None:
    garbage = replace(graph, y=torch.where(graph.test_mask, (graph.y + 1) % 3, graph.y))
    one, other = quick(graph), quick(garbage)
    assert torch.equal(parameters(one), parameters(other)) and one.best_epoch == other.best_epoch
    for metric in METRICS:
        assert all(one.scores[metric][s] == other.scores[metric][s] for s in ("train", "val"))
    assert one.accuracy["test"] != other.accuracy["test"]


def test_scores_hold_what_applies(graph: Graph) -> None:
    solution = quick(graph)
    assert set(solution.scores) == set(METRICS)
    assert all(set(by_split) == {"train", "val", "test"} for by_split in solution.scores.values())
    assert all(0 <= v <= 1 for by_split in solution.scores.values() for v in by_split.values())
    hit = predict(solution.model, graph).argmax(1) == graph.y
    assert solution.accuracy["test"] == pytest.approx(float(hit[graph.test_mask].float().mean()))


def test_no_roc_auc_where_a_class_is_absent(graph: Graph) -> None:
    fewer = replace(graph, test_mask=graph.test_mask & (graph.y != 2))
    scores = quick(fewer).scores
    assert set(scores["roc-auc"]) == {"train", "val"}
    assert set(scores["macro-f1"]) == set(scores["accuracy"]) == {"train", "val", "test"}


def test_no_test_nodes_no_test_scores(graph: Graph) -> None:
    blind = replace(graph, test_mask=torch.zeros_like(graph.test_mask))
    assert all(set(by_split) == {"train", "val"} for by_split in quick(blind).scores.values())


@pytest.mark.parametrize("metric", METRICS)
def test_the_metric_asked_for_is_the_judge(graph: Graph, metric: Metric) -> None:
    log: Log = []
    solution = quick(graph, metric=metric, log=log)
    assert solution.scores[metric]["val"] == pytest.approx(max(row["val_score"] for row in log))
    best = max(log, key=lambda row: (row["val_score"], -row["val_loss"]))
    assert solution.best_epoch == best["epoch"]


def test_where_the_metric_is_undefined_the_loss_judges(graph: Graph) -> None:
    partial = replace(graph, val_mask=graph.val_mask & (graph.y != 0))
    log: Log = []
    solution = quick(partial, metric="roc-auc", log=log)
    assert solution.best_epoch == min(log, key=lambda row: row["val_loss"])["epoch"]


def test_pruned_weights_stay_zero_and_are_counted(graph: Graph) -> None:
    finding = found(graph)
    solution = retrain(graph, finding)
    for layer, keep in zip(layers_of(solution.model), finding.weight_keep, strict=True):
        assert (layer.weight[~keep] == 0).all() and (layer.weight[keep] != 0).all()
    # GCN 6·4 + 4, SAGE 2·4·3 + 3: 55, of which 12 + 12 are pruned
    assert (solution.weights_kept, solution.weights_total) == (31, 55)
    assert (solution.edges_kept, solution.edges_total) == (
        -(-graph.num_edges // 2),
        graph.num_edges,
    )


@pytest.mark.parametrize(("start", "value"), [("rewind", 0.1), ("inherit", 0.2)])
def test_retraining_starts_from_the_search(graph: Graph, start: str, value: float) -> None:
    finding = found(graph, retrain_start=start, retrain_lr=0.0, retrain_weight_decay=0.0)
    net = retrain(graph, finding).model
    for layer, keep in zip(layers_of(net), finding.weight_keep, strict=True):
        torch.testing.assert_close(layer.weight.detach(), value * keep)
        assert (layer.bias == torch.tensor(value)).all()


def test_retraining_starts_fresh(graph: Graph) -> None:
    finding = found(graph, retrain_start="fresh", retrain_lr=0.0, retrain_weight_decay=0.0)
    with seeded(5, graph.device):
        drawn = net_for(graph, ARCHITECTURE)
    net = retrain(graph, finding, seed=5).model
    for layer, start, keep in zip(
        layers_of(net), layers_of(drawn), finding.weight_keep, strict=True
    ):
        assert torch.equal(layer.weight, start.weight * keep)


@pytest.mark.parametrize(
    ("kept_edges", "sparsify", "soft"),
    [("soft", True, True), ("binary", True, False), ("soft", False, False)],
)
@pytest.mark.parametrize("weighted", [True, False])
def test_kept_edges_weigh_the_mask_or_as_given(
    make_graph: Callable[..., Graph], kept_edges: str, sparsify: bool, soft: bool, weighted: bool
) -> None:
    """Gap 3."""
    graph = make_graph(2, weighted=weighted)
    finding = found(graph, kept_edges=kept_edges, sparsify=sparsify)
    fewer = finding.on(graph)
    weight = graph.weight * finding.edge_mask if soft else graph.weight
    torch.testing.assert_close(fewer.weight, weight[finding.edge_keep])
    assert torch.equal(fewer.edge_index, graph.edge_index[:, finding.edge_keep])


def test_retraining_without_any_edge_left(graph: Graph) -> None:
    finding = replace(found(graph), edge_keep=torch.zeros(graph.num_edges, dtype=torch.bool))
    solution = retrain(graph, finding)
    assert solution.edges_kept == 0
    assert predict(solution.model, solution.graph).isfinite().all()


def test_retraining_obeys_its_settings(graph: Graph) -> None:
    log: Log = []
    retrain(graph, found(graph, retrain_epochs=7), on_epoch=log.append)
    assert [row["epoch"] for row in log] == [1, 2, 3, 4, 5, 6, 7]
    wet, dry = (parameters(retrain(graph, found(graph, retrain_dropout=p))) for p in (0.8, 0.0))
    heavy, light = (
        parameters(retrain(graph, found(graph, retrain_weight_decay=d))) for d in (10.0, 0.0)
    )
    assert not torch.equal(wet, dry) and not torch.equal(heavy, light)


def test_training_with_batch_norm_uses_running_statistics(graph: Graph) -> None:
    with seeded(0, graph.device):
        net = net_for(
            graph,
            Architecture(ops=("GCNConv", "Linear"), hidden=(4,), batch_norm=True),
            dropout=0.3,
        )
        train(net, graph, epochs=5, lr=0.05, weight_decay=0.0)
    running = net.norms[0].running_mean
    assert isinstance(running, Tensor) and (running != 0).any()
    assert torch.equal(net.run(graph.x, MaskedGraph.of(graph)), predict(net, graph))


def test_the_last_epoch_is_kept_where_that_is_asked_for(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(seed=4)
    options = {"epochs": 7, "lr": 0.1, "weight_decay": 0.0, "seed": 0}
    build = lambda: net_for(graph, Architecture(ops=("GCNConv", "GCNConv"), hidden=(4,)), 0.5)  # noqa: E731
    told: list[dict[str, float]] = []
    last = solve(graph, build, keep="last", **options)  # type: ignore[arg-type]
    shown = solve(graph, build, keep="last", on_epoch=told.append, **options)  # type: ignore[arg-type]
    assert last.best_epoch == shown.best_epoch == len(told) == 7
    pairs = zip(last.model.parameters(), shown.model.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)  # looking on changes nothing
    assert told[-1]["val_score"] == last.accuracy["val"]


def test_of_seven_epochs_the_late_ones_are_the_last_four(make_graph: Callable[..., Graph]) -> None:
    assert [may_be_kept("late", epoch, 7) for epoch in range(1, 8)] == [False] * 3 + [True] * 4
    graph = make_graph(seed=4)
    options = {"epochs": 7, "lr": 0.1, "weight_decay": 0.0, "seed": 0}
    build = lambda: net_for(graph, Architecture(ops=("GCNConv", "GCNConv"), hidden=(4,)), 0.5)  # noqa: E731
    told: list[dict[str, float]] = []
    late = solve(graph, build, keep="late", on_epoch=told.append, **options)  # type: ignore[arg-type]
    best = max(told[3:], key=lambda row: (row["val_score"], -row["val_loss"]))
    assert late.best_epoch == best["epoch"]


def test_what_was_found_both_ways_is_retrained_both_ways(make_graph: Callable[..., Graph]) -> None:
    one_way = make_graph(2, nodes=36, edges=60, undirected=False)
    own = found(one_way.both_ways, direction="both", kept_edges="binary")
    solution = retrain(one_way, own, seed=0)
    assert solution.edges_total == one_way.both_ways.num_edges > one_way.num_edges
    assert solution.scores == retrain(one_way.both_ways, own, seed=0).scores
    assert torch.equal(solution.graph.edge_index, one_way.both_ways.edge_index[:, own.edge_keep])
    many = retrain_many(one_way, own, seeds=[0])[0]
    assert (many.edges_total, many.edges_kept) == (solution.edges_total, solution.edges_kept)
    fewer = cut_edges(one_way, own, 10)
    assert 0 < int(fewer.edge_keep.sum()) <= 10
