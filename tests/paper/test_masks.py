from math import exp

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gassip.paper.masks import edge_keep, edge_mask, weight_keep, weight_mask


def sigmoid(value: float) -> float:
    return 1 / (1 + exp(-value))


def test_weight_mask_is_sigmoid_or_twice_it() -> None:
    score = torch.tensor([0.0, 1.0, -2.0])
    # σ(0) = .5, σ(1) = .731059, σ(-2) = .119203
    torch.testing.assert_close(
        weight_mask(score, "sigmoid"), torch.tensor([0.5, 0.731059, 0.119203])
    )
    torch.testing.assert_close(
        weight_mask(score, "double"), torch.tensor([1.0, 1.462117, 0.238406])
    )


def test_positive_scores_keep_their_weights() -> None:
    """Gap 4: σ is above 0 always, so "non-positive" is read off the score; 0 itself goes."""
    scores = [torch.tensor([[0.1, 0.0], [-0.1, 2.0]]), torch.tensor([[-1.0]])]
    first, second = weight_keep(scores, "score", 0.5)
    assert first.tolist() == [[True, False], [False, True]]
    assert second.tolist() == [[False]]


def test_budget_of_weights_runs_over_all_layers_together() -> None:
    scores = [torch.tensor([[-5.0, -4.0]]), torch.tensor([[-3.0], [-2.0]])]
    first, second = weight_keep(scores, "budget", 0.75)  # 3 of 4, however low
    assert first.tolist() == [[False, True]]
    assert second.tolist() == [[True], [True]]


@given(st.integers(1, 60), st.floats(0.01, 1.0), st.integers(0, 99))
def test_budget_of_weights_is_exact(count: int, share: float, seed: int) -> None:
    score = torch.randn(count, generator=torch.Generator().manual_seed(seed)).round(
        decimals=0
    )  # many ties
    (keep,) = weight_keep([score], "budget", share)
    assert int(keep.sum()) == round(share * count)
    assert not keep.any() or keep.all() or score[keep].min() >= score[~keep].max()


def test_edge_mask_reads_the_score_of_its_slot() -> None:
    score, threshold = torch.tensor([1.0, 0.5]), torch.tensor(0.5)
    mask = edge_mask(score, threshold, torch.tensor([0, 1, 0]))
    torch.testing.assert_close(mask, torch.tensor([sigmoid(0.5), 0.5, sigmoid(0.5)]))


def test_gradients_of_the_edge_mask() -> None:
    score = torch.randn(3, dtype=torch.float64, requires_grad=True)
    threshold = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    slot = torch.tensor([0, 2, 2, 1])
    assert torch.autograd.gradcheck(lambda s, t: edge_mask(s, t, slot), (score, threshold))


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ("paper", [False, False, True, True]),  # M_G ≥ γ = .7, the boundary stays
        ("half", [False, True, True, True]),  # M_G ≥ 1/2
        ("budget", [False, False, False, True]),  # the highest quarter
    ],
)
def test_edge_rules(rule: str, kept: list[bool]) -> None:
    """Gap 2."""
    mask = torch.tensor([0.4, 0.5, 0.7, 0.9], dtype=torch.float64)
    assert edge_keep(mask, 0.7, rule, 0.25).tolist() == kept


def test_a_threshold_above_one_removes_every_edge() -> None:
    """Gap 2: M_G stays below 1, so the paper's rule has no edge left once γ has passed it."""
    mask = torch.sigmoid(torch.tensor([0.0, 5.0, 15.0]))
    assert not edge_keep(mask, 1.01, "paper", 1.0).any()
    assert edge_keep(mask, 1.01, "half", 1.0).all()
