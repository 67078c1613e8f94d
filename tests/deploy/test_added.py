"""New nodes by id: as tables, from Python and as JSON; what drift warns of."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gassip
from gassip.cli import main
from gassip.deploy.labelling import main as runtime
from gassip.deploy.runtime import load, softmax
from gassip.errors import GassipError
from gassip.nn.net import Architecture
from tests.graph.test_tables import EDGES, NODES
from tests.saved_runs import random_net, save_run

NEW = {"id": ["g", "h"], "age": [3.0, None], "town": ["x", "y"], "member": [True, False]}
NEW |= {"since": ["2020-01-01", "2021-01-01"]}
ENDS = {"source": ["a", "g", "g"], "target": ["g", "h", "b"]}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("added") / "run"
    graph = gassip.from_frames(NODES, EDGES)
    net = random_net(graph, Architecture(ops=("GCNConv", "SAGEConv"), hidden=(4,)))
    save_run(folder, graph, net, kept=1.1)
    return folder


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    pd.DataFrame(NEW).to_csv(tmp_path / "n.csv", index=False)
    pd.DataFrame(ENDS).to_csv(tmp_path / "e.csv", index=False)
    return [str(tmp_path / "n.csv"), str(tmp_path / "e.csv")]


def test_new_nodes_are_labelled_as_in_the_whole_graph(run: Path) -> None:
    """All edges are kept, so that the graph read whole is the graph with nodes added."""
    model = load(run)
    more = model.add(NEW, pd.DataFrame(ENDS))
    assert more.ids == ("a", "b", "c", "d", "e", "f", "g", "h")
    nodes, edges = (
        pd.concat([one, pd.DataFrame(two)]) for one, two in ((NODES, NEW), (EDGES, ENDS))
    )
    nodes["since"] = pd.to_datetime(nodes["since"])
    nodes["member"] = nodes["member"].astype(bool)
    whole = gassip.from_frames(nodes, edges, like=gassip.from_frames(NODES, EDGES))
    expected = model.scores(np.asarray(whole.x), whole.edge_index.numpy())
    np.testing.assert_allclose(more.scores(), expected, atol=1e-5)
    np.testing.assert_allclose(more.scores(nodes=[7, 6]), expected[[7, 6]], atol=1e-5)


@pytest.mark.parametrize("start", [lambda words: main(["predict", *words]), runtime])
def test_tables_of_new_nodes(
    run: Path, files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], start: object
) -> None:
    assert callable(start)
    assert start([str(run), "--add", *files, "--out", str(tmp_path / "l.csv")]) == 0
    text = (tmp_path / "l.csv").read_text()
    probs = softmax(load(run).add(NEW, ENDS).scores())[6:]
    names = [("cat", "dog")[k] for k in probs.argmax(1)]
    lines = [f"{i},{n},{p:.6f}" for i, n, p in zip("gh", names, probs.max(1), strict=True)]
    assert text.splitlines() == ["id,label,probability", *lines]
    capsys.readouterr()
    assert start([str(run), "--add", *files, "--out", "-"]) == 0
    assert capsys.readouterr().out == text


def test_all_errors_of_new_nodes_are_told_at_once(
    run: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path(files[0]).write_text("id,age,town,since\na,old,x,2020-01-01\ng,1,x,2020-01-01\n")
    Path(files[1]).write_text("source,target\nz,g\n")
    assert main(["predict", str(run), "--add", *files, "--out", "-"]) == 2
    told = capsys.readouterr().err
    assert "id 'a' is in the run's graph" in told and "has no column member (boolean)" in told
    assert "source 'z' is not an id in n.csv or in the run" in told
    assert main(["predict", str(run), "--add", *files, "--json", "-"]) == 2
    assert "--add and --json do not go together" in capsys.readouterr().err
    assert main(["predict", str(run), "--add", "no.csv", files[1], "--out", "-"]) == 2
    assert "no.csv: no such file" in capsys.readouterr().err


REQUEST = {
    "id": "g",
    "columns": {"age": 3, "town": "x", "member": True, "since": "2020-01-01"},
    "neighbours": ["a", "b"],
}


def ask(run: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return main(["predict", str(run), "--json", "-"])


def test_one_node_as_json(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(run, json.dumps(REQUEST, indent=1), monkeypatch) == 0
    one = json.loads(capsys.readouterr().out)
    ends = {"source": ["a", "b", "g", "g"], "target": ["g", "g", "a", "b"]}
    first = pd.DataFrame(NEW)[:1]
    probs = softmax(load(run).add(first, ends).scores())[6]
    assert one["id"] == "g" and one["label"] == ("cat", "dog")[int(probs.argmax())]
    assert list(one["probabilities"].values()) == pytest.approx(probs.tolist(), abs=1e-6)
    pairs = zip(*ends.values(), strict=True)
    by_edges = {key: value for key, value in REQUEST.items() if key != "neighbours"} | {
        "edges": [dict(zip(ends, pair, strict=True)) for pair in pairs]
    }
    assert ask(run, json.dumps(by_edges), monkeypatch) == 0
    assert json.loads(capsys.readouterr().out) == one


BAD = [  # what is no request
    "3", "{", '{"id": []}', '{"columns": 3}', '{"columns": {}, "ids": 1}', '{"x": [1]}', "[[]]",
    '{"columns": {"age": [1]}}', '{"columns": {"age": 1e400}}', '{"columns": {"age": NaN}}',
    json.dumps(REQUEST | {"neighbours": ["zz"]}), json.dumps(REQUEST | {"neighbours": 3}),
    json.dumps(REQUEST | {"edges": [{"source": "a"}]}), json.dumps(REQUEST | {"id": "a"}),
    json.dumps(REQUEST | {"edges": [{"source": "a", "target": "g", "weight": "x"}]}),
    json.dumps(REQUEST | {"edges": [{"source": "a", "target": "g", "weight": -1}]}),
    "[" * 100_000,
]  # fmt: skip


def test_bad_requests_are_answered_and_the_next_is_heard(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(run, "\n".join([json.dumps(REQUEST), *BAD, json.dumps(REQUEST)]), monkeypatch) == 2
    shown = capsys.readouterr()
    first, *middle, last = [json.loads(line) for line in shown.out.splitlines()]
    assert first == last and "label" in first
    assert len(middle) == len(BAD) and all(list(own) == ["error"] for own in middle)
    assert len(shown.err.splitlines()) == 1 and f"{len(BAD)} of" in shown.err
    assert ask(run, "", monkeypatch) == 2


def test_drift_is_told_with_the_figure(
    run: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    new = pd.DataFrame(NEW | {"age": [5000.0, 2.0], "shoe": [1, 2]})
    new.to_csv(files[0], index=False)
    dense = pd.DataFrame({"source": list("abcdef") * 2, "target": ["g"] * 6 + ["h"] * 6})
    dense.to_csv(files[1], index=False)
    assert main(["predict", str(run), "--add", *files, "--out", "-"]) == 0
    told = capsys.readouterr().err
    assert "age in 1 of 2 nodes (2 to 5000, in training 1 to 6)" in told
    assert "left out, since training did not have it: shoe" in told
    assert "times as dense" not in told  # 6 edges per node, 4 / 6 in training: 9 times
    model = load(run)
    few = model.drift(np.zeros((2, model.features)), np.zeros((2, 0), dtype=int))
    assert "the graph is without an edge: 0 edges per node, in training 0.667" in few[0]


def test_the_training_graph_has_no_drift(run: Path) -> None:
    graph = gassip.from_frames(NODES, EDGES)
    assert load(run).drift(np.asarray(graph.x), graph.edge_index.numpy()) == []


def test_a_mapping_or_a_frame_is_expected(run: Path) -> None:
    with pytest.raises(GassipError, match="nodes is a list; expected a DataFrame"):
        load(run).add([1], ENDS)


@pytest.mark.parametrize(("edges", "remedy"), [(False, "--data PATH"), (True, "search again")])
def test_nodes_are_not_added_where_features_were_made(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str], edges: bool, remedy: str
) -> None:
    graph = gassip.from_frames(NODES, EDGES)
    kind = "degree and position" if edges else "degree"
    graph = replace(graph, structure=kind, preparation=None)
    net = random_net(graph, Architecture(ops=("GCNConv", "SAGEConv"), hidden=(4,)))
    save_run(tmp_path / "run", graph, net)
    assert main(["predict", str(tmp_path / "run"), "--add", *files, "--out", "-"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and f"made of {kind}, which new nodes change" in told
    assert remedy in told


def test_new_texts_are_warned_of_once_and_with_the_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the towns x and y come twice and r once, so that there is a feature for others."""
    nodes = NODES.assign(town=["x", "y", "x", "r", "y", "y"])
    graph = gassip.from_frames(nodes, EDGES)
    net = random_net(graph, Architecture(ops=("GCNConv", "SAGEConv"), hidden=(4,)))
    save_run(tmp_path / "run", graph, net)
    other = tmp_path / "other"
    other.mkdir()
    nodes.assign(town=["x", "q", "z", "z", "r", "y"]).to_csv(other / "nodes.csv", index=False)
    EDGES.to_csv(other / "edges.csv", index=False)
    line = "column town: 3 of 6 cells hold a text that training did not have ('q', 'z')"
    for start in (lambda words: main(["predict", *words]), runtime):
        assert start([str(tmp_path / "run"), "--data", str(other), "--out", "-"]) == 0
        told = capsys.readouterr().err
        assert told.count("column town") == 1 and line in told
    changed = nodes.assign(town=["x", "q", "z", "z", "r", "y"])
    with pytest.warns(gassip.GassipWarning, match=re.escape(line)):
        gassip.from_frames(changed, EDGES, like=graph)


def test_predict_does_without_torch(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    NODES.to_csv(tmp_path / "nodes.csv", index=False)
    EDGES.to_csv(tmp_path / "edges.csv", index=False)
    told = list[list[list[str]]]()
    for there in (True, False):
        monkeypatch.setattr("gassip.commands.predict._has_torch", lambda there=there: there)
        assert main(["predict", str(run), "--data", str(tmp_path), "--out", "-"]) == 0
        told.append([line.split(",")[:2] for line in capsys.readouterr().out.splitlines()])
    assert told[0] == told[1] and len(told[0]) == 7


def test_a_link_that_leads_to_itself_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert main(["search", "--data", str(tmp_path / "loop"), "--out", str(tmp_path / "r")]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "loop" in told
