import csv
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gassip.best import tasks
from gassip.best.pipeline import search
from gassip.cli import main
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.runs.checkpoint import FILE, FolderCheckpoint, discard, read
from gassip.settings import Settings, preset
from gassip.train.plan import Plan
from gassip.train.trainer import train

SMALL = Settings.of(hidden=8, epochs=7, warmup_epochs=2, retrain_epochs=3, edge_optimizer="adam")


@pytest.fixture(scope="module")
def graph(make_graph: Callable[..., Graph]) -> Graph:
    return make_graph(nodes=60, edges=200, features=40, sparse=True)


def checkpoint(
    folder: Path, graph: Graph, settings: Settings = SMALL, seed: int = 5, every: int = 3
) -> FolderCheckpoint:
    return FolderCheckpoint(
        folder, graph=graph, settings=settings, seed=seed, metric="accuracy", every=every
    )


def same(one: Plan, other: Plan) -> None:
    timeless = [
        [{k: v for k, v in row.items() if k != "seconds"} for row in found.history]
        for found in (one, other)
    ]
    assert timeless[0] == timeless[1]
    assert torch.equal(one.edge_mask, other.edge_mask)
    for weights, others in (
        (one.last_weights, other.last_weights),
        (one.first_weights, other.first_weights),
    ):
        assert all(torch.equal(value, others[name]) for name, value in weights.items())
    assert all(torch.equal(a, b) for a, b in zip(one.weight_keep, other.weight_keep, strict=True))


class Stop(Exception):
    pass


@pytest.mark.parametrize("epoch", range(1, 8))
def test_a_search_stopped_at_any_epoch_goes_on_to_the_same_bits(
    graph: Graph, tmp_path: Path, epoch: int
) -> None:
    def stop(row: dict[str, float | str]) -> None:
        if row["epoch"] == epoch:
            raise Stop

    with pytest.raises(Stop):
        search(graph, SMALL, seed=5, on_epoch=stop, checkpoint=checkpoint(tmp_path, graph))
    epochs: list[float | str] = []
    resumed = search(
        graph,
        SMALL,
        seed=5,
        on_epoch=lambda row: epochs.append(row["epoch"]),
        checkpoint=checkpoint(tmp_path, graph),
    )
    assert epochs[0] == (epoch - 1) // 3 * 3 + 1  # from the last third epoch that was complete
    same(resumed, search(graph, SMALL, seed=5))


def test_a_contest_stopped_at_any_net_goes_on_without_training_those_before(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = {"hidden": 8, "epochs": 7, "warmup_epochs": 2, "retrain_epochs": 3, "candidates": 3}
    settings = preset("best", graph, quick)
    trained: list[int] = []

    def counted(*args: Any, **named: Any) -> int:
        trained.append(1)
        return train(*args, **named)

    monkeypatch.setattr(tasks, "train", counted)
    whole = search(graph, settings, seed=5)
    nets = [row for row in whole.history if row["epoch"] > 7 and row["architecture"] != "spectral"]  # type: ignore[operator]
    assert len(trained) == len(nets) > 8
    seconds = {}
    for done, last in enumerate(nets, 1):
        trained.clear()

        def stop(row: dict[str, float | str], last: dict[str, float | str] = last) -> None:
            if row["epoch"] == last["epoch"]:
                seconds[row["epoch"]] = row["seconds"]
                raise Stop

        with pytest.raises(Stop):
            search(
                graph,
                settings,
                seed=5,
                on_epoch=stop,
                checkpoint=checkpoint(tmp_path, graph, settings),
            )
        assert len(trained) == 1, f"net {done} alone is new"
    trained.clear()
    resumed = search(graph, settings, seed=5, checkpoint=checkpoint(tmp_path, graph, settings))
    assert not trained
    same(resumed, whole)
    assert {
        row["epoch"]: row["seconds"] for row in resumed.history if row["epoch"] in seconds
    } == seconds
    with pytest.raises(
        GassipError, match=r"net-candidate-trial-0.safetensors was written with seed = 5, not"
    ):
        checkpoint(tmp_path, graph, settings, seed=6).recall("candidate trial 0")
    discard(tmp_path)
    assert not tmp_path.exists()


def test_the_state_is_gathered_only_when_it_is_written(graph: Graph, tmp_path: Path) -> None:
    gathered: list[int] = []
    kept = checkpoint(tmp_path, graph)
    for epoch in range(1, 8):

        def tensors(epoch: int = epoch) -> dict[str, Tensor]:
            gathered.append(epoch)
            return {"rng": torch.zeros(2)}

        kept.save(tensors, [{"epoch": e} for e in range(1, epoch + 1)])
    assert gathered == [3, 6, 7]  # every third, and the last of 7
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_what_is_not_a_number_comes_back_as_such(graph: Graph, tmp_path: Path) -> None:
    checkpoint(tmp_path, graph, every=1).save(
        lambda: {"a": torch.ones(1)}, [{"epoch": 1, "val_score": float("nan")}]
    )
    _, history, _ = read(tmp_path / FILE)
    assert np.isnan(float(history[0]["val_score"])) and history[0]["epoch"] == 1


@pytest.fixture
def written(graph: Graph, tmp_path: Path) -> Path:
    search(graph, SMALL, seed=5, checkpoint=checkpoint(tmp_path, graph))
    return tmp_path / FILE


@pytest.mark.parametrize("where", [0.0, 0.001, 0.02, 0.5, 0.999])
def test_a_flipped_byte_is_refused_by_name(graph: Graph, written: Path, where: float) -> None:
    content = bytearray(written.read_bytes())
    content[int(where * len(content))] ^= 1
    written.write_bytes(content)
    with pytest.raises(GassipError, match=f"{FILE} is damaged.*--overwrite") as caught:
        checkpoint(written.parent, graph).load()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b"PK\x03\x04 not this"])
def test_a_foreign_file_is_refused_by_name(graph: Graph, written: Path, content: bytes) -> None:
    half = written.read_bytes()
    for damaged in (content, half[: len(half) // 2]):
        written.write_bytes(damaged)
        with pytest.raises(GassipError, match=f"{FILE} is damaged"):
            checkpoint(written.parent, graph).load()


def test_a_checkpoint_of_another_search_is_refused_by_what_differs(
    graph: Graph, make_graph: Callable[..., Graph], written: Path
) -> None:
    folder = written.parent
    with pytest.raises(GassipError, match="seed = 5, not 6"):
        checkpoint(folder, graph, seed=6).load()
    with pytest.raises(GassipError, match=r"lr_alpha = 0.03, not 0.1; give the same to go on"):
        checkpoint(folder, graph, SMALL.changed(lr_alpha=0.1)).load()
    with pytest.raises(GassipError, match="with graph = "):
        checkpoint(folder, make_graph(nodes=60, edges=200)).load()


def test_discard_takes_only_what_is_ours(written: Path) -> None:
    (written.parent / f".{FILE}.17.tmp").write_bytes(b"half")
    (written.parent / "letter.txt").write_text("dear")
    discard(written.parent)
    assert [path.name for path in written.parent.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize(
    ("preset", "line"), [("paper", "search 40/200"), ("best", "search 40/200")]
)
def test_sigkill_and_resume_give_the_bits_of_an_unbroken_run(
    graph: Graph, tmp_path: Path, preset: str, line: str
) -> None:
    """A process of its own, killed from outside at whatever epoch it has come to."""
    dense = graph.to_data()
    np.savez(
        tmp_path / "graph.npz",
        x=dense.x.numpy(),
        edge_index=dense.edge_index.numpy(),
        y=dense.y.numpy(),
    )
    common = [
        "search",
        "--data",
        str(tmp_path / "graph.npz"),
        "--epochs",
        "200",
        "--hidden",
        "8",
        "--threads",
        "1",
    ]
    common += ["--retrain-epochs", "5", "--checkpoint-every", "7", "--json", "--preset", preset]
    broken, unbroken = tmp_path / "broken", tmp_path / "unbroken"
    command = [sys.executable, "-m", "gassip", *common, "--out", str(broken)]
    source = str(Path(__file__).parents[2] / "src")
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": source},
    ) as process:
        assert process.stderr is not None
        assert any(own.startswith(line) for own in process.stderr)  # a slow machine tells more
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert not broken.exists()
    assert len(read(tmp_path / "broken.partial" / FILE)[1]) in range(35, 200)

    threads = torch.get_num_threads()
    assert main([*common, "--out", str(broken), "--resume"]) == 0
    assert main([*common, "--out", str(unbroken)]) == 0
    torch.set_num_threads(threads)
    assert not (tmp_path / "broken.partial").exists()
    for name in ("model.safetensors", "graph.safetensors", "found.safetensors", "history.svg"):
        assert (broken / name).read_bytes() == (unbroken / name).read_bytes()
    assert without_seconds(broken / "history.csv") == without_seconds(unbroken / "history.csv")


def without_seconds(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [row[:-1] for row in csv.reader(file)]
