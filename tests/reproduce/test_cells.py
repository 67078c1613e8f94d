"""Which runs a cell needs, which records fill it, and what is written of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from gassip.bench.records import Book, Record, Run
from gassip.graph.graph import Graph
from gassip.reproduce import tables
from gassip.reproduce.cells import Amount, Cell, Shelf, planned
from gassip.reproduce.experiments import Column, Experiment, Row, control, curve, graph, row
from gassip.reproduce.figures import drawn, number
from gassip.reproduce.pages import MARK, Part, escaped, html, markdown
from tests.conftest import random_graph

COLUMN = graph("toy")
GCN, GASSIP = row("GCN", "gcn", hidden=8), row("GASSIP", "gassip", epochs=4)


@pytest.fixture(scope="module")
def toy() -> Graph:
    return random_graph(2, nodes=60, edges=160)


def record(run: Run, test: float, **more: Any) -> Record:
    given = {"status": "ok", "accuracy": {"test": test}, "seconds": {"search": 3.0, "retrain": 2.0}}
    return Record(run=run, **(given | {"weights_kept": 100, "edges_kept": 9} | more))


def cell(toy: Graph, method: Row, tests: list[float], **more: Any) -> Cell:
    """With one record of each seed."""
    empty = planned(method, COLUMN, toy, Amount(1, len(tests)))
    made = [record(run, test, **more) for run, test in zip(empty.runs, tests, strict=True)]
    return replace(empty, there=made)


def test_the_runs_of_a_cell_by_hand(toy: Graph) -> None:
    """Two searches with three trainings each; of a method without a search as many trainings."""
    runs = planned(GCN, COLUMN, toy, Amount(2, 3)).runs
    assert [(run.search_seed, run.retrain_seed) for run in runs] == [(None, k) for k in range(6)]
    assert {run.settings["hidden"] for run in runs} == {8}
    searched = planned(GASSIP, COLUMN, toy, Amount(2, 3)).runs
    seeds = [(run.search_seed, run.retrain_seed) for run in searched]
    assert seeds == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    noisy = Column(label="5k", dataset="toy", noise=5000)
    assert planned(GCN, noisy, toy, Amount(1, 1)).runs[0].noise == 5000


def test_other_versions_and_settings_are_not_mixed_in(toy: Graph, tmp_path: Path) -> None:
    book, empty = Book(tmp_path), planned(GCN, COLUMN, toy, Amount(1, 3))
    first = empty.runs[0]
    book.append(record(first, 0.8))
    book.append(record(replace(first, retrain_seed=7), 0.9))  # a seed that was not asked for
    book.append(record(replace(first, retrain_seed=1), 0.1, method_version=empty.version + 1))
    book.append(record(replace(first, settings=first.settings | {"hidden": 9}), 0.2))
    book.append(record(replace(first, noise=5), 0.3))
    filled = Shelf(book).fill(empty)
    assert sorted(record.accuracy["test"] for record in filled.there) == [0.8, 0.9]
    assert filled.stale == [empty.version + 1]
    assert [run.retrain_seed for run in filled.left()] == [1, 2]
    # mean of 80 and 90, deviation sqrt(50)
    assert tables.figure(filled) == "85.00 ± 7.07° (2)"


def test_a_failed_run_is_tried_again_when_asked(toy: Graph) -> None:
    failed = cell(toy, GCN, [0.0, 0.0], status="oom")
    assert failed.left() == [] and len(failed.left(retry=True)) == 2
    assert tables.figure(failed) == "out of memory"
    half = replace(failed, there=[failed.there[0], record(failed.runs[1], 0.5)])
    assert tables.figure(half) == "50.00° (1, 1 failed)"


def test_times_of_missing_runs(toy: Graph, tmp_path: Path) -> None:
    book, asked = Book(tmp_path), planned(GASSIP, COLUMN, toy, Amount(2, 3))
    shelf = Shelf(book)
    assert shelf.seconds(asked.runs) is None and shelf.seconds([]) == 0
    book.append(record(replace(asked.runs[0], settings={}), 0.5))
    assert Shelf(book).seconds(asked.runs) == 2 * 3.0 + 6 * 2.0


def test_seconds_of_a_search_count_once(toy: Graph) -> None:
    filled = cell(toy, GASSIP, [0.5, 0.5])
    assert tables.figure(filled, "search") == "3.0 (1)"
    assert tables.figure(filled, "retrain") == "2.0 (2)"
    assert tables.figure(replace(filled, row=replace(GASSIP, whole=True)), "search") == "5.0 (2)"
    together = cell(toy, GCN, [0.5, 0.5], batched=2)
    assert tables.figure(together, "retrain") == "2.0† (2)"


def test_counts_of_searches(toy: Graph) -> None:
    runs = planned(GASSIP, COLUMN, toy, Amount(2, 3)).runs
    made = [record(run, 0.5) for run in runs]
    assert tables.counted(made) == "2 × 3" and tables.counted(made[:5]) == "5"


def test_a_grid_by_hand(toy: Graph) -> None:
    rows = (GCN, control("C", "mlp"))
    experiment = Experiment(title="T", show="accuracy", columns=(COLUMN,), rows=rows)
    cells = {(GCN, COLUMN): cell(toy, GCN, [0.5])}
    made = tables.grid("none", experiment, cells)
    assert made.heads == ["method", "toy"]
    assert made.rows == [["GCN", "50.00° (1)"], ["control: C", "–"]]
    cora = graph("cora")
    beside = tables.grid("main", replace(experiment, columns=(cora,)), {})
    assert beside.heads == ["method", "Cora", "printed"]
    assert beside.rows[0] == ["GCN", "–", "80.93±0.67"]


def test_a_control_is_compared_by_search(toy: Graph) -> None:
    """Search 0: 60 and 62 less 50 and 50, 11; search 1: 55 less 50, 5: 8 ± 3."""
    other = replace(control("C", "gassip-all-edges"), control_of="GASSIP")
    both = []
    for method, tests in ((GASSIP, (0.60, 0.62, 0.55)), (other, (0.5, 0.5, 0.5))):
        empty = planned(method, COLUMN, toy, Amount(2, 2))
        made = [record(run, test) for run, test in zip(empty.runs, tests, strict=False)]
        both.append(replace(empty, there=made))
    assert tables.differences(both) == [
        "toy: GASSIP less “C”: +8.00 ± 3.00 (standard error over 2 searches)."
    ]
    assert tables.differences(both[1:]) == []


def test_sizes_and_architectures_by_hand(toy: Graph) -> None:
    experiment = Experiment(title="T", show="sizes", columns=(COLUMN,), rows=(GASSIP,))
    filled = cell(toy, GASSIP, [0.5], edges_total=10, architecture=["GCNConv", "Linear"])
    (made,) = tables.sizes("none", experiment, {(GASSIP, COLUMN): filled})
    assert made.rows == [["GASSIP", "50.00 (1 × 1)", "100", "9 (90%)"]]
    shown = tables.architectures("none", experiment, {(GASSIP, COLUMN): filled})
    assert shown.rows == [["toy", "GCNConv ‖ Linear (1)", "–"]]


def test_remarks_name_what_is_missing(toy: Graph) -> None:
    empty = replace(planned(GCN, COLUMN, toy, Amount(1, 3)), stale=[0])
    assert tables.remarks([empty]) == [
        "3 of the 3 runs asked for are missing.",
        "Records of other versions of a method are not used: gcn (now version 1).",
    ]


@pytest.mark.parametrize("draw", ["dots", "scatter", "curves"])
def test_drawings_are_whole(toy: Graph, draw: Any) -> None:
    rows = (*curve("lambda1", "λ1", (0, 1)), control("C", "gcn"))
    experiment = Experiment(title="T", show="accuracy", draw=draw, columns=(COLUMN,), rows=rows)
    assert drawn("none", experiment, {}) is None
    cells = {(one, COLUMN): cell(toy, one, [0.5, 0.6]) for one in rows}
    made = drawn("none", experiment, cells)
    assert made is not None
    texts = [part.text for part in ElementTree.fromstring(made.svg()).iter()]
    assert "toy" in texts and len(texts) > 10


def test_the_mean_of_a_printed_cell() -> None:
    assert number("83.20±0.42") == 83.2 and number("13,428") == 13428
    assert number("OOM") is None and number(None) is None


def test_no_text_becomes_markup() -> None:
    hostile = "<b>|*x*\n[y](z)"
    made = tables.Table(hostile, ["a"], [[hostile]])
    part = Part("n", hostile, [made], None, [hostile])
    text = markdown([part], [hostile]).decode()
    assert text.startswith(MARK) and "<b>" not in text and "\n\\[y" not in text
    assert escaped("a|b") == "a\\|b"
    assert b"<b>" not in html([part], [hostile])
