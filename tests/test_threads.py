"""Threads while nets are trained: one unless chosen, and restored."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch

import gassip
from gassip.graph.graph import Graph
from gassip.threads import CHOSEN, one_thread

QUICK = {"hidden": 4, "epochs": 1, "warmup_epochs": 1, "retrain_epochs": 1, "induced_from": 1}


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before, mark = torch.get_num_threads(), CHOSEN.set(False)
    torch.set_num_threads(2)
    yield
    CHOSEN.reset(mark)
    torch.set_num_threads(before)


@pytest.fixture
def seen(make_graph: Callable[..., Graph]) -> Callable[[], set[int]]:
    """The threads that a search and both trainings have."""
    graph = make_graph(nodes=40, edges=120)

    def seen() -> set[int]:
        found = set[int]()
        settings = gassip.preset("paper", graph, QUICK)
        note = lambda row: found.add(torch.get_num_threads())  # noqa: E731
        plan = gassip.search(graph, settings, on_epoch=note)
        gassip.retrain(graph, plan, on_epoch=note)
        gassip.GassipClassifier(preset="paper", settings=QUICK, callback=note).fit(graph)
        return found

    return seen


def test_training_has_one_thread_and_the_caller_as_many_as_before(
    seen: Callable[[], set[int]],
) -> None:
    assert seen() == {1} and torch.get_num_threads() == 2


def test_a_chosen_number_is_kept(seen: Callable[[], set[int]]) -> None:
    gassip.set_threads(2)
    assert seen() == {2} and torch.get_num_threads() == 2


def test_threads_are_restored_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), one_thread():
        assert torch.get_num_threads() == 1
        raise ZeroDivisionError
    assert torch.get_num_threads() == 2


def test_scipy_has_one_thread_too_though_nothing_has_used_it() -> None:
    """Its BLAS is a library of its own; one that is loaded later would have all cores."""
    told = run_python(
        "from gassip.threads import set_threads; set_threads(1); import scipy.optimize; "
        "from threadpoolctl import threadpool_info; "
        "print({own['num_threads'] for own in threadpool_info()})"
    )
    assert told == "{1}"


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()
