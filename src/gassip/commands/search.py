"""gassip search: find a light net for a graph, train it, write it to a folder."""

import argparse
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gassip.budget.budget import HELP, Budget
from gassip.commands.common import (
    Parser,
    Row,
    command,
    fail,
    filled,
    graph_flags,
    graph_name,
    load_graph,
    machine_flags,
    print_summary,
    progress,
    say_which_graph,
    score_rows,
    seconds_row,
    set_threads,
    share,
    whole,
)
from gassip.commands.explain import print_decisions
from gassip.commands.flags import (
    Screen,
    given_settings,
    help_flags,
    preset_flags,
    setting_flags,
    show_help,
)
from gassip.errors import GassipError
from gassip.operations import gcn_weights

if TYPE_CHECKING:
    from gassip.runs.write import Meta
    from gassip.train.plan import Decision

ABOUT = (
    "find a light net for a graph, train it and write it to a folder",
    "gassip search --dataset cora --preset paper --seed 1 --out runs/cora",
)
SCREEN = Screen(preset="best")
EVERY = 25  # epochs between two checkpoints


def add(commands: Any) -> None:
    parser = command(commands, run, "search", *ABOUT, add_help=False)
    add_flags(parser, SCREEN)


def add_flags(parser: Parser, screen: Screen) -> None:
    graph_flags(parser.add_argument_group("graph and seed"))
    preset_flags(parser.add_argument_group("method"), screen)
    output = parser.add_argument_group("output and machine")
    out_flags(output, screen)
    machine_flags(output)
    help_flags(output)
    budget_flags(parser)
    setting_flags(parser, screen)


def out_flags(parser: Any, screen: Screen) -> None:
    parser.add_argument(
        "--out", metavar="DIR", type=filled, help="default runs/<name>-<preset>-seed<N>"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with a search that was killed or interrupted"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the run in DIR once this one is complete"
    )
    parser.add_argument(
        "--explain", action="store_true", help="show each decision with what was tried"
    )
    parser.add_argument(
        "--checkpoint-every",
        type=whole(1),
        default=EVERY,
        metavar="N",
        help=screen.rare(f"epochs between two checkpoints (default {EVERY})"),
    )


def budget_flags(parser: Parser) -> None:
    """One flag per field of `Budget`."""
    title = "budgets; one that no net can meet is refused with the least that can be had"
    group = parser.add_argument_group(title)
    for name, text in HELP.items():
        flag = "--" + name.replace("_", "-")
        group.add_argument(flag, metavar="AMOUNT", help=text.replace("%", "%%"))


def run(args: argparse.Namespace) -> int:
    if args.screen:
        return show_help(args, "search", ABOUT, add_flags, SCREEN)
    settings = given_settings(args, SCREEN)
    budget = Budget(**{own.name: vars(args)[own.name] for own in fields(Budget)})
    say_which_graph(args)
    return _run(args, settings, budget)


def _run(args: argparse.Namespace, given: dict[str, Any], budget: Budget) -> int:
    """The search in a folder beside --out, which a killed search can resume from."""
    from gassip.runs import checkpoint

    out = Path(args.out or f"runs/{graph_name(args)}-{args.preset}-seed{args.seed}")
    partial = out.resolve().with_name(out.resolve().name + ".partial")
    _check_out(out, partial, args)
    resumed = args.resume and (partial / checkpoint.FILE).exists()
    if not resumed:
        checkpoint.discard(partial)
    created = [folder for folder in partial.parents if not folder.exists()]
    try:
        # an --out that cannot be written shows now, not after hours
        partial.mkdir(parents=True, exist_ok=True)
        meta, decisions = _search(args, given, budget, out, partial)
    except KeyboardInterrupt:
        return _interrupted(args, partial, created)
    except (GassipError, OSError):
        if not resumed:
            _clean(partial, created)
        raise
    checkpoint.discard(partial)
    show(args, meta, decisions, out)
    return 0


def show(
    args: argparse.Namespace, meta: "Meta", decisions: "Sequence[Decision]", out: Path
) -> None:
    """meta.json, or the summary; the decisions with --explain."""
    from gassip.runs.write import to_json

    if args.json:
        more = {"decisions": [asdict(own) for own in decisions]} if args.explain else {}
        print(to_json(meta | more), end="")
        return
    summary(meta)
    if args.explain:
        print_decisions(decisions)
    next_steps(out)


def _check_out(out: Path, partial: Path, args: argparse.Namespace) -> None:
    from gassip.runs import write as artefact

    if args.resume and out.exists() and not partial.exists():
        raise GassipError(f"{out} is there and nothing is unfinished; there is nothing to resume")
    artefact.check_target(out, args.overwrite)
    if partial.exists() and not (args.resume or args.overwrite):
        raise GassipError(
            f"{partial} holds an unfinished search; --resume to go on, or --overwrite to start anew"
        )


def _search(
    args: argparse.Namespace, given: dict[str, Any], budget: Budget, out: Path, partial: Path
) -> "tuple[Meta, Sequence[Decision]]":
    from gassip.best.pipeline import num_rows
    from gassip.budget.candidates import retrain_best, search_within
    from gassip.budget.fit import check_possible
    from gassip.runs import write as artefact
    from gassip.runs.checkpoint import FolderCheckpoint
    from gassip.settings import preset

    set_threads(args.threads)
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
    meta = artefact.save(
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
    return meta, plan.decisions


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


def summary(meta: "Meta") -> None:
    """The summary table."""
    size = meta["size"]
    of_gcn = f"{size['params'] / gcn64_params(meta):.0%} of a GCN-64's"
    rows = [
        ("architecture", " ‖ ".join(meta["architecture"])),
        *score_rows(meta["scores"]),
        ("weights kept", share(meta["weights_kept"], meta["weights_total"])),
        ("edges kept", share(meta["edges_kept"], meta["edges_total"])),
        ("stored", f"{size['params']:,} weights ({of_gcn})"),
        ("", f"{size['bytes']:,} bytes   {size['macs']:,} multiply-adds"),
        *decided_rows(meta),
        seconds_row(meta["seconds"]),
        *(("note", note) for note in meta["notes"]),
    ]
    print_summary(f"{meta['dataset']}, preset {meta['preset']}, seed {meta['seed']}", rows)


def decided_rows(meta: "Meta") -> list[tuple[str, str]]:
    """What the search added to the net or changed in the graph, where it did."""
    rows = []
    if meta["symmetrised"]:
        rows.append(("direction", "edges are symmetrised"))
    if meta["recipe"]["prune_to"]:
        rows.append(("pruning", f"to {meta['recipe']['prune_to']:,} weights in training"))
    if weight := meta["net"]["label_weight"]:
        rows.append(("label propagation", f"added to the logits with weight {weight:.2f}"))
    return rows


def next_steps(out: Path) -> None:
    """What was written, and what to try next."""
    folder = shlex.quote(str(out))
    print(f"written to {out}\nnext: gassip evaluate {folder} --seeds 10")
    print(f"      gassip predict {folder} --out labels.csv")
