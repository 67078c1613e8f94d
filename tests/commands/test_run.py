import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gassip
from gassip.bench import tuned
from gassip.bench.records import Book
from gassip.best.pipeline import search
from gassip.cli import main
from gassip.commands.run_processes import deal
from gassip.commands.table import rows
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.methods import METHODS, entry
from gassip.runs.write import open_run
from gassip.settings import Settings
from gassip.train.plan import Plan
from tests.conftest import random_graph

QUICK = ["--set", "epochs=4", "--set", "hidden=8", "--quiet"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    data = random_graph(2, nodes=60, edges=160).to_data()
    names = ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask")
    np.savez("toy.npz", **{name: data[name].numpy() for name in names})
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_methods_lists_every_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["methods"]
    assert [own["name"] for own in listed] == list(METHODS)
    assert all(own["family"] and own["about"] and own["reference"] for own in listed)
    assert main(["methods"]) == 0
    assert "hand-made:\n  gcn " in capsys.readouterr().out


def test_a_run_prints_a_summary_and_writes_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "gcn", "--data", "toy.npz", "--out", "made", *QUICK]) == 0
    assert "weights kept" in capsys.readouterr().out
    meta = json.loads(Path("made/meta.json").read_text())
    assert (meta["method"], meta["settings"]["hidden"], meta["seed"]) == ("gcn", 8, 0)
    keys = {
        "schema",
        "dataset",
        "source",
        "nodes",
        "features",
        "class_names",
        "preset",
        "metric",
        "architecture",
        "net",
    }
    keys |= {
        "found",
        "weights_kept",
        "edges_kept",
        "accuracy",
        "scores",
        "seconds",
        "best_epoch",
        "versions",
        "files",
    }
    assert keys <= set(meta)
    assert len(Path("made/history.csv").read_text().splitlines()) == 5
    with pytest.raises(GassipError, match="a run of `gassip run gcn`"):
        open_run("made")
    assert main(["run", "gcn", "--data", "toy.npz", "--out", "made", *QUICK]) == 2
    assert (
        main(
            [
                "run",
                "gat",
                "--data",
                "toy.npz",
                "--out",
                "made",
                "--overwrite",
                *QUICK[2:],
                *QUICK[:2],
            ]
        )
        == 0
    )
    assert json.loads(Path("made/meta.json").read_text())["net"] is None  # a model of its own


def test_recorded_runs_are_skipped_and_a_batch_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "gcn", "--data", "toy.npz", "--record", *QUICK]
    assert main([*words, "--seeds", "2"]) == 0
    capsys.readouterr()
    assert main([*words, "--seeds", "4", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["records"]
    assert [own["run"]["retrain_seed"] for own in shown] == [0, 1, 2, 3]
    assert [own["batched"] for own in shown] == [2, 2, 2, 2]  # two at first, two more now
    assert len(Book("results").read("toy")[0]) == 4
    assert main([*words, "--seeds", "4"]) == 0
    assert len(Book("results").read("toy")[0]) == 4


SHARING = ["gassip", "gassip-all-edges", "gassip-random-edges"]


def test_methods_of_one_search_search_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ["epochs=3", "warmup_epochs=1", "retrain_epochs=3", "induced_from=1", "hidden=8"]
    settings += ["edge_share=0.5", "retrain_dropouts="]
    words = [word for one in settings for word in ("--set", one)]
    words += ["--data", "toy.npz", "--searches", "2", "--json", "--quiet"]
    alone = []
    for method in SHARING:
        assert main(["run", method, *words]) == 0
        alone += json.loads(capsys.readouterr().out)["records"]
    searched: list[int] = []

    def counted(graph: Graph, settings: Settings, *, seed: int, **options: Any) -> Plan:
        searched.append(seed)
        return search(graph, settings, seed=seed, **options)

    monkeypatch.setattr("gassip.baselines.gassip.search", counted)
    assert main(["run", *SHARING, *words, "--record"]) == 0
    together = json.loads(capsys.readouterr().out)["records"]
    assert searched == [0, 1]
    for name in ("run", "accuracy", "architecture", "edges_kept", "weights_kept"):
        assert [own[name] for own in together] == [own[name] for own in alone]
    assert main(["run", *SHARING, *words, "--record"]) == 0  # all of them are in the book
    assert searched == [0, 1]


def test_several_methods_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "gcn", "mlp", "--data", "toy.npz", *QUICK]) == 0
    out = capsys.readouterr().out
    assert "gcn on toy" in out and "mlp on toy" in out
    assert main(["run", "gcn", "mlp", "--data", "toy.npz", "--out", "made", *QUICK]) == 2
    assert "several methods" in capsys.readouterr().err
    assert main(["run", "gcn", "mpl", "--data", "toy.npz", *QUICK]) == 2
    assert "did you mean mlp" in capsys.readouterr().err


def test_processes_give_the_same_records(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "gcn", "--data", "toy.npz", "--seeds", "4", "--json", *QUICK]
    assert main([*words, "--jobs", "2", "--record"]) == 0
    apart = json.loads(capsys.readouterr().out)["records"]
    assert main(words) == 0
    here = json.loads(capsys.readouterr().out)["records"]
    assert [own["accuracy"] for own in apart] == [own["accuracy"] for own in here]
    assert [own["threads"] for own in apart] == [1] * 4
    assert len(Book("results").read("toy")[0]) == 4


def test_ctrl_c_ends_all_processes_and_keeps_the_book(tmp_path: Path) -> None:
    words = [
        "run",
        "random-edges",
        "--data",
        "toy.npz",
        "--seeds",
        "400",
        "--jobs",
        "2",
        "--record",
        "--quiet",
    ]
    command = [sys.executable, "-m", "gassip", *words, "--set", "epochs=50"]
    env = os.environ | {"PYTHONPATH": str(Path(gassip.__file__).parents[1])}
    started = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=env,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # a shell's background job ignores it
    )
    book, waited = tmp_path / "results" / "toy.jsonl", time.monotonic()
    while not book.exists() and time.monotonic() - waited < 60:
        time.sleep(0.05)
    os.killpg(started.pid, signal.SIGINT)
    _, said = started.communicate(timeout=30)
    assert started.returncode == 130 and said.strip() == "gassip: error: interrupted"
    records, damaged = Book(tmp_path / "results").read("toy")
    assert 0 < len(records) < 400 and damaged == []
    time.sleep(0.3)
    assert Book(tmp_path / "results").read("toy")[0] == records  # nobody writes any more


def test_searches_and_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "run",
        "darts",
        "--data",
        "toy.npz",
        "--searches",
        "2",
        "--seeds",
        "2",
        "--json",
        *QUICK,
    ]
    assert main([*words, "--set", "retrain_epochs=3", "--set", "warmup_epochs=1"]) == 0
    shown = json.loads(capsys.readouterr().out)["records"]
    assert [(own["run"]["search_seed"], own["run"]["retrain_seed"]) for own in shown] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    assert main(["run", "gcn", "--data", "toy.npz", "--searches", "2", *QUICK]) == 2


def test_deal_keeps_a_search_together() -> None:
    from gassip.bench.records import Run

    runs = [
        Run(method="m", settings={}, dataset="d", search_seed=s, retrain_seed=r)
        for s in (0, 1, 2)
        for r in (0, 1)
    ]
    assert [[own.search_seed for own in part] for part in deal(runs, 2)] == [[0, 0, 2, 2], [1, 1]]
    assert [len(part) for part in deal(runs[:2] + runs[:1], 2)] == [2, 1]
    plain = [Run(method="p", settings={}, dataset="d", retrain_seed=r) for r in (0, 1)]
    mixed = deal(runs[:2] + plain, 2)  # one search as a whole, and two trainings
    assert [[(own.method, own.retrain_seed) for own in part] for part in mixed] == [
        [("m", 0), ("m", 1), ("p", 1)],
        [("p", 0)],
    ]
    control = replace(runs[0], method="gassip-all-edges", settings={"edges": "all"})
    assert [
        len(part) for part in deal([replace(runs[0], method="gassip"), control, *plain], 2)
    ] == [
        3,
        1,
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gnc"], "there is no method 'gnc'"),
        (["gcn", "--set", "hiden=3"], "did you mean hidden?"),
        (["gcn", "--set", "hidden"], "NAME=VALUE"),
        (["gcn", "--attack", "flood-1"], "attack is 'flood-1'"),
        (["gcn", "--out", "a", "--seeds", "2"], "--out writes one run's folder"),
        (["gcn", "--out", "a", "--record"], "exclude each other"),
        (["gcn", "--device", "cuda"], "works on the cpu"),
    ],
)
def test_wrong_use_is_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words, "--data", "toy.npz", "--quiet"]) == 2
    shown = capsys.readouterr()
    assert said in shown.err and shown.err.count("\n") == 1 and shown.out == ""


def test_a_failed_run_ends_in_status_1_and_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    with np.load("toy.npz") as arrays:  # features at which a net diverges
        np.savez("toy.npz", **{**arrays, "x": arrays["x"] * 1e38})
    words = ["run", "gcn", "--data", "toy.npz", "--record", *QUICK]
    assert main(words) == 1
    assert "failed (" in capsys.readouterr().out
    (own,), _ = Book("results").read("toy")
    assert own.status == "failed" and own.reason
    assert main(words) == 1 and len(Book("results").read("toy")[0]) == 1  # not tried again
    assert main([*words, "--retry"]) == 1 and len(Book("results").read("toy")[0]) == 2


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table"]) == 2
    capsys.readouterr()
    for method, more in (("mlp", []), ("gcn", ["--seeds", "3"]), ("gcn", ["--set", "dropout=0.1"])):
        assert main(["run", method, "--data", "toy.npz", "--record", *QUICK, *more]) == 0
    capsys.readouterr()
    assert main(["table", "--format", "markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and len({line.count("|") for line in lines}) == 1
    assert [line.split(" | ")[1] for line in lines[2:]] == ["gcn", "gcn", "mlp"]
    three = [record.accuracy["test"] for record in Book("results").read("toy")[0][1:4]]
    mean, std = 100 * np.mean(three), 100 * np.std(three, ddof=1)
    assert (
        f"{mean:.2f} ± {std:.2f} | 3" in lines[2]
        and "dropout=0.5" in lines[2]
        and "dropout=0.1" in lines[3]
    )
    assert main(["table", "--dataset", "toy"]) == 0
    assert "untuned" in capsys.readouterr().out
    assert main(["table", "--dataset", "other"]) == 2


def test_lines_of_a_table_are_compared_within_one_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "gcn", "--data", "toy.npz", "--record", *QUICK]) == 0
    ((new,), _) = Book("results").read("toy")
    run = replace(new.run, settings=new.run.settings | {"dropout": 0.9})
    old = replace(new, run=run, method_version=(new.method_version or 0) + 1)
    assert [line[-1] for line in rows([new])] == ["untuned"]
    ends = [line[-1] for line in rows([new, old])]
    assert ends == [f"untuned version {own.method_version}" for own in (new, old)]


def test_tune_chooses_by_validation_and_run_uses_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuned, "GRID", {"hidden": (4, 8), "dropout": (0.5, 0.8)})
    assert (
        main(["tune", "small-gcn", "--dataset", "debian", "--seeds", "2", "--quiet", "--json"]) == 0
    )
    chosen = json.loads(capsys.readouterr().out)
    best = max(chosen["scores"], key=lambda own: own["mean"])
    assert (
        chosen["settings"] == best["settings"]
        and len(chosen["scores"]) == 4
        and chosen["seeds"] == [0, 1]
    )
    assert all(len(own["val"]) == 2 for own in chosen["scores"])
    assert tuned.chosen_for("debian", "small-gcn") == chosen["settings"]
    assert "debian" in json.loads(Path("tuned.json").read_text())  # where the user is
    words = ["run", "small-gcn", "--dataset", "debian", "--quiet", "--json"]
    assert main(words) == 0
    (own,) = json.loads(capsys.readouterr().out)["records"]
    assert (
        own["tuned"]
        and {k: own["run"]["settings"][k] for k in best["settings"]} == best["settings"]
    )


def test_tune_on_an_own_graph_is_known_by_the_graph_not_by_its_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuned, "GRID", {"hidden": (4, 12), "dropout": (0.5,)})
    assert main(["tune", "small-gcn", "--data", "toy.npz", "--seeds", "1", "--quiet"]) == 0
    assert "small-gcn on toy" in capsys.readouterr().out
    words = ["run", "small-gcn", "--data", "toy.npz", "--set", "epochs=4", "--quiet", "--json"]
    assert main(words) == 0
    chosen = json.loads(Path("tuned.json").read_text())["toy"]["small-gcn"]["settings"]
    (record,) = json.loads(capsys.readouterr().out)["records"]
    assert record["run"]["settings"]["hidden"] == chosen["hidden"]
    data = dict(np.load("toy.npz"))
    np.savez("toy.npz", **(data | {"x": data["x"] + 1}))
    assert main(words) == 0
    (record,) = json.loads(capsys.readouterr().out)["records"]
    assert record["run"]["settings"]["hidden"] == 16  # its own: this is another graph
    Path("tuned.json").write_text('{"toy": {"small-gcn": 3}}')
    assert main(words) == 2


def one_way(path: str) -> None:
    """Features tell little, and edges run from a few nodes with clear features to all others."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    sender = rng.integers(0, 240, 1500)
    near = 3 * rng.integers(0, 80, 1500) + y[sender]
    low, high = np.minimum(sender, near), np.maximum(sender, near)
    x = np.eye(3)[y] * 0.7 + rng.normal(0, 1, (240, 3))
    np.savez(path, x=x, edge_index=np.stack([low, high]), y=y)


def test_an_own_graph_is_read_as_a_search_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    one_way("mine.npz")
    from gassip.best.direction import choose_direction

    both = choose_direction(gassip.read("mine.npz"), "auto", "accuracy").value
    words = ["run", "gcn", "--data", "mine.npz", "--set", "epochs=2", "--json"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert both and json.loads(out)["records"][0]["run"]["undirected"]
    assert "edges are read both ways" in err
    assert main([*words, "--direction", "given", "--quiet"]) == 0
    assert not json.loads(capsys.readouterr().out)["records"][0]["run"]["undirected"]


def test_a_run_without_a_graph_says_which_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "mlp", "--set", "epochs=1", "--set", "hidden=4"]) == 0
    assert "the embedded graph debian is used" in capsys.readouterr().err


def test_the_grid_has_only_fields_of_the_method() -> None:
    graph = random_graph(2)
    assert len(tuned.grid(entry("gcn").make(graph))) == 12
    assert {name for own in tuned.grid(entry("gcn").make(graph)) for name in own} == {
        "hidden",
        "dropout",
    }
    assert tuned.best({0: [0.5, 0.7], 1: [0.6, 0.6], 2: [0.1, 0.9]}) in (0, 1)


def test_a_damaged_table_of_settings_is_refused() -> None:
    Path("t.json").write_text("[1]")
    with pytest.raises(GassipError, match="write it with `gassip tune`"):
        tuned.read(Path("t.json"))
    assert tuned.read(Path("absent.json")) == {}
