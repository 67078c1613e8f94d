"""Shares of the time, and trainings that fit into what is left."""

import time

import pytest

from gassip.large.rows.pace import MARGIN, Pace
from gassip.train.deadline import Deadline


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
