"""Labels in the forms that users have them, and splits of which some are not given."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gassip.errors import GassipError
from gassip.graph.labels import carve_validation, class_labels, class_numbers, complete_masks


@pytest.mark.parametrize(
    ("y", "labels", "names"),
    [
        (np.array([3, 7, -1, 3]), [0, 1, -1, 0], ("3", "7")),
        (np.array([[3], [7], [-1], [3]]), [0, 1, -1, 0], ("3", "7")),
        (np.array(["dog", "cat", "", "dog"]), [1, 0, -1, 1], ("cat", "dog")),
        (np.array(["b", "a", None, float("nan")], dtype=object), [1, 0, -1, -1], ("a", "b")),
        (np.array([True, False, True, True]), [1, 0, 1, 1], ("0", "1")),
        (np.array([[1, 0, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0]]), [0, 2, -1, 0], ("0", "1", "2")),
        (np.array([1.0, np.nan, 0.0, 1.0]), [1, -1, 0, 1], ("0", "1")),
    ],
    ids=["numbers", "column", "texts", "objects", "booleans", "one-hot", "floats"],
)
def test_forms_of_y(y: np.ndarray, labels: list[int], names: tuple[str, ...]) -> None:
    got, classes = class_labels(y, 4, None)
    assert got.tolist() == labels and classes == names


def test_names_of_classes_by_value_then_by_letter() -> None:
    y, names = class_numbers(["10", "9", "b", "a", ""], "y")
    assert names == ("9", "10", "a", "b") and y.tolist() == [1, 0, 3, 2, -1]
    y, names = class_numbers(["1.0", "-1", "0.0"], "y")  # as pandas writes numbers with gaps
    assert names == ("0", "1") and y.tolist() == [1, -1, 0]


def masks(*at: list[int] | None) -> list[np.ndarray | None]:
    return [None if own is None else np.isin(np.arange(8), own) for own in at]


LABELS = np.arange(8) % 2


def test_validation_is_carved_out_of_training_and_said_so() -> None:
    said: list[str] = []
    given_masks = masks([0, 1, 2, 3, 4, 5], None, [6, 7])
    train, val, test = complete_masks(given_masks, LABELS, ("a", "b"), 0, said)
    assert not (train & val).any() and ((train | val) == given_masks[0]).all()
    assert np.bincount(LABELS[val]).tolist() == [1, 1]  # a quarter of 3, at least 1
    assert test.tolist() == [False] * 6 + [True] * 2
    assert said == [
        "no validation nodes given: 2 of the training nodes, a quarter of each class, drawn with "
        "seed 0"
    ]


def test_no_test_nodes() -> None:
    said: list[str] = []
    _, _, test = complete_masks(masks([0, 1], [2, 3], None), LABELS, ("a", "b"), 0, said)
    assert not test.any() and said == ["no test nodes given: there is no test score"]


def test_no_class_with_two_training_nodes() -> None:
    with pytest.raises(GassipError, match="no class has two training nodes"):
        complete_masks(masks([0, 1], None, None), LABELS, ("a", "b"), 0, [])


@given(st.lists(st.integers(0, 3), min_size=2, max_size=40), st.integers(0, 99))
def test_every_class_keeps_a_training_node(labels: list[int], seed: int) -> None:
    y, train = np.array(labels), np.ones(len(labels), dtype=bool)
    if np.bincount(y).max() < 2:
        return
    kept, val = carve_validation(train, y, seed=seed)
    assert set(y[kept]) == set(labels) and (kept ^ val).all()
