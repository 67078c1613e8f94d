"""Graph folders: tables and folders give the same graph; errors; a killed import goes on."""

import csv
import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from gassip import cli
from gassip.errors import GassipError
from gassip.graph.datasets import read
from gassip.graph.graph import Graph
from gassip.graph.store import GraphFolder

pytest.importorskip("duckdb")
from gassip.large import database, importing

Rows = Sequence[Sequence[object]]
NODES: Rows = [
    ["id", "label", "split", "size", "kind"],
    ["a", "red", "train", 1.5, "x"],
    ["b", "blue", "train", -2.0, "y"],
    ["c", "red", "val", 0.25, "x"],
    ["d", "blue", "val", 3.0, "y"],
    ["e", "", "", 1.0, "x"],
    ["f", "blue", "test", 4.0, "y"],
]
EDGES: Rows = [["source", "target"], *([a, b] for a, b in ("ab", "bc", "ca", "de", "ed", "fa"))]


def write(path: Path, rows: Rows) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    folder = tmp_path / "tables"
    folder.mkdir()
    write(folder / "nodes.csv", NODES)
    write(folder / "edges.csv", EDGES)
    return folder


def imported(tables: Path, out: Path, *more: str) -> int:
    given = ["--nodes", str(tables / "nodes.csv"), "--edges", str(tables / "edges.csv")]
    return cli.main(["import", *given, "--out", str(out), "--quiet", *more])


def by_id(graph: Graph) -> dict[str, tuple[str, list[float], frozenset[str]]]:
    """Label, features and senders of each node, by the user's ids."""
    assert graph.ids is not None
    senders: dict[str, set[str]] = {name: set() for name in graph.ids}
    for sender, receiver in graph.edge_index.T.tolist():
        senders[graph.ids[receiver]].add(graph.ids[sender])
    x = np.asarray(graph.x if not hasattr(graph.x, "to_scipy") else graph.x.to_scipy().toarray())
    names = [graph.class_names[label] if label >= 0 else "" for label in graph.y.tolist()]
    return {
        name: (names[k], [round(float(v), 5) for v in x[k]], frozenset(senders[name]))
        for k, name in enumerate(graph.ids)
    }


def test_a_folder_holds_the_graph_of_the_tables(tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.graph"
    assert imported(tables, out) == 0
    graph, given = read(out), read(tables)
    assert by_id(graph) == by_id(given)
    assert graph.preparation == given.preparation
    masks = {split: int(graph.mask(split).sum()) for split in ("train", "val", "test")}
    assert masks == {"train": 2, "val": 2, "test": 1}
    GraphFolder.open(out).verify()
    assert not out.with_name("small.graph.partial").exists()


def test_undirected_weighted_parquet(tables: Path, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pd.read_csv(tables / "nodes.csv").to_parquet(tmp_path / "nodes.parquet")
    edges = pd.read_csv(tables / "edges.csv").assign(weight=2.0)
    for k in range(2):
        edges[k::2].to_parquet(tmp_path / f"edges-{k}.parquet")
    out = tmp_path / "both.graph"
    given = [
        "--nodes",
        str(tmp_path / "nodes.parquet"),
        "--edges",
        str(tmp_path / "edges-*.parquet"),
    ]
    assert cli.main(["import", *given, "--out", str(out), "--undirected", "--quiet"]) == 0
    graph = read(out)
    assert graph.num_edges == 10 and graph.edge_weight is not None  # d-e is there both ways
    assert set(graph.edge_weight.tolist()) == {2.0}
    pairs = {tuple(pair) for pair in graph.edge_index.T.tolist()}
    assert pairs == {(b, a) for a, b in pairs}


def test_a_folder_of_an_npz_equals_the_npz(tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "again.graph"
    assert cli.main(["import", "--data", str(tables), "--out", str(out), "--quiet"]) == 0
    assert by_id(read(out)) == by_id(read(tables))


@pytest.mark.parametrize(
    ("file", "change", "line"),
    [
        ("nodes.csv", lambda rows: [["name", *rows[0][1:]], *rows[1:]], "has no column id"),
        ("nodes.csv", lambda rows: [*rows, rows[1]], "line 8: id 'a' was given before"),
        (
            "nodes.csv",
            lambda rows: [*rows, ["g", "red", "tset", 1.0, "x"]],
            "line 8: column split holds 'tset'",
        ),
        ("nodes.csv", lambda rows: [*rows, ["", "red", "", 1.0, "x"]], "line 8: id is empty"),
        (
            "nodes.csv",
            lambda rows: [*rows[:4], ["g", "red", "", "many", "x"], *rows[4:]],
            "line 5: column size holds 'many', not a number",
        ),
        (
            "nodes.csv",
            lambda rows: [*rows, ["g", "red", "", "inf", "x"]],
            "line 8: column size holds 'inf', not a number",
        ),
        (
            "edges.csv",
            lambda rows: [[*rows[0], "weight"], *([*row, 1] for row in rows[1:]), ["a", "d", -2]],
            "line 8: column weight holds '-2', not a number of 0 or more",
        ),
        (
            "edges.csv",
            lambda rows: [[*rows[0], "weight"], ["a", "d", "big"], ["a", "e", 1.5]],
            "line 2: column weight holds 'big'",
        ),
        (
            "edges.csv",
            lambda rows: [[*rows[0], "weights"], *([*row, 1] for row in rows[1:])],
            "has a column 'weights', which is not read; call it weight",
        ),
        (
            "edges.csv",
            lambda rows: [*rows, ["a", 'a, "quoted" one']],
            """line 8: target 'a, "quoted" one' is no id""",
        ),
        ("nodes.csv", lambda rows: [row[:3] for row in rows], "has no feature column"),
        ("edges.csv", lambda rows: [*rows, ["a", "zz"]], "line 8: target 'zz' is no id"),
        ("edges.csv", lambda rows: rows[:1], "has no rows"),
        (
            "edges.csv",
            lambda rows: [*rows, *[["a", "b"]] * 30_000, ["a;b"]],
            "edges.csv, line 30008",
        ),
    ],
)
def test_errors(
    tables: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    change: Callable[[Rows], Rows],
    line: str,
) -> None:
    write(tables / file, change(NODES if file == "nodes.csv" else EDGES))
    assert imported(tables, tmp_path / "bad.graph") == 2
    assert line in capsys.readouterr().err
    assert not list(tmp_path.glob("bad.graph*"))


def test_faults_in_packed_files_have_a_line(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tables / "edges.csv", [*EDGES, ["a", "zz"]])
    packed = tables / "edges.csv.gz"
    packed.write_bytes(gzip.compress((tables / "edges.csv").read_bytes()))
    given = ["--nodes", str(tables / "nodes.csv"), "--edges", str(packed)]
    assert cli.main(["import", *given, "--out", str(tmp_path / "bad.graph"), "--quiet"]) == 2
    assert "edges.csv.gz, line 8: target 'zz' is no id of a node" in capsys.readouterr().err


def test_classes_are_named_as_in_small_tables(tables: Path, tmp_path: Path) -> None:
    """Numbers by value, 1.0 is 1, NA and -1 are no labels."""
    labels = ["10", "9", "1.0", "NA", "1", "-1"]
    rows: Rows = [["id", "label", "size"], *([f"n{k}", labels[k % 6], k % 5] for k in range(60))]
    write(tables / "nodes.csv", rows)
    write(tables / "edges.csv", [["source", "target"], ["n1", "n2"], ["n2", "n3"]])
    assert imported(tables, tmp_path / "small.graph") == 0
    graph, given = read(tmp_path / "small.graph"), read(tables)
    assert graph.class_names == given.class_names == ("1", "9", "10")
    assert by_id(graph) == by_id(given)


def test_a_killed_import_goes_on(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert imported(tables, tmp_path / "whole.graph") == 0

    def killed(work: database.Work) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(importing, "write_features", killed)
        assert imported(tables, tmp_path / "cut.graph") == 130

    def again(work: database.Work) -> None:
        raise AssertionError("done before")

    monkeypatch.setattr(importing, "sort_edges", again)
    assert imported(tables, tmp_path / "cut.graph") == 0
    one, other = (
        json.loads((tmp_path / name / "meta.json").read_text())["files"]
        for name in ("whole.graph", "cut.graph")
    )
    assert one == other


def test_a_folder_is_not_trusted(tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.graph"
    assert imported(tables, out) == 0
    np.save(out / "y.npy", np.zeros(3, dtype=np.int32))
    with pytest.raises(GassipError, match=r"y\.npy has shape \(3,\)"):
        read(out)
    assert imported(tables, out) == 2  # it is there
    assert imported(tables, out, "--overwrite") == 0
    x = np.load(out / "x.npy")
    np.save(out / "x.npy", x + 1)
    with pytest.raises(GassipError, match="sha256 differs"):
        GraphFolder.open(out).verify()


def test_a_search_reads_a_folder(tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.graph"
    given = ["--nodes", "200", "--signal", "3", "--out", str(out)]
    assert cli.main(["make", "csbm", *given]) == 0
    run = ["--data", str(out), "--out", str(tmp_path / "run"), "--quiet", "--jobs", "1"]
    short = ["--preset", "paper", "--epochs", "2", "--retrain-epochs", "30", "--warmup-epochs", "1"]
    assert cli.main(["search", *run, *short]) == 0
    labels = tmp_path / "labels.csv"
    assert cli.main(["predict", str(tmp_path / "run"), "--out", str(labels)]) == 0
    assert len(labels.read_text().splitlines()) == 201
