"""gassip reproduce from end to end on the embedded graph, with tiny settings."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gassip.bench.records import Book
from gassip.cli import main
from gassip.commands.reproduce import duration
from gassip.reproduce import experiments
from gassip.reproduce.experiments import Experiment, graph, row
from gassip.reproduce.work import OutOfTime, Work
from gassip.train.deadline import Deadline, interrupted

WORDS = ["reproduce", "--datasets", "debian", "--seeds", "2", "--quiet"]
QUICK = {"epochs": 3, "retrain_epochs": 3, "hidden": 4}
TINY = {
    "datasets": experiments.EXPERIMENTS["datasets"],
    "main": Experiment(
        title="Two methods",
        show="accuracy",
        draw="dots",
        columns=(graph("cora"),),
        rows=(row("GCN", "gcn", epochs=3, hidden=4), row("DARTS", "darts", **QUICK)),
    ),
    "sizes": Experiment(
        title="The same",
        show="sizes",
        columns=(graph("cora"),),
        rows=(row("GCN", "gcn", epochs=3, hidden=4),),
    ),
    "mettack": experiments.EXPERIMENTS["mettack"],
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiments, "EXPERIMENTS", TINY)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_runs_are_done_once_and_rendered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(WORDS) == 0
    records, _ = Book("results").read("debian")
    done = sorted(
        (record.run.method, record.run.search_seed or 0, record.run.retrain_seed)
        for record in records
    )
    assert done == [("darts", 0, 0), ("darts", 0, 1), ("gcn", 0, 0), ("gcn", 0, 1)]
    assert "4 runs\n" in capsys.readouterr().out
    text = Path("reproduce/index.md").read_text()
    assert "| debian | 3,134 | – | 14,300 |" in text and "![Two methods](main.svg)" in text
    tests = [100 * record.accuracy["test"] for record in records if record.run.method == "gcn"]
    assert f"{sum(tests) / 2:.2f} ± " in text and "missing" not in text
    assert "GCN" in Path("reproduce/index.html").read_text()
    before = Path("results/debian.jsonl").read_bytes()
    assert main(WORDS) == 0
    assert Path("results/debian.jsonl").read_bytes() == before
    assert sorted(file.name for file in Path("reproduce").iterdir()) == [
        "index.html",
        "index.md",
        "main.svg",
    ]


def test_processes_give_the_same_records() -> None:
    assert main([*WORDS, "main", "--jobs", "2", "--results", "apart"]) == 0
    assert main([*WORDS, "main"]) == 0
    apart, here = (Book(folder).read("debian")[0] for folder in ("apart", "results"))
    assert {record.run.key: record.accuracy for record in apart} == {
        record.run.key: record.accuracy for record in here
    }
    assert len(apart) == 4 and all(record.status == "ok" for record in apart)


def test_the_list_and_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--list"]) == 0
    shown = capsys.readouterr().out
    assert "Two methods" in shown and "mettack" not in shown
    assert not list(Path().iterdir())
    assert main([*WORDS, "main", "--render-only"]) == 0
    assert "4 are missing" in capsys.readouterr().out
    assert "4 of the 4 runs asked for are missing" in Path("reproduce/index.md").read_text()
    assert not Path("results/debian.jsonl").exists()


def test_a_time_limit_stops_the_runs_and_renders(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "main", "--time-limit", "0.001s"]) == 0
    shown = capsys.readouterr()
    assert "0.001s is over; the same command goes on" in shown.err
    assert "4 are missing" in shown.out
    assert Book("results").read("debian")[0] == []  # no failure either


def test_a_run_that_is_out_of_time_is_no_failure(tmp_path: Path) -> None:
    from gassip.bench.asked import method_for, seeded
    from gassip.bench.execute import carry_out, graph_of
    from gassip.bench.records import Record, Run

    run = Run(method="gcn", settings={}, dataset="debian")
    method, _ = method_for(run, graph_of(run), {"epochs": "100000"})
    told: list[Record] = []
    with pytest.raises(OutOfTime), interrupted(Deadline.after(0.5), OutOfTime):
        carry_out(seeded(run, method, seed=0, searches=1, trainings=1), lambda r, s: told.append(r))
    assert told == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mian"], "there is no experiment 'mian'; did you mean main?"),
        (["--datasets", "coar"], "there is no dataset 'coar'; did you mean cora?"),
        (["mettack", "--datasets", "debian"], "mettack is not to be had on debian"),
        (["--full", "--seeds", "2"], "--full is --searches 10 --seeds 10"),
        (["--cluster", "auto", "--jobs", "2"], "exclude each other"),
        (["--list", "--jobs", "2"], "--list does no runs; leave --jobs out"),
        (["--render-only", "--time-limit", "1h"], "leave --time-limit out"),
        (["--out", "other"], "holds files that are not of `gassip reproduce`"),
        (["--out", "file"], "is a file"),
        (["--time-limit", "soon"], "time limit is 'soon'"),
        (["--datasets", "chameleon,"], "none of these graphs is to be had"),
    ],
)
def test_wrong_use_is_one_line(
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GASSIP_DATA", raising=False)
    monkeypatch.setenv("GASSIP_CACHE", "cache")
    Path("other").mkdir()
    Path("other/mine.txt").touch()
    Path("file").touch()
    datasets = [] if "--datasets" in words else ["--datasets", "debian"]
    assert main(["reproduce", *datasets, "--quiet", *words]) == 2
    shown = capsys.readouterr()
    assert said in shown.err.splitlines()[-1] and shown.out == ""
    assert sorted(file.name for file in Path().iterdir()) == ["file", "other"]


def test_a_graph_that_is_not_here_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GASSIP_DATA", raising=False)
    monkeypatch.setenv("GASSIP_CACHE", "cache")
    words = ["reproduce", "main", "datasets", "--datasets", "debian,ogbn-arxiv", "--render-only"]
    assert main(words) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "ogbn-arxiv is left out" in line and "arxiv-standin is no substitute" in line
    assert "debian" in Path("reproduce/index.md").read_text()


def test_batches_hold_each_run_once() -> None:
    from gassip.reproduce.cells import Amount

    asked = {name: one.on(["debian"]) for name, one in TINY.items() if name != "mettack"}
    work = Work(asked, Book("results"), Amount(1, 2), say=print, fetch=False)
    alone = work.batches(together=False, retry=False)
    assert [batch.title for batch in alone] == ["gcn on debian, 2 runs", "darts on debian, 2 runs"]
    (batch,) = work.batches(together=True, retry=False)
    assert len(batch.runs) == 4 and not batch.tuned
    assert batch.methods == ("gcn", "darts")
    assert work.total() == (0, 4)


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0, 61, 5400, 3 * 86400)] == [
        "0 min",
        "2 min",
        "1.5 h",
        "3.0 days",
    ]
