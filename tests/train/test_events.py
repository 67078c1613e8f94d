"""Events: the keys, the best so far, the time left that ends at 0."""

import pytest

from gassip.train.deadline import Deadline
from gassip.train.events import Event, Steps, Watch

STEPS = Steps(search=4, stage=2, retrain=10)


def watched(monkeypatch: pytest.MonkeyPatch, deadline: Deadline | None = None) -> list[Event]:
    """Four epochs of 2 s, two nets of 10 s, ten epochs of 1 s, on a clock of our own."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    heard: list[Event] = []
    watch = Watch(heard.append, STEPS, deadline=deadline)
    for _ in range(4):
        now[0] += 2
        watch.row({"val_score": 0.99})
    for value in (0.5, 0.4):
        now[0] += 10
        watch.row({"stage": "candidate", "val_score": value})
    for epoch in range(1, 11):
        now[0] += 1
        watch.retrained({"epoch": epoch, "val_score": 0.06 * epoch})
    watch.done()
    return heard


def test_time_left_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = watched(monkeypatch)
    assert [own["phase"] for own in heard] == ["search"] * 4 + ["stage"] * 2 + ["retrain"] * 10 + [
        "done"
    ]
    left = [float(own["left"]) for own in heard]
    # after one epoch: 3 of 2 s, then 2 nets of 10 · 2/20 s, then 10 epochs of 2/20 s
    assert left[0] == 3 * 2 + 2 * 1 + 10 * 0.1
    # after one net of 10 s: another, then ten epochs of a tenth each
    assert left[4] == 10 + 10
    assert left[6:16] == [9.0 - k for k in range(10)]
    assert left[-1] == 0 and heard[-1]["elapsed"] == 38


def test_the_best_is_that_of_nets_not_of_the_supernet(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = watched(monkeypatch)
    assert "best" not in heard[3] and heard[5]["best"] == 0.5 and heard[-1]["best"] == 0.6


def test_no_more_is_left_than_to_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = watched(monkeypatch, Deadline(105.0))
    assert [own["left"] for own in heard[:3]] == [3.0, 1.0, 0.0]


def test_the_first_step_of_a_phase_is_no_measure_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Loading libraries took 50 s, each epoch after it 1 s."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    heard: list[Event] = []
    watch = Watch(heard.append, Steps(search=12, stage=0, retrain=0))
    for seconds in (50, 1, 1):
        now[0] += seconds
        watch.row({"val_score": 0.5})
    assert heard[2]["left"] == 9
