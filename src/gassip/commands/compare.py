"""gassip compare: several runs on one page, with the front of accuracy against size."""

import argparse
from pathlib import Path
from typing import Any

from gassip.commands.common import command
from gassip.errors import GassipError


def add(commands: Any) -> None:
    text = "put several runs on one page, with accuracy against size"
    example = "gassip compare runs/a runs/b --out compare.html"
    parser = command(commands, run, "compare", text, example)
    parser.add_argument("folders", metavar="RUN", nargs="+", help="folders of runs, two or more")
    parser.add_argument(
        "--out",
        metavar="FILE",
        default="compare.html",
        help="page to write (default %(default)s)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")


def run(args: argparse.Namespace) -> int:
    from gassip.report.compare import compare
    from gassip.report.facts import read_facts
    from gassip.runs.format import check_file, replace_file

    if len(args.folders) < 2:
        raise GassipError(f"compare takes two runs or more; one is given: {args.folders[0]}")
    check_file(Path(args.out), args.overwrite)
    page = compare([read_facts(folder) for folder in args.folders])
    replace_file(Path(args.out), page)
    print(f"written to {args.out}: {len(args.folders)} runs")
    return 0
