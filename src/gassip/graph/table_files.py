"""Tables from CSV and Parquet files.

CSV is read without any library, as texts; Parquet needs pyarrow (the extra `tables`), and its types
are the kinds of the columns.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gassip.errors import GassipError
from gassip.graph.columns import (
    Column,
    Kind,
    Problems,
    Table,
    check_finite,
    objects,
    repeated,
    told_by_texts,
)
from gassip.graph.limits import check_unpacked

PER_TEXT = 64  # bytes of a text besides its characters
EXTRA = "needs the 'tables' extra: pip install 'gassip[tables]'"


def read_table(path: Path) -> Table:
    """One CSV or Parquet file."""
    if not path.is_file():
        raise GassipError(f"{path}: no such file; expected a .csv or .parquet file")
    return read_parquet_table(path) if path.suffix == ".parquet" else read_csv_table(path)


def read_named(folder: Path, name: str) -> Table:
    """NAME.csv of a folder, or NAME.parquet."""
    parquet = folder / f"{name}.parquet"
    if parquet.is_file() and not (folder / f"{name}.csv").is_file():
        return read_parquet_table(parquet)
    return read_csv_table(folder / f"{name}.csv")


# CSV


def read_csv_table(path: Path) -> Table:
    """A CSV file with a header, as texts."""
    if not path.is_file():
        raise GassipError(f"{path.name} is missing; the folder must hold nodes.csv and edges.csv")
    rows = _csv_rows(path)
    _, header = next(rows, (0, []))
    if not header:
        raise GassipError(f"{path.name} is empty")
    if (twice := repeated(header)) is not None:
        raise GassipError(f"{path.name} has two columns {twice!r}")
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
        texts = [own.name for own in pq.read_schema(path) if _is_text(own.type)]
        file = pq.ParquetFile(path, read_dictionary=texts)
        check_unpacked(path.name, 8 * file.metadata.num_rows * file.metadata.num_columns, path)
        found = file.read()
        check_unpacked(path.name, sum(map(_text_bytes, found.columns)), path)
    except GassipError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        first = str(error).splitlines()[0][:120]
        raise GassipError(f"{path.name} is not a Parquet file, or damaged ({first})") from error
    if (twice := repeated(found.column_names)) is not None:
        raise GassipError(f"{path.name} has two columns {twice!r}")
    problems = Problems()
    columns: dict[str, Column] = {}
    for name in found.column_names:
        made = _arrow_column(name, found[name], path.name, problems)
        if made is not None and not name.startswith("__index_level_"):  # pandas' own numbering
            columns[name] = made
    problems.end()
    return Table(name=path.name, columns=columns, rows=found.num_rows)


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def _text_bytes(values: Any) -> int:
    """What the texts of a column take, each as a text of its own; a file may hold it once."""
    import pyarrow.compute as pc
    from pyarrow import types

    if not types.is_dictionary(values.type) or not _is_text(values.type.value_type):
        return 0
    total = PER_TEXT * len(values)
    for chunk in values.chunks:
        lengths = pc.cast(pc.binary_length(chunk.dictionary), "int64")
        total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return int(total)


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
