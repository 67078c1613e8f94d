"""report.html: one run on one page."""

from pathlib import Path
from xml.etree.ElementTree import Element

from gassip.graph.checks import Array
from gassip.report.about import seconds_part, settings_part
from gassip.report.edges import edge_part, graph_part, mask_part
from gassip.report.facts import Facts, read_facts
from gassip.report.first import beside_gcn, net_drawing, next_steps, outcome, tiles
from gassip.report.html import page, tag
from gassip.report.scored import score_part
from gassip.report.searched import curves, decisions, fronts, leaderboard
from gassip.runs.format import replace_file

FILE = "report.html"


def report(run: Facts) -> bytes:
    """The page; what the run does not have is left out."""
    parts = [next_steps(run)]
    for part in (score_part, leaderboard, fronts, graph_part, edge_part, mask_part, decisions):
        parts += part(run)
    parts += [*curves(run), *seconds_part(run), *settings_part(run)]
    return page(f"{run.title} · gassip", *first_screen(run, parts), footer(run))


def first_screen(run: Facts, parts: list[Element]) -> list[Element]:
    drawing = net_drawing(run)
    said = tag("div", outcome(run), *beside_gcn(run), tiles(run), class_="said-first")
    right = [tag("div", drawing, class_="net")] if drawing is not None else []
    head = tag("header", tag("h1", run.title), contents(parts))
    return [head, tag("main", tag("div", said, *right, class_="first"), *parts, id="main")]


def contents(parts: list[Element]) -> Element:
    """Links to the sections."""
    links = [
        tag("a", part.findtext("h2") or "", href=f"#{part.get('id')}")
        for part in parts
        if part.tag == "section"
    ]
    return tag("nav", *links, aria_label="Sections")


def footer(run: Facts) -> Element:
    version = (run.meta.get("versions") or {}).get("gassip", "")
    return tag("footer", f"gassip {version}. This page loads nothing and sends nothing.")


def write_report(folder: str | Path, edges: Array | None = None, out: Path | None = None) -> Path:
    """report.html of a run into its folder, or to `out`; whole or not at all."""
    path = out or Path(folder) / FILE
    replace_file(path, report(read_facts(folder, edges)))
    return path
