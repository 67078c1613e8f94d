import torch
from hypothesis import given
from hypothesis import strategies as st

from gassip.best.calibration import bias_corrected, fit_temperature, log_likelihood, temper
from gassip.best.rules import BIAS_SHRINK


def shares(nodes: int, classes: int, seed: int) -> torch.Tensor:
    return torch.softmax(
        2 * torch.randn(nodes, classes, generator=torch.Generator().manual_seed(seed)), 1
    )


def test_likelihoods_are_compared_at_each_nets_own_temperature() -> None:
    y = torch.arange(40) % 3
    opinion = torch.eye(3)[y] + 2 * torch.rand(40, 3, generator=torch.Generator().manual_seed(0))
    quiet, loud = (torch.softmax(power * opinion, 1) for power in (1, 3))
    torch.testing.assert_close(log_likelihood(loud, y), log_likelihood(quiet, y), atol=1e-3, rtol=0)
    # by hand: two classes, three nodes of four right at equal confidence: the best p is 3/4
    share, labels = torch.tensor([[0.9, 0.1]]).repeat(4, 1), torch.tensor([0, 0, 0, 1])
    expected = torch.tensor([0.75, 0.75, 0.75, 0.25]).log()
    torch.testing.assert_close(log_likelihood(share, labels), expected, atol=1e-3, rtol=0)


def test_levels_by_hand() -> None:
    # nobody knows anything, three of four nodes are of class 0: with p = σ(2 b) the loss is lowest
    # where
    # its slope 2 (p − 3/4) + 4 · .1 b is 0
    share, y = torch.full((6, 2), 0.5), torch.tensor([0, 0, 0, 1])
    found = bias_corrected(share, torch.arange(4), y)
    low, high = 0.0, 1.0
    for _ in range(60):
        b = (low + high) / 2
        slope = 2 * (1 / (1 + 2.718281828459045 ** (-2 * b)) - 0.75) + 4 * BIAS_SHRINK * b
        low, high = (b, high) if slope < 0 else (low, b)
    expected = 1 / (1 + 2.718281828459045 ** (-2 * low))
    torch.testing.assert_close(
        found, torch.tensor([[expected, 1 - expected]]).repeat(6, 1), atol=1e-4, rtol=0
    )
    assert 0.5 < expected < 0.75  # towards what the labels say, shrunk


@given(st.integers(2, 5), st.integers(0, 9))
def test_levels_bring_class_counts_closer_and_keep_rows_of_sum_1(classes: int, seed: int) -> None:
    share, nodes = shares(60, classes, seed), torch.arange(50)
    y = torch.randint(classes, (50,), generator=torch.Generator().manual_seed(seed)).clamp_max(
        classes - 2
    )  # one rare
    found = bias_corrected(share, nodes, y)
    torch.testing.assert_close(found.sum(1), torch.ones(60))
    counts = torch.bincount(y, minlength=classes) / 50
    at_power = temper(share, fit_temperature(share[nodes], y))  # b = 0
    assert (found[nodes].mean(0) - counts).norm() <= (
        at_power[nodes].mean(0) - counts
    ).norm() + 1e-4


def test_where_classes_are_as_common_as_said_nothing_is_corrected() -> None:
    share, y = (
        torch.tensor([[0.8, 0.2], [0.2, 0.8]]).repeat(5, 1),
        torch.tensor([0, 1] * 4 + [1, 0]),
    )
    torch.testing.assert_close(
        bias_corrected(share, torch.arange(10), y), share, atol=1e-4, rtol=0
    )  # 8 of 10 right


def test_without_labels_shares_stay() -> None:
    share = shares(4, 3, 0)
    assert torch.equal(
        bias_corrected(share, torch.arange(0), torch.empty(0, dtype=torch.long)), share
    )
