"""gassip search: find a light net for a graph, train it, write it to a folder."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gassip.budget.budget import HELP, Budget
from gassip.commands.common import (
    THREADS,
    Parser,
    command,
    fail,
    jobs_flag,
    jobs_of,
    machine_flags,
    set_threads,
    warn,
    whole,
)
from gassip.commands.display import watching
from gassip.commands.explain import print_decisions
from gassip.commands.flags import (
    Screen,
    given_settings,
    help_flags,
    preset_flags,
    setting_flags,
    show_help,
)
from gassip.commands.graphs import SPLIT, graph_flags, graph_name, load_graph, say_which_graph
from gassip.commands.measured import measure, of_reference, serves_rows, useless
from gassip.commands.measured import rows as measured_rows
from gassip.commands.search_rows import SETTINGS as ROW_SETTINGS
from gassip.commands.search_rows import large_flags, on_rows, search_on_rows
from gassip.commands.summary import print_summary, score_rows, seconds_row, share
from gassip.errors import GassipError
from gassip.train.deadline import seconds_of
from gassip.train.loggers import FOLDER, LOGGERS, check_installed

if TYPE_CHECKING:
    from gassip.budget.timed import Found
    from gassip.graph.graph import Graph
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
    graph_flags(parser.add_argument_group("graph and seed"), screen.rare(SPLIT))
    preset_flags(parser.add_argument_group("method"), screen)
    output = parser.add_argument_group("output and machine")
    out_flags(output, screen)
    machine_flags(output, screen.rare(THREADS))
    jobs_flag(output)
    large_flags(output, screen)
    help_flags(output)
    budget_flags(parser)
    setting_flags(parser, screen)


def out_flags(parser: Any, screen: Screen) -> None:
    parser.add_argument("--out", metavar="DIR", help="default runs/<name>-<preset>-seed<N>")
    parser.add_argument(
        "--resume", action="store_true", help="go on with a search that was killed or interrupted"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the run in DIR once this one is complete"
    )
    parser.add_argument(
        "--time-limit",
        type=duration,
        metavar="TIME",
        help="60s, 10m, 2h, all counted: the best net by then; --resume goes on",
    )
    parser.add_argument(
        "--log",
        action="append",
        choices=tuple(LOGGERS),
        default=[],
        metavar="NAME",
        help=screen.rare(f"write every step to a dashboard: {', '.join(LOGGERS)}"),
    )
    parser.add_argument(
        "--inductive",
        action=argparse.BooleanOptionalAction,
        help=screen.rare(
            "train once more without half of the validation nodes and their edges, for a score on "
            "new nodes (default: if that takes less than a minute, and without --time-limit)"
        ),
    )
    parser.add_argument(
        "--no-report", action="store_true", help=screen.rare("do not write report.html")
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


def duration(text: str) -> str:
    """A duration such as 10m, checked."""
    try:
        seconds_of(text)
    except GassipError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


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
    screen = replace(SCREEN, reads=ROW_SETTINGS) if on_rows(args) else SCREEN
    settings = given_settings(args, screen)
    budget = Budget(**{field.name: vars(args)[field.name] for field in fields(Budget)})
    for name in args.log:
        check_installed(name)
    say_which_graph(args)
    return _run(args, settings, budget)


def _run(args: argparse.Namespace, given: dict[str, Any], budget: Budget) -> int:
    """The search in a folder beside --out, which a killed search can resume from."""
    from gassip.runs.format import real
    from gassip.runs.lock import sole_writer

    out = Path(args.out or f"runs/{graph_name(args)}-{args.preset}-seed{args.seed}")
    target = real(out)
    created = [folder for folder in target.parents if not folder.exists()]
    try:
        # an --out that cannot be written shows now, not after hours
        for folder in target.parents:
            if folder.exists() and not folder.is_dir():
                raise GassipError(f"--out {out} cannot be written: {folder} is not a folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        with sole_writer(target):
            return _run_alone(args, given, budget, out, target.with_name(f"{target.name}.partial"))
    finally:
        for folder in created:  # those that are empty: nothing of a failed run stays
            with suppress(OSError):
                folder.rmdir()


def _run_alone(
    args: argparse.Namespace, given: dict[str, Any], budget: Budget, out: Path, partial: Path
) -> int:
    from gassip.runs import checkpoint

    _check_out(out, partial, args)
    resumed = args.resume and checkpoint.held(partial)
    if not resumed:
        checkpoint.discard(partial)
    try:
        partial.mkdir(exist_ok=True)
        meta, decisions, cut = _search(args, given, budget, out, partial)
    except KeyboardInterrupt:
        return _interrupted(args, partial)
    except BaseException as error:
        reason = machine_failed(error)
        if reason and checkpoint.held(partial):
            raise GassipError(f"{reason}; go on with: {_again(args)}") from error
        if not resumed:
            checkpoint.discard(partial)  # or the next, correct call would be refused
        raise
    if not cut:
        checkpoint.discard(partial)
    show(args, meta, decisions, out)
    if args.json and (line := useless(meta)):
        warn(line)
    if cut and not args.quiet:
        print(f"cut short at {args.time_limit}; go on with: {_again(args)}", file=sys.stderr)
    return 0


def machine_failed(error: BaseException) -> str | None:
    """Why the machine ended a search that was right: a full disk, no memory; None: it did not."""
    cause = error.__cause__ if isinstance(error, GassipError) else error
    if isinstance(cause, OSError):
        if isinstance(error, GassipError):
            return str(error).removesuffix("; nothing was kept of it")
        reason = str(cause.strerror or cause)
        return f"{cause.filename}: {reason}" if cause.filename else reason
    if isinstance(cause, MemoryError):
        return "out of memory"
    return None


def _again(args: argparse.Namespace) -> str:
    """The command that goes on, with twice the time."""
    words = [word for word in args.argv if word not in ("--resume", "--overwrite")]
    if args.time_limit:
        at = next(k for k, word in enumerate(words) if word.startswith("--time-limit"))
        del words[at : at + 1 + ("=" not in words[at])]
        words += ["--time-limit", f"{2 * seconds_of(args.time_limit):g}s"]
    return shlex.join(["gassip", *words, "--resume"])


def show(
    args: argparse.Namespace, meta: "Meta", decisions: "Sequence[Decision]", out: Path
) -> None:
    """meta.json, or the summary; the decisions with --explain."""
    from gassip.runs.format import DECISIONS, read_rows
    from gassip.runs.write import to_json

    if args.json:
        told = {"decisions": read_rows(out, DECISIONS, meta)} if args.explain else {}
        print(to_json(meta | told), end="")
        return
    summary(meta)
    if args.explain:
        print_decisions(decisions)
    next_steps(out, report=(out / "report.html").exists())
    if "tensorboard" in args.log:
        print(f"log:  tensorboard --logdir {shlex.quote(str(out.parent / FOLDER))}")


def is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _check_out(out: Path, partial: Path, args: argparse.Namespace) -> None:
    from gassip.runs import write as artefact

    if args.resume and out.exists() and not partial.exists():
        raise GassipError(f"{out} is there and nothing is unfinished; there is nothing to resume")
    goes_on = args.resume and partial.exists()  # of a search that a time limit cut short
    artefact.check_target(out, args.overwrite or goes_on)
    unfinished = partial.is_symlink() or (partial.exists() and not is_empty(partial))
    if unfinished and not (args.resume or args.overwrite):
        raise GassipError(
            f"{partial} holds an unfinished search; --resume to go on, or --overwrite to start anew"
        )


def _search(
    args: argparse.Namespace, given: dict[str, Any], budget: Budget, out: Path, partial: Path
) -> "tuple[Meta, Sequence[Decision], bool]":
    """What was written, what was decided, and whether a time limit cut the search short."""
    from gassip.best.anytime import both
    from gassip.best.pipeline import planned_steps
    from gassip.budget.fit import check_possible
    from gassip.budget.timed import Limit, Search
    from gassip.runs.checkpoint import FolderCheckpoint
    from gassip.settings import preset
    from gassip.train.events import Watch
    from gassip.train.loggers import logging

    if on_rows(args):
        return search_on_rows(args, given, budget, out, partial)
    if args.cluster:
        raise GassipError("--cluster is for a search on rows; add --large on")
    set_threads(args.threads)
    graph, source = load_graph(args)
    settings = preset(args.preset, graph, given)
    check_possible(graph, settings, budget)
    options = {"seed": args.seed, "metric": args.metric}
    kept = FolderCheckpoint(
        partial, graph=graph, settings=settings, every=args.checkpoint_every, **options
    )
    steps = planned_steps(settings)
    with watching(steps, args.quiet) as show, logging(args.log, out, settings.flat()) as log:
        limit = Limit.of(args.time_limit, args.since, graph)
        end = limit.end if limit else None
        watch = Watch(both(show, log), steps, since=args.since, deadline=end)
        search = Search(graph, settings, budget, **options, hear=watch.row, again=watch.retrained)
        found = search.run(kept, jobs_of(args), limit)
        on_new_nodes = _inductive(args, found.solution.seconds)
        found = search.weighed(found) if on_new_nodes else found
        meta = _write(args, graph, found, budget, source, out, inductive=on_new_nodes)
        if not args.no_report and (end is None or end.left > 0):
            write_page(out, found.plan.on(graph, all_edges=True))
        watch.done()
    return meta, found.plan.decisions, found.cut


def _write(
    args: argparse.Namespace,
    graph: "Graph",
    found: "Found",
    budget: Budget,
    source: dict[str, Any],
    out: Path,
    *,
    inductive: bool,
) -> "Meta":
    """What was found, measured and written to its folder."""
    from gassip.runs import write as artefact

    options = {"seed": args.seed, "metric": args.metric}
    measured = measure(graph, found, budget, inductive=inductive, **options)
    return artefact.save(
        out,
        graph,
        found.plan,
        found.solution,
        preset=args.preset,
        source=source,
        budget=budget.given,
        retrain_history=found.rows,
        overwrite=args.overwrite or args.resume,
        measured=measured,
        **options,
    )


def _inductive(args: argparse.Namespace, seconds: float) -> bool:
    """Unasked unless a retraining takes long or time is limited."""
    from gassip.train.inductive import MOST_SECONDS

    if args.inductive is not None:
        return bool(args.inductive)
    return args.time_limit is None and seconds < MOST_SECONDS


def write_page(out: Path, graph: "Graph | None") -> None:
    """report.html; the run is complete without it."""
    from gassip.report.report import write_report

    try:
        write_report(out, None if graph is None else graph.edge_index.cpu().numpy())
    except (GassipError, OSError) as error:
        fail(f"report.html was not written ({error}); the run is; try: gassip report {out}")


def _interrupted(args: argparse.Namespace, partial: Path) -> int:
    from gassip.runs.checkpoint import discard, held

    if not held(partial):
        discard(partial)
        return fail("interrupted before the first checkpoint; nothing was kept", 130)
    return fail(f"interrupted; go on with: {_again(args)}", 130)


def summary(meta: "Meta") -> None:
    """The summary table."""
    size = meta["size"]
    rows = [
        ("architecture", " ‖ ".join(meta["architecture"])),
        *score_rows(meta["scores"]),
        ("weights kept", share(meta["weights_kept"], meta["weights_total"])),
        ("edges kept", share(meta["edges_kept"], meta["edges_total"])),
        ("stored", f"{size['params']:,} weights ({of_reference(meta)})"),
        ("", f"{size['bytes']:,} bytes   {size['macs']:,} multiply-adds"),
        *decided_rows(meta),
        *measured_rows(meta),
        seconds_row(meta["seconds"]),
        *(("note", note) for note in meta["notes"]),
    ]
    print_summary(f"{meta['dataset']}, preset {meta['preset']}, seed {meta['seed']}", rows)


def decided_rows(meta: "Meta") -> list[tuple[str, str]]:
    """What the search added to the net or changed in the graph, where it did."""
    rows = []
    if meta["symmetrised"]:
        rows.append(("direction", "edges are symmetrised"))
    if "weighted" in meta["source"]:
        used = meta["source"]["weighted"]
        rows.append(("edge weights", "used" if used else "left out: no gain on validation"))
    if meta["recipe"]["prune_to"]:
        rows.append(("pruning", f"to {meta['recipe']['prune_to']:,} weights in training"))
    if weight := meta["net"]["label_weight"]:
        rows.append(("label propagation", f"added to the logits with weight {weight:.2f}"))
        rows += [("", for_which_graphs(meta)), *serves_rows(meta)]
    return rows


def for_which_graphs(meta: "Meta") -> str:
    """What label propagation means for other graphs."""
    if meta["recipe"]["labels_in_training"]:
        return "in training too: on other graphs the net is worse (--for any)"
    return "on this graph alone; the net was trained without it, for any graph"


def next_steps(out: Path, *, report: bool = False) -> None:
    """What was written, and what to try next."""
    folder = shlex.quote(str(out))
    print(f"written to {out}")
    if report:
        print(f"look: {out / 'report.html'}")
    steps = [f"gassip evaluate {folder} --seeds 10", f"gassip predict {folder} --out labels.csv"]
    for at, step in enumerate(steps):
        print(f"{'next:' if at == 0 else '     '} {step}")
