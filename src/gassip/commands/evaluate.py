"""gassip evaluate: retrain a run, or search anew, with other seeds; mean and deviation."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from gassip.commands.clustered import cluster_flag
from gassip.commands.common import command, machine_flags, set_threads, whole
from gassip.commands.graphs import training_graph
from gassip.commands.summary import number, print_table, progress

if TYPE_CHECKING:
    from gassip.graph.graph import Graph
    from gassip.runs.write import Run
    from gassip.train.plan import Plan, Solution


def add(commands: Any) -> None:
    example = "gassip evaluate runs/cora --seeds 10"
    parser = command(
        commands, run, "evaluate", "retrain a run with other seeds: mean and deviation", example
    )
    parser.add_argument("folder", metavar="RUN", help="folder that `gassip search` wrote")
    parser.add_argument(
        "--seeds",
        type=whole(1),
        required=True,
        metavar="N",
        help="retrainings of each search, with as many seeds",
    )
    parser.add_argument(
        "--searches",
        type=whole(1),
        default=1,
        metavar="S",
        help="searches; the first is that of the run (default 1)",
    )
    cluster_flag(parser)
    machine_flags(parser)


def run(args: argparse.Namespace) -> int:
    from gassip.deploy.stored import is_row_run
    from gassip.runs import write as artefact
    from gassip.runs.format import read_meta

    set_threads(args.threads)
    folder = Path(args.folder)
    on_rows = is_row_run(read_meta(folder))
    result = _rows_result(folder, args) if on_rows else _graph_result(folder, args)
    artefact.replace_file(folder / "evaluate.json", artefact.to_json(result).encode())
    if args.json:
        print(artefact.to_json(result), end="")
    else:
        _evaluate_table(result, folder / "evaluate.json")
    return 0


def _graph_result(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    from gassip.large.cluster import connected
    from gassip.runs.write import open_run

    made = open_run(folder)
    quiet = args.quiet or args.cluster is not None
    shared = (folder.resolve(), args.device, args.seeds, args.threads, quiet)
    with connected(args.cluster) as tasks:
        found = tasks.map(search_task, shared, [(s,) for s in range(args.searches)])
    return _result(
        made.meta,
        [row[0] for row in found],
        architectures=[row[1] for row in found],
        weights_kept=[row[2] for row in found],
        edges_kept=[row[3] for row in found],
    )


def search_task(
    shared: tuple[Path, str, int, int, bool], number: int
) -> tuple[list[dict[str, dict[str, float]]], list[str], int, int]:
    """The run's search (number 0) or another one, and its retrainings, here or on a worker:
    scores, operations, weights and edges."""
    from gassip.runs.write import open_run

    folder, device, seeds, threads, quiet = shared
    set_threads(threads)
    made = open_run(folder)
    graph = training_graph(made, device)
    if number:
        plan = _search_again(made, graph, made.meta["seed"] + number, quiet)
    else:
        plan = _on_device(made.plan, device)
    solutions = _retrain_all(made, graph, plan, seeds, quiet)
    first = solutions[0]
    scores = [solution.scores for solution in solutions]
    return scores, list(plan.architecture.ops), first.weights_kept, first.edges_kept


def _rows_result(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Of a search on rows."""
    from gassip.large.cluster import connected
    from gassip.large.rows.retrain import evaluated
    from gassip.runs.format import read_meta

    total = args.seeds * args.searches
    with (
        connected(args.cluster) as tasks,
        progress(f"retrain × {total}", total, args.quiet) as show,
    ):
        scores, architectures, weights, edges = evaluated(
            folder.resolve(),
            seeds=args.seeds,
            searches=args.searches,
            threads=args.threads,
            tasks=tasks,
            hear=show,
        )
    about = {"architectures": architectures, "weights_kept": weights, "edges_kept": edges}
    return _result(read_meta(folder), scores, **about)


def _search_again(run: "Run", graph: "Graph", seed: int, quiet: bool) -> "Plan":
    from gassip.best.steps import num_rows
    from gassip.budget.budget import Budget
    from gassip.budget.candidates import choose, search_within
    from gassip.budget.fit import fit_budget

    settings = run.plan.settings
    budget, metric = Budget(**run.meta["budget"]), run.meta["metric"]
    with progress(f"search, seed {seed}", num_rows(settings), quiet) as show:
        plans = search_within(graph, settings, budget, seed=seed, metric=metric, on_epoch=show)
    plan = choose(graph, plans, budget, seed=seed, metric=metric)
    return fit_budget(graph, plan, budget) if budget else plan


def _retrain_all(
    run: "Run", graph: "Graph", plan: "Plan", count: int, quiet: bool
) -> "list[Solution]":
    from gassip.train.batched import retrain_many

    seeds = [run.meta["seed"] + r for r in range(count)]
    with progress(f"retrain × {count}", plan.recipe.epochs, quiet) as show:
        return retrain_many(graph, plan, seeds=seeds, metric=run.meta["metric"], on_epoch=show)


def _on_device(plan: "Plan", device: str) -> "Plan":
    from dataclasses import replace

    teacher = None if plan.teacher is None else plan.teacher.to(device)
    keep, mask = plan.edge_keep.to(device), plan.edge_mask.to(device)
    return replace(plan, edge_keep=keep, edge_mask=mask, teacher=teacher)


def _result(
    meta: Mapping[str, Any], found: list[list[dict[str, dict[str, float]]]], **about: object
) -> dict[str, Any]:
    """evaluate.json: per metric and split, mean and deviations over [searches][retrainings]."""
    first, seed = found[0][0], meta["seed"]
    scores: dict[str, dict[str, Any]] = {metric: {} for metric in first}
    for metric, splits in first.items():
        for split in splits:
            scores[metric][split] = spread(
                [[scores[metric][split] for scores in row] for row in found]
            )
    return {
        "dataset": meta["dataset"],
        "metric": meta["metric"],
        "search_seeds": [seed + s for s in range(len(found))],
        "retrain_seeds": [seed + r for r in range(len(found[0]))],
        **about,
        "scores": scores,
    }


def spread(values: list[list[float]]) -> dict[str, Any]:
    """Mean; deviation over all; over the searches' means; over retrainings within a search (null
    for one)."""
    means = [fmean(row) for row in values]
    within = [stdev(row) for row in values] if len(values[0]) > 1 else []
    flat = [value for row in values for value in row]
    return {
        "mean": fmean(flat),
        "std": stdev(flat) if len(flat) > 1 else None,
        "std_searches": stdev(means) if len(means) > 1 else None,
        "std_retrains": fmean(within) if within else None,
        "values": values,
    }


def _evaluate_table(result: dict[str, Any], written: Path) -> None:
    from rich.table import Table

    searches, retrains = len(result["search_seeds"]), len(result["retrain_seeds"])
    table = Table(title=f"{result['dataset']}: {searches} × search, {retrains} × retrain")
    columns = ["metric", "split", "mean ± deviation"]
    if searches > 1:
        columns += ["over searches", "over retrainings"]
    for column in columns:
        table.add_column(column)
    for metric, splits in result["scores"].items():
        for split, figures in splits.items():
            row = [metric, split, f"{figures['mean']:.4f} ± {number(figures['std'])}"]
            if searches > 1:
                row += [number(figures["std_searches"]), number(figures["std_retrains"])]
            table.add_row(*row)
    print_table(table)
    print("architectures: " + ", ".join(" ‖ ".join(ops) for ops in result["architectures"]))
    print(f"written to {written}")
