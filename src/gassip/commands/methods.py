"""gassip methods: the methods known by name."""

import argparse
import json
from typing import Any

from gassip.commands.common import command


def add(commands: Any) -> None:
    parser = command(
        commands, run, "methods", "list the methods known by name", "gassip methods --json"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    from gassip.methods import METHODS

    known = [
        {"name": name, "family": own.family, "about": own.summary, "reference": own.reference}
        for name, own in METHODS.items()
    ]
    if args.json:
        print(json.dumps({"methods": known}, ensure_ascii=False))
        return 0
    family = None
    for line in known:
        if line["family"] != family:
            family = line["family"]
            print(f"{family}:")
        print(f"  {line['name']:22}{line['about']} ({line['reference']})")
    return 0
