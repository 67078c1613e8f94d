from collections.abc import Callable
from dataclasses import replace
from math import log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gassip.graph.graph import Graph
from gassip.nn.propagate import MaskedGraph, propagate
from gassip.operations import OPERATIONS
from gassip.paper import curriculum
from gassip.paper.masks import edge_mask

# `path` is 0 - 1 - 2 with node 3 apart; edges 1→0, 0→1, 2→1, 1→2; nodes 0 and 1 are labelled 0 and
# 1
LOGITS = torch.tensor([[0.0, 2.0], [3.0, 0.0], [1.0, 1.0], [0.0, 5.0]])
PSEUDO = torch.tensor([0, 1, 0, 1])


def test_pseudo_labels_by_hand(path: Graph) -> None:
    # argmax is 1, 0, 0, 1; the labelled nodes 0 and 1 keep 0 and 1
    assert curriculum.pseudo_labels(LOGITS, path.y, path.train_mask).tolist() == [0, 1, 0, 1]


def test_pseudo_labels_read_no_label_elsewhere(path: Graph) -> None:
    other = replace(path, y=torch.tensor([0, 1, -1, 7]))
    found = curriculum.pseudo_labels(LOGITS, other.y, other.train_mask)
    assert torch.equal(found, curriculum.pseudo_labels(LOGITS, path.y, path.train_mask))


def test_label_divergence_by_hand(path: Graph) -> None:
    # node 0 hears 1 (differs); node 1 hears 0 (differs) and 2; node 2 hears 1; node 3 nobody
    pseudo = torch.tensor([0, 1, 1, 0])
    assert curriculum.label_divergence(path, pseudo).tolist() == [1.0, 0.5, 0.0, 0.0]


def test_node_view_difficulty_by_hand(path: Graph) -> None:
    # cos(z0, z1) = 0, cos(z1, z2) = 3/(3·√2) = .707107; ȳ = 0 1 0 1, so all neighbours differ: λ1 ·
    # 1
    found = curriculum.node_view_difficulty(path, LOGITS, PSEUDO, 0.5)
    torch.testing.assert_close(found, torch.tensor([0.5, 0.5, 1.207107, 1.207107]))


def test_node_view_reads_the_receivers_divergence(path: Graph) -> None:
    # ȳ = 0 1 1 0: divergence 1, 1/2, 0; edges go to 0, 1, 1, 2
    found = curriculum.node_view_difficulty(path, torch.ones(4, 2), torch.tensor([0, 1, 1, 0]), 1.0)
    torch.testing.assert_close(found, torch.tensor([2.0, 1.5, 1.5, 1.0]))


def test_node_view_of_a_zero_representation_is_finite(path: Graph) -> None:
    assert (
        curriculum.node_view_difficulty(path, torch.zeros(4, 2), PSEUDO, 0.0).tolist() == [0.0] * 4
    )


def test_node_difficulty_is_the_mean_over_neighbours(path: Graph) -> None:
    found = curriculum.neighbour_mean(path, torch.tensor([1.0, 2.0, 6.0, 3.0]))
    assert found.tolist() == [1.0, 4.0, 3.0, 0.0]


def test_node_weights_by_hand(path: Graph) -> None:
    # D(i) = ln 1, ln 2, ln 4, 0 -> weights 1, 2, 4, 1 over 8
    difficulty = torch.tensor([log(1), log(1), log(4), log(4)])
    torch.testing.assert_close(
        curriculum.node_weights(path, difficulty), torch.tensor([0.125, 0.25, 0.5, 0.125])
    )
    over = torch.tensor(
        [True, True, False, False]
    )  # gap 5: over the labelled alone, 1 and 2 over 3
    found = curriculum.node_weights(path, difficulty, over)
    torch.testing.assert_close(found, torch.tensor([1 / 3, 2 / 3, 0.0, 0.0]))


@given(st.integers(0, 9999), st.floats(0.01, 100.0))
def test_node_weights_sum_to_one(make_graph: Callable[..., Graph], seed: int, scale: float) -> None:
    graph = make_graph(seed)
    difficulty = scale * torch.randn(graph.num_edges, generator=torch.Generator().manual_seed(seed))
    for over in (None, graph.train_mask):
        weight = curriculum.node_weights(graph, difficulty, over)
        torch.testing.assert_close(weight.sum(), torch.tensor(1.0))
        assert over is None or (weight[~over] == 0).all()


def test_standardised() -> None:
    # mean 2, deviation √(2/3): ±1/.816497 = ±1.224745
    found = curriculum.standardised(torch.tensor([1e-9, 2e-9, 3e-9]))
    torch.testing.assert_close(found, torch.tensor([-1.224745, 0.0, 1.224745]))
    assert curriculum.standardised(torch.full((3,), 4.0)).tolist() == [0.0] * 3


def test_standardised_of_one_edge_score() -> None:
    assert curriculum.standardised(torch.tensor([3.0])).tolist() == [0.0]


def test_mask_entropy() -> None:
    assert float(curriculum.mask_entropy(torch.tensor([0.5, 0.5]))) == pytest.approx(log(2))
    # -(.25 ln .25 + .75 ln .75) = .562335; a mask of 0 or 1 has none
    assert float(curriculum.mask_entropy(torch.tensor([0.25, 0.0, 1.0]))) == pytest.approx(
        0.562335 / 3, abs=1e-6
    )


def test_structure_loss_by_hand() -> None:
    # CE: ln(1 + 1) = ln 2 for (0, 0); ln(1 + 1/3) for (ln 3, 0) against 0; node 2 is not in V_L
    logits = torch.tensor([[0.0, 0.0], [log(3), 0.0], [9.0, 0.0]])
    weight, nodes = torch.tensor([0.2, 0.3, 0.5]), torch.tensor([True, True, False])
    mask = torch.tensor([0.5, 0.5])  # entropy ln 2
    loss = curriculum.structure_loss(logits, torch.tensor([1, 0, 1]), weight, nodes, mask, beta=0.1)
    expected = 0.2 * (log(2) + 0.1 * log(2)) + 0.3 * (log(4 / 3) + 0.1 * log(2))
    assert float(loss) == pytest.approx(expected)


@pytest.mark.parametrize("op", [name for name in OPERATIONS if name != "Linear"])
def test_gradient_of_the_structure_loss(make_graph: Callable[..., Graph], op: str) -> None:
    """Through M_G and a real operation to S_G and γ."""
    graph = make_graph(1, nodes=9, edges=8)
    generator = torch.Generator().manual_seed(0)
    products = [torch.randn(9, 4, dtype=torch.float64, generator=generator) for _ in range(2)]
    attention = torch.randn(2, 1, 4, dtype=torch.float64, generator=generator)
    weight = torch.rand(9, dtype=torch.float64, generator=generator)
    pseudo, nodes = torch.arange(9) % 4, torch.arange(9) < 5
    scores = int(graph.pair.max()) + 1

    def loss(score: Tensor, threshold: Tensor) -> Tensor:
        mask = edge_mask(score, threshold, graph.pair)
        masked = MaskedGraph(graph.adjacency, mask)
        logits = propagate(OPERATIONS[op], masked, products, attention)
        return curriculum.structure_loss(logits, pseudo, weight, nodes, mask, beta=0.3)

    score = torch.randn(scores, dtype=torch.float64, generator=generator).requires_grad_()
    assert torch.autograd.gradcheck(
        loss, (score, torch.tensor(0.4, dtype=torch.float64, requires_grad=True))
    )


# gradients of two architectures for three scores: mean 2, 0, .5; std with K - 1: √2, √2, 0; with K:
# 1, 1, 0
GRADIENTS = torch.tensor([[1.0, 1.0, 0.5], [3.0, -1.0, 0.5]])
BIG = 1e9


@pytest.mark.parametrize(
    ("rule", "clamp", "unbiased", "expected"),
    [
        ("mean", BIG, True, [2.0, 0.0, 0.5]),
        ("literal", BIG, True, [2 / (2**0.5 + 0.1), 0.0, 5.0]),  # eps = .1: .5/.1 = 5
        ("literal", BIG, False, [2 / 1.1, 0.0, 5.0]),
        ("literal", 1.5, False, [1.5, 0.0, 1.5]),
        # mean |g| = (1 + 1 + .5 + 3 + 1 + .5)/6 = 7/6
        ("relative", BIG, True, [2 / (2**0.5 + 7 / 6), 0.0, 3 / 7]),
        ("relative", BIG, False, [12 / 13, 0.0, 3 / 7]),
        ("relative", 0.4, False, [0.4, 0.0, 0.4]),
    ],
)
def test_score_update_by_hand(
    rule: str, clamp: float, unbiased: bool, expected: list[float]
) -> None:
    update, spread = curriculum.score_update(GRADIENTS, rule, clamp, 0.1, unbiased)
    torch.testing.assert_close(update, torch.tensor(expected))
    deviation = 2**0.5 if unbiased else 1.0
    torch.testing.assert_close(spread, torch.tensor([deviation, deviation, 0.0]))


@pytest.mark.parametrize("rule", ["mean", "literal", "relative"])
@pytest.mark.parametrize("unbiased", [True, False])
def test_one_architecture_has_no_spread(rule: str, unbiased: bool) -> None:
    """Gap 1: K = 1 amounts to the plain mean; `relative` divides it by mean|g| = 2.5 / 3."""
    update, spread = curriculum.score_update(GRADIENTS[:1], rule, BIG, 1e-8, unbiased)
    expected = [1.2, 1.2, 0.6] if rule == "relative" else [1.0, 1.0, 0.5]
    torch.testing.assert_close(update, torch.tensor(expected))
    assert rule == "relative" or update.tolist() == expected
    assert spread.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("rule", ["mean", "literal", "relative"])
def test_no_gradient_no_update(rule: str) -> None:
    update, spread = curriculum.score_update(torch.zeros(2, 3), rule, 5.0, 1e-8, True)
    assert update.tolist() == spread.tolist() == [0.0] * 3


@given(st.integers(0, 9999), st.floats(1e-6, 1e3))
def test_relative_update_does_not_depend_on_the_scale(seed: int, scale: float) -> None:
    """Gap 1: the floor is the gradient's own size, so a loss in other units moves the scores as
    much."""
    gradients = torch.randn(3, 8, generator=torch.Generator().manual_seed(seed))
    one, _ = curriculum.score_update(gradients, "relative", BIG, 0.0, True)
    other, _ = curriculum.score_update(scale * gradients, "relative", BIG, 0.0, True)
    torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
