from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from gassip.best.calibration import log_likelihood
from gassip.best.rules import SPECTRAL_DECAYS
from gassip.best.spectral import best_fit, fit, leading, normalised, spectral_probs
from gassip.graph.graph import Graph
from gassip.graph.similarity import unit_rows
from tests.conftest import random_graph


def test_a_hat_by_hand() -> None:
    # a path 0 – 1 – 2: with themselves the nodes have 2, 3 and 2 neighbours
    masks = tuple(
        np.array(row) for row in ([True, True, False], [False, False, True], [False, False, False])
    )
    graph = Graph.build(
        np.eye(3), np.array([[0, 1], [1, 2]]), np.array([0, 1, 1]), masks=masks, undirected=True
    )
    root = 1 / np.sqrt(6)
    expected = np.array([[1 / 2, root, 0], [root, 1 / 3, root], [0, root, 1 / 2]])
    np.testing.assert_allclose(normalised(graph).toarray(), expected, rtol=1e-6)


@pytest.mark.parametrize(("sparse", "narrow"), [(False, 1024), (False, 4), (True, 1024)])
def test_directions_are_the_leading_ones_of_a_hat_a_hat_x(
    sparse: bool, narrow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gassip.best.spectral.NARROW", narrow)
    graph = random_graph(2, nodes=40, features=12, sparse=sparse)
    rows = unit_rows(graph.x)
    x = rows if isinstance(rows, np.ndarray) else rows.toarray()
    whole = normalised(graph).toarray() @ normalised(graph).toarray() @ x.astype(np.float64)
    left, size, _ = np.linalg.svd(whole, full_matrices=False)
    expected = left[:, :5] * size[:5]
    expected /= np.maximum(
        np.linalg.norm(expected, axis=1, keepdims=True), 1e-6
    )  # some nodes have no features
    found = leading(graph, 5).numpy()
    assert found.shape == (40, 5)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-6)  # up to signs


def test_a_fit_is_where_the_gradient_vanishes() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs, y = torch.randn(50, 3, generator=generator, dtype=torch.float64), torch.arange(50) % 4
    weight = fit(inputs, y, inputs.new_zeros((4, 4)), 1e-2).requires_grad_()
    (
        F.cross_entropy(inputs @ weight[:-1] + weight[-1], y) + 1e-2 * weight[:-1].square().sum()
    ).backward()
    assert float(weight.grad.abs().max()) < 1e-4  # type: ignore[union-attr]


def test_no_decay_before_the_one_taken_is_likelier() -> None:
    graph = random_graph(3, nodes=80)
    directions, val = leading(graph), graph.val_mask
    y = graph.y[val]
    taken = float(log_likelihood(best_fit(directions, graph)[val], y).mean())
    weight = directions.new_zeros((directions.shape[1] + 1, graph.num_classes))
    weight = fit(
        directions[graph.train_mask], graph.y[graph.train_mask], weight, SPECTRAL_DECAYS[0]
    )
    share = torch.softmax(directions @ weight[:-1] + weight[-1], 1).float()
    assert taken >= float(log_likelihood(share[val], y).mean()) - 1e-6


def test_shares_repeat_and_neither_see_test_labels_nor_random_state() -> None:
    graph = random_graph(1, nodes=40, sparse=True)
    first = spectral_probs(graph)
    torch.testing.assert_close(first.sum(1), torch.ones(40))
    torch.manual_seed(7)
    garbage = replace(
        graph, y=torch.where(graph.test_mask, (graph.y + 1) % graph.num_classes, graph.y)
    )
    assert torch.equal(spectral_probs(garbage), first)


@pytest.mark.parametrize(("sparse", "narrow"), [(False, 1024), (False, 0), (True, 1024)])
@pytest.mark.parametrize("features", [1, 2])
def test_few_features_do(
    features: int, sparse: bool, narrow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gassip.best.spectral.NARROW", narrow)
    assert (
        spectral_probs(random_graph(1, nodes=20, features=features, sparse=sparse)).isfinite().all()
    )


def test_without_features_or_edges_there_is_still_an_answer() -> None:
    graph = random_graph(1, nodes=20)
    for odd in (
        replace(graph, x=torch.zeros(20, 3)),
        graph.keep(torch.zeros(graph.num_edges, dtype=torch.bool)),
    ):
        share = spectral_probs(odd)
        assert share.isfinite().all() and share.shape == (20, graph.num_classes)


def test_separable_groups_are_told_apart_by_few_labels() -> None:
    # two groups with words of their own, edges within: two labels say it all
    y = np.arange(60) % 2
    generator = np.random.default_rng(0)
    x = np.zeros((60, 20))
    for node in range(60):
        x[node, generator.permutation(10)[:4] + 10 * y[node]] = 1
    edges = np.stack([np.arange(58), np.arange(2, 60)])
    train, val = np.arange(60) < 2, (np.arange(60) >= 2) & (np.arange(60) < 20)
    graph = Graph.build(x, edges, y, masks=(train, val, ~train & ~val), undirected=True)
    assert bool((spectral_probs(graph).argmax(1) == graph.y).all())
