"""The points of `gassip front` as a table and as a chart."""

from typing import TYPE_CHECKING

from gassip.commands.edge_front import Point
from gassip.commands.summary import number

if TYPE_CHECKING:
    from gassip.draw.chart import Series


def told_score(row: Point, split: str) -> str:
    mean, std = row[split], row[f"{split}_std"]
    assert not isinstance(mean, str) and not isinstance(std, str)
    return number(mean) + ("" if std is None else f" ± {std:.4f}")


def show(points: list[Point], title: str) -> None:
    """A table of 80 columns, the largest net first; scores in per cent."""
    print(f"{title}; scores in % with their deviation")
    counts = f"{'weights':>9}{'bytes':>9}{'edges':>9}{'MMACs':>8}"
    print(f"{'net':15}{'in×hidden':>10}{counts}{'val':>6}{'test':>11}")
    for row in sorted(points, key=lambda row: -int(row["params"] or 0)):
        net = str(row["net"]).replace("Conv", "").replace(" ‖ ", "‖")
        shape, macs = f"{row['features']}×{row['hidden']}", int(row["macs"] or 0) / 1e6
        counts = f"{row['params']:>9,}{row['bytes']:>9,}{row['edges']:>9,}{macs:>8.2f}"
        print(f"{net:15}{shape:>10}{counts}{_per_cent(row, 'val')}{_per_cent(row, 'test')}")


def _per_cent(row: Point, split: str) -> str:
    mean, std = row[split], row[f"{split}_std"]
    if mean is None:
        return f"{'-':>6}     "
    deviation = "     " if std is None else f" ±{100 * float(std):<3.1f}"
    return f"{100 * float(mean):>6.1f}{deviation}"


def to_svg(points: list[Point], name: str, metric: str) -> bytes:
    """Test score over weights stored and over multiply-adds, every point named."""
    from gassip.draw.chart import Panel, Place, panel
    from gassip.draw.scale import per_cent, short
    from gassip.draw.svg import document, element

    about = f"{name}: nets of one search and dense GCNs, mean and deviation"
    parts = [element("text", text=about, class_="title", x=14, y=22)]
    for at, (key, text) in enumerate({"params": "weights", "macs": "multiply-adds"}.items()):
        drawn = Panel(
            title=f"Test {metric} over {text}",
            unit="per cent",
            below=f"{text}, log scale",
            series=[front_series(points, key, kind) for kind in ("found", "gcn")],
            log=True,
            form_x=short,
            form_y=per_cent,
            name_curves=False,
        )
        place = Place(left=12 + at * 470.0, top=36.0, width=456.0, height=320.0)
        parts.append(panel(drawn, place))
    return document(parts, 952.0, 368.0, about)


def front_series(points: list[Point], key: str, kind: str) -> "Series":
    """The points of one kind, the smallest net first."""
    from gassip.draw.chart import Series

    rows = [row for row in points if row["kind"] == kind and row["test"] is not None]
    rows.sort(key=lambda row: float(row[key] or 0))
    at, mean, std = ([float(row[c] or 0.0) for row in rows] for c in (key, "test", "test_std"))
    names = [str(row["net"]).replace("Conv", "") for row in rows]
    tips = [f"{row['net']}: {told_score(row, 'test')}, {row[key]:,} {key}" for row in rows]
    colour, label = {"found": (1, "nets of one search"), "gcn": (2, "dense GCN")}[kind]
    return Series(name=label, x=at, y=mean, errors=std, names=names, tips=tips, colour=colour,
                  size=3.5)  # fmt: skip
