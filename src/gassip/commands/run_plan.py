"""What `gassip run` and `gassip tune` share: flags of method and graph, and the runs asked for."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gassip.commands.common import METRICS, Parser, set_threads, whole
from gassip.commands.graphs import EMBEDDED, say_which_graph, source_flags
from gassip.errors import GassipError

if TYPE_CHECKING:
    from gassip.bench.records import Run
    from gassip.graph.graph import Graph


DIRECTIONS = ("auto", "given", "both")


def what_flags(parser: Parser) -> None:
    """The graph, and what validation judges by."""
    source_flags(parser)
    parser.add_argument(
        "--split-seed",
        type=whole(0),
        default=0,
        metavar="N",
        help="of the split where one is drawn",
    )
    parser.add_argument(
        "--direction",
        choices=DIRECTIONS,
        help="of edges: given, both, auto: by validation, as a search does (default: auto for "
        "--data, given for --dataset)",
    )
    parser.add_argument(
        "--metric", choices=METRICS, default="accuracy", help="what validation judges by"
    )


def pin_threads(args: argparse.Namespace) -> None:
    """--threads; the processes of --jobs have one each."""
    set_threads(args.threads)


def named(args: argparse.Namespace) -> str:
    """The methods that were asked for, as texts name them."""
    return ", ".join(args.methods)


def plan(args: argparse.Namespace) -> "tuple[list[Run], Graph, tuple[str, ...]]":
    """The runs that are asked for, their graph, and which methods have tuned settings."""
    from gassip.bench.asked import method_for, seeded
    from gassip.bench.execute import graph_of
    from gassip.methods import entry
    from gassip.runs.write import inputs_fingerprint

    for name in args.methods:
        entry(name)  # a mistyped name is told before the graph is read
    first = bare(args)
    first, graph = directed(first, graph_of(first, args.data), args)
    inputs = inputs_fingerprint(graph) if args.data else None
    first = replace(first, fingerprint=graph.fingerprint if args.data else None)
    asked = {"seed": args.seed, "searches": args.searches, "trainings": args.seeds}
    runs, all_tuned = [], []
    for name in dict.fromkeys(args.methods):
        named = replace(first, method=name)
        method, tuned = method_for(
            named, graph, _given(args.set), untuned=args.untuned, inputs=inputs
        )
        runs += seeded(named, method, **asked)
        all_tuned += [name] if tuned else []
    say_which_graph(args)
    return runs, graph, tuple(all_tuned)


def bare(args: argparse.Namespace) -> "Run":
    """The run without its settings and seeds, of the first method."""
    from gassip.bench.records import Run

    drawn = bool(args.noise) or (args.attack or "").startswith("prbcd")
    return Run(
        method=args.methods[0],
        settings={},
        dataset=Path(args.data).resolve().stem if args.data else args.dataset or EMBEDDED,
        split_seed=args.split_seed,
        undirected=args.undirected,
        normalize=args.normalize,
        noise=args.noise,
        noise_seed=args.noise_seed if drawn else 0,
        attack=args.attack,
        metric=args.metric,
    )


def directed(run: "Run", graph: "Graph", args: argparse.Namespace) -> "tuple[Run, Graph]":
    """The run with its edges read as a search would read them: both ways if that raises the
    validation log-likelihood."""
    from gassip.bench.execute import graph_of
    from gassip.best.direction import choose_direction

    direction = args.direction or ("auto" if args.data else "given")
    both = not run.undirected and choose_direction(graph, direction, run.metric).value
    if not both:
        return run, graph
    if direction == "auto" and not args.quiet:
        what = "edges are read both ways, which validation prefers"
        print(f"gassip: {what} (--direction given leaves them)", file=sys.stderr)
    run = replace(run, undirected=True)
    return run, graph_of(run, args.data)


def _given(words: Sequence[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    for name, sign, _ in pairs:
        if not name or not sign:
            raise GassipError(
                f"--set {name!r} is not of the form NAME=VALUE, such as --set hidden=64"
            )
    return {name.replace("-", "_"): text for name, _, text in pairs}
