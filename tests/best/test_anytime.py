"""Searches with a time limit: valid at any limit, never worse with more time, resumable."""

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gassip.best import anytime
from gassip.best.anytime import Climb, rounds, search, search_until
from gassip.best.incumbent import BestSoFar, plan_of
from gassip.best.plain import choose_plain
from gassip.best.trials import Trials
from gassip.budget.budget import Budget
from gassip.budget.timed import Limit, Search
from gassip.cli import main
from gassip.graph.graph import Graph
from gassip.runs.read import open_run, read_leaderboard
from gassip.settings import Settings, preset
from gassip.settings.presets import GOOD, best, fast, good
from gassip.train.deadline import Deadline, TimeUp, interrupted
from gassip.train.events import Event
from tests.best.stages import garbled, two_groups
from tests.conftest import random_graph
from tests.small import bare_best

QUICK = {"hidden": 8, "epochs": 3, "warmup_epochs": 1, "retrain_epochs": 6, "plain_epochs": 6}
QUICK_BEST = bare_best(**QUICK, teachers=2, candidates=2, students=1, plain=("GCNConv+GCNConv",))
LONG = Deadline.after(3600)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return random_graph(3, nodes=60, edges=200)


@pytest.fixture(autouse=True)
def small_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """The round before the last in a moment."""
    monkeypatch.setattr(anytime, "GOOD", {"candidates": 1, "teachers": 1})


class Ends:
    """Raises TimeUp after so many rows: a deadline that does not depend on the machine."""

    def __init__(self, rows: int) -> None:
        self.left = rows

    def __call__(self, row: Event) -> None:
        self.left -= 1
        if self.left < 0:
            raise TimeUp


def test_the_ladder_of_rounds() -> None:
    assert [name for name, _ in rounds(best())] == ["fast", "good", ""]
    assert [name for name, _ in rounds(fast())] == [""]
    assert [name for name, _ in rounds(Settings())] == ["fast", ""]
    assert rounds(best())[-1][1] == best() and best().changed(**GOOD) == good()


def test_more_time_never_gives_a_worse_score() -> None:
    graph = two_groups(blind=False)
    values = [search_until(graph, QUICK_BEST, Deadline.after(-1)).value]
    for rows in (1, 2, 4, 8, 11):
        found = search_until(graph, QUICK_BEST, LONG, on_epoch=Ends(rows))
        values.append(found.value)
        decision = found.plan.decisions[-1]
        assert decision.stage == "time limit"
        assert decision.taken.startswith("cut short in the round of") == found.cut
    whole = search_until(graph, QUICK_BEST, LONG)
    assert values == sorted(values) and whole.value >= values[-1] and not whole.cut
    assert values[0] < whole.value  # it is not that nothing was found


def test_the_net_handed_over_is_the_one_that_was_judged(graph: Graph) -> None:
    found = search_until(graph, QUICK_BEST, LONG)
    solution = found.solution(graph, began=time.perf_counter())
    assert solution.accuracy["val"] == pytest.approx(found.value) and "test" in solution.accuracy
    assert solution.best_epoch >= 1
    board = found.plan.leaderboard
    if found.name != "retrained":
        assert [own.name for own in board if own.taken] == [found.name]
    assert {"first: plain given 0", "fast: plain given 0", "candidate trial 0"} <= {
        o.name for o in board
    }


def test_test_labels_are_not_read(graph: Graph) -> None:
    found = [search_until(own, QUICK_BEST, LONG) for own in (graph, garbled(graph))]
    for one, other in zip(*(own.net.parameters() for own in found), strict=True):
        assert torch.equal(one, other)


def test_a_deadline_that_has_passed_gives_a_net_of_one_epoch(graph: Graph) -> None:
    for jobs in (1, 2):
        found = search_until(graph, QUICK_BEST, Deadline.after(-1), jobs=jobs)
        assert found.cut and found.name == "first: plain given 0" and found.best_epoch == 1


def test_worker_processes_end_at_the_deadline(graph: Graph) -> None:
    slow = QUICK_BEST.changed(retrain_epochs=100_000, plain_epochs=6)
    began = time.monotonic()
    found = search_until(graph, slow, Deadline.after(3.0), jobs=2)
    assert found.cut and time.monotonic() - began < 30  # 100,000 epochs take minutes
    assert found.name.split(":")[0] in ("first", "fast")


def test_a_net_cut_short_in_a_process_does_not_count(graph: Graph) -> None:
    """Where there are no signals, such as in a thread: the training looks at the clock itself."""
    trials = Trials(graph, seed=0, metric="accuracy", tell=lambda row: None, jobs=2)
    trials.deadline = Deadline.after(-1)
    with pytest.raises(TimeUp):
        choose_plain(trials, QUICK_BEST.changed(recipes=("strong", "medium")))


def test_a_step_is_interrupted_in_its_midst() -> None:
    began = time.monotonic()
    with pytest.raises(TimeUp), interrupted(Deadline.after(0.3)):
        while time.monotonic() - began < 30:
            sum(range(1000))
    assert time.monotonic() - began < 20


def test_the_smaller_of_equals_stays(graph: Graph) -> None:
    trials = Trials(graph, seed=0, metric="accuracy", tell=lambda row: None)
    small = choose_plain(trials, QUICK_BEST).value
    large = choose_plain(trials, QUICK_BEST.changed(size_share=2.0)).value
    assert small.net.num_weights()[0] < large.net.num_weights()[0]
    equal = [replace(own, value=0.5) for own in (large, small)]
    for order in (equal, equal[::-1]):
        held = BestSoFar()
        for own in order:
            held.offer(own, lambda own=own: plan_of(own, graph, QUICK_BEST, symmetrised=False))  # type: ignore[misc]
        assert held.taken is not None and held.taken.net is small.net


def test_fast_takes_the_best_plain_net(graph: Graph) -> None:
    plan = search(graph, preset("fast", graph, {"plain_epochs": 5, "retrain_epochs": 5}))
    (decision,) = [own for own in plan.decisions if own.stage == "plain"]
    scores = [float(row["score"]) for row in decision.tried]
    assert len(scores) == 8  # four recipes, one standardised, three more architectures
    (taken,) = [own for own in plan.leaderboard if own.taken]
    assert taken.val_score == max(scores) and plan.teacher is None and bool(plan.edge_keep.all())


def test_good_has_a_teacher(graph: Graph) -> None:
    assert set(GOOD) <= best().flat().keys()
    plan = search(graph, preset("good", graph, QUICK | {"trial_epochs": 3}))
    assert plan.teacher is not None and plan.settings.flat()["candidates"] == 3


def test_events_of_a_search(graph: Graph) -> None:
    heard: list[Event] = []
    search(graph, QUICK_BEST, on_event=heard.append, time_limit="1h")
    assert heard[-1]["phase"] == "done" and heard[-1]["left"] == 0
    assert {"search", "stage"} <= {own["phase"] for own in heard}
    bests = [float(own["best"]) for own in heard if "best" in own]
    assert bests == sorted(bests)


def test_a_budget_is_kept_under_a_time_limit(graph: Graph) -> None:
    budget = Budget(max_params=60)
    limit = Limit(Deadline.after(60), Deadline.after(61), 61.0)
    found = Search(
        graph, QUICK_BEST, budget, 0, "accuracy", hear=lambda row: None, again=lambda row: None
    ).run(None, 1, limit)
    assert found.solution.size is not None and found.solution.size.params <= 60


# The command


@pytest.fixture
def data(graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    masks = {f"{own}_mask": graph.mask(own).numpy() for own in ("train", "val", "test")}
    assert isinstance(graph.x, torch.Tensor)
    arrays = {"x": graph.x.numpy(), "edge_index": graph.edge_index.numpy(), "y": graph.y.numpy()}
    np.savez("graph.npz", **arrays, **masks)  # type: ignore[arg-type]
    flat = {k: v for k, v in QUICK_BEST.flat().items() if k in QUICK} | {
        "recipes": ["given"],
        "candidates": 2,
        "students": 1,
        "knn": 0,
        "size_steps": [],
    }
    Path("quick.json").write_text(json.dumps(flat))
    return "graph.npz"


def test_resumed_with_a_longer_limit(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["search", "--data", data, "--settings", "quick.json", "--out", "run", "--jobs", "1"]
    tell = Climb.tell

    def ends(self: Climb, row: dict[str, float | str]) -> None:
        tell(self, row)
        if len(self.rows) == 4:
            raise TimeUp

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Climb, "tell", ends)
        assert main([*words, "--time-limit", "1h"]) == 0
    assert "--time-limit 7200s --resume" in capsys.readouterr().err
    first, kept = open_run("run"), {own.name for own in Path("run.partial").iterdir()}
    assert "cut short" in first.plan.decisions[-1].taken and len(kept) >= 3
    assert main([*words, "--time-limit", "2h"]) == 2  # there is a run already
    assert main([*words, "--time-limit", "2h", "--resume"]) == 0
    second = open_run("run")
    assert second.plan.decisions[-1].taken.startswith("all done")
    assert second.meta["accuracy"]["val"] >= first.meta["accuracy"]["val"]
    assert not Path("run.partial").exists()


def test_limit_refit_and_leaderboard(
    data: str, graph: Graph, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["search", "--data", data, "--settings", "quick.json", "--quiet", "--jobs", "1"]
    assert main([*words, "--out", "run", "--time-limit", "1h"]) == 0
    assert not Path("run.partial").exists()
    run = open_run("run")
    assert run.plan.decisions[-1].taken.startswith("all done")
    board = read_leaderboard(run.folder, run.meta)
    assert sum(own.taken for own in board) == 1
    capsys.readouterr()
    assert main(["leaderboard", "run"]) == 0
    assert "* taken: " in capsys.readouterr().out
    assert main(["refit", "run", "--quiet"]) == 0
    again = open_run("run-refit")
    assert int(again.masks["train"].sum()) == int((graph.train_mask | graph.val_mask).sum())
    assert again.meta["accuracy"]["val"] is None and again.meta["accuracy"]["test"] is not None
    assert again.meta["best_epoch"] == run.meta["best_epoch"]
    assert main(["predict", "run-refit", "--out", "labels.csv"]) == 0
    capsys.readouterr()
    assert main(["refit", "run-refit"]) == 2
    assert "a refit already" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main([*words, "--out", "other", "--time-limit", "soon"])
    assert "give a duration such as 60s" in capsys.readouterr().err
