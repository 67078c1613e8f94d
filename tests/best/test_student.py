from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gassip.best.student import best_features, cuts, graduate, num_params, ranking, widest
from gassip.best.teacher import Contest, teach
from gassip.graph.graph import Graph
from gassip.graph.undirected import keep_highest, num_neighbours
from gassip.nn.net import Architecture
from gassip.paper.loop import Row, search
from gassip.runs.write import open_run, save
from gassip.settings import Gassip, preset
from gassip.train.trainer import retrain
from tests.conftest import random_graph

FEW = {
    "epochs": 3,
    "warmup_epochs": 1,
    "retrain_epochs": 4,
    "trial_epochs": 2,
    "finalists": 3,
    "teachers": 2,
}


def small(**options: object) -> Graph:
    return random_graph(1, nodes=48, edges=110, features=24, isolated=4, **options)  # type: ignore[arg-type]


@given(st.integers(0, 200), st.floats(0.3, 1.0), st.booleans())
def test_a_cut_keeps_its_share_and_every_last_edge(
    seed: int, share: float, undirected: bool
) -> None:
    graph = random_graph(seed, undirected=undirected)
    value = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(seed))
    keep = keep_highest(graph, value, share)
    before, after = num_neighbours(graph), num_neighbours(graph.keep(keep))
    assert torch.equal(before > 0, after > 0)
    pairs = int(graph.pair.max()) + 1
    kept = graph.pair[keep].unique().numel()
    assert kept >= round(share * pairs)  # more only where the rest are last edges
    assert torch.equal(
        keep,
        keep[torch.argsort(graph.pair, stable=True)][
            torch.argsort(torch.argsort(graph.pair, stable=True))
        ],
    )


def test_the_lowest_edges_go_first(path: Graph) -> None:
    # 0 - 1 - 2: both edges are a last one of 0 or of 2
    assert keep_highest(path, torch.tensor([0.1, 0.1, 0.9, 0.9]), 0.5).all()
    masks = (np.array([1, 1, 0]), np.array([0, 0, 1]), np.zeros(3))
    index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    triangle = Graph.build(
        torch.eye(3), index, torch.tensor([0, 1, 0]), masks=masks, undirected=True
    )
    value = torch.tensor([float(pair == 1) for pair in triangle.pair.tolist()])
    keep = keep_highest(triangle, 1 - value, 2 / 3)
    assert torch.equal(keep, triangle.pair != 1)


def test_rankings_by_hand(path: Graph) -> None:
    # edges by receiver: 1→0, 0→1, 2→1, 1→2; neighbours 1, 2, 1
    teacher = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [1.0, 0.0]])
    given_mask = torch.tensor([0.1, 0.2, 0.3, 0.4])
    rank = {
        rule: ranking(rule, path, teacher, given_mask, 0)
        for rule in ("agreement", "hubs", "curriculum")
    }
    torch.testing.assert_close(rank["agreement"], torch.tensor([0.5, 0.5, 0.5, 0.5]))
    torch.testing.assert_close(rank["hubs"], torch.tensor([1.5, 1.5, 1.5, 1.5]))
    assert torch.equal(rank["curriculum"], given_mask)
    torch.testing.assert_close(
        ranking("support", path, teacher, given_mask, 0), rank["agreement"] * rank["hubs"]
    )
    assert (
        float(ranking("similarity", path, teacher, given_mask, 0).abs().sum()) == 0
    )  # features are all apart
    assert not torch.equal(*(ranking("random", path, teacher, given_mask, seed) for seed in (0, 1)))


def test_each_rule_and_share_is_one_cut() -> None:
    graph = small()
    settings = Gassip(edge_rules=("hubs", "random"), edge_shares=(0.9, 0.5))
    found = cuts(
        graph, settings, torch.ones(graph.num_nodes, 3) / 3, torch.ones(graph.num_edges), 0
    )
    assert list(found) == ["hubs 0.9", "hubs 0.5", "random 0.9", "random 0.5"]


@pytest.mark.parametrize(
    "ops", [("GCNConv", "GCNConv"), ("SAGEConv", "ArmaConv"), ("Linear", "APPNP10")]
)
@pytest.mark.parametrize("batch_norm", [False, True])
def test_the_widest_net_fits_and_the_next_would_not(ops: tuple[str, ...], batch_norm: bool) -> None:
    graph = small(sparse=True)
    most = 0.35 * num_params(graph, Architecture(ops=("GCNConv", "GCNConv"), hidden=(64,)))
    found = widest(graph, ops, Gassip(batch_norm=batch_norm), 0.35, None)
    assert num_params(graph, found) <= most
    assert num_params(graph, replace(found, hidden=(found.hidden[0] + 1,))) > most
    half = widest(graph, ops, Gassip(batch_norm=batch_norm), 0.35, torch.arange(12))
    assert half.hidden > found.hidden


def test_the_features_that_are_read_most_stay() -> None:
    weight = torch.tensor([0.1, 3.0, 0.2, 2.0])
    index = best_features(weight, Gassip(feature_share=0.5), 0)
    assert index is not None and index.tolist() == [1, 3]
    assert best_features(weight, Gassip(), 0) is None


@pytest.mark.parametrize(("sparse", "norm"), [(False, False), (True, False), (True, True)])
def test_the_preset_best_from_end_to_end(tmp_path: Path, sparse: bool, norm: bool) -> None:
    graph = small(sparse=sparse)
    settings = preset(
        "best", graph, FEW | ({"recipe": "given", "batch_norm": True} if norm else {})
    )
    rows: list[Row] = []
    found = search(graph, settings, seed=3, on_epoch=rows.append)
    assert [row["epoch"] for row in rows] == list(range(1, len(rows) + 1))
    assert found.history == rows and {"stage", "val_score"} <= rows[-1].keys()
    solution = retrain(graph, found, seed=1)
    assert solution.size is not None and solution.edges_kept < graph.num_edges
    again = search(graph, settings, seed=3)
    assert torch.equal(found.edge_keep, again.edge_keep)
    assert found.teacher is not None and again.teacher is not None
    assert torch.equal(found.teacher, again.teacher)
    # what a run's folder holds retrains to the same bits
    save(tmp_path / "run", graph, found, solution, preset="best")
    run = open_run(tmp_path / "run")
    twin = retrain(graph, run.found, seed=1)
    assert all(
        torch.equal(*pair)
        for pair in zip(solution.model.parameters(), twin.model.parameters(), strict=True)
    )


def test_test_labels_change_nothing() -> None:
    graph = small()
    garbage = replace(
        graph, y=torch.where(graph.test_mask, (graph.y + 1) % graph.num_classes, graph.y)
    )
    one, two = (search(own, preset("best", own, FEW), seed=0) for own in (graph, garbage))
    assert one.architecture == two.architecture and torch.equal(one.edge_keep, two.edge_keep)
    assert torch.equal(one.teacher, two.teacher)  # type: ignore[arg-type]


@pytest.mark.parametrize("ahead", [False, True])
def test_a_pruned_net_is_tried_only_where_the_teacher_is_ahead(ahead: bool) -> None:
    graph = small()
    settings = preset("best", graph, FEW | {"prune_epochs": 20})
    rows: list[Row] = []
    contest = Contest(graph, seed=0, metric="accuracy", tell=rows.append)
    shapes = [
        Architecture(ops=("Linear", "APPNP5"), hidden=(6,)),
        Architecture(ops=("GCNConv", "GCNConv"), hidden=(6,)),
    ]
    lesson = teach(contest, shapes, settings)
    said = (graph.y + int(not ahead)) % graph.num_classes
    lesson = replace(
        lesson,
        share=torch.eye(graph.num_classes)[said],
        settings=replace(lesson.settings, distillation=0.0),
    )
    base = search(graph, preset("paper", graph, {"epochs": 2, "warmup_epochs": 1}), seed=0)
    graduate(contest, lesson, base)
    assert any(str(row["stage"]).startswith("size") for row in rows) == ahead


def test_controls_are_settings() -> None:
    graph = small(sparse=True)
    control = {
        "final_ops": "GCNConv+GCNConv",
        "feature_share": 1.0,
        "edge_shares": (1.0,),
        "size_steps": (),
    }
    found = search(graph, preset("best", graph, FEW | control), seed=0)
    assert found.architecture.ops == ("GCNConv", "GCNConv") and found.feature_index is None
    assert found.edge_keep.all()
    random = search(
        graph, preset("best", graph, FEW | {"ranking": "random", "feature_rule": "random"}), seed=0
    )
    assert random.feature_index is not None and random.feature_index.numel() == 12
