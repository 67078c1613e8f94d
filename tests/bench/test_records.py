import json
import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gassip.bench import execute
from gassip.bench.execute import (
    carry_out,
    graph_of,
    groups,
    jsonable,
    unfinished,
    unfinished_search,
)
from gassip.bench.records import Book, Record, Run, Status, latest, of_version, to_do
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.methods import changed, entry, plain_settings
from gassip.train.context import Event, Listener, RunContext
from gassip.train.plan import Solution
from tests.conftest import random_graph

RUN = Run(method="gcn", settings={"hidden": 64, "dropout": 0.5}, dataset="toy")


def record(seed: int = 0, status: Status = "ok") -> Record:
    return Record(
        run=replace(RUN, retrain_seed=seed), status=status, accuracy={"test": 0.5}, when="then"
    )


def test_the_key_depends_on_what_is_run_and_not_on_its_order() -> None:
    assert RUN.key == replace(RUN, settings={"dropout": 0.5, "hidden": 64}).key
    others = [
        replace(RUN, retrain_seed=1),
        replace(RUN, search_seed=0),
        replace(RUN, settings=RUN.settings | {"hidden": 65}),
        replace(RUN, noise=1),
        replace(RUN, attack="mettack-0.05"),
        replace(RUN, normalize=False),
        replace(RUN, metric="macro-f1"),
    ]
    assert len({RUN.key, *(own.key for own in others)}) == 8


@given(
    st.dictionaries(
        st.text(),
        st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.none(),
        max_size=4,
    )
)
def test_a_record_survives_its_line(details: dict[str, object]) -> None:
    own = replace(record(), details=details)
    assert own.to_line().count("\n") == 1
    assert Record.from_line(own.to_line()) == own


def test_a_setting_that_came_later_leaves_earlier_keys() -> None:
    before = Run(method="gassip", settings={"epochs": 250}, dataset="cora")
    usual = replace(before, settings=before.settings | {"certain_share": 1.0})
    other = replace(before, settings=before.settings | {"certain_share": 0.5})
    assert usual.key == before.key != other.key


def test_a_line_from_before_versions_is_of_version_1() -> None:
    content = json.loads(record().to_line())
    assert content.pop("method_version") == 1
    assert Record.from_line(json.dumps(content)) == record()
    del content["status"]
    with pytest.raises(ValueError, match="not a record: 'status'"):
        Record.from_line(json.dumps(content))


def test_a_new_version_of_a_method_is_run_anew_and_stands_before_the_old() -> None:
    old, new = record(), replace(record(status="failed"), method_version=2)
    assert of_version([old, new], "gcn", 2) == [new]
    assert of_version([old, new], "gat", 2) == [old, new]
    assert to_do([RUN], of_version([old], "gcn", 2), retry=False) == [RUN]
    assert latest([old, new]) == {RUN.key: new}


def test_records_need_no_torch() -> None:
    code = "import sys, gassip.bench.records; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_append_and_read(tmp_path: Path) -> None:
    book = Book(tmp_path / "results")
    assert book.read("toy") == ([], [])
    records = [record(seed) for seed in range(3)]
    for own in records:
        book.append(own)
    assert book.read("toy") == (records, [])
    assert book.datasets() == ["toy"]


def test_damaged_lines_are_named_and_set_aside(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.append(record(0))
    path = book.path("toy")
    other_key = record(1).to_line().replace(record(1).run.key, "0" * 24)
    with path.open("a") as file:
        file.write(
            "not json\n" + other_key + record(2).to_line()[:100]
        )  # the last one cut off by a crash
    book.append(record(3))  # on a line of its own all the same
    records, said = book.read("toy")
    assert records == [record(0), record(3)]
    assert [line.split(" is damaged")[0] for line in said] == [
        f"{path} line {n}" for n in (2, 3, 4)
    ]
    assert "its key does not fit" in said[1]
    aside = (tmp_path / "damaged" / "toy.jsonl").read_text().splitlines()
    assert aside == ["not json", other_key.strip(), record(2).to_line()[:100]]
    assert book.read("toy") == (records, [])  # once is enough
    assert len(path.read_text().splitlines()) == 2


def test_bytes_that_are_no_text_are_damaged_too(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.append(record(0))
    with book.path("toy").open("ab") as file:
        file.write(b"\xff\xfe\n")
    assert len(book.read("toy")[1]) == 1


def write_many(folder: str, first: int, count: int) -> None:
    book = Book(folder)
    for seed in range(first, first + count):
        book.append(replace(record(seed), details={"long": "x" * 5000}))
        if seed % 10 == 0:
            book.read("toy")


def test_several_processes_lose_and_mix_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")  # spawning would import torch four times
    workers = [
        context.Process(target=write_many, args=(str(tmp_path), 100 * at, 40)) for at in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    records, said = Book(tmp_path).read("toy")
    assert said == []
    assert sorted(own.run.retrain_seed for own in records) == [
        100 * at + k for at in range(4) for k in range(40)
    ]


def test_what_is_there_is_skipped_and_what_failed_only_tried_again_on_demand() -> None:
    runs = [replace(RUN, retrain_seed=seed) for seed in range(4)]
    there = [record(0), record(1, "failed"), record(2, "oom")]
    assert [own.retrain_seed for own in to_do(runs, there, retry=False)] == [3]
    assert [own.retrain_seed for own in to_do(runs, there, retry=True)] == [1, 2, 3]
    later = [*there, record(1)]
    assert [own.retrain_seed for own in to_do(runs, later, retry=True)] == [2, 3]
    assert latest([record(1), record(1, "failed")])[record(1).run.key].status == "ok"


def test_groups_differ_in_the_retrain_seed_only() -> None:
    runs = [replace(RUN, retrain_seed=r, search_seed=s) for s in (0, 1) for r in (0, 1, 2)]
    assert [[(own.search_seed, own.retrain_seed) for own in part] for part in groups(runs)] == [
        [(0, 0), (0, 1), (0, 2)],
        [(1, 0), (1, 1), (1, 2)],
    ]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    data = random_graph(2, nodes=60, edges=160).to_data()
    names = ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask")
    path = tmp_path_factory.mktemp("data") / "toy.npz"
    np.savez(path, **{name: data[name].numpy() for name in names})
    return str(path)


def runs_of(method: str, file: str, count: int, **settings: object) -> list[Run]:
    graph = graph_of(RUN, file)
    own = plain_settings(changed(entry(method).make(graph), settings))
    search = 0 if method == "gassip" else None
    first = replace(
        RUN, method=method, settings=own, fingerprint=graph.fingerprint, search_seed=search
    )
    return [replace(first, retrain_seed=seed) for seed in range(count)]


def carried(runs: list[Run], file: str) -> list[Record]:
    told: list[Record] = []
    carry_out(runs, lambda own, solution: told.append(own), path=file)
    return told


@pytest.mark.parametrize(
    ("method", "stages"), [("gcn", ["train"]), ("gassip", ["search", "train"])]
)
def test_every_stage_is_watched_to_its_end(file: str, method: str, stages: list[str]) -> None:
    seen: dict[str, tuple[int, list[Event]]] = {}

    @contextmanager
    def watch(stage: str, total: int) -> Iterator[Listener]:
        seen[stage] = (total, [])
        yield seen[stage][1].append

    short = {"epochs": 3, "hidden": 8}
    short |= {"warmup_epochs": 1, "retrain_epochs": 4} if method == "gassip" else {}
    carry_out(runs_of(method, file, 2, **short), lambda own, solution: None, path=file, watch=watch)
    assert list(seen) == stages
    for total, rows in seen.values():
        assert [row["epoch"] for row in rows] == list(range(1, total + 1))


def test_a_killed_search_goes_on_in_the_book_of_the_same_commit(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = runs_of("gassip", file, 2, epochs=60, hidden=8, warmup_epochs=1, retrain_epochs=4)
    whole = carried(runs, file)
    book, epochs, told = Book(tmp_path / "results"), [], []
    monkeypatch.setattr(execute, "commit_of", lambda: ("a" * 40, False))

    @contextmanager
    def watch(stage: str, total: int) -> Iterator[Listener]:
        def epoch(row: Event) -> None:
            epochs.append(row["epoch"])
            if row["epoch"] == killed_at:
                raise KeyboardInterrupt

        yield epoch

    killed_at = 30
    with pytest.raises(KeyboardInterrupt):
        carry_out(runs, lambda own, solution: None, path=file, watch=watch, book=book)
    (left,) = (book.folder / ".unfinished").iterdir()
    assert left.name == f"{runs[0].key}-{'a' * 12}"
    epochs.clear()
    killed_at = 0
    carry_out(runs, lambda own, solution: told.append(own), path=file, watch=watch, book=book)
    assert epochs[0] == 26  # written every 25 epochs
    assert [own.scores for own in told] == [own.scores for own in whole]
    assert not (book.folder / ".unfinished").exists()


@pytest.mark.parametrize("commit", [(None, None), ("a" * 40, True)])
def test_a_search_by_code_that_no_commit_names_is_not_kept(
    file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    commit: tuple[str | None, bool | None],
) -> None:
    monkeypatch.setattr(execute, "commit_of", lambda: commit)
    (run,) = runs_of("gassip", file, 1, epochs=3, hidden=8)
    with unfinished_search(run, Book(tmp_path)) as folder:
        assert folder is None


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("gcn", {"epochs": 4, "hidden": 8}),
        ("gassip", {"epochs": 3, "warmup_epochs": 1, "retrain_epochs": 4, "hidden": 8}),
    ],
)
def test_seeds_at_once_give_the_records_of_single_runs(
    method: str, settings: dict[str, object], file: str
) -> None:
    runs = runs_of(method, file, 3, **settings)
    together, alone = carried(runs, file), [own for run in runs for own in carried([run], file)]
    assert [own.batched for own in together] == [3, 3, 3] and [own.batched for own in alone] == [
        1,
        1,
        1,
    ]
    for one, two in zip(together, alone, strict=True):
        assert one.status == two.status == "ok" and one.run == two.run
        for name in (
            "accuracy",
            "architecture",
            "weights_kept",
            "weights_total",
            "edges_kept",
            "best_epoch",
        ):
            assert getattr(one, name) == getattr(two, name)
        assert one.weights_stored == two.weights_stored
        assert one.seconds["retrain"] > 0 and (one.seconds["search"] > 0) == (method == "gassip")
        assert Record.from_line(one.to_line()) == one


def test_a_record_says_what_it_ran_on(file: str) -> None:
    (own,) = carried(runs_of("gcn", file, 1, epochs=1), file)
    assert set(own.versions) >= {"gassip", "torch", "python"}
    assert own.machine["cores"] >= 1 and own.machine["memory_mb"] > 100 and own.machine["cpu"]
    assert own.when.endswith("+00:00")
    assert own.peak_mb is None or own.peak_mb > 50
    assert (own.commit is None) == (own.dirty is None)


class Failing:
    """A method that raises."""

    version: ClassVar[int] = 1

    def __init__(self, error: Exception) -> None:
        self.error = error

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        raise self.error


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (MemoryError(), "oom", "out of memory (MemoryError)"),
        (
            RuntimeError("DefaultCPUAllocator: not enough memory:\nyou tried"),
            "oom",
            "not enough memory: you tried",
        ),
        (RuntimeError("shapes differ"), "failed", "RuntimeError: shapes differ"),
        (GassipError("x is 3; it must be 2"), "failed", "x is 3; it must be 2"),
    ],
)
def test_a_failure_is_a_record(
    error: Exception, status: str, reason: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "method_of", lambda run, graph: Failing(error))
    told = carried([replace(RUN, retrain_seed=seed) for seed in (0, 1)], file)
    assert [own.status for own in told] == [status, status]
    assert told[0].reason is not None and reason in told[0].reason and "\n" not in told[0].reason


def test_a_process_that_was_killed() -> None:
    assert (unfinished(RUN, -9, ()).status, unfinished(RUN, 1, ()).status) == (
        "oom",
        "failed",
    )
    assert unfinished(RUN, -15, ()).reason == "the process was ended by signal 15"


def test_noise_is_added_and_an_attack_is_checked(file: str) -> None:
    clean, noisy = graph_of(RUN, file), graph_of(replace(RUN, noise=7, noise_seed=1), file)
    assert noisy.num_edges == clean.num_edges + 14
    for wrong in ("flood-0.1", "mettack", "prbcd-x", "prbcd-1.5"):
        with pytest.raises(GassipError, match="attack is"):
            graph_of(replace(RUN, attack=wrong), file)


def test_details_become_strict_json() -> None:
    found = jsonable({1: float("nan"), "a": (1, 2.5, None), "b": Path("x"), "c": {"d": True}})
    assert json.loads(json.dumps(found, allow_nan=False)) == {
        "1": None,
        "a": [1, 2.5, None],
        "b": "x",
        "c": {"d": True},
    }


def test_every_field_of_a_run_is_in_the_line() -> None:
    line = json.loads(record().to_line())
    assert line["run"] == asdict(RUN) and line["key"] == RUN.key and line["schema"] == 1
