"""Flags of `gassip search` alone."""

import argparse
from typing import Any

from gassip.budget.budget import HELP
from gassip.commands.common import (
    THREADS,
    Parser,
    jobs_flag,
    machine_flags,
    whole,
)
from gassip.commands.flags import (
    Screen,
    help_flags,
    preset_flags,
    setting_flags,
)
from gassip.commands.graphs import SPLIT, graph_flags
from gassip.commands.search_rows import large_flags
from gassip.errors import GassipError
from gassip.train.deadline import seconds_of
from gassip.train.loggers import LOGGERS

ABOUT = (
    "find a light net for a graph, train it and write it to a folder",
    "gassip search --dataset cora --preset paper --seed 1 --out runs/cora",
)
SCREEN = Screen(preset="best")
EVERY = 25  # epochs between two checkpoints


def add_flags(parser: Parser, screen: Screen) -> None:
    graph_flags(parser.add_argument_group("graph and seed"), screen.rare(SPLIT))
    preset_flags(parser.add_argument_group("method"), screen)
    output = parser.add_argument_group("output and machine")
    out_flags(output, screen)
    machine_flags(output, screen.rare(THREADS))
    jobs_flag(output)
    large_flags(output, screen)
    help_flags(output)
    budget_flags(parser)
    setting_flags(parser, screen)


def out_flags(parser: Any, screen: Screen) -> None:
    parser.add_argument("--out", metavar="DIR", help="default runs/<name>-<preset>-seed<N>")
    parser.add_argument(
        "--resume", action="store_true", help="go on with a search that was killed or interrupted"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the run in DIR once this one is complete"
    )
    parser.add_argument(
        "--time-limit",
        type=duration,
        metavar="TIME",
        help="60s, 10m, 2h, all counted: the best net by then; --resume goes on",
    )
    parser.add_argument(
        "--log",
        action="append",
        choices=tuple(LOGGERS),
        default=[],
        metavar="NAME",
        help=screen.rare(f"write every step to a dashboard: {', '.join(LOGGERS)}"),
    )
    parser.add_argument(
        "--inductive",
        action=argparse.BooleanOptionalAction,
        help=screen.rare(
            "train once more without half of the validation nodes and their edges, for a score on "
            "new nodes (default: if that takes less than a minute, and without --time-limit)"
        ),
    )
    parser.add_argument(
        "--no-report", action="store_true", help=screen.rare("do not write report.html")
    )
    parser.add_argument(
        "--explain", action="store_true", help="show each decision with what was tried"
    )
    parser.add_argument(
        "--checkpoint-every",
        type=whole(1),
        default=EVERY,
        metavar="N",
        help=screen.rare(f"epochs between two checkpoints (default {EVERY})"),
    )


def duration(text: str) -> str:
    """A duration such as 10m, checked."""
    try:
        seconds_of(text)
    except GassipError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def budget_flags(parser: Parser) -> None:
    """One flag per field of `Budget`."""
    title = "budgets; one that no net can meet is refused with the least that can be had"
    group = parser.add_argument_group(title)
    for name, text in HELP.items():
        flag = "--" + name.replace("_", "-")
        group.add_argument(flag, metavar="AMOUNT", help=text.replace("%", "%%"))
