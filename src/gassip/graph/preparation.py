"""Named columns made into features: fitted once by scikit-learn, kept as plain numbers.

    dense number, date, boolean   (v - mean) / std, missing cells filled with the median
    sparse number                 v / max |v|: zeros stay zeros
    missing cells                 one more feature, 1 if missing, for columns that had some
    category                      one-hot of the frequent texts; one feature for all others

Columns that do not vary are left out. `Preparation.apply` is numpy alone and finds columns by name:
the runtime and the exports apply it too. A preparation is fitted on all nodes and reads no label.

Shapes: N nodes, D features.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import numpy as np

from gassip.errors import GassipError
from gassip.graph.columns import Kind, Problems, Table, kind_of, values_as

MOST_CATEGORIES = 32  # features of one column of texts, `other` among them
LEAST_FREQUENCY = 2  # cells with a text, for a feature of its own
MOST_RARE = 1000  # rare texts of a column that are kept, so that new ones are told from them
SPARSE = 0.15  # share of cells other than 0 under which a column counts as sparse, as graph.py
OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number, boolean or date: (v - mean) / scale."""

    name: str
    kind: Kind
    fill: float  # for a missing cell
    mean: float
    scale: float
    missing: bool  # whether a feature tells missing cells
    low: float  # range in training
    high: float


@dataclass(frozen=True, kw_only=True)
class Category:
    """A text: one feature per name, and one for all others if there were some in training."""

    name: str
    names: tuple[str, ...]  # "": missing
    other: bool
    rare: tuple[str, ...] | None = ()  # the others; None: not known, there were too many

    def unknown(self, cells: np.ndarray) -> list[str]:
        """The cells that hold a text which training did not have, as far as that is known."""
        if self.rare is None:
            return []
        known = {*self.names, *self.rare}
        return [str(text) for text in cells if text not in known]


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """How the columns of a table become the features of a net."""

    numbers: tuple[Number, ...] = ()
    categories: tuple[Category, ...] = ()
    left_out: tuple[str, ...] = ()  # columns that tell nothing

    @property
    def columns(self) -> dict[str, Kind]:
        """The columns that are read, with their kinds."""
        kinds: dict[str, Kind] = {number.name: number.kind for number in self.numbers}
        return kinds | {category.name: "category" for category in self.categories}

    @property
    def feature_names(self) -> tuple[str, ...]:
        """[D]"""
        names = [number.name for number in self.numbers]
        names += [f"{number.name} missing" for number in self.numbers if number.missing]
        for category in self.categories:
            names += [f"{category.name}={name}" for name in category.names]
            names += [f"{category.name}={OTHER}"] * category.other
        return tuple(names)

    def apply(self, table: Table) -> np.ndarray:
        """x [N, D] float32; columns are found by name, whatever their order."""
        problems = Problems()
        self._check(table, problems)
        problems.end()
        values = {
            name: values_as(table.columns[name], kind, table, problems)
            for name, kind in self.columns.items()
        }
        problems.end()
        return self.features(values)

    def features(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """x [N, D] float32 from the cells by column, of the kinds in `columns`."""
        numbers = [_scaled(number, values[number.name]) for number in self.numbers]
        missing = [np.isnan(values[number.name]) for number in self.numbers if number.missing]
        one_hot = [_one_hot(category, values[category.name]) for category in self.categories]
        blocks = [column[:, None] for column in (*numbers, *missing)] + one_hot
        return np.concatenate([block.astype(np.float32) for block in blocks], axis=1)

    def _check(self, table: Table, problems: Problems) -> None:
        for name, kind in self.columns.items():
            if name not in table.columns:
                there = ", ".join(table.columns)[:120]
                problems.add(f"{table.name} has no column {name} ({kind}); its columns are {there}")

    def new_columns(self, table: Table, known: Sequence[str] = ()) -> list[str]:
        """Columns of the table that were not there in training."""
        old = {*self.columns, *self.left_out, *known}
        return [name for name in table.columns if name not in old]

    def new_texts(self, table: Table) -> list[str]:
        """A line for each column with texts that training did not have, and how many there are."""
        lines = list[str]()
        for category in self.categories:
            column = table.columns[category.name]
            new = category.unknown(values_as(column, "category", table, Problems()))
            if new:
                named = listed([repr(text[:20]) for text in dict.fromkeys(new)], 3)
                what = (
                    f"{len(new):,} of {table.rows:,} cells hold a text that training did not have"
                )
                lines.append(f"column {category.name}: {what} ({named})")
        return lines

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, allow_nan=False) + "\n"

    @staticmethod
    def from_json(text: str | bytes) -> "Preparation":
        """Checked: a file is not trusted."""
        try:
            found = json.loads(text)
            numbers = tuple(_number_of(number) for number in found["numbers"])
            categories = tuple(_category_of(category) for category in found["categories"])
            left_out = tuple(_str(name) for name in found["left_out"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise GassipError(f"preparation.json is damaged ({error})") from error
        made = Preparation(numbers=numbers, categories=categories, left_out=left_out)
        if len(made.columns) != len(numbers) + len(categories):
            raise GassipError("preparation.json is damaged (a column is there twice)")
        return made


def _scaled(number: Number, values: np.ndarray) -> np.ndarray:
    filled = np.where(np.isnan(values), number.fill, values)
    return (filled - number.mean) / number.scale


def _one_hot(category: Category, values: np.ndarray) -> np.ndarray:
    at = {name: column for column, name in enumerate(category.names)}
    code = np.array([at.get(text, len(at)) for text in values], dtype=np.int64)
    out = np.zeros((code.size, len(at) + 1), dtype=np.float32)
    out[np.arange(code.size), code] = 1
    return out if category.other else out[:, :-1]


# Fitting


def fit_preparation(table: Table, names: Sequence[str], said: list[str]) -> Preparation:
    """Fit the columns `names` of the table. What was left out is added to `said`."""
    problems = Problems()
    kinds = {name: kind_of(table.columns[name], table, problems) for name in names}
    problems.end()
    values = {
        name: values_as(table.columns[name], kind, table, problems) for name, kind in kinds.items()
    }
    problems.end()
    constant = [name for name, cells in values.items() if _constant(cells)]
    kept = {name: kind for name, kind in kinds.items() if name not in constant}
    found = _fit(values, kept) if kept else Preparation()
    rare = tuple(category.name for category in found.categories if not category.names)
    if constant:
        said.append(f"left out, since they do not vary: {listed(constant)}")
    if rare:
        said.append(f"left out, since no text in them comes twice: {listed(rare)}")
    categories = tuple(category for category in found.categories if category.names)
    if found.numbers:
        names = [number.name for number in found.numbers]
        said.append(f"numbers are standardised, or divided by their largest: {listed(names)}")
    if not found.numbers and not categories:
        raise GassipError(f"{table.name} has no column that tells nodes apart: {'; '.join(said)}")
    return replace(found, categories=categories, left_out=(*constant, *rare))


def listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _constant(values: np.ndarray) -> bool:
    if values.dtype == object:
        return len(set(values)) < 2
    return bool((values == values[0]).all() or np.isnan(values).all())


def _fit(values: Mapping[str, np.ndarray], kinds: Mapping[str, Kind]) -> Preparation:
    """A ColumnTransformer over all columns, then its numbers alone."""
    texts = {name: _codes(values[name]) for name, kind in kinds.items() if kind == "category"}
    numbers = [name for name in kinds if name not in texts]
    matrix = {name: values[name] for name in numbers} | {n: code for n, (_, code) in texts.items()}
    sparse = [name for name in numbers if _is_sparse(values[name])]
    dense = [name for name in numbers if name not in sparse]
    fitted = _transformer(list(matrix), dense, sparse, list(texts)).fit(
        np.stack(list(matrix.values()), axis=1).astype(np.float64)
    )
    made = _numbers(fitted, dense, "dense", values, kinds)
    made |= _numbers(fitted, sparse, "sparse", values, kinds)
    return Preparation(
        numbers=tuple(made[name] for name in numbers),
        categories=tuple(_categories(fitted, {name: names for name, (names, _) in texts.items()})),
    )


def _codes(texts: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The texts there are, and the number of each cell's."""
    names, code = np.unique(texts.astype(str), return_inverse=True)
    return [str(name) for name in names], code


def _is_sparse(values: np.ndarray) -> bool:
    return not np.isnan(values).any() and bool(np.count_nonzero(values) < SPARSE * values.size)


def _transformer(
    names: Sequence[str], dense: Sequence[str], sparse: Sequence[str], texts: Sequence[str]
) -> Any:
    """scikit-learn's ColumnTransformer; categories come as numbers."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

    one_hot = OneHotEncoder(
        max_categories=MOST_CATEGORIES,
        min_frequency=LEAST_FREQUENCY,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
    )
    scale = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    at = {name: column for column, name in enumerate(names)}
    parts = (("dense", scale, dense), ("sparse", MaxAbsScaler(), sparse), ("text", one_hot, texts))
    return ColumnTransformer(
        [(name, model, [at[row] for row in which]) for name, model, which in parts if which]
    )


def _numbers(
    fitted: Any,
    names: Sequence[str],
    part: str,
    values: Mapping[str, np.ndarray],
    kinds: Mapping[str, Kind],
) -> dict[str, Number]:
    if not names:
        return {}
    model = fitted.named_transformers_[part]
    if part == "dense":
        imputer, scaler = (step for _, step in model.steps)
        fill, mean, scale = imputer.statistics_, scaler.mean_, scaler.scale_
    else:
        fill, mean, scale = np.zeros(len(names)), np.zeros(len(names)), model.scale_
    return {
        name: Number(
            name=name,
            kind=kinds[name],
            fill=float(fill[at]),
            mean=float(mean[at]),
            scale=float(scale[at]),
            missing=bool(np.isnan(values[name]).any()),
            low=float(np.nanmin(values[name])),
            high=float(np.nanmax(values[name])),
        )
        for at, name in enumerate(names)
    }


def _categories(fitted: Any, texts: Mapping[str, list[str]]) -> list[Category]:
    if not texts:
        return []
    encoder = fitted.named_transformers_["text"]
    rare = encoder.infrequent_categories_
    out = []
    for at, (name, names) in enumerate(texts.items()):
        others = set() if rare[at] is None else {int(code) for code in rare[at]}
        kept = tuple(text for code, text in enumerate(names) if code not in others)
        rest = tuple(text for code, text in enumerate(names) if code in others)
        seldom = rest if len(rest) <= MOST_RARE else None
        out.append(Category(name=name, names=kept, other=bool(others), rare=seldom))
    return out


# Reading it back


def _number_of(stored: Mapping[str, object]) -> Number:
    kind = stored["kind"]
    if kind not in get_args(Kind) or kind == "category":
        raise ValueError(f"there is no kind {str(kind)[:20]!r}")
    made = Number(
        name=_str(stored["name"]),
        kind=kind,  # type: ignore[arg-type]
        missing=_bool(stored["missing"]),
        **{key: _float(stored[key]) for key in ("fill", "mean", "scale", "low", "high")},
    )
    if made.scale <= 0:
        raise ValueError(f"the scale of column {made.name} is {made.scale}")
    return made


def _category_of(stored: Mapping[str, Any]) -> Category:
    """Earlier versions kept no rare texts."""
    other = _bool(stored["other"])
    rare = stored.get("rare", None if other else ())
    return Category(
        name=_str(stored["name"]),
        names=tuple(_str(name) for name in stored["names"]),
        other=other,
        rare=None if rare is None else tuple(_str(name) for name in rare),
    )


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:20]!r} is no text")
    return value


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{str(value)[:20]!r} is neither true nor false")
    return value


def _float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(f"{str(value)[:20]!r} is no finite number")
    return float(value)
