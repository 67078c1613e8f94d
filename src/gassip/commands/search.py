"""gassip search: find a light net for a graph, train it, write it to a folder."""

import argparse
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gassip.commands.common import (
    METRICS,
    Parser,
    Row,
    add_setting_flags,
    command,
    fail,
    given_settings,
    graph_flags,
    graph_name,
    load_graph,
    machine_flags,
    print_summary,
    progress,
    score_rows,
    seconds_row,
    set_threads,
    share,
    whole,
)
from gassip.errors import GassipError
from gassip.operations import gcn_weights

if TYPE_CHECKING:
    from gassip.runs.write import Meta


def add(commands: Any) -> None:
    example = "gassip search --dataset cora --preset paper --seed 1 --out runs/cora"
    text = "find a light net for a graph, train it and write it to a folder"
    parser = command(commands, run, "search", text, example)
    graph_flags(parser)
    parser.add_argument(
        "--preset", default="best", help="settings to start from: best, paper (default %(default)s)"
    )
    parser.add_argument(
        "--settings", metavar="FILE", help="settings that differ from the preset, TOML or JSON"
    )
    parser.add_argument(
        "--metric", choices=METRICS, default="accuracy", help="what validation judges by"
    )
    parser.add_argument("--out", metavar="DIR", help="default runs/<name>-<preset>-seed<N>")
    parser.add_argument(
        "--resume", action="store_true", help="go on with a search that was killed or interrupted"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the run in DIR once this one is complete"
    )
    parser.add_argument(
        "--checkpoint-every", type=whole(1), default=25, metavar="N", help="epochs (default 25)"
    )
    machine_flags(parser)
    budget_flags(parser)
    add_setting_flags(
        parser.add_argument_group("settings of the method, over --settings, over --preset"), Gassip
    )


BUDGETS = {
    "params": "weights stored: a number, or a share of a GCN with 64 hidden units such as 25%%",
    "edges": "edges kept: a number, or a share of the graph's",
    "bytes": "of model.safetensors: a number, 100kB, or a share of that GCN's",
    "latency-ms": "of one inference on the whole graph in gassip.runtime, measured here: milliseconds, or a share of "
    "that GCN's there",
    "macs": "multiply-adds of one inference on the whole graph: a number, or a share of that GCN's",
}


def budget_flags(parser: Parser) -> None:
    group = parser.add_argument_group(
        "budgets: kept, or the run ends with the least that can be had"
    )
    for name, text in BUDGETS.items():
        group.add_argument(f"--max-{name}", metavar="AMOUNT", help=text)


def run(args: argparse.Namespace) -> int:
    from gassip.runs import checkpoint
    from gassip.runs import write as artefact

    out = Path(args.out or f"runs/{graph_name(args)}-{args.preset}-seed{args.seed}")
    partial = out.resolve().with_name(out.resolve().name + ".partial")
    _check_out(out, partial, args)
    resumed = args.resume and (partial / checkpoint.FILE).exists()
    if not resumed:
        checkpoint.discard(partial)
    created = [folder for folder in partial.parents if not folder.exists()]
    try:
        partial.mkdir(
            parents=True, exist_ok=True
        )  # an --out that cannot be written shows now, not after hours
        meta = _search(args, out, partial)
    except KeyboardInterrupt:
        return _interrupted(args, partial, created)
    except (GassipError, OSError):
        if not resumed:
            _clean(partial, created)
        raise
    checkpoint.discard(partial)
    print(artefact.to_json(meta), end="") if args.json else summary(meta, out)
    return 0


def _check_out(out: Path, partial: Path, args: argparse.Namespace) -> None:
    from gassip.runs import write as artefact

    if args.resume and out.exists() and not partial.exists():
        raise GassipError(f"{out} is there and nothing is unfinished; there is nothing to resume")
    artefact.check_target(out, args.overwrite)
    if partial.exists() and not (args.resume or args.overwrite):
        raise GassipError(
            f"{partial} holds an unfinished search; --resume to go on, or --overwrite to start anew"
        )


def _search(args: argparse.Namespace, out: Path, partial: Path) -> "Meta":
    from gassip.best.pipeline import num_rows
    from gassip.budget.candidates import retrain_best, search_within
    from gassip.budget.fit import Budget, check_possible
    from gassip.runs import write as artefact
    from gassip.runs.checkpoint import FolderCheckpoint
    from gassip.settings import preset
    from gassip.settings.settings import read_settings

    set_threads(args.threads)
    budget = Budget(**{name: getattr(args, name) for name in vars(args) if name.startswith("max_")})
    given = read_settings(Path(args.settings)) if args.settings else {}
    given |= given_settings(args)
    graph, source = load_graph(args)
    settings = preset(args.preset, graph, given)
    check_possible(graph, settings, budget)
    kept = FolderCheckpoint(
        partial,
        graph=graph,
        settings=settings,
        seed=args.seed,
        metric=args.metric,
        every=args.checkpoint_every,
    )
    with progress("search", num_rows(settings), args.quiet) as show:
        plans = search_within(
            graph,
            settings,
            budget,
            seed=args.seed,
            metric=args.metric,
            on_epoch=show,
            checkpoint=kept,
        )
    rows: list[Row] = []
    with progress("retrain", plans[0].recipe.epochs, args.quiet) as show:

        def keep_and_show(row: Row) -> None:
            if row["epoch"] == 1:
                rows.clear()  # a budget of time may take more than one attempt
            rows.append(row)
            show(row)

        plan, solution = retrain_best(
            graph, plans, budget, seed=args.seed, metric=args.metric, on_epoch=keep_and_show
        )
    return artefact.save(
        out,
        graph,
        plan,
        solution,
        seed=args.seed,
        metric=args.metric,
        preset=args.preset,
        source=source,
        budget=budget.given,
        retrain_history=rows,
        overwrite=args.overwrite,
    )


def _interrupted(args: argparse.Namespace, partial: Path, created: list[Path]) -> int:
    from gassip.runs.checkpoint import FILE

    if not (partial / FILE).exists():
        _clean(partial, created)
        return fail("interrupted before the first checkpoint; nothing was kept", 130)
    again = shlex.join(["gassip", *(word for word in args.argv if word != "--resume"), "--resume"])
    return fail(f"interrupted; go on with: {again}", 130)


def _clean(partial: Path, created: list[Path]) -> None:
    """Nothing of a failed run stays, not even the folders made for it."""
    from gassip.runs.checkpoint import discard

    discard(partial)
    for folder in created:
        with suppress(OSError):
            folder.rmdir()


def gcn64_params(meta: "Meta") -> int:
    """Weights of a GCN with 64 hidden units on the same graph."""
    return gcn_weights(meta["features"], len(meta["class_names"]))


def summary(meta: "Meta", out: Path) -> None:
    """The summary table, what was written, and what to try next."""
    rows = [("architecture", " ‖ ".join(meta["architecture"])), *score_rows(meta["scores"])]
    rows += [("weights kept", share(meta["weights_kept"], meta["weights_total"]))]
    rows += [("edges kept", share(meta["edges_kept"], meta["edges_total"]))]
    size = meta["size"]
    rows += [
        (
            "stored",
            f"{size['params']:,} weights ({size['params'] / gcn64_params(meta):.0%} of a GCN-64's)",
        )
    ]
    rows += [("", f"{size['bytes']:,} bytes   {size['macs']:,} multiply-adds")]
    if meta["net"]["label_weight"]:
        rows += [
            (
                "labels",
                f"of training nodes count beside the net, by {meta['net']['label_weight']:.2f}",
            )
        ]
    rows += [seconds_row(meta["seconds"])]
    rows += [("note", note) for note in meta["notes"]]
    print_summary(f"{meta['dataset']}, preset {meta['preset']}, seed {meta['seed']}", rows)
    print(f"written to {out}\nnext: gassip evaluate {shlex.quote(str(out))} --seeds 10")
    print(f"      gassip predict {shlex.quote(str(out))} --out labels.csv")
