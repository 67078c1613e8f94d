"""Which edges and weights went: the histogram of M_G with the cut, classes, degrees, a sample of
the graph, the masks of the weights.

Shapes: N nodes, E directed edges.
"""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

import numpy as np

from gassip.draw.bars import Histogram, histogram
from gassip.draw.chart import Place
from gassip.draw.svg import element
from gassip.graph.checks import Array
from gassip.report.facts import Facts
from gassip.report.html import data, figure, grid, section, table, tag
from gassip.report.layout import sample
from gassip.report.words import count, per_cent

BINS, WIDTH, HEIGHT = 40, 340.0, 230.0
MOSTLY = 0.95  # of the kept edges lie above a cut
LEVELS = 8  # shades of a picture of a mask
CELLS = 48  # of a picture of a mask, at most, in either direction
DEGREES = (2, 3, 5, 9, 17, 33, 65)  # the first of each group of degrees but the first


def edge_part(run: Facts) -> Iterator[Element]:
    """Left out where no edge went and none was scored."""
    parts = [*score_histogram(run), *by_class(run), *by_degree(run)]
    kept, total = run.meta["edges_kept"], run.meta["edges_total"]
    if parts:
        about = f"{count(kept)} of {count(total)} directed edges stay ({per_cent(kept / total)})."
        if kept == total:
            about = f"All {count(total)} directed edges stay."
        if run.edge_mask is not None:
            about += " M_G is the score that the search learned for an edge; low ones go first."
        yield section("edges", "Edges", grid(*parts), about=about)


def score_histogram(run: Facts) -> Iterator[Element]:
    """M_G of kept and of removed edges; the cut is drawn where M_G alone made it."""
    mask, keep = run.edge_mask, run.edge_keep
    if mask is None or keep is None or not mask.size or mask.min() == mask.max():
        return
    bounds = np.linspace(float(mask.min()), float(mask.max()), BINS + 1)
    lower, upper = (np.histogram(mask[chosen], bounds)[0].tolist() for chosen in (keep, ~keep))
    made = Histogram(
        title="Edge scores M_G",
        unit="edges",
        below="M_G",
        edges=bounds.tolist(),
        lower=lower,
        upper=upper,
        cut=cut_of(mask, keep),
        form_x=lambda value: f"{value:.3g}",
    )
    place = Place(width=WIDTH, height=HEIGHT)
    yield figure([histogram(made, place)], WIDTH, HEIGHT, "Histogram of the edge scores M_G")


def cut_of(mask: Array, keep: Array) -> float | None:
    """Where M_G parts the kept edges from the removed ones; None if another ranking cut them. Of
    the kept edges a few may lie below: the last ones of their nodes."""
    if keep.all() or not keep.any():
        return None
    highest = float(mask[~keep].max())
    above = mask[keep] >= highest
    if above.mean() < MOSTLY:
        return None
    return (highest + float(mask[keep][above].min())) / 2


def by_class(run: Facts) -> Iterator[Element]:
    """Edges within and across the classes that the net predicts; no label is read for it."""
    if run.edges is None or run.probs is None or run.edge_keep is None or run.edge_keep.all():
        return
    label = run.probs.argmax(1)
    within = label[run.edges[0]] == label[run.edges[1]]
    groups = [("within a class", within), ("across classes", ~within)]
    yield _went(run, "by the predicted class of the ends", groups)


def by_degree(run: Facts) -> Iterator[Element]:
    """Edges by the smaller degree of their two ends."""
    if run.edges is None or run.edge_keep is None or run.edge_keep.all():
        return
    degree = np.bincount(run.edges[1], minlength=run.meta["nodes"])
    smaller = np.minimum(degree[run.edges[0]], degree[run.edges[1]])
    group = np.searchsorted(DEGREES, smaller, side="right")
    firsts = (1, *DEGREES)
    names = [_span(at, firsts) for at in range(len(firsts))]
    groups = [(name, group == at) for at, name in enumerate(names)]
    yield _went(run, "by the smaller degree of the ends", groups)


def _span(at: int, firsts: tuple[int, ...]) -> str:
    if at == len(firsts) - 1:
        return f"{firsts[at]} and more"
    first, last = firsts[at], firsts[at + 1] - 1
    return str(first) if first == last else f"{first} to {last}"


def _went(run: Facts, how: str, groups: list[tuple[str, Array]]) -> Element:
    assert run.edge_keep is not None
    rows = []
    for name, members in groups:
        if total := int(members.sum()):
            gone = int((members & ~run.edge_keep).sum())
            rows.append([name, count(total), count(gone), per_cent(gone / total)])
    heads = ["edges", "there were", "removed", "share"]
    caption = f"Removed edges {how}"
    made = table(heads, rows, name=caption, numbers=(1, 2, 3))
    return tag("div", tag("h3", caption), made)


def graph_part(run: Facts) -> Iterator[Element]:
    """A sample of the graph on a canvas, with a slider over the edges kept."""
    if run.edges is None or run.edge_keep is None or run.probs is None:
        return
    found = sample(run.edges, int(run.meta["nodes"]))
    if found is None:
        return
    mask = run.edge_mask if run.edge_mask is not None else np.ones(run.edges.shape[1])
    order = np.lexsort((-mask[found.edges], ~run.edge_keep[found.edges]))
    kept = int(run.edge_keep[found.edges].sum())
    label = run.probs.argmax(1)
    known = run.masks.get("train", np.zeros(len(label), dtype=bool))
    names = run.ids or tuple(map(str, range(len(label))))
    facts = {
        "x": (found.places[:, 0] * 1000).round().astype(int).tolist(),
        "y": (found.places[:, 1] * 1000).round().astype(int).tolist(),
        "id": [names[node] for node in found.nodes],
        "label": label[found.nodes].tolist(),
        "sure": (100 * run.probs.max(1)[found.nodes]).round().astype(int).tolist(),
        "train": known[found.nodes].astype(int).tolist(),
        "from": found.pairs[0][order].tolist(),
        "to": found.pairs[1][order].tolist(),
        "kept": kept,
        "classes": run.classes,
    }
    yield section("graph", "A sample of the graph", *_canvas(facts, kept), about=_about(run, found))


def _about(run: Facts, found: object) -> str:
    assert run.edge_keep is not None
    removed = not run.edge_keep.all()
    text = (
        f"Connected nodes around the one with most neighbours, of {count(run.meta['nodes'])} in "
        "all; a colour is a predicted class. Point at a node to see its name."
    )
    more = " The slider shows fewer edges, those of the highest score first; removed ones are red."
    return text + (more if removed else "")


def _canvas(facts: dict[str, object], kept: int) -> list[Element]:
    start = facts["from"]
    assert isinstance(start, list)
    slider = tag("input", type="range", id="kept", min=0, max=len(start), value=kept)
    label = tag("label", "Edges kept ", tag("output", for_="kept", id="kept-said"), for_="kept")
    ends = tag("p", "", id="node-said", class_="said", aria_live="polite")
    canvas = tag(
        "canvas",
        tabindex=0,
        role="img",
        id="sample",
        aria_label="Nodes and edges of the sample; arrow keys go from node to node",
    )
    return [
        tag("div", label, slider, class_="slide"),
        tag("div", canvas, class_="stage"),
        ends,
        tag("ul", id="sample-key", class_="key"),
        data("sample-data", facts),
    ]


def mask_part(run: Facts) -> Iterator[Element]:
    """The share of weights kept, in cells of each layer's matrix; left out where none was cut."""
    if not run.weight_keep or all(keep.all() for keep in run.weight_keep):
        return
    pictures = [_mask(keep, at) for at, keep in enumerate(run.weight_keep, 1)]
    about = "Rows are inputs, columns outputs of a layer; the darker a cell, the more weights stay."
    yield section("masks", "Weight masks", grid(*pictures), about=about)


def _mask(keep: Array, layer: int) -> Element:
    cells = pooled(keep, CELLS)
    rows, columns = cells.shape
    side = min(WIDTH / columns, 300 / rows)
    shades = (cells * LEVELS).round().astype(int)
    parts = [_cells(shades == level, side, level) for level in range(1, LEVELS + 1)]
    text = f"Layer {layer}: {keep.shape[0]:,} × {keep.shape[1]:,}, {per_cent(float(keep.mean()))}"
    head = element("text", text=f"{text} kept", class_="title", x=2, y=13)
    return figure([head, *parts], WIDTH, 24 + rows * side, f"Mask of {text} kept")


def _cells(where: Array, side: float, level: int) -> Element:
    """The cells of one shade as one path."""
    one = f"h{side:.1f}v{side:.1f}h-{side:.1f}z"
    path = "".join(f"M{j * side:.1f} {20 + i * side:.1f}{one}" for i, j in np.argwhere(where))
    return element("path", class_="f1", opacity=level / LEVELS, d=path)


def pooled(keep: Array, most: int) -> Array:
    """Shares of a boolean matrix in at most `most` × `most` cells."""
    rows, columns = (np.linspace(0, size, min(size, most) + 1).astype(int) for size in keep.shape)
    sums = np.add.reduceat(keep.astype(np.float64), rows[:-1], axis=0)
    sums = np.add.reduceat(sums, columns[:-1], axis=1)
    return sums / np.outer(np.diff(rows), np.diff(columns))
