"""Faults of calls: outputs that are no files, absurd settings, empty names, folders left behind."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load, save

from gassip.cli import main
from gassip.deploy.labelling import main as runtime
from gassip.errors import GassipError
from gassip.graph.datasets import read, read_inputs
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture
from gassip.runs import write as artefact
from gassip.runs.format import labels_csv, read_meta
from gassip.runs.read import open_run
from tests.saved_runs import random_net, refit, save_run
from tests.train.test_divergence import QUICK, write


@pytest.fixture(scope="module")
def place(make_graph: Callable[..., Graph], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph g.npz and a run of it."""
    folder = tmp_path_factory.mktemp("place")
    graph = make_graph()
    write(folder / "g.npz", graph)
    graph = read(folder / "g.npz")
    net = random_net(graph, Architecture(ops=("GCNConv", "GCNConv"), hidden=(4,)))
    source = {"kind": "file", "path": str(folder / "g.npz"), "seed": 0}
    save_run(folder / "run", graph, net, source=source | {"undirected": False, "normalize": False})
    return folder


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr of a call that ends with status 2."""
    capsys.readouterr()
    try:
        status = main(words)
    except SystemExit as ended:
        status = int(str(ended.code))
    (line,) = capsys.readouterr().err.splitlines()
    assert status == 2, line
    return line


@pytest.mark.parametrize("command", ["predict", "runtime", "export"])
def test_outputs_that_are_no_files_stay_as_they_are(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "file")

    def call(name: str) -> int:
        words = [str(place / "run"), "--out", str(tmp_path / name), "--overwrite"]
        if command == "runtime":
            return runtime(words)
        return main([command, *words, *(["--format", "c"] if command == "export" else [])])

    assert call("pipe") == call("loop") == 2
    first, second = capsys.readouterr().err.splitlines()
    assert "pipe is a device or a pipe, not a file" in first and "loop" in second
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "loop").is_symlink()
    assert call("link") == 0
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() != "old"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "gcn", "--set", "lr=inf"], "lr is inf"),
        (["run", "gcn", "--set", "dropout=1.5"], "dropout is 1.5; it must be at least 0"),
        (["run", "gcn", "--set", "lr=1_0"], "lr: '1_0' is not a number such as 0.5"),
        (["run", "gcn", "--set", "lr=1,5"], "lr: '1,5' is not a number such as 0.5"),
        (["run", "gcn", "--set", "hidden=1e9"], "hidden: '1e9' is not a whole number such as 64"),
        (["search", "--hidden", "1_0"], "'1_0' is not a whole number such as 64"),
        (["search", "--lr-weight", "1,5"], "'1,5' is not a number such as 0.5"),
        (["search", "--dropout", "٣"], "'٣' is not a number such as 0.5"),
        (["search", "--edge-shares", "0.5,1_0"], "'1_0' is not a number such as 0.5"),
        (["search", "--time-limit", "９m"], "give a duration such as 60s"),
        (["run", "gcn", "--set", "epochs=0"], "epochs is 0; it must be above 0"),
        (["run", "gcn", "--set", "hidden=-1"], "hidden is -1"),
        (["run", "gcn", "--set", "hidden=" + "9" * 30], "must lie between 0 and 2**31"),
        (["run", "gcn", "--data", ""], "the value is empty"),
        (["run", "gcn", "--threads", "100000"], "'100000' is not a whole number from 1 to 1024"),
        (["tune", "gcn", "--data", ""], "the value is empty"),
        (["front", "--data", ""], "the value is empty"),
        (["evaluate", ""], "the value is empty"),
        (["predict", "", "--out", "o"], "the value is empty"),
        (["export", "", "--format", "c", "--out", "o"], "the value is empty"),
        (["search", "--settings", ""], "the value is empty"),
        (["explain", ""], "the value is empty"),
        (["report", ""], "the value is empty"),
        (["leaderboard", ""], "the value is empty"),
        (["compare", "a", ""], "the value is empty"),
        (["table", "--results", ""], "the value is empty"),
        (["predict", "run", "--add", "nodes.csv", "", "--out", "o"], "the value is empty"),
        (["predict", "run", "--json="], "the value is empty"),
        (["run", "gcn", "--data", "a\0b"], "the value holds a NUL character"),
        (["search", "--max-latency-ms", "1,5"], "decimals need a point"),
        (["search", "--out", "/"], "/ is the root of the file system"),
        (["search", "--epochs", "9" * 30], "epochs is 1e+30; it must lie below 2**31"),
        (["search", "--lr-weight", "inf"], "lr_weight is inf; it must be finite"),
    ],
)
def test_absurd_calls_are_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert said in refused([*words, *(["--quiet"] if words[0] == "search" else [])], capsys)


def test_empty_names_of_the_runtime_and_of_python(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([""], [str(place / "run"), "--data", ""], [str(place / "run"), "--out", ""]):
        with pytest.raises(SystemExit, match="2"):
            runtime(words)
        assert "the value is empty" in capsys.readouterr().err
    for reader in (read, read_inputs):
        with pytest.raises(GassipError, match="the path is empty"):
            reader("")


@pytest.mark.parametrize("text", ["final_ops = 5", 'edge_shares = ["a"]', "epochs = " + "9" * 30])
def test_settings_of_a_wrong_kind_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    file = tmp_path / "s.toml"
    file.write_text(text)
    line = refused(["search", "--settings", str(file), "--quiet"], capsys)
    assert text.split()[0] in line
    file.write_text("a = " + "[" * 5000)
    assert "cannot read settings" in refused(["search", "--settings", str(file), "--quiet"], capsys)


@pytest.mark.parametrize("kind", [MemoryError, OSError])
def test_after_a_fault_of_the_machine_a_search_goes_on(
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: type[BaseException],
) -> None:
    """What has been searched is kept, and the line says how to go on."""

    def broken(*args: object, **kwargs: object) -> None:
        raise kind("out of memory")

    monkeypatch.setattr("gassip.budget.timed.retrain_best", broken)
    words = ["search", "--data", str(place / "g.npz"), "--out", str(tmp_path / "o"), *QUICK]
    line = refused([*words, "--quiet"], capsys)
    assert line.startswith("gassip: error: out of memory; go on with: gassip search")
    assert line.endswith("--resume")
    monkeypatch.undo()
    assert main([*words, "--resume"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o"]


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit])
def test_nothing_of_a_failed_search_stays(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise kind("out of memory")

    monkeypatch.setattr("gassip.budget.timed.retrain_best", broken)
    words = ["search", "--data", str(place / "g.npz"), "--out", str(tmp_path / "a" / "o"), *QUICK]
    try:
        assert main(words) == 2
    except SystemExit:
        assert kind is SystemExit
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    assert main(words) == 0


def test_an_overwriting_that_was_killed_between_its_renames(place: Path, tmp_path: Path) -> None:
    contents = {path.name: path.read_bytes() for path in (place / "run").iterdir()}
    artefact.write_folder(tmp_path / "run", contents)
    (tmp_path / "run").rename(tmp_path / ".run.old")
    assert open_run(tmp_path / "run").meta["nodes"] == 18
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_weights_that_are_not_numbers_are_refused(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(place / "run", tmp_path / "run")
    tensors = load((tmp_path / "run" / "model.safetensors").read_bytes())
    tensors["layers.0.weight"][0, 0] = float("nan")
    refit(tmp_path / "run", {"model.safetensors": save(tensors)})
    line = refused(["predict", str(tmp_path / "run"), "--out", str(tmp_path / "l.csv")], capsys)
    assert "layers.0.weight holds values that are NaN or infinite" in line
    assert runtime([str(tmp_path / "run"), "--out", str(tmp_path / "l.csv")]) == 2
    assert read_meta(tmp_path / "run")["nodes"] == 18


def test_a_run_without_its_test_nodes_is_not_exported(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(place / "run", tmp_path / "run"))
    tensors = load((run / "graph.safetensors").read_bytes())
    del tensors["test_mask"]
    refit(run, {"graph.safetensors": save(tensors)})
    for command, *more in (("export", "--format", "runtime"), ("pack",)):
        line = refused([command, str(run), *more, "--out", str(tmp_path / "o")], capsys)
        assert "the run is not complete: test_mask is missing" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_the_runtime_shows_no_warnings_of_libraries(place: Path, tmp_path: Path) -> None:
    """In a process of its own, where warnings are no errors."""
    shutil.copytree(place / "run", tmp_path / "run")
    tensors = load((tmp_path / "run" / "model.safetensors").read_bytes())
    tensors["layers.0.weight"][:] = 3e38
    refit(tmp_path / "run", {"model.safetensors": save(tensors)})
    words = ["-m", "gassip.runtime", str(tmp_path / "run"), "--out", str(tmp_path / "l.csv")]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2 and "too large for the net" in line


def test_probabilities_are_numbers_and_cells_no_formulas() -> None:
    text = labels_csv(["-1", "=1+1", "+a", "b"], ["@x", "-2.5", "c,d", "e"], [0.5] * 4)
    assert text.splitlines()[1:] == [
        "-1,'@x,0.500000",
        "'=1+1,-2.5,0.500000",
        '\'+a,"c,d",0.500000',
        "b,e,0.500000",
    ]
    with pytest.raises(GassipError, match="probability of node 'a' is nan"):
        labels_csv(["a"], ["b"], [float("nan")])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"y": np.array([0, 1] * 8 + [2**64 - 1] * 2, dtype=np.uint64)}, "label 18446744073709551"),
        ({"class_names": np.array(["a", "b", "a"])}, "class_names holds 'a' twice"),
        ({"class_names": np.arange(10**5).astype("U")}, "there are 100000 classes, but 18 nodes"),
        ({"class_names": np.array(["a", "b", "\ud800"])}, "is not a valid text"),
        ({"train_mask": np.zeros(18, dtype=[("a", "?")])}, "train_mask must hold True/False"),
        ({"edge_weight": np.array(["1"] * 66)}, "edge_weight must hold numbers"),
        ({"edge_weight": np.ones(66) * 1j}, "edge_weight must hold numbers"),
    ],
)
def test_arrays_that_mean_nothing(
    make_graph: Callable[..., Graph], tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(GassipError, match=said):
        read(write(tmp_path / "g.npz", make_graph(), **changed))


def test_the_runtime_reads_edge_weights_as_strictly(
    place: Path, make_graph: Callable[..., Graph], tmp_path: Path
) -> None:
    for values in (["1"] * 66, np.ones(66) * 1j, np.zeros(66, dtype="M8[D]")):
        path = write(tmp_path / "g.npz", make_graph(), edge_weight=np.array(values))
        assert runtime([str(place / "run"), "--data", str(path), "--out", "o.csv"]) == 2


def test_tables_with_labels_and_weights_that_are_easily_misread(tmp_path: Path) -> None:
    rows = ["id,label,f", "a,x,1", "b,y,2", "c,-1,3", "d,NaN,4", "e,x,5", "f,y,6", "g,x,7", "h,y,8"]
    (tmp_path / "edges.csv").write_text("source,target,weights\na,b,2\n")
    (tmp_path / "nodes.csv").write_text("\n".join(rows))
    with pytest.raises(GassipError, match="has a column 'weights', which is not read"):
        read(tmp_path)
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    (tmp_path / "nodes.csv").write_text("\n".join(rows).replace("8", "1_000"))
    with pytest.raises(GassipError, match="'1_000', not a number"):
        read(tmp_path)


def test_pipes_as_inputs_do_not_hang(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("g.npz", "g.pt", "s.toml", "meta.json"):
        os.mkfifo(tmp_path / name)
    for name in ("g.npz", "g.pt"):
        words = ["search", "--data", str(tmp_path / name), "--out", str(tmp_path / "o")]
        assert "device or a pipe" in refused([*words, "--quiet"], capsys)
    words = ["search", "--settings", str(tmp_path / "s.toml"), "--quiet"]
    assert "device or a pipe" in refused(words, capsys)
    assert "device or a pipe" in refused(["predict", str(tmp_path), "--out", "o"], capsys)


def test_a_device_without_memory_is_refused(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["search", "--data", str(place / "g.npz"), "--out", str(tmp_path / "o"), "--quiet"]
    assert "device 'meta' cannot be used" in refused([*words, "--device", "meta"], capsys)
