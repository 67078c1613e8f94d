"""gassip search: find a light net for a graph, train it, write it to a folder."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gassip.budget.budget import Budget
from gassip.commands.common import (
    command,
    fail,
    jobs_of,
    set_threads,
    warn,
)
from gassip.commands.display import watching
from gassip.commands.explain import print_decisions
from gassip.commands.flags import (
    given_settings,
    show_help,
)
from gassip.commands.graphs import graph_name, load_graph, say_which_graph
from gassip.commands.measured import Memory, measure, useless
from gassip.commands.search_flags import ABOUT, SCREEN, add_flags
from gassip.commands.search_rows import SETTINGS as ROW_SETTINGS
from gassip.commands.search_rows import on_rows, search_on_rows
from gassip.commands.search_summary import next_steps, summary
from gassip.errors import GassipError
from gassip.train.deadline import seconds_of
from gassip.train.loggers import FOLDER, check_installed

if TYPE_CHECKING:
    from gassip.budget.timed import Found
    from gassip.graph.graph import Graph
    from gassip.runs.write import Meta
    from gassip.train.plan import Decision


def add(commands: Any) -> None:
    parser = command(commands, run, "search", *ABOUT, add_help=False)
    add_flags(parser, SCREEN)


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
    from gassip.best.steps import planned_steps
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
        memory = Memory()
        watch = Watch(both(both(show, log), memory), steps, since=args.since, deadline=end)
        search = Search(graph, settings, budget, **options, hear=watch.row, again=watch.retrained)
        found = search.run(kept, jobs_of(args), limit)
        on_new_nodes = _inductive(args, found.solution.seconds)
        found = search.weighed(found) if on_new_nodes else found
        measured = {
            "memory_mb": memory.by_stage,
            **measure(graph, found, budget, inductive=on_new_nodes, **options),
        }
        meta = _write(args, graph, found, budget, source, out, measured)
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
    measured: dict[str, object],
) -> "Meta":
    """What was found and measured, written to its folder."""
    from gassip.runs import write as artefact

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
        seed=args.seed,
        metric=args.metric,
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
