"""gassip explain: the decisions of a search: what was tried, the statistic, the threshold."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gassip.commands.common import command
from gassip.commands.summary import print_table
from gassip.errors import GassipError

if TYPE_CHECKING:
    from gassip.train.plan import Decision


def add(commands: Any) -> None:
    text = "show what a search decided, what was tried and by how much"
    parser = command(commands, run, "explain", text, "gassip explain runs/cora")
    parser.add_argument("folder", metavar="RUN", help="folder that `gassip search` wrote")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    from gassip.deploy.stored import is_row_run
    from gassip.runs.format import DECISIONS, read_meta, read_rows
    from gassip.runs.read import read_decisions
    from gassip.runs.write import open_run, to_json

    folder = Path(args.folder)
    meta = read_meta(folder)
    if not is_row_run(meta):
        meta = open_run(folder).meta  # all of it is checked
    if meta["schema"] == 1:
        raise GassipError(
            f"{args.folder} has no decisions.json: an earlier version of gassip wrote it; "
            "search again to have one"
        )
    if args.json:
        print(to_json({"decisions": read_rows(folder, DECISIONS, meta)}), end="")
    else:
        print_decisions(read_decisions(folder, meta))
    return 0


def print_decisions(decisions: "Sequence[Decision]") -> None:
    """One block per stage; the row that was taken is marked."""
    from rich.table import Table

    if not decisions:
        print("decisions: none; this search compared nothing on validation")
        return
    table = Table(title="decisions on validation nodes")
    for column in ("stage", "tried"):
        table.add_column(column)
    for column in ("score", "statistic", "threshold"):
        table.add_column(column, justify="right")
    statistics: dict[str, str] = {}
    for decision in decisions:
        for row in rows(decision, statistics):
            table.add_row(*row)
        table.add_section()
    print_table(table)
    for text, mark in statistics.items():
        print(f"{mark} {text}")


def rows(decision: "Decision", statistics: dict[str, str]) -> list[tuple[str, ...]]:
    """What was taken, then what was tried; `statistics` numbers the kinds of statistic."""
    if not decision.tried:
        return [(decision.stage, f"taken: {decision.taken}", "", "", "")]
    mark = statistics.setdefault(decision.statistic, f"[{len(statistics) + 1}]")
    threshold = mark if decision.threshold is None else f"{decision.threshold:g} {mark}"
    out: list[tuple[str, ...]] = [(decision.stage, f"taken: {decision.taken}", "", "", threshold)]
    for row in decision.tried:
        score, statistic = row.get("score"), row.get("statistic")
        shown = (_number(score), _number(statistic, "+.2f"))
        new = f"; on new nodes {row['new_nodes']:.4f}" if "new_nodes" in row else ""
        out.append(("", f"  {row['name']}{new}", *shown, ""))
    return out


def _number(value: float | str | None, form: str = ".4f") -> str:
    if value is None or isinstance(value, str):
        return value or "-"
    return format(value, form)
