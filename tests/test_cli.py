import csv
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, get_args, get_origin

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gassip
from gassip import cli, metrics
from gassip.budget.limits import gcn64
from gassip.cli import main
from gassip.commands import common, evaluate
from gassip.commands.flags import SETTING
from gassip.graph.graph import Graph
from gassip.operations import gcn_weights
from gassip.runs import checkpoint
from gassip.runs import folder as run_folder
from gassip.runs import write as artefact
from gassip.settings import Settings
from gassip.settings.settings import FIELDS, Field
from gassip.train.events import Lines
from gassip.train.plan import Plan

QUICK = [
    "--preset",
    "paper",
    "--epochs",
    "5",
    "--warmup-epochs",
    "2",
    "--retrain-epochs",
    "3",
    "--hidden",
    "8",
]
Arrays = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def arrays(make_graph: Callable[..., Graph]) -> Arrays:
    data = make_graph(nodes=60, edges=200).to_data()
    names = ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask")
    return {name: data[name].numpy().copy() for name in names}


@pytest.fixture(scope="module")
def ready(arrays: Arrays, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with graph.npz and a run of it, made once."""
    folder = tmp_path_factory.mktemp("ready")
    np.savez(folder / "graph.npz", **arrays)  # type: ignore[arg-type]
    made = [
        "search",
        "--data",
        str(folder / "graph.npz"),
        "--out",
        str(folder / "run"),
        "--quiet",
        "--json",
        *QUICK,
    ]
    assert main([*made, "--edge-rule", "budget", "--edge-share", "0.5"]) == 0
    return folder


def save_npz(arrays: Arrays, **changes: np.ndarray | None) -> None:
    kept = {name: value for name, value in (arrays | changes).items() if value is not None}
    np.savez("graph.npz", **kept)  # type: ignore[arg-type]


def refused(capsys: pytest.CaptureFixture[str], arguments: list[str], *parts: str) -> None:
    """Status 2, one line, nothing on stdout, and no file that was not there before."""
    before = sorted(Path().rglob("*"))
    try:
        status = main(arguments)
    except SystemExit as error:  # argparse's own way
        status = int(str(error.code))
    out, err = capsys.readouterr()
    assert status == 2 and out == "", (status, out)
    assert err.startswith("gassip: error: ") and err.count("\n") == 1 and err.endswith("\n"), err
    for part in parts:
        assert part in err
    assert sorted(Path().rglob("*")) == before


# search


def test_search_ends_with_a_summary_and_the_folder(
    arrays: Arrays, capsys: pytest.CaptureFixture[str]
) -> None:
    save_npz(arrays, train_mask=None, val_mask=None, test_mask=None)
    assert main(["search", "--data", "graph.npz", *QUICK]) == 0
    out, err = capsys.readouterr()
    for part in (
        "architecture",
        "accuracy",
        "macro-f1",
        "roc-auc",
        "weights kept",
        "edges kept",
        "seconds",
    ):
        assert part in out
    assert "no masks given" in out and "written to runs/graph-paper-seed0" in out
    assert "gassip evaluate runs/graph-paper-seed0" in out and "gassip predict" in out
    assert "search 5/5" in err and "entropy" in err and "retrain 3/3" in err
    assert sorted(os.listdir("runs")) == ["graph-paper-seed0"]
    assert set(os.listdir("runs/graph-paper-seed0")) == {
        "meta.json",
        "decisions.json",
        "leaderboard.json",
        "inputs.safetensors",
        "statistics.safetensors",
        "report.html",
        *artefact.FILES,
    }


def test_json_is_the_meta_and_nothing_else(
    arrays: Arrays, capsys: pytest.CaptureFixture[str]
) -> None:
    save_npz(arrays)
    assert (
        main(["search", "--data", "graph.npz", "--out", "run", "--seed", "4", "--json", *QUICK])
        == 0
    )
    meta = json.loads(capsys.readouterr().out)
    assert meta == json.loads(Path("run/meta.json").read_text())
    assert (
        meta["seed"] == 4
        and meta["settings"]["epochs"] == 5
        and meta["source"]["path"] == str(Path("graph.npz").resolve())
    )


def test_quiet_shows_no_progress(arrays: Arrays, capsys: pytest.CaptureFixture[str]) -> None:
    save_npz(arrays)
    assert main(["search", "--data", "graph.npz", "--quiet", *QUICK]) == 0
    assert capsys.readouterr().err == ""


def test_on_a_terminal_there_is_a_bar(
    arrays: Arrays, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save_npz(arrays)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["search", "--data", "graph.npz", *QUICK]) == 0
    err = capsys.readouterr().err
    assert "━" in err and "left 0 s" in err and "best " in err and "‖" in err


def words_of(own: Field) -> tuple[list[str], object]:
    """A flag as it is written, and what it should be read as."""
    flag, default = "--" + own.name.replace("_", "-"), own.default
    if own.kind is bool:
        return [f"--no-{flag[2:]}"], False
    if get_origin(own.kind) is Literal:
        last = get_args(own.kind)[-1]
        return [flag, last], last
    if isinstance(default, tuple):
        return [flag, ",".join(map(str, default))], default
    return [flag, str(default)], default


@pytest.mark.parametrize("command", ["search", "front"])
def test_every_setting_is_a_flag(command: str) -> None:
    parser = cli.build_parser()
    for own in FIELDS.values():
        words, expected = words_of(own)
        values = vars(parser.parse_args([command, *words]))
        assert values[SETTING + own.name] == expected
    assert not any(name.startswith(SETTING) for name in vars(parser.parse_args([command])))


def test_flags_win_over_the_file_and_the_file_over_the_preset(
    arrays: Arrays, capsys: pytest.CaptureFixture[str]
) -> None:
    save_npz(arrays)
    Path("mine.toml").write_text(
        'epochs = 9\nhidden = 4\nops = ["Linear", "GCNConv"]\nprune = false\n'
    )
    given = [
        "--settings",
        "mine.toml",
        "--epochs",
        "3",
        "--retrain-epochs",
        "2",
        "--json",
        "--quiet",
    ]
    assert main(["search", "--data", "graph.npz", *given]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert (settings["epochs"], settings["hidden"], settings["ops"]) == (
        3,
        4,
        ["Linear", "GCNConv"],
    )
    assert settings["prune"] is False and settings["lr_alpha"] == FIELDS["lr_alpha"].default


def test_equal_seeds_give_equal_bits(arrays: Arrays) -> None:
    save_npz(arrays)
    for name in ("one", "two"):
        assert main(["search", "--data", "graph.npz", "--out", name, "--quiet", *QUICK]) == 0
    for file in ("model.safetensors", "found.safetensors", "graph.safetensors"):
        assert Path("one", file).read_bytes() == Path("two", file).read_bytes()


# wrong input


def nan(arrays: Arrays) -> Arrays:
    x = arrays["x"].copy()
    x[3, 1] = np.nan
    return {"x": x}


def outside(arrays: Arrays) -> Arrays:
    return {"edge_index": np.array([[0, 1], [1, 77]])}


def one_based(arrays: Arrays) -> Arrays:
    return {"edge_index": np.array([[1, 2], [2, 60]])}


def no_edges(arrays: Arrays) -> Arrays:
    return {"edge_index": np.zeros((2, 0), dtype=np.int64)}


def one_class(arrays: Arrays) -> Arrays:
    return {"y": np.zeros(60, dtype=np.int64)}


def class_without_training(arrays: Arrays) -> Arrays:
    return {"train_mask": arrays["train_mask"] & (arrays["y"] != 2)}


def overlapping(arrays: Arrays) -> Arrays:
    return {"val_mask": arrays["val_mask"] | arrays["train_mask"]}


def lengths(arrays: Arrays) -> Arrays:
    return {"y": arrays["y"][:-1]}


def pickled(arrays: Arrays) -> Arrays:
    return {"x": np.array([{"a": 1}], dtype=object)}


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (nan, "NaN"),
        (outside, "node 77"),
        (one_based, "1-based"),
        (no_edges, "no edges"),
        (one_class, "at least two"),
        (class_without_training, "no training node"),
        (overlapping, "overlap"),
        (lengths, "59"),
        (pickled, "x is damaged or holds Python objects"),
    ],
)
def test_a_wrong_graph_is_one_line_and_nothing_written(
    arrays: Arrays,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Arrays], Arrays],
    part: str,
) -> None:
    save_npz(arrays, **change(arrays))
    refused(capsys, ["search", "--data", "graph.npz", "--out", "deep/er/run"], part, "graph.npz")


class Hostile:
    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("touch was-run",)


def test_a_truncated_or_hostile_file_is_one_line(
    ready: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (ready / "graph.npz").read_bytes()
    Path("cut.npz").write_bytes(whole[: len(whole) // 2])
    Path("graph.pt").write_bytes(pickle.dumps(Hostile()))
    torch.save({"x": Hostile()}, "zip.pt")
    Path("note.txt").write_text("not a graph")
    for name in ("cut.npz", "graph.pt", "zip.pt", "note.txt", "missing.npz"):
        refused(capsys, ["search", "--data", name], name)


def test_wrong_usage_is_one_line(arrays: Arrays, capsys: pytest.CaptureFixture[str]) -> None:
    save_npz(arrays)
    own = ["search", "--data", "graph.npz"]
    Path("bad.toml").write_text("epochs = [")
    Path("odd.json").write_text('{"epoch": 3}')
    refused(capsys, ["search", "--dataset", "coro"], "did you mean cora")
    refused(capsys, [*own, "--dataset", "cora"], "not allowed with")
    refused(capsys, [*own, "--preset", "papre"], "paper")
    refused(capsys, [*own, "--settings", "bad.toml"], "bad.toml")
    refused(capsys, [*own, "--settings", "odd.json"], "'epoch'")
    refused(capsys, [*own, "--epochs", "0"], "epochs is 0")
    refused(capsys, [*own, "--epochs", "many"], "--epochs", "gassip search --help")
    refused(capsys, [*own, "--dropout", "1"], "dropout")
    refused(capsys, [*own, "--ops", "GCNConv,Magic"], "Magic")
    refused(capsys, [*own, "--seed", "-1"], "--seed")
    refused(capsys, [*own, "--threads", "0"], "--threads")
    refused(capsys, [*own, "--metric", "loss"], "roc-auc")
    refused(capsys, [*own, "--device", "abacus"], "abacus")
    refused(capsys, [*own, "--device", "cuda:99"], "cuda:99")
    refused(capsys, ["sarch"], "sarch")
    refused(capsys, ["evaluate", "nowhere", "--seeds", "2"], "nowhere/meta.json")
    refused(capsys, ["evaluate", "nowhere"], "--seeds")
    refused(capsys, ["predict", "nowhere", "--out", "labels.csv"], "nowhere/meta.json")


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "20000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)],
)
def test_threads_that_wait_sleep_soon_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: str | None
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that it is as before when this ends
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    main([])
    assert os.environ.get("GOMP_SPINCOUNT") == expected


def test_without_arguments_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "gassip" in capsys.readouterr().err
    for command in ("evaluate", "predict", "datasets", "explain"):
        with pytest.raises(SystemExit) as done:
            main([command, "--help"])
        assert done.value.code == 0 and f"example: gassip {command}" in capsys.readouterr().out
    for command in ("search", "front"):
        assert main([command, "--help"]) == 0
        assert f"example: gassip {command}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--help"], ["search", "--help"], ["datasets"]])
def test_help_and_the_list_do_without_torch(arguments: list[str]) -> None:
    code = "import sys, gassip.cli\ntry: gassip.cli.main(sys.argv[1:])\nexcept SystemExit: pass\n"
    code += "sys.exit('torch' in sys.modules)"
    own = {"PYTHONPATH": str(Path(cli.__file__).parents[1]), "HOME": "/"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=own, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout and not done.stderr


def test_names_kept_beside_torch_are_those_of_the_modules() -> None:
    assert common.METRICS == metrics.METRICS


@pytest.mark.parametrize(
    "wrong", [["--size-steps", "1,x"], ["--edge-scores", "up"], ["--layers", "1.5"]]
)
def test_a_wrong_value_is_one_line(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, ["search", *wrong], repr(wrong[1].rpartition(",")[2]))


def test_public_names_are_there_and_functions_win_over_modules() -> None:
    for name in gassip.__all__:
        assert getattr(gassip, name) is not None
    assert callable(gassip.search) and callable(
        gassip.retrain
    )  # modules of these names are imported by now
    with pytest.raises(AttributeError, match="nonsense"):
        _ = gassip.nonsense


# folders that exist, kills, full disks


def test_a_folder_that_exists_is_kept(ready: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(ready / "run", "run")
    Path("letters").mkdir()
    Path("letters/letter.txt").write_text("dear")
    own = ["search", "--data", str(ready / "graph.npz"), "--quiet", *QUICK]
    refused(capsys, [*own, "--out", "run"], "run exists", "--overwrite")
    refused(capsys, [*own, "--out", "run", "--resume"], "nothing to resume")
    refused(capsys, [*own, "--out", "letters", "--overwrite"], "not the folder of a run")
    refused(capsys, [*own, "--out", "letters/letter.txt/run"], "letter.txt is not a folder")
    assert main([*own, "--out", "run", "--overwrite", "--seed", "8"]) == 0
    assert artefact.open_run("run").meta["seed"] == 8
    assert sorted(os.listdir()) == ["letters", "run"]


def interrupt_at(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """As Ctrl-C would, at a line of progress."""
    real = Lines.say

    def say(self: Lines, line: str) -> None:
        if text in line:
            raise KeyboardInterrupt
        real(self, line)

    monkeypatch.setattr(Lines, "say", say)


@pytest.mark.parametrize("moment", ["search 4/5", "retrain 2/3"])
def test_an_interrupted_search_says_how_to_go_on(
    ready: Path, moment: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = [
        "search",
        "--data",
        str(ready / "graph.npz"),
        "--out",
        "run",
        "--checkpoint-every",
        "2",
        *QUICK,
    ]
    with monkeypatch.context() as patch:
        interrupt_at(patch, moment)
        assert main(own) == 130
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(
        "gassip: error: interrupted; go on with: gassip search"
    ) and last.endswith("--resume")
    assert os.listdir() == ["run.partial"]
    refused(capsys, own, "--resume", "--overwrite")
    refused(capsys, [*own, "--resume", "--seed", "3"], "seed = 0, not 3")
    assert main([*own, "--resume"]) == 0
    assert main([*own[:3], "--out", "whole", *QUICK]) == 0
    assert (
        Path("run/model.safetensors").read_bytes() == Path("whole/model.safetensors").read_bytes()
    )
    assert sorted(os.listdir()) == ["run", "whole"]


def test_interrupted_before_the_first_checkpoint_nothing_stays(
    ready: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt_at(monkeypatch, "search 1/5")
    assert main(["search", "--data", str(ready / "graph.npz"), *QUICK]) == 130
    assert "nothing was kept" in capsys.readouterr().err
    assert os.listdir() == []


def test_a_damaged_checkpoint_is_refused_and_overwrite_starts_anew(
    ready: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = [
        "search",
        "--data",
        str(ready / "graph.npz"),
        "--out",
        "run",
        "--checkpoint-every",
        "1",
        *QUICK,
    ]
    with monkeypatch.context() as patch:
        interrupt_at(patch, "search 3/5")
        assert main(own) == 130
    capsys.readouterr()
    path = Path("run.partial", checkpoint.FILE)
    path.write_bytes(path.read_bytes()[:-9])
    refused(capsys, [*own, "--resume"], checkpoint.FILE, "damaged")
    assert main([*own, "--overwrite"]) == 0
    assert os.listdir() == ["run"]


def test_resume_with_nothing_there_starts(ready: Path) -> None:
    Path("run.partial").mkdir()  # killed before its first checkpoint
    assert (
        main(
            [
                "search",
                "--data",
                str(ready / "graph.npz"),
                "--out",
                "run",
                "--resume",
                "--quiet",
                *QUICK,
            ]
        )
        == 0
    )
    assert os.listdir() == ["run"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, 64 kB; needs the right to mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no right to mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("every", ["2", "1000"])
def test_a_full_disk_is_one_line_and_nothing_stays(
    ready: Path, small_disk: Path, every: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own = [
        "search",
        "--data",
        str(ready / "graph.npz"),
        "--quiet",
        *QUICK,
        "--hidden",
        "64",
        "--checkpoint-every",
        every,
    ]
    refused(capsys, [*own, "--out", str(small_disk / "runs/run")], "No space left on device")


def test_a_disk_that_fills_up_at_the_end(
    ready: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    for writer in (artefact, run_folder):  # the checkpoint has its own name for it
        monkeypatch.setattr(writer, "replace_file", full)
    own = ["search", "--data", str(ready / "graph.npz"), "--out", "runs/run", "--quiet", *QUICK]
    assert main(own) == 2  # the checkpoint stays, so that the search can go on
    line = capsys.readouterr().err
    assert "cannot write runs/run: No space left on device; go on with: gassip search" in line
    assert line.count("\n") == 1 and os.listdir("runs") == ["run.partial"]
    refused(capsys, ["evaluate", str(ready / "run"), "--seeds", "1", "--quiet"], "No space left")


# evaluate, predict, datasets


def test_evaluate_gives_mean_and_deviation(ready: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(ready / "run", "run")
    assert main(["evaluate", "run", "--seeds", "3", "--json", "--quiet"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result == json.loads(Path("run/evaluate.json").read_text())
    test = result["scores"]["accuracy"]["test"]
    (values,) = test["values"]
    assert len(values) == 3 and test["mean"] == pytest.approx(np.mean(values))
    assert test["std"] == pytest.approx(np.std(values, ddof=1)) and test["std_searches"] is None
    # the first seed is the run's own, so the first retraining is the run itself
    assert values[0] == artefact.open_run("run").meta["accuracy"]["test"]


def test_evaluate_tells_the_spread_of_searches_from_that_of_retrains(
    ready: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ready / "run", "run")
    assert main(["evaluate", "run", "--seeds", "2", "--searches", "2"]) == 0
    assert "over searches" in capsys.readouterr().out
    result = json.loads(Path("run/evaluate.json").read_text())
    assert result["search_seeds"] == [0, 1] and len(result["architectures"]) == 2


def test_evaluate_searches_again_by_the_runs_settings(
    ready: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, asked = artefact.open_run(ready / "run"), []
    shutil.copytree(ready / "run", "run")

    def spy(graph: Graph, settings: Settings, budget: object, **options: object) -> list[Plan]:
        asked.append(settings)
        return [run.plan]

    monkeypatch.setattr("gassip.budget.candidates.search_within", spy)
    assert main(["evaluate", "run", "--seeds", "1", "--searches", "2", "--quiet"]) == 0
    assert asked == [run.plan.settings]


def test_spread_by_hand() -> None:
    # means 2 and 6, deviations √2 and √8; all of 1 3 4 8: mean 4, squares 9 1 0 16, deviation
    # √(26/3)
    spread = evaluate.spread([[1.0, 3.0], [4.0, 8.0]])
    assert spread["mean"] == 4.0 and spread["std"] == pytest.approx((26 / 3) ** 0.5)
    assert spread["std_searches"] == pytest.approx(8**0.5)
    assert spread["std_retrains"] == pytest.approx((2**0.5 + 8**0.5) / 2)


def labels(path: str) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_predict_labels_the_runs_own_graph(ready: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(ready / "run"), "--out", "labels.csv"]) == 0
    rows = labels("labels.csv")
    assert (
        len(rows) == 60 and list(rows[0]) == ["id", "label", "probability"] and rows[7]["id"] == "7"
    )
    run = artefact.open_run(ready / "run")
    with np.load(ready / "graph.npz") as arrays:
        logits = run.model(torch.from_numpy(arrays["x"]), run.edge_index, run.edge_weight)
    assert [row["label"] for row in rows] == [str(k) for k in logits.argmax(1).tolist()]
    capsys.readouterr()
    assert main(["predict", str(ready / "run"), "--out", "-"]) == 0
    assert capsys.readouterr().out == Path("labels.csv").read_text() and not Path("-").exists()
    refused(capsys, ["predict", str(ready / "run"), "--out", "labels.csv"], "labels.csv exists")
    assert main(["predict", str(ready / "run"), "--out", "labels.csv", "--overwrite"]) == 0


def test_predict_needs_no_labels(ready: Path, arrays: Arrays) -> None:
    bare = {"train_mask": None, "val_mask": None, "test_mask": None, "y": None}
    save_npz(arrays, **bare)
    assert main(["predict", str(ready / "run"), "--data", "graph.npz", "--out", "same.csv"]) == 0
    assert main(["predict", str(ready / "run"), "--out", "own.csv"]) == 0
    assert labels("same.csv") == labels(
        "own.csv"
    )  # known again as the run's graph: its kept edges are used
    save_npz(arrays, **bare, edge_index=arrays["edge_index"][:, 5:])
    assert main(["predict", str(ready / "run"), "--data", "graph.npz", "--out", "other.csv"]) == 0
    run = artefact.open_run(ready / "run")
    logits = run.model(torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["edge_index"][:, 5:]))
    expected = torch.softmax(logits.double(), 1).max(1).values.tolist()
    assert [float(row["probability"]) for row in labels("other.csv")] == pytest.approx(
        expected, abs=1e-5
    )


def write_csv(folder: Path, arrays: Arrays, columns: tuple[str, ...]) -> None:
    folder.mkdir()
    with (folder / "nodes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, *(f"f{k}" for k in range(6))])
        for i, x in enumerate(arrays["x"].tolist()):
            cells = {"id": f"node-{i}", "label": f"kind {arrays['y'][i]}"}
            writer.writerow([*(cells[name] for name in columns), *x])
    pairs = [f"node-{a},node-{b}\n" for a, b in arrays["edge_index"].T]
    (folder / "edges.csv").write_text("source,target\n" + "".join(pairs))


def test_csv_folders_keep_their_ids_and_names(
    arrays: Arrays, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(Path("known"), arrays, ("id", "label"))
    write_csv(Path("new"), arrays, ("id",))
    assert main(["search", "--data", "known", "--out", "run", "--quiet", *QUICK]) == 0
    for arguments in (["--out", "a.csv"], ["--data", "new", "--out", "b.csv"]):
        assert main(["predict", "run", *arguments]) == 0
    assert labels("a.csv") == labels("b.csv")
    assert labels("a.csv")[9]["id"] == "node-9" and labels("a.csv")[9]["label"].startswith("kind ")
    (Path("new") / "edges.csv").write_text("source,target\nnode-1,nobody\n")
    capsys.readouterr()
    refused(capsys, ["predict", "run", "--data", "new", "--out", "c.csv"], "nobody")


def test_predict_from_a_pyg_file(ready: Path, arrays: Arrays) -> None:
    edges = torch.from_numpy(arrays["edge_index"])
    torch.save(Data(x=torch.from_numpy(arrays["x"]), edge_index=edges), "graph.pt")
    assert main(["predict", str(ready / "run"), "--data", "graph.pt", "--out", "labels.csv"]) == 0
    assert main(["predict", str(ready / "run"), "--out", "own.csv"]) == 0
    assert labels("labels.csv") == labels("own.csv") and len(labels("own.csv")) == 60


def test_predict_refuses_what_does_not_fit(
    ready: Path, arrays: Arrays, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ["predict", str(ready / "run"), "--data", "graph.npz", "--out", "labels.csv"]
    save_npz(arrays, x=arrays["x"][:, :4])
    refused(capsys, own, "x has 4 features", "6")
    save_npz(arrays, **one_based(arrays))
    refused(capsys, own, "1-based")
    Path("graph.npz").write_bytes(b"PK")
    refused(capsys, own, "graph.npz")
    refused(capsys, [*own[:3], "graph.txt", *own[4:]], "graph.txt: no such file or folder")
    Path("graph.txt").write_text("")
    refused(capsys, [*own[:3], "graph.txt", *own[4:]], "expected a .npz")
    where = ["predict", "no-run", "--out"]  # before the run is opened
    refused(
        capsys,
        [*where, "no/labels.csv"],
        "error: no/labels.csv cannot be written: there is no folder no",
    )
    refused(capsys, [*where, str(ready), "--overwrite"], "is a folder; --out must name a file")


def test_a_graph_that_changed_since_is_noticed(
    arrays: Arrays, capsys: pytest.CaptureFixture[str]
) -> None:
    save_npz(arrays)
    assert main(["search", "--data", "graph.npz", "--out", "run", "--quiet", *QUICK]) == 0
    capsys.readouterr()
    save_npz(arrays, edge_index=arrays["edge_index"][:, 2:])
    refused(capsys, ["predict", "run", "--out", "labels.csv"], "no longer the graph")
    refused(capsys, ["evaluate", "run", "--seeds", "2"], "no longer the graph")
    Path("graph.npz").unlink()
    refused(capsys, ["evaluate", "run", "--seeds", "2"], "graph.npz")


def test_datasets_lists_names_and_where_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["datasets"]) == 0
    assert "debian" in capsys.readouterr().out
    assert main(["datasets", "--json"]) == 0
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["datasets"]}
    assert (
        listed["debian"]["available"] == "here"
        and {"cora", "ogbn-arxiv", "physics"} <= listed.keys()
    )


def test_shares_refer_to_the_gcn_of_the_budget(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(0)
    weights = gcn_weights(graph.num_features, graph.num_classes)
    assert weights == sum(p.numel() for p in gcn64(graph).parameters())
