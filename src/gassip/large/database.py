"""Out-of-core queries of an import: DuckDB, which spills to disk beyond `memory`.

`Work` is one import under way. Its steps are each done once, also over several calls of an import
that was killed.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gassip.errors import GassipError
from gassip.graph.store import TABLES
from gassip.large.sources import Source, file_kind

ROWS = 100_000  # rows that are in memory at once
WORK, STATE = "work.duckdb", "import.json"

Say = Callable[[str], None]


@dataclass(eq=False)
class Work:
    """One import under way: the database, the folder, what has been done and said."""

    source: Source
    folder: Path
    database: Any  # of DuckDB
    say: Say
    done: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def step(self, name: str, work: Callable[["Work"], None]) -> None:
        """Once, also over several calls of an import that was killed."""
        if name in self.done:
            return
        self.say(name)
        work(self)
        self.database.execute("CHECKPOINT")
        self.done.append(name)
        state = {"source": self.source.state, "done": self.done, "notes": self.notes}
        scratch = self.folder / f"{STATE}.new"
        scratch.write_text(json.dumps(state), encoding="utf-8")
        scratch.replace(self.folder / STATE)

    def one(self, query: str) -> Any:
        return self.rows(query)[0][0]

    def rows(self, query: str) -> list[Any]:
        """All rows of a query; the connection is free afterwards."""
        return list(self.database.execute(query).fetchall())


def resumable(source: Source, partial: Path) -> tuple[list[str], list[str]] | None:
    """The steps that a killed import of the same files left, with its notes."""
    try:
        state = json.loads((partial / STATE).read_bytes())
    except (OSError, ValueError):
        return None
    same = json.dumps(state.get("source")) == json.dumps(source.state)
    return (state["done"], state["notes"]) if same and state["done"] else None


def connect(folder: Path, source: Source) -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise GassipError(f"gassip import {TABLES}") from error
    settings: Any = {
        "memory_limit": f"{source.memory - source.own_memory}B",
        "temp_directory": str(folder / "spill"),
        "threads": source.threads,
    }
    try:
        return duckdb.connect(str(folder / WORK), config=settings)
    except duckdb.Error as error:
        raise GassipError(f"{folder / WORK}: {one_line(error)}") from error


def one_line(error: Exception) -> str:
    return " ".join(f"{error}".split())[:300]


def reader(paths: Sequence[Path], texts: Sequence[str]) -> str:
    """The relation of some files; the columns in `texts` are read as text."""
    names = ", ".join(quoted(str(path)) for path in paths)
    if file_kind(paths[0]) == "parquet":
        return f"read_parquet([{names}], union_by_name=true)"
    types = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in texts)
    return f"read_csv([{names}], header=true, types={{{types}}}, union_by_name=true)"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def named(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def columns_of(work: Work, paths: Sequence[Path]) -> list[str]:
    import duckdb

    try:
        rows = work.rows(f"DESCRIBE SELECT * FROM {reader(paths, ())}")
    except duckdb.Error as error:
        raise GassipError(f"{paths[0]}: {one_line(error)}") from error
    return [str(row[0]) for row in rows]


def integers(work: Work, paths: Sequence[Path], names: Sequence[str]) -> bool:
    """Whether columns of Parquet files are whole numbers of at most 64 bits with a sign."""
    if file_kind(paths[0]) != "parquet":
        return False
    rows = work.rows(f"DESCRIBE SELECT * FROM {reader(paths, ())}")
    kinds = {str(row[0]): str(row[1]) for row in rows}
    return all(kinds.get(name) in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT") for name in names)


def run(work: Work, query: str) -> None:
    """A query whose errors are the user's data, in one line."""
    import duckdb

    try:
        work.database.execute(query)
    except duckdb.Error as error:
        raise told(work, error) from error


def told(work: Work, error: Exception) -> GassipError:
    import duckdb

    if isinstance(error, duckdb.OutOfMemoryException):
        given = work.source.memory / 2**30
        what = one_line(error).partition(" Possible solutions")[0]
        return GassipError(f"--memory of {given:.1f} GiB does not suffice; give more ({what})")
    return GassipError(in_file(error) or one_line(error))


def in_file(error: Exception) -> str | None:
    """A row that is no row of its CSV, by file and line; DuckDB advises options of its own."""
    text = str(error)
    line = re.search(r"CSV Error on Line: (\d+)\s+Original Line: (.*)\s+((?:.|\n)*?)Possible", text)
    file = re.search(r"^\s*file\s*=\s*(.+)$", text, re.MULTILINE)
    if line is None:
        return None
    where = file[1].strip() if file else "a CSV"
    found = " ".join(f"{line[2]!r}: {line[3]}".split())[:200]
    return f"{where}, line {line[1]}: {found}"


def batches(work: Work, query: str, rows: int = ROWS) -> Iterator[Any]:
    """The rows of a query as Arrow batches."""
    import duckdb

    try:
        yield from work.database.cursor().sql(query).to_arrow_reader(rows)
    except (duckdb.Error, OSError) as error:
        raise told(work, error) from error
