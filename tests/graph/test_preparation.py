"""Columns become features: by hand, as scikit-learn has it, and the same after reading it back."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from gassip.errors import GassipError
from gassip.graph.columns import Column, Problems, Table, kind_of, objects
from gassip.graph.preparation import Preparation, fit_preparation
from gassip.graph.table_frames import table_of_mapping


def texts(**columns: list[str]) -> Table:
    """As a CSV file has them."""
    made = {name: Column(name, None, objects(cells)) for name, cells in columns.items()}
    rows = len(next(iter(columns.values())))
    return Table(name="nodes.csv", columns=made, rows=rows, lines=range(2, rows + 2))


def fitted(table: Table) -> Preparation:
    return fit_preparation(table, list(table.columns), [])


def test_by_hand() -> None:
    """age 1, 3, missing: median 2, so 1, 3, 2: mean 2, deviation √(2/3). b twice, a and c once."""
    table = texts(age=["1", "3", ""], name=["b", "a", "b"])
    made = fitted(table)
    assert made.feature_names == ("age", "age missing", "name=b", "name=other")
    deviation = (2 / 3) ** 0.5
    expected = [[-1 / deviation, 0, 1, 0], [1 / deviation, 0, 0, 1], [0, 1, 1, 0]]
    np.testing.assert_allclose(made.apply(table), expected, rtol=1e-6)
    new = texts(name=["c", "b"], age=["5", ""])
    np.testing.assert_allclose(made.apply(new), [[3 / deviation, 0, 0, 1], [0, 1, 1, 0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "-2.5e3", "", "NA"], "number"),
        (["true", "False", "null"], "boolean"),
        (["yes", "no"], "boolean"),
        (["2024-02-29", "1969-12-31T12:00:00Z", ""], "date"),
        (["red", "1", "blue"], "category"),
        (["", "nan"], "category"),
        (["0", "1"], "number"),
    ],
)
def test_kinds_of_texts(cells: list[str], kind: str) -> None:
    table, problems = texts(a=cells), Problems()
    assert kind_of(table.columns["a"], table, problems) == kind
    problems.end()


def test_dates_are_days() -> None:
    table = texts(day=["1970-01-01", "1970-01-03", "1970-01-02T12:00:00+12:00"])
    made = fitted(table).numbers[0]
    assert (made.kind, made.low, made.high, made.mean) == ("date", 0.0, 2.0, 1.0)


@pytest.mark.parametrize(
    ("cells", "line"),
    [
        (["1,5", "2,25", "3"], "nodes.csv: column a holds '1,5'; write decimals with a point"),
        (["31.12.2020", "01.02.2021"], "column a holds '31.12.2020'; write dates as YYYY-MM-DD"),
        (["1", "2", "x"], "nodes.csv line 4: column a holds 'x', not a number"),
        (["1", "2", "1_000"], "nodes.csv line 4: column a holds '1_000', not a number"),
        (["1", "2", "1e39"], "nodes.csv line 4: column a holds '1e39', not a number"),
    ],
)
def test_doubtful_columns(cells: list[str], line: str) -> None:
    with pytest.raises(GassipError) as caught:
        fitted(texts(a=cells))
    assert line in str(caught.value)


def test_all_errors_at_once_and_at_most_ten() -> None:
    with pytest.raises(GassipError) as caught:
        fitted(texts(a=["1,5", "2,5"], b=["1.1.20", "2.2.20"]))
    assert len(caught.value.lines) == 2
    numbers = [str(n) for n in range(30)]
    with pytest.raises(GassipError) as caught:
        fitted(texts(a=numbers + ["x"] * 20))
    assert len(caught.value.lines) == 10 and caught.value.lines[-1] == "11 more errors of this kind"


def test_columns_that_tell_nothing_are_left_out_and_said_so() -> None:
    said: list[str] = []
    table = texts(one=["1", "1", "1"], name=["x", "y", "z"], age=["1", "2", "3"])
    made = fit_preparation(table, list(table.columns), said)
    assert made.feature_names == ("age",) and made.left_out == ("one", "name")
    assert said == [
        "left out, since they do not vary: one",
        "left out, since no text in them comes twice: name",
        "numbers are standardised, or divided by their largest: age",
    ]


def test_many_categories_have_one_feature_for_the_others() -> None:
    cells = [f"c{n:03}" for n in range(100) for _ in range(2 + (n < 5))]
    made = fitted(texts(a=cells)).categories[0]
    assert len(made.names) == 31 and made.other
    assert {f"c{n:03}" for n in range(5)} < set(made.names)


def test_sparse_numbers_keep_their_zeros() -> None:
    table = texts(word=["0"] * 19 + ["4"], age=[str(n) for n in range(20)])
    x = fitted(table).apply(table)
    assert x[:, 0].tolist() == [0.0] * 19 + [1.0]


def mixed(rows: int, seed: int) -> dict[str, list[object]]:
    rng = np.random.default_rng(seed)
    ages = [None if rng.random() < 0.2 else float(rng.normal(40, 10)) for _ in range(rows)]
    return {
        "age": [1.0, None, *ages],
        "member": [True, False, *(bool(b) for b in rng.random(rows) < 0.5)],
        "town": [
            "x",
            "x",
            *(str(rng.choice(["x", "y", "z", "rare" + str(seed)])) for _ in range(rows)),
        ],
    }


@given(st.integers(3, 30), st.integers(0, 1000))
def test_as_scikit_learn_transforms_it(rows: int, seed: int) -> None:
    """Oracle: a ColumnTransformer over the same columns, on other rows."""
    train, other = mixed(rows, seed), mixed(rows, seed + 1)
    table = table_of_mapping(train, "nodes")
    made = fitted(table)
    numbers = [name for name in ("age", "member") if name not in made.left_out]
    scale = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    one_hot = OneHotEncoder(
        min_frequency=2,
        max_categories=32,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
    )
    oracle = ColumnTransformer(
        [("n", scale, list(range(len(numbers)))), ("c", one_hot, [len(numbers)])]
    )

    def matrix(columns: dict[str, list[object]]) -> np.ndarray:
        rows = [[np.nan if v is None else v for v in columns[name]] for name in numbers]
        return np.array([*rows, columns["town"]], dtype=object).T

    oracle.fit(matrix(train))
    expected = oracle.transform(matrix(other)).astype(np.float32)
    got = made.apply(table_of_mapping(other, "nodes"))
    missing = len([own for own in made.numbers if own.missing])
    keep = [*range(len(numbers)), *range(len(numbers) + missing, got.shape[1])]
    np.testing.assert_allclose(got[:, keep], expected[:, : len(keep)], rtol=1e-5, atol=1e-6)


def test_order_of_columns_does_not_matter() -> None:
    table = table_of_mapping(mixed(20, 0), "nodes")
    turned = replace(table, columns=dict(reversed(table.columns.items())))
    made = fitted(table)
    np.testing.assert_array_equal(made.apply(table), made.apply(turned))


def test_a_column_missing_or_of_another_type_is_named() -> None:
    made = fitted(table_of_mapping(mixed(20, 0), "nodes"))
    bad = table_of_mapping({"age": ["old", "young"], "member": [1.5, 2.0], "more": [1, 2]}, "new")
    with pytest.raises(GassipError) as caught:
        made.apply(bad)
    assert caught.value.lines == (
        "new has no column town (category); its columns are age, member, more",
    )
    bad = table_of_mapping({"age": ["old", "1"], "member": [1.5, 2.0], "town": [1, 2]}, "new")
    with pytest.raises(GassipError) as caught:
        made.apply(bad)
    assert caught.value.lines == (
        "new row 0: column age holds 'old', not a number",
        "new: column member holds numbers, not true and false",
    )
    assert made.new_columns(bad) == [] and made.new_columns(texts(new=["1"])) == ["new"]


def test_read_back_it_is_the_same() -> None:
    table = table_of_mapping(mixed(30, 3), "nodes")
    made = fitted(table)
    again = Preparation.from_json(made.to_json())
    assert again == made
    np.testing.assert_array_equal(again.apply(table), made.apply(table))


@pytest.mark.parametrize(
    "change",
    [
        {"numbers": [{}]},
        {"numbers": None},
        {"categories": [{"name": "a", "names": [1], "other": True}]},
        {"categories": [{"name": "a", "names": ["x"], "other": 1}]},
        {"left_out": [0]},
    ],
)
def test_a_damaged_file_is_refused(change: dict[str, object]) -> None:
    content = json.loads(fitted(texts(a=["1", "2"])).to_json())
    with pytest.raises(GassipError, match="is damaged"):
        Preparation.from_json(json.dumps(content | change))
    with pytest.raises(GassipError, match="is damaged"):
        Preparation.from_json("[1")


@pytest.mark.parametrize(
    "change", [{"scale": 0.0}, {"scale": -1.0}, {"mean": "1"}, {"kind": "category"}, {"fill": None}]
)
def test_a_damaged_number_is_refused(change: dict[str, object]) -> None:
    content = json.loads(fitted(texts(a=["1", "2"])).to_json())
    content["numbers"][0] |= change
    with pytest.raises(GassipError, match="is damaged"):
        Preparation.from_json(json.dumps(content))


def test_new_texts_are_told_from_rare_ones() -> None:
    """x and y come twice; r and s are rare, one feature for both; z is new."""
    made = fit_preparation(texts(town=["x", "x", "y", "y", "r", "s"]), ["town"], [])
    (town,) = made.categories
    assert town.names == ("x", "y") and town.other and town.rare == ("r", "s")
    assert made.new_texts(texts(town=["x", "r", "s"])) == []
    (line,) = made.new_texts(texts(town=["z", "x", "z", "", "s"]))
    assert line == "column town: 3 of 5 cells hold a text that training did not have ('z', '')"
    assert Preparation.from_json(made.to_json()) == made
    stored = json.loads(made.to_json())
    del stored["categories"][0]["rare"]  # as an earlier version wrote it: nothing is known
    assert Preparation.from_json(json.dumps(stored)).new_texts(texts(town=["z"])) == []
