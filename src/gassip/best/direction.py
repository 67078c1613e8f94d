"""Directed edges are symmetrised if that raises the validation log-likelihood.

The judge is logistic regression on the leading singular vectors (spectral.py): it has no seed and
takes half a second on Cora.
"""

from gassip.best.decisions import LIKELIHOOD, Decided
from gassip.best.rules import LIKELIHOOD_SIGMAS
from gassip.best.significance import likelihood_gain
from gassip.best.trials import Regression
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.train.plan import Decision


def choose_direction(graph: Graph, direction: str, metric: Metric) -> Decided[bool]:
    """Whether every edge is read both ways."""
    if direction != "auto":
        return Decided(direction == "both", Decision(stage="direction", taken=direction))
    if graph.both_ways is graph:
        return Decided(False, Decision(stage="direction", taken="given: edges are symmetric"))
    given, both = Regression.on(graph, metric), Regression.on(graph.both_ways, metric)
    taken = both.beats(given)
    decision = Decision(
        stage="direction",
        taken="both" if taken else "given",
        tried=(
            {"name": "given", "score": given.value, "statistic": 0.0},
            {
                "name": "both",
                "score": both.value,
                "statistic": likelihood_gain(both.likelihood, given.likelihood),
            },
        ),
        statistic=LIKELIHOOD,
        threshold=LIKELIHOOD_SIGMAS,
    )
    return Decided(taken, decision)
