"""README.md is true: its commands and its example run, its links lead somewhere."""

import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from gassip.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def commands() -> list[list[str]]:
    """Every line of the README that starts gassip, or its runtime."""
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    words = [shlex.split(line, comments=True) for line in lines]
    return [
        own
        for own in words
        if own[:1] == ["gassip"] or own[:3] == ["python", "-m", "gassip.runtime"]
    ]


def run(words: list[str]) -> int:
    if words[0] == "gassip":
        return main(words[1:])
    return subprocess.run([sys.executable, *words[1:]], check=False).returncode


def write_graph(path: Path, nodes: int = 90) -> None:
    """Three clusters, told apart by their features and by most of their edges."""
    rng = np.random.default_rng(0)
    y = np.arange(nodes) % 3
    near = rng.integers(0, nodes // 3, (2, 6 * nodes)) * 3 + rng.integers(0, 3, 6 * nodes)
    x = np.eye(3)[y] + rng.normal(0, 1, (nodes, 3))
    np.savez(path, x=x, edge_index=near, y=y)


def test_commands_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_graph(tmp_path / "mine.npz")
    monkeypatch.chdir(tmp_path)
    assert len(commands()) >= 9
    for words in commands():
        if "onnx" in words and not find_spec("onnxruntime"):
            continue
        assert run(words) == 0, words
    for file in ("labels.csv", "small.csv"):
        assert (tmp_path / file).read_text().count("\n") == 91


def test_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks("python")
    names: dict[str, object] = {}
    exec(example, names)
    assert "‖" in capsys.readouterr().out
    assert getattr(names["logits"], "shape", None) == (3134, 9)


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = {
        line.split()[1]
        for block in blocks("bash")
        for line in block.splitlines()
        if line.startswith("make ")
    }
    assert targets == {"demo", "test"}
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_it_is_read_at_once() -> None:
    assert len(README.splitlines()) <= 150


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links and all((ROOT / link).exists() for link in links if "://" not in link)
