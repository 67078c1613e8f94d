"""What the search did: the leaderboard, accuracy against size, decisions, curves."""

from collections.abc import Callable, Iterator, Sequence
from xml.etree.ElementTree import Element

from gassip.draw.chart import Panel, Place, Series, panel
from gassip.draw.scale import per_cent as axis_per_cent
from gassip.draw.scale import short
from gassip.report.facts import Facts, Row
from gassip.report.html import Content, figure, grid, section, table, tag
from gassip.report.words import count, number, per_cent, shown
from gassip.runs.history import curve, kept_panel, loss_panel, score_panel
from gassip.train.leaderboard import NET_OF_ROWS, Standing, kind_of, ranked

HEIGHT, WIDTH = 230.0, 340.0


def drawn(chart: Panel, width: float = WIDTH, height: float = HEIGHT) -> Element:
    place = Place(width=width, height=height)
    return figure([panel(chart, place)], width, height, f"{chart.title} {chart.unit}".strip())


def standings(run: Facts) -> list[Standing]:
    """The nets that were trained, best first: the stored leaderboard, else what the history says of
    the nets that stages trained."""
    if run.leaderboard:
        return ranked(run.leaderboard)
    rows = run.rows("search", stage=True)
    board = [
        Standing(
            name=str(row["stage"]),
            kind=kind_of(str(row["stage"])),
            architecture=str(row.get("architecture", "")),
            val_score=number(row, "val_score"),
            seconds=number(row, "seconds"),
        )
        for row in rows
    ]
    return ranked(board)


COLUMNS: tuple[tuple[str, Callable[[Standing], str]], ...] = (
    ("net", lambda net: net.architecture or "–"),
    ("training", lambda net: net.name),
    ("validation", lambda net: per_cent(net.val_score, 2)),
    ("weights", lambda net: _known(net.weights, ",.0f")),
    ("edges", lambda net: _known(net.edges, ",.0f")),
    ("multiply-adds", lambda net: _known(net.macs, ",.0f")),
    ("ms", lambda net: _known(net.ms, ".2f")),
    ("seconds", lambda net: _known(net.seconds, ".1f")),
)


def leaderboard(run: Facts) -> Iterator[Element]:
    """Every net that was trained; columns of which nothing is known are left out."""
    board = standings(run)
    if len(board) < 2:
        return
    cells = [[form(net) for _, form in COLUMNS] for net in board]
    used = [k for k in range(len(COLUMNS)) if any(row[k] != "–" for row in cells)]
    rows = [[row[k] for k in used] for row in cells]
    taken = [at for at, net in enumerate(board) if net.taken]
    made = table(
        [COLUMNS[k][0] for k in used],
        rows,
        name="Leaderboard",
        numbers=[at for at, k in enumerate(used) if k > 1],
        sortable=True,
        marked=taken,
    )
    why = [f" The one taken is set off: {board[k].reason}." for k in taken if board[k].reason]
    about = "Nets that were trained, by their score on validation nodes. A heading sorts."
    yield section(
        "leaderboard", "Leaderboard", made, _words(run, board), about=about + "".join(why)
    )


TRAININGS = {
    "plain": "is a common net, to compare",
    "recipe": "compares settings of training",
    "candidate": "is an architecture that the search proposed, at full width",
    "teacher": "is what the students learn from",
    "student": "is a small net that learns from teachers; “edges” are students on fewer edges",
    "final": "is “retrained”: the net of this run, trained once more",
}  # what each kind of training is for
FINAL_OF_ROWS = f"is the “{NET_OF_ROWS}”, judged on all validation nodes, others on a sample"


def _words(run: Facts, board: Sequence[Standing]) -> Element:
    """What the columns and the names of trainings mean."""
    kinds = {net.kind: net.name for net in board}
    parts: list[Content] = []
    of_rows = kinds.get("final") == NET_OF_ROWS
    for kind, about in (TRAININGS | ({"final": FINAL_OF_ROWS} if of_rows else {})).items():
        if kind in kinds:
            parts += [tag("b", kind), f" {about}. "]
    text = ""
    if run.propagates and "final" in kinds:
        text += f"“{kinds['final']}” is scored with label propagation, all others without it. "
    if any(net.ms is not None for net in board):
        text += "ms is one pass in torch, timed while the search ran."
    return tag("p", *parts, text, class_="small")


def _known(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def fronts(run: Facts) -> Iterator[Element]:
    """Validation score against weights and edges of the nets that were trained, with this run."""
    mine, board = run.score("val"), [net for net in standings(run) if net.kind != "final"]
    panels = []
    for title, here, of in (
        ("weights", run.stored, lambda net: net.weights),
        ("edges", run.meta["edges_kept"], lambda net: net.edges),
    ):
        points = [(of(net), net.val_score, net) for net in board]
        known = [(float(x), y, net) for x, y, net in points if x and y is not None]
        if mine is not None and here > 0 and len({x for x, _, _ in known}) > 1:
            panels.append(_front(known, title, (float(here), mine)))
    if panels:
        about = (
            "Each point is a net that the search trained. Wide teachers are not handed over: the "
            "run’s net is the small one that learned from them."
        )
        if run.propagates:
            about += " This run is shown with label propagation, the others without it."
        yield section("front", "Accuracy against size", grid(*panels), about=about)


def _front(
    points: list[tuple[float, float, Standing]], title: str, here: tuple[float, float]
) -> Element:
    tips = [f"{net.architecture}, {net.name}: {count(x)} {title}, {per_cent(y, 2)}"
            for x, y, net in points]  # fmt: skip
    tip = f"this run: {count(here[0])} {title}, {per_cent(here[1], 2)}"
    series = [
        Series(name="trained", x=[p[0] for p in points], y=[p[1] for p in points], colour=6,
               line=False, size=3.0, tips=tips),
        Series(name="this run", x=[here[0]], y=[here[1]], colour=2, line=False, size=5.0,
               names=["this run"], tips=[tip]),
    ]  # fmt: skip
    return drawn(
        Panel(title=f"Validation score against {title}", unit="per cent", below=title,
              series=series, log=True, form_x=short, form_y=axis_per_cent)
    )  # fmt: skip


def decisions(run: Facts) -> Iterator[Element]:
    """What was tried, the statistic and the threshold; what compared nothing is one line."""
    if not run.decisions:
        return
    blocks = [_decision(decision) for decision in run.decisions]
    about = (
        "Every choice is made on validation nodes. What comes first stays unless another passes "
        "the threshold."
    )
    yield section("decisions", "Decisions", *blocks, about=about)


def _decision(decision: dict[str, object]) -> Element:
    tried = decision.get("tried")
    stage, answer = str(decision.get("stage", "")), decision.get("taken", "")
    head = tag("span", tag("b", stage), ": ", str(answer))
    if not isinstance(tried, list) or not tried:
        return tag("p", head, class_="decision")
    names = [str(row.get("name", "")) for row in tried]
    columns = [("score", 4), *([("new_nodes", 4)] if "new_nodes" in tried[0] else []),
               ("statistic", 2)]  # fmt: skip
    rows = [[str(row.get("name", "")), *(_value(row.get(key), digits) for key, digits in columns)]
            for row in tried]  # fmt: skip
    taken = [k for k, name in enumerate(names) if name == answer]
    heads = ["tried", *(key.replace("_", " ") for key, _ in columns)]
    made = table(heads, rows, name=f"Tried: {stage}", numbers=tuple(range(1, len(heads))),
                 marked=taken)  # fmt: skip
    threshold = decision.get("threshold")
    bound = "" if threshold is None else f", threshold {shown(threshold)}"
    about = f"Statistic: {decision.get('statistic', '')}{bound}."
    count_ = tag("span", f" ({len(tried)} tried)", class_="quiet")
    return tag("details", tag("summary", head, count_), tag("p", about, class_="about"), made)


def _value(value: object, digits: int) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:.{digits}f}".replace("-", "−")
    return "–" if value is None else str(value)


def curves(run: Facts) -> Iterator[Element]:
    """α per layer, losses, scores, what would be kept."""
    epochs, again = run.rows("search", stage=False), run.rows("retrain", stage=False)
    best = run.meta.get("best_epoch")
    marks = [(float(best), f"best: {best}")] if again and best else []
    panels = [
        *alpha_panels(epochs),
        loss_panel("Search: loss", epochs),
        score_panel("Search: validation score", epochs),
        kept_panel(epochs),
        loss_panel("Retraining: loss", again, marks),
        score_panel("Retraining: validation score", again, marks),
    ]
    if known := [drawn(chart) for chart in panels if chart.series]:
        about = (
            "In the search, α shares out each layer among the operations; the net takes what it "
            "prefers. Retraining keeps the epoch with the best validation score."
        )
        yield section("curves", "Over the epochs", grid(*known), about=about)


def alpha_panels(epochs: Sequence[Row]) -> Iterator[Panel]:
    """softmax α of each operation, one panel per layer."""
    columns = list(dict.fromkeys(name for row in epochs for name in row))
    named = [name.split("_", 2) for name in columns if name.startswith("alpha_")]
    for layer in dict.fromkeys(
        parts[1] for parts in named if len(parts) == 3 and parts[1].isdecimal()
    ):
        ops = [parts[2] for parts in named if parts[1] == layer]
        series = [curve(epochs, f"alpha_{layer}_{op}", op, k) for k, op in enumerate(ops, 1)]
        yield Panel(title=f"α of layer {layer}", unit="per cent of each operation", below="epoch",
                    series=[line for line in series if line.x], form_y=axis_per_cent)  # fmt: skip
