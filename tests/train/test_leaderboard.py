"""The leaderboard by hand: its order, the one taken and why, the stored form."""

import json
from pathlib import Path

import pytest

from gassip.cli import main
from gassip.errors import GassipError
from gassip.train.leaderboard import (
    Standing,
    final,
    from_rows,
    kind_of,
    ranked,
    to_rows,
    with_taken,
)

SCHEMA_1 = Path(__file__).parent.parent / "fixtures" / "schema-1"


def net(name: str, value: float | None, weights: int, macs: int = 10) -> Standing:
    kind = kind_of(name)
    return Standing(
        name=name, kind=kind, architecture="GCNConv", val_score=value, weights=weights, macs=macs
    )


BOARD = (
    net("candidate 0", 0.9, 50),
    net("student 0", 0.7, 20),
    net("student 1", 0.7, 10),
    net("student 2", 0.7, 10, macs=5),
    net("recipe strong 0", None, 1),
)


def test_ties_go_to_the_smaller() -> None:
    names = [own.name for own in ranked(BOARD)]
    assert names == ["candidate 0", "student 2", "student 1", "student 0", "recipe strong 0"]


def test_kinds() -> None:
    names = ("plain 0", "recipe strong 0", "candidate 3", "kNN teacher 0", "edges support 0.9 0")
    assert [kind_of(own) for own in names] == [
        "plain",
        "recipe",
        "candidate",
        "teacher",
        "student",
    ]


def test_the_one_taken_says_why() -> None:
    (taken,) = [own for own in with_taken(BOARD, "student 1") if own.taken]
    assert taken.name == "student 1"
    assert taken.reason == "no student of 3 has a higher validation score"
    board = (*BOARD, net("student 3", 0.8, 30))
    (taken,) = [own for own in with_taken(board, "student 1") if own.taken]
    assert taken.reason.startswith("1 with a higher score, not beyond chance")


def test_the_retrained_net_is_taken_where_nothing_else_was_trained() -> None:
    own = Standing(name="retrained", kind="final", architecture="GCNConv", val_score=0.5)
    assert [row.taken for row in final((), own)] == [True]
    marked = final(with_taken(BOARD, "student 0"), own)
    assert [row.name for row in marked if row.taken] == ["student 0"] and len(marked) == 6


def test_stored_and_read_back() -> None:
    board = (*BOARD, net("student 9", float("nan"), 3))
    rows = json.loads(json.dumps(to_rows(board), allow_nan=False))
    assert from_rows(rows, "there")[:5] == BOARD and rows[5]["val_score"] is None
    wrong: object
    for wrong in ({}, [1], [{"name": "x"}], [rows[0] | {"weights": True}]):
        with pytest.raises(GassipError, match="there"):
            from_rows(wrong, "there")


def test_an_old_run_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    folder = next(own for own in sorted(SCHEMA_1.iterdir()) if (own / "meta.json").exists())
    assert main(["leaderboard", str(folder)]) == 2
    assert "has no leaderboard.json" in capsys.readouterr().err
