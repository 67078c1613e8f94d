"""gassip front --edges: accuracy against edges kept, by one ranking of edges beside others.

One search gives the net and its weight mask. The same net is retrained on graphs that keep the
highest edges of each ranking (best/edge_ranking.py): M_G of the search, at random, by degree, by
the agreement of the same net trained on all edges. A node's last edge always stays. Validation
scores may choose among points; test scores choose nothing.
"""

import argparse
import io
from dataclasses import replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from gassip.commands.common import number, progress

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
    from gassip.best.pipeline import num_rows, search
    from gassip.graph.undirected import keep_highest
    from gassip.settings import preset

    settings = preset(args.preset, graph, given)
    with progress("search", num_rows(settings), args.quiet) as show_epoch:
        plan = search(graph, settings, seed=args.seed, metric=args.metric, on_epoch=show_epoch)
    whole = plan.on(graph, all_edges=True)
    plan = replace(plan, symmetrised=False, soft_edges=False)
    known = Known(whole, agreement_of(whole, plan, args), plan.edge_mask, args.seed)
    points = [edge_point("all edges", 100.0, whole, everything(plan), args)]
    with progress("cuts", len(RANKINGS) * len(EDGE_SHARES), args.quiet) as show_point:
        for ranking in RANKINGS:
            scores = SCORES[ranking](known)
            for share in EDGE_SHARES:
                cut = replace(plan, edge_keep=keep_highest(whole, scores, share / 100))
                points.append(edge_point(ranking, share, whole, cut, args))
                show_point({"epoch": len(points) - 1, "val_score": float(points[-1]["val"] or 0)})
    return points


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
    """Test score over the share of edges kept, a line for each ranking."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "gassip", "svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(5, 3.2), layout="constrained")
        axis = figure.subplots()
        for ranking, text in RANKINGS.items():
            rows = [p for p in points if p["ranking"] in (ranking, "all edges") and p["test"]]
            at, mean, std = ([p[key] or 0.0 for p in rows] for key in ("share", "test", "test_std"))
            per_cent = [100 * float(value) for value in mean]
            error = [100 * float(value) for value in std]
            axis.errorbar(at, per_cent, yerr=error, marker="o", ms=3, lw=1, capsize=2, label=text)
        axis.set(xlabel="edges kept, %", ylabel=f"test {metric}, %", title=f"{name}: edges kept")
        axis.invert_xaxis()
        axis.legend(frameon=False)
        drawn = io.BytesIO()
        FigureCanvasSVG(figure).print_svg(drawn, metadata={"Date": None})
    return drawn.getvalue()
