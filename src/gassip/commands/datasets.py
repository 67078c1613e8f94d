"""gassip datasets: the datasets known by name, and whether their files are here."""

import argparse
import json
from typing import Any

from gassip.commands.common import command


def add(commands: Any) -> None:
    parser = command(
        commands, run, "datasets", "list the datasets known by name", "gassip datasets --json"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    from gassip.graph.datasets import DATASETS, available

    known: list[dict[str, Any]] = []
    for name, entry in DATASETS.items():
        sizes = {
            "nodes": entry.nodes,
            "edges": entry.edges,
            "features": entry.features,
            "classes": entry.classes,
        }
        where = "here" if available(name) else "download" if entry.fetch else "not here"
        about = f"{entry.description}; split {entry.split}"
        known.append({"name": name, "available": where, **sizes, "about": about})
    if args.json:
        print(json.dumps({"datasets": known}))
        return 0
    print(f"{'name':16}{'files':10}{'nodes':>8}{'edges':>11}{'features':>10}{'classes':>9}")
    for own in known:
        numbers = "{nodes:>8,}{edges:>11,}{features:>10,}{classes:>9}".format(**own)
        print(f"{own['name']:16}{own['available']:10}{numbers}\n    {own['about']}")
    print(
        "here: found under $GASSIP_DATA, in the cache or in the package; download: fetched when first used"
    )
    return 0
