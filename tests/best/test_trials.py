from dataclasses import replace

import pytest
import torch

from gassip.best.significance import Validation
from gassip.best.trials import (
    Regression,
    Request,
    Trained,
    Trial,
    Trials,
    beats,
    seed_of,
    winner,
)
from gassip.metrics import Metric
from gassip.settings.training import Recipe
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
    one = own.train("candidate", SHAPES[0], recipe, own.graph)
    two = own.train("candidate", SHAPES[0], recipe, replace(own.graph))
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


def asked(own: Trials, count: int) -> list[Request]:
    recipe = Recipe(epochs=3, dropout=0.5, consistency=1.0)
    shapes = (SHAPES * count)[:count]
    return [Request(architecture=one, recipe=recipe, graph=own.graph) for one in shapes]


def test_nets_have_equal_bits_whatever_the_number_of_processes() -> None:
    told: dict[int, list[Row]] = {1: [], 2: [], 3: []}
    found = {}
    for jobs, rows in told.items():
        own = trials_on(rows=rows)
        own.ahead.jobs = jobs
        found[jobs] = own.train_all("candidate", asked(own, 4))
    for jobs in (2, 3):
        for one, other in zip(found[1], found[jobs], strict=True):
            states = one.net.state_dict(), other.net.state_dict()
            assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
            assert torch.equal(one.probs, other.probs) and one.value == other.value
        apart = [[row | {"seconds": 0.0} for row in told[k]] for k in (1, jobs)]
        assert apart[0] == apart[1]  # told of in the order in which they were asked for


def test_nets_have_equal_bits_whether_they_were_expected_or_not() -> None:
    """In part rightly: the second stage asks for another net than the one that was expected."""
    found: list[list[Trial]] = []
    for jobs in (1, 2):
        own = trials_on()
        own.ahead.jobs = jobs
        one, two = asked(own, 2)
        three, four = (replace(one, recipe=replace(one.recipe, epochs=k)) for k in (4, 5))
        own.expect([("candidate", one), ("candidate", two)])
        trained = own.train_all("candidate", [one, two], [("student", three), ("student", one)])
        found.append([*trained, *own.train_all("student", [four, three])])
        assert [row.name for row in own.board][-1] == "student 1"
        own.close()
    for mine, theirs in zip(*found, strict=True):
        assert mine.name == theirs.name and torch.equal(mine.probs, theirs.probs)


def test_what_is_remembered_is_not_trained_again() -> None:
    """As after a kill in the middle of a stage: the second of three nets had been trained."""
    kept: dict[str, Trained] = {}

    class Kept:
        def recall(self, name: str) -> Trained | None:
            return kept.get(name)

        def remember(self, name: str, trained: Trained) -> None:
            kept[name] = trained

    whole, broken = trials_on(), trials_on()
    unbroken = whole.train_all("student", asked(whole, 3))
    broken.memory, broken.ahead.jobs = Kept(), 2
    kept["student 1"] = (unbroken[1].net.state_dict(), 7.0, 3)
    resumed = broken.train_all("student", asked(broken, 3))
    assert set(kept) == {"student 0", "student 1", "student 2"} and kept["student 1"][1] == 7.0
    for one, other in zip(unbroken, resumed, strict=True):
        assert torch.equal(one.probs, other.probs)


def test_a_name_within_a_stage_is_part_of_the_stage() -> None:
    rows: list[Row] = []
    own = trials_on(rows=rows)
    one, two = asked(own, 2)
    trained = own.train_all("recipe", [replace(one, what="strong"), replace(two, what="norm")])
    assert [row["stage"] for row in rows] == ["recipe strong", "recipe norm"]
    alone = trials_on().train("recipe strong", one.architecture, one.recipe, own.graph)
    assert torch.equal(alone.probs, trained[0].probs)
