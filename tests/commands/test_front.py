import csv
import json
from pathlib import Path

import numpy as np
import pytest

from gassip.cli import build_parser, main
from gassip.commands.flags import given_settings
from gassip.commands.front import SCREEN
from gassip.runs.read import open_run

QUICK = [
    "--epochs",
    "3",
    "--warmup-epochs",
    "2",
    "--retrain-epochs",
    "3",
    "--hidden",
    "16",
    "--quiet",
]


@pytest.fixture
def data(tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    path = tmp_path / "graph.npz"
    edges = rng.integers(0, 30, (2, 90))
    np.savez(
        path, x=rng.normal(size=(30, 40)).astype(np.float32), edge_index=edges, y=np.arange(30) % 3
    )
    return str(path)


def test_front_writes_nested_points_and_gcns(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "front"
    command = [
        "front",
        "--data",
        data,
        "--out",
        str(out),
        "--retrains",
        "2",
        "--shares",
        "3,25",
        *QUICK,
    ]
    assert main(command) == 0
    assert "GCN-64" in capsys.readouterr().out
    record = json.loads((out / "front.json").read_text())
    found = [row for row in record["points"] if row["kind"] == "found"]
    gcns = [row for row in record["points"] if row["kind"] == "gcn"]
    assert [row["hidden"] for row in gcns] == ["4", "8", "16", "32", "64"]
    whole = gcns[-1]["params"]
    assert whole == 40 * 64 + 64 + 64 * 3 + 3
    for row, share in zip(found, (0.25, 0.03), strict=True):
        assert 0 < row["params"] <= share * whole
        assert 0 <= row["test"] <= 1 and row["val_std"] is not None
    assert [row["features"] for row in found] == sorted(
        (row["features"] for row in found), reverse=True
    )
    rows = list(csv.DictReader((out / "front.csv").read_text().splitlines()))
    assert [int(row["params"]) for row in rows] == [row["params"] for row in record["points"]]
    drawing = (out / "front.svg").read_text()
    assert "<svg" in drawing and "nets of one search" in drawing
    for row, name in zip(found, ("25", "3"), strict=True):
        assert open_run(out / "nets" / name).meta["size"]["params"] <= row["params"]
        labels = str(tmp_path / f"{name}.csv")
        assert main(["predict", str(out / "nets" / name), "--out", labels]) == 0
    assert main(command) == 2 and "exists; choose another --out" in capsys.readouterr().err
    assert main([*command, "--overwrite", "--json", "--shares", "50", "--retrains", "1"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again == json.loads((out / "front.json").read_text())
    assert [row["kind"] for row in again["points"]] == ["found", *["gcn"] * 5]
    assert [own.name for own in (out / "nets").iterdir()] == ["50"]


def test_front_refuses_what_cannot_be(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "front"
    assert main(["front", "--data", data, "--out", str(out), "--shares", "0.1", *QUICK]) == 2
    assert "--max-params 0.1% cannot be met on graph: the least is 8" in capsys.readouterr().err
    for bad in ("x", "0", "-3", "5,,6", "nan"):
        with pytest.raises(SystemExit) as stop:
            main(["front", "--data", data, f"--shares={bad}", *QUICK])
        assert stop.value.code == 2
    assert not out.exists()


def test_search_keeps_its_budgets(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    common = ["search", "--data", data, "--out", str(out), *QUICK]
    bounds = [
        "--max-params",
        "10%",
        "--max-edges",
        "50%",
        "--max-bytes",
        "4kB",
        "--max-macs",
        "1e4",
    ]
    assert main([*common, *bounds, "--json"]) == 0
    meta = json.loads(capsys.readouterr().out)
    assert meta["size"]["params"] <= 0.1 * (40 * 64 + 64 + 64 * 3 + 3)
    assert meta["size"]["edges"] == meta["edges_kept"] <= 0.5 * meta["edges_total"]
    assert meta["size"]["bytes"] == (out / "model.safetensors").stat().st_size <= 4000
    assert meta["size"]["macs"] <= 10_000
    assert meta["budget"] == {
        "max_params": "10%",
        "max_edges": "50%",
        "max_bytes": "4kB",
        "max_macs": "1e4",
    }
    assert main(["evaluate", str(out), "--seeds", "2", "--searches", "2", "--quiet", "--json"]) == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert all(
        kept <= 0.1 * 2819 for kept in evaluated["weights_kept"]
    )  # the second search keeps the budget too
    assert main(["predict", str(out), "--out", str(tmp_path / "labels.csv")]) == 0


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--max-params", "10", "the least is"),
        ("--max-params", "lots", "expected a number above 0 or a share"),
        ("--max-bytes", "0.5kB", "--max-bytes 0.5kB cannot be met"),
    ],
)
def test_an_impossible_budget_leaves_nothing(
    data: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flag: str,
    value: str,
    message: str,
) -> None:
    out = tmp_path / "runs" / "run"
    layers = ["--layers", "4"] if value != "lots" else []
    assert main(["search", "--data", data, "--out", str(out), flag, value, *layers, *QUICK]) == 2
    said = capsys.readouterr().err
    assert message in said and len(said.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_the_dropout_of_the_gcns_is_read_under_any_preset() -> None:
    words = ["front", "--preset", "best", "--retrain-dropout", "0.3"]
    args = build_parser().parse_args(words)
    assert given_settings(args, SCREEN) == {"weight_groups": "unit", "retrain_dropout": 0.3}
