"""gassip table: the records as a table, one line per method and setting."""

import argparse
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from gassip.commands.common import command
from gassip.errors import GassipError

if TYPE_CHECKING:
    from gassip.bench.records import Record, Run

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
    kinds = sorted(alike.values(), key=lambda kind: order.get(kind[0].run.method, len(order)))
    firsts = [kind[0] for kind in kinds]
    return [_line(kind, _apart(kind[0], firsts)) for kind in kinds]


def _apart(record: "Record", others: "list[Record]") -> str:
    """Where the settings come from, the version where a method has records of several, and the
    settings in which the lines of one version differ (of more than two, the rare ones)."""
    lines = [other for other in others if other.run.method == record.run.method]
    version = record.method_version
    same = [other.run.settings for other in lines if other.method_version == version]
    given = record.run.settings
    differ = [name for name in given if any(other.get(name) != given[name] for other in same)]
    if len(same) > 2:
        values = {name: [other.get(name) for other in same] for name in differ}
        differ = [name for name in differ if values[name].count(given[name]) * 2 <= len(same)]
    said = ["tuned" if record.tuned else "untuned"]
    if version is not None and len(same) < len(lines):
        said.append(f"version {version}")
    return " ".join([*said, *(f"{name}={given[name]}" for name in differ)])


def _line(records: "list[Record]", settings: str) -> tuple[str, ...]:
    run, good = records[0].run, [record for record in records if record.status == "ok"]
    if not good:
        return _where(run), run.method, records[0].status, "0", "-", "-", "-", settings
    count = str(len(good))
    if len(records) > len(good):
        count += f" ({len(records) - len(good)} not ok)"
    weights, edges = (_mean(good, f"{what}_kept") for what in ("weights", "edges"))
    seconds = f"{fmean(sum(record.seconds.values()) for record in good):.1f}"
    return _where(run), run.method, _accuracy(good), count, weights, edges, seconds, settings


def _where(run: "Run") -> str:
    """The dataset and what was done to it."""
    attack = f" {run.attack}" if run.attack else ""
    noise = f" +{run.noise}" if run.noise else ""
    return run.dataset + attack + noise


def _accuracy(good: "list[Record]") -> str:
    """On the test nodes, in percent, with its deviation where there are several."""
    test = [100 * record.accuracy["test"] for record in good if "test" in record.accuracy]
    if not test:
        return "-"
    if len(test) == 1:
        return f"{test[0]:.2f}"
    return f"{fmean(test):.2f} ± {stdev(test):.2f}"


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
