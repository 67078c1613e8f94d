"""Tables from what users hold in memory: pandas frames and mappings of columns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gassip.errors import GassipError
from gassip.graph.columns import Column, Problems, Table, check_finite, objects, told_by_texts

if TYPE_CHECKING:
    import pandas as pd

DAY = np.timedelta64(1, "D")


def as_table(given: Any, name: str) -> Table:
    """A Table, a DataFrame, or a mapping of columns."""
    if isinstance(given, Table):
        return given
    if isinstance(given, Mapping):
        return table_of_mapping(given, name)
    if hasattr(given, "columns") and hasattr(given, "dtypes"):
        return table_of_frame(given, name)
    kind = type(given).__name__
    raise GassipError(f"{name} is a {kind}; expected a DataFrame or a mapping of columns")


def table_of_frame(frame: "pd.DataFrame", name: str, told_later: Problems | None = None) -> Table:
    """A DataFrame; dtypes are the kinds. Cells that no column may hold are an error at once, or
    are added to `told_later` and left out."""
    problems = Problems() if told_later is None else told_later
    columns: dict[str, Column] = {}
    for key in frame.columns:
        if str(key) in columns:
            problems.add(f"{name} has two columns {str(key)[:40]!r}")
            continue
        columns[str(key)] = _series_column(str(key), frame[key], name, problems)
    if told_later is None:
        problems.end()
    return Table(name=name, columns=columns, rows=len(frame))


def _series_column(key: str, series: Any, name: str, problems: Problems) -> Column:
    import pandas as pd

    if isinstance(series, pd.DataFrame):
        problems.add(f"{name} has two columns {key[:40]!r}")
        return Column(key, "category", objects([""] * len(series)))
    types = pd.api.types
    dtype = series.dtype
    if types.is_bool_dtype(dtype) and not isinstance(dtype, pd.CategoricalDtype):
        return Column(key, "boolean", series.to_numpy(dtype=np.float64, na_value=np.nan))
    if types.is_numeric_dtype(dtype):
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        check_finite(key, values, name, problems)
        return Column(key, "number", np.where(np.isinf(values), np.nan, values))
    if types.is_datetime64_any_dtype(dtype):
        utc = pd.to_datetime(series, utc=True).dt.tz_localize(None)
        since = utc.to_numpy(dtype="datetime64[ns]") - np.datetime64(0, "ns")
        return Column(key, "date", np.where(np.isnat(since), np.nan, since / DAY))
    if told := several(key, series, name):
        problems.add(told)
        return Column(key, "category", objects([""] * len(series)))
    texts = objects(["" if _null(value) else str(value) for value in series])
    if isinstance(dtype, pd.CategoricalDtype):
        return Column(key, "category", texts)
    return told_by_texts(key, texts)


def several(key: str, values: Iterable[object], name: str) -> str | None:
    """A line on the first cell that holds more than one value."""
    for row, value in enumerate(values):
        if isinstance(value, (list, tuple, set, dict, np.ndarray)):
            what = f"column {key[:40]} holds a {type(value).__name__}"
            return f"{name} row {row}: {what}, not one value; several labels are not supported"
    return None


def _null(value: object) -> bool:
    """None, NaN, NaT and pandas' NA."""
    import pandas as pd

    return value is None or value is pd.NA or (not isinstance(value, str) and value != value)


def table_of_mapping(columns: Mapping[str, Sequence[object]], name: str) -> Table:
    """Columns as Python lists, as JSON has them; None is a missing cell."""
    problems = Problems()
    for key, values in columns.items():
        if told := several(key, values, name):
            problems.add(told)
    problems.end()
    made = {key: _listed_column(key, list(values)) for key, values in columns.items()}
    sizes = {len(column) for column in made.values()}
    if len(sizes) > 1:
        raise GassipError(f"{name}: the columns have {min(sizes)} to {max(sizes)} cells")
    return Table(name=name, columns=made, rows=sizes.pop() if sizes else 0)


def _listed_column(key: str, values: list[object]) -> Column:
    filled = [value for value in values if value is not None]
    if filled and all(isinstance(value, bool) for value in filled):
        return Column(key, "boolean", np.array([np.nan if v is None else v for v in values], float))
    if filled and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in filled):
        return Column(key, "number", np.array([np.nan if v is None else v for v in values], float))
    return Column(key, None, objects(["" if value is None else str(value) for value in values]))
