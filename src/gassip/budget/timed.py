"""One run, with or without a time limit: search, retraining, within a budget if there is one.

    end of the search = deadline − writing − (retraining, under a budget)

Without a budget the net that was best by then is written as it was judged. Under a budget it is cut
and retrained, for which a quarter of the time is left.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gassip.best.anytime import search_until
from gassip.best.pipeline import Checkpoint
from gassip.best.serves import weigh_graphs
from gassip.budget.budget import Budget
from gassip.budget.candidates import retrain_best, search_within
from gassip.budget.fit import retrain_within
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.settings import Settings
from gassip.train.deadline import Deadline, TimeUp, seconds_of
from gassip.train.inductive import Inductive
from gassip.train.plan import Plan, Solution

WRITING = 0.3  # seconds for what does not grow with the graph
HASHES = 6.0  # writing takes about as long as so many fingerprints of the graph
RETRAINING = 0.25  # of the time, under a budget
MOST = 0.5  # of the time for all that comes after the search
Row = Mapping[str, float | str]


@dataclass(frozen=True)
class Limit:
    """When the search and when everything has to end."""

    search: Deadline
    end: Deadline
    seconds: float

    @staticmethod
    def of(given: str | float | None, since: float, graph: Graph) -> "Limit | None":
        """From a duration that counts since a reading of `time.monotonic`; what writing takes is
        measured by a fingerprint of the graph."""
        if given is None:
            return None
        seconds, began = seconds_of(given), time.monotonic()
        end = Deadline.after(seconds, since=since)
        replace(graph).fingerprint  # noqa: B018  a copy, since a graph keeps its own
        writing = WRITING + HASHES * (time.monotonic() - began)
        return Limit(end.earlier(min(writing, MOST * seconds)), end, seconds)


@dataclass(frozen=True, eq=False)
class Found:
    """What a run writes."""

    plan: Plan
    solution: Solution
    rows: list[Row]  # epochs of the retraining
    cut: bool = False  # whether a time limit ended the search
    inductive: Inductive | None = None  # the score on new nodes, if it was needed


class Search:
    """A search, told to `hear`, and its retraining, told to `again`."""

    def __init__(
        self,
        graph: Graph,
        settings: Settings,
        budget: Budget,
        seed: int,
        metric: Metric,
        *,
        hear: Callable[[Row], None],
        again: Callable[[Row], None],
    ) -> None:
        self.graph, self.settings, self.budget = graph, settings, budget
        self.seed, self.metric, self.hear, self.again = seed, metric, hear, again
        self.rows: list[Row] = []

    def run(self, checkpoint: Checkpoint | None, jobs: int, limit: Limit | None) -> Found:
        if limit is None:
            return self.whole(checkpoint, jobs)
        return self.within(checkpoint, jobs, limit)

    def whole(self, checkpoint: Checkpoint | None, jobs: int) -> Found:
        plans = search_within(
            self.graph,
            self.settings,
            self.budget,
            seed=self.seed,
            metric=self.metric,
            on_epoch=self.hear,
            checkpoint=checkpoint,
            jobs=jobs,
        )
        plan, solution = retrain_best(
            self.graph,
            plans,
            self.budget,
            seed=self.seed,
            metric=self.metric,
            on_epoch=self.retrained,
        )
        return Found(plan, solution, self.rows)

    def within(self, checkpoint: Checkpoint | None, jobs: int, limit: Limit) -> Found:
        later = RETRAINING * limit.seconds if self.budget else 0.0
        deadline = limit.search.earlier(later)
        found = search_until(
            self.graph,
            self.settings,
            deadline,
            seed=self.seed,
            metric=self.metric,
            on_epoch=self.hear,
            checkpoint=checkpoint,
            jobs=jobs,
        )
        began = time.perf_counter()
        if not self.budget:
            return Found(found.plan, found.solution(self.graph, began=began), [], found.cut)
        plan, solution = self.cut_to_budget(found.plan, limit.search)
        return Found(plan, solution, self.rows, found.cut)

    def weighed(self, found: Found) -> Found:
        """With the net that serves the graphs asked for (best/serves.py)."""
        rows: list[Row] = []

        def train(plan: Plan) -> tuple[Plan, Solution]:
            hear = rows.append
            return retrain_within(
                self.graph, plan, self.budget, seed=self.seed, metric=self.metric, on_epoch=hear
            )

        served = weigh_graphs(
            self.graph, found.plan, found.solution, train, seed=self.seed, metric=self.metric
        )
        if served is None:
            return found
        kept = found.rows if served.solution is found.solution else rows
        return Found(served.plan, served.solution, kept, found.cut, served.inductive)

    def cut_to_budget(self, plan: Plan, deadline: Deadline) -> tuple[Plan, Solution]:
        """Retrained until the deadline; without pruning if that takes too long."""
        try:
            return self._retrain(plan, deadline)
        except TimeUp:
            return self._retrain(replace(plan, recipe=replace(plan.recipe, prune_to=0)), deadline)

    def _retrain(self, plan: Plan, deadline: Deadline) -> tuple[Plan, Solution]:
        return retrain_within(
            self.graph,
            plan,
            self.budget,
            seed=self.seed,
            metric=self.metric,
            on_epoch=self.retrained,
            deadline=deadline,
        )

    def retrained(self, row: Row) -> None:
        if row["epoch"] == 1:
            self.rows.clear()  # a budget of time may take more than one attempt
        self.rows.append(row)
        self.again(row)
