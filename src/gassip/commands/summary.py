"""Progress on stderr, summaries and tables on stdout."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gassip.train.events import figures

if TYPE_CHECKING:
    pass


Row = Mapping[str, float | str]


@contextmanager
def progress(title: str, total: int, quiet: bool) -> Iterator[Callable[[Row], None]]:
    """A function that shows one epoch's row: a bar on a terminal, some lines elsewhere."""
    if quiet:
        yield lambda row: None
    elif not sys.stderr.isatty():
        every = max(1, total // 5)
        yield lambda row: _line(title, total, row) if int(row["epoch"]) % every == 0 else None
    else:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        columns = [TextColumn("{task.description}"), BarColumn(10), MofNCompleteColumn()]
        columns += [TextColumn("{task.fields[figures]}", markup=False)]
        if console.width >= 100:  # the figures alone fill 80 columns
            columns.append(TimeRemainingColumn())
        with Progress(*columns, console=console) as bar:
            task = bar.add_task(title, total=total, figures="")
            yield lambda row: bar.update(task, completed=int(row["epoch"]), figures=figures(row))


def _line(title: str, total: int, row: Row) -> None:
    print(f"{title} {row['epoch']}/{total}  {figures(row)}", file=sys.stderr, flush=True)


def print_summary(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """A table of names and values on stdout."""
    from rich.table import Table

    table = Table(show_header=False, title=title)
    for name, value in rows:
        table.add_row(name, value)
    print_table(table)


def print_table(table: Any) -> None:
    """One of rich's tables on stdout; what is in it is text, not markup."""
    from rich.console import Console

    Console(markup=False, highlight=False).print(table)


def score_rows(scores: Mapping[str, Mapping[str, float]]) -> list[tuple[str, str]]:
    """For a summary: each metric with its value on each split."""
    return [
        (metric, "   ".join(f"{split} {value:.4f}" for split, value in values.items()))
        for metric, values in scores.items()
    ]


def seconds_row(seconds: Mapping[str, float]) -> tuple[str, str]:
    return "seconds", "   ".join(f"{phase} {value:.1f}" for phase, value in seconds.items())


def share(kept: int, total: int) -> str:
    return f"{kept:,} of {total:,} ({kept / total:.1%})"


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
