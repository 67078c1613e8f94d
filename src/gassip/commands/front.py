"""gassip front: accuracy against size from one search, with small dense GCNs beside it.

One search ranks features and hidden units; each budget keeps the highest of them (gassip.budget),
so every net lies inside the next larger one. Each is retrained with several seeds, as are GCNs of
several widths: the same epochs, rates and decay, and for both the dropout, of two, that validates
better. Test scores choose nothing. Of each budget the net that validates best is kept as a run.
"""

import argparse
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from gassip.commands.clustered import cluster_flag
from gassip.commands.common import Parser, command, machine_flags, set_threads, whole
from gassip.commands.edge_front import edge_front, edges_svg, show_edges
from gassip.commands.flags import (
    Screen,
    given_settings,
    help_flags,
    preset_flags,
    setting_flags,
    show_help,
)
from gassip.commands.front_views import show, to_svg, told_score
from gassip.commands.graphs import SPLIT, graph_flags, graph_name, load_graph, say_which_graph
from gassip.commands.summary import progress
from gassip.errors import GassipError

if TYPE_CHECKING:
    from gassip.graph.graph import Graph
    from gassip.settings import Settings
    from gassip.train.plan import Plan, Solution

SHARES = (50.0, 25.0, 12.0, 6.0, 3.0)  # % of the parameters of a GCN with 64 hidden units
WIDTHS = (4, 8, 16, 32, 64)
Point = dict[str, float | int | str | None]
NETS = "nets"  # folder of the runs of a front


class Kept(NamedTuple):
    """The net of one budget, as something to deploy."""

    share: float
    plan: "Plan"
    solution: "Solution"
    seed: int


ABOUT = (
    "accuracy against size: nested nets from one search, and GCNs",
    "gassip front --dataset cora --seed 1 --out runs/cora-front",
)
SCREEN = Screen(
    preset="best",
    changes={"weight_groups": "unit"},  # nested nets need a score per unit
    reads=("retrain_dropout", "retrain_weight_decay"),  # in the training of the GCNs
)


def add(commands: Any) -> None:
    parser = command(commands, run, "front", *ABOUT, add_help=False)
    add_flags(parser, SCREEN)


def add_flags(parser: Parser, screen: Screen) -> None:
    graph_flags(parser.add_argument_group("graph and seed"), screen.rare(SPLIT))
    preset_flags(parser.add_argument_group("method"), screen)
    output = parser.add_argument_group("points, output and machine")
    point_flags(output)
    machine_flags(output)
    help_flags(output)
    setting_flags(parser, screen)


def point_flags(parser: Any) -> None:
    parser.add_argument(
        "--retrains", type=whole(1), default=3, metavar="N", help="seeds of each point (default 3)"
    )
    usual = ",".join(f"{share:g}" for share in SHARES)
    parser.add_argument(
        "--shares",
        type=shares,
        default=SHARES,
        metavar="A,B,...",
        help=f"sizes in %% of the weights of a GCN with 64 hidden units (default {usual})",
    )
    parser.add_argument(
        "--edges",
        action="store_true",
        help="accuracy against edges kept instead: M_G, random, by degree, by agreement",
    )
    parser.add_argument("--out", metavar="DIR", help="default runs/<name>-front-seed<N>")
    parser.add_argument("--overwrite", action="store_true", help="replace the front in DIR")
    cluster_flag(parser)


def shares(text: str) -> tuple[float, ...]:
    """Reads `50,25,12`."""
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or not all(0 < value < float("inf") for value in values):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of shares above 0 such as 50,25,12"
        )
    return tuple(sorted(values, reverse=True))


def run(args: argparse.Namespace) -> int:
    from gassip.runs import write as artefact
    from gassip.runs.format import csv_text

    if args.screen:
        return show_help(args, "front", ABOUT, add_flags, SCREEN)
    screen = replace(SCREEN, changes={}) if args.edges else SCREEN  # one net, not nested ones
    given = given_settings(args, screen)
    say_which_graph(args)
    out = Path(args.out or f"runs/{graph_name(args)}-front-seed{args.seed}")
    if out.exists() and not (args.overwrite and (out / "front.json").is_file()):
        raise GassipError(
            f"{out} exists; choose another --out, or --overwrite to replace a front there"
        )
    set_threads(args.threads)
    graph, source = load_graph(args)
    nets: list[Kept] = []
    points = edge_front(graph, given, args) if args.edges else front(graph, given, args, nets)
    record = {"dataset": graph.name, "source": source, "seed": args.seed, "metric": args.metric}
    record |= {"retrains": args.retrains, "points": points, "versions": artefact.versions()}
    out.mkdir(parents=True, exist_ok=True)
    artefact.replace_file(out / "front.csv", csv_text(list(points[0]), points).encode())
    draw = edges_svg if args.edges else to_svg
    artefact.replace_file(out / "front.svg", draw(points, graph.name, args.metric))
    write_nets(out / NETS, nets, graph, source, args)
    artefact.replace_file(out / "front.json", artefact.to_json(record).encode())
    if args.json:
        print(artefact.to_json(record), end="")
    else:
        tabulate = show_edges if args.edges else show
        tabulate(points, f"{graph.name}, seed {args.seed}, {args.retrains} retrainings each")
        kept = f", {NETS}/ with a run of each size" if nets else ""
        print(f"written to {out}: front.json, front.csv, front.svg{kept}")
    return 0


def write_nets(
    folder: Path,
    nets: Sequence[Kept],
    graph: "Graph",
    source: dict[str, object],
    args: argparse.Namespace,
) -> None:
    """A run for each size, in place of those of an earlier front."""
    from gassip.runs import write as artefact

    shutil.rmtree(folder, ignore_errors=True)
    for net in nets:
        artefact.save(
            folder / f"{net.share:g}",
            graph,
            net.plan,
            net.solution,
            seed=net.seed,
            metric=args.metric,
            preset=args.preset,
            source=source,
            budget={"max_params": f"{net.share:g}%"},
        )


def front(
    graph: "Graph", given: dict[str, Any], args: argparse.Namespace, nets: list[Kept]
) -> list[Point]:
    """The points, the largest net first; the GCNs after them. The nets found go into `nets`."""
    from gassip.best.pipeline import search
    from gassip.best.steps import num_rows
    from gassip.large.cluster import connected
    from gassip.settings import preset

    settings = preset(args.preset, graph, given)
    wanted = possible(graph, settings, args.shares)
    with progress("search", num_rows(settings), args.quiet) as show_epoch:
        plan = search(graph, settings, seed=args.seed, metric=args.metric, on_epoch=show_epoch)
    items = [("found", share) for share in wanted] + [("gcn", width) for width in WIDTHS]
    shared = (graph, plan, settings, asked_of(args))
    with connected(args.cluster) as tasks:
        found = tasks.map(
            point_task, shared, items, lambda at, made: _tell(made, items[at][1], args.quiet)
        )
    nets += [made[1] for made in found if not isinstance(made, str) and made[1] is not None]
    return [made[0] for made in found if not isinstance(made, str)]


def asked_of(args: argparse.Namespace) -> argparse.Namespace:
    """What the trainings of a point read of the command line."""
    names = ("seed", "retrains", "metric", "threads")
    return argparse.Namespace(**{name: vars(args)[name] for name in names})


def point_task(
    shared: "tuple[Graph, Plan, Settings, argparse.Namespace]", kind: str, size: float
) -> "tuple[Point, Kept | None] | str":
    """One point, here or on a worker; or why the architecture that was found cannot be so small,
    though others can."""
    graph, plan, settings, asked = shared
    set_threads(asked.threads)
    if kind == "gcn":
        return gcn_point(plan.on(graph, all_edges=True), settings, int(size), asked), None
    try:
        return found_point(graph, plan, size, asked)
    except GassipError as error:
        return str(error)


def possible(graph: "Graph", settings: "Settings", wanted: Sequence[float]) -> Sequence[float]:
    """The shares, all of which some architecture can keep; refused before the search otherwise."""
    from gassip.budget.budget import Budget
    from gassip.budget.fit import check_possible

    for share in wanted:
        check_possible(graph, settings, Budget(max_params=f"{share:g}%"))
    return wanted


def found_point(
    graph: "Graph", plan: "Plan", share: float, args: argparse.Namespace
) -> tuple[Point, Kept]:
    """A plan at one budget, retrained, and the retraining that validates best."""
    from gassip.budget.budget import Budget
    from gassip.budget.fit import fit_budget
    from gassip.train.shrink import shrink
    from gassip.train.trainer import retrain

    cut = fit_budget(graph, plan, Budget(max_params=f"{share:g}%"))

    def train(dropout: float, seed: int) -> "Solution":
        recipe = replace(cut.recipe, dropout=dropout)
        trained = replace(cut, recipe=recipe)
        return shrink(retrain(graph, trained, seed=seed, metric=args.metric))

    best, dropout = by_validation(train, cut.recipe.dropout, args)
    hidden, features = ",".join(map(str, cut.architecture.hidden)), cut.weight_keep[0].shape[0]
    sizes: Point = {"hidden": hidden, "features": features, "dropout": dropout}
    scores = [solution.scores.get(args.metric, {}).get("val", 0.0) for solution in best]
    at = scores.index(max(scores))
    trained = replace(cut, recipe=replace(cut.recipe, dropout=dropout))
    row = point(f"{share:g}% {cut.architecture}", "found", best, args.metric) | sizes
    return row, Kept(share, trained, best[at], args.seed + at)


def gcn_point(graph: "Graph", settings: "Settings", hidden: int, args: argparse.Namespace) -> Point:
    """A dense GCN on the whole graph, trained alike; by the paper's settings where the rate of the
    nets falls, which a GCN's does not."""
    from gassip.baselines.gcn import Gcn
    from gassip.settings.training import Retraining
    from gassip.train.context import RunContext

    given = settings.retraining
    recipe = given if given.schedule == "constant" else Retraining(dropout=given.dropout)

    def train(dropout: float, seed: int) -> "Solution":
        method = Gcn(
            hidden=hidden,
            dropout=dropout,
            batch_norm=settings.search.batch_norm,
            epochs=recipe.epochs,
            lr=recipe.lr,
            weight_decay=recipe.weight_decay,
        )
        return method.solve(graph, RunContext(seed, args.metric))

    best, dropout = by_validation(train, given.dropout, args)
    sizes: Point = {"hidden": str(hidden), "features": graph.num_features, "dropout": dropout}
    return point(f"GCN-{hidden}", "gcn", best, args.metric) | sizes


def by_validation(
    train: "Callable[[float, int], Solution]", usual: float, args: argparse.Namespace
) -> "tuple[list[Solution], float]":
    """The retrainings at the dropout, of .5 and the usual one, whose mean validation score is
    higher."""
    seeds = range(args.seed, args.seed + args.retrains)
    tried = {p: [train(p, seed) for seed in seeds] for p in dict.fromkeys((usual, 0.5))}
    best = max(
        tried, key=lambda p: fmean(s.scores.get(args.metric, {}).get("val", 0.0) for s in tried[p])
    )
    return tried[best], best


def point(label: str, kind: str, solutions: "list[Solution]", metric: str) -> Point:
    """Mean and deviation on validation and test; the largest size among the retrainings."""
    row: Point = {"net": label, "kind": kind}
    for name in ("params", "bytes", "edges", "macs"):
        row[name] = max(int(getattr(s.size, name)) for s in solutions)
    for split in ("val", "test"):
        values = [s.scores[metric][split] for s in solutions if split in s.scores.get(metric, {})]
        row[split] = fmean(values) if values else None
        row[f"{split}_std"] = stdev(values) if len(values) > 1 else None
    return row


def _tell(made: tuple[Point, Kept | None] | str, size: float, quiet: bool) -> None:
    if isinstance(made, str):
        print(f"gassip: {size:g}% is left out: {made}", file=sys.stderr)
    elif not quiet:
        row = made[0]
        print(
            f"{row['net']}: {row['params']:,} weights, val {told_score(row, 'val')}",
            file=sys.stderr,
            flush=True,
        )
