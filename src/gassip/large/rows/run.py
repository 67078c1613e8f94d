"""A whole run on rows: graph folder in, net out.

direction → hops → search on rows → scores of all labelled nodes by blocks of rows
"""

import time
from dataclasses import dataclass

from gassip.large.hops import Hops
from gassip.large.kernels import LARGE, Edges, compiled_here
from gassip.large.rows.cuts import choose_cut
from gassip.large.rows.direction import direction
from gassip.large.rows.job import Job, chosen_nodes, prepared
from gassip.large.rows.scores import Scores, all_scores, cost_of_rounding
from gassip.large.rows.search import Found, search_rows
from gassip.large.rows.trials import Trials
from gassip.train.plan import Decision


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """What a run writes."""

    job: Job
    hops: Hops
    edges: Edges
    edges_key: str
    edges_total: int  # before a cut
    found: Found
    trials: Trials
    scores: Scores
    decisions: tuple[Decision, ...]
    seconds: float


def run_on_rows(job: Job) -> Outcome:
    began = time.perf_counter()
    if not compiled_here():
        job.said(f"hops are computed by scipy, several times slower; numba {LARGE}")
    chosen = chosen_nodes(job)
    made: list[Decision] = []
    key = direction(job, chosen, made)
    trials = prepared(job, chosen, key)
    trials.gather()
    found = search_rows(trials, job.options)
    if job.precision != "float32":
        job.said(cost_of_rounding(trials, found, job.precision))
    total = int(trials.edges.indptr[-1])
    if job.options.edge_shares and not trials.late:
        trials, found = choose_cut(job, trials, found)
    scores = all_scores(trials, found.trained.net, found.label_weight)
    return Outcome(
        job=job,
        hops=trials.hops,
        edges=trials.edges,
        edges_key=trials.edges_key,
        edges_total=total,
        found=found,
        trials=trials,
        scores=scores,
        decisions=(*made, *found.decisions),
        seconds=time.perf_counter() - began,
    )
