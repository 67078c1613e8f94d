from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
import torch

from gassip.best.decisions import Decided
from gassip.best.ensemble import Teacher
from gassip.best.pipeline import search
from gassip.best.pruning import prune_if_behind, train_pruned
from gassip.best.significance import Validation
from gassip.best.student import (
    ALL_EDGES,
    Chosen,
    Classroom,
    best_features,
    choose_edges,
    choose_student,
    classroom,
    continued,
    settle_cut,
    student_architectures,
    widest,
)
from gassip.best.trials import Request, Trial, Trials
from gassip.deploy.runtime import load
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture
from gassip.runs.write import open_run, save
from gassip.settings import preset
from gassip.settings.best import EdgeCut, Student
from gassip.settings.training import Recipe
from gassip.train.plan import Row
from gassip.train.shrink import shrink
from gassip.train.trainer import predict, retrain
from tests.conftest import random_graph
from tests.small import num_params

FEW = {
    "epochs": 3,
    "warmup_epochs": 1,
    "retrain_epochs": 4,
    "trial_epochs": 2,
    "candidates": 3,
    "teachers": 2,
}


def small(**options: object) -> Graph:
    return random_graph(1, nodes=48, edges=110, features=24, isolated=4, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ops", [("GCNConv", "GCNConv"), ("SAGEConv", "ArmaConv"), ("Linear", "APPNP10")]
)
@pytest.mark.parametrize("batch_norm", [False, True])
def test_the_widest_net_fits_and_the_next_would_not(ops: tuple[str, ...], batch_norm: bool) -> None:
    graph = small(sparse=True)
    most = 0.35 * num_params(graph, Architecture(ops=("GCNConv", "GCNConv"), hidden=(64,)))
    recipe = Recipe(batch_norm=batch_norm)
    found = widest(graph, ops, recipe, 1, 0.35, None)
    assert num_params(graph, found) <= most
    assert num_params(graph, replace(found, hidden=(found.hidden[0] + 1,))) > most
    half = widest(graph, ops, recipe, 1, 0.35, torch.arange(12))
    assert half.hidden > found.hidden


def test_the_features_that_are_read_most_stay() -> None:
    weight = torch.tensor([0.1, 3.0, 0.2, 2.0])
    index = best_features(weight, Student(feature_share=0.5), 0)
    assert index is not None and index.tolist() == [1, 3]
    assert best_features(weight, Student(), 0) is None


@pytest.mark.parametrize(("sparse", "norm"), [(False, False), (True, False), (True, True)])
def test_the_preset_best_from_end_to_end(tmp_path: Path, sparse: bool, norm: bool) -> None:
    graph = small(sparse=sparse)
    settings = preset(
        "best", graph, FEW | ({"recipes": ("given",), "batch_norm": True} if norm else {})
    )
    rows: list[Row] = []
    found = search(graph, settings, seed=3, on_epoch=rows.append)
    assert [row["epoch"] for row in rows] == list(range(1, len(rows) + 1))
    assert found.history == rows and {"stage", "val_score"} <= rows[-1].keys()
    solution = retrain(graph, found, seed=1)
    assert solution.size is not None and solution.edges_kept <= graph.num_edges
    again = search(graph, settings, seed=3)
    assert torch.equal(found.edge_keep, again.edge_keep)
    assert found.teacher is not None and again.teacher is not None
    assert torch.equal(found.teacher, again.teacher)
    # what a run's folder holds retrains to the same bits
    save(tmp_path / "run", graph, found, solution, preset="best")
    run = open_run(tmp_path / "run")
    twin = retrain(graph, run.plan, seed=1)
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
    trials = Trials(graph, seed=0, metric="accuracy", tell=rows.append)
    said = (graph.y + int(not ahead)) % graph.num_classes
    teacher = Teacher(
        probs=torch.eye(graph.num_classes)[said], trials=[], feature_weight=torch.ones(24)
    )
    recipe = Recipe(epochs=4)  # without distillation: the student learns nothing of the teacher
    room = classroom(trials, graph, teacher, recipe, torch.ones(graph.num_edges), settings)
    students: list[tuple[str, ...]] = [("Linear", "APPNP5"), ("GCNConv", "GCNConv")]
    assert settings.best is not None
    edges = settings.best.edges
    student = choose_student(room, students, 0.35, edges).value
    student = choose_edges(room, student, 0.35, edges).value
    found = prune_if_behind(room, student, students, settings)
    assert any(str(row["stage"]).startswith("pruned") for row in rows) == ahead
    assert len(found.decision.tried) > 1 if ahead else found.value.trial is student.trial


def test_the_final_operations_may_be_given() -> None:
    own = Student(final_ops="GCNConv+Linear")
    ranked: list[tuple[str, ...]] = [("Linear", "APPNP5")]
    assert student_architectures(own, ranked) == [("GCNConv", "Linear")]
    assert student_architectures(Student(), ranked) == [("Linear", "APPNP5")]


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
    control = {"ranking": "random", "feature_rule": "random", "size_share": 0.35, "level": False}
    random = search(graph, preset("best", graph, FEW | control), seed=0)
    assert random.feature_index is not None and random.feature_index.numel() == 12


def classroom_of(graph: Graph, **settings: object) -> tuple[Classroom, EdgeCut]:
    """A room whose teacher knows the labels, and which cuts compete in it."""
    own = preset("best", graph, FEW | settings)
    assert own.best is not None
    trials = Trials(graph, seed=0, metric="accuracy", tell=lambda row: None)
    probs = torch.eye(graph.num_classes)[graph.y.clamp_min(0)]
    teacher = Teacher(probs=probs, trials=[], feature_weight=torch.ones(graph.num_features))
    mask = torch.ones(graph.num_edges)
    return classroom(trials, graph, teacher, Recipe(epochs=2), mask, own), own.best.edges


def trial_that(room: Classroom, right: int, nodes: int) -> Trial:
    """A trial that gets the first `right` of so many validation nodes right."""
    marks = (torch.arange(nodes) < right).tolist()
    shape = Architecture(ops=("GCNConv", "GCNConv"), hidden=(2,))
    net = room.trials.train("", shape, Recipe(epochs=1), room.graph)
    sure = torch.tensor([0.9, 0.1])
    probs = torch.where(torch.tensor(marks)[:, None], sure, sure.flip(0))
    said = Validation("accuracy", probs, torch.zeros(nodes, dtype=torch.long))
    return replace(net, validation=said, value=right / nodes)


def disagreeing(room: Classroom, count: int) -> torch.Tensor:
    """The teacher's class of each node, but for so many without a label another one."""
    probs = room.teacher.probs.clone()
    nodes = torch.nonzero(~room.graph.train_mask).squeeze(1)[:count]
    probs[nodes] = probs[nodes].roll(1, 1)
    return probs


def cut_by(
    monkeypatch: pytest.MonkeyPatch,
    nodes: int,
    right: dict[str, int],
    *,
    behind: bool = False,
    otherwise: Mapping[str, int] = MappingProxyType({}),
) -> tuple[Decided[Chosen], list[str]]:
    """What is taken, and the cuts that were tried, where each has so many nodes right, and says
    something else than the teacher of so many nodes without a label."""
    room, edges = classroom_of(small(), edge_rankings=("support", "curriculum"))
    monkeypatch.setattr("gassip.best.student.likelihood_gain", lambda after, before: 0.0)
    trials = {name: trial_that(room, count, nodes) for name, count in right.items()}
    for name, trial in trials.items():
        trials[name] = replace(trial, probs=disagreeing(room, otherwise.get(name, 0)))
    asked: list[str] = []

    def train(stage: str, requests: Sequence[Request], expected: object) -> list[Trial]:
        asked.extend(request.what for request in requests)
        return [trials[request.what] for request in requests]

    monkeypatch.setattr(room.trials, "train_all", train)
    room.cut("", 1.0)
    start = Chosen(trials[ALL_EDGES], ALL_EDGES)
    return choose_edges(room, start, 0.35, edges, behind=behind), asked


def test_shares_are_tried_until_one_is_worse_and_the_sparsest_level_one_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All edges 120 of 160, .89 and .75 as many, .6 three fewer (-1.7 standard errors)."""
    right = {"support 0.89": 120, "curriculum 0.89": 110, "support 0.75": 120, "support 0.6": 117}
    start = {ALL_EDGES: 120}
    found, asked = cut_by(monkeypatch, 160, start | right | {"random 0.75": 50})
    assert found.value.cut == "support 0.75"
    assert asked == [ALL_EDGES, *right, "random 0.75"]
    assert found.decision.taken == "support 0.75" and len(found.decision.tried) == 6


def test_of_a_student_far_behind_only_the_first_cut_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = {ALL_EDGES: 120, "support 0.89": 120, "curriculum 0.89": 110, "random 0.89": 50}
    found, asked = cut_by(monkeypatch, 160, right, behind=True)
    assert found.value.cut == "support 0.89" and asked == list(right)


def test_a_cut_of_which_the_teacher_expects_less_is_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many validation nodes right on every cut; on .75 one node more is at odds with the
    teacher, who is sure: a loss of far more than a thousandth."""
    right = {ALL_EDGES: 120, "support 0.89": 120, "curriculum 0.89": 110, "support 0.75": 120}
    apart = {ALL_EDGES: 2, "support 0.89": 2, "support 0.75": 3}
    given = right | {"random 0.89": 50}
    found, asked = cut_by(monkeypatch, 160, given, otherwise=apart)
    assert found.value.cut == "support 0.89" and asked == [*right, "random 0.89"]


def pruned_of(
    monkeypatch: pytest.MonkeyPatch, quick_right: int, slow_right: tuple[int, ...]
) -> list[str]:
    """What is trained where one net of mini-batches, and nets after a brief training, get so many
    of 16 nodes right, and the teacher all of them."""
    room, _ = classroom_of(small())
    recipe = Recipe(epochs=8)
    requests = [
        room.request(("GCNConv", "GCNConv"), room.cut("", 1.0), 0.35, recipe, what=f"slow {right}")
        for right in slow_right
    ]
    quick = room.request(("TAG2", "Linear"), room.cut("", 1.0), 0.35, recipe, what="quick")
    quick = replace(quick, recipe=replace(recipe, batch_rows=8))
    right = dict(zip((own.what for own in requests), slow_right, strict=True))
    right["quick"] = quick_right
    given = {name: trial_that(room, count, 16) for name, count in right.items()}
    taught = trial_that(room, 16, 16).validation
    asked: list[str] = []

    def train(stage: str, requests: Sequence[Request]) -> list[Trial]:
        asked.extend(f"{own.what}, {own.recipe.epochs}" for own in requests)
        return [given[own.what] for own in requests]

    monkeypatch.setattr(room.trials, "train_all", train)
    train_pruned(room.trials, "pruned", [*requests, quick], taught, 0.01)
    return asked


def test_pruned_nets_by_mini_batches_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pruned_of(monkeypatch, 16, (12,)) == ["quick, 8"]


def test_the_others_are_pruned_briefly_and_the_best_of_them_in_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = pruned_of(monkeypatch, 4, (8, 3))
    assert asked == ["quick, 8", "slow 8, 2", "slow 3, 2", "slow 8, 8"]
    assert pruned_of(monkeypatch, 10, (2,)) == ["quick, 8", "slow 2, 2"]  # eight behind: no chance


def test_no_edge_goes_where_too_few_nodes_could_see_a_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sixteen nodes, all right on both graphs: a loss of one in sixteen is not ruled out."""
    right = {ALL_EDGES: 16, "support 0.89": 16, "curriculum 0.89": 16}
    found, asked = cut_by(monkeypatch, 16, right)
    assert found.value.cut == ALL_EDGES and asked == list(right)


def test_a_cut_goes_on_from_the_student_for_a_tenth_of_the_epochs() -> None:
    room, _ = classroom_of(small())
    room = replace(room, recipe=Recipe(epochs=40, lr=0.02))
    ops, cut = ("GCNConv", "GCNConv"), room.cut("support", 0.75)
    whole = room.request(ops, room.cut("", 1.0), 0.35, room.recipe)
    student = Chosen(room.trials.train_all("student", [whole])[0], ALL_EDGES)
    start = student.trial.net.state_dict()
    request = continued(room, student, start, cut, 0.35)
    assert request.graph is room.graphs[cut] and request.start is start
    assert request.recipe.epochs == 4 and request.recipe.lr == pytest.approx(0.006)


@pytest.mark.parametrize(
    ("right", "taken"),
    [
        ({"support 0.4": 900}, "support 0.4"),
        ({"support 0.4": 850, "support 0.6": 899}, "support 0.6"),
        (
            {"support 0.4": 850, "support 0.6": 850, "support 0.75": 850, "support 0.89": 850},
            ALL_EDGES,
        ),
    ],
)
def test_a_cut_that_is_worse_in_full_gives_way_to_a_denser_one(
    monkeypatch: pytest.MonkeyPatch, right: dict[str, int], taken: str
) -> None:
    room, edges = classroom_of(small())
    monkeypatch.setattr("gassip.best.student.likelihood_gain", lambda after, before: 0.0)
    whole = Chosen(
        replace(trial_that(room, 900, 1000), probs=disagreeing(room, 0)), room.cut("", 1.0)
    )
    asked: list[str] = []

    def in_full(room: Classroom, chosen: Chosen, share: float) -> Chosen:
        asked.append(chosen.cut)
        trial = trial_that(room, right[chosen.cut], 1000)
        return Chosen(replace(trial, probs=disagreeing(room, 0)), chosen.cut)

    monkeypatch.setattr("gassip.best.student.in_full", in_full)
    found = settle_cut(room, whole, Chosen(whole.trial, room.cut("support", 0.4)), 0.35, edges)
    assert found.value.cut == found.decision.taken == taken and asked == list(right)


def test_a_single_share_is_as_asked() -> None:
    room, edges = classroom_of(small(), edge_rankings=("support",), edge_shares=(0.5,))
    student = choose_student(room, [("GCNConv", "GCNConv")], 0.35, edges).value
    assert student.cut == "support 0.5"
    assert choose_edges(room, student, 0.35, edges).value.trial is student.trial


def test_a_student_reads_all_features_if_it_is_as_wide_as_a_candidate() -> None:
    graph = small(sparse=True)
    narrow, _ = classroom_of(graph, size_share=0.35)
    assert narrow.features is not None and narrow.features.numel() == 12
    wide, _ = classroom_of(graph, size_share=1.5)
    assert wide.features is None


def test_a_deep_student_with_standardised_features_is_kept_and_read(tmp_path: Path) -> None:
    graph = small()
    deep = {"default_candidates": ("SkipGCN+SAGEConv+Linear",), "candidates": 1, "size_steps": ()}
    found = search(graph, preset("best", graph, FEW | deep | {"recipes": ("mild",)}), seed=3)
    assert found.architecture.ops == ("SkipGCN", "SAGEConv", "Linear")
    shape = replace(found.architecture, standardised=True)
    found = replace(found, architecture=shape, recipe=replace(found.recipe, standardised=True))
    solution = shrink(retrain(graph, found, seed=1))
    save(tmp_path / "run", graph, found, solution, preset="best")
    run = open_run(tmp_path / "run")
    expected = predict(solution.model, solution.graph)
    torch.testing.assert_close(predict(run.model, solution.graph), expected)
    scores = torch.from_numpy(load(tmp_path / "run").scores())
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-4)
    again = shrink(retrain(graph, run.plan, seed=1))
    torch.testing.assert_close(predict(again.model, again.graph), expected)
