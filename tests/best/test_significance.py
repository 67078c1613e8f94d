from dataclasses import replace

import pytest
import torch

from gassip.best.rules import JACKKNIFE_GROUPS
from gassip.best.significance import (
    Validation,
    gain,
    jackknife,
    likelier,
    likelihood_gain,
    mcnemar,
    possible_loss,
    standardised,
    stratified_groups,
)


def marks(*counts: tuple[int, int]) -> torch.Tensor:
    """Runs of so many nodes, right (1) or wrong (0)."""
    return torch.cat([torch.full((count,), bool(right)) for right, count in counts])


def test_mcnemar_by_hand() -> None:
    # b = 8 and c = 4: (8 − 4) / √12 = 1.1547
    challenger, incumbent = marks((1, 8), (0, 4), (1, 10)), marks((0, 8), (1, 4), (1, 10))
    assert mcnemar(challenger, incumbent) == pytest.approx(1.1547, abs=1e-4)
    assert mcnemar(incumbent, challenger) == pytest.approx(-1.1547, abs=1e-4)
    assert mcnemar(challenger, challenger) == 0.0
    # b = 4 and c = 0: 4 / 2; b = 5: √5
    assert mcnemar(marks((1, 4), (1, 9)), marks((0, 4), (1, 9))) == 2.0
    assert mcnemar(marks((1, 5), (1, 9)), marks((0, 5), (1, 9))) == pytest.approx(5**0.5)


def test_groups_deal_out_every_class_in_turn() -> None:
    y = torch.arange(90) % 3
    groups = stratified_groups(y)
    assert set(groups.tolist()) == set(range(int(JACKKNIFE_GROUPS)))
    for label in range(3):
        counts = torch.bincount(groups[y == label], minlength=int(JACKKNIFE_GROUPS))
        assert int(counts.max() - counts.min()) <= 1


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    """Of 20 nodes in 20 groups, Δ of accuracy is a mean: se² = Σ (d_i − mean d)² / (n (n − 1))."""
    y = torch.zeros(20, dtype=torch.long)
    better, worse = marks((1, 15), (0, 5)), marks((0, 6), (1, 6), (0, 8))
    one, two = (Validation("accuracy", torch.eye(2)[(~own).long()], y) for own in (better, worse))
    d = better.double() - worse.double()  # 9 of 20: mean .45
    expected = float(d.mean() / (d.std() / 20**0.5))
    assert standardised(*jackknife(one, two)) == pytest.approx(expected, rel=1e-5)
    assert standardised(*jackknife(two, one)) == pytest.approx(-expected, rel=1e-5)
    assert jackknife(one, one) == (0.0, 0.0)
    assert gain(one, two) == mcnemar(better, worse)  # accuracy has a test of its own


def test_where_the_metric_is_undefined_nobody_wins() -> None:
    y = torch.zeros(30, dtype=torch.long)  # one class: no roc-auc
    probs = torch.softmax(torch.randn(30, 2, generator=torch.Generator().manual_seed(0)), 1)
    one, two = Validation("roc-auc", probs, y), Validation("roc-auc", probs.flip(1), y)
    assert one.score() is None and gain(one, two) == 0.0


def test_a_gain_counts_in_units_of_its_standard_error() -> None:
    gain = torch.tensor([1.0, 3.0, 1.0, 3.0])  # mean 2, standard error √(4/3) / 2 = .577
    zero = torch.zeros(4)
    assert likelihood_gain(gain, zero) == pytest.approx(2 / (4 / 3) ** 0.5 * 2)
    assert likelier(gain, zero, sigmas=3.4) and not likelier(gain, zero, sigmas=3.5)
    assert not likelier(zero, gain)
    assert not likelier(torch.ones(1), torch.zeros(1))  # of one node nothing can be said


def test_a_gain_that_is_the_same_everywhere_is_no_chance() -> None:
    same = torch.zeros(4)
    assert likelihood_gain(same, same) == 0.0
    assert likelier(same + 1, same) and not likelier(same - 1, same)


def test_the_possible_loss_by_hand() -> None:
    """20 nodes, of which one net gets 16 right and the other 13 of those."""
    y = torch.zeros(20, dtype=torch.long)
    some, other = torch.arange(20) < 16, torch.arange(20) < 13
    one, two = (Validation("accuracy", torch.eye(2)[(~own).long()], y) for own in (some, other))
    assert possible_loss(two, one) == pytest.approx((3 + 2) / 20)  # three lost, √(3 + 1)
    assert possible_loss(one, two) == pytest.approx((-3 + 2) / 20)
    assert possible_loss(one, one) == pytest.approx(1 / 20)  # nothing seen, one node in doubt
    ranked = replace(one, metric="macro-f1")
    assert possible_loss(ranked, ranked) == pytest.approx(1 / 20)
