"""The display of a search: on a terminal, without colours, on a dumb terminal, in a pipe."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gassip.commands.display import Estimate
from gassip.train.events import Event

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
PROGRAM = """
import time
from gassip.commands.display import watching
from gassip.train.events import Steps
with watching(Steps(search=2, stage=1, retrain=1), False) as tell:
    for k in (1, 2):
        time.sleep(0.15)
        tell({"phase": "search", "epoch": k, "val_score": k / 4, "elapsed": 1.0 * k, "left": 65.0})
    time.sleep(0.3)
    tell({"phase": "done", "elapsed": 2.0, "left": 0.0, "best": 0.5})
"""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(**variables: str) -> str:
    """What the program writes to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    environment |= {"COLUMNS": "80", **variables}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=theirs, env=environment)
    os.close(theirs)
    parts = []
    try:
        while part := os.read(ours, 65536):
            parts.append(part)
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)
    assert process.wait() == 0
    return b"".join(parts).decode()


def test_a_terminal_has_one_live_line_with_colours() -> None:
    text = on_terminal(TERM="xterm-256color")
    assert COLOUR.search(text) and "first step" in text
    assert "left 1:05 min val 0.500" in text and "left 0 s best 0.500" in text
    assert text.count("\n") == 1


def test_no_color_takes_the_colours_away() -> None:
    text = on_terminal(TERM="xterm-256color", NO_COLOR="1")
    assert not COLOUR.search(text) and "val 0.500" in text


def test_a_dumb_terminal_has_lines() -> None:
    text = on_terminal(TERM="dumb")
    assert "\x1b" not in text and "search 1/2  val 0.250" in text and "done after 2 s" in text


def test_a_pipe_has_lines(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout == "" and done.stderr.splitlines() == [
        "search 1/2  val 0.250",
        "search 2/2  val 0.500, left about 1:05 min",
        "done after 2 s  best 0.500, left 0 s",
    ]


def test_the_time_left_is_counted_down(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    latest = Estimate()
    assert latest.text == "first step"
    latest.hear({"phase": "search", "elapsed": 0.5, "left": 99.0, "val_score": 0.125})
    assert latest.text == "val 0.125"  # one step is no measure
    event: Event = {"phase": "stage", "elapsed": 1.0, "left": 10.0, "val_score": 0.25}
    latest.hear({**event, "best": 0.5, "alpha_entropy": 1.0, "stage": "recipe norm"})
    now[0] += 4
    assert latest.text == "left 6 s best 0.500 val 0.250 recipe norm"
    now[0] += 40
    assert latest.text.startswith("left 0 s")
