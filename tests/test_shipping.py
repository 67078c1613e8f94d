"""What is shipped agrees with itself: versions, torch, the Pythons that are tested."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import gassip

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PLACES = ("Makefile", "Dockerfile", "README.md", "docs/TUTORIAL.md", ".github/workflows/ci.yml")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_one_version() -> None:
    assert PROJECT["version"] == gassip.__version__
    assert f"## [{gassip.__version__}]" in read("CHANGELOG.md")


def test_one_torch_is_installed_first_everywhere() -> None:
    found = {name: set(re.findall(r"torch==[\d.]+\d", read(name))) for name in PLACES}
    assert set().union(*found.values()) == {"torch==2.13.0"} and all(found.values()), found


def test_the_pythons_of_the_classifiers_are_among_those_of_the_checks() -> None:
    said = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    (row,) = re.findall(r"python: \[(.*)\]", read(".github/workflows/ci.yml"))
    assert set(said) <= set(re.findall(r"3\.\d+", row))
    assert PROJECT["requires-python"] == f">={said[0]}"


def test_the_image_copies_what_there_is() -> None:
    allowed = set(re.findall(r"^!(\S+)", read(".dockerignore"), re.MULTILINE))
    copied = re.findall(r"^COPY (.*) \S+$", read("Dockerfile"), re.MULTILINE)
    names = {name for row in copied for name in row.split()}
    assert names == allowed and all((ROOT / name).exists() for name in names)


def test_every_extra_that_tests_use_is_installed_with_them() -> None:
    extras = PROJECT["optional-dependencies"]
    missing = {own for name in ("onnx", "tables", "log") for own in extras[name]}
    assert missing <= set(extras["test"])


def test_the_published_files_hold_every_module(tmp_path: Path) -> None:
    """A wheel is built from the archive of the sources, so whatever that leaves out is lost."""
    _build(ROOT, "sdist", tmp_path)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "sources", filter="data")
    (sources,) = (tmp_path / "sources").iterdir()
    _build(sources, "wheel", tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    ours = {own for own in (ROOT / "src/gassip").rglob("*") if own.is_file()}
    wanted = {f"gassip/{own.relative_to(ROOT / 'src/gassip').as_posix()}" for own in ours
              if "__pycache__" not in own.parts}  # fmt: skip
    assert wanted <= set(zipfile.ZipFile(wheel).namelist())


def _build(project: Path, what: str, out: Path) -> None:
    words = [sys.executable, "-m", "hatchling", "build", "-t", what, "-d", str(out)]
    subprocess.run(words, cwd=project, check=True, capture_output=True, timeout=100)
