"""A run on rows is an ordinary run: retrained, refitted, exported, packed, asked of new nodes."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gassip import cli
from gassip.deploy import added, runtime, stored
from gassip.deploy.row_added import RowLabeller
from gassip.graph.store import GraphFolder
from gassip.graph.table_files import read_table
from gassip.large.rows import search, trials
from gassip.large.rows.kept import KeptNets, asked_for
from gassip.large.rows.nets import Scaling, Shape
from gassip.large.rows.training import Table, train_rows
from tests.large.conftest import MODEL

Paths = tuple[Path, Path]


def called(*words: object) -> int:
    return cli.main([str(word) for word in words])


def test_the_first_retraining_is_the_run(searched: Paths) -> None:
    assert called("evaluate", searched[1], "--seeds", 2, "--quiet") == 0
    found = json.loads((searched[1] / "evaluate.json").read_bytes())
    meta = json.loads((searched[1] / "meta.json").read_bytes())
    for split, value in meta["scores"]["accuracy"].items():
        assert found["scores"]["accuracy"][split]["values"][0][0] == value
    assert found["retrain_seeds"] == [0, 1] and found["weights_kept"] == [meta["weights_kept"]]


def test_a_refit_trains_on_validation_labels_too(searched: Paths, tmp_path: Path) -> None:
    out = tmp_path / "refit"
    assert called("refit", searched[1], "--out", out) == 0
    meta = json.loads((out / "meta.json").read_bytes())
    assert set(meta["scores"]["accuracy"]) == {"train", "test"}
    assert meta["scores"]["accuracy"]["test"] > 0.8
    assert called("predict", out, "--out", tmp_path / "labels.csv") == 0
    assert called("refit", out, "--out", tmp_path / "again") == 2
    model = runtime.load(out)
    assert model.labels is None or (model.labels >= 0).sum() > 500  # 300 of each split


def test_formats(searched: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form, name in (("runtime", "folder"), ("c", "net.c"), ("onnx", "net.onnx")):
        if form == "onnx":
            pytest.importorskip("onnxruntime")
        assert called("export", searched[1], "--format", form, "--out", tmp_path / name) == 0
    assert "agrees with torch in 30 runs" in capsys.readouterr().out
    assert called("pack", searched[1], "--out", tmp_path / "run.gassip") == 0
    model, packed = runtime.load(searched[1]), runtime.load(tmp_path / "run.gassip")
    np.testing.assert_array_equal(model.scores(), packed.scores())


def test_the_page_tells_of_nodes(searched: Paths, tmp_path: Path) -> None:
    assert called("report", searched[1], "--out", tmp_path / "page.html") == 0
    page = (tmp_path / "page.html").read_text()
    assert "Confusion" in page or "confusion" in page


def new_tables(folder: Path, place: Path) -> tuple[Path, Path]:
    """Two new nodes: a copy of node 3 with its senders, and one that hears of the first alone."""
    graph = GraphFolder.open(folder)
    indptr, x = graph.array("indptr"), graph.array("x")
    senders = graph.array("indices")[indptr[3] : indptr[4]]
    with (place / "nodes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *(f"x{k}" for k in range(x.shape[1]))])
        writer.writerow(["one", *x[3].tolist()])
        writer.writerow(["two", *x[5].tolist()])
    lines = [f"{sender},one" for sender in senders]
    (place / "edges.csv").write_text("\n".join(["source,target", *lines, "one,two", ""]))
    return place / "nodes.csv", place / "edges.csv"


def test_new_nodes_by_stored_hops_equal_the_whole_graph(
    searched: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No old node hears of a new one, so that hops of old ones stay as they are."""
    tables = [read_table(path) for path in new_tables(searched[0], tmp_path)]
    whole = added.load_labeller(searched[1])
    monkeypatch.setattr(stored, "memory", lambda: 1000)
    rows = added.load_labeller(searched[1])
    assert isinstance(rows, RowLabeller) and not isinstance(whole, RowLabeller)
    ids, scores, lines = added.new_scores(rows, *tables)
    assert ids == ["one", "two"] and "keep their hops" in lines[-1]
    assert not whole.label_weight
    np.testing.assert_allclose(scores, added.new_scores(whole, *tables)[1], rtol=1e-4, atol=1e-4)


def test_a_graph_too_large_is_one_line(
    searched: Paths,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(stored, "memory", lambda: 1000)
    assert called("pack", searched[1], "--out", tmp_path / "run.gassip") == 2
    assert called("export", searched[1], "--format", "onnx", "--out", tmp_path / "a.onnx") == 2
    said = capsys.readouterr().err
    assert said.count("labels it by rows") == 2 and len(said.splitlines()) == 2
    assert called("predict", searched[1], "--out", tmp_path / "labels.csv") == 0
    nodes, edges = new_tables(searched[0], tmp_path)
    assert called("predict", searched[1], "--add", nodes, edges, "--out", "-") == 0
    request = {"x": [0.0] * MODEL.features, "neighbours": ["3", "5"]}
    (tmp_path / "requests").write_text(json.dumps(request))
    assert called("predict", searched[1], "--json", tmp_path / "requests") == 0
    assert called("report", searched[1], "--out", tmp_path / "page.html") == 0
    assert {path.name for path in tmp_path.iterdir()} >= {"labels.csv", "page.html"}


def test_a_killed_search_goes_on_to_the_same_bits(
    searched: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, out = tmp_path / "csbm.graph", tmp_path / "run"
    shutil.copytree(searched[0], graph, ignore=shutil.ignore_patterns("hops"))
    words = ["search", "--data", graph, "--large", "on", "--preset", "fast", "--out", out]
    plain, count = trials.train_task, [0]

    def killed(*given: object) -> object:
        count[0] += 1
        if count[0] == 6:
            raise KeyboardInterrupt
        return plain(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(trials, "train_task", killed)
    assert called(*words, "--quiet") == 130
    assert len(list((tmp_path / "run.partial").glob("net-*"))) == 5
    assert called(*words, "--quiet") == 2  # an unfinished search is not overwritten unasked
    assert called(*words, "--quiet", "--resume", "--seed", 5) == 2
    count[0] = 10
    assert called(*words, "--quiet", "--resume") == 0
    trained = len(json.loads((searched[1] / "leaderboard.json").read_bytes())) - 1
    assert count[0] == 10 + trained - 5
    for name in ("model.safetensors", "decisions.json"):
        assert (out / name).read_bytes() == (searched[1] / name).read_bytes()
    assert not (tmp_path / "run.partial").exists()


def test_a_killed_search_with_teachers_goes_on_to_the_same_bits(
    searched: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the last layer upon layers, then in the first student."""
    words = ["search", "--data", searched[0], "--large", "on", "--seed", 1, "--quiet"]
    assert called(*words, "--out", tmp_path / "whole") == 0
    board = json.loads((tmp_path / "whole" / "leaderboard.json").read_bytes())
    names = [row["name"] for row in board]
    assert any(name.startswith("teacher layer 2") for name in names)
    before = sum(name.startswith(("candidate", "teacher")) for name in names)
    plain, count, stop = trials.train_task, [0], [before]

    def killed(*given: object) -> object:
        count[0] += 1
        if count[0] == stop[0]:
            raise KeyboardInterrupt
        return plain(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(trials, "train_task", killed)
    run = [*words, "--out", tmp_path / "run"]
    assert called(*run) == 130
    count[0], stop[0] = 0, 2
    assert called(*run, "--resume") == 130
    stop[0] = -1
    assert called(*run, "--resume") == 0
    for name in ("model.safetensors", "decisions.json", "teacher.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_nets_that_were_trained_as_something_else_asked_are_not_taken_over(
    searched: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search with few candidates, as a time limit leaves them, is killed behind its student."""
    words = ["search", "--data", searched[0], "--large", "on", "--preset", "fast", "--quiet"]
    words += ["--out", tmp_path / "run"]

    def killed(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(search, "candidates", lambda steps: [Shape(hops=(0, 1))])
        patch.setattr(search, "with_labels", killed)
        assert called(*words) == 130
    assert list((tmp_path / "run.partial").glob("net-*student*"))
    assert called(*words, "--resume") == 0
    nets = [(run / "model.safetensors").read_bytes() for run in (tmp_path / "run", searched[1])]
    assert nets[0] == nets[1]


def test_a_time_limit_is_obeyed_and_resumed(searched: Paths, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["search", "--data", searched[0], "--large", "on", "--preset", "fast", "--out", out]
    assert called(*words, "--time-limit", "1s", "--quiet") == 0
    assert (tmp_path / "run.partial").exists()
    assert called(*words, "--time-limit", "300s", "--quiet", "--resume") == 0
    assert (out / "model.safetensors").read_bytes() == (
        searched[1] / "model.safetensors"
    ).read_bytes()


def test_a_net_kept_of_another_training_is_not_recalled(tmp_path: Path) -> None:
    """What a search had no time for changes what later stages ask for by the same name."""
    table = Table(torch.rand(8, 6), torch.arange(8) % 2, Scaling.none(6))
    shape, other = Shape(hops=(0, 1), width=4), Shape(hops=(0, 1), width=4, depth=3)
    made = train_rows(shape, table, table, features=3, classes=2, epochs=1, seed=0)
    kept, asked = KeptNets(tmp_path, {"seed": 0}), asked_for(shape, table, 0, 1)
    kept.remember("student 1 0", asked, made)
    assert kept.recall("student 1 0", asked_for(shape, table, 0, 1)) is not None
    taught = Table(table.rows, torch.rand(8, 2), table.scaling)
    fewer, beside = table.first(4), replace(table, offset=torch.rand(8, 2))
    for another in (
        asked_for(other, table, 0, 1),
        asked_for(shape, taught, 0, 1),
        asked_for(shape, fewer, 0, 1),
        asked_for(shape, beside, 0, 1),
        asked_for(shape, table, 5, 1),
        asked_for(shape, table, 0, 2),
        asked_for(shape, table, 0, 1, made.net),
    ):
        assert kept.recall("student 1 0", another) is None
