"""A panel of curves or points over two axes, as SVG: named directly, without a legend.

A curve is named at its end, a point beside itself; names that would overlap move apart, or are left
to the pointer (`title`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from xml.etree.ElementTree import Element

from gassip.draw.scale import FONT, Form, Scale, plain, spanning, ticks, width
from gassip.draw.svg import COLOURS, element

LEFT, RIGHT, TOP, BOTTOM = 40.0, 12.0, 40.0, 30.0  # px around the plot
MOST_POINTS = 400  # of a curve: what a screen can show
Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points by the same name and colour (1..7), joined by a line or not."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int = 1
    line: bool = True
    dashed: bool = False
    size: float = 0.0  # radius of a point, px; 0: none
    names: Sequence[str] = ()  # of the points, written beside them; "": not
    tips: Sequence[str] = ()  # of the points, shown under the pointer
    errors: Sequence[float] = ()  # half the height of a bar through each point

    def points(self) -> list[int]:
        """The places of the points that can be drawn; of a long curve every so many."""
        pairs = enumerate(zip(self.x, self.y, strict=True))
        known = [at for at, (x, y) in pairs if isfinite(x) and isfinite(y)]
        step = -(-len(known) // MOST_POINTS) if self.line and known else 1
        thinned = known[::step]
        return thinned if not known or thinned[-1] == known[-1] else [*thinned, known[-1]]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """What is drawn over what; the title names the vertical axis."""

    title: str
    unit: str = ""  # of the vertical axis, behind the title
    below: str = ""  # the horizontal axis
    series: Sequence[Series]
    log: bool = False  # the horizontal axis
    form_x: Form = plain
    form_y: Form = plain
    marks: Sequence[tuple[float, str]] = ()  # upright lines with their names
    bounds: tuple[float, float] | None = None  # of the vertical axis
    name_curves: bool = True


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a panel stands in its picture, and how large it is."""

    left: float = 0.0
    top: float = 0.0
    width: float = 340.0
    height: float = 230.0


@dataclass
class Taken:
    """The boxes that texts have taken."""

    boxes: list[Box] = field(default_factory=list)

    def fits(self, box: Box, inside: Box) -> bool:
        within = box[0] >= inside[0] and box[1] >= inside[1]
        within = within and box[2] <= inside[2] and box[3] <= inside[3]
        return within and not any(_overlap(box, other) for other in self.boxes)


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def panel(data: Panel, place: Place | None = None) -> Element:
    """The panel as a group."""
    place = place or Place()
    drawn = [one for one in data.series if one.points()]
    room = _room_for_names(data, drawn)
    x, y = scales(data, drawn, place, room)
    taken = Taken()
    parts = [*_frame(data, x, y, place), *_marks(data, x, y, taken)]
    for one in drawn:
        parts += _curve(one, x, y)
    for one in drawn:
        parts += _dots(one, x, y, taken)
    if room:
        parts += _curve_names(drawn, x, y)
    # names keep off the labels of the axes
    inside = (x.start, place.top, place.left + place.width, y.start)
    for one in drawn:
        parts += _point_names(one, x, y, taken, inside)
    return element("g", *parts)


def scales(
    data: Panel, drawn: Sequence[Series], place: Place, room: float = 0.0
) -> tuple[Scale, Scale]:
    """The two axes; `room` is kept on the right for the names of curves."""
    across = [one.x[at] for one in drawn for at in one.points()] + [at for at, _ in data.marks]
    left, right = place.left + LEFT, place.left + place.width - RIGHT - room
    below, above = place.top + place.height - BOTTOM, place.top + TOP
    only_curves = all(one.line for one in drawn) and not data.log
    x = spanning(across, left, right, log=data.log, margin=0.0 if only_curves else 0.08)
    if data.bounds is not None:
        return x, Scale(*data.bounds, below, above)
    heights = [one.y[at] + sign * error for one in drawn for at, error in _errors(one)
               for sign in (-1, 1)]  # fmt: skip
    return x, spanning(heights, below, above)


def _errors(one: Series) -> list[tuple[int, float]]:
    return [(at, one.errors[at] if one.errors else 0.0) for at in one.points()]


def _room_for_names(data: Panel, drawn: Sequence[Series]) -> float:
    if not data.name_curves or not any(one.line for one in drawn) or len(drawn) < 2:
        return 0.0
    return min(130.0, max(width(one.name) for one in drawn if one.line) + 8)


def _frame(data: Panel, x: Scale, y: Scale, place: Place) -> list[Element]:
    """Title, grid and the labels of ticks."""
    at = place.left + 2
    parts = [element("text", text=data.title, class_="title", x=at, y=place.top + 14)]
    if data.unit:
        parts.append(element("text", text=data.unit, x=at, y=place.top + 28))
    for value in ticks(y, data.form_y, upright=True):
        line = f"M{x.start:.1f} {y(value):.1f}H{x.end:.1f}"
        parts.append(element("path", class_="grid", d=line))
        spot = {"x": x.start - 6, "y": y(value) + 4, "text_anchor": "end"}
        parts.append(element("text", text=data.form_y(value), class_="tick", **spot))
    axis = f"M{x.start:.1f} {y.start:.1f}H{x.end:.1f}"
    parts.append(element("path", class_="axis", d=axis))
    for value in ticks(x, data.form_x):
        spot = {"x": x(value), "y": y.start + 14, "text_anchor": "middle"}
        parts.append(element("text", text=data.form_x(value), class_="tick", **spot))
    if data.below:
        spot = {"x": x.end, "y": y.start + 27, "text_anchor": "end"}
        parts.append(element("text", text=data.below, **spot))
    return parts


def _marks(data: Panel, x: Scale, y: Scale, taken: Taken) -> list[Element]:
    parts = []
    for value, text in data.marks:
        at = x(value)
        parts.append(element("path", class_="mark", d=f"M{at:.1f} {y.start:.1f}V{y.end + 3:.1f}"))
        long = width(text)
        left = min(max(at - long / 2, x.start), x.end - long)
        parts.append(element("text", text=text, x=left, y=y.end - 1))
        taken.boxes.append((left, y.end - 10, left + long, y.end + 2))
    return parts


def _curve(one: Series, x: Scale, y: Scale) -> list[Element]:
    known = one.points()
    if not one.line or len(known) < 2:
        return []
    path = "M" + "L".join(f"{x(one.x[at]):.1f} {y(one.y[at]):.1f}" for at in known)
    dash = " dash" if one.dashed else ""
    return [element("path", class_=f"curve s{_colour(one)}{dash}", d=path)]


def _dots(one: Series, x: Scale, y: Scale, taken: Taken) -> list[Element]:
    parts = []
    for at, error in _errors(one):
        spot_x, spot_y = x(one.x[at]), y(one.y[at])
        if error:
            bar = f"M{spot_x:.1f} {y(one.y[at] - error):.1f}V{y(one.y[at] + error):.1f}"
            parts.append(element("path", class_=f"error s{_colour(one)}", d=bar))
        radius = one.size or (2.0 if len(one.points()) == 1 else 0.0)
        if not radius:
            continue
        tip = [element("title", text=one.tips[at])] if one.tips else []
        spot = {"cx": spot_x, "cy": spot_y, "r": radius}
        parts.append(element("circle", *tip, class_=f"f{_colour(one)}", **spot))
        taken.boxes.append((spot_x - radius, spot_y - radius, spot_x + radius, spot_y + radius))
    return parts


def _curve_names(drawn: Sequence[Series], x: Scale, y: Scale) -> list[Element]:
    """At the ends of the curves, moved apart."""
    ends = [(y(one.y[one.points()[-1]]), one) for one in drawn if one.line]
    ends.sort(key=lambda end: end[0])
    places = apart([at for at, _ in ends], FONT + 2, y.end, y.start)
    return [
        element("text", text=shortened(one.name, 126), class_=f"t{_colour(one)}", x=x.end + 5,
                y=at + 4)
        for at, (_, one) in zip(places, ends, strict=True)
    ]  # fmt: skip


def apart(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Ascending places moved by as little as keeps them `gap` from each other, inside the bounds
    where there is room."""
    moved = list(places)
    for at in range(1, len(moved)):
        moved[at] = max(moved[at], moved[at - 1] + gap)
    if moved and moved[-1] > high:
        moved[-1] = high
        for at in range(len(moved) - 2, -1, -1):
            moved[at] = min(moved[at], moved[at + 1] - gap)
    if moved and moved[0] < low:
        moved = [max(place, low + at * gap) for at, place in enumerate(moved)]
    return moved


def _point_names(one: Series, x: Scale, y: Scale, taken: Taken, inside: Box) -> list[Element]:
    """Beside each point: right, left, above or below, where there is room."""
    parts = []
    for at in one.points() if one.names else []:
        text = shortened(one.names[at], 150)
        corners = _corners(text, x(one.x[at]), y(one.y[at]), max(one.size, 2.0))
        boxes = corners[4:] + corners[:4] if one.line else corners  # beside lies the curve
        spot = next((box for box in boxes if taken.fits(box, inside)), None)
        if text and spot is not None:
            taken.boxes.append(spot)
            where = {"x": spot[0], "y": spot[3] - 3}
            parts.append(element("text", text=text, class_="name halo", **where))
    return parts


def _corners(text: str, x: float, y: float, radius: float) -> list[Box]:
    """Right, left, above, below, and the four corners, in the order of preference."""
    long, high, gap = width(text), FONT + 2, radius + 4
    places = [
        (x + gap, y - high / 2),
        (x - gap - long, y - high / 2),
        (x - long / 2, y - gap - high),
        (x - long / 2, y + gap),
        (x + 3, y + 4),
        (x - 3 - long, y - 4 - high),
        (x - 3 - long, y + 4),
        (x + 3, y - 4 - high),
    ]
    return [(left, top, left + long, top + high) for left, top in places]


def shortened(text: str, most: float) -> str:
    """The text, cut with an ellipsis where it takes more than so many px."""
    if width(text) <= most:
        return text
    kept = max(1, int(most / width("x")) - 1)
    return text[:kept].rstrip() + "…"


def _colour(one: Series) -> int:
    return (one.colour - 1) % COLOURS + 1
