"""gassip leaderboard: every net that a search has trained, best on validation first."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gassip.commands.common import command
from gassip.commands.summary import number, print_table
from gassip.errors import GassipError

if TYPE_CHECKING:
    from gassip.train.leaderboard import Standing


def add(commands: Any) -> None:
    text = "list every net that a search trained: score, size, time; the one taken, and why"
    parser = command(commands, run, "leaderboard", text, "gassip leaderboard runs/cora")
    parser.add_argument("folder", metavar="RUN", help="folder that `gassip search` wrote")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    from gassip.runs.format import read_meta
    from gassip.runs.read import read_leaderboard
    from gassip.runs.write import to_json
    from gassip.train.leaderboard import to_rows

    folder = Path(args.folder)
    board = read_leaderboard(folder, meta := read_meta(folder))
    if not board:
        raise GassipError(
            f"{args.folder} has no leaderboard.json: an earlier version of gassip wrote it, or "
            "another command; search again to have one"
        )
    if args.json:
        print(to_json({"leaderboard": to_rows(board)}), end="")
    else:
        print_board(f"{meta.get('dataset')}: nets by validation {meta.get('metric')}", board)
    return 0


def print_board(title: str, board: "Sequence[Standing]") -> None:
    """One row per net; the one taken is marked, its reason stands below."""
    from rich.table import Table

    table = Table(title=title, box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("net")
    table.add_column("architecture", min_width=14)
    for column in ("val", "weights", "edges", "MACs", "ms", "s"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in board:
        counts = (_count(row.weights), _count(row.edges), _millions(row.macs))
        times = (_short(row.ms), _short(row.seconds))
        mark = "*" if row.taken else ""
        table.add_row(
            mark, row.name, brief(row.architecture), number(row.val_score), *counts, *times
        )
    print_table(table)
    for row in board:
        if row.taken:
            print(f"* taken: {row.name}, {row.reason}")


def brief(architecture: str) -> str:
    """GCNConv ‖ APPNP5 as GCN‖APPNP5, so that a row fits 80 columns."""
    return architecture.replace("Conv", "").replace(" ‖ ", "‖")


def _millions(value: int | None) -> str:
    return "-" if value is None else f"{value / 1e6:.2f}M"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
