"""The scripts of `gassip completion`: those of the shells that are here are run."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from gassip import cli
from gassip.commands.completion import SHELLS, script
from gassip.deploy.formats import FORMATS
from gassip.graph.known_datasets import DATASETS
from gassip.methods import METHODS
from gassip.settings import PRESETS
from gassip.settings.settings import FIELDS

BASH, ZSH, FISH = (shutil.which(shell) for shell in ("bash", "zsh", "fish"))


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "gassip.bash"
    path.write_text(script(cli.build_parser(), "bash"))
    return path


def completed(path: Path, line: str, *, folder: Path | None = None) -> set[str]:
    """What bash offers after Tab at the end of `line`."""
    assert BASH is not None
    words = [*line.split(" ")]
    code = f"""
source {shlex.quote(str(path))}
COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}
COMP_LINE={shlex.quote(line)}; COMP_POINT={len(line)}
function=$(complete -p gassip | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
"$function" gassip {shlex.quote(words[-1])} {shlex.quote(words[-2])}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        [BASH, "-c", code], capture_output=True, text=True, cwd=folder, check=True
    )
    return set(done.stdout.split())


@pytest.mark.skipif(BASH is None, reason="no bash")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gassip ", set(cli.COMMANDS)),
        ("gassip ex", {"explain", "export"}),
        ("gassip search --pre", {"--preset"}),
        ("gassip search --preset ", set(PRESETS)),
        ("gassip search --preset paper --edge-rule ", {"paper", "half", "budget"}),
        ("gassip search --metric ma", {"macro-f1"}),
        ("gassip search --max-l", {"--max-latency-ms"}),
        ("gassip search --no-label", {"--no-label-propagation"}),
        ("gassip search --dataset ", set(DATASETS)),
        ("gassip export run --format ", set(FORMATS)),
        ("gassip run gassi", {name for name in METHODS if name.startswith("gassi")}),
        ("gassip reproduce ma", {"main"}),
        ("gassip completion z", {"zsh"}),
    ],
)
def test_bash_offers(bash_script: Path, line: str, expected: set[str]) -> None:
    assert completed(bash_script, line) == expected


@pytest.mark.skipif(BASH is None, reason="no bash")
def test_bash_offers_every_setting_and_files(bash_script: Path, tmp_path: Path) -> None:
    flags = completed(bash_script, "gassip search --")
    assert {"--" + name.replace("_", "-") for name in FIELDS} <= flags
    (tmp_path / "mine.npz").touch()
    (tmp_path / "run").mkdir()
    assert completed(bash_script, "gassip search --data m", folder=tmp_path) == {"mine.npz"}
    assert completed(bash_script, "gassip predict r", folder=tmp_path) == {"run"}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert "search" in out and "label-propagation" in out and "debian" in out


@pytest.mark.skipif(FISH is None, reason="no fish")
def test_fish_offers(tmp_path: Path) -> None:
    assert FISH is not None
    path = tmp_path / "gassip.fish"
    path.write_text(script(cli.build_parser(), "fish"))
    for line, expected in {
        "gassip ex": {"explain", "export"},
        "gassip search --preset ": set(PRESETS),
    }.items():
        code = f"source {shlex.quote(str(path))}; complete -C {shlex.quote(line)}"
        done = subprocess.run([FISH, "-c", code], capture_output=True, text=True, check=True)
        assert {row.split("\t")[0] for row in done.stdout.splitlines()} == expected


@pytest.mark.skipif(ZSH is None, reason="no zsh")
def test_zsh_reads_its_script(tmp_path: Path) -> None:
    assert ZSH is not None
    path = tmp_path / "_gassip"
    path.write_text(script(cli.build_parser(), "zsh"))
    subprocess.run([ZSH, "-n", str(path)], check=True)
