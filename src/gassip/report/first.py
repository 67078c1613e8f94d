"""The first screen: the outcome in one sentence, the net as a drawing, what to do next."""

import shlex
from xml.etree.ElementTree import Element

from gassip.draw.chart import shortened
from gassip.draw.svg import element
from gassip.operations import OPERATIONS
from gassip.report.facts import Facts
from gassip.report.html import Content, figure, section, tag
from gassip.report.searched import standings
from gassip.report.words import METRICS, SPLITS, count, duration, per_cent

GCN = "GCNConv ‖ GCNConv"
WIDTH, BOX, GAP, LEFT = 340.0, 46.0, 26.0, 8.0


def outcome(run: Facts) -> Element:
    """What was found against a plain GCN, with the figures that the run itself knows."""
    metric = METRICS.get(run.metric, run.metric)
    parts: list[Content] = ["On ", tag("b", str(run.meta["dataset"])), ", the net found "]
    split = next((s for s in ("test", "val") if run.score(s) is not None), None)
    if split is None:
        parts.append("has ")
    else:
        parts += ["reaches ", tag("b", per_cent(run.score(split)))]
        parts.append(f" {SPLITS[split]} {metric} with ")
    parts += [*_times(run.of_gcn), "a plain GCN’s weights"]
    edges: list[Content] = [tag("b", _edges(run)), " of the edges"]
    if speed := run.speed:
        parts += [", ", *edges, " and ", *_times(speed[0] / speed[1]), "its time"]
    else:
        parts += [" and ", *edges]
    return tag("p", *parts, ".", class_="outcome")


def _times(ratio: float) -> list[Content]:
    """35 % of, or 3.9 times."""
    if ratio < 0.005:
        return [tag("b", per_cent(ratio, 2)), " of "]
    if round(ratio, 2) <= 1:
        return [tag("b", per_cent(ratio, 0)), " of "]
    return [tag("b", f"{ratio:.1f} times"), " "]


def _edges(run: Facts) -> str:
    kept, total = run.meta["edges_kept"], run.meta["edges_total"]
    return "all" if kept == total else per_cent(kept / total)


def beside_gcn(run: Facts) -> list[Element]:
    """What a plain GCN is, and how one that the search itself trained compares."""
    text = (
        f"A plain GCN has two layers and 64 hidden units: {count(run.gcn_weights)} weights here; "
        f"the net found has {count(run.stored)}."
    )
    if speed := run.speed:
        text += (
            f" One pass over the whole graph takes it {speed[1]:.2g}\u00a0ms, the net found "
            f"{speed[0]:.2g}\u00a0ms, measured in turn by the runtime."
        )
    return [tag("p", text + _scores_beside(run), class_="about")]


def _scores_beside(run: Facts) -> str:
    mine = run.score("val")
    gcns = [net for net in standings(run)
            if net.kind in ("plain", "candidate") and net.architecture == GCN
            and net.val_score is not None]  # fmt: skip
    if not gcns or mine is None:
        return ""
    text = (
        f" One trained in the search scores {per_cent(gcns[0].val_score)} on validation nodes, "
        f"the net found {per_cent(mine)}"
    )
    alone = run.alone
    if alone is not None:
        text += f" ({per_cent(alone)} before label propagation adds what known labels say)"
    return f"{text}."


def tiles(run: Facts) -> Element:
    """Figures at a glance."""
    size = run.meta.get("size") or {}
    rows = [(f"{SPLITS[s]} {METRICS.get(run.metric, run.metric)}", per_cent(run.score(s)))
            for s in ("test", "val") if run.score(s) is not None]  # fmt: skip
    if new := run.meta.get("inductive"):
        rows.append(("validation, new nodes", per_cent(new["score"])))
    rows.append(("weights stored", count(run.stored)))
    edges = f"{count(run.meta['edges_kept'])} of {count(run.meta['edges_total'])}"
    rows.append(("edges kept", edges))
    if "bytes" in size:
        rows.append(("model file", f"{size['bytes'] / 1000:,.0f} kB"))
    if "macs" in size:
        rows.append(("multiply-adds", f"{size['macs'] / 1e6:,.1f} M"))
    if seconds := _seconds(run):
        rows.append(("search and training", duration(seconds)))
    pairs = [tag("div", tag("dt", name), tag("dd", value)) for name, value in rows]
    return tag("dl", *pairs, class_="tiles")


def _seconds(run: Facts) -> float:
    return sum(float(v) for v in (run.meta.get("seconds") or {}).values() if v)


def next_steps(run: Facts) -> Element:
    """Commands to copy."""
    folder, refit = shlex.quote(run.folder), shlex.quote(f"{run.folder.rstrip('/')}-refit")
    steps = [
        ("Label the nodes", f"gassip predict {folder} --out labels.csv"),
        ("Take the net elsewhere", f"gassip export {folder} --format runtime --out deployed"),
        ("Train on the validation labels too", f"gassip refit {folder} --out {refit}"),
        ("Repeat the training ten times", f"gassip evaluate {folder} --seeds 10"),
    ]
    items = [
        tag("li", tag("span", text), tag("div", tag("code", line), _copy(text), class_="command"))
        for text, line in steps
    ]
    return section("next", "What to do next", tag("ul", *items, class_="steps"))


def _copy(text: str) -> Element:
    return tag("button", "Copy", type="button", class_="copy", aria_label=f"Copy: {text}")


def net_drawing(run: Facts) -> Element | None:
    """The net from the features down to the classes; a run without an architecture has none."""
    meta = run.meta
    if not meta["architecture"]:
        return None
    widths = [*(meta.get("net") or {}).get("hidden", []), len(run.classes)]
    boxes = [("features", _features(run), 0)]
    for at, name in enumerate(meta["architecture"]):
        boxes.append((name, _layer(run, at, widths), 1 if OPERATIONS[name].norm else 2))
    if weight := (meta.get("net") or {}).get("label_weight"):
        boxes.append(("label propagation", f"added to the logits, weight {weight:.2f}", 1))
    boxes.append(("classes", ", ".join(run.classes), 0))
    parts: list[Element] = []
    for at, (name, about, kind) in enumerate(boxes):
        parts += _box(at, name, about, kind, last=at == len(boxes) - 1)
    height = len(boxes) * (BOX + GAP) - GAP + 8
    said = " → ".join(name for name, _, _ in boxes)
    return figure(parts, WIDTH, height, f"The net: {said}")


def _features(run: Facts) -> str:
    kept, text = _rows_read(run), f"{count(run.meta['features'])} per node"
    return text if kept is None else f"{count(kept)} of {count(run.meta['features'])} are read"


def _rows_read(run: Facts) -> int | None:
    """Features that the net reads, where it does not read all."""
    rows = run.weight_keep[0].shape[0] if run.weight_keep else run.meta["features"]
    return rows if rows < run.meta["features"] else None


def _layer(run: Facts, at: int, widths: list[int]) -> str:
    reads = OPERATIONS[run.meta["architecture"][at]].norm
    what = "of the node and its neighbours" if reads else "of the node alone"
    units = f"{widths[at]} units" if at < len(widths) else ""
    return ", ".join(part for part in (units, what) if part)


def _box(at: int, name: str, about: str, kind: int, last: bool) -> list[Element]:
    top = 4 + at * (BOX + GAP)
    shape = {"x": LEFT, "y": top, "width": WIDTH - 2 * LEFT, "height": BOX, "rx": 6}
    middle = WIDTH / 2
    parts = [
        element("rect", class_=f"box k{kind}", **shape),
        element("text", text=name, class_="title", x=LEFT + 12, y=top + 19),
        element("text", text=shortened(about, WIDTH - 2 * LEFT - 26), x=LEFT + 12, y=top + 36),
    ]
    if not last:
        foot = top + BOX
        line = f"M{middle} {foot + 3}V{foot + GAP - 4}m-4 -5l4 5l4 -5"
        parts.append(element("path", class_="axis", d=line))
    return parts
