"""Tables of nodes and edges, from CSV, Parquet or pandas, as the parts of a graph.

    nodes    id, label, optional split (train, val, test); every other column is a feature
    edges    source, target: ids of nodes; optional weight

All errors of a table are told at once. CSV is read without any library; Parquet needs pyarrow and
frames need pandas (the extra `tables`). Features are prepared by preparation.py: fitted if labels
are read, otherwise as the run's own preparation has it.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gassip.errors import GassipError
from gassip.graph.columns import Column, Kind, Problems, Table, is_missing, values_as
from gassip.graph.labels import class_numbers
from gassip.graph.limits import check_unpacked
from gassip.graph.parts import SPLITS, Parts
from gassip.graph.preparation import Preparation, fit_preparation, listed

if TYPE_CHECKING:
    import pandas as pd

EXTRA = "needs the 'tables' extra: pip install 'gassip[tables]'"
DAY = np.timedelta64(1, "D")


@dataclass(frozen=True, kw_only=True)
class Names:
    """What the columns are called that are no features; id None: rows are called by number."""

    id: str | None = "id"
    label: str = "label"
    split: str = "split"
    source: str = "source"
    target: str = "target"
    weight: str = "weight"

    @property
    def of_nodes(self) -> tuple[str, ...]:
        return tuple(name for name in (self.id, self.label, self.split) if name is not None)


def read_tables(
    folder: Path,
    *,
    labels: bool = True,
    prepared: bool = True,
    preparation: Preparation | None = None,
) -> Parts:
    """A folder with nodes.csv and edges.csv, or with nodes.parquet and edges.parquet."""
    nodes, edges = _read_table(folder, "nodes"), _read_table(folder, "edges")
    return parts_of(nodes, edges, labels=labels, prepared=prepared, preparation=preparation)


def read_table(path: Path) -> Table:
    """One CSV or Parquet file."""
    if not path.is_file():
        raise GassipError(f"{path}: no such file; expected a .csv or .parquet file")
    return read_parquet_table(path) if path.suffix == ".parquet" else read_csv_table(path)


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


def _read_table(folder: Path, name: str) -> Table:
    parquet = folder / f"{name}.parquet"
    if parquet.is_file() and not (folder / f"{name}.csv").is_file():
        return read_parquet_table(parquet)
    return read_csv_table(folder / f"{name}.csv")


def parts_of(
    nodes: Table,
    edges: Table,
    *,
    names: Names | None = None,
    labels: bool = True,
    prepared: bool = True,
    fit: bool | None = None,
    preparation: Preparation | None = None,
    known: Sequence[str] = (),
) -> Parts:
    """The graph of two tables. With `labels`, y and the split are read and, if `prepared`, a
    preparation is fitted unless one is given; `fit` fits one whether labels are read or not.
    Without a preparation x is the numbers given. `known`: ids of nodes that are there already,
    which edges may name; the nodes of the table follow them in number."""
    names, said, problems = names or Names(), list[str](), Problems()
    _check_columns(nodes, edges, names, labels, problems)
    problems.end()
    ids = node_ids(nodes, names, problems, known)
    y, classes = labels_of(nodes, names, problems) if labels else (None, None)
    masks = split_of(nodes, names, problems) if labels else None
    fitted = (labels if fit is None else fit) and prepared and preparation is None
    x, made = _features(nodes, names, fitted, preparation, said, problems)
    where = f"{nodes.name} or in the run" if known else nodes.name
    edge_index, weight = edge_ends(edges, (*known, *ids), where, names, problems)
    problems.end()
    said += unread(edges, names)
    return Parts(
        x=x,
        edge_index=edge_index,
        y=y,
        masks=masks,
        edge_weight=weight,
        class_names=classes,
        ids=ids,
        preparation=made,
        notes=tuple(said),
    )


def _features(
    nodes: Table,
    names: Names,
    fitted: bool,
    preparation: Preparation | None,
    said: list[str],
    problems: Problems,
) -> tuple[np.ndarray, Preparation | None]:
    """x [N, D] and how it was made; None: the numbers are as given."""
    columns = [name for name in nodes.columns if name not in names.of_nodes]
    try:
        if preparation is None and not columns:
            return np.zeros((nodes.rows, 0), dtype=np.float32), None  # made from the edges
        if fitted:
            preparation = fit_preparation(nodes, columns, said)
        if preparation is None:
            return plain_numbers(nodes, columns), None
        if new := preparation.new_columns(nodes, names.of_nodes):
            said.append(f"{nodes.name}: left out, since training did not have it: {listed(new)}")
        return preparation.apply(nodes), preparation
    except GassipError as error:
        problems.lines.extend(error.lines)
        return np.zeros((nodes.rows, 0)), None


def _check_columns(
    nodes: Table, edges: Table, names: Names, labels: bool, problems: Problems
) -> None:
    needed = [] if names.id is None else [names.id]
    for name in [*needed, *([names.label] if labels else [])]:
        _require(nodes, name, problems)
    for name in (names.source, names.target):
        _require(edges, name, problems)
    if not nodes.rows:
        problems.add(f"{nodes.name} has a header but no rows")


def _require(table: Table, name: str, problems: Problems) -> None:
    if name not in table.columns:
        there = ",".join(table.columns)[:200]
        problems.add(f"{table.name} has no column {name}; its header is {there!r}")


def node_ids(
    nodes: Table, names: Names, problems: Problems, known: Sequence[str] = ()
) -> tuple[str, ...]:
    """One name for each node, none of them twice or among `known`."""
    if names.id is None:
        return tuple(str(row) for row in range(nodes.rows))
    ids = nodes.texts(names.id)
    seen, old = set[str](), set(known)
    for row, name in enumerate(ids):
        if not name:
            problems.add(f"{nodes.where(row)}: {names.id} is empty")
        elif name in seen:
            problems.add(f"{nodes.where(row)}: {names.id} {name[:40]!r} was given before")
        elif name in old:
            problems.add(f"{nodes.where(row)}: {names.id} {name[:40]!r} is in the run's graph")
        seen.add(name)
    return tuple(ids)


def edge_ends(
    edges: Table, ids: Sequence[str], nodes: str, names: Names, problems: Problems
) -> tuple[np.ndarray, np.ndarray | None]:
    """edge_index [2, E], and the weights if there are some."""
    index = {name: row for row, name in enumerate(ids)}
    ends = np.zeros((2, edges.rows), dtype=np.int64)
    for at, column in enumerate((names.source, names.target)):
        for row, name in enumerate(edges.texts(column)):
            found = index.get(name)
            if found is None:
                what = f"{column} {name[:40]!r} is not an id in {nodes}"
                problems.add(f"{edges.where(row)}: {what}")
            else:
                ends[at, row] = found
    if names.weight not in edges.columns:
        _refuse_other_weight(edges, names, problems)
        return ends, None
    return ends, full_numbers(edges, names.weight, problems)


def unread(edges: Table, names: Names) -> list[str]:
    """A note on the columns of edges that have no part in the graph."""
    known = (names.source, names.target, names.weight)
    more = [name for name in edges.columns if name not in known]
    if not more:
        return []
    what = f"only {names.weight} is read besides {names.source} and {names.target}"
    return [f"{edges.name}: left out: {listed(more)} ({what})"]


def _refuse_other_weight(edges: Table, names: Names, problems: Problems) -> None:
    """A column that is meant for the weights, under another name, is not left out silently."""
    meant = {f"{names.weight}s", f"edge_{names.weight}", f"edge_{names.weight}s", names.weight}
    for name in edges.columns:
        if name.strip().lower() in meant and name not in (names.source, names.target):
            what = f"has a column {name[:40]!r}, which is not read"
            problems.add(f"{edges.name} {what}; call it {names.weight}, or drop it")


def full_numbers(table: Table, name: str, problems: Problems) -> np.ndarray:
    """A column of numbers without gaps."""
    values = values_as(table.columns[name], "number", table, problems)
    if table.columns[name].kind is None:
        texts = table.columns[name].values
        gaps = [row for row, text in enumerate(texts) if is_missing(text)]
    else:
        gaps = np.flatnonzero(np.isnan(values)).tolist()
    for row in gaps:
        problems.add(f"{table.where(row)}: column {name} is empty, not a number")
    return values


def labels_of(
    nodes: Table, names: Names, problems: Problems
) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    """y [N], -1 where unlabelled, and the names of the classes."""
    texts = ["" if is_missing(text) else text for text in nodes.texts(names.label)]
    try:
        return class_numbers(texts, f"{nodes.name}: column {names.label}")
    except GassipError as error:
        problems.lines.extend(error.lines)
        return None, None


def split_of(
    nodes: Table, names: Names, problems: Problems
) -> tuple[np.ndarray | None, ...] | None:
    """The three masks; None for a split that no node is in, None for all if no node is in any."""
    if names.split not in nodes.columns:
        return None
    texts = nodes.texts(names.split)
    for row, text in enumerate(texts):
        if text not in ("", *SPLITS):
            what = f"column {names.split} holds {text[:40]!r}, not train, val, test or nothing"
            problems.add(f"{nodes.where(row)}: {what}")
    split = np.array(texts)
    masks = tuple(split == name for name in SPLITS)
    if not any(mask.any() for mask in masks):
        return None
    return tuple(mask if mask.any() else None for mask in masks)


def plain_numbers(nodes: Table, columns: Sequence[str]) -> np.ndarray:
    """x [N, D] of a table of numbers, as it is: for runs that know no columns."""
    problems = Problems()
    values = [full_numbers(nodes, name, problems) for name in columns]
    problems.end()
    return np.stack(values, axis=1).astype(np.float32)


# CSV


def read_csv_table(path: Path) -> Table:
    """A CSV file with a header, as texts."""
    if not path.is_file():
        raise GassipError(f"{path.name} is missing; the folder must hold nodes.csv and edges.csv")
    rows = _csv_rows(path)
    _, header = next(rows, (0, []))
    if not header:
        raise GassipError(f"{path.name} is empty")
    if twice := [name for name in header if header.count(name) > 1]:
        raise GassipError(f"{path.name} has two columns {twice[0]!r}")
    problems, lines, cells = Problems(), list[int](), list[list[str]]()
    for line, row in rows:
        if len(row) == len(header):
            lines.append(line)
            cells.append(row)
        else:
            what = f"{len(row)} cells, but the header names {len(header)} columns"
            problems.add(f"{path.name} line {line}: {what}")
    problems.end()
    by_column = list(zip(*cells, strict=True)) or [()] * len(header)
    columns = {
        name: Column(name, None, objects(cells))
        for name, cells in zip(header, by_column, strict=True)
    }
    return Table(name=path.name, columns=columns, rows=len(cells), lines=lines)


def objects(values: Sequence[object]) -> np.ndarray:
    """A row of Python objects, texts here."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            yield from ((reader.line_num, row) for row in reader if row)
        except UnicodeDecodeError as error:
            raise GassipError(
                f"{path.name} is not UTF-8 text ({error.reason}); save it as UTF-8"
            ) from error
        except csv.Error as error:
            raise GassipError(f"{path.name} line {reader.line_num}: {error}") from error


# Parquet


def read_parquet_table(path: Path) -> Table:
    """A Parquet file; its types are the kinds."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise GassipError(f"reading {path.name} {EXTRA}") from error
    try:
        file = pq.ParquetFile(path)
        check_unpacked(path.name, 8 * file.metadata.num_rows * file.metadata.num_columns, path)
        found = file.read()
    except GassipError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        first = str(error).splitlines()[0][:120]
        raise GassipError(f"{path.name} is not a Parquet file, or damaged ({first})") from error
    if twice := [name for name in found.column_names if found.column_names.count(name) > 1]:
        raise GassipError(f"{path.name} has two columns {twice[0]!r}")
    problems = Problems()
    columns: dict[str, Column] = {}
    for name in found.column_names:
        made = _arrow_column(name, found[name], path.name, problems)
        if made is not None and not name.startswith("__index_level_"):  # pandas' own numbering
            columns[name] = made
    problems.end()
    return Table(name=path.name, columns=columns, rows=found.num_rows)


def _arrow_column(name: str, values: Any, table: str, problems: Problems) -> Column | None:
    import pyarrow as pa
    from pyarrow import types

    kind = values.type
    if types.is_dictionary(kind):
        values, kind = values.cast(kind.value_type), kind.value_type
    if types.is_boolean(kind):
        return _numeric(name, "boolean", values.cast(pa.int8()).cast(pa.float64()))
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _numeric(name, "number", values.cast(pa.float64(), safe=False), problems, table)
    if types.is_date(kind) or types.is_timestamp(kind):
        micro = values.cast(pa.timestamp("us", tz="UTC"), safe=False).cast(pa.int64())
        days = micro.cast(pa.float64(), safe=False).to_numpy().astype(np.float64) / 86400e6
        return Column(name, "date", days)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        texts = objects([text or "" for text in values.to_pylist()])
        return told_by_texts(name, texts)
    if types.is_null(kind):
        return Column(name, "category", objects([""] * len(values)))
    problems.add(
        f"{table}: column {name} holds {str(kind)[:40]}; numbers, texts, true/false and dates "
        f"are read"
    )
    return None


def _numeric(
    name: str, kind: Kind, values: Any, problems: Problems | None = None, table: str = ""
) -> Column:
    array = np.array(values.to_numpy(), dtype=np.float64)
    if problems is not None:
        check_finite(name, array, table, problems)
    return Column(name, kind, array)


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


# pandas


def table_of_frame(frame: "pd.DataFrame", name: str) -> Table:
    """A DataFrame; dtypes are the kinds."""
    problems = Problems()
    columns: dict[str, Column] = {}
    for key in frame.columns:
        if str(key) in columns:
            problems.add(f"{name} has two columns {str(key)[:40]!r}")
            continue
        columns[str(key)] = _series_column(str(key), frame[key], name, problems)
    problems.end()
    return Table(name=name, columns=columns, rows=len(frame))


def _series_column(key: str, series: Any, name: str, problems: Problems) -> Column:
    import pandas as pd

    if isinstance(series, pd.DataFrame):
        problems.add(f"{name} has two columns {key[:40]!r}")
        return Column(key, "category", objects([]))
    types = pd.api.types
    dtype = series.dtype
    if types.is_bool_dtype(dtype) and not isinstance(dtype, pd.CategoricalDtype):
        return Column(key, "boolean", series.to_numpy(dtype=np.float64, na_value=np.nan))
    if types.is_numeric_dtype(dtype):
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        check_finite(key, values, name, problems)
        return Column(key, "number", values)
    if types.is_datetime64_any_dtype(dtype):
        utc = pd.to_datetime(series, utc=True).dt.tz_localize(None)
        since = utc.to_numpy(dtype="datetime64[ns]") - np.datetime64(0, "ns")
        return Column(key, "date", np.where(np.isnat(since), np.nan, since / DAY))
    texts = objects(["" if _null(value) else str(value) for value in series])
    if isinstance(dtype, pd.CategoricalDtype):
        return Column(key, "category", texts)
    return told_by_texts(key, texts)


def _null(value: object) -> bool:
    """None, NaN, NaT and pandas' NA."""
    import pandas as pd

    return value is None or value is pd.NA or (not isinstance(value, str) and value != value)


def table_of_mapping(columns: Mapping[str, Sequence[object]], name: str) -> Table:
    """Columns as Python lists, as JSON has them; None is a missing cell."""
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
