"""history.csv is read back as written; history.svg has epochs, trainings and retraining apart."""

from hashlib import sha256
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gassip.errors import GassipError
from gassip.runs.history import history_csv, history_svg, of_search, panels_of, read_history

ROWS: list[dict[str, float | str]] = [
    {"phase": "search", "epoch": 1, "train_loss": 2.0, "alpha_entropy": 2.0, "edges_kept": 1.0},
    {"phase": "search", "epoch": 2, "train_loss": 1.0, "val_loss": 1.5, "val_score": 0.5,
     "alpha_entropy": 1.0, "edges_kept": 0.5},
    {"phase": "search", "epoch": 3, "stage": "student", "architecture": "GCNConv", "val_score": 0.7,
     "val_loss": 9.0, "seconds": 1.0},
    {"phase": "retrain", "epoch": 1, "train_loss": 1.0, "val_loss": 1.0, "val_score": 0.6},
    {"phase": "retrain", "epoch": 2, "train_loss": 0.5, "val_loss": 0.9, "val_score": 0.8},
]  # fmt: skip


def test_trainings_are_apart_from_epochs() -> None:
    panels = {own.title: own for own in panels_of(ROWS)}
    losses = {one.name: list(one.y) for one in panels["Search: loss"].series}
    assert losses == {"training": [2.0, 1.0], "validation": [1.5]}
    (trained,) = panels["Trainings: validation score"].series
    assert (list(trained.x), list(trained.y), list(trained.names)) == ([1.0], [0.7], ["student"])
    kept = {one.name: list(one.y) for one in panels["Search: would keep"].series}
    assert kept == {"edges": [1.0, 0.5], "entropy of α": [1.0, 0.5]}


def test_title_best_epoch_and_per_cent_are_drawn() -> None:
    drawn = ElementTree.fromstring(history_svg(ROWS, "cora · best · test accuracy 83.00 %", 2))
    texts = [own.text for own in drawn.iter() if own.tag.endswith("text")]
    assert "cora · best · test accuracy 83.00 %" in texts
    assert texts.count("best: 2") == 2 and "per cent" in texts


def test_a_run_without_history_is_drawn() -> None:
    assert ElementTree.fromstring(history_svg([], "a")).tag.endswith("svg")


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    undefined: dict[str, float | str] = {"phase": "retrain", "epoch": 9, "val_score": float("nan")}
    rows = [*ROWS, undefined]
    content = history_csv(rows).encode()
    (tmp_path / "history.csv").write_bytes(content)
    meta = {"files": {"history.csv": sha256(content).hexdigest()}}
    del undefined["val_score"]  # an empty cell
    assert read_history(tmp_path, meta) == rows
    searched = of_search(rows)
    assert len(searched) < len(rows) and not any("phase" in row for row in searched)


@pytest.mark.parametrize("content", ["phase,epoch\nsearch,one\n", "epoch\n1\n", "phase\na,b\n"])
def test_another_table_is_refused_by_name(tmp_path: Path, content: str) -> None:
    (tmp_path / "history.csv").write_text(content, encoding="utf-8")
    meta = {"files": {"history.csv": sha256(content.encode()).hexdigest()}}
    with pytest.raises(GassipError, match=r"history\.csv is not the history of a run"):
        read_history(tmp_path, meta)
