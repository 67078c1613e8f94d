"""Named values with their deviations, one below the other: a dot and a line each, another value as
a ring."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from xml.etree.ElementTree import Element

from gassip.draw.chart import BOTTOM, LEFT, RIGHT, Place, shortened
from gassip.draw.scale import Form, Scale, plain, spanning, ticks, width
from gassip.draw.svg import element

ROW = 20.0  # px of one name
HEAD = 34.0  # px of title and unit
WIDEST = 190.0  # px for the names


@dataclass(frozen=True, kw_only=True)
class Dot:
    """One line: NaN draws nothing beside the name."""

    name: str
    value: float
    error: float = 0.0
    ring: float | None = None
    colour: int = 1


@dataclass(frozen=True, kw_only=True)
class Dots:
    title: str
    unit: str = ""
    dots: Sequence[Dot]
    form: Form = plain


def height(data: Dots) -> float:
    return HEAD + ROW * len(data.dots) + BOTTOM


def dots(data: Dots, place: Place | None = None) -> Element:
    place = place or Place(height=height(data))
    names = min(WIDEST, max((width(dot.name) for dot in data.dots), default=LEFT)) + 10
    x = spanning(_values(data), place.left + names, place.left + place.width - RIGHT)
    floor = place.top + HEAD + ROW * len(data.dots)
    parts = [element("text", text=data.title, class_="title", x=place.left + 2, y=place.top + 14)]
    if data.unit:
        parts.append(element("text", text=data.unit, x=place.left + 2, y=place.top + 28))
    for value in ticks(x, data.form):
        line = f"M{x(value):.1f} {place.top + HEAD:.1f}V{floor:.1f}"
        parts.append(element("path", class_="grid", d=line))
        spot = {"x": x(value), "y": floor + 14, "text_anchor": "middle"}
        parts.append(element("text", text=data.form(value), class_="tick", **spot))
    for at, dot in enumerate(data.dots):
        parts += _line(dot, x, place.left, place.top + HEAD + ROW * (at + 0.5), names)
    return element("g", *parts)


def _values(data: Dots) -> list[float]:
    """Everything that is drawn."""
    out = [dot.ring for dot in data.dots if dot.ring is not None]
    known = [dot for dot in data.dots if isfinite(dot.value)]
    return out + [dot.value + sign * dot.error for dot in known for sign in (-1, 1)]


def _line(dot: Dot, x: Scale, left: float, y: float, names: float) -> list[Element]:
    name = shortened(dot.name, names - 10)
    parts = [element("text", text=name, class_="name", x=left + 2, y=y + 4)]
    if dot.ring is not None:
        parts.append(
            element("circle", class_=f"s{dot.colour}", fill="none", cx=x(dot.ring), cy=y, r=4.5)
        )
    if isfinite(dot.value):
        bar = f"M{x(dot.value - dot.error):.1f} {y:.1f}H{x(dot.value + dot.error):.1f}"
        parts.append(element("path", class_=f"error s{dot.colour}", d=bar))
        parts.append(element("circle", class_=f"f{dot.colour}", cx=x(dot.value), cy=y, r=3.5))
    return parts
