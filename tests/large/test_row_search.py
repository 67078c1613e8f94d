"""The search on rows, from a graph folder to labels; its run folder in the other commands."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from gassip import cli
from gassip.deploy import labelling, runtime
from gassip.deploy.row_runs import load_row_run
from gassip.errors import GassipError
from gassip.graph.store import GraphFolder
from gassip.large.adjacency import both_ways, symmetric
from gassip.large.block_model import draw
from gassip.large.kernels import Edges
from gassip.large.rows.nets import Scaling, Shape
from gassip.large.rows.scores import SPLITS, drawn_nodes
from gassip.large.rows.training import Table, train_rows
from gassip.large.writing import write_block_model
from gassip.metrics import METRICS, score
from gassip.runs.format import digest
from tests.large.conftest import MODEL


def test_a_run_tells_what_any_run_tells(searched: tuple[Path, Path]) -> None:
    meta = json.loads((searched[1] / "meta.json").read_bytes())
    assert meta["architecture"][0] in ("TAG4", "TAG3", "TAG2", "SAGEConv")
    assert meta["accuracy"]["test"] > 0.8
    stages = [row["stage"] for row in json.loads((searched[1] / "decisions.json").read_bytes())]
    assert stages == ["hops", "student", "label propagation"]
    assert (searched[1] / "report.html").exists()


def test_scores_are_those_of_all_labelled_nodes(searched: tuple[Path, Path]) -> None:
    """Counted by blocks, and by gassip.metrics from the scores of all nodes at once."""
    scores = json.loads((searched[1] / "meta.json").read_bytes())["scores"]
    folder = GraphFolder.open(searched[0])
    y, split = np.asarray(folder.array("y")), np.asarray(folder.array("split"))
    logits = torch.from_numpy(load_row_run(searched[1]).model.scores())
    for metric in METRICS:
        for name, number in SPLITS.items():
            nodes = torch.from_numpy((split == number) & (y >= 0))
            truth = torch.from_numpy(y.astype(np.int64))[nodes]
            wanted = score(metric, logits[nodes], truth)
            assert scores[metric][name] == pytest.approx(wanted, abs=1e-6)


def test_areas_of_large_splits_are_of_nodes_drawn_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 40 of each split, never a node without a label; small splits whole."""
    monkeypatch.setattr("gassip.large.rows.scores.AREA_NODES", 40)
    split = np.repeat([1, 2, 3], [100, 30, 200])
    y = np.where(np.arange(330) % 2, 0, -1)
    drawn = drawn_nodes(y, split)
    assert [int(drawn[split == k].sum()) for k in (1, 2, 3)] == [40, 15, 40]
    assert (y[drawn] == 0).all()


def test_labels_by_blocks_equal_the_runtime_on_the_whole_graph(
    searched: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another path through other code: the same net as an ordinary one on arrays."""
    folder = GraphFolder.open(searched[0])
    parts = folder.parts()
    model = runtime.load(searched[1])
    wanted = model.predict_proba(parts.x, parts.edge_index)
    run = load_row_run(searched[1])
    found = (
        run.model.scores()
        if run.model.label_logits is None
        else run.model.scores() - run.model.label_logits
    )
    np.testing.assert_allclose(runtime.softmax(found), wanted, atol=1e-4)
    out = tmp_path / "labels.csv"
    assert cli.main(["predict", str(searched[1]), "--out", str(out)]) == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == MODEL.nodes and rows[7]["id"] == "7"
    right = [row["label"] == f"class {y}" for row, y in zip(rows, folder.array("y"), strict=True)]
    assert np.mean(right) > 0.8


def test_the_runtime_writes_the_same_labels(searched: tuple[Path, Path], tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    assert cli.main(["predict", str(searched[1]), "--out", str(one)]) == 0
    assert labelling.main([str(searched[1]), "--out", str(two)]) == 0
    assert one.read_text() == two.read_text()
    other = ["predict", str(searched[1]), "--data", str(searched[0]), "--out", "-"]
    assert cli.main(other) == 0


def test_rounded_hops_tell_their_cost(
    searched: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--data", str(searched[0]), "--large", "on", "--preset", "fast"]
    words += ["--hop-precision", "int8", "--out", str(tmp_path / "run")]
    assert cli.main(["search", *words]) == 0
    assert "int8 hops: validation accuracy" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--preset", "paper"], "--large off"),
        (["--max-latency-ms", "3"], "--max-params"),
        (["--warmup-epochs", "3"], "--warmup-epochs is not for a search on rows"),
        (["--max-params", "10"], "the budget leaves 10 weights"),
    ],
)
def test_what_rows_cannot_do_is_refused(
    searched: tuple[Path, Path],
    words: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = ["--data", str(searched[0]), "--large", "on", "--out", str(tmp_path / "run")]
    assert cli.main(["search", *given, *words, "--quiet"]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_changed_graph_is_refused(searched: tuple[Path, Path], tmp_path: Path) -> None:
    graph = tmp_path / "csbm.graph"
    shutil.copytree(searched[0], graph)
    meta = json.loads((graph / "meta.json").read_bytes())
    meta["files"]["x.npy"] = "0" * 64
    run = tmp_path / "run"
    shutil.copytree(searched[1], run)
    told = json.loads((run / "meta.json").read_bytes())
    told["rows"]["graph"] = str(graph)
    told["sha256"] = digest(told)
    (run / "meta.json").write_text(json.dumps(told))
    assert load_row_run(run).graph.nodes == MODEL.nodes
    (graph / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(GassipError, match="no longer the graph"):
        load_row_run(run)


def test_a_wide_layer_better_than_layers_upon_layers(
    searched: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything counts as better here: layers are stacked, then given up for a wide net of one,
    and its students grow up to that net's size."""
    monkeypatch.setattr("gassip.large.rows.search.SCORE_SIGMAS", -100.0)
    words = ["--data", str(searched[0]), "--large", "on", "--size-steps", "1"]
    assert cli.main(["search", *words, "--out", str(tmp_path / "run"), "--quiet"]) == 0
    made = json.loads((tmp_path / "run" / "decisions.json").read_bytes())
    layers, student = (next(d for d in made if d["stage"] == s) for s in ("layers", "student"))
    assert layers["taken"] == layers["tried"][-1]["name"] == "1 layer with hops, 128 wide"
    assert layers["tried"][-2]["name"] == "3 layers with hops"
    sizes = [int(row["name"].partition(" ")[0].replace(",", "")) for row in student["tried"]]
    assert (
        sizes == sorted(sizes) and len(sizes) == 2 and student["taken"].startswith(f"{sizes[-1]:,}")
    )
    meta = json.loads((tmp_path / "run" / "meta.json").read_bytes())
    assert meta["architecture"].count("Linear") == len(meta["architecture"]) - 1


def test_test_labels_are_not_read_before_the_end(
    searched: tuple[Path, Path], tmp_path: Path
) -> None:
    """Garbage labels of test nodes leave every bit of the net as it was."""
    drawn = draw(MODEL)
    drawn.y[drawn.split == 3] = 0
    write_block_model(MODEL, drawn, 0.9, tmp_path / "csbm.graph")
    words = ["--data", str(tmp_path / "csbm.graph"), "--large", "on", "--preset", "fast"]
    assert cli.main(["search", *words, "--out", str(tmp_path / "run"), "--quiet"]) == 0
    nets = [(path / "model.safetensors").read_bytes() for path in (searched[1], tmp_path / "run")]
    assert nets[0] == nets[1]


def test_pruned_training_leaves_so_many_weights() -> None:
    torch.manual_seed(0)
    rows, y = torch.randn(300, 8), torch.randint(2, (300,))
    made = train_rows(
        Shape(hops=(0, 1), width=8),
        Table(rows, y, Scaling.none(rows.shape[1])),
        Table(rows[:50], y[:50], Scaling.none(rows.shape[1])),
        features=4,
        classes=2,
        seed=0,
        epochs=6,
        prune_to=60,
    )
    # 16 numbers of batch norm are never pruned, and fold into the others
    assert made.net.num_weights()[0] <= 60


def test_both_ways_by_hand() -> None:
    """0 → 1, 1 → 0, 2 → 0 by receiver; the reverse of the last is added."""
    edges = Edges(np.array([0, 2, 3, 3]), np.array([1, 2, 0]))
    assert not symmetric(edges)
    both = both_ways(edges)
    assert both.indptr.tolist() == [0, 2, 3, 4] and both.indices.tolist() == [1, 2, 0, 0]
    assert symmetric(both)
