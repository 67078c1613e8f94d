"""How much a file may unpack to: judged by the sizes it declares, before anything is allocated.

limit = max(1 GiB, 16 × the file's size), or GASSIP_MAX_GIB gibibytes if that is set
"""

import os
import zipfile
from pathlib import Path

from gassip.errors import GassipError

VARIABLE = "GASSIP_MAX_GIB"
LEAST = 2**30  # bytes that any file may unpack to
GROWTH = 16  # times its own size that a large file may unpack to
MANY_COLUMNS = 2**17  # columns that any sparse table may have
COLUMNS_PER_ENTRY = 4  # of a sparse table with more


def lifted() -> float | None:
    """The user's own limit in bytes; None: the usual one."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value > 0:
        raise GassipError(f"{VARIABLE} is {text!r}; it must be a number of gibibytes above 0")
    return value * 2**30


def check_unpacked(what: str, needed: float, path: Path) -> None:
    """Refuse what would take more memory than a file of this size plausibly needs."""
    given = lifted()
    limit = max(LEAST, GROWTH * path.stat().st_size) if given is None else given
    if needed > limit:
        raise GassipError(
            f"{what} would take {needed / 2**30:,.1f} GiB, the limit is {limit / 2**30:,.1f}; "
            f"if the file is yours, set {VARIABLE}={max(2, int(needed / 2**30) + 1)}"
        )


def is_bounded(entry: zipfile.ZipInfo) -> bool:
    """Whether Python unpacks no more of an entry than is asked for: bzip2 and lzma make gigabytes
    of a few bytes at the first read."""
    return entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def check_packing(entry: zipfile.ZipInfo) -> None:
    """Refuse an array whose header cannot be read safely; numpy writes none such."""
    if not is_bounded(entry):
        raise GassipError(
            f"{entry.filename[:40]} is packed by another method than numpy's; write the file with "
            f"numpy.savez or numpy.savez_compressed"
        )


def check_columns(columns: int, entries: int) -> None:
    """Refuse a sparse table most of whose columns must be empty: each costs a row of weights."""
    most = max(MANY_COLUMNS, COLUMNS_PER_ENTRY * entries)
    if columns > most and lifted() is None:
        raise GassipError(
            f"x has {columns} columns, but only {entries} entries; drop empty columns, or set "
            f"{VARIABLE} to the gibibytes that may be used"
        )
