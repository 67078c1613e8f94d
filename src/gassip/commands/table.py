"""gassip table: the records as a table, one line per method and setting."""

import argparse
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from gassip.commands.common import command
from gassip.errors import GassipError

if TYPE_CHECKING:
    from gassip.bench.records import Record

COLUMNS = ("dataset", "method", "test accuracy", "n", "weights", "edges", "seconds", "settings")
NUMBERS = ("weights", "edges", "seconds")


def add(commands: Any) -> None:
    parser = command(
        commands,
        run,
        "table",
        "render the record book as a table",
        "gassip table --format markdown",
    )
    parser.add_argument(
        "--results", metavar="DIR", default="results", help="the record book (default %(default)s)"
    )
    parser.add_argument("--dataset", metavar="NAME", help="one dataset (default: all)")
    parser.add_argument(
        "--format", choices=("text", "markdown"), default="text", help="default %(default)s"
    )


def run(args: argparse.Namespace) -> int:
    from gassip.bench.records import Book, latest

    if not Path(args.results).is_dir():
        raise GassipError(
            f"{args.results} is no folder of records; make some with `gassip run METHOD --record`"
        )
    book = Book(args.results)
    lines: list[tuple[str, ...]] = [COLUMNS]
    for dataset in [args.dataset] if args.dataset else book.datasets():
        records, said = book.read(dataset)
        for line in said:
            print(f"gassip: {line}", file=sys.stderr)
        lines += rows(list(latest(records).values()))
    if len(lines) == 1:
        raise GassipError(
            f"{args.results} has no records{f' of {args.dataset}' if args.dataset else ''}"
        )
    _markdown(lines) if args.format == "markdown" else _text(lines)
    return 0


def rows(records: "list[Record]") -> list[tuple[str, ...]]:
    """One line for all records that differ in their seeds only, in the order of the methods'
    list."""
    from gassip.bench.records import canonical
    from gassip.methods import METHODS

    alike: dict[str, list[Record]] = {}
    for record in records:
        run = record.run
        what = [
            run.method,
            run.settings,
            run.noise,
            run.noise_seed,
            run.attack,
            run.metric,
            run.fingerprint,
        ]
        what += [run.split_seed, run.undirected, run.normalize, record.method_version]
        alike.setdefault(canonical([*what, record.tuned]), []).append(record)
    order = {name: at for at, name in enumerate(METHODS)}
    kinds = sorted(alike.values(), key=lambda own: order.get(own[0].run.method, len(order)))
    return [_line(own, _apart(own[0], [other[0] for other in kinds])) for own in kinds]


def _apart(record: "Record", others: "list[Record]") -> str:
    """Where the settings come from, and those in which the method's lines differ (of more than two,
    the rare ones)."""
    same = [other.run.settings for other in others if other.run.method == record.run.method]
    own = record.run.settings
    differ = [name for name in own if any(other.get(name) != own[name] for other in same)]
    if len(same) > 2:
        values = {name: [other.get(name) for other in same] for name in differ}
        differ = [name for name in differ if values[name].count(own[name]) * 2 <= len(same)]
    return " ".join(
        ["tuned" if record.tuned else "untuned", *(f"{name}={own[name]}" for name in differ)]
    )


def _line(own: "list[Record]", settings: str) -> tuple[str, ...]:
    run, good = own[0].run, [record for record in own if record.status == "ok"]
    where = (
        run.dataset
        + (f" {run.attack}" if run.attack else "")
        + (f" +{run.noise}" if run.noise else "")
    )
    if not good:
        return where, run.method, own[0].status, "0", "-", "-", "-", settings
    test = [100 * record.accuracy["test"] for record in good if "test" in record.accuracy]
    text = (
        "-"
        if not test
        else f"{fmean(test):.2f}" + (f" ± {stdev(test):.2f}" if len(test) > 1 else "")
    )
    count = str(len(good)) + (f" ({len(own) - len(good)} not ok)" if len(own) > len(good) else "")
    weights, edges = (_mean(good, f"{what}_kept") for what in ("weights", "edges"))
    seconds = fmean(sum(record.seconds.values()) for record in good)
    return where, run.method, text, count, weights, edges, f"{seconds:.1f}", settings


def _mean(good: "list[Record]", name: str) -> str:
    return f"{round(fmean(getattr(record, name) for record in good)):,}"


def _text(lines: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = zip(COLUMNS, line, widths, strict=True)
        print(
            "  ".join(
                f"{cell:>{w}}" if name in NUMBERS else f"{cell:{w}}" for name, cell, w in cells
            ).rstrip()
        )


def _markdown(lines: list[tuple[str, ...]]) -> None:
    for at, line in enumerate(lines):
        print("| " + " | ".join(line) + " |")
        if at == 0:
            print("|" + "|".join("---:" if name in NUMBERS else "---" for name in COLUMNS) + "|")
