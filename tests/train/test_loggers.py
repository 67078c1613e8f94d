"""Loggers: what they write is read back by the dashboard's own reader."""

from pathlib import Path
from typing import Any

import pytest

from gassip.cli import main
from gassip.errors import GassipError
from gassip.train import loggers
from gassip.train.events import Event
from gassip.train.loggers import logging, mlflow, numbers, tensorboard

EVENTS: list[Event] = [
    {"phase": "search", "epoch": 1, "val_score": 0.25, "architecture": "a ‖ b", "elapsed": 1.0},
    {"phase": "search", "epoch": 2, "val_score": 0.5, "architecture": "a ‖ b", "elapsed": 2.0},
    {"phase": "stage", "epoch": 1, "stage": "student", "architecture": "c", "val_score": 0.75},
    {"phase": "done", "elapsed": 3.0, "left": 0.0, "best": 0.75},
]
# inside tensorboard's own imports
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """tag -> (step, value), by TensorBoard's reader."""
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    (path,) = folder.iterdir()
    held = reading.EventAccumulator(str(path)).Reload()
    return {
        tag: [(own.step, own.value) for own in held.Scalars(tag)] for tag in held.Tags()["scalars"]
    }


def test_numbers_are_named_by_phase_and_texts_left_out() -> None:
    assert numbers(EVENTS[2]) == {"stage/val_score": 0.75}
    assert numbers(EVENTS[0]) == {"search/val_score": 0.25, "search/elapsed": 1.0}


def test_tensorboard_reads_what_was_told(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    with tensorboard(tmp_path / "logs", "cora") as hear:
        for event in EVENTS:
            hear(event)
    held = scalars(tmp_path / "logs")
    assert held["search/val_score"] == [(1, 0.25), (2, 0.5)]
    assert held["stage/val_score"] == [(1, 0.75)] and held["done/best"] == [(0, 0.75)]
    assert next((tmp_path / "logs").iterdir()).name.startswith("cora-2")


def test_what_was_heard_stays_when_a_search_fails(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    with pytest.raises(KeyError), logging(["tensorboard"], tmp_path / "runs" / "x", {}) as hear:
        hear(EVENTS[0])
        raise KeyError("x")
    assert scalars(tmp_path / "runs" / "tensorboard")["search/val_score"] == [(1, 0.25)]


def test_the_command_logs_every_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    quick = ["--preset", "paper", "--epochs", "3", "--warmup-epochs", "1", "--retrain-epochs", "4"]
    words = ["search", *quick, "--induced-from", "1", "--hidden", "8", "--no-report", "--quiet"]
    assert main([*words, "--out", "runs/a b", "--log", "tensorboard"]) == 0
    held = scalars(Path("runs/tensorboard"))
    assert [step for step, _ in held["search/train_loss"]] == [1, 2, 3]
    assert [step for step, _ in held["retrain/val_score"]] == [1, 2, 3, 4]
    assert "tensorboard --logdir runs/tensorboard" in capsys.readouterr().out


def test_a_dashboard_that_is_not_installed_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(loggers, "find_spec", lambda name: None)
    line = "--log mlflow needs mlflow, which is not installed: pip install mlflow"
    with pytest.raises(GassipError, match=line), mlflow("x", {}):
        pass
    monkeypatch.chdir(tmp_path)
    assert main(["search", "--log", "mlflow"]) == 2 and list(tmp_path.iterdir()) == []


def test_mlflow_has_metrics_and_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a store without a database
    library.set_tracking_uri((tmp_path / "store").as_uri())
    with mlflow("cora", {"hidden": 8, "ops": ["x"] * 200}) as hear:
        for event in EVENTS:
            hear(event)
    client = library.MlflowClient()
    (run,) = client.search_runs(["0"])
    assert run.data.params["hidden"] == "8" and run.info.run_name == "cora"
    history = client.get_metric_history(run.info.run_id, "search/val_score")
    assert sorted((own.step, own.value) for own in history) == [(1, 0.25), (2, 0.5)]
