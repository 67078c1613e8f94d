"""gassip refit: train what a run found on training and validation labels together."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gassip.commands.common import command, machine_flags, set_threads
from gassip.commands.graphs import training_graph
from gassip.commands.search_summary import next_steps, summary
from gassip.errors import GassipError

if TYPE_CHECKING:
    from gassip.runs.write import Meta

ALREADY = "{} is a refit already; no validation label is left in it"


def add(commands: Any) -> None:
    text = "train what a run found on training and validation labels together, into a new folder"
    example = "gassip refit runs/cora --out runs/cora-refit"
    parser = command(commands, run, "refit", text, example)
    parser.add_argument("folder", metavar="RUN", help="folder that `gassip search` wrote")
    parser.add_argument("--out", metavar="DIR", help="default RUN-refit")
    parser.add_argument("--overwrite", action="store_true", help="replace the run in DIR")
    machine_flags(parser)


def run(args: argparse.Namespace) -> int:
    from gassip.budget.budget import Budget
    from gassip.budget.fit import retrain_within
    from gassip.deploy.stored import is_row_run
    from gassip.runs import write as artefact
    from gassip.runs.format import read_meta
    from gassip.train.refit import refit_plan, with_validation_labels

    folder = Path(args.folder)
    beside = folder.resolve().with_name(f"{folder.resolve().name}-refit")
    out = Path(args.out) if args.out else beside
    set_threads(args.threads)
    artefact.check_target(out, args.overwrite)
    if is_row_run(read_meta(folder)):
        meta = _on_rows(folder, out, args)
        return _tell(args, meta, out)
    made = artefact.open_run(folder)
    if made.meta["source"].get("refit"):
        raise GassipError(ALREADY.format(args.folder))
    options = {"seed": made.meta["seed"], "metric": made.meta["metric"]}
    given = training_graph(made, args.device)
    plan = refit_plan(made.plan, made.meta["best_epoch"], given, **options)
    graph = with_validation_labels(given)
    plan, solution = retrain_within(graph, plan, Budget(**made.meta["budget"]), **options)
    meta = artefact.save(
        out,
        graph,
        plan,
        solution,
        preset=made.meta["preset"],
        source=made.meta["source"] | {"refit": True},
        budget=made.meta["budget"],
        overwrite=args.overwrite,
        **options,
    )
    return _tell(args, meta, out)


def _on_rows(folder: Path, out: Path, args: argparse.Namespace) -> "Meta":
    """The same for a search on rows."""
    from gassip.large.rows.retrain import refitted
    from gassip.large.rows.save import save
    from gassip.runs.format import read_meta

    meta = read_meta(folder)
    if meta["source"].get("refit"):
        raise GassipError(ALREADY.format(folder))
    return save(
        out,
        refitted(folder, args.threads),
        preset=meta["preset"],
        source=meta["source"] | {"refit": True},
        budget=meta["budget"],
        overwrite=args.overwrite,
    )


def _tell(args: argparse.Namespace, meta: "Meta", out: Path) -> int:
    from gassip.runs.write import to_json

    if args.json:
        print(to_json(meta), end="")
    else:
        summary(meta)
        next_steps(out, report=False)
    return 0
