"""What differs from the training graph, worked out by hand."""

import numpy as np
from scipy import sparse as sp

from gassip.graph.drift import Statistics, drift
from gassip.graph.preparation import Category, Number, Preparation

SAME = (3.0, 3.0)  # edges per node, now and in training
THEN = np.array([[0, 1, 0, 2], [0, 3, 0, 2], [4, 2, 0, 2]], dtype=np.float32)


def told(x: object, **more: object) -> list[str]:
    table = np.array(x, dtype=np.float32)
    found = drift(table, Statistics.of(THEN), degree=SAME, **more)  # type: ignore[arg-type]
    sparse = sp.csr_array(table)
    assert drift(sparse, Statistics.of(THEN), degree=SAME, **more) == found  # type: ignore[arg-type]
    return found


def test_statistics_of_dense_and_sparse_features() -> None:
    for x in (THEN, sp.csr_array(THEN)):
        found = Statistics.of(x)
        assert found.low.tolist() == [0, 1, 0, 2] and found.high.tolist() == [4, 3, 0, 2]
        assert found.mean.tolist() == np.array([4 / 3, 2, 0, 2], dtype=np.float32).tolist()


def test_far_outside_is_half_the_range() -> None:
    """Feature 0 has the range 0 to 4, so that up to 6 is not far."""
    assert told(THEN) == [] and told([[6, 1, 0, 2]]) == []
    (line,) = told([[6.1, 1, 0, 2], [-3, 1, 0, 2], [1, 1, 0, 2]])
    assert "feature 0 in 2 of 3 nodes (-3 to 6.1, in training 0 to 4)" in line
    assert told([[1, 1, 0, 2.5]])  # a constant has no range
    assert told([[9, 1, 0, 2]], columns=np.array([1, 2, 3])) == []  # a column that is not read


def test_outside_in_many_nodes() -> None:
    few = [[4.5, 1, 0, 2]] * 2 + [[1, 1, 0, 2]] * 18
    assert told(few) == []  # a tenth
    assert "feature 0 in 3 of 21 nodes" in told([*few, [4.5, 1, 0, 2]])[0]


def test_density() -> None:
    then = Statistics.of(THEN)
    assert drift(THEN, then, degree=(29.0, 3.0)) == [] == drift(THEN, None, degree=SAME)
    (line,) = drift(THEN, then, degree=(33.0, 3.0))
    assert "11 times as dense: 33 edges per node, in training 3" in line
    assert "0.1 times as dense" in drift(THEN, None, degree=(0.3, 3.0))[0]


def test_unknown_texts() -> None:
    age = Number(
        name="age", kind="number", fill=0, mean=10, scale=2, missing=False, low=10, high=18
    )
    town = Category(name="town", names=("x", "y"), other=False)
    made = Preparation(numbers=(age,), categories=(town,))
    then = Statistics.of(np.array([[0, 1, 0], [4, 0, 1]], dtype=np.float32))
    x = np.array([[0, 0, 0], [20, 1, 0]], dtype=np.float32)
    lines = drift(x, then, degree=SAME, preparation=made)
    assert "age in 1 of 2 nodes (10 to 50, in training 10 to 18)" in lines[0]
    assert "column town: 1 of 2 cells hold a text that training did not have" in lines[1]
    others = Preparation(
        numbers=(age,), categories=(Category(name="town", names=("x",), other=True),)
    )
    many = np.array([[0, 0, 1]] * 9 + [[0, 1, 0]] * 11, dtype=np.float32)
    assert drift(many, then, degree=SAME, preparation=others) == []  # 45 %, half in training
