"""Label propagation in the training of a student of rows: out of fold, judged, told and run."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gassip import cli
from gassip.deploy import runtime
from gassip.deploy.row_runs import load_row_run
from gassip.graph.store import GraphFolder
from gassip.large.block_model import BlockModel, draw
from gassip.large.rows.job import Job, chosen_nodes, prepared
from gassip.large.rows.labels import offsets_of
from gassip.large.rows.search import Options
from gassip.large.writing import write_block_model

MODEL = BlockModel(
    nodes=1500, degree=6, features=6, classes=3, homophily=0.6, labelled=0.4, signal=1.0, seed=2
)
Paths = tuple[Path, Path]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    """A run whose student was trained with labels: taken here unless it is worse, not if better."""
    place = tmp_path_factory.mktemp("labels")
    write_block_model(MODEL, draw(MODEL), 0.9, place / "csbm.graph")
    words = ["search", "--data", str(place / "csbm.graph"), "--large", "on", "--preset", "fast"]
    words += ["--size-steps", "1", "--for", "own", "--out", str(place / "run"), "--quiet"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gassip.large.rows.search.LIKELIHOOD_SIGMAS", -10.0)
        assert cli.main(words) == 0
    return place / "csbm.graph", place / "run"


def job_on(path: Path) -> Job:
    return Job(graph=GraphFolder.open(path), hops=path / "hops", options=Options())


def test_no_training_row_hears_its_own_label(searched: Paths) -> None:
    """Another label of one node: what it hears stays, to the bit; its neighbours hear it."""
    job = job_on(searched[0])
    chosen = chosen_nodes(job)
    before = offsets_of(prepared(job, chosen, "given"))
    y, at = chosen.y.copy(), 17
    y[chosen.train[at]] = (y[chosen.train[at]] + 1) % MODEL.classes
    after = offsets_of(prepared(job, replace(chosen, y=y), "given"))
    assert torch.equal(before.train[at], after.train[at])
    assert not torch.equal(before.train, after.train)
    assert not torch.equal(before.val, after.val)


def test_the_run_tells_of_labels_in_training(searched: Paths) -> None:
    made = json.loads((searched[1] / "decisions.json").read_bytes())
    decision = next(row for row in made if row["stage"] == "label propagation")
    names = [row["name"].partition(", weight")[0] for row in decision["tried"]]
    assert names[:2] == ["without", "added after training"]
    assert decision["taken"].startswith("trained with weight") and len(names) == 3
    meta = json.loads((searched[1] / "meta.json").read_bytes())
    assert meta["recipe"]["labels_in_training"]
    assert meta["net"]["label_weight"] == meta["rows"]["student"]["label_weight"] > 0
    board = json.loads((searched[1] / "leaderboard.json").read_bytes())
    val = next(row["val_score"] for row in board if "with labels" in row["name"])
    assert val == pytest.approx(meta["scores"]["accuracy"]["val"], abs=1e-6)


def test_it_runs_and_is_trained_again_as_any_net(
    searched: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = load_row_run(searched[1]).model.scores()
    whole = runtime.load(searched[1]).scores()
    np.testing.assert_allclose(scores, whole, atol=1e-3)
    assert cli.main(["evaluate", str(searched[1]), "--seeds", "1", "--quiet"]) == 0
    found = json.loads((searched[1] / "evaluate.json").read_bytes())
    meta = json.loads((searched[1] / "meta.json").read_bytes())
    assert found["scores"]["accuracy"]["test"]["mean"] == meta["accuracy"]["test"]
    assert cli.main(["refit", str(searched[1]), "--out", str(tmp_path / "refit")]) == 0
    other = BlockModel(nodes=300, features=6, classes=3, seed=1)
    write_block_model(other, draw(other), 0.9, tmp_path / "other.graph")
    words = ["--data", str(tmp_path / "other.graph"), "--out", str(tmp_path / "l.csv")]
    capsys.readouterr()
    assert cli.main(["predict", str(searched[1]), *words]) == 0
    assert "trained with label propagation" in capsys.readouterr().err
