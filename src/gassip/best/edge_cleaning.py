"""Edges between dissimilar nodes are dropped if that raises the validation log-likelihood.

The judge is logistic regression on the leading singular vectors, as for the direction of edges.

Shapes: N nodes, E directed edges.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gassip.best.decisions import LIKELIHOOD, Decided
from gassip.best.rules import LIKELIHOOD_SIGMAS
from gassip.best.significance import likelihood_gain
from gassip.best.trials import Regression, Trials
from gassip.graph.graph import Graph
from gassip.graph.similarity import cosine
from gassip.graph.undirected import keep_highest
from gassip.settings.best import Cleaning
from gassip.train.plan import Decision, Row


@dataclass(frozen=True, eq=False)
class Cleaned:
    """The graph that everything is trained on, which edges it has, and what regression says."""

    graph: Graph
    kept: Tensor  # [E] bool, among the edges of the graph before
    judge: Regression


def drop_dissimilar_edges(trials: Trials, settings: Cleaning) -> Decided[Cleaned]:
    """The shares of edges in turn, the most similar ends kept; all stay unless a share is
    better."""
    graph = trials.graph
    judge = trials.regress("graph with all edges", graph)
    kept = torch.ones(graph.num_edges, dtype=torch.bool, device=graph.device)
    taken, tried = "all edges", [_row("all edges", judge, judge)]
    shares = sorted(settings.clean_shares, reverse=True) if graph.num_edges else []
    similarity = cosine(graph.without_degrees.x, graph.adjacency) if shares else None
    for share in shares:
        assert similarity is not None
        keep = keep_highest(graph, similarity, share)
        name = f"{share:g} of the edges"
        challenger = trials.regress(f"graph with {name}", graph.keep(keep))
        tried.append(_row(name, challenger, judge))
        if challenger.beats(judge):
            judge, kept, taken = challenger, keep, name
        elif likelihood_gain(challenger.likelihood, judge.likelihood) < -LIKELIHOOD_SIGMAS:
            break  # fewer edges are worse already
    cleaned = Cleaned(graph.keep(kept) if shares else graph, kept, judge)
    return Decided(cleaned, _decision("edge cleaning", taken, tried))


def _row(name: str, challenger: Regression, incumbent: Regression) -> Row:
    gain = likelihood_gain(challenger.likelihood, incumbent.likelihood)
    return {"name": name, "score": challenger.value, "statistic": gain}


def _decision(stage: str, taken: str, tried: list[Row]) -> Decision:
    return Decision(
        stage=stage,
        taken=taken,
        tried=tuple(tried),
        statistic=LIKELIHOOD,
        threshold=LIKELIHOOD_SIGMAS,
    )
