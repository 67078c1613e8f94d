"""What `gassip predict` and `python -m gassip.runtime` share: flags for added nodes, requests as
JSON, and where the labels go."""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gassip.errors import GassipError, refuse_special
from gassip.runs.output import check_file, replace_file

STDOUT = "-"


def new_node_flags(parser: Any) -> None:
    parser.add_argument(
        "--add",
        nargs=2,
        metavar=("NODES", "EDGES"),
        help="nodes.csv and edges.csv (or .parquet) of new nodes, by ids: label these",
    )
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="new nodes as JSON, one a line (- is stdin); answers are JSON lines",
    )


def check_flags(args: argparse.Namespace) -> None:
    """One source of nodes; a place for what is written."""
    given = [f"--{name}" for name in ("data", "add", "json") if getattr(args, name) is not None]
    if len(given) > 1:
        raise GassipError(f"{given[0]} and {given[1]} do not go together; give one of them")
    if args.out is None and args.json is None:
        raise GassipError("--out FILE is missing; - is stdout")
    if args.out not in (None, STDOUT):
        check_file(Path(args.out), args.overwrite)


def tell(text: str, out: str) -> None:
    """To the file, all or nothing, or to stdout."""
    if out == STDOUT:
        print(text, end="")
        return
    replace_file(Path(out), text.encode())
    print(f"written to {out}: {len(text.splitlines()) - 1} nodes")


def label_added(args: argparse.Namespace) -> int:
    """--add."""
    from gassip.commands.common import warn
    from gassip.deploy.added import labels_of_added

    text, lines = labels_of_added(Path(args.folder), *args.add)
    for line in lines:
        warn(line)
    tell(text, args.out)
    return 0


def answer_requests(args: argparse.Namespace) -> int:
    """--json: an answer as soon as it is known; status 2 if a request was refused."""
    from gassip.deploy.added import answers, load_labeller

    model = load_labeller(Path(args.folder))
    if args.json == STDOUT:
        return _answer(answers(model, sys.stdin), args.out)
    refuse_special(Path(args.json))
    with Path(args.json).open(encoding="utf-8") as file:
        return _answer(answers(model, file), args.out)


def _answer(found: Iterable[dict[str, Any]], out: str | None) -> int:
    errors, lines = list[str](), list[str]()
    try:
        for one in found:
            errors += one.get("error", [])[:1]
            lines.append(json.dumps(one))
            if out in (None, STDOUT):
                print(lines[-1], flush=True)
    except UnicodeDecodeError as error:
        raise GassipError(f"the requests are not UTF-8 text ({error.reason})") from error
    if not lines:
        raise GassipError("no request was given; a request is a JSON object")
    if out not in (None, STDOUT) and out:
        replace_file(Path(out), ("\n".join(lines) + "\n").encode())
        print(f"written to {out}: {len(lines)} answers")
    if errors:
        first = errors[0]
        raise GassipError(f"{len(errors)} of {len(lines)} requests refused; the first: {first}")
    return 0
