"""Carry runs out and tell their records.

Runs that differ in the retrain seed only share the search; where the method trains a plain net,
the training too. Methods whose search is that of another method share it with that one. Whatever a
method raises becomes the record of its run.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from gassip.baselines._shared.searched import Searched
from gassip.baselines._shared.stack import Stack
from gassip.bench import perturb
from gassip.bench.machine import commit_of, machine, peak_mb, reset_peak
from gassip.bench.records import Book, Record, Run, canonical
from gassip.errors import GassipError
from gassip.graph.datasets import load, read
from gassip.graph.graph import Graph
from gassip.methods import (
    METHODS,
    Method,
    Resumer,
    Searcher,
    SharesSearch,
    StartsFromPlan,
    changed,
    entry,
)
from gassip.nn.net import Model, Net
from gassip.runs.checkpoint import discard
from gassip.runs.write import versions
from gassip.train.batched import retrain_many, solve_many
from gassip.train.context import Listener, RunContext
from gassip.train.plan import Plan, Solution

UNFINISHED = ".unfinished"  # beside the records: searches that were killed
# given a stage and how many events it will tell
Watch = Callable[[str, int], AbstractContextManager[Listener | None]]
Tell = Callable[[Record, Solution | None], None]


def graph_of(run: Run, path: str | None = None) -> Graph:
    """The graph of a run, perturbed as it says; `path` for one from a file."""
    kind, rate = attack_of(run)
    if kind == "mettack":
        graph = perturb.mettack(run.dataset, rate)
    elif path is not None:
        normalize = bool(run.normalize)
        graph = read(path, seed=run.split_seed, undirected=run.undirected, normalize=normalize)
    else:
        graph = load(
            run.dataset, seed=run.split_seed, undirected=run.undirected, normalize=run.normalize
        )
    if kind == "prbcd":
        graph = perturb.prbcd(graph, rate, run.noise_seed)
    return perturb.noise(graph, run.noise, run.noise_seed) if run.noise else graph


def attack_of(run: Run) -> tuple[str, float]:
    """The kind of attack and its rate; "" and 0 where there is none."""
    if run.attack is None:
        return "", 0.0
    kind, _, rate = run.attack.partition("-")
    if kind not in ("mettack", "prbcd") or not _is_share(rate):
        raise GassipError(
            f"attack is {run.attack!r}; it must be mettack-RATE or prbcd-RATE, such as mettack-0.05"
        )
    return kind, float(rate)


def _is_share(text: str) -> bool:
    try:
        return 0 <= float(text) < 1
    except ValueError:
        return False


def method_of(run: Run, graph: Graph) -> Method:
    """The method with exactly the settings of the run."""
    return changed(entry(run.method).make(graph), run.settings)


@contextmanager
def unwatched(stage: str, total: int) -> Iterator[None]:
    yield None


def carry_out(
    runs: Sequence[Run],
    tell: Tell,
    *,
    path: str | None = None,
    tuned: Collection[str] = (),
    watch: Watch = unwatched,
    book: Book | None = None,
) -> None:
    """Run each and tell its record; `tuned` names the methods whose settings are the tuned ones.

    With a book, a search that is killed goes on from what it left there.
    """
    for alike in searches(runs):
        reset_peak()
        first = alike[0][0]
        with unfinished_search(searched_as(first), book) as partial:
            try:
                graph = graph_of(first, path)
                found = search_for(searched_as(first), graph, watch, partial)
            except Exception as error:  # a method's failure is a result of its run alone
                for run in flat(alike):
                    tell(_record(run, tuned, **_failure(error)), None)
                continue
            for group in alike:
                plan = handed(group[0], graph, found)
                train_group(group, graph, plan, tell, tuned=tuned, watch=watch)


@contextmanager
def unfinished_search(run: Run, book: Book | None) -> Iterator[Path | None]:
    """The folder that a search is kept in until its trainings are recorded; only where a commit
    names the code."""
    commit, dirty = commit_of()
    if book is None or commit is None or dirty or run.search_seed is None:
        yield None
        return
    folder = book.folder / UNFINISHED / f"{replace(run, retrain_seed=0).key}-{commit[:12]}"
    yield folder
    discard(folder)
    with suppress(OSError):
        folder.parent.rmdir()


def train_group(
    group: Sequence[Run],
    graph: Graph,
    plan: Plan | None,
    tell: Tell,
    *,
    tuned: Collection[str],
    watch: Watch,
) -> None:
    """The trainings of one search, or of none."""
    for part in to_parts(group, graph, plan):
        try:
            with watch("train", num_epochs(part[0], plan)) as on_event:
                solutions = solve_part(part, graph, plan, on_event)
        except Exception as error:
            for run in part:
                tell(_record(run, tuned, **_failure(error)), None)
            continue
        for run, solution in zip(part, solutions, strict=True):
            tell(_record(run, tuned, **_outcome(solution, plan, len(part))), solution)


def groups(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that are alike but for the retrain seed, in order."""
    alike: dict[str, list[Run]] = {}
    for run in runs:
        rest = {name: value for name, value in asdict(run).items() if name != "retrain_seed"}
        alike.setdefault(canonical(rest), []).append(run)
    return list(alike.values())


def searches(runs: Sequence[Run]) -> list[list[list[Run]]]:
    """The groups that share one search, in order."""
    alike: dict[str, list[list[Run]]] = {}
    for group in groups(runs):
        search = replace(searched_as(group[0]), retrain_seed=0)
        alike.setdefault(search.key, []).append(group)
    return list(alike.values())


def flat(alike: Sequence[Sequence[Run]]) -> list[Run]:
    return [run for group in alike for run in group]


def searched_as(run: Run) -> Run:
    """The run whose search this one starts from: its own, or one of the method that searches for
    it."""
    named = METHODS.get(run.method)
    if run.search_seed is None or named is None or named.searches_as is None:
        return run
    rest = {name: value for name, value in run.settings.items() if name not in named.options}
    return replace(run, method=named.searches_as, settings=rest)


def handed(run: Run, graph: Graph, plan: Plan | None) -> Plan | None:
    """What the run's method makes of the plan of a search that it shares."""
    method = method_of(run, graph)
    if plan is None or not isinstance(method, SharesSearch):
        return plan
    assert run.search_seed is not None, "as there is a plan"
    return method.after(plan, graph, run.search_seed)


def search_for(run: Run, graph: Graph, watch: Watch, partial: Path | None = None) -> Plan | None:
    """What the run's search finds; None where the method has no search apart from its training."""
    method = method_of(run, graph)
    if run.search_seed is None or not isinstance(method, Searcher):
        return None
    with watch("search", method.num_steps(graph)) as on_event:
        context = RunContext(run.search_seed, run.metric, on_event)
        if partial is not None and isinstance(method, Resumer):
            return method.resume(partial, graph, context)
        return method.search(graph, context)


def num_epochs(run: Run, plan: Plan | None) -> int:
    """Of one training, where the method says how many."""
    if plan is not None:
        return plan.recipe.epochs
    return int(run.settings.get("retrain_epochs") or run.settings.get("epochs") or 1)


def to_parts(group: Sequence[Run], graph: Graph, plan: Plan | None = None) -> list[list[Run]]:
    """Which runs train at once: all, where the batched trainer does what the method does; else each
    alone."""
    method = method_of(group[0], graph)
    return [list(group)] if trains_plainly(method, plan) else [[run] for run in group]


def trains_plainly(method: Method, plan: Plan | None) -> bool:
    """Whether the method's training is that of a plain `Net`, which the batched trainer does for
    many seeds."""
    if plan is None:
        return isinstance(method, Stack) and type(method).solve is Stack.solve
    plain = isinstance(method, Searched) and type(method).solve_from is Searched.solve_from
    return plain and plan.teacher is None


def solve_part(
    part: Sequence[Run], graph: Graph, plan: Plan | None, on_event: Listener | None
) -> list[Solution]:
    """The solutions of runs that differ in the retrain seed only."""
    method, first = method_of(part[0], graph), part[0]
    context = RunContext(first.retrain_seed, first.metric, on_event)
    if len(part) > 1:
        return solve_together(method, part, graph, plan, context)
    if plan is None:
        return [method.solve(graph, context)]
    if not isinstance(method, StartsFromPlan):
        raise GassipError(f"{first.method} cannot start from what a search found")
    return [method.solve_from(plan, graph, context)]


def solve_together(
    method: Method, part: Sequence[Run], graph: Graph, plan: Plan | None, context: RunContext
) -> list[Solution]:
    """The runs' trainings in one batch; each has the seed of its run."""
    seeds = [run.retrain_seed for run in part]
    if plan is not None:
        return retrain_many(
            graph, plan, seeds=seeds, metric=context.metric, on_epoch=context.on_event
        )
    assert isinstance(method, Stack), "as `trains_plainly` found"
    return solve_many(
        graph,
        lambda: method.net(graph),
        seeds=seeds,
        epochs=method.epochs,
        lr=method.lr,
        weight_decay=method.weight_decay,
        metric=context.metric,
        on_epoch=context.on_event,
    )


def _failure(error: Exception) -> dict[str, Any]:
    text = " ".join(str(error).split())[:300] or type(error).__name__
    memory = isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and "memory" in text
    )
    reason = text if isinstance(error, GassipError) else f"{type(error).__name__}: {text}"
    reason = f"out of memory ({text})" if memory else reason
    return {"status": "oom" if memory else "failed", "reason": reason}


def _outcome(solution: Solution, plan: Plan | None, batched: int) -> dict[str, Any]:
    return {
        "status": "ok",
        "scores": solution.scores,
        "accuracy": solution.accuracy,
        "architecture": _architecture(solution.model),
        "weights_kept": solution.weights_kept,
        "weights_total": solution.weights_total,
        "weights_stored": _stored(solution),
        "edges_kept": solution.edges_kept,
        "edges_total": solution.edges_total,
        "best_epoch": solution.best_epoch,
        "seconds": _seconds(solution, plan),
        "batched": batched,
        "details": jsonable(solution.details),
    }


def _architecture(model: Model) -> list[str] | None:
    return list(model.architecture.ops) if isinstance(model, Net) else None


def _stored(solution: Solution) -> int:
    """Numbers in the saved model; of a `Net` the removed weights are not saved."""
    values = solution.model.state_dict().values()
    stored = sum(value.numel() for value in values if value.is_floating_point())
    if isinstance(solution.model, Net):
        return stored - (solution.weights_total - solution.weights_kept)
    return stored


def _seconds(solution: Solution, plan: Plan | None) -> dict[str, float]:
    """Of search and training; a search that is part of the training says how long it took."""
    if plan is not None:
        return {"search": plan.seconds, "retrain": max(0.0, solution.seconds)}
    within = solution.details.get("search_seconds")
    search = float(within) if isinstance(within, (int, float)) else 0.0
    return {"search": search, "retrain": max(0.0, solution.seconds - search)}


def jsonable(value: Any) -> Any:
    """A method's details as strict JSON: what JSON has no word for becomes text, NaN and infinity
    null."""
    if isinstance(value, Mapping):
        return {str(name): jsonable(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(part) for part in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return value if value is None or isinstance(value, (str, int)) else str(value)


def _record(run: Run, tuned: Collection[str], **outcome: Any) -> Record:
    commit, dirty = commit_of()
    return Record(
        run=run,
        method_version=entry(run.method).load().version,
        tuned=run.method in tuned,
        peak_mb=peak_mb(),
        versions=versions(),
        commit=commit,
        dirty=dirty,
        machine=machine(),
        threads=torch.get_num_threads(),
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        **outcome,
    )


def unfinished(run: Run, exitcode: int | None, tuned: Collection[str]) -> Record:
    """The record of a run whose process ended before it did; signal 9 is what the system sends when
    memory is out."""
    reason = f"exit status {exitcode}"
    if exitcode is not None and exitcode < 0:
        reason = f"the process was ended by signal {-exitcode}"
    return _record(run, tuned, status="oom" if exitcode == -9 else "failed", reason=reason)
