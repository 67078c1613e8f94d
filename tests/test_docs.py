"""The documents are true: commands parse, examples run, links lead somewhere, the reference is
what the code says."""

import importlib.util
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from gassip.cli import COMMANDS, build_parser, check_words

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")])


def blocks(path: Path, language: str) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(path: Path) -> list[list[str]]:
    lines = [line for block in blocks(path, "(?:bash)?") for line in block.splitlines()]
    words = [shlex.split(line, comments=True) for line in lines if line.startswith("gassip ")]
    return [own[1:] for own in words]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_commands_parse(path: Path) -> None:
    parser = build_parser()
    for words in commands(path):
        check_words(parser, words)
        parser.parse_args(words)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        file = path.parent / target if target else path
        assert file.exists(), link
        if anchor:
            heads = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {
                re.sub(r"[^\w -]", "", own.lower()).replace(" ", "-") for own in heads
            }


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_prose_fits_100_columns(path: Path) -> None:
    """Code, tables and pictures may be wider."""
    prose = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    wide = [
        line for line in prose.splitlines() if len(line) > 100 and line.lstrip()[:1] not in "|!"
    ]
    assert wide == []


def test_the_index_names_every_document() -> None:
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [own.name for own in ROOT.glob("docs/*.md") if f"({own.name})" not in text] == [
        "README.md"
    ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_example_of_a_listener_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("tensorboard") is None:
        pytest.skip("tensorboard is not installed")
    monkeypatch.chdir(tmp_path)
    (example,) = blocks(ROOT / "docs" / "HOWTO.md", "python")
    exec(example, {})
    assert list((tmp_path / "logs").iterdir())


def test_the_reference_is_what_the_code_says() -> None:
    spec = importlib.util.spec_from_file_location("built", ROOT / "tools" / "build_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = module.FILE.read_text(encoding="utf-8")
    assert text == module.reference(), "run `python tools/build_reference.py`"
    assert all(f"### gassip {name}\n" in text for name in COMMANDS)
