"""Nodes held out with their edges: what training sees, and what is judged."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from gassip.best.pipeline import search
from gassip.commands.measured import of_reference, rows, useless
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.metrics import constant_score
from gassip.settings import Settings
from gassip.train.inductive import held_out, induced, inductive_score
from gassip.train.plan import Plan
from gassip.train.trainer import retrain

QUICK = Settings.of(hidden=6, epochs=2, warmup_epochs=1, retrain_epochs=8)


@pytest.fixture(scope="module")
def graph(make_graph: Callable[..., Graph]) -> Graph:
    return make_graph(3, nodes=120, edges=400)


@pytest.fixture(scope="module")
def plan(graph: Graph) -> Plan:
    return search(graph, QUICK)


def test_the_induced_graph_by_hand(path: Graph) -> None:
    """Without node 1 of 0 - 1 - 2 no edge is left; without node 0 the others move up."""
    smaller = induced(path, torch.tensor([True, False, True, True]))
    assert smaller.num_nodes == 3 and smaller.num_edges == 0
    pair = induced(path, torch.tensor([False, True, True, True]))
    assert sorted(pair.edge_index.T.tolist()) == [[0, 1], [1, 0]]
    assert pair.y.tolist() == path.y[1:].tolist()


def test_features_of_held_out_nodes_do_not_reach_the_training(graph: Graph, plan: Plan) -> None:
    held = held_out(graph, 0)
    assert int(held.sum()) == int(graph.val_mask.sum()) // 2
    assert bool(graph.val_mask[held].all()) and not torch.equal(held, held_out(graph, 1))
    assert isinstance(graph.x, torch.Tensor)
    garbage = graph.x.clone()
    garbage[held] = 1e3
    solution, seen = retrain(graph, plan), []
    for x in (graph.x, garbage):
        made = inductive_score(replace(graph, x=x), plan, solution, seed=0, metric="accuracy")
        assert made is not None and made.nodes == int(held.sum()) and 0 <= made.score <= 1
        seen.append(made)
    assert seen[0].seen == seen[1].seen  # of the run's own net and graph
    from gassip.train.inductive import _without

    nets = [
        retrain(*_without(plan.on(replace(graph, x=x), all_edges=True), plan, held)).model
        for x in (graph.x, garbage)
    ]
    for one, other in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert torch.equal(one, other)


def test_sparse_features_and_soft_edges(graph: Graph, plan: Plan) -> None:
    assert isinstance(graph.x, torch.Tensor)
    from scipy import sparse as sp

    sparse = replace(graph, x=Csr.from_scipy(sp.csr_array(graph.x.numpy())))
    soft = replace(plan, soft_edges=True)
    solution = retrain(sparse, soft)
    made = inductive_score(sparse, soft, solution, seed=0, metric="macro-f1")
    assert made is not None and 0 <= made.score <= 1


def test_too_few_nodes_give_no_score(make_graph: Callable[..., Graph]) -> None:
    few = make_graph(nodes=18)
    assert int(held_out(few, 0).sum()) < 10
    found = search(few, QUICK)
    assert inductive_score(few, found, retrain(few, found), seed=0, metric="accuracy") is None


def test_a_net_no_better_than_the_largest_class_says_so(path: Graph) -> None:
    graph = replace(
        path,
        y=torch.tensor([0, 0, 1, -1]),
        train_mask=torch.tensor([True, False, False, False]),
        val_mask=torch.tensor([False, True, True, False]),
        class_names=("a", "b"),
    )
    assert constant_score(graph, "accuracy") == 0.5
    assert constant_score(graph, "macro-f1") == pytest.approx(1 / 3)  # (2/3 + 0) / 2
    meta = {
        "constant": 0.5,
        "metric": "accuracy",
        "scores": {"accuracy": {"val": 0.5}},
        "budget": {"max_params": 100, "max_latency_ms": "2ms"},
        "latency_ms": 1.234,
        "inductive": {"score": 0.75, "seen": 0.8, "nodes": 40, "seconds": 1.0},
    }
    told = dict(rows(meta))
    assert "of no use: accuracy 0.5000" in told["warning"] and "--max-params 100" in told["warning"]
    assert told["latency"] == "1.23 ms, measured here; 2ms allowed"
    assert told["new nodes"].startswith("val 0.7500 on 40 nodes that training did not see")
    assert useless(meta | {"scores": {"accuracy": {"val": 0.6}}}) is None


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (100, "26% of a GCN-64's"),  # 3 features, 2 classes: 3 * 64 + 64 + 64 * 2 + 2 = 386
        (2999, "few features: a GCN-64 has 386, a student up to 3,000; --max-params"),
        (38600, "100.0 times a GCN-64's"),
    ],
)
def test_the_reference_with_few_features(stored: int, said: str) -> None:
    meta = {"size": {"params": stored}, "features": 3, "class_names": ["a", "b"]}
    assert of_reference(meta) == said
