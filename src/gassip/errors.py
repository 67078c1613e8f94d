"""The errors that bad input raises: single lines that name the input, the value and the remedy."""

import stat
from collections.abc import Sequence
from pathlib import Path

MOST_LINES = 10  # of one input


class GassipError(ValueError):
    """Bad input. The command line prints its one line and ends with status 2."""

    @property
    def lines(self) -> tuple[str, ...]:
        return (str(self),)


class GassipWarning(UserWarning):
    """What a user should know of a prediction or a net; nothing stops."""


class GassipErrors(GassipError):
    """All that is wrong with one table, a line each, at most ten."""

    def __init__(self, lines: Sequence[str]) -> None:
        shown = tuple(lines[:MOST_LINES])
        if len(lines) > MOST_LINES:
            more = len(lines) - MOST_LINES + 1
            shown = (*shown[:-1], f"{more} more errors of this kind")
        super().__init__("\n".join(shown))
        self._lines = shown

    @property
    def lines(self) -> tuple[str, ...]:
        return self._lines


def error_of(lines: Sequence[str]) -> GassipError:
    """One error of some lines; a single line is a plain GassipError."""
    return GassipError(lines[0]) if len(lines) == 1 else GassipErrors(lines)


def refuse_special(path: Path) -> None:
    """Refuse a pipe or a device, which could be read for ever; a path that is missing is not."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise GassipError(f"{path} is a device or a pipe, not a file")
