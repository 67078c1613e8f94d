from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gassip.best.pipeline import search
from gassip.budget import candidates as rivals
from gassip.budget.candidates import cheaper, choose, retrain_best, search_within
from gassip.budget.fit import Budget
from gassip.budget.limits import limits
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.nn.net import Net
from gassip.nn.size import size_of
from gassip.operations import OPERATIONS
from gassip.runs.checkpoint import FolderCheckpoint
from gassip.settings import Settings, preset
from gassip.train.plan import Plan

QUICK = Settings.of(hidden=8, epochs=3, warmup_epochs=1, retrain_epochs=6)
MakeGraph = Callable[..., Graph]


def same(one: Plan, other: Plan) -> bool:
    equal = [torch.equal(a, b) for a, b in zip(one.weight_keep, other.weight_keep, strict=True)]
    equal += [
        torch.equal(value, other.last_weights[name]) for name, value in one.last_weights.items()
    ]
    return (
        one.architecture == other.architecture
        and all(equal)
        and torch.equal(one.edge_keep, other.edge_keep)
    )


def test_a_bound_on_sizes_alone_brings_no_rivals(make_graph: MakeGraph) -> None:
    graph = make_graph()
    (found,) = search_within(graph, QUICK, Budget(max_params="25%"), seed=3)
    assert same(found, search(graph, QUICK, seed=3))
    assert choose(graph, [found], Budget(max_params="25%")) is found


@pytest.mark.parametrize("budget", [Budget(max_macs="50%"), Budget(max_latency_ms=50)])
def test_rivals_are_the_next_most_probable_each_with_its_own_weights(
    make_graph: MakeGraph, budget: Budget
) -> None:
    graph = make_graph()
    before = torch.random.get_rng_state()
    founds = search_within(graph, QUICK, budget, seed=3)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert len(founds) == len({found.architecture.ops for found in founds}) == rivals.RIVALS
    assert same(founds[0], search(graph, QUICK, seed=3))
    assert all(torch.equal(found.edge_mask, founds[0].edge_mask) for found in founds)
    for found in founds[1:]:
        for l, op in enumerate(found.architecture.ops):
            alike = [own for own in founds if own.architecture.ops[l] == op]
            name = f"layers.{l}.weight"
            assert all(
                torch.equal(own.last_weights[name], found.last_weights[name]) for own in alike
            )


def test_a_search_that_was_complete_on_disk_gives_the_same_rivals(
    make_graph: MakeGraph, tmp_path: Path
) -> None:
    graph, budget = make_graph(), Budget(max_macs="50%")
    kept = FolderCheckpoint(
        tmp_path / "partial", graph=graph, settings=QUICK, seed=0, metric="accuracy"
    )
    first, again = (search_within(graph, QUICK, budget, checkpoint=kept) for _ in range(2))
    assert all(same(one, other) for one, other in zip(first, again, strict=True))


def test_a_net_with_a_teacher_meets_itself_with_cheaper_operations(make_graph: MakeGraph) -> None:
    graph = make_graph(features=40)
    found = search(graph, QUICK.changed(ops=("GATConv",), heads=2, hidden=8))
    found = replace(
        found, teacher=torch.full((graph.num_nodes, graph.num_classes), 1 / graph.num_classes)
    )
    lighter = cheaper(found)
    ops = [("GATConv", "GCNConv"), ("GCNConv", "GATConv"), ("GCNConv", "GCNConv")]
    assert [own.architecture.ops for own in lighter] == ops
    assert [own.architecture.heads for own in lighter] == [(2,), (1,), (1,)]
    budget = Budget(max_macs="30%")
    for own in lighter:
        assert own.teacher is found.teacher and torch.equal(own.edge_keep, found.edge_keep)
        _, solution = retrain_best(graph, [own], budget)
        assert solution.size is not None and solution.size.macs <= limits(budget, graph).macs
    assert cheaper(lighter[-1]) == []


def test_a_plain_net_meets_itself_too(make_graph: MakeGraph) -> None:
    graph = make_graph()
    settings = preset("fast", graph, {"plain": ("Linear+APPNP10",), "plain_epochs": 3})
    plans = search_within(graph, settings, Budget(max_macs="50%"))
    ops = [plan.architecture.ops[1] for plan in plans]
    assert ops == ["APPNP10", "APPNP5", "GCNConv"]


def test_a_cheaper_operation_keeps_the_matrices_of_the_nearer_hops(make_graph: MakeGraph) -> None:
    graph = make_graph(features=40)
    found = search(graph, QUICK.changed(ops=("SAGEConv",), hidden=8))
    far = [torch.full_like(keep[:, : keep.shape[1] // 2], False) for keep in found.weight_keep]
    tag = replace(
        found,
        architecture=replace(found.architecture, ops=("TAG2", "TAG2")),
        weight_keep=[torch.cat(pair, 1) for pair in zip(far, found.weight_keep, strict=True)],
        first_weights={},
        last_weights={},
    )
    again = cheaper(tag)[-1]
    assert again.architecture.ops == ("SAGEConv", "SAGEConv")
    pairs = zip(again.weight_keep, found.weight_keep, strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    budget = Budget(max_macs="90%")
    for plan in cheaper(tag):
        _, solution = retrain_best(graph, [plan], budget)
        assert solution.size is not None and solution.size.macs <= limits(budget, graph).macs


def test_a_cheaper_operation_has_no_more_matrices() -> None:
    for operation in OPERATIONS.values():
        assert all(OPERATIONS[op].matrices <= operation.matrices for op in operation.cheaper)


def trials(monkeypatch: pytest.MonkeyPatch, values: dict[tuple[str, ...], float]) -> list[Graph]:
    """Trainings that score as `values` say by architecture; the graphs they see are returned."""
    seen: list[Graph] = []

    def retrain(graph: Graph, found: Plan, **_: Any) -> SimpleNamespace:
        seen.append(graph)
        assert found.recipe.epochs == 2
        return SimpleNamespace(scores={"accuracy": {"val": values[found.architecture.ops]}})

    monkeypatch.setattr(rivals, "retrain", retrain)
    return seen


def test_validation_chooses_and_test_labels_are_not_there(
    make_graph: MakeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, budget = make_graph(), Budget(max_macs="50%")
    founds = search_within(graph, QUICK, budget)
    for best in range(len(founds)):
        scores = {
            found.architecture.ops: 0.5 + 0.1 * (at == best) for at, found in enumerate(founds)
        }
        seen = trials(monkeypatch, scores)
        assert choose(graph, founds, budget) is founds[best]
        assert len(seen) == len(founds) and not any(own.test_mask.any() for own in seen)
    trials(monkeypatch, dict.fromkeys(scores, 0.5))
    assert choose(graph, founds, budget) is founds[0]


def test_the_chosen_one_keeps_the_budget_or_the_least_is_named(make_graph: MakeGraph) -> None:
    graph = make_graph(features=40)
    budget = Budget(max_macs="20%", max_params="20%")
    _, solution = retrain_best(graph, search_within(graph, QUICK, budget), budget)
    assert isinstance(solution.model, Net)
    size, bound = size_of(solution.model, solution.graph), limits(budget, graph)
    assert size.macs <= bound.macs and size.params <= bound.params
    with pytest.raises(GassipError, match="the least is"):
        retrain_best(graph, search_within(graph, QUICK, Budget(max_macs=5)), Budget(max_macs=5))
