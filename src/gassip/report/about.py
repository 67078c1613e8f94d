"""How the run was made: seconds by stage, settings, versions, notes."""

from collections.abc import Iterator, Mapping
from xml.etree.ElementTree import Element

from gassip.draw.svg import element
from gassip.report.facts import Facts
from gassip.report.html import Content, section, table, tag
from gassip.report.words import duration, number, per_cent, shown


def seconds_part(run: Facts) -> Iterator[Element]:
    """Bars of the time that each stage took."""
    stages = seconds_by_stage(run)
    total = sum(stages.values())
    if total <= 0:
        return
    rows: list[list[Content]] = []
    for name, value in stages.items():
        bar = element("span", class_="bar", style=f"width:{100 * value / total:.1f}%")
        rows.append([name, duration(value), tag("span", per_cent(value / total), bar)])
    made = table(["stage", "time", "share"], rows, name="Seconds by stage", numbers=(1,))
    about = (
        f"{duration(total)} in all; nets that were trained in parallel count with their own time."
    )
    yield section("seconds", "Where the time went", made, about=about)


def seconds_by_stage(run: Facts) -> dict[str, float]:
    """Epochs of the search, each stage, retraining."""
    out: dict[str, float] = {}
    for row in run.history:
        if row.get("phase") == "search" and (value := number(row, "seconds")) is not None:
            name = str(row.get("stage", "Algorithm 2: the supernet"))
            out[name] = out.get(name, 0.0) + value
    if again := (run.meta.get("seconds") or {}).get("retrain"):
        out["retraining"] = float(again)
    return out


def settings_part(run: Facts) -> Iterator[Element]:
    meta, source = run.meta, run.meta.get("source") or {}
    made = {
        "graph": meta["dataset"],
        "source": source.get("path") or source.get("name") or source.get("kind"),
        "nodes": meta["nodes"],
        "features": meta["features"],
        "classes": len(meta["class_names"]),
        "directed edges": meta["edges_total"],
        "preset": meta.get("preset"),
        "method": meta.get("method"),
        "seed": meta.get("seed"),
        "metric": meta.get("metric"),
        "threads": meta.get("threads"),
        "device": meta.get("device"),
        **{f"{name} version": value for name, value in (meta.get("versions") or {}).items()},
    }
    parts = [_pairs("How it was made", {k: v for k, v in made.items() if v is not None})]
    for name, title in (("budget", "Budget"), ("recipe", "Training"), ("settings", "Settings")):
        if values := meta.get(name):
            parts.append(tag("details", tag("summary", title), _pairs(title, values)))
    notes = [tag("li", str(note)) for note in meta.get("notes") or []]
    more = [tag("ul", *notes)] if notes else []
    yield section("settings", "Settings and versions", *more, *parts)


def _pairs(name: str, values: Mapping[str, object]) -> Element:
    rows = [[str(key), shown(value)] for key, value in values.items()]
    return table(["name", "value"], rows, name=name)
