"""The block model, and belief propagation against all assignments of a small tree."""

from itertools import product

import numpy as np
import pytest

from gassip import cli
from gassip.large.block_model import BlockModel, Drawn, beliefs, best_accuracy, draw, log_prior


def test_belief_propagation_is_exact_on_a_tree() -> None:
    model = BlockModel(nodes=5, classes=3, features=3, homophily=0.7, signal=1.5)
    generator = np.random.default_rng(0)
    drawn = Drawn(
        x=generator.standard_normal((5, 3)).astype(np.float32),
        y=np.array([0, 1, 2, 0, 1]),
        pairs=np.array([[0, 1], [1, 2], [1, 3], [3, 4]]),
        split=np.array([1, 3, 3, 3, 3], dtype=np.int8),
    )
    prior, across = log_prior(model, drawn), 0.15
    exact = np.zeros((5, 3))
    for classes in product(range(3), repeat=5):
        log = sum(float(prior[i, c]) for i, c in enumerate(classes))
        log += sum(np.log(0.7 if classes[a] == classes[b] else across) for a, b in drawn.pairs)
        for i, c in enumerate(classes):
            exact[i, c] += np.exp(log)
    found = np.exp(beliefs(model, drawn, steps=5, absent=False))
    np.testing.assert_allclose(
        found / found.sum(1, keepdims=True),
        exact / exact.sum(1, keepdims=True),
        rtol=1e-3,
        atol=1e-5,
    )


def test_a_draw_has_the_parameters() -> None:
    model = BlockModel(nodes=20_000, degree=8, classes=4, homophily=0.6, labelled=0.1, seed=1)
    drawn = draw(model)
    a, b = drawn.pairs.T
    assert (a < b).all() and len(np.unique(drawn.pairs, axis=0)) == len(drawn.pairs)
    assert abs(2 * len(a) / model.nodes - 8) < 0.05
    assert abs((drawn.y[a] == drawn.y[b]).mean() - 0.6) < 0.01
    assert abs((drawn.split == 1).mean() - 0.1) < 0.01
    again = draw(model)
    assert np.array_equal(again.x, drawn.x) and np.array_equal(again.pairs, drawn.pairs)


def test_the_graph_helps_the_best_method() -> None:
    model = BlockModel(nodes=4_000, homophily=0.7)
    drawn = draw(model)
    features = (log_prior(model, drawn).argmax(1) == drawn.y)[drawn.split == 3].mean()
    assert best_accuracy(model, drawn) > features + 0.2


@pytest.mark.parametrize(
    ("flag", "value"), [("--homophily", "1.5"), ("--features", "2"), ("--degree", "nan")]
)
def test_absurd_parameters(flag: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["make", "csbm", flag, value, "--out", "never.graph"]) == 2
    assert f"{flag} is" in capsys.readouterr().err


def test_belief_propagation_does_not_collapse_into_one_class() -> None:
    """Weak homophily at a high degree: without the pairs that are no edges all would be one."""
    model = BlockModel(nodes=5_000, degree=20, homophily=0.4)
    assert best_accuracy(model, draw(model)) > 0.55
