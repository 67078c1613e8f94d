"""The border that every bad input must stop at, and ways to make inputs bad.

An outcome is good if: status 0 or 2; with 2 one line on stderr (a line for each error of a table,
at most ten); no traceback; nothing left behind; under 10 s and 2 GB.
"""

import io
import os
import random
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path

from gassip.cli import main
from gassip.errors import MOST_LINES, GassipError

MORE = int(os.environ.get("GASSIP_FUZZ", "1"))  # `make fuzz` has twenty times the cases
SECONDS, BYTES = 10.0, 2e9
PARTS = 4  # of the cases of files, for the processes of the tests
CASES = {
    "budgets": 150,
    "values of settings": 150,
    "settings files": 150,
    "flags": 127,
    "run folders": 240,
    "checkpoints": 100,
    "npz": 25 * PARTS,
    "pt": 12 * PARTS,
    "csv": 30 * PARTS,
    "parquet": 12 * PARTS,
    "cells of tables": 40 * PARTS,
    "requests": 100,
}  # in the ordinary tests; `make fuzz` has MORE times as many


STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def used_bytes() -> float:
    """The most that was resident since `forget_the_peak`; elsewhere than on Linux, since the
    process began."""
    if not STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    (line,) = [own for own in STATUS.read_text().splitlines() if own.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024.0


def forget_the_peak() -> None:
    """An earlier peak would hide all that takes less."""
    with suppress(OSError):
        CLEAR.write_text("5")


@contextmanager
def bounded(what: str) -> Iterator[None]:
    forget_the_peak()
    began, before = time.process_time(), used_bytes()
    yield
    assert time.process_time() - began < SECONDS, f"{what}: too slow"
    assert used_bytes() - before < BYTES, f"{what}: too much memory"


def called(words: Sequence[str], start: Callable[[Sequence[str]], int] = main) -> int:
    """The status of a call in this process, its outcome checked."""
    said, shown = io.StringIO(), io.StringIO()
    with bounded(" ".join(words)[:200]), redirect_stderr(said), redirect_stdout(shown):
        try:
            status = start(words)
        except SystemExit as ended:
            status = int(ended.code or 0) if not isinstance(ended.code, str) else 1
    lines = [line for line in said.getvalue().splitlines() if ": warning: " not in line]
    assert status in (0, 2), f"status {status}: {words}: {lines}"
    if status == 2:
        assert 1 <= len(lines) <= MOST_LINES, f"{len(lines)} lines: {words}: {lines[:3]}"
        assert all("error" in line and "Traceback" not in line for line in lines), lines
    return status


def refused(what: str, read: Callable[[], object]) -> str:
    """The lines of a GassipError, or "" where the input was read; any other error is a fault."""
    try:
        with bounded(what):
            read()
    except GassipError as error:
        assert 1 <= len(error.lines) <= MOST_LINES, what
        assert all(line.strip() and "\n" not in line for line in error.lines), what
        return str(error)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    return ""


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Bytes flipped, cut, repeated, removed or replaced."""
    out = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 30))):
        if not out:
            break
        at, length = rng.randrange(len(out)), rng.choice((1, 2, 8, 64))
        match rng.randrange(7):
            case 0:
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                del out[at:]
            case 2:
                out[at:at] = out[at : at + length]
            case 3:
                del out[at : at + length]
            case 4:
                out[at : at + length] = bytes(min(length, len(out) - at))
            case 5:
                out[at : at + length] = b"\xff" * min(length, len(out) - at)
            case _:
                out[at] = rng.randrange(256)
    return bytes(out)
