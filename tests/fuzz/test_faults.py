"""A full disk, no memory and a kill at every write of a search, a resume, a predict and an export:
the old result or the new one whole, never half; `--resume` goes on to equal bits."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gassip.cli import main
from gassip.deploy.runtime import load
from gassip.graph.graph import Graph
from gassip.runs.checkpoint import held
from gassip.runs.format import read_meta
from gassip.runs.read import open_run
from tests.commands.test_bad_calls import place as place
from tests.fuzz.border import MORE
from tests.fuzz.faults import FREE, FULL, KILLED, KILLED_STATUS, MEMORY, broken, count
from tests.train.test_divergence import write

NO_FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="a kill is tried in a fork")
KINDS = [FULL, MEMORY, pytest.param(KILLED, marks=NO_FORK)]
FIRST = {FULL: 0, MEMORY: 1, KILLED: 2}  # each point has one of the kinds; by `make fuzz` all
STEP = 3 if MORE == 1 else 1
FEWER = 6 if MORE == 1 else 1
TINY = ["--preset", "paper", "--epochs", "2", "--warmup-epochs", "1", "--retrain-epochs", "2"]
TINY += ["--hidden", "4", "--induced-from", "1", "--ops", "GCNConv,Linear", "--quiet"]
TINY += ["--no-report", "--no-inductive", "--checkpoint-every", "1", "--jobs", "1"]


def names(folder: Path) -> set[str]:
    return {own.name for own in folder.iterdir()}


def weights(run: Path) -> bytes:
    """The bits of a run that fits itself."""
    open_run(run)
    return (run / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def data(make_graph: Callable[..., Graph], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("faults") / "g.npz", make_graph())


def searching(data: Path, folder: Path, *more: str) -> Callable[[], int]:
    return lambda: main(["search", "--data", str(data), "--out", str(folder / "run"), *TINY, *more])


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[str]]:
    """The weights of a search without a fault, and its points."""
    folder = tmp_path_factory.mktemp("whole")
    points = count(folder, searching(data, folder))
    return weights(folder / "run"), points


@pytest.mark.parametrize("kind", KINDS)
def test_a_search(
    data: Path,
    whole: tuple[bytes, list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kind: str,
) -> None:
    bits, points = whole
    assert len(points) > 40 and {"open", "fsync", "replace", "rename", "mkdir"} <= set(points)
    for at in range(FIRST[kind] % STEP, len(points), STEP):
        folder = tmp_path / f"{at}"
        folder.mkdir()
        status = broken(folder, searching(data, folder), kind, at)
        told = capsys.readouterr().err.splitlines()
        where = f"{kind} at {points[at]}: {told}"
        if kind == KILLED:
            assert status == KILLED_STATUS, where
        elif status != 0:
            assert status == 2 and len(told) == 1 and names(folder) <= {"run", "run.partial"}, where
            assert "No space left" in told[0] or "out of memory" in told[0], where
        goes_on(data, folder, bits, status, where)
        shutil.rmtree(folder)


def goes_on(data: Path, folder: Path, bits: bytes, status: int, where: str) -> None:
    """What is there is whole, and the next call ends with the same bits."""
    run, partial = folder / "run", folder / "run.partial"
    assert not run.exists() or weights(run) == bits, where
    if status == 2:
        assert partial.exists() == held(partial), where
    if partial.exists() or not run.exists():
        more = ["--resume"] if partial.exists() else []
        assert searching(data, folder, *more)() == 0, where
    assert weights(run) == bits and names(folder) == {"run"}, where


@pytest.mark.parametrize("kind", KINDS)
def test_a_resume_over_an_old_run(
    data: Path,
    whole: tuple[bytes, list[str]],
    tmp_path: Path,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    kind: str,
) -> None:
    """A search that failed in its last write goes on; the old run stays till the end."""
    bits, points = whole
    last = max(at for at, point in enumerate(points) if point == "rename")
    start = tmp_path / "start"
    start.mkdir()
    broken(start, searching(data, start), FULL, last)
    assert names(start) == {"run.partial"}
    shutil.copytree(place / "run", start / "run")
    old = weights(start / "run")
    counted = Path(shutil.copytree(start, tmp_path / "counted"))
    points = count(counted, searching(data, counted, "--resume"))
    assert weights(counted / "run") == bits
    for at in range(2 * FIRST[kind] % FEWER, len(points), FEWER):
        folder = Path(shutil.copytree(start, tmp_path / f"{at}"))
        broken(folder, searching(data, folder, "--resume"), kind, at)
        capsys.readouterr()
        read_meta(folder / "run")  # brings back what a kill between two renames left
        assert weights(folder / "run") in (old, bits), f"{kind} at {points[at]}"
        if (folder / "run.partial").exists():
            assert searching(data, folder, "--resume")() == 0
            assert weights(folder / "run") == bits and names(folder) == {"run"}
        shutil.rmtree(folder)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", ["predict", "export", "pack"])
def test_predict_export_and_pack(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, command: str
) -> None:
    more = ["--format", "runtime"] if command == "export" else []

    def call(out: Path) -> int:
        return main([command, str(place / "run"), *more, "--out", str(out), "--overwrite"])

    def content(out: Path) -> bytes:
        if command == "predict":
            return out.read_bytes()
        load(out)
        return (out / "model.safetensors").read_bytes() if out.is_dir() else out.read_bytes()

    good = tmp_path / "good"
    points = count(tmp_path, lambda: call(good))
    new = content(good)
    for at in range(FIRST[kind] % STEP, len(points), STEP):
        folder, point = tmp_path / f"{at}", points[at]
        folder.mkdir()
        status = broken(folder, lambda: call(folder / "o"), kind, at)  # noqa: B023
        told = capsys.readouterr().err.splitlines()
        where = f"{command}, {kind} at {point}: {told}"
        if kind == KILLED:
            assert not (folder / "o").exists() or content(folder / "o") == new, where
        elif status != 0:
            assert status == 2 and len(told) == 1 and names(folder) <= {"o"}, where
            assert not (folder / "o").exists() or content(folder / "o") == new, where
        else:
            assert content(folder / "o") == new and names(folder) == {"o"}, where
        assert call(folder / "o") == 0 and content(folder / "o") == new, where
    assert set(points) - set(FREE)
