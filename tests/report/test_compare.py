"""gassip compare: several runs on one page."""

import json
import shutil
from pathlib import Path

import pytest

from gassip.cli import main
from gassip.report.compare import named
from gassip.report.facts import read_facts
from gassip.runs.format import digest
from tests.report.test_report import Reader


def other(made: Path, folder: Path, **changes: object) -> Path:
    """The run again in another folder, with another meta.json."""
    shutil.copytree(made, folder)
    meta = json.loads((folder / "meta.json").read_text()) | changes
    (folder / "meta.json").write_text(json.dumps(meta | {"sha256": digest(meta)}))
    return folder


def test_runs_stand_on_one_page(made: Path, tmp_path: Path) -> None:
    settings = json.loads((made / "meta.json").read_text())["settings"]
    second = other(made, tmp_path / "<u>second", settings=settings | {"hidden": 77}, seed=4)
    out = tmp_path / "page.html"
    assert main(["compare", str(made), str(second), "--out", str(out)]) == 0
    read = Reader(out.read_bytes())
    text = " ".join(read.texts)
    assert read.open == [] and "u" not in read.tags and "<u>second" in text and made.name in text
    assert "front-0" in read.ids and "front-1" not in read.ids and "different graphs" not in text
    assert "Settings that differ" in text and "77" in text and "seed" in text
    assert "edge_share" not in text  # equal in both


def test_runs_of_different_graphs_are_told_apart(made: Path, tmp_path: Path) -> None:
    second = other(made, tmp_path / "second", dataset="another")
    out = tmp_path / "page.html"
    assert main(["compare", str(made), str(second), "--out", str(out)]) == 0
    text = " ".join(Reader(out.read_bytes()).texts)
    assert "2 different graphs" in text and "Accuracy against size" not in text


def test_one_run_or_a_page_that_exists_is_refused(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(made), "--out", str(tmp_path / "a.html")]) == 2
    assert "two runs or more" in capsys.readouterr().err
    (tmp_path / "b.html").write_text("mine")
    assert main(["compare", str(made), str(made), "--out", str(tmp_path / "b.html")]) == 2
    assert "exists" in capsys.readouterr().err and (tmp_path / "b.html").read_text() == "mine"


def test_equal_names_are_written_out(made: Path, tmp_path: Path) -> None:
    run, again = read_facts(made), read_facts(other(made, tmp_path / made.name))
    assert named([run, again]) == [run.folder, again.folder] and named([run]) == [made.name]
