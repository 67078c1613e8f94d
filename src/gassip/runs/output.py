"""Files that are written: refused before the work, replaced whole or not at all; tables and labels
as CSV."""

import csv
import io
import math
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from gassip.errors import GassipError


def check_file(out: Path, overwrite: bool) -> None:
    """Refuse, before the work, a file that cannot be written: it exists, it is a folder, there is
    no folder for it."""
    try:
        mode = out.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = stat.S_IFREG
    except (OSError, ValueError) as error:
        raise GassipError(f"{out}: {getattr(error, 'strerror', None) or error}") from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise GassipError(f"{out} is a device or a pipe, not a file; choose another --out")
    if out.exists() and not overwrite:
        raise GassipError(f"{out} exists; choose another --out, or --overwrite to replace it")
    if out.is_dir():
        raise GassipError(f"{out} is a folder; --out must name a file")
    if not out.parent.is_dir():
        raise GassipError(
            f"{out} cannot be written: there is no folder {out.parent}; make it, or choose "
            f"another --out"
        )


def real(path: Path) -> Path:
    """The path without links, which names something besides the root."""
    found = Path(os.path.realpath(path))
    if not found.name:
        raise GassipError(f"{path} is the root of the file system; choose another --out")
    return found


def replace_file(path: Path, content: bytes) -> None:
    """Write `content` so that `path` holds either what it held before or all of it."""
    path = real(path)  # what a link names is replaced, not the link
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        error.filename = str(path)  # the name the user knows
        raise
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


FORMULA = re.compile(r"[=@\t\r]|[+-](?![0-9.]+$)")


def no_formula(text: str) -> str:
    """A spreadsheet executes a cell that begins so; an apostrophe makes it a text."""
    return f"'{text}" if FORMULA.match(text) else text


Labels = tuple[Sequence[str], Sequence[str], Sequence[float]]  # ids, labels, probabilities


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """A table with a heading; what a row does not have is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def label_lines(out: TextIO, blocks: Iterable[Labels]) -> int:
    """A line for each node: id, label, probability. The number of nodes."""
    writer, count = csv.writer(out, lineterminator="\n"), 0
    writer.writerow(("id", "label", "probability"))
    for ids, names, probs in blocks:
        for at, name, prob in zip(ids, names, probs, strict=True):
            if not math.isfinite(prob):
                raise GassipError(
                    f"the probability of node {at[:40]!r} is {prob}: its features, or those of its "
                    f"neighbours, are too large for the net; scale them as in training"
                )
            writer.writerow((no_formula(at), no_formula(name), f"{prob:.6f}"))
        count += len(ids)
    return count


def labels_csv(ids: Sequence[str], names: Sequence[str], probs: Sequence[float]) -> str:
    """The lines of `label_lines` as a text."""
    text = io.StringIO()
    label_lines(text, [(ids, names, probs)])
    return text.getvalue()
