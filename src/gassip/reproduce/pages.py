"""The report: index.md, index.html and one SVG for each drawing, all from what records say."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

from gassip import __version__
from gassip.draw.svg import picture
from gassip.errors import GassipError
from gassip.report.html import page, section, table, tag
from gassip.reproduce.figures import Drawing
from gassip.reproduce.tables import Table
from gassip.runs.output import replace_file

MARK = "<!-- written by gassip reproduce -->"
TITLE = "The paper's tables and figures"
ABOUT = (
    "Our figures are read from records; printed ones are the paper's (Xie et al., KDD 2024). "
    "In brackets: searches × trainings, or trainings. Validation nodes choose everything, "
    "accuracy is that of test nodes. Rows named control or also are not in the paper."
)


@dataclass(frozen=True)
class Part:
    """One experiment, rendered."""

    name: str
    title: str
    tables: Sequence[Table]
    drawing: Drawing | None
    notes: Sequence[str]


def check_folder(out: Path) -> None:
    """Refuse, before the work, a place that holds something else."""
    index = out / "index.md"
    if out.exists() and not out.is_dir():
        raise GassipError(f"{out} is a file; --out must name a folder")
    if not out.exists() or not any(out.iterdir()):
        return
    try:
        ours = index.read_text(encoding="utf-8").startswith(MARK)
    except (OSError, ValueError):
        ours = False
    if not ours:
        raise GassipError(
            f"{out} holds files that are not of `gassip reproduce`; choose another --out"
        )


def write(out: Path, parts: Sequence[Part], made: Sequence[str]) -> list[Path]:
    """The files of the report, each replaced as a whole; the index comes last."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for part in parts:
        if part.drawing is not None:
            written.append(out / f"{part.name}.svg")
            replace_file(written[-1], part.drawing.svg())
    for file, content in (("index.html", html(parts, made)), ("index.md", markdown(parts, made))):
        replace_file(out / file, content)
    return [out / "index.md", out / "index.html", *written]


# Markdown


def markdown(parts: Sequence[Part], made: Sequence[str]) -> bytes:
    lines = [MARK, f"# {TITLE}", "", ABOUT, ""]
    for part in parts:
        lines += [f"## {escaped(part.title)}", "", f"`gassip reproduce {part.name}`", ""]
        for one in part.tables:
            lines += [f"**{escaped(one.name)}**", ""] if len(part.tables) > 1 else []
            lines += [*markdown_table(one), ""]
        if part.drawing is not None:
            lines += [f"![{escaped(part.title)}]({part.name}.svg)", ""]
        lines += [*(f"- {escaped(note)}" for note in part.notes), ""] if part.notes else []
    lines += ["## Made by", "", *(f"- {escaped(line)}" for line in made)]
    return ("\n".join(lines).rstrip() + "\n").encode()


def markdown_table(shown: Table) -> list[str]:
    rule = ["---:" if at in shown.numbers else "---" for at in range(len(shown.heads))]
    rows = [shown.heads, rule, *shown.rows]
    return [
        "| " + " | ".join(row if at == 1 else [escaped(cell) for cell in row]) + " |"
        for at, row in enumerate(rows)
    ]


def escaped(text: str) -> str:
    """One line that is no markup."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return text.replace("|", "\\|").replace("*", "\\*").replace("[", "\\[")


# HTML


def html(parts: Sequence[Part], made: Sequence[str]) -> bytes:
    links = tag("nav", *(tag("a", part.title, href=f"#{part.name}") for part in parts))
    head = tag("header", tag("h1", TITLE), tag("p", ABOUT, class_="about"), links)
    last = section("made", "Made by", tag("ul", *(tag("li", line) for line in made)))
    main = tag("main", *(html_part(part) for part in parts), last, id="main")
    foot = tag("footer", f"gassip {__version__}. This page loads nothing and sends nothing.")
    return page(f"{TITLE} · gassip", head, main, foot)


def html_part(part: Part) -> Element:
    content: list[Element] = []
    for one in part.tables:
        content += [tag("h3", one.name)] if len(part.tables) > 1 else []
        content.append(table(one.heads, one.rows, name=one.name, numbers=one.numbers))
    if part.drawing is not None:
        drawing = part.drawing
        drawn = picture(drawing.content, drawing.width, drawing.height, drawing.name)
        content.append(tag("figure", drawn, style=f"margin:12px 0;max-width:{drawing.width:g}px"))
    if part.notes:
        content.append(
            tag(
                "ul",
                *(tag("li", note) for note in part.notes),
                class_="about",
                style="margin-top:12px",
            )
        )
    return section(part.name, part.title, *content)
