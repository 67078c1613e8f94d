"""gassip tune: choose a method's width and dropout by validation score, and keep the choice."""

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from gassip.commands.common import command, machine_flags, whole
from gassip.commands.run_plan import pin_threads, plan, what_flags
from gassip.commands.summary import print_table, progress
from gassip.errors import GassipError


def add(commands: Any) -> None:
    example = "gassip tune gcn --dataset cora"
    parser = command(
        commands,
        run,
        "tune",
        "choose a method's hidden width and dropout on validation nodes",
        example,
    )
    parser.add_argument("method", metavar="METHOD", help="one of `gassip methods`")
    what_flags(parser)
    parser.add_argument(
        "--seeds",
        type=whole(1),
        default=3,
        metavar="R",
        help="trainings of each setting (default 3)",
    )
    parser.add_argument(
        "--seed", type=whole(0), default=0, metavar="N", help="the first of them (default 0)"
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="default: tuned.json in the current folder, which `gassip run` reads",
    )
    machine_flags(parser)
    usual: dict[str, Any] = {
        "searches": 1,
        "noise": 0,
        "noise_seed": 0,
        "attack": None,
        "untuned": True,
        "set": [],
        "jobs": 1,
    }
    parser.set_defaults(**usual)


def run(args: argparse.Namespace) -> int:
    from gassip.bench import tuned
    from gassip.bench.execute import method_of, solve_part, to_parts
    from gassip.graph.graph import SPLITS
    from gassip.runs import write as artefact

    pin_threads(args)
    args.methods = [args.method]
    runs, graph, _ = plan(args)
    hidden_test = replace(graph, test_mask=graph.test_mask & False)  # nobody here can look at it
    combinations = tuned.grid(method_of(runs[0], graph))
    if not combinations[0]:
        raise GassipError(f"{args.method} has neither hidden nor dropout; there is nothing to tune")
    scores: dict[int, list[float]] = {}
    with progress(f"tune {args.method}", len(combinations), args.quiet) as show:
        for at, settings in enumerate(combinations):
            tried = [replace(r, settings=r.settings | settings, search_seed=None) for r in runs]
            parts = to_parts(tried, hidden_test)
            solved = [s for part in parts for s in solve_part(part, hidden_test, None, None)]
            scores[at] = [solution.scores[args.metric][SPLITS[1]] for solution in solved]
            show({"epoch": at + 1, "val_score": fmean(scores[at])})
    chosen = tuned.best(scores)
    path = Path(args.out) if args.out else tuned.local_path()
    table = tuned.read(path)
    entry: dict[str, Any] = {
        "settings": combinations[chosen],
        "metric": args.metric,
        "seeds": [asked.retrain_seed for asked in runs],
        "scores": [
            {"settings": combinations[at], "val": values, "mean": sum(values) / len(values)}
            for at, values in scores.items()
        ],
    }
    if args.data:
        entry["inputs"] = artefact.inputs_fingerprint(graph)
    table.setdefault(runs[0].dataset, {})[args.method] = entry
    artefact.replace_file(path, artefact.to_json(table).encode())
    if args.json:
        print(artefact.to_json(entry), end="")
    else:
        _show(args, runs[0].dataset, entry, path)
    return 0


def _show(args: argparse.Namespace, dataset: str, entry: dict[str, Any], path: Path) -> None:
    from rich.table import Table

    table = Table(
        title=(f"{args.method} on {dataset}: validation {args.metric}, {len(entry['seeds'])} seeds")
    )
    names = list(entry["settings"])
    for name in (*names, "mean", ""):
        table.add_column(name)
    for tried in entry["scores"]:
        settings = tried["settings"]
        mark = "chosen" if settings == entry["settings"] else ""
        table.add_row(*(str(settings[name]) for name in names), f"{tried['mean']:.4f}", mark)
    print_table(table)
    print(f"written to {path}")
