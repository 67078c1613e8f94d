"""gassip doctor: versions, extras, data and the machine, without importing torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gassip import __version__
from gassip.cli import main


def test_json_names_versions_extras_data_and_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cora").mkdir()
    monkeypatch.setenv("GASSIP_DATA", str(tmp_path))
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gassip"] == __version__ and found["packages"]["numpy"]
    assert found["extras"]["tables"]["unlocks"].startswith("Parquet")
    assert found["data"][0] == {"path": str(tmp_path), "exists": True, "holds": ["cora"]}
    assert found["machine"]["cores"] >= 1


def test_the_table_says_what_is_not_as_expected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GASSIP_DATA", "/nowhere")
    monkeypatch.setenv("OMP_NUM_THREADS", "5000")
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "GASSIP_DATA names /nowhere, which is no folder" in out
    assert "OMP_NUM_THREADS is above the" in out


def test_it_is_quick() -> None:
    code = "import sys; from gassip.cli import main; main(['doctor', '--json']); "
    code += "sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
