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

    if args.json:
        known = [
            {
                "name": name,
                "family": entry.family,
                "about": entry.summary,
                "reference": entry.reference,
            }
            for name, entry in METHODS.items()
        ]
        print(json.dumps({"methods": known}, ensure_ascii=False))
        return 0
    for family in dict.fromkeys(entry.family for entry in METHODS.values()):
        print(f"{family}:")
        for name, entry in METHODS.items():
            if entry.family == family:
                reference = "" if entry.reference == "–" else f" ({entry.reference})"
                print(f"  {name:22}{entry.summary}{reference}")
    return 0
