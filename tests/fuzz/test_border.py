"""The harness itself: a fault that is put in is caught."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from gassip.errors import GassipError, GassipErrors
from tests.fuzz import border
from tests.fuzz.border import STATUS, called, names, refused


def raising(error: Exception) -> Callable[[], object]:
    def read() -> object:
        raise error

    return read


def test_only_one_clear_line_is_a_refusal() -> None:
    assert refused("good", lambda: 1) == ""
    assert refused("bad", raising(GassipError("x is missing"))) == "x is missing"
    assert refused("table", raising(GassipErrors(["a", "b"]))) == "a\nb"
    for error in (KeyError("x"), ValueError("shapes"), MemoryError(), GassipError("a\nb")):
        with pytest.raises(AssertionError):
            refused("a fault", raising(error))


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (1, "gassip: error: a"),  # another status
        (2, ""),  # nothing said
        (2, "gassip: error: a\nTraceback (most recent call last):"),
        (2, "gassip: error: a\nRuntimeWarning: overflow"),  # of a library
        (2, "\n".join(["gassip: error: a"] * 11)),
    ],
)
def test_a_call_that_ends_otherwise_is_caught(status: int, said: str) -> None:
    def start(words: Sequence[str]) -> int:
        print(said, file=sys.stderr, end="")
        return status

    with pytest.raises(AssertionError):
        called(["predict"], start)


def test_time_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(border, "SECONDS", 1e-4)
    with pytest.raises(AssertionError, match="too slow"):
        refused("slow", lambda: sum(range(10**6)))


@pytest.mark.skipif(not STATUS.exists(), reason="the peak can be forgotten on Linux alone")
def test_memory_is_measured_again_for_each_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a higher peak too."""
    np.ones(3 * 10**7)
    monkeypatch.setattr(border, "BYTES", 5e7)
    with pytest.raises(AssertionError, match="too much memory"):
        refused("large", lambda: np.ones(10**7))
    assert refused("small", lambda: np.ones(10**6)) == ""


def test_what_is_left_behind_is_seen(tmp_path: Path) -> None:
    (tmp_path / "o.partial").mkdir()
    (tmp_path / "o.partial" / "w").touch()
    assert names(tmp_path) == {"o.partial", str(Path("o.partial", "w"))}
