"""Features on very different scales, such as a time in seconds beside shares."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gassip.best.facts import facts_of
from gassip.best.pipeline import as_read, search
from gassip.cli import main
from gassip.graph.graph import Graph
from gassip.settings import Settings, preset
from gassip.train.divergence import Diverged
from gassip.train.trainer import retrain
from tests.small import bare_best
from tests.train.test_divergence import write

QUICK = {"epochs": 2, "warmup_epochs": 1, "retrain_epochs": 60, "plain_epochs": 20, "hidden": 8}


@pytest.fixture
def graph(make_graph: Callable[..., Graph]) -> Graph:
    """Features tell the class; beside them stands a time in seconds."""
    graph = make_graph(nodes=60, edges=120)
    x = torch.nn.functional.one_hot(graph.y, 6) + 0.1 * torch.randn(60, 6, generator=seeded())
    x[:, 5] = 1.7e9 + 1e7 * torch.randn(60, generator=seeded())
    return replace(graph, x=x)


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_very_large_values_are_standardised_from_the_start(graph: Graph) -> None:
    assert facts_of(graph).largest > 1e9
    settings = preset("best", graph)
    assert settings.best is not None and settings.best.recipe.standardised
    x = as_read(graph, settings).x
    assert isinstance(x, torch.Tensor)
    torch.testing.assert_close(x.mean(0), torch.zeros(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std(0, correction=0), torch.ones(6))
    assert as_read(graph, Settings()) is graph
    assert as_read(graph, bare_best()) is graph


def test_nets_learn_from_the_other_features(graph: Graph) -> None:
    """On the values as given they do not."""
    own = bare_best(**QUICK, students=1, candidates=2, teachers=1)
    assert trained(graph, own.changed(standardised=True)) > trained(graph, own) + 0.25


def trained(graph: Graph, settings: Settings) -> float:
    try:
        plan = search(graph, settings)
        return retrain(graph, plan).accuracy["train"]
    except Diverged:
        return 0.0


def test_plain_nets_are_standardised_where_that_validates_better(graph: Graph) -> None:
    """Below the rule's bound validation decides, for the preset fast too."""
    assert isinstance(graph.x, torch.Tensor)
    smaller = replace(graph, x=torch.cat([graph.x[:, :5], graph.x[:, 5:] / 1e5], 1))
    own = bare_best(**QUICK, plain_only=True, standardise_features=True)
    plan = search(smaller, own)
    assert plan.recipe.standardised
    (made,) = [decision for decision in plan.decisions if decision.stage == "plain"]
    scores = [float(str(row["score"])) for row in made.tried]
    assert scores[1] > scores[0]  # the same net, standardised
    assert not search(smaller, own.changed(standardise_features=False)).recipe.standardised


def test_the_summary_says_so(
    graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = write(tmp_path / "g.npz", graph), str(tmp_path / "o")
    words = ["--preset", "fast", "--plain-epochs", "3", "--retrain-epochs", "3", "--quiet"]
    assert main(["search", "--data", str(path), "--out", out, *words, "--no-report"]) == 0
    assert "standardised by the net" in capsys.readouterr().out
