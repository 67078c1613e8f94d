"""Several runs on one page: the front of accuracy against size, and a table that sorts."""

from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element

from gassip import __version__
from gassip.draw.chart import Panel, Series
from gassip.draw.scale import per_cent as axis_per_cent
from gassip.draw.scale import short
from gassip.report.facts import Facts
from gassip.report.html import grid, page, section, table, tag
from gassip.report.searched import drawn
from gassip.report.words import METRICS, SPLITS, count, per_cent, shown


def compare(runs: Sequence[Facts]) -> bytes:
    """The page; runs on different graphs are told apart, and named as such."""
    names = named(runs)
    graphs = list(dict.fromkeys(_graph(run) for run in runs))
    parts = []
    for at, graph in enumerate(graphs):
        group = [(name, run) for name, run in zip(names, runs, strict=True) if _graph(run) == graph]
        title = "Accuracy against size" + (
            f": {group[0][1].meta['dataset']}" if at or graphs[1:] else ""
        )
        if panels := front_panels(group):
            parts.append(section(f"front-{at}", title, grid(*panels)))
    parts += [runs_table(names, runs), settings_table(names, runs)]
    head = tag("header", tag("h1", f"{len(runs)} runs"), *_warning(len(graphs)))
    foot = tag("footer", f"gassip {__version__}. This page loads nothing and sends nothing.")
    return page(f"{len(runs)} runs · gassip", head, tag("main", *parts, id="main"), foot)


def _graph(run: Facts) -> tuple[str, str]:
    source = run.meta.get("source") or {}
    return str(run.meta["dataset"]), str(source.get("fingerprint", ""))


def _warning(graphs: int) -> list[Element]:
    if graphs == 1:
        return []
    text = f"The runs are of {graphs} different graphs or splits: compare only within one of them."
    return [tag("p", text, class_="about")]


def named(runs: Sequence[Facts]) -> list[str]:
    """The last part of each folder's name; the whole where two would be the same."""
    short_names = [Path(run.folder).name or run.folder for run in runs]
    return [
        name if short_names.count(name) == 1 else run.folder
        for name, run in zip(short_names, runs, strict=True)
    ]


def split_of(runs: Sequence[Facts], metric: str) -> str | None:
    """The split on which all of them are scored: test, else validation."""
    known = (s for s in ("test", "val") if all(r.score(s, metric) is not None for r in runs))
    return next(known, None)


def front_panels(group: Sequence[tuple[str, Facts]]) -> list[Element]:
    """The score of each run against its weights and its edges; the best of each size are joined."""
    runs = [run for _, run in group]
    metric = runs[0].metric
    split = split_of(runs, metric)
    if split is None or len(runs) < 2:
        return []
    title = f"{SPLITS[split].capitalize()} {METRICS.get(metric, metric)}"
    y = [run.score(split, metric) or 0.0 for run in runs]
    panels = []
    for name, x in (
        ("weights", [float(run.stored) for run in runs]),
        ("edges", [float(run.meta["edges_kept"]) for run in runs]),
    ):
        if min(x) > 0:
            panels.append(_panel(title, name, x, y, [name for name, _ in group]))
    return panels


def _panel(title: str, below: str, x: list[float], y: list[float], names: Sequence[str]) -> Element:
    best = front(x, y)
    tips = [f"{name}: {count(a)} {below}, {per_cent(b, 2)}"
            for name, a, b in zip(names, x, y, strict=True)]  # fmt: skip
    series = [Series(name="runs", x=x, y=y, colour=1, line=False, size=4.0, names=names, tips=tips)]
    if len(best) > 1:
        line = Series(name="front", x=[x[k] for k in best], y=[y[k] for k in best], colour=2)
        series.insert(0, line)
    return drawn(
        Panel(title=f"{title} against {below}", unit="per cent", below=below, series=series,
              log=True, form_x=short, form_y=axis_per_cent, name_curves=False)
    )  # fmt: skip


def front(x: Sequence[float], y: Sequence[float]) -> list[int]:
    """Those that no other surpasses at the same size or a smaller one, smallest first."""
    order = sorted(range(len(x)), key=lambda k: (x[k], -y[k]))
    out: list[int] = []
    for k in order:
        if not out or y[k] > y[out[-1]]:
            out.append(k)
    return out


def runs_table(names: Sequence[str], runs: Sequence[Facts]) -> Element:
    heads = ["run", "graph", "how", "net", "test", "validation", "weights", "edges", "seconds"]
    rows = [_row(name, run) for name, run in zip(names, runs, strict=True)]
    made = table(heads, rows, name="Runs", numbers=range(4, 9), sortable=True)
    metrics = sorted({run.metric for run in runs})
    spelled = ", ".join(METRICS.get(metric, metric) for metric in metrics)
    about = f"Scores are {spelled}. A heading sorts."
    return section("runs", "Runs", made, about=about)


def _row(name: str, run: Facts) -> list[str]:
    seconds = sum(float(v) for v in (run.meta.get("seconds") or {}).values() if v)
    return [
        name,
        str(run.meta["dataset"]),
        str(run.meta.get("preset") or run.meta.get("method") or "–"),
        " ‖ ".join(run.meta["architecture"] or []) or "–",
        per_cent(run.score("test"), 2),
        per_cent(run.score("val"), 2),
        count(run.stored),
        count(run.meta["edges_kept"]),
        f"{seconds:,.1f}",
    ]


def settings_table(names: Sequence[str], runs: Sequence[Facts]) -> Element:
    """Settings in which the runs differ."""
    all_settings = [
        {"seed": run.meta.get("seed"), **(run.meta.get("budget") or {}), **run.meta["settings"]}
        for run in runs
    ]
    keys = list(dict.fromkeys(key for settings in all_settings for key in settings))
    differ = [k for k in keys if len({shown(settings.get(k)) for settings in all_settings}) > 1]
    rows = [[key, *(shown(settings.get(key)) for settings in all_settings)] for key in differ]
    if not rows:
        return section("settings", "Settings", tag("p", "All runs have the same settings."))
    made = table(["setting", *names], rows, name="Settings that differ")
    return section("settings", "Settings that differ", made)
