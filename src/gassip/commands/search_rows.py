"""gassip search --large: the search on rows of a graph folder."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gassip.budget.budget import Budget, read_amount
from gassip.commands.common import Parser, jobs_of
from gassip.commands.display import watching
from gassip.commands.flags import Screen
from gassip.commands.graphs import graph_name, load_graph
from gassip.commands.measured import Memory
from gassip.errors import GassipError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gassip.graph.store import GraphFolder
    from gassip.large.rows.job import Job
    from gassip.large.rows.search import Options
    from gassip.runs.write import Meta
    from gassip.train.deadline import Deadline
    from gassip.train.plan import Decision

LARGE_FROM = 500_000  # nodes of a graph folder from which `auto` searches on rows
WRITING = (0.02, 3.0)  # folder and page: of the time limit, and at least so many seconds
# of `best`, that count here too
SETTINGS = (
    *("size_share", "size_steps", "label_propagation", "for"),
    *("edge_shares", "edge_rankings"),
)
BUDGETS = ("max_params", "max_bytes")
PRECISIONS = ("float32", "float16", "int8")


def large_flags(parser: Parser | Any, screen: Screen) -> None:
    parser.add_argument(
        "--large",
        choices=("auto", "on", "off"),
        default="auto",
        metavar="WHEN",
        help=screen.rare(
            f"search on rows, out of memory: on, off, auto (from {LARGE_FROM:,} nodes on)"
        ),
    )
    parser.add_argument(
        "--hop-precision",
        choices=PRECISIONS,
        default=PRECISIONS[0],
        metavar="TYPE",
        help=screen.rare("of hops on disk: float32, float16, int8; the cost is printed"),
    )
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help=screen.rare("search on rows with Ray: auto, or HOST:PORT of a head"),
    )


def on_rows(args: argparse.Namespace) -> bool:
    """Whether the search is to be on rows."""
    from gassip.graph.store import is_graph_folder, read_meta

    if args.large != "auto":
        return bool(args.large == "on")
    path = Path(args.data) if args.data else None
    if path is None or not is_graph_folder(path):
        return False
    return int(read_meta(path)["nodes"]) >= LARGE_FROM


def search_on_rows(
    args: argparse.Namespace, given: dict[str, Any], budget: Budget, out: Path, partial: Path
) -> "tuple[Meta, Sequence[Decision], bool]":
    """What was written, what was decided, and whether a time limit cut the search short."""
    import torch

    from gassip.best.anytime import both
    from gassip.large.cluster import connected
    from gassip.large.rows.pace import Pace
    from gassip.large.rows.run import run_on_rows
    from gassip.large.rows.save import save
    from gassip.train.events import Steps, Watch
    from gassip.train.loggers import logging

    torch.set_num_threads(args.threads)
    graph, source = graph_folder(args, out)
    options = options_of(args, given, budget, graph)
    deadline = deadline_of(args)
    steps = Steps(search=0, stage=33 if options.teach else 27, retrain=0)
    told = {"preset": args.preset, "large": "on", "seed": args.seed}
    with (
        connected(args.cluster, jobs_of(args)) as tasks,
        watching(steps, args.quiet) as show,
        logging(args.log, out, told) as log,
    ):
        memory = Memory()
        watch = Watch(both(both(show, log), memory), steps, since=args.since, deadline=deadline)
        job = job_of(args, graph, options, out, partial)
        job = replace(job, pace=Pace(deadline), hear=watch.row, tasks=tasks)
        outcome = run_on_rows(job)
        symmetrised = outcome.edges_key.startswith("both")
        meta = save(
            out,
            outcome,
            preset=args.preset,
            source=source | {"undirected": bool(source["undirected"]) or symmetrised},
            budget=budget.given,
            overwrite=args.overwrite or args.resume,
            measured={"memory_mb": memory.by_stage},
        )
        if not args.no_report and job.pace.allows(job.pace.reading):
            from gassip.commands.search import write_page

            write_page(out, None)
        watch.done()
    return meta, outcome.decisions, outcome.found.cut


def deadline_of(args: argparse.Namespace) -> "Deadline | None":
    """The time limit without what the end of a run takes."""
    from gassip.train.deadline import Deadline, seconds_of

    if not args.time_limit:
        return None
    seconds = seconds_of(args.time_limit)
    writing = min(seconds / 2, max(WRITING[0] * seconds, WRITING[1]))
    return Deadline.after(seconds - writing, since=args.since)


def job_of(
    args: argparse.Namespace, graph: "GraphFolder", options: "Options", out: Path, partial: Path
) -> "Job":
    from gassip.large.rows.job import Job, hops_folder
    from gassip.large.rows.kept import KeptNets

    job = Job(
        graph=graph,
        hops=hops_folder(graph, out),
        options=options,
        precision=args.hop_precision,
        memory=memory_for_blocks(),
        both=args.undirected,
        seed=args.seed,
        metric=args.metric,
        threads=args.threads,
        said=lambda text: None if args.quiet else print(text, file=sys.stderr, flush=True),
    )
    return replace(job, kept=KeptNets(partial, job.identity()))


def graph_folder(args: argparse.Namespace, out: Path) -> "tuple[GraphFolder, dict[str, object]]":
    """The folder that --data names; any other graph is written as one beside the run. And how the
    graph was read, which is done to others too."""
    from gassip.graph.store import GraphFolder, is_graph_folder

    if args.normalize and args.data:
        raise GassipError("--normalize is not for a search on rows; scale x before the import")
    if args.device != "cpu":
        raise GassipError(f"a search on rows runs on the cpu, not on {args.device}; --large off")
    path, told = Path(args.data or ""), {"normalize": False, "undirected": args.undirected}
    if not args.data or not is_graph_folder(path):
        from gassip.large.writing import write_graph

        path = out.with_name(f"{out.name}.graph")
        graph, read = load_graph(args)
        write_graph(graph, path, name=graph_name(args), overwrite=True)
        told["normalize"] = bool(read["normalize"])
    folder = GraphFolder.open(path)
    where = {"kind": "file", "path": str(folder.path.resolve()), "seed": args.seed}
    return folder, where | told | {"prepared": True}


def options_of(
    args: argparse.Namespace, given: dict[str, Any], budget: Budget, graph: "GraphFolder"
) -> "Options":
    """Settings and budgets that a search on rows knows; any other is refused, not ignored."""
    from gassip.best.rules import SIZE_SHARE
    from gassip.large.rows.search import Options

    if args.preset in ("paper", "literal"):
        raise GassipError(
            f"--preset {args.preset} trains on the whole graph; --large off, or --preset best"
        )
    if odd := sorted(set(given) - set(SETTINGS)):
        flag = odd[0].replace("_", "-")
        raise GassipError(f"--{flag} is not for a search on rows; --large off uses it")
    if odd := sorted(set(budget.given) - set(BUDGETS)):
        flag = odd[0].replace("_", "-")
        raise GassipError(f"--{flag} is not for a search on rows; give --max-params")
    shares = (given.get("size_share", float(SIZE_SHARE)), *given.get("size_steps", (1.0, 3.0)))
    return Options(
        sizes=tuple(float(share) for share in shares),
        most_weights=most_weights(budget, graph),
        teach=args.preset != "fast",
        label_propagation=bool(given.get("label_propagation", True)),
        serves=str(given.get("for", "any")),
        **cuts_of(given),
    )


def cuts_of(given: dict[str, Any]) -> dict[str, Any]:
    """--edge-shares and --edge-rankings, checked as those of `best`; shares of 1 are no cut."""
    from gassip.settings.best import EdgeCut

    named = {name: given[name] for name in ("edge_shares", "edge_rankings") if name in given}
    if "edge_rankings" in named and "edge_shares" not in named:
        raise GassipError("--edge-rankings is for --edge-shares in a search on rows; give both")
    cut = EdgeCut(**named)
    shares = tuple(share for share in cut.edge_shares if share < 1) if named else ()
    return {"edge_shares": shares, "edge_rankings": cut.edge_rankings}


def most_weights(budget: Budget, graph: "GraphFolder") -> float:
    """Weights within the budget; a byte more than four each for masks and headers."""
    from gassip.operations import gcn_weights

    gcn = gcn_weights(int(graph.meta["features"]), len(graph.class_names))
    bounds = [float("inf")]
    if (amount := read_amount("max_params", budget.max_params)) is not None:
        bounds.append(amount[0] * gcn if amount[1] else amount[0])
    if (amount := read_amount("max_bytes", budget.max_bytes)) is not None:
        size = amount[0] * (4 * gcn) if amount[1] else amount[0]
        bounds.append((size - 1500) / 5)
    least = 40 * len(graph.class_names)
    if min(bounds) < least:
        raise GassipError(f"the budget leaves {max(0, min(bounds)):,.0f} weights; give {least:,}")
    return min(bounds)


def memory_for_blocks() -> int:
    """A quarter of the machine's; 2 GiB where the system does not tell."""
    import os

    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    except (AttributeError, ValueError, OSError):
        return 2**31
