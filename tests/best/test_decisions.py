from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gassip.best.decisions import Decided, Decisions, among, numbered
from gassip.best.pipeline import search
from gassip.best.steps import num_rows
from gassip.graph.graph import Graph
from gassip.runs.write import open_run, save
from gassip.settings import preset
from gassip.train.plan import Decision, Plan
from gassip.train.trainer import retrain
from tests.best.stages import garbled, judged
from tests.conftest import random_graph

FEW = {"epochs": 2, "warmup_epochs": 1, "retrain_epochs": 3, "trial_epochs": 2, "prune_epochs": 20}
STAGES = [
    "direction",
    "columns of degree",
    "edge cleaning",
    "recipe",
    "beside the recipe",
    "teacher",
    "student",
    "edge cut",
    "edge cut in full",
    "pruning",
    "level with the best candidate",
    "label propagation",
]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return random_graph(1, nodes=48, edges=110, features=24, undirected=False)


@pytest.fixture(scope="module")
def plan(graph: Graph) -> Plan:
    return search(graph, preset("best", graph, FEW | {"candidates": 3}), seed=1)


def test_every_stage_is_told_in_its_order(plan: Plan) -> None:
    assert list(dict.fromkeys(decision.stage for decision in plan.decisions)) == STAGES
    without = [decision for decision in plan.decisions if not decision.tried]
    assert without == []


def test_the_taken_one_is_among_the_tried(plan: Plan) -> None:
    for decision in plan.decisions:
        names = [str(row["name"]) for row in decision.tried]
        assert len(set(names)) == len(names) and decision.taken in names, decision


def test_what_is_taken_but_the_first_is_beyond_the_threshold(plan: Plan) -> None:
    for decision in plan.decisions:
        first, *others = decision.tried
        assert first["statistic"] == 0.0 and decision.statistic and decision.threshold is not None
        taken = [row for row in others if row["name"] == decision.taken]
        assert all(float(row["statistic"]) > decision.threshold for row in taken)


def test_the_plan_is_what_was_taken(plan: Plan, graph: Graph) -> None:
    taken = {decision.stage: decision for decision in reversed(plan.decisions)}
    assert plan.symmetrised == (taken["direction"].taken == "both")
    assert (plan.recipe.label_weight > 0) == (taken["label propagation"].taken != "without")
    recipes = [row["name"] for row in taken["recipe"].tried]
    assert recipes == ["strong", "medium", "norm", "mild"]
    rows = [row for row in plan.history if str(row.get("stage", "")).startswith("recipe ")][:4]
    assert [row["val_score"] for row in rows] == [row["score"] for row in taken["recipe"].tried]
    if taken["pruning"].taken == taken["level with the best candidate"].taken == "as it is":
        assert str(plan.architecture) == taken["student"].taken and plan.recipe.prune_to == 0
    assert len(plan.history) <= num_rows(plan.settings)


def test_decisions_survive_the_folder(plan: Plan, graph: Graph, tmp_path: Path) -> None:
    quick = replace(plan, recipe=replace(plan.recipe, epochs=3, prune_to=0))
    save(tmp_path / "run", graph, quick, retrain(graph, quick))
    assert open_run(tmp_path / "run").plan.decisions == plan.decisions
    # beyond any chance: a gain that is the same at every node
    sure = Decision(
        stage="direction",
        taken="both",
        tried=({"name": "given", "statistic": 0.0}, {"name": "both", "statistic": float("inf")}),
        threshold=3.0,
    )
    odd = replace(quick, decisions=(sure,))
    save(tmp_path / "run", graph, odd, retrain(graph, quick), overwrite=True)
    assert open_run(tmp_path / "run").plan.decisions == (sure,)


def test_test_labels_change_no_decision(plan: Plan, graph: Graph) -> None:
    own = garbled(graph)
    again = search(own, preset("best", own, FEW | {"candidates": 3}), seed=1)
    assert again.decisions == plan.decisions


def test_a_search_of_the_paper_decides_direction_and_architecture(graph: Graph) -> None:
    for direction in ("given", "both"):
        few = {"epochs": 2, "warmup_epochs": 1, "direction": direction}
        found = search(graph, preset("paper", graph, few))
        assert found.decisions[0] == Decision(stage="direction", taken=direction)
        stages = [own.stage for own in found.decisions]
        assert stages[:3] == ["direction", "induced", "cut"]
        assert stages[3:] in ([], ["induced in full"])
        assert found.symmetrised == (direction == "both")


def test_a_log_hands_the_value_on_and_keeps_the_decision() -> None:
    log, made = Decisions(), Decision(stage="recipe", taken="norm")
    assert log(Decided(7, made)) == 7 and log.made == [made]


def test_trials_are_compared_with_the_first() -> None:
    # 8 more right and 4 fewer: 4 / √12 = 1.15
    first, second = judged([1] * 6 + [0] * 14), judged([0] * 4 + [1] * 10 + [0] * 6)
    found = among("student", {"a": first, "b": second}, second, 1.0)
    assert (found.stage, found.taken, found.threshold) == ("student", "b", 1.0)
    assert [row["name"] for row in found.tried] == ["a", "b"]
    assert found.tried[0]["statistic"] == 0 and found.tried[0]["score"] == pytest.approx(0.3)
    assert found.tried[1]["statistic"] == pytest.approx(1.1547, abs=1e-4)


def test_equal_architectures_are_told_apart() -> None:
    trials = [judged([1]) for _ in range(3)]
    assert list(numbered(trials)) == [
        "GCNConv ‖ GCNConv",
        "GCNConv ‖ GCNConv (2)",
        "GCNConv ‖ GCNConv (3)",
    ]
    assert all(
        torch.equal(a.probs, b.probs)
        for a, b in zip(trials, numbered(trials).values(), strict=True)
    )
