"""How the run was made: seconds and memory by stage, settings, versions, notes."""

from collections.abc import Iterator, Mapping
from xml.etree.ElementTree import Element

from gassip.draw.svg import element
from gassip.report.facts import Facts
from gassip.report.html import Content, section, table, tag
from gassip.report.words import duration, number, per_cent, shown

SUPERNET, RETRAINING = "Algorithm 2: the supernet", "retraining"


def seconds_part(run: Facts) -> Iterator[Element]:
    """Bars of the time that each stage took, and the memory by its end."""
    stages, memory = seconds_by_stage(run), run.meta.get("memory_mb") or {}
    total = sum(stages.values())
    if total <= 0:
        return
    rows: list[list[Content]] = []
    for name, value in stages.items():
        bar = element("span", class_="bar", style=f"width:{100 * value / total:.1f}%")
        share = tag("span", per_cent(value / total), bar)
        row: list[Content] = [name, duration(value), share]
        rows.append([*row, f"{memory[name]:,.0f} MB" if name in memory else ""] if memory else row)
    heads = ["stage", "time", "share", *(["highest memory so far"] if memory else [])]
    made = table(heads, rows, name="Seconds and memory by stage", numbers=(1, 3))
    about = (
        f"{duration(total)} in all; nets that were trained in parallel count with their own time."
    )
    more = " Memory is that of the process that searches." if memory else ""
    yield section("seconds", "Where the time went", made, about=about + more)


def seconds_by_stage(run: Facts) -> dict[str, float]:
    """Epochs of the search, each stage, retraining."""
    out: dict[str, float] = {}
    for row in run.history:
        if row.get("phase") == "search" and (value := number(row, "seconds")) is not None:
            name = stage_name(row)
            out[name] = out.get(name, 0.0) + value
    if again := (run.meta.get("seconds") or {}).get("retrain"):
        out[RETRAINING] = float(again)
    return out


def stage_name(row: Mapping[str, object]) -> str:
    """What the page calls the stage of a row of the history, or of an event."""
    return RETRAINING if row.get("phase") == "retrain" else str(row.get("stage", SUPERNET))


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
