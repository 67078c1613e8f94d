"""A search that hands over the best net so far when its time is up.

    rounds      one plain net; the preset fast; the preset good; the settings as given

Each round is a fixed sequence of trainings: the time limit only says how far the sequence goes, and
the net with the highest validation score so far is kept. So more time never gives a lower score.
The net is handed over as it was judged; it is not trained again after the deadline.
"""

import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from gassip.best import pipeline
from gassip.best.decisions import Decisions
from gassip.best.incumbent import BestSoFar, Incumbent, plan_of
from gassip.best.pipeline import Checkpoint
from gassip.best.plain import first_plain
from gassip.best.steps import planned_steps
from gassip.best.trials import Memory, Trained, Trials
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.settings import Settings, preset
from gassip.settings.presets import GOOD
from gassip.threads import on_one_thread
from gassip.train.deadline import Deadline, TimeUp, interrupted, seconds_of
from gassip.train.events import Event, Listener, Watch
from gassip.train.leaderboard import Standing, with_taken
from gassip.train.plan import Decision, Plan, Row, symmetrised
from gassip.train.trainer import retrain

REASON = "highest validation score when the time was up; of equals the net with fewer weights"


@on_one_thread
def search(
    graph: Graph,
    settings: Settings | None = None,
    *,
    seed: int = 0,
    metric: Metric = "accuracy",
    on_epoch: Callable[[Row], None] | None = None,
    on_event: Listener | None = None,
    checkpoint: Checkpoint | None = None,
    jobs: int = 1,
    time_limit: str | float | None = None,
) -> Plan:
    """Algorithm 2 on `graph`, then the stages of `best` where the settings have them (by default:
    the preset `best`), whose nets are trained in `jobs` processes. Equal seeds give equal bits on
    one machine and thread count, whatever the number of processes.

    `time_limit` such as 60, "60s" or "10m": what is best on validation by then is handed over.
    `on_event` hears of every step (gassip.train.events), `on_epoch` of the rows of the history."""
    settings = settings or preset("best", graph)
    deadline = None if time_limit is None else Deadline.after(seconds_of(time_limit))
    tell: Listener | None = on_epoch  # type: ignore[assignment]
    if on_event is not None:
        watch = Watch(on_event, planned_steps(settings), deadline=deadline)
        tell = both(watch.row, tell)
    options = {"seed": seed, "metric": metric, "checkpoint": checkpoint, "jobs": jobs}
    if deadline is None:
        plan = pipeline.search(graph, settings, on_epoch=tell, **options)  # type: ignore[arg-type]
    else:
        found = search_until(graph, settings, deadline, on_epoch=tell, **options)  # type: ignore[arg-type]
        plan = found.plan
    if on_event is not None:
        watch.done()
    return plan


def both(one: Listener, other: Listener | None) -> Listener:
    """A listener that tells both."""

    def tell(row: Event) -> None:
        one(row)
        if other is not None:
            other(row)

    return tell


def search_until(
    graph: Graph,
    settings: Settings,
    deadline: Deadline,
    *,
    seed: int = 0,
    metric: Metric = "accuracy",
    on_epoch: Callable[[Row], None] | None = None,
    checkpoint: Checkpoint | None = None,
    jobs: int = 1,
) -> Incumbent:
    """The best net by the deadline. The first one is trained for an epoch at least."""
    climb = Climb(graph, deadline, seed, metric, on_epoch, checkpoint, jobs)
    climb.first(settings)
    try:
        with interrupted(deadline):
            for name, stage_settings in rounds(settings):
                plan = climb.round(name, stage_settings)
            climb.last(plan)
    except TimeUp:
        climb.cut = True
    return climb.handed_over()


def rounds(settings: Settings) -> list[tuple[str, Settings]]:
    """By name, from the quickest on; the last is as given."""
    plain = settings.changed(plain_only=True)
    if settings.best is None:
        return [("fast", plain), ("", settings)]
    if settings.best.plain.plain_only:
        return [("", settings)]
    good = settings.changed(**GOOD)
    return [("fast", plain), *([("good", good)] if good != settings else []), ("", settings)]


class Round:
    """The checkpoint of a round before the last: its nets under names of their own, no supernet."""

    def __init__(self, inner: Memory | None) -> None:
        self.inner = inner

    def load(self) -> tuple[dict[str, Tensor], list[Row]] | None:
        return None

    def save(self, tensors: Callable[[], dict[str, Tensor]], history: list[Row]) -> None:
        pass

    def recall(self, name: str) -> Trained | None:
        return None if self.inner is None else self.inner.recall(name)

    def remember(self, name: str, trained: Trained) -> None:
        if self.inner is not None:
            self.inner.remember(name, trained)


class Climb:
    """What the rounds leave behind: the best net, rows, decisions, the leaderboard."""

    def __init__(
        self,
        graph: Graph,
        deadline: Deadline,
        seed: int,
        metric: Metric,
        on_epoch: Callable[[Row], None] | None,
        checkpoint: Checkpoint | None,
        jobs: int,
    ) -> None:
        self.graph, self.deadline, self.seed, self.metric = graph, deadline, seed, metric
        self.on_epoch, self.checkpoint, self.jobs = on_epoch, checkpoint, jobs
        self.best, self.began, self.cut = BestSoFar(), time.perf_counter(), False
        self.logs: dict[str, Decisions] = {}
        self.rows: list[Row] = []
        self.board: list[Standing] = []
        self.at = "first"

    def first(self, settings: Settings) -> None:
        """One plain net, on the edges as given unless both directions are asked for."""
        both_ways = settings.direction == "both"
        graph = symmetrised(self.graph, both_ways)
        settings = settings if settings.best is not None else settings.changed(plain_only=False)
        trials = Trials(
            graph,
            seed=self.seed,
            metric=self.metric,
            tell=self.tell,
            memory=self.checkpoint,
            deadline=self.deadline,
            prefix="first: ",
        )
        trials.board = self.board
        trial = first_plain(trials, settings)
        self.best.offer(trial, lambda: plan_of(trial, graph, settings, symmetrised=both_ways))

    def round(self, name: str, settings: Settings) -> Plan:
        self.at, self.logs[name] = name, Decisions()
        return pipeline.search(
            self.graph,
            settings,
            seed=self.seed,
            metric=self.metric,
            on_epoch=self.tell,
            checkpoint=Round(self.checkpoint) if name else self.checkpoint,
            jobs=self.jobs,
            deadline=self.deadline,
            best_so_far=self.best,
            prefix=f"{name}: " if name else "",
            log=self.logs[name],
            board=self.board,
        )

    def last(self, plan: Plan) -> None:
        """What the last round found, retrained as it would be without a limit."""
        blind = replace(self.graph, test_mask=torch.zeros_like(self.graph.test_mask))
        solution = retrain(blind, plan, seed=self.seed, metric=self.metric)
        value = solution.scores.get(self.metric, solution.scores["accuracy"]).get("val")
        if value is not None:
            self.best.offer_solution(plan, solution, value)

    def tell(self, row: Row) -> None:
        if "stage" in row or self.at == "":
            self.rows.append(row | {"epoch": len(self.rows) + 1})
        if self.on_epoch is not None:
            self.on_epoch(row)

    def handed_over(self) -> Incumbent:
        taken = self.best.taken
        assert taken is not None
        where = taken.name.partition(": ")[0] if ": " in taken.name else ""
        log = self.logs.get(where, Decisions()).made
        plan = replace(
            taken.plan,
            history=self.rows,
            seconds=time.perf_counter() - self.began,
            decisions=(*log, self.decision(taken)),
            leaderboard=with_taken(self.board, taken.name, REASON),
        )
        return replace(taken, plan=plan, cut=self.cut)

    def decision(self, taken: Incumbent) -> Decision:
        """What the time limit cut short, and whose net was taken."""
        step = str(self.rows[-1].get("stage", "search")) if self.rows else "search"
        at = {"first": "the first net", "": "the settings as given"}.get(self.at, self.at)
        what = f"cut short in the round of {at}, after the stage {step}" if self.cut else "all done"
        rows = [row for row in self.board if row.val_score is not None]
        tried: tuple[Row, ...] = tuple(
            {"name": row.name, "score": row.val_score or 0.0}
            for row in rows
            if row.kind in ("plain", "student")
        )
        return Decision(
            stage="time limit",
            taken=f"{what}; {taken.name}",
            tried=tried,
            statistic="highest validation score",
        )
