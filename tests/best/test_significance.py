import pytest
import torch

from gassip.best.significance import beyond_chance, likelier, likelihood_gain, mcnemar


def marks(*counts: tuple[int, int]) -> torch.Tensor:
    """Runs of so many nodes, right (1) or wrong (0)."""
    return torch.cat([torch.full((count,), bool(right)) for right, count in counts])


def test_mcnemar_by_hand() -> None:
    # b = 8 and c = 4: (8 − 4) / √12 = 1.1547
    challenger, incumbent = marks((1, 8), (0, 4), (1, 10)), marks((0, 8), (1, 4), (1, 10))
    assert mcnemar(challenger, incumbent) == pytest.approx(1.1547, abs=1e-4)
    assert mcnemar(incumbent, challenger) == pytest.approx(-1.1547, abs=1e-4)
    assert mcnemar(challenger, challenger) == 0.0
    assert beyond_chance(challenger, incumbent, 1.1) and not beyond_chance(challenger, incumbent)
    # b = 4 and c = 0: 2 is not above 2; b = 5: 2.236
    assert not beyond_chance(marks((1, 4), (1, 9)), marks((0, 4), (1, 9)))
    assert beyond_chance(marks((1, 5), (1, 9)), marks((0, 5), (1, 9)))


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
