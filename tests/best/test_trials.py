from dataclasses import replace

import pytest
import torch

from gassip.best.significance import Validation
from gassip.best.trials import Regression, Trial, beats, seed_of, winner
from gassip.metrics import Metric
from gassip.train.plan import Row
from tests.best.stages import SHAPES, judged, trials_on
from tests.conftest import random_graph


def test_a_challenger_must_be_better_by_more_than_chance() -> None:
    stays = judged([1] * 6 + [0] * 14)
    # 8 more right and 0 fewer: 8 > σ √8 up to σ = 2.83; 8 more and 4 fewer: 4 > σ √12 up to 1.15
    better, luckier = judged([1] * 14 + [0] * 6), judged([0] * 4 + [1] * 10 + [0] * 6)
    assert beats(better, stays, 2.8) and not beats(better, stays, 2.9)
    assert beats(luckier, stays, 1.0) and not beats(luckier, stays, 1.2)
    assert not beats(stays, stays, 0.0)


def test_what_validation_scores_lower_never_wins() -> None:
    assert not beats(judged([1] * 20, value=0.1), judged([0] * 20, value=0.2), 1.0)


def test_of_nets_that_cannot_be_told_apart_the_first_stays() -> None:
    first, second = judged([1, 0, 0, 0] * 5), judged([0, 1, 0, 0] * 5)
    far = judged([1, 1, 1, 1] * 5)
    assert winner([first, second]) is first
    assert winner([second, first]) is second
    assert winner([first, second, far]) is far


def test_a_trial_tells_of_itself_and_never_looks_at_test_nodes() -> None:
    rows: list[Row] = []
    own = trials_on(rows=rows)
    assert not own.graph.test_mask.any()
    recipe = judged([1]).recipe
    one, two = (own.train("candidate", SHAPES[0], recipe, own.graph) for _ in range(2))
    assert [row["epoch"] for row in rows] == [1, 2] and rows[0]["val_score"] == one.value
    assert rows[0]["architecture"] == "GCNConv ‖ GCNConv" and rows[0]["stage"] == "candidate"
    assert not torch.equal(one.probs, two.probs)  # each has a seed of its own
    torch.testing.assert_close(one.probs.sum(1), torch.ones(30))
    y = own.graph.y[own.graph.val_mask]
    right = one.validation.right
    assert torch.equal(right, one.probs.argmax(1)[own.graph.val_mask] == y)
    assert one.validation.score() == pytest.approx(one.value)


def test_a_seed_follows_from_stage_and_number_alone() -> None:
    recipe = replace(judged([1]).recipe, epochs=1)
    alone, later = trials_on(), trials_on()
    later.train("recipe strong", SHAPES[1], recipe, later.graph)
    later.regress("graph with all edges", later.graph)
    one, two = (own.train("candidate", SHAPES[0], recipe, own.graph) for own in (alone, later))
    assert torch.equal(one.probs, two.probs)  # leaving a stage out does not reseed the rest
    seeds = {
        seed_of(seed, stage, index)
        for seed in (0, 1)
        for stage in ("student", "candidate")
        for index in (0, 1)
    }
    assert len(seeds) == 8 and all(0 <= own < 2**63 for own in seeds)
    assert seed_of(1, "student", 10) != seed_of(11, "student", 0)


def test_a_challenger_is_judged_by_the_metric_that_was_asked_for() -> None:
    """Under roc-auc a net may win that gets no more nodes right."""
    y = torch.arange(200) % 2
    generator = torch.Generator().manual_seed(0)
    noise = 0.1 * torch.rand(200, generator=generator)
    high = 0.6 + 0.1 * y + noise  # every node is taken for class 1, but class 1 more so
    flat = 0.65 + noise

    def said(p: torch.Tensor, value: float, metric: Metric) -> Trial:
        told = Validation(metric, torch.stack([1 - p, p], 1), y)
        return replace(judged([1]), value=value, validation=told)

    cases: list[tuple[Metric, bool]] = [("roc-auc", True), ("accuracy", False)]
    for metric, wins in cases:
        challenger, incumbent = said(high, 0.6, metric), said(flat, 0.5, metric)
        assert beats(challenger, incumbent) == wins and not beats(incumbent, challenger)


def test_of_two_regressions_the_likelier_must_score_higher_too() -> None:
    probs, sure = torch.ones(4, 2) / 2, torch.full((4,), -0.1)
    unsure = torch.tensor([-1.0, -1.1, -1.0, -1.1])
    low = Regression(probs=probs, value=0.5, likelihood=unsure)
    assert Regression(probs=probs, value=0.6, likelihood=sure).beats(low)
    assert not Regression(probs=probs, value=0.5, likelihood=sure).beats(low)
    assert not Regression(probs=probs, value=0.6, likelihood=unsure).beats(low)


def test_where_the_metric_is_undefined_the_likelihood_stands_for_it() -> None:
    graph = random_graph(1, nodes=30)
    graph.val_mask[graph.y == 0] = False
    found = Regression.on(graph, "roc-auc")
    assert found.value == float(found.likelihood.mean())
