"""What a search on rows found, trained again: with other seeds, or on validation labels too.

The first net of a run's own seed has the bits of the run.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gassip.deploy.stored import own_graph
from gassip.errors import GassipError
from gassip.large.cluster import InProcess, Tasks
from gassip.large.rows.job import Job, chosen_nodes, prepared
from gassip.large.rows.nets import Shape
from gassip.large.rows.run import Outcome, run_on_rows
from gassip.large.rows.save import TEACHER
from gassip.large.rows.scores import Scores, all_scores
from gassip.large.rows.search import Found, Options, Student, train_student
from gassip.large.rows.trials import Trials
from gassip.runs.format import label_weight, read_meta, read_tensors
from gassip.runs.read import read_decisions
from gassip.train.plan import Row


@dataclass(frozen=True, eq=False, kw_only=True)
class RowPlan:
    """What a search on rows hands over to a training."""

    student: Student
    others: np.ndarray | None  # nodes that a teacher told of
    probs: Tensor | None  # what it told
    label_weight: float
    edges_key: str


def job_of_run(folder: Path, meta: Mapping[str, Any], threads: int = 1) -> Job:
    """The search that made the run."""
    told = meta["rows"]
    if "student" not in told:
        raise GassipError(f"{folder} was written by an earlier version; search again to retrain it")
    options: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in told["options"].items()
    }
    most = options.pop("most_weights")
    return Job(
        graph=own_graph(folder, meta),
        hops=Path(told["hops"]).parent,
        options=Options(most_weights=most or float("inf"), **options),
        steps=told["steps"],
        precision=told["precision"],
        both=bool(meta["source"]["undirected"]),
        seed=meta["seed"],
        metric=meta["metric"],
        threads=threads,
    )


def plan_of_run(folder: Path, meta: Mapping[str, Any]) -> RowPlan:
    told = meta["rows"]["student"]
    shape = Shape(**told["shape"] | {"hops": tuple(told["shape"]["hops"])})
    taught = read_tensors(folder, TEACHER, meta) if TEACHER in meta["files"] else {}
    return RowPlan(
        student=Student(**told | {"shape": shape}),
        others=taught.get("nodes"),
        probs=torch.from_numpy(taught["probs"].copy()) if taught else None,
        label_weight=label_weight(meta),
        edges_key=meta["rows"]["edges"],
    )


def searched_again(shared: tuple[Path, int], seed: int) -> tuple[RowPlan, list[str], int, int]:
    """Another search of the run's graph: its plan, operations, weights and edges."""
    folder, threads = shared
    job = job_of_run(folder, read_meta(folder), threads)
    outcome = run_on_rows(replace(job, seed=seed))
    found = outcome.found
    plan = RowPlan(
        student=found.student,
        others=None if found.probs is None else outcome.trials.chosen.others,
        probs=found.probs,
        label_weight=found.label_weight,
        edges_key=outcome.edges_key,
    )
    net, edges = found.trained.net, int(outcome.edges.indptr[-1])
    return plan, list(net.architecture.ops), net.num_weights()[0], edges


def retrained(shared: tuple[Path, list[RowPlan], int], number: int, seed: int) -> Scores:
    """Scores of the plan of that number, trained with a seed; here or on a worker."""
    folder, plans, threads = shared
    plan = plans[number]
    meta = read_meta(folder)
    refit = bool(meta["source"].get("refit"))
    torch.set_num_threads(threads)
    trials = replace(_trials(job_of_run(folder, meta, threads), plan, refit), seed=seed)
    made = train_student(trials, plan.student, plan.probs)
    return all_scores(trials, made.net, plan.label_weight, refit)


def _trials(job: Job, plan: RowPlan, refit: bool = False) -> Trials:
    chosen = chosen_nodes(job)
    if plan.others is not None:
        chosen = replace(chosen, others=plan.others)
    return prepared(job, chosen.refit() if refit else chosen, plan.edges_key)


def evaluated(
    folder: Path,
    *,
    seeds: int,
    searches: int = 1,
    threads: int = 1,
    tasks: Tasks | None = None,
    hear: Callable[[Row], None] = lambda row: None,
) -> tuple[list[list[Scores]], list[list[str]], list[int], list[int]]:
    """[searches][seeds] scores, and of each search operations, weights and edges."""
    tasks, meta = tasks or InProcess(), read_meta(folder)
    first = meta["seed"]
    more = [(first + s,) for s in range(1, searches)]
    job_of_run(folder, meta, threads)  # what it needs is there
    first_search = (
        plan_of_run(folder, meta),
        meta["architecture"],
        meta["weights_kept"],
        meta["edges_kept"],
    )
    found = [first_search, *tasks.map(searched_again, (folder, threads), more)]
    items = [(s, first + r) for s in range(searches) for r in range(seeds)]
    plans = [row[0] for row in found]
    done = [0]

    def arrived(at: int, scores: Scores) -> None:
        done[0] += 1
        hear({"epoch": done[0], "val_score": scores.get(meta["metric"], {}).get("val", 0.0)})

    flat = tasks.map(retrained, (folder, plans, threads), items, arrived)
    scores = [flat[s * seeds : (s + 1) * seeds] for s in range(searches)]
    return scores, [row[1] for row in found], [row[2] for row in found], [row[3] for row in found]


def refitted(folder: Path, threads: int = 1) -> Outcome:
    """The net trained on training and validation labels to the end of its schedule."""
    began, meta = time.perf_counter(), read_meta(folder)
    plan, job = plan_of_run(folder, meta), job_of_run(folder, meta, threads)
    trials = _trials(job, plan, refit=True)
    made = train_student(trials, plan.student, plan.probs)
    found = Found(
        trained=made,
        student=plan.student,
        probs=plan.probs,
        label_weight=plan.label_weight,
        decisions=read_decisions(folder, dict(meta)),
        cut=False,
    )
    return Outcome(
        job=job,
        hops=trials.hops,
        edges=trials.edges,
        edges_key=plan.edges_key,
        edges_total=meta["edges_total"],
        found=found,
        trials=trials,
        scores=all_scores(trials, made.net, plan.label_weight, refit=True),
        decisions=found.decisions,
        seconds=time.perf_counter() - began,
    )
