import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from gassip.errors import GassipError
from gassip.train.processes import cores, each, start_method


def square(k: int) -> int:
    return k * k


def refuse(k: int) -> int:
    if k == 1:
        raise GassipError("the second is refused")
    return k


def die(k: int) -> int:
    if k == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return k


def process_of(k: int) -> tuple[int, int]:
    time.sleep(0.05)  # so that each process has its turn
    return os.getpid(), torch.get_num_threads()


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_every_piece_is_done_once(jobs: int) -> None:
    assert sorted(each(square, 4, jobs)) == [(0, 0), (1, 1), (2, 4), (3, 9)]
    assert list(each(square, 0, jobs)) == []


def test_pieces_are_done_in_that_many_processes_of_as_many_threads() -> None:
    there = {process for _, (process, _) in each(process_of, 4, 2)}
    assert len(there) == 2 and os.getpid() not in there
    assert {threads for _, (_, threads) in each(process_of, 3, 2)} == {torch.get_num_threads()}
    assert {process for _, (process, _) in each(process_of, 3, 1)} == {os.getpid()}


def test_with_several_threads_processes_are_spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenMP's threads are gone after a fork, and it waits for them for ever."""
    assert torch.get_num_threads() == 1
    assert start_method() == ("fork" if sys.platform == "linux" else "spawn")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert start_method() == "spawn"


def test_spawned_processes_do_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gassip.train.processes.start_method", lambda: "spawn")
    assert sorted(each(square, 2, 2)) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_is_the_callers(jobs: int) -> None:
    with pytest.raises(GassipError, match="the second is refused"):
        list(each(refuse, 3, jobs))


def test_a_lost_process_is_told_of_in_one_line() -> None:
    with pytest.raises(GassipError, match=r"ended early \(signal 9\).*--jobs 1"):
        list(each(die, 3, 2))


def test_a_killed_caller_leaves_no_process_behind(tmp_path: Path) -> None:
    script = (
        "import os, sys, time\n"
        "import torch\n"
        "from gassip.train.processes import each\n"
        "torch.set_num_threads(1)\n"
        "def work(k):\n"
        "    print(os.getpid(), flush=True)\n"
        "    time.sleep(60)\n"
        "if __name__ == '__main__':\n"
        "    list(each(work, 2, 2))\n"
    )
    path = tmp_path / "caller.py"
    path.write_text(script)
    source = str(Path(__file__).parents[2] / "src")
    with subprocess.Popen(
        [sys.executable, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": source},
    ) as caller:
        assert caller.stdout is not None
        workers = [int(caller.stdout.readline()) for _ in range(2)]
        caller.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while any(alive(worker) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(alive(worker) for worker in workers)


def alive(process: int) -> bool:
    """Whether it runs: one that has ended and is not yet waited for does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_there_is_a_core() -> None:
    assert cores() >= 1
