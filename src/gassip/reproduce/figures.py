"""An experiment as a drawing: panels side by side, one for each graph."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan
from statistics import fmean, stdev
from xml.etree.ElementTree import Element

from gassip.draw.chart import Panel, Place, Series, panel
from gassip.draw.dots import Dot, Dots, dots, height
from gassip.draw.scale import per_cent, short
from gassip.draw.svg import document
from gassip.reproduce.cells import Cell
from gassip.reproduce.experiments import Column, Experiment, printed
from gassip.reproduce.overlap import NETS, PAIRS, SHARES
from gassip.reproduce.tables import Cells, Seeds, by_share, mean, values

WIDTH, HEIGHT, GAP, EACH_ROW = 420.0, 320.0, 20.0, 2  # px of a panel; panels in a row
UNIT = "test accuracy, per cent"
COLOURS = {"": 1, "control": 3, "also": 2}


@dataclass(frozen=True)
class Drawing:
    """What stands in a picture, and how large it is."""

    content: Sequence[Element]
    width: float
    height: float
    name: str

    def svg(self) -> bytes:
        return document(self.content, self.width, self.height, self.name)


def drawn(name: str, experiment: Experiment, cells: Cells) -> Drawing | None:
    """The figure of an experiment that has one; None where nothing is known yet."""
    known = [column for column in experiment.columns if of(cells, column)]
    maker = MAKERS.get(experiment.draw or "")
    if maker is None or not known:
        return None
    return laid_out([maker(name, experiment, cells, column) for column in known], experiment)


def of(cells: Cells, column: Column) -> list[Cell]:
    """The cells of a column that have a figure."""
    return [cell for (_, at), cell in cells.items() if at == column and values(cell)]


def laid_out(parts: Sequence[Panel | Dots], experiment: Experiment) -> Drawing:
    """Two panels beside each other."""
    high = max(height(part) if isinstance(part, Dots) else HEIGHT for part in parts)
    content = []
    for at, part in enumerate(parts):
        left, top = at % EACH_ROW * (WIDTH + GAP), at // EACH_ROW * (high + GAP)
        place = Place(left=left, top=top, width=WIDTH, height=high)
        content.append(dots(part, place) if isinstance(part, Dots) else panel(part, place))
    across, down = min(EACH_ROW, len(parts)), -(-len(parts) // EACH_ROW)
    size = across * (WIDTH + GAP), down * (high + GAP) - GAP
    return Drawing(content, *size, experiment.title)


def _dots(name: str, experiment: Experiment, cells: Cells, column: Column) -> Dots:
    """Each row's mean and deviation; what the paper prints as a ring."""
    lines = [
        Dot(
            name=row.label,
            value=middle(values(cells.get((row, column)))),
            error=deviation(values(cells.get((row, column)))),
            ring=number(printed(name).get(row.label, {}).get(column.label)),
            colour=COLOURS[row.beside],
        )
        for row in experiment.rows
    ]
    rings = any(dot.ring is not None for dot in lines)
    unit = f"{UNIT}; rings: printed" if rings else UNIT
    return Dots(title=column.label, unit=unit, dots=lines)


def middle(found: Sequence[float]) -> float:
    return fmean(found) if found else nan


def deviation(found: Sequence[float]) -> float:
    return stdev(found) if len(found) > 1 else 0.0


def number(text: str | None) -> float | None:
    """The mean of a printed cell; None of OOM."""
    try:
        return None if text is None else float(text.partition("±")[0].replace(",", ""))
    except ValueError:
        return None


def _curves(name: str, experiment: Experiment, cells: Cells, column: Column) -> Panel:
    """A curve for each setting that is varied."""
    curves: dict[str, list[tuple[float, list[float]]]] = {}
    for row in experiment.rows:
        found = values(cells.get((row, column)))
        if row.at is not None and found:
            curves.setdefault(row.at[0], []).append((row.at[1], found))
    series = [
        Series(
            name=curve,
            x=[x + 0.012 * at for x, _ in points],  # bars of two curves stand apart
            y=[fmean(found) for _, found in points],
            errors=[deviation(found) for _, found in points],
            colour=at + 1,
            size=3.0,
        )
        for at, (curve, points) in enumerate(curves.items())
    ]
    return Panel(title=column.label, unit=UNIT, below="value of the setting", series=series)


def _scatter(name: str, experiment: Experiment, cells: Cells, column: Column) -> Panel:
    """Each method's accuracy against its weights; what the paper does not have in other
    colours."""
    series = []
    for beside, colour in COLOURS.items():
        points = [cell for cell in of(cells, column) if cell.row.beside == beside]
        series.append(
            Series(
                name=beside,
                x=[mean(cell.good, "weights_kept") for cell in points],
                y=[fmean(values(cell)) for cell in points],
                errors=[deviation(values(cell)) for cell in points],
                names=[cell.row.label for cell in points],
                colour=colour,
                line=False,
                size=4.0,
            )
        )
    return Panel(
        title=column.label, unit=UNIT, below="weights", series=series, log=True, form_x=short
    )


Maker = Callable[[str, Experiment, Cells, Column], Panel | Dots]
MAKERS: dict[str, Maker] = {"dots": _dots, "curves": _curves, "scatter": _scatter}


# Overlaps


def overlap_drawing(experiment: Experiment, seeds: dict[Column, Seeds]) -> Drawing | None:
    """s against the share of edges that is removed; dashed: a net with itself."""
    known = [column for column in experiment.columns if seeds.get(column)]
    panels = [_overlap(column, seeds[column]) for column in known]
    return laid_out(panels, experiment) if panels else None


def _overlap(column: Column, seeds: Seeds) -> Panel:
    pairs = [f"{a}, {b}" for a, b in PAIRS]
    alone = [f"{net}, another seed" for net in NETS]
    series = [_overlap_curve(name, seeds, at) for at, name in enumerate(pairs, 1)]
    series += [_overlap_curve(name, seeds, at, dashed=True) for at, name in enumerate(alone, 4)]
    chance = Series(name="at random", x=SHARES, y=SHARES, colour=7, dashed=True)
    return Panel(
        title=column.label,
        unit="overlap, per cent",
        below="edges removed, per cent",
        series=[*series, chance],
        log=True,
        form_x=per_cent,
        form_y=per_cent,
    )


def _overlap_curve(name: str, seeds: Seeds, colour: int, *, dashed: bool = False) -> Series:
    y = [fmean(one) for one in by_share(name, seeds)]
    return Series(name=name, x=SHARES, y=y, colour=colour, dashed=dashed)
