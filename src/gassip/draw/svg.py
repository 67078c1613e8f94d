"""SVG elements, escaped by construction, and the documents that hold them."""

import re
from collections.abc import Iterable
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# One palette for drawings and pages: names of variables, light and dark.
LIGHT = {
    "paper": "#fcfbf8",
    "ink": "#1f1d1a",
    "quiet": "#67625a",
    "line": "#ddd8ce",
    "c1": "#0d6674",
    "c2": "#b3432a",
    "c3": "#8a6a00",
    "c4": "#74468a",
    "c5": "#44702a",
    "c6": "#4f5f80",
    "c7": "#a03a66",
}
DARK = {
    "paper": "#171614",
    "ink": "#ece8e0",
    "quiet": "#a8a297",
    "line": "#3a3732",
    "c1": "#5cc0cd",
    "c2": "#ee8a6d",
    "c3": "#d8b24a",
    "c4": "#c79adb",
    "c5": "#94c574",
    "c6": "#9db0d8",
    "c7": "#ea8fb4",
}
COLOURS = 7
CHART_STYLE = """
.chart{font:11px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.chart text{fill:var(--quiet);stroke:none}
.chart .title{fill:var(--ink);font-weight:600;font-size:12px}
.chart .name{fill:var(--ink)}
.chart .grid{stroke:var(--line);stroke-width:1;fill:none}
.chart .axis{stroke:var(--quiet);stroke-width:1;fill:none}
.chart .mark{stroke:var(--quiet);stroke-width:1;stroke-dasharray:3 3;fill:none}
.chart .curve{fill:none;stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}
.chart .dash{stroke-dasharray:4 3}
.chart .error{stroke-width:1;opacity:.55;fill:none}
.chart .halo{stroke:var(--paper);stroke-width:3;paint-order:stroke;stroke-linejoin:round}
""" + "".join(
    f".chart .s{k}{{stroke:var(--c{k})}}.chart .f{k}{{fill:var(--c{k})}}"
    f".chart text.t{k}{{fill:var(--c{k})}}\n"
    for k in range(1, COLOURS + 1)
)


def clean(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)


def element(tag: str, *children: Element, text: object = "", **attributes: object) -> Element:
    """`<tag name="value">`; `_` in a name is written `-`, a trailing one is dropped."""
    made = Element(tag)
    for name, value in attributes.items():
        written = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
        made.set(name.rstrip("_").replace("_", "-"), clean(written))
    if text:
        made.text = clean(str(text))
    made.extend(children)
    return made


def written(made: Element) -> str:
    return ElementTree.tostring(made, encoding="unicode")


def variables(palette: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in palette.items())


def picture(content: Iterable[Element], width: float, height: float, name: str) -> Element:
    """A drawing with an accessible name; it scales with its place."""
    box = f"0 0 {width:g} {height:g}"
    made = element("svg", *content, class_="chart", viewBox=box, role="img")
    made.set("aria-label", clean(name))
    return made


def document(content: Iterable[Element], width: float, height: float, name: str) -> bytes:
    """A file of its own: with its style, light or dark as the reader's machine is."""
    dark = f"@media (prefers-color-scheme:dark){{svg{{{variables(DARK)}}}}}"
    style = f"svg{{{variables(LIGHT)}}}{dark}{CHART_STYLE}"
    ground = element("rect", width=width, height=height, style="fill:var(--paper)")
    made = picture([element("style", text=style), ground, *content], width, height, name)
    made.set("xmlns", "http://www.w3.org/2000/svg")
    made.set("width", f"{width:g}")
    made.set("height", f"{height:g}")
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + written(made).encode() + b"\n"
