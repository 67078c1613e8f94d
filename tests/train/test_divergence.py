"""NaN and infinite losses and scores end a run with the likely cause."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gassip.cli import main
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.train.divergence import Diverged, check_loss, check_scores

QUICK = ["--preset", "paper", "--epochs", "4", "--warmup-epochs", "2", "--retrain-epochs", "3"]
QUICK += ["--hidden", "4", "--quiet"]


def table(graph: Graph) -> np.ndarray:
    assert isinstance(graph.x, torch.Tensor)
    return np.array(graph.x.numpy())


def write(path: Path, graph: Graph, **changed: np.ndarray) -> Path:
    masks = {f"{s}_mask": graph.mask(s).numpy() for s in ("train", "val", "test")}
    given: dict[str, Any] = {
        "x": table(graph),
        "edge_index": graph.edge_index.numpy(),
        "y": graph.y.numpy(),
    }
    np.savez(path, **(given | masks | changed))
    return path


def search(path: Path, *more: str) -> int:
    return main(["search", "--data", str(path), "--out", str(path.parent / "o"), *QUICK, *more])


def test_the_cause_is_the_features_the_weights_or_the_rate(
    make_graph: Callable[..., Graph],
) -> None:
    graph = make_graph(weighted=True)
    loss = torch.tensor(float("nan"))
    with pytest.raises(
        Diverged, match=r"epoch 3: its loss is nan; lower the learning rate \(0.5\)"
    ):
        check_loss(loss, graph, 3, 0.5)
    assert graph.edge_weight is not None
    heavy = replace(graph, edge_weight=graph.edge_weight * 1e9)
    with pytest.raises(Diverged, match="edge_weight holds values up to"):
        check_loss(loss, heavy, 3, 0.5)
    scores = torch.zeros(graph.num_nodes, 3)
    check_scores(scores, graph)
    scores[4, 1] = float("inf")
    large = replace(graph, x=torch.full((graph.num_nodes, 6), 1e30))
    with pytest.raises(Diverged, match=r"node 4 are NaN or infinite; x holds values up to 1e\+30"):
        check_scores(scores, large)


@pytest.mark.parametrize("cells", ["one", "all"])
def test_large_features_end_a_search(
    make_graph: Callable[..., Graph],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    cells: str,
) -> None:
    graph = make_graph()
    x = table(graph)
    x[-1 if cells == "one" else slice(None)] = 3e38
    assert search(write(tmp_path / "g.npz", graph, x=x), "--undirected") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "diverged" in line and "scale the features" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.npz"]


def test_a_huge_rate_ends_a_search(
    make_graph: Callable[..., Graph], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "g.npz", make_graph())
    assert search(path, "--lr-weight", "1e30") == 2
    assert "lower the learning rate (1e+30)" in capsys.readouterr().err
    assert search(path, "--retrain-lr", "1e38") == 2
    assert "diverged" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.npz"]


def test_edge_weights_whose_sum_float32_cannot_hold_are_refused(
    make_graph: Callable[..., Graph],
) -> None:
    graph = make_graph()
    weight = torch.full((graph.num_edges,), 3e38)
    with pytest.raises(GassipError, match=r"edge_weight adds up to .* scale the weights"):
        Graph.build(graph.x, graph.edge_index, graph.y, edge_weight=weight)
