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
    from gassip.graph.known_datasets import DATASETS

    known = [described(name) for name in DATASETS]
    if args.json:
        print(json.dumps({"datasets": known}))
        return 0
    print(f"{'name':18}{'files':10}{'nodes':>8}{'edges':>11}{'features':>10}{'classes':>9}")
    for dataset in known:
        numbers = "{nodes:>8,}{edges:>11,}{features:>10,}{classes:>9}".format(**dataset)
        print(f"{dataset['name']:18}{dataset['available']:10}{numbers}\n    {dataset['about']}")
    print(
        "here: found under $GASSIP_DATA, in the cache or in the package; "
        "download: fetched when first used"
    )
    return 0


def described(name: str) -> dict[str, Any]:
    """One line of the list."""
    from gassip.graph.known_datasets import DATASETS

    dataset = DATASETS[name]
    return {
        "name": name,
        "available": whereabouts(name),
        "nodes": dataset.nodes,
        "edges": dataset.edges,
        "features": dataset.features,
        "classes": dataset.classes,
        "about": f"{dataset.description}; split {dataset.split}",
    }


def whereabouts(name: str) -> str:
    from gassip.graph.datasets import available
    from gassip.graph.known_datasets import DATASETS

    if available(name):
        return "here"
    return "download" if DATASETS[name].fetch else "not here"
