"""gassip front --edges: accuracy against edges kept, by one ranking of edges beside others.

One search gives the net and its weight mask. The same net is retrained on graphs that keep the
highest edges of each ranking (best/edge_ranking.py): M_G of the search, at random, by degree, by
the agreement of the same net trained on all edges. A node's last edge always stays. Validation
scores may choose among points; test scores choose nothing.
"""

import argparse
from dataclasses import replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from gassip.commands.common import set_threads
from gassip.commands.summary import number, progress

if TYPE_CHECKING:
    from torch import Tensor

    from gassip.graph.graph import Graph
    from gassip.train.plan import Plan

EDGE_SHARES = (95.0, 90.0, 80.0, 70.0, 60.0, 40.0, 20.0)  # % of the undirected edges
RANKINGS = {
    "curriculum": "M_G of the search",
    "random": "at random",
    "inverse-degree": "by degree",
    "agreement": "by agreement",
}
Point = dict[str, float | int | str | None]


def edge_front(graph: "Graph", given: dict[str, Any], args: argparse.Namespace) -> list[Point]:
    """The same net with all edges, then each share of edges by each ranking."""
    from gassip.best.edge_ranking import RANKINGS as SCORES
    from gassip.best.edge_ranking import Known
    from gassip.best.pipeline import search
    from gassip.best.steps import num_rows
    from gassip.large.cluster import connected
    from gassip.settings import preset

    settings = preset(args.preset, graph, given)
    with progress("search", num_rows(settings), args.quiet) as show_epoch:
        plan = search(graph, settings, seed=args.seed, metric=args.metric, on_epoch=show_epoch)
    whole = plan.on(graph, all_edges=True)
    plan = replace(plan, symmetrised=False, soft_edges=False)
    known = Known(whole, agreement_of(whole, plan, args), plan.edge_mask, args.seed)
    scores = {ranking: SCORES[ranking](known) for ranking in RANKINGS}
    items: list[tuple[str, float]] = [("all edges", 100.0)]
    items += [(ranking, share) for ranking in RANKINGS for share in EDGE_SHARES]
    asked = argparse.Namespace(
        seed=args.seed, retrains=args.retrains, metric=args.metric, threads=args.threads
    )
    with (
        connected(args.cluster) as tasks,
        progress("cuts", len(items), args.quiet) as show_point,
    ):

        def arrived(at: int, made: Point) -> None:
            show_point({"epoch": at + 1, "val_score": float(made["val"] or 0)})

        return tasks.map(cut_task, (whole, plan, scores, asked), items, arrived)


def cut_task(
    shared: "tuple[Graph, Plan, dict[str, Tensor], argparse.Namespace]", ranking: str, share: float
) -> Point:
    """One cut, here or on a worker."""
    from gassip.graph.undirected import keep_highest

    graph, plan, scores, asked = shared
    set_threads(asked.threads)
    if ranking not in scores:
        return edge_point(ranking, share, graph, everything(plan), asked)
    cut = replace(plan, edge_keep=keep_highest(graph, scores[ranking], share / 100))
    return edge_point(ranking, share, graph, cut, asked)


def everything(plan: "Plan") -> "Plan":
    """The plan with all edges."""
    import torch

    return replace(plan, edge_keep=torch.ones_like(plan.edge_keep))


def agreement_of(graph: "Graph", plan: "Plan", args: argparse.Namespace) -> "Tensor":
    """Class probabilities [N, C] of the plan's net trained on all edges."""
    import torch

    from gassip.train.trainer import predict, retrain

    blind = replace(graph, test_mask=torch.zeros_like(graph.test_mask))
    solution = retrain(blind, everything(plan), seed=args.seed, metric=args.metric)
    return torch.softmax(predict(solution.model, solution.graph), 1)


def edge_point(
    ranking: str, share: float, graph: "Graph", plan: "Plan", args: argparse.Namespace
) -> Point:
    """The plan retrained with several seeds: mean and deviation."""
    from gassip.train.batched import retrain_many

    seeds = range(args.seed, args.seed + args.retrains)
    solutions = retrain_many(graph, plan, seeds=seeds, metric=args.metric)
    row: Point = {"ranking": ranking, "share": share, "edges": solutions[0].edges_kept}
    for split in ("val", "test"):
        scores = [s.scores.get(args.metric, {}) for s in solutions]
        values = [score[split] for score in scores if split in score]
        row[split] = fmean(values) if values else None
        row[f"{split}_std"] = stdev(values) if len(values) > 1 else None
    return row


def show_edges(points: list[Point], title: str) -> None:
    """A table: a row for each share, a column for each ranking; test scores in per cent."""
    print(f"{title}; test score in % by edges kept")
    print(f"{'edges kept':12}" + "".join(f"{text:>20}" for text in RANKINGS.values()))
    whole, *rest = points
    print(f"{'100%':12}{number_of(whole):>20}")
    for share in EDGE_SHARES:
        row = {point["ranking"]: number_of(point) for point in rest if point["share"] == share}
        print(f"{f'{share:g}%':12}" + "".join(f"{row[name]:>20}" for name in RANKINGS))


def number_of(point: Point) -> str:
    mean, std = point["test"], point["test_std"]
    if mean is None:
        return number(None)
    deviation = "" if std is None else f" ± {100 * float(std):.1f}"
    return f"{100 * float(mean):.1f}{deviation}"


def edges_svg(points: list[Point], name: str, metric: str) -> bytes:
    """Test score over the share of edges kept, a curve for each ranking."""
    from gassip.draw.chart import Panel, Place, Series, panel
    from gassip.draw.scale import per_cent, plain
    from gassip.draw.svg import document, element

    series = []
    for colour, (ranking, text) in enumerate(RANKINGS.items(), 1):
        rows = [p for p in points if p["ranking"] in (ranking, "all edges") and p["test"]]
        rows.sort(key=lambda row: float(row["share"] or 0))
        at, mean, std = (
            [float(p[key] or 0.0) for p in rows] for key in ("share", "test", "test_std")
        )
        tips = [f"{text}, {p['share']:g} % of edges: {number_of(p)} %" for p in rows]
        series.append(Series(name=text, x=at, y=mean, errors=std, tips=tips, size=3.0,
                             colour=colour))  # fmt: skip
    about = f"{name}: edges kept by several rankings, mean and deviation"
    drawn = Panel(title=f"Test {metric} over edges kept", unit="per cent", below="edges kept, %",
                  series=series, form_x=plain, form_y=per_cent)  # fmt: skip
    title = element("text", text=about, class_="title", x=14, y=22)
    place = Place(left=12.0, top=36.0, width=576.0, height=320.0)
    return document([title, panel(drawn, place)], 600.0, 368.0, about)
