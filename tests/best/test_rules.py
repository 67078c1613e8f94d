"""Every threshold and rule of `best`: each has a unit and a reason, and does what its line says."""

import copy
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from gassip.best import rules
from gassip.best.facts import facts_of
from gassip.best.rules import RULES, Facts, Rule, Threshold, derived, markdown, thresholds
from gassip.settings.presets import best
from gassip.settings.settings import FIELDS
from tests.conftest import random_graph

SOURCE = Path(rules.__file__).parent
METHOD = Path(__file__).parents[2] / "METHOD.md"
BASE = best().flat()
# a bag of words of middling size with few labels, to which no rule applies but that of words
PLAIN = Facts(
    nodes=5000, labelled=0.05, words=True, sparse=False, features=1500, gcn_weights=100_000
)
SHORT = ["Linear+APPNP5", "Linear+APPNP10", "GCNConv+GCNConv", "SAGEConv+SAGEConv", "Linear+Linear"]
LONG = ["Linear+APPNP10", "Linear+APPNP5", *SHORT[2:]]
WORDS = {"default_candidates": SHORT, "consistency_temperature": 0.3, "retrain_epochs": 300}
WIDER = ["TAG2+Linear", "SkipGCN+SkipGCN", "SAGEConv+SAGEConv+SAGEConv+SAGEConv"]
ARMA = {"default_candidates": [*LONG, "ArmaConv+ArmaConv"]}
LARGE = {"candidates": 7, "knn": 0}
STEPS = {
    "epochs": 8,
    "retrain_epochs": 75,
    "prune_epochs": 300,
    "trial_epochs": 30,
}
BY_ROWS = {
    "consistency": 0.0,
    "candidates": 9,
    "students": 2,
    "default_candidates": [
        "TAG3+Linear",
        "TAG4+Linear",
        "TAG2+Linear",
        *LONG[1:],
        "ArmaConv+ArmaConv",
    ],
}
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("words, few labels", {}, WORDS),
    ("many labels", {"labelled": 0.1, "nodes": 30_000}, {"consistency": 0.0} | LARGE | ARMA),
    (
        "many labels, wider",
        {"labelled": 0.1},
        {"consistency": 0.0, "candidates": 9, "default_candidates": [*LONG, *WIDER]},
    ),
    ("no bag of words", {"words": False}, {"knn": 0}),
    (
        "large",
        {"nodes": 30_000},
        WORDS | LARGE | {"default_candidates": [*SHORT, "ArmaConv+ArmaConv"]},
    ),
    (
        "large, no words",
        {"nodes": 99_999, "words": False},
        LARGE | STEPS | {"default_candidates": [*LONG, "ArmaConv+ArmaConv"]},
    ),
    (
        "large, many labels",
        {"nodes": 99_999, "words": False, "labelled": 0.1},
        LARGE | STEPS | BY_ROWS,
    ),
    (
        "huge",
        {"nodes": 100_000, "words": False, "labelled": 0.5},
        LARGE
        | STEPS
        | BY_ROWS
        | {
            "retrain_epochs": 50,
            "prune_epochs": 150,
            "recipes": ["norm", "strong", "medium"],
            "teachers": 2,
            "teacher_hidden": 256,
            "students": 2,
            "prune_candidates": ["GCNConv+APPNP5"],
        },
    ),
    ("sparse features", {"sparse": True}, {"feature_share": 0.5} | WORDS),
    ("very large values", {"largest": 1e6}, {"standardised": True} | WORDS),
    ("few features", {"features": 63}, {"recipes": ["strong", "medium", "norm", "mild"]} | WORDS),
    # .35 · 8,000 = 2,800 < 3,000 = .38 · 8,000, rounded
    ("few weights", {"gcn_weights": 8000}, {"size_share": 0.38} | WORDS),
]
UNTOUCHED: list[tuple[str, dict[str, Any]]] = [
    ("many labels", {"labelled": 0.0999}),
    ("many labels, wider", {"labelled": 0.0999}),
    ("many labels, wider", {"labelled": 0.5, "nodes": 30_000}),
    ("words, few labels", {"labelled": 0.1}),
    ("words, few labels", {"words": False}),
    ("large", {"nodes": 29_999}),
    ("large, no words", {"nodes": 30_000}),
    ("large, many labels", {"nodes": 29_999, "words": False, "labelled": 0.5}),
    ("large, many labels", {"nodes": 30_000, "words": False}),
    ("large, many labels", {"nodes": 30_000, "labelled": 0.5}),
    ("huge", {"nodes": 99_999}),
    ("very large values", {"largest": 9e5}),
    ("few features", {"features": 64}),
    ("few weights", {"gcn_weights": 8572}),  # .35 · 8,572 = 3,000.2
]


def rule(name: str) -> Rule:
    (found,) = [own for own in RULES if own.name == name]
    return found


def test_thresholds_have_a_unit_and_a_reason() -> None:
    assert len(thresholds()) >= 15
    for name, own in thresholds().items():
        assert own.unit and len(own.reason.split()) >= 3, name


def test_a_threshold_is_a_number_that_can_be_copied_and_written() -> None:
    own = Threshold(0.5, "share", "because of this")
    assert own == 0.5 and own * 2 == 1.0 and json.dumps([own]) == "[0.5]"
    for twin in (copy.copy(own), copy.deepcopy(own)):
        assert (twin, twin.unit, twin.reason) == (0.5, "share", "because of this")


@pytest.mark.parametrize("name", thresholds())
def test_every_threshold_decides_something(name: str) -> None:
    """Used here by a rule, or imported by the stage that it belongs to."""
    texts = [path.read_text(encoding="utf-8") for path in SOURCE.glob("*.py")]
    uses = sum(len(re.findall(rf"\b{name}\b", text)) for text in texts)
    in_reasons = sum(own.reason.count(name) for own in RULES)
    assert uses - in_reasons >= 2


def test_every_rule_is_told_and_tried() -> None:
    names = [own.name for own in RULES]
    assert len(set(names)) == len(names) == len(CASES) and {case[0] for case in CASES} == set(names)
    for own in RULES:
        assert own.condition and own.effect and own.reason


@pytest.mark.parametrize(("name", "facts", "expected"), CASES, ids=[case[0] for case in CASES])
def test_a_rule_is_triggered_by_its_facts_and_the_preset_has_its_effect(
    name: str, facts: dict[str, Any], expected: dict[str, Any]
) -> None:
    own = replace(PLAIN, **facts)
    assert rule(name).when(own)
    assert rule(name).when(PLAIN) == (name == "words, few labels")
    assert derived(own, BASE) == expected  # and nothing else
    assert set(expected) <= set(FIELDS)
    found = best(own).flat()
    assert {key: found[key] for key in expected} == expected
    assert {key: value for key, value in found.items() if key not in expected} == {
        key: value for key, value in BASE.items() if key not in expected
    }
    sets = rule(name).sets(own, BASE)
    assert set(sets) <= set(expected) and sets


@pytest.mark.parametrize(("name", "facts"), UNTOUCHED)
def test_a_rule_ends_at_its_threshold(name: str, facts: dict[str, Any]) -> None:
    assert not rule(name).when(replace(PLAIN, **facts))


def test_a_setting_of_the_user_is_not_overruled() -> None:
    huge = replace(PLAIN, nodes=100_000, features=9, gcn_weights=100, sparse=True)
    given = {"epochs": 7, "edge_shares": [0.5], "size_share": 0.2, "feature_share": 0.9}
    found = best(huge).changed(**given).flat()
    assert {name: found[name] for name in given} == given


def test_no_test_label_has_a_part_in_the_facts() -> None:
    graph = random_graph(1, nodes=300, edges=2000)
    garbage = replace(graph, y=torch.where(graph.test_mask, (graph.y + 1) % 3, graph.y))
    facts = facts_of(graph)
    assert facts == facts_of(garbage) and facts.features == 6
    # 6 features, 3 classes: 7 · 64 + 65 · 3 = 643; of 100 blocks of three nodes 34 are for training
    assert (facts.nodes, facts.gcn_weights, facts.words, facts.sparse) == (300, 643, False, False)
    assert facts.labelled == pytest.approx(0.34)


def test_the_document_has_the_tables_of_the_code() -> None:
    text = METHOD.read_text(encoding="utf-8")
    (table,) = re.findall(r"<!-- rules -->\n(.*?)<!-- /rules -->", text, re.S)
    assert table.strip() == markdown().strip(), "run `python -m gassip.best.rules`"
