"""report.html: whole, small, escaped; what a run does not have is left out."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from gassip.cli import main
from gassip.report.facts import Facts, read_facts
from gassip.report.html import asset, data, page, table, tag
from gassip.report.report import FILE, report
from gassip.report.searched import leaderboard
from gassip.report.words import duration, number, per_cent, shown
from gassip.train.leaderboard import Standing
from tests.report.conftest import CLASSES, HOSTILE, QUICK

FIXTURE = Path(__file__).parent.parent / "fixtures" / "schema-1" / "best-words-params"
FEWER = ["--epochs", "2", "--warmup-epochs", "1", "--retrain-epochs", "1"]
VOID = {"meta", "input", "br", "img", "link"}


class Reader(HTMLParser):
    """The elements of a page, as a browser would read them."""

    def __init__(self, content: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: dict[str, int] = {}
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(content.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes += attrs
        self.ids += [str(value) for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, text: str) -> None:
        (self.scripts if "script" in self.open else self.texts).append(text)


@pytest.fixture(scope="module")
def read(made: Path) -> Reader:
    return Reader((made / FILE).read_bytes())


def test_a_search_ends_with_a_page_that_is_whole(made: Path, read: Reader) -> None:
    assert read.open == [] and len(read.ids) == len(set(read.ids))
    for name in ("next", "scores", "graph", "edges", "decisions", "curves", "seconds", "settings"):
        assert name in read.ids, name
    assert "leaderboard" not in read.ids and "front" not in read.ids  # of `best`
    assert FILE not in json.loads((made / "meta.json").read_text())["files"]  # derived
    memory = json.loads((made / "meta.json").read_text())["memory_mb"]
    stages = list(memory)
    assert stages[:3] == ["Algorithm 2: the supernet", "induced", "cut"]
    assert stages[3:] in (["retraining"], ["induced in full", "retraining"])
    assert 20 < memory["Algorithm 2: the supernet"] <= memory["retraining"]
    titles = " ".join(read.texts)
    assert "highest memory so far" in titles and f"{memory['retraining']:,.0f} MB" in titles
    assert "α of layer 1" in titles and "α of layer 2" in titles and "Edge scores M_G" in titles


def test_names_of_the_user_are_text(made: Path, read: Reader) -> None:
    """A class, a node, a file and a folder named like markup make no element and no attribute."""
    content = (made / FILE).read_text()
    assert read.tags["script"] == 2 and "img" not in read.tags and "i" not in read.tags
    assert not any(name.startswith("on") for name, _ in read.attributes)
    shown_texts = " ".join(read.texts)
    assert all(name in shown_texts for name in CLASSES)
    assert HOSTILE not in content and content.count("</script>") == 2
    stored = json.loads(read.scripts[0])
    assert sorted(stored["classes"]) == sorted(CLASSES) and HOSTILE in stored["id"][0]


def test_nothing_is_loaded(read: Reader) -> None:
    policy = [v for n, v in read.attributes if n == "content" and v and "default-src" in v]
    assert policy and policy[0] is not None and "default-src 'none'" in policy[0]
    assert not [v for n, v in read.attributes if n in ("src", "srcset", "action")]
    links = [str(v) for n, v in read.attributes if n == "href"]
    assert links and all(link.startswith("#") for link in links)
    assert {link[1:] for link in links} <= set(read.ids)
    assert "url(" not in asset("page.css") and "@import" not in asset("page.css")
    script = asset("page.js")
    assert not re.search(r"fetch|XMLHttp|import\(|innerHTML|eval|insertAdjacent", script)


def test_a_page_is_small(made: Path) -> None:
    assert len(page("empty")) < 30_000  # style and script
    assert (made / FILE).stat().st_size < 300_000


def test_the_figures_are_those_of_the_run(made: Path, read: Reader) -> None:
    meta = json.loads((made / "meta.json").read_text())
    text = "".join(read.texts)
    assert (
        per_cent(meta["accuracy"]["test"]) in text and per_cent(meta["accuracy"]["val"], 2) in text
    )
    assert f"{meta['size']['params']:,}" in text
    facts = read_facts(made)
    assert facts.probs is not None and facts.y is not None
    right = (facts.probs.argmax(1) == facts.y)[facts.masks["test"]].mean()
    assert right == pytest.approx(meta["accuracy"]["test"], abs=1e-6)


def test_report_writes_it_anew(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(made, tmp_path / "run"))
    (run / FILE).unlink()
    assert main(["report", str(run)]) == 0
    again, first = (run / FILE).read_bytes(), (made / FILE).read_bytes()
    name = re.compile(rb"<code>[^<]*</code>")
    assert name.sub(b"", again) == name.sub(b"", first)  # commands name the folder
    assert main(["report", str(run), "--out", str(run / FILE)]) == 2
    assert "exists" in capsys.readouterr().err


def test_without_its_graph_the_removed_edges_are_left_out(
    made: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "page.html"
    hidden = made.parent / "<img src=x onerror=alert(1)>"
    moved = hidden.rename(made.parent / "elsewhere")
    try:
        assert main(["report", str(made), "--out", str(out)]) == 0
    finally:
        moved.rename(hidden)
    assert "without the removed edges" in capsys.readouterr().out
    read = Reader(out.read_bytes())
    assert "graph" not in read.ids and "edges" in read.ids and "scores" in read.ids
    assert "Removed edges" not in " ".join(read.texts)


def test_edges_of_another_graph_are_not_believed(made: Path) -> None:
    total = read_facts(made).meta["edges_total"]
    assert read_facts(made, np.zeros((2, total), dtype=np.int64)).edges is None


def test_a_run_of_an_old_version_has_a_page(tmp_path: Path) -> None:
    run = Path(shutil.copytree(FIXTURE, tmp_path / "run"))
    read = Reader(report(read_facts(run)))
    assert read.open == [] and "decisions" not in read.ids and "leaderboard" in read.ids


def test_no_report(tmp_path: Path, made: Path) -> None:
    data_path = str(made.parent / "<img src=x onerror=alert(1)>")
    out = tmp_path / "run"
    words = ["search", "--data", data_path, "--out", str(out), "--no-report", *QUICK, *FEWER]
    assert main(words) == 0
    assert (out / "meta.json").exists() and not (out / FILE).exists()


def test_what_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "meta.json is missing" in capsys.readouterr().err


# Parts of a page


def test_json_in_a_script_cannot_end_it() -> None:
    made = data("d", {"a": HOSTILE, "b": "\u2028<!--", "c": "&"})
    assert made.text is not None and not set("<>&") & set(made.text) and made.text.isascii()
    assert json.loads(made.text) == {"a": HOSTILE, "b": "\u2028<!--", "c": "&"}


def test_texts_and_elements_keep_their_order() -> None:
    made = tag("p", "a", tag("b", "c"), "d", tag("i", "e"), "f", "g")
    assert "".join(made.itertext()) == "acdefg" and made[1].tail == "fg"
    assert "".join(tag("p", "x\x00y").itertext()) == "x\ufffdy"


def test_a_table_heads_its_rows_and_columns() -> None:
    made = table(["a", "b"], [["x", "1"], ["y", "2"]], name="t", numbers=[1], marked=[1])
    rows = made.findall(".//tbody/tr")
    assert [row.get("class") for row in rows] == [None, "taken"]
    assert rows[0][0].tag == "th" and rows[0][1].get("class") == "n"


def test_numbers_as_people_write_them() -> None:
    assert per_cent(0.12345) == "12.3\u00a0%" and per_cent(None) == "–" == per_cent(float("nan"))
    assert [duration(s) for s in (2.04, 61, 3700)] == ["2.0\u00a0s", "1\u00a0min 1\u00a0s",
                                                       "1\u00a0h 1\u00a0min"]  # fmt: skip
    assert number({"a": "nan"}, "a") is None and number({}, "a") is None
    assert [shown(v) for v in (True, None, 1200, 0.5, ["a", 2])] == [
        "yes",
        "–",
        "1,200",
        "0.5",
        "a, 2",
    ]


def test_a_stored_leaderboard_is_shown() -> None:
    board = (
        Standing(name="student 0", kind="student", architecture="c", val_score=0.25),
        Standing(name="plain 0", kind="plain", architecture="<b>", val_score=0.5, weights=1200,
                 taken=True, reason="it is the best"),
    )  # fmt: skip
    (made,) = leaderboard(Facts(folder="r", meta={}, leaderboard=board))
    rows = [["".join(cell.itertext()) for cell in row] for row in made.findall(".//tbody/tr")]
    assert rows == [["<b>", "plain 0", "50.00\u00a0%", "1,200"],
                    ["c", "student 0", "25.00\u00a0%", "–"]]  # fmt: skip
    assert [row.get("class") for row in made.findall(".//tbody/tr")] == ["taken", None]
    assert "it is the best" in "".join(made.itertext())
