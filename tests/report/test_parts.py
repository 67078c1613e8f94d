"""What the sections compute, by hand."""

import numpy as np
import pytest

from gassip.report.compare import front
from gassip.report.edges import cut_of, pooled
from gassip.report.layout import MOST, positions, sample
from gassip.report.scored import by_class, confusion, reliability


def test_confusion_and_scores_of_classes() -> None:
    y, predicted = np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 1, 0])
    matrix = confusion(predicted, y, 3)
    assert matrix.tolist() == [[2, 1, 0], [1, 1, 0], [0, 0, 0]]
    scores = by_class(matrix)
    assert scores[0].tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3])
    assert scores[1].tolist() == pytest.approx([1 / 2, 1 / 2, 1 / 2])
    assert np.isnan(scores[2]).all()  # no node of it, none labelled so


def test_calibration_by_hand() -> None:
    """Two nodes at .95, one right: off by .45; two at .65, both right: off by .35; mean .4."""
    probs = np.array([[0.95, 0.05], [0.05, 0.95], [0.65, 0.35], [0.35, 0.65]])
    points, error = reliability(probs, np.array([0, 0, 0, 1]))
    assert np.allclose(points, [(0.65, 1.0, 2), (0.95, 0.5, 2)])
    assert error == pytest.approx((2 * 0.35 + 2 * 0.45) / 4)
    assert reliability(np.array([[1.0, 0.0]]), np.array([0])) == ([(1.0, 1.0, 1)], 0.0)


def test_the_cut_parts_kept_from_removed() -> None:
    mask = np.array([0.1, 0.2, 0.6, 0.8])
    assert cut_of(mask, mask > 0.5) == pytest.approx(0.4)
    assert cut_of(mask, mask < 0.5) is None  # another ranking
    assert cut_of(mask, mask > 0) is None and cut_of(mask, mask > 1) is None


def test_pooled_shares() -> None:
    keep = np.array([[1, 1, 0, 0], [1, 0, 0, 0]], dtype=bool)
    assert pooled(keep, 2).tolist() == [[1.0, 0.0], [0.5, 0.0]]
    assert pooled(keep, 9).tolist() == keep.astype(float).tolist()
    assert pooled(np.ones((7, 1), dtype=bool), 3).tolist() == [[1.0]] * 3


def test_the_front_has_those_that_nothing_smaller_reaches() -> None:
    assert front([3, 1, 2, 2], [0.9, 0.5, 0.8, 0.7]) == [1, 2, 0]
    assert front([1, 2, 3], [0.9, 0.9, 0.5]) == [0]


def test_a_sample_is_connected_and_names_its_edges() -> None:
    edges = np.array([[0, 1, 1, 2, 5, 3], [1, 0, 2, 1, 6, 3]])  # 0-1-2, 5-6, a loop at 3
    found = sample(edges, 8)
    assert found is not None and found.nodes.tolist() == [0, 1, 2]
    assert found.pairs.tolist() == [[0, 1], [1, 2]]
    ends = np.sort(edges[:, found.edges], axis=0)
    assert (found.nodes[found.pairs] == ends).all()
    assert sample(np.zeros((2, 0), dtype=np.int64), 4) is None


def test_a_large_graph_is_sampled() -> None:
    rng = np.random.default_rng(0)
    found = sample(rng.integers(0, 5000, (2, 20000)), 5000, most=200)
    assert found is not None and len(found.nodes) == 200 < MOST
    assert np.isfinite(found.places).all() and found.places.min() >= -0.03
    assert found.places.max() <= 1.03 and (found.pairs[0] < found.pairs[1]).all()


def test_neighbours_lie_nearer_than_others() -> None:
    """Two cliques joined by one edge."""
    clique = [(i, j) for i in range(8) for j in range(i)]
    pairs = np.array([*clique, *((i + 8, j + 8) for i, j in clique), (8, 0)]).T
    place = positions(pairs, 16)
    assert (place == positions(pairs, 16)).all()
    far = np.linalg.norm(place[:8].mean(0) - place[8:].mean(0))
    assert far > 2 * max(place[:8].std(0).mean(), place[8:].std(0).mean())
