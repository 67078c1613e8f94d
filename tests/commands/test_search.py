"""gassip search: its help screens, the flags it refuses, the decisions it explains."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gassip import cli
from gassip.cli import main
from gassip.commands import explain
from gassip.commands.flags import USUAL, Screen, given_settings, shown_value
from gassip.commands.search_flags import SCREEN
from gassip.settings.presets import best
from gassip.settings.settings import FIELDS, foreign
from gassip.train.plan import Decision

SCHEMA_1 = Path(__file__).parent.parent / "fixtures" / "schema-1"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


def screen(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line on stderr; status 2 and no file written."""
    try:
        status = main(list(words))
    except SystemExit as error:
        status = int(str(error.code))
    out, err = capsys.readouterr()
    assert status == 2 and out == "" and err.count("\n") == 1, (status, out, err)
    assert not Path("runs").exists()
    return err.removeprefix("gassip: error: ").strip()


# Help


@pytest.mark.parametrize("command", ["search", "front"])
@pytest.mark.parametrize("preset", ["best", "paper"])
def test_help_fits_two_screens(
    command: str, preset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = screen(capsys, command, "--help", "--preset", preset).splitlines()
    assert len(lines) <= 52 and max(map(len, lines)) <= 100
    for flag in ("--dataset", "--data", "--preset", "--metric", "--out", "--seed", "--help-all"):
        assert any(line.startswith(f"  {flag}") or f", {flag}" in line for line in lines), flag


def test_help_shows_the_values_of_the_preset_given(capsys: pytest.CaptureFixture[str]) -> None:
    usual = best().search.epochs
    assert f"search epochs T [{usual}]" in screen(capsys, "search", "--help")
    assert "search epochs T [250]" in screen(capsys, "search", "--help", "--preset", "paper")
    assert "search epochs T [250]" in screen(capsys, "search", "--preset=paper", "-h")
    assert "per hidden unit (element, unit) [unit]" in " ".join(
        screen(capsys, "front", "--help-all").split()
    )


@pytest.mark.parametrize("preset", ["best", "paper"])
def test_help_all_has_every_setting_that_the_preset_reads(
    preset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = screen(capsys, "search", "--help-all", "--preset", preset)
    flat = " ".join(text.split())
    settings = Screen(preset=preset).settings
    for own in FIELDS.values():
        shown = re.search(rf"^  --(\[no-\])?{own.name.replace('_', '-')}\b", text, re.MULTILINE)
        assert bool(shown) == (own.name not in foreign(settings)), own.name
        if shown:
            assert f"[{shown_value(settings.value(own))}]" in flat
            assert own.title[1:] + ":" in flat
    assert not re.search(r"\brow \d", text)


def test_the_usual_settings_are_settings() -> None:
    assert set(USUAL) <= FIELDS.keys()


# Refused


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["--edge-share", "0.5"],
            "--edge-share is not read by the preset best, which chooses the edges on validation "
            "(--edge-shares); use --preset paper, or leave it out",
        ),
        (
            ["--retrain-dropout", "0.5"],
            "--retrain-dropout is not read by the preset best, which chooses a recipe on "
            "validation; use --recipes given, or leave it out",
        ),
        (
            ["--recipes", "strong", "--trial-epochs", "5"],
            "--trial-epochs is not read by a search with one recipe; name two or more in "
            "--recipes, or leave it out",
        ),
        (
            ["--preset", "paper", "--teachers", "2"],
            "--teachers is not read by the preset paper, which trains what the search found and "
            "nothing else; use --preset best, or leave it out",
        ),
        (
            ["--preset", "fast", "--edge-shares", "0.5"],
            "--edge-shares is not read by the preset fast, which trains plain nets and nothing "
            "else; use --preset best, or leave it out",
        ),
        (
            ["--preset", "literal", "--edge-share", "0.5"],
            "--edge-share is not read by edge_rule = paper; use --edge-rule budget, or leave it "
            "out",
        ),
        (["--finalists", "3"], "--finalists has a new name: --candidates"),
        (["--no-hear-labels"], "--no-hear-labels has a new name: --no-label-propagation"),
        (
            ["--label-weight", "2"],
            "--label-weight is decided by the search, not set; `gassip search --explain` shows "
            "the decision",
        ),
        (["--epochz", "3"], "gassip search has no flag --epochz; did you mean --epochs?"),
        (["--preset", "papre"], "there is no preset 'papre'; did you mean paper?"),
        (["--metric", "acuracy"], "there is no metric 'acuracy'; did you mean accuracy?"),
        (["--edge-scores", "direct"], "there is no edge scores 'direct'; did you mean directed?"),
    ],
)
def test_refused_by_name(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "search", *words) == line


@pytest.mark.parametrize("flag", ["--data", "--dataset", "--settings", "--out"])
def test_an_unset_variable_is_refused(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(capsys, "search", flag, "")
    assert flag in line and "the value is empty; is a variable unset?" in line


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["serach"], "there is no command 'serach'; did you mean search?"),
        (["--verson"], "gassip has no flag --verson; did you mean --version?"),
        (["evaluate", "run", "--sedes", "3"], "gassip evaluate has no flag --sedes; did you mean"),
        (["export", "run", "--out", "x", "--format", "onx"], "there is no format 'onx'; did you"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_nearest(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(capsys, *words).startswith(line)


def test_a_file_is_checked_like_flags(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.toml").write_text("edge_share = 0.5\n")
    assert refusal(capsys, "search", "--settings", "a.toml").startswith(
        "edge_share in a.toml is not read by the preset best"
    )
    Path("b.toml").write_text("epochz = 5\n")
    assert "did you mean epochs?" in refusal(capsys, "search", "--settings", "b.toml")


@pytest.mark.parametrize("name", ["best-one-way-free", "paper-words-free"])
def test_the_settings_of_an_earlier_version_are_read(name: str) -> None:
    """A whole file names settings that the preset does not read, with the preset's values."""
    words = ["search", "--preset", name.partition("-")[0]]
    args = cli.build_parser().parse_args([*words, "--settings", f"{SCHEMA_1 / name}.settings.json"])
    given = given_settings(args, SCREEN)
    assert given["hidden"] == 8 and "finalists" not in given


# Without torch


@pytest.mark.parametrize(
    "words",
    [
        ["search"],
        ["explain", "run"],
    ],
)
def test_without_torch_there_is_one_line(words: list[str]) -> None:
    code = "import sys; sys.modules['torch'] = None\nfrom gassip.cli import main\n"
    code += "sys.exit(main(sys.argv[1:]))"
    environment = os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True
    )
    line = f"gassip {words[0]} needs torch, which is not installed: pip install torch"
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.splitlines()[-1] == f"gassip: error: {line}", done.stderr
    assert "Traceback" not in done.stderr


def test_predict_labels_without_torch() -> None:
    code = "import sys; sys.modules['torch'] = None\nfrom gassip.cli import main\n"
    code += "sys.exit(main(sys.argv[1:]))"
    words = ["predict", str(SCHEMA_1 / "paper-words-free"), "--out", "-"]
    environment = os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stderr == ""
    assert len(done.stdout.splitlines()) == 301


# Explain


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "graph.npz"
    x = rng.normal(size=(60, 12)).astype(np.float32)
    np.savez(path, x=x, edge_index=rng.integers(0, 60, (2, 180)), y=np.arange(60) % 3)
    return str(path)


BRIEF = [
    "--epochs",
    "3",
    "--warmup-epochs",
    "2",
    "--retrain-epochs",
    "3",
    "--trial-epochs",
    "2",
    "--prune-epochs",
    "3",
]


def test_explain_is_what_the_search_said(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["search", "--data", data, "--out", "run", "--quiet", "--explain", *BRIEF]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert main(["explain", "run"]) == 0
    table = capsys.readouterr().out
    assert table in said and "written to run" in said
    for stage in ("direction", "recipe", "teacher", "student", "edge cut", "label propagation"):
        assert stage in table
    assert main(["explain", "run", "--json"]) == 0
    stored = json.loads(Path("run/decisions.json").read_text())
    assert json.loads(capsys.readouterr().out) == {"decisions": stored}
    assert main([*words, "--overwrite", "--json"]) == 0
    meta = json.loads(capsys.readouterr().out)
    assert [own["stage"] for own in meta["decisions"]] == [own["stage"] for own in stored]


def test_a_run_of_an_earlier_version_has_no_decisions(capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(SCHEMA_1 / "paper-words-free")
    assert "has no decisions.json" in refusal(capsys, "explain", folder)


def test_rows_of_a_decision() -> None:
    own = Decision(
        stage="recipe",
        taken="norm",
        tried=(
            {"name": "strong", "score": 0.5, "statistic": 0.0},
            {"name": "norm", "statistic": 2.5},
        ),
        statistic="McNemar",
        threshold=2.0,
    )
    statistics: dict[str, str] = {}
    assert explain.rows(own, statistics) == [
        ("recipe", "taken: norm", "", "", "2 [1]"),
        ("", "  strong", "0.5000", "+0.00", ""),
        ("", "  norm", "-", "+2.50", ""),
    ]
    assert statistics == {"McNemar": "[1]"}
    plain = Decision(stage="direction", taken="given")
    assert explain.rows(plain, statistics) == [("direction", "taken: given", "", "", "")]


# The graph


def test_a_search_without_a_graph_says_which_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("runs/debian-best-seed0").mkdir(parents=True)
    assert main(["search"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == (
        "gassip: neither --dataset nor --data is given: the embedded graph debian is used"
    )
    assert "runs/debian-best-seed0 exists" in second
