"""Where in the files of an import a fault stands. CSV is read once more, after an error alone.

Lines are told as `FILE, line N`, the first few of them; other files are told by their name.
"""

import csv
import gzip
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from gassip.graph.columns import WORDS, is_missing, is_number
from gassip.large.sources import file_kind

MOST = 10  # lines that are told
DELIMITERS = ",;\t|"
Wrong = Callable[..., str | None]  # what is wrong with some cells of a row, if anything is


def faults(paths: Sequence[Path], names: Sequence[str], wrong: Wrong, otherwise: str) -> list[str]:
    """A line for each of the first rows that are wrong, by their cells in the columns `names`;
    `otherwise` where no file holds such a row as text."""
    lines = []
    for path in paths:
        for line, cells in rows_of(path, names):
            said = wrong(*cells)
            if said is not None:
                lines.append(f"{path}, line {line}: {said}")
            if len(lines) == MOST:
                return lines
    return lines or [f"{paths[0]}: {otherwise}"]


def rows_of(path: Path, names: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Lines of a CSV and their cells in some columns; nothing of other files."""
    if file_kind(path) != "csv" or path.suffix == ".zst":
        return
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
        header = file.readline()
        delimiter = max(DELIMITERS, key=header.count)
        there = next(csv.reader([header], delimiter=delimiter), [])
        at = [there.index(name) for name in names if name in there]
        if len(at) < len(names):
            return
        reader = csv.reader(file, delimiter=delimiter)
        for row in reader:
            if len(row) == len(there):
                yield reader.line_num + 1, tuple(row[column] for column in at)


# What may be wrong


def empty(cell: str) -> str | None:
    return None if cell else "id is empty"


def repeated(ids: Collection[str]) -> Wrong:
    """Of these ids, all but the first."""
    seen = set[str]()

    def wrong(cell: str) -> str | None:
        if cell in seen:
            return f"id {cell[:40]!r} was given before"
        if cell in ids:
            seen.add(cell)
        return None

    return wrong


def unknown_split(known: Collection[str]) -> Wrong:
    def wrong(cell: str) -> str | None:
        if cell in ("", *known):
            return None
        return f"column split holds {cell[:40]!r}, not {', '.join(known)} or nothing"

    return wrong


def no_node(end: str, ids: Collection[str]) -> Wrong:
    """An end of an edge that is among these."""

    def wrong(cell: str) -> str | None:
        return f"{end} {cell[:40]!r} is no id of a node" if cell in ids else None

    return wrong


def no_weight(cell: str) -> str | None:
    if is_missing(cell):
        return "column weight is empty, not a number"
    if not is_number(cell) or float(cell) < 0:
        return f"column weight holds {cell[:40]!r}, not a number of 0 or more"
    return None


def no_number(name: str) -> Wrong:
    def wrong(cell: str) -> str | None:
        if is_missing(cell) or is_number(cell):
            return None
        return f"column {name} holds {cell[:40]!r}, not {WORDS['number']}"

    return wrong
