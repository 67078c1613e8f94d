"""gassip make: a synthetic graph whose best possible accuracy is known."""

import argparse
from pathlib import Path
from typing import Any

from gassip.commands.common import command, whole

ABOUT = (
    "draw a contextual stochastic block model with its best possible accuracy",
    "gassip make csbm --nodes 100000 --out csbm.graph",
)


def add(commands: Any) -> None:
    from gassip.large.parameters import PARAMETERS

    parser = command(commands, run, "make", *ABOUT)
    text = "csbm: contextual stochastic block model"
    parser.add_argument("kind", choices=("csbm",), metavar="KIND", help=text)
    text = "number of nodes (default %(default)s)"
    parser.add_argument("--nodes", type=whole(100), default=10_000, metavar="N", help=text)
    for name, (kind, default, text) in PARAMETERS.items():
        shown = f"{text} (default {default})"
        parser.add_argument(f"--{name}", type=kind, default=default, metavar="X", help=shown)
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N", help="seed (default 0)")
    parser.add_argument("--out", metavar="DIR", required=True, help="graph folder")
    parser.add_argument("--overwrite", action="store_true", help="replace the folder in DIR")


def run(args: argparse.Namespace) -> int:
    from gassip.large.block_model import best_accuracy, draw, model_of
    from gassip.large.parameters import PARAMETERS
    from gassip.large.writing import write_block_model

    given = {name: vars(args)[name] for name in PARAMETERS}
    model = model_of(args.nodes, args.seed, given)
    drawn = draw(model)
    best = best_accuracy(model, drawn)
    write_block_model(model, drawn, best, Path(args.out), overwrite=args.overwrite)
    print(
        f"written to {args.out}: {model.nodes:,} nodes, {2 * len(drawn.pairs):,} edges\n"
        f"best possible accuracy on test nodes: {best:.4f} (belief propagation, true parameters)\n"
        f"next: gassip search --data {args.out}"
    )
    return 0
