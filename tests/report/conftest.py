"""One run for all pages: a small graph whose names are hostile, searched by the command line."""

import csv
from pathlib import Path

import numpy as np
import pytest

from gassip.cli import main

HOSTILE = '</script><script>alert("x")</script>'
CLASSES = ("<b>bold</b>", HOSTILE, "plain & simple")
QUICK = ["--preset", "paper", "--epochs", "12", "--warmup-epochs", "3", "--hidden", "8"]
QUICK += ["--retrain-epochs", "8", "--induced-from", "1", "--quiet"]


def write_graph(folder: Path, nodes: int = 90) -> None:
    """Three classes in a ring of neighbours with some edges across; ids and classes are markup."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    with (folder / "nodes.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label", "split", "a", "b", "c"])
        for k in range(nodes):
            row = rng.normal(size=3) + 1.5 * np.eye(3)[k % 3]
            split = ("train", "val", "test")[k // 3 % 3]
            writer.writerow([f"<i>{k}</i>{HOSTILE}", CLASSES[k % 3], split, *row.round(3)])
    with (folder / "edges.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target"])
        for k in range(nodes):
            for step in (3, 6, int(rng.integers(1, nodes))):
                other = (k + step) % nodes
                writer.writerow([f"<i>{k}</i>{HOSTILE}", f"<i>{other}</i>{HOSTILE}"])


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with its report.html."""
    home = tmp_path_factory.mktemp("reported")
    write_graph(home / "<img src=x onerror=alert(1)>")
    data = str(home / "<img src=x onerror=alert(1)>")
    run = home / "run <i>&"
    words = ["search", "--data", data, "--undirected", "--out", str(run), *QUICK]
    assert main(words) == 0
    return run
