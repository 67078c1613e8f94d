"""A histogram of two kinds, one above the other, and bars that lie."""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from gassip.draw.chart import BOTTOM, LEFT, RIGHT, TOP, Place
from gassip.draw.scale import Form, Scale, plain, short, ticks, width
from gassip.draw.svg import element


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """Counts between `edges`, those of `upper` above those of `lower`; `cut` is an upright line."""

    title: str
    unit: str = ""
    below: str = ""
    edges: Sequence[float]  # one more than counts
    lower: Sequence[int]
    upper: Sequence[int]
    names: tuple[str, str] = ("kept", "removed")
    cut: float | None = None
    form_x: Form = plain


def histogram(data: Histogram, place: Place | None = None) -> Element:
    place = place or Place()
    most = max((a + b for a, b in zip(data.lower, data.upper, strict=True)), default=0)
    floor = place.top + place.height - BOTTOM
    x = Scale(data.edges[0], data.edges[-1], place.left + LEFT, place.left + place.width - RIGHT)
    y = Scale(0.0, max(most, 1) * 1.08, floor, place.top + TOP)
    parts = [element("text", text=data.title, class_="title", x=place.left + 2, y=place.top + 14)]
    parts += _key(data, place)
    for value in ticks(y, short, upright=True):
        parts.append(element("path", class_="grid", d=f"M{x.start:.1f} {y(value):.1f}H{x.end:.1f}"))
        spot = {"x": x.start - 6, "y": y(value) + 4, "text_anchor": "end"}
        parts.append(element("text", text=short(value), class_="tick", **spot))
    for value in ticks(x, data.form_x):
        spot = {"x": x(value), "y": floor + 14, "text_anchor": "middle"}
        parts.append(element("text", text=data.form_x(value), class_="tick", **spot))
    if data.below:
        spot = {"x": x.end, "y": floor + 27, "text_anchor": "end"}
        parts.append(element("text", text=data.below, **spot))
    return element("g", *parts, *_bars(data, x, y), *_cut(data, x, y))


def _key(data: Histogram, place: Place) -> list[Element]:
    """Both kinds by name, in their colours."""
    parts, left = [], place.left + 2
    there = data.names if any(data.upper) else data.names[:1]
    for colour, name in enumerate(there, 1):
        spot = {"x": left, "y": place.top + 20, "width": 9, "height": 9}
        parts.append(element("rect", class_=f"f{colour}", **spot))
        parts.append(element("text", text=name, x=left + 13, y=place.top + 28))
        left += 13 + width(name) + 12
    if data.unit:
        parts.append(element("text", text=data.unit, x=left, y=place.top + 28))
    return parts


def _bars(data: Histogram, x: Scale, y: Scale) -> list[Element]:
    parts = []
    for at, (low, high) in enumerate(zip(data.lower, data.upper, strict=True)):
        left, right = x(data.edges[at]), x(data.edges[at + 1])
        gap = 0.5 if right - left > 3 else 0.0
        for colour, first, last in ((1, 0, low), (2, low, low + high)):
            if last > first:
                spot = {"x": left + gap, "width": right - left - 2 * gap}
                spot |= {"y": y(last), "height": y(first) - y(last)}
                tip = element("title", text=_tip(data, at))
                parts.append(element("rect", tip, class_=f"f{colour}", **spot))
    parts.append(element("path", class_="axis", d=f"M{x.start:.1f} {y.start:.1f}H{x.end:.1f}"))
    return parts


def _tip(data: Histogram, at: int) -> str:
    span = f"{data.form_x(data.edges[at])} to {data.form_x(data.edges[at + 1])}"
    kinds = ((data.names[0], data.lower[at]), (data.names[1], data.upper[at]))
    return f"{span}: " + ", ".join(f"{count:,} {name}" for name, count in kinds)


def _cut(data: Histogram, x: Scale, y: Scale) -> list[Element]:
    if data.cut is None:
        return []
    at, text = x(data.cut), f"cut {data.form_x(data.cut)}"
    left = min(max(at - width(text) / 2, x.start), x.end - width(text))
    line = element("path", class_="mark", d=f"M{at:.1f} {y.start:.1f}V{y.end + 3:.1f}")
    return [line, element("text", text=text, x=left, y=y.end - 1)]
