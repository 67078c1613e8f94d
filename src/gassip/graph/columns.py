"""Columns of a table, each with a name and a kind; their cells as plain numbers or texts.

    number     float64, NaN if missing
    boolean    0, 1, NaN if missing
    date       days since 1970-01-01 as float64, NaN if missing
    category   texts, "" if missing

A text column (CSV) has no kind of its own. It is a boolean, date or number if all its cells are;
otherwise a category. A column whose cells are mostly numbers, or that has decimal commas or dates
in which day and month cannot be told apart, is an error, not a category. At prediction a run's
own kinds are asked for, so that a type never changes unnoticed. numpy is all this needs.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import numpy as np

from gassip.errors import GassipError, error_of

Kind = Literal["number", "boolean", "date", "category"]
KINDS: tuple[Kind, ...] = ("boolean", "date", "number", "category")
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>", "nat"})  # in lower case
TRUE, FALSE = frozenset({"true", "yes", "t", "y"}), frozenset({"false", "no", "f", "n"})
WORDS = {"number": "a number", "boolean": "true or false", "date": "a date (YYYY-MM-DD)"}
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?\s?(Z|[+-]\d\d:?\d\d)?)?")
_OTHER_DATE = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}")
_COMMA = re.compile(r"[+-]?\d+,\d+")
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Column:
    """Cells of one kind, or texts whose kind is still to be told (None)."""

    name: str
    kind: Kind | None
    values: np.ndarray  # [rows], float64, or texts as objects

    def __len__(self) -> int:
        return self.values.size


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """Columns by name, in the order given."""

    name: str  # what the user calls it: nodes.csv
    columns: dict[str, Column]
    rows: int
    lines: Sequence[int] | None = None  # of the rows in a text file

    def where(self, row: int) -> str:
        at = f"row {row}" if self.lines is None else f"line {self.lines[row]}"
        return f"{self.name} {at}"

    def texts(self, name: str) -> list[str]:
        """The cells of a column as texts; whole numbers without a point, missing cells as ""."""
        column = self.columns[name]
        if column.kind in (None, "category"):
            return [str(text) for text in column.values]
        return [_text(value) for value in column.values]


class Problems:
    """Errors of one input, collected so that all are told at once."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        self.lines.append(line)

    def take(self, check: Callable[[], None]) -> None:
        try:
            check()
        except GassipError as error:
            self.lines.extend(error.lines)

    def end(self) -> None:
        """Raise what was collected, if anything was."""
        if self.lines:
            raise error_of(self.lines)


def repeated(names: Iterable[str]) -> str | None:
    """The first name that comes twice."""
    return next((name for name, times in Counter(names).items() if times > 1), None)


def is_missing(text: str) -> bool:
    return text.strip().lower() in MISSING


def is_number(text: str) -> bool:
    """Whether float32 can hold it."""
    return _number(text) is not None


def kind_of(column: Column, table: Table, problems: Problems) -> Kind:
    """The column's kind; told by its cells if it has none."""
    if column.kind is not None:
        return column.kind
    texts = [text for text in column.values if not is_missing(text)]
    if not texts:
        return "category"
    for kind in ("boolean", "date", "number"):
        if all(_PARSERS[kind](text) is not None for text in texts):
            return kind
    _refuse_doubtful(column, texts, table, problems)
    return "category"


def _refuse_doubtful(column: Column, texts: list[str], table: Table, problems: Problems) -> None:
    """Cells that look like numbers or dates, in a column that as a whole is neither."""
    where = f"{table.name}: column {column.name}"
    if all(_COMMA.fullmatch(text.strip()) or _number(text) is not None for text in texts):
        problems.add(f"{where} holds {texts[0][:40]!r}; write decimals with a point")
    elif all(_OTHER_DATE.fullmatch(text.strip()) for text in texts):
        problems.add(f"{where} holds {texts[0][:40]!r}; write dates as YYYY-MM-DD")
    elif 2 * sum(_number(text) is not None for text in texts) > len(texts):
        values_as(column, "number", table, problems)


def values_as(column: Column, kind: Kind, table: Table, problems: Problems) -> np.ndarray:
    """The cells as `kind`; those that do not fit are added to `problems`."""
    if column.kind == kind:
        return column.values
    if kind == "category":
        return np.array(table.texts(column.name), dtype=object)
    if column.kind is not None:
        what = f"holds {_PLURAL[column.kind]}, not {_PLURAL[kind]}"
        problems.add(f"{table.name}: column {column.name} {what}")
        return np.full(len(column), np.nan)
    parse = _PARSERS[kind]
    values = np.full(len(column), np.nan)
    for row, text in enumerate(column.values):
        value = np.nan if is_missing(text) else parse(text)
        if value is None:
            what = f"column {column.name} holds {text[:40]!r}, not {WORDS[kind]}"
            problems.add(f"{table.where(row)}: {what}")
        else:
            values[row] = value
    return values


_PLURAL = {"number": "numbers", "boolean": "true and false", "date": "dates", "category": "texts"}


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) <= _LARGEST and "_" not in text else None


def _boolean(text: str) -> float | None:
    word = text.strip().lower()
    return 1.0 if word in TRUE else 0.0 if word in FALSE else None


def _date(text: str) -> float | None:
    """Days since 1970-01-01; a time without a zone is UTC."""
    if not _ISO.fullmatch(text.strip()):
        return None
    try:
        moment = datetime.fromisoformat(text.strip().replace(" Z", "Z"))
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / 86400


_PARSERS: dict[str, Callable[[str], float | None]] = {
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}


def _text(value: float) -> str:
    if np.isnan(value):
        return ""
    return str(int(value)) if value == int(value) else repr(float(value))


# Columns of sources that have types


def objects(values: Sequence[object]) -> np.ndarray:
    """A row of Python objects, texts here."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def check_finite(name: str, values: np.ndarray, table: str, problems: Problems) -> None:
    """NaN is a missing cell; what float32 cannot hold is refused."""
    bad = np.flatnonzero(np.abs(np.nan_to_num(values, nan=0.0, posinf=np.inf)) > 3.4e38)
    if bad.size:
        row = int(bad[0])
        problems.add(f"{table} row {row}: column {name} holds {values[row]}, not a number")


def told_by_texts(name: str, texts: np.ndarray) -> Column:
    """Texts that a typed source gave: true/false and dates are told, figures stay texts."""
    filled = [text for text in texts if not is_missing(text)]
    probe = Table(name="", columns={}, rows=texts.size)
    for kind in ("boolean", "date"):
        problems = Problems()
        cells = values_as(Column(name, None, objects(filled[:1])), kind, probe, problems)
        if filled and not problems.lines and cells.size:
            values = values_as(Column(name, None, texts), kind, probe, problems)
            if not problems.lines:
                return Column(name, kind, values)
    return Column(name, "category", objects(["" if is_missing(text) else text for text in texts]))
