"""The first screen: the outcome against a plain GCN, by hand."""

from dataclasses import replace
from typing import Any

import pytest

from gassip.operations import gcn_weights
from gassip.report.facts import Facts
from gassip.report.first import beside_gcn, next_steps, outcome, tiles
from gassip.train.leaderboard import Standing

META: dict[str, Any] = {
    "dataset": "cora",
    "features": 10,
    "class_names": ["a", "b"],
    "metric": "accuracy",
    "scores": {"accuracy": {"test": 0.854, "val": 0.9}},
    "weights_kept": gcn_weights(10, 2) // 2,
    "edges_kept": 90,
    "edges_total": 100,
    "recipe": {"labels_in_training": False},
    "best_epoch": 2,
}
RUN = Facts(folder="runs/a b", meta=META)


def text(made: Any) -> str:
    return "".join(made.itertext()).replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "50 % of a plain GCN’s weights and 90.0 % of the edges."),
        ({"edges_kept": 100}, "50 % of a plain GCN’s weights and all of the edges."),
        ({"speed": {"ms": 0.5, "gcn_ms": 2.0}}, "90.0 % of the edges and 25 % of its time."),
        ({"speed": {"ms": 3.0, "gcn_ms": 2.0}}, "90.0 % of the edges and 1.5 times its time."),
        ({"weights_kept": 4 * gcn_weights(10, 2)}, "with 4.0 times a plain GCN’s weights and"),
        ({"weights_kept": 3}, "with 0.36 % of a plain GCN’s weights and"),
    ],
)
def test_the_outcome_is_one_sentence(more: dict[str, Any], said: str) -> None:
    made = text(outcome(replace(RUN, meta=META | more)))
    assert made.startswith("On cora, the net found reaches 85.4 % test accuracy with ")
    assert said in made


def test_what_labels_add_is_told_apart() -> None:
    history = [{"phase": "retrain", "epoch": k, "val_score": 0.1 * k} for k in (1, 2, 3)]
    gcn = Standing(name="plain 0", kind="plain", architecture="GCNConv ‖ GCNConv", val_score=0.75)
    run = replace(RUN, history=history, leaderboard=(gcn,))
    assert run.alone is None
    (made,) = beside_gcn(run)
    assert text(made).endswith("scores 75.0 % on validation nodes, the net found 90.0 %.")
    spread = replace(run, meta=META | {"net": {"label_weight": 2.0}})
    assert spread.alone == pytest.approx(0.2)
    (made,) = beside_gcn(spread)
    assert "the net found 90.0 % (20.0 % before label propagation" in text(made)


def test_new_nodes_are_a_tile_and_commands_are_quoted() -> None:
    made = replace(RUN, meta=META | {"inductive": {"score": 0.62, "seen": 0.9, "nodes": 20}})
    assert "validation, new nodes62.0 %" in text(tiles(made))
    assert "gassip refit 'runs/a b' --out 'runs/a b-refit'" in text(next_steps(RUN))
