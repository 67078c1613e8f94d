"""Shares of the time, and trainings that fit into what is left."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from gassip.graph.store import GraphFolder
from gassip.large.rows.job import Job, chosen_nodes, prepared
from gassip.large.rows.nets import Shape
from gassip.large.rows.pace import MARGIN, Pace
from gassip.large.rows.search import Options
from gassip.large.rows.trials import for_workers, train_task
from gassip.train.deadline import Deadline

Paths = tuple[Path, Path]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_stage_has_its_share_and_what_it_leaves_is_the_next_ones(clock: list[float]) -> None:
    pace = Pace(Deadline(200.0))
    with pace.within(0.3):
        assert pace.deadline == Deadline(130.0)
        clock[0] = 110.0
    assert pace.deadline == Deadline(200.0)
    with pace.within(0.5):
        assert pace.deadline == Deadline(155.0)
        clock[0] = 156.0
        assert not pace.allows(0.0)
    assert pace.shortened
    pace.keep(40.0)
    assert pace.allows(3.9) and not pace.allows(4.1)


def test_epochs_then_rows_fall_to_what_fits(clock: list[float]) -> None:
    """1,000 rows of 10 weights took a second: MARGIN · 10 000 rows a second fit for one weight."""
    pace = Pace(Deadline(100.0 + 20.001 * MARGIN))
    assert pace.fitted(10_000, 8, 10) == (10_000, 8)  # nothing was measured
    pace.measured(1.0, 1_000, 10)
    assert pace.fitted(1_000, 8, 10) == (1_000, 8)
    assert pace.fitted(4_000, 8, 10) == (4_000, 5)
    assert pace.shortened
    assert pace.fitted(10_000, 8, 10) == (5_000, 4)
    clock[0] += 1_000
    assert pace.fitted(10_000, 8, 10) == (2_000, 4)  # the least: a run always has a student


def test_without_a_limit_nothing_is_left_out() -> None:
    pace = Pace()
    with pace.within(0.1):
        pace.measured(1.0, 1_000, 10)
        assert pace.fitted(10**9, 60, 10**6) == (10**9, 60)
    assert pace.allows(1e9) and not (pace.late or pace.shortened)


def test_a_short_trial_of_the_net_itself_says_how_many_epochs_fit(searched: Paths) -> None:
    """The rate of another net, a thousand seconds a row, does not shorten the training."""
    job = Job(graph=GraphFolder.open(searched[0]), hops=searched[0] / "hops", options=Options())
    pace = Pace(Deadline.after(600.0))
    pace.measured(1_000.0, 1, 1)
    trials = replace(prepared(job, chosen_nodes(job), "given"), pace=pace)
    made = trials.train("student", 0, Shape(hops=(0, 1), width=8), epochs=2, fit=True)
    assert made.seen >= 2 * (len(trials.tables.train) - 1) and not made.cut
    assert not pace.shortened and 0 < pace.training < 1


@pytest.mark.parametrize(("left", "cut"), [(600.0, False), (-1.0, True)])
def test_a_worker_with_another_clock_has_the_same_deadline(
    searched: Paths, monkeypatch: pytest.MonkeyPatch, left: float, cut: bool
) -> None:
    job = Job(graph=GraphFolder.open(searched[0]), hops=searched[0] / "hops", options=Options())
    tables = prepared(job, chosen_nodes(job), "given").tables
    settings = {"features": 6, "classes": 3, "epochs": 2, "threads": 1}
    told = for_workers(settings | {"deadline": Deadline.after(left)})
    here = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: here() + 5_000.0)
    made = train_task((tables.train, tables.val, told), Shape(hops=(0, 1), width=8), 0)
    assert made.cut is cut
