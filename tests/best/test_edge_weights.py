"""Weights of edges: used if validation gains by them, left out otherwise, and said so."""

import json
from pathlib import Path

import numpy as np
import pytest

import gassip
from gassip.best.edge_weights import choose_weights, has_weights
from gassip.cli import main
from gassip.graph.graph import Graph
from gassip.runtime import load

QUICK = ["--epochs", "2", "--warmup-epochs", "1", "--hidden", "4", "--candidates", "2"]
QUICK += ["--retrain-epochs", "4", "--trial-epochs", "2", "--quiet", "--jobs", "1"]


def arrays(kind: str) -> dict[str, np.ndarray]:
    """Half of the edges join a class. Weights tell these from the others, or are noise."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 4
    source = rng.integers(0, 400, 4000)
    same = rng.random(4000) < 0.5
    target = np.where(same, 4 * rng.integers(0, 100, 4000) + y[source], rng.integers(0, 400, 4000))
    true = np.where(y[source] == y[target], 1.0, 0.05)
    noise = rng.lognormal(0, 3, 4000)
    x = np.eye(4)[y] * 0.8 + rng.normal(0, 1, (400, 4))
    weight = true if kind == "true" else noise
    both = np.concatenate([np.stack([source, target]), np.stack([target, source])], axis=1)
    return {"x": x, "y": y, "edge_index": both, "edge_weight": np.concatenate([weight, weight])}


def graph_of(kind: str) -> Graph:
    found = arrays(kind)
    weight = found["edge_weight"]
    return Graph.build(found["x"], found["edge_index"], found["y"], edge_weight=weight)


def test_weights_that_tell_are_used_and_noise_is_left_out() -> None:
    assert choose_weights(graph_of("true"), "accuracy").value
    decided = choose_weights(graph_of("noise"), "accuracy")
    assert not decided.value and decided.decision.taken == "left out"


def test_equal_weights_leave_no_choice(path: Graph) -> None:
    assert has_weights(graph_of("true")) and not has_weights(path)


@pytest.mark.parametrize("kind", ["true", "noise"])
def test_the_summary_says_which_and_predictions_agree(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("mine.npz", **arrays(kind))  # type: ignore[arg-type]
    assert main(["search", "--data", "mine.npz", "--out", "run", *QUICK]) == 0
    used = kind == "true"
    said = [line for line in capsys.readouterr().out.splitlines() if "edge weights" in line]
    assert ("used" if used else "left out: no gain on validation") in said[0]
    meta = json.loads(Path("run/meta.json").read_text())
    assert meta["source"]["weighted"] is used
    assert main(["predict", "run", "--out", "own.csv"]) == 0
    found = arrays(kind)
    parts = (found["x"], found["edge_index"][:, 8:], found["edge_weight"][8:])
    np.savez("other.npz", x=parts[0], edge_index=parts[1], edge_weight=parts[2])
    assert main(["predict", "run", "--data", "other.npz", "--out", "other.csv"]) == 0
    names = [line.split(",")[1] for line in Path("other.csv").read_text().splitlines()[1:]]
    light = load("run").predict(parts[0].astype(np.float32), parts[1], parts[2])
    assert np.mean(np.array(names, dtype=int) == light) == 1
    assert main(["evaluate", "run", "--seeds", "1", "--quiet"]) == 0
    run = gassip.open_run("run")
    assert (run.edge_weight is not None) is used
