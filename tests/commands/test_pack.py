"""`gassip pack`: one file that predicts as the run does, and holds nothing else."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from gassip.cli import main
from gassip.deploy import runtime
from gassip.deploy.native.net import native_net
from tests.deploy.native.test_c import MakeGraph, save


@pytest.fixture(scope="module")
def packed(make_graph: MakeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pack")
    run = save(folder / "run", make_graph, ("GCNConv", "Linear"), label_weight=0.6)
    assert main(["pack", str(run), "--out", str(folder / "net.gassip")]) == 0
    return folder / "net.gassip"


def test_every_reader_predicts_as_the_run_does(packed: Path, tmp_path: Path) -> None:
    run = packed.parent / "run"
    expected = runtime.load(run).scores()
    np.testing.assert_array_equal(runtime.load(packed).scores(), expected)
    np.testing.assert_array_equal(native_net(packed, "float32").model.scores(), expected)
    out = tmp_path / "packed.csv"
    assert main(["predict", str(packed), "--out", str(out)]) == 0
    labels = [line.split(",")[1] for line in out.read_text().splitlines()[1:]]
    assert labels == [runtime.load(run).class_names[k] for k in expected.argmax(1)]
    for form in ("c", "wasm", "html"):
        made = str(tmp_path / f"net.{form}")
        assert main(["export", str(packed), "--format", form, "--out", made]) == 0


def test_it_holds_what_prediction_needs_and_equal_runs_give_equal_bytes(
    packed: Path, tmp_path: Path
) -> None:
    names = zipfile.ZipFile(packed).namelist()
    parts = ("model", "graph", "inputs", "statistics")
    assert names == [*(f"{own}.safetensors" for own in parts), "meta.json"]
    again = tmp_path / "again"
    assert main(["pack", str(packed.parent / "run"), "--out", str(again)]) == 0
    assert again.read_bytes() == packed.read_bytes()


@pytest.mark.parametrize("damage", ["cut", "text", "other", "flipped"])
def test_what_is_damaged_is_refused(
    packed: Path, tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, content = tmp_path / "bad", packed.read_bytes()
    if damage == "other":
        with zipfile.ZipFile(bad, "w") as file:
            file.writestr("a.txt", "a")
    else:
        half = len(content) // 2
        flipped = content[:half] + bytes([content[half] ^ 255]) + content[half + 1 :]
        bad.write_bytes({"cut": content[:half], "text": b"no zip", "flipped": flipped}[damage])
    assert main(["predict", str(bad), "--out", str(tmp_path / "x.csv")]) == 2
    said = capsys.readouterr().err
    assert "pack" in said or "damaged" in said
    assert not (tmp_path / "x.csv").exists()


def test_what_retrains_names_the_reason(packed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(packed), "--seeds", "1"]) == 2
    assert "or `pack`; this reads runs of `search`" in capsys.readouterr().err
    assert main(["pack", str(packed), "--out", str(packed.parent / "twice")]) == 2
    assert "is an export already" in capsys.readouterr().err


def test_a_file_packed_by_another_method_is_refused_unread(
    packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python unpacks bzip2 without a bound."""
    other = tmp_path / "net.gassip"
    with zipfile.ZipFile(packed) as old, zipfile.ZipFile(other, "w", zipfile.ZIP_BZIP2) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    capsys.readouterr()
    assert main(["predict", str(other), "--out", "-"]) == 2
    assert "is damaged, or not what `gassip pack` wrote" in capsys.readouterr().err
