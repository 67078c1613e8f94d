"""Ray: the same bits as in one process, and errors in one line."""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gassip
from gassip import cli
from gassip.bench.records import Book, Record, Run
from gassip.commands import clustered
from gassip.errors import GassipError
from gassip.graph.store import GraphFolder
from gassip.large.block_model import BlockModel, draw
from gassip.large.cluster import (
    InProcess,
    RayTasks,
    Tasks,
    checked,
    connected,
    library,
    told,
    versions_here,
)
from gassip.large.rows.job import Job
from gassip.large.rows.run import Outcome, run_on_rows
from gassip.large.rows.search import Options
from gassip.large.writing import write_block_model
from gassip.nn.size import packed
from gassip.reproduce import experiments
from gassip.reproduce.work import overlap_task

pytestmark = pytest.mark.usefixtures("one_cluster")
MODEL = BlockModel(nodes=600, degree=8, features=6, classes=3, homophily=0.8, labelled=0.2)


@pytest.fixture(scope="module")
def ray_tasks(one_cluster: None) -> Iterator[Tasks]:
    """Two workers of this machine, on loopback; skipped where Ray is missing or cannot start."""
    pytest.importorskip("ray", reason="the extra `cluster` is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            opened = connected("auto", workers=2)
            tasks = opened.__enter__()
        except (GassipError, OSError, RuntimeError) as error:
            pytest.skip(f"Ray cannot start here: {error}")
        yield tasks
        opened.__exit__(None, None, None)


def outcome(folder: Path, tasks: Tasks) -> Outcome:
    """Teachers, layers upon layers, a student, label propagation."""
    graph = GraphFolder.open(folder)
    place = folder.parent / f"hops of {type(tasks).__name__}"
    memory = 16 * graph.nodes * 2  # blocks of two columns
    options = Options(sizes=(1.0,))
    return run_on_rows(Job(graph=graph, hops=place, options=options, memory=memory, tasks=tasks))


@pytest.mark.filterwarnings("ignore")
def test_equal_bits_with_and_without_ray(ray_tasks: Tasks, tmp_path: Path) -> None:
    write_block_model(MODEL, draw(MODEL), 0.9, tmp_path / "csbm.graph")
    here = outcome(tmp_path / "csbm.graph", InProcess())
    there = outcome(tmp_path / "csbm.graph", ray_tasks)
    assert packed(here.found.trained.net) == packed(there.found.trained.net)
    assert here.scores == there.scores and here.decisions == there.decisions
    assert torch.equal(unwrapped(here.found.probs), unwrapped(there.found.probs))
    for first in here.hops.starts:
        mine, other = (made.hops.file(first, 2).read_bytes() for made in (here, there))
        assert mine == other


def unwrapped(probs: torch.Tensor | None) -> torch.Tensor:
    assert probs is not None
    return probs


def unreadable(shared: None, path: str) -> bytes:
    return Path(path).read_bytes()


@pytest.mark.filterwarnings("ignore")
def test_a_folder_that_workers_cannot_read(ray_tasks: Tasks) -> None:
    assert isinstance(ray_tasks, RayTasks)
    with pytest.raises(GassipError, match="where every worker sees them"):
        ray_tasks.map(unreadable, None, [("/nowhere/indptr.npy",)])


def dies_once(shared: Path, number: int) -> int:
    """kill -9 of its own worker, half-way, the first time."""
    mark = shared / str(number)
    if number == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


@pytest.mark.filterwarnings("ignore")
def test_a_task_whose_worker_is_killed_is_started_again(ray_tasks: Tasks, tmp_path: Path) -> None:
    seen: list[int] = []
    answers = ray_tasks.map(
        dies_once, tmp_path, [(k,) for k in range(4)], lambda at, answer: seen.append(at)
    )
    assert answers == [0, 1, 4, 9] and sorted(seen) == [0, 1, 2, 3]
    assert (tmp_path / "1").exists()


def recorded_once_killed(shared: clustered.Asked, runs: list[Run]) -> list[Record]:
    mark = Path(str(shared[0])).with_name(f"seed {runs[0].retrain_seed}")
    if runs[0].retrain_seed == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return clustered.record_task(shared, runs)


@pytest.mark.filterwarnings("ignore")
def test_records_are_neither_lost_nor_doubled(ray_tasks: Tasks, tmp_path: Path) -> None:
    path = tmp_path / "csbm.graph"
    write_block_model(MODEL, draw(MODEL), 0.9, path)
    asked = Run(dataset="graph", method="mlp", settings={"epochs": 3}, retrain_seed=0)
    runs = [replace(asked, retrain_seed=seed) for seed in range(3)]
    shared: clustered.Asked = (str(path), ())
    here = clustered.collected(InProcess(), runs, shared, None)
    book = Book(tmp_path / "results")
    clustered.collected(ray_tasks, runs, shared, book, task=recorded_once_killed)
    there, _ = book.read("graph")
    assert sorted(own.run.retrain_seed for own in there) == [0, 1, 2]
    assert {own.run.key: own.scores for own in there} == {k: r.scores for k, r in here.items()}


@pytest.mark.filterwarnings("ignore")
def test_a_graph_that_workers_cannot_read_is_no_record(ray_tasks: Tasks, tmp_path: Path) -> None:
    run = Run(dataset="graph", method="mlp", settings={}, retrain_seed=0)
    book = Book(tmp_path)
    with pytest.raises(GassipError, match=r"a worker cannot read /nowhere/graph.npz"):
        clustered.collected(ray_tasks, [run], ("/nowhere/graph.npz", ()), book)
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore")
def test_front_and_evaluate_in_a_cluster(
    ray_tasks: Tasks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal points and scores with and without; the cluster is the one of the tests."""
    here = nullcontext(InProcess())
    monkeypatch.setattr(
        "gassip.large.cluster.connected", lambda own: nullcontext(ray_tasks) if own else here
    )
    rng, data, run = np.random.default_rng(0), tmp_path / "graph.npz", tmp_path / "run"
    x, ends = rng.normal(size=(30, 40)).astype(np.float32), rng.integers(0, 30, (2, 90))
    np.savez(data, x=x, edge_index=ends, y=np.arange(30) % 3)
    quick = ["--data", str(data), "--preset", "paper", "--epochs", "3", "--warmup-epochs", "2"]
    quick += ["--retrain-epochs", "3", "--hidden", "16", "--quiet"]
    assert cli.main(["search", *quick, "--out", str(run), "--no-report"]) == 0
    points, scores = [], []
    for at, words in enumerate(([], ["--cluster", "auto"])):
        out = tmp_path / f"front {at}"
        asked = [*quick, "--retrains", "1", "--shares", "25", "--out", str(out), *words]
        assert cli.main(["front", *asked]) == 0
        points.append(json.loads((out / "front.json").read_bytes())["points"])
        assert cli.main(["evaluate", str(run), "--seeds", "2", "--quiet", *words]) == 0
        scores.append((run / "evaluate.json").read_bytes())
    assert points[0] == points[1] and len(points[0]) == 6
    assert scores[0] == scores[1]


@pytest.mark.filterwarnings("ignore")
def test_reproduce_in_a_cluster(
    ray_tasks: Tasks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal accuracies and overlaps with and without."""
    monkeypatch.chdir(tmp_path)
    here = nullcontext(InProcess())
    monkeypatch.setattr(
        "gassip.large.cluster.connected", lambda own: nullcontext(ray_tasks) if own else here
    )
    rows = (
        experiments.row("GCN", "gcn", epochs=3, hidden=4),
        experiments.row("DARTS", "darts", epochs=3, retrain_epochs=3, hidden=4),
    )
    columns = (experiments.graph("cora"),)
    own = experiments.Experiment(title="T", show="accuracy", columns=columns, rows=rows)
    monkeypatch.setattr(experiments, "EXPERIMENTS", {"main": own})
    found = []
    for folder, words in (("here", []), ("there", ["--cluster", "auto"])):
        asked = ["reproduce", "--datasets", "debian", "--seeds", "2", "--results", folder]
        assert cli.main([*asked, "--quiet", *words]) == 0
        records, _ = Book(folder).read("debian")
        found.append({record.run.key: record.accuracy for record in records})
    assert found[0] == found[1] and len(found[0]) == 4
    both = [tasks.map(overlap_task, 2, [("debian", 0)]) for tasks in (InProcess(), ray_tasks)]
    assert both[0][0]["overlaps"] == both[1][0]["overlaps"]


class Elsewhere:
    """Ray whose workers find the packages in a folder before all others."""

    def __init__(self, ray: Any, folder: Path) -> None:
        self.ray, self.env = ray, {"env_vars": {"PYTHONPATH": str(folder)}}

    def remote(self, function: Callable[..., object]) -> Any:
        return self.ray.remote(runtime_env=self.env)(function)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ray, name)


def test_a_worker_that_has_another_version(ray_tasks: Tasks, tmp_path: Path) -> None:
    """A worker that imports a copy of this package, in which only the version differs."""
    assert isinstance(ray_tasks, RayTasks)
    own = Path(gassip.__file__).parent
    copy = shutil.copytree(own, tmp_path / "gassip", ignore=shutil.ignore_patterns("__pycache__"))
    start = copy / "__init__.py"
    start.write_text(start.read_text().replace(f'"{gassip.__version__}"', '"99.9"'))
    tasks = RayTasks(Elsewhere(ray_tasks.ray, tmp_path))
    wanted = f"gassip is 99.9 there and {gassip.__version__} here; install the same"
    with pytest.raises(GassipError, match=wanted) as refused:
        tasks.map(max, 1, [(2,)])
    assert "\n" not in str(refused.value)
    assert ray_tasks.map(max, 1, [(2,)]) == [2]


def test_a_worker_with_another_version_is_refused() -> None:
    with pytest.raises(GassipError, match=r"gassip is .* there and 0.0 here; install the same"):
        checked({"gassip": "0.0"}, len, ())
    assert checked(versions_here(), max, 1, 2) == 2


@pytest.mark.filterwarnings("ignore")
def test_no_head_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray", reason="the extra `cluster` is not installed")
    words = ["run", "mlp", "--cluster", "127.0.0.1:1", "--quiet"]
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert "--cluster 127.0.0.1:1" in said and len(said.strip().splitlines()) <= 2


def test_errors_of_workers_are_one_line() -> None:
    assert str(told(GassipError("x is empty"))) == "on a worker: x is empty"
    assert str(told(ValueError("first\nsecond"))) == "on a worker: ValueError: first"


def test_no_head_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gassip.large.cluster.library", lambda: Absent)
    monkeypatch.setattr("gassip.large.cluster.knock", lambda address: None)
    with pytest.raises(GassipError, match="no head answers there"), connected("10.0.0.1:6379"):
        pass


def test_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gassip.large.cluster.library", lambda: Other)
    with pytest.raises(GassipError, match="same Python, Ray and gassip"), connected("auto"):
        pass


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(GassipError, match="'cluster' extra"):
        library()


class Absent:
    @staticmethod
    def init(**given: object) -> None:
        raise ConnectionError("Failed to connect to GCS at 10.0.0.1:6379")


class Other:
    @staticmethod
    def init(**given: object) -> None:
        raise RuntimeError("Version mismatch: the cluster was started with Ray 2.9")
