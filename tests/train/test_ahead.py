"""Work that is done before it is asked for has the same results, and is otherwise not heard of."""

import os
import time
from collections.abc import Iterator
from operator import eq

import pytest

from gassip.errors import GassipError
from gassip.train.ahead import Ahead


def square(number: int) -> int:
    if number < 0:
        raise GassipError(f"{number} is refused")
    return number * number


def process_of(number: int) -> int:
    time.sleep(0.2 if number else 0.0)
    return os.getpid()


@pytest.fixture(params=[1, 2, 3])
def squares(request: pytest.FixtureRequest) -> Iterator[Ahead[int, int]]:
    own = Ahead(square, eq, request.param)
    yield own
    own.close()


def test_results_do_not_depend_on_what_was_expected(squares: Ahead[int, int]) -> None:
    squares.expect([4, 5, 6])
    squares.look()
    assert sorted(squares.results([5, 2, 4], [7, 8])) == [(0, 25), (1, 4), (2, 16)]
    assert sorted(squares.results([8, 6])) == [(0, 64), (1, 36)]
    assert list(squares.results([3])) == [(0, 9)]


def test_errors_are_heard_of_only_where_they_are_asked_for(squares: Ahead[int, int]) -> None:
    squares.expect([-1, 3])
    assert sorted(squares.results([3, 4], [-2])) == [(0, 9), (1, 16)]
    with pytest.raises(GassipError, match="-1 is refused"):
        list(squares.results([-1]))


def test_what_is_expected_is_done_elsewhere_and_once() -> None:
    own = Ahead(process_of, eq, 2)
    own.expect([1])
    while own.batches:
        time.sleep(0.05)
        own.look()
    ((_, first),) = own.results([1])
    assert first != os.getpid() and own.done == []
    assert list(own.results([1])) == [(0, os.getpid())]  # alone: here, and anew
    own.close()


def test_one_process_does_nothing_before_it_is_asked_for() -> None:
    own = Ahead(process_of, eq, 1)
    own.expect([0, 1])
    assert own.batches == [] and list(own.results([0], [1])) == [(0, os.getpid())]
    assert own.batches == []


def test_what_waits_behind_something_asked_for_is_not_forgotten() -> None:
    own = Ahead(process_of, eq, 2)
    own.expect([1, 2, 3])  # one after the other, in one process
    assert len(list(own.results([0]))) == 1
    while own.batches:
        time.sleep(0.05)
        own.look()
    assert sorted(number for number, _ in own.done) == [1, 2, 3]
