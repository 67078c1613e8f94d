"""HTML made of elements: text is escaped by construction, also inside JSON in a script."""

import json
from collections.abc import Iterable, Sequence
from importlib import resources
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from gassip.draw.svg import CHART_STYLE, DARK, LIGHT, clean, element, picture, variables

Content = str | Element


def tag(name: str, *content: Content, **attributes: object) -> Element:
    """`<name>` with texts and elements in their order."""
    made = element(name, **attributes)
    last: Element | None = None
    for part in content:
        if isinstance(part, Element):
            made.append(part)
            last = part
        elif last is None:
            made.text = (made.text or "") + clean(part)
        else:
            last.tail = (last.tail or "") + clean(part)
    return made


def section(name: str, title: str, *content: Content, about: str = "") -> Element:
    """A part of the page with its heading, reached as #name."""
    lead = [tag("p", about, class_="about")] if about else []
    return tag("section", tag("h2", title), *lead, *content, id=name)


def figure(content: Iterable[Element], width: float, height: float, name: str) -> Element:
    """A drawing, which scales with its place and has a name for those who do not see it."""
    return tag("figure", picture(content, width, height, name))


def grid(*parts: Element) -> Element:
    return tag("div", *parts, class_="grid")


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[Content]],
    *,
    name: str,
    numbers: Iterable[int] = (),
    sortable: bool = False,
    marked: Iterable[int] = (),
) -> Element:
    """A table in a frame that scrolls sideways; columns `numbers` stand right, rows `marked` are
    set off. The first column heads its row."""
    right, bold = set(numbers), set(marked)
    top = tag("tr", *(_head(text, k in right, sortable) for k, text in enumerate(heads)))
    body = []
    for at, row in enumerate(rows):
        cells = [_cell(value, k in right, head=k == 0) for k, value in enumerate(row)]
        body.append(tag("tr", *cells, **({"class_": "taken"} if at in bold else {})))
    kind = "sortable" if sortable else "plain"
    made = tag("table", tag("thead", top), tag("tbody", *body), class_=kind, aria_label=name)
    return tag("div", made, class_="scroll", tabindex=0, role="region", aria_label=name)


def _head(text: str, right: bool, sortable: bool) -> Element:
    content: Content = tag("button", text, type="button") if sortable else text
    return tag("th", content, scope="col", **({"class_": "n"} if right else {}))


def _cell(value: Content, right: bool, head: bool) -> Element:
    attributes: dict[str, object] = {"class_": "n"} if right else {}
    return tag("th", value, scope="row", **attributes) if head else tag("td", value, **attributes)


def data(name: str, value: object) -> Element:
    """JSON for the script of the page: no `<` stands in it, so no text can end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    made = Element("script", {"type": "application/json", "id": name})
    made.text = text
    return made


def asset(name: str) -> str:
    return (resources.files("gassip.report") / name).read_text(encoding="utf-8")


POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page(title: str, *content: Element) -> bytes:
    """The whole file: style and script inside, nothing loaded."""
    dark = f"@media (prefers-color-scheme:dark){{:root{{{variables(DARK)}}}}}"
    printed = f"@media print{{:root{{{variables(LIGHT)}}}}}"
    style = Element("style")
    style.text = f":root{{{variables(LIGHT)}}}{dark}{printed}{CHART_STYLE}{asset('page.css')}"
    script = Element("script")
    script.text = asset("page.js")
    head = tag(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width,initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("title", title),
        style,
    )
    skip = tag("a", "Skip to the content", class_="skip", href="#main")
    body = tag("body", skip, *content, script)
    made = tag("html", head, body, lang="en")
    text = ElementTree.tostring(made, encoding="unicode", method="html")
    return b"<!doctype html>\n" + text.encode() + b"\n"
