"""Given edge weights are used if they raise the validation log-likelihood, otherwise left out.

The judge is logistic regression on the leading singular vectors (spectral.py), as for the direction
of edges: once with the weights, once with all of them 1.
"""

from dataclasses import replace

from gassip.best.decisions import LIKELIHOOD, Decided
from gassip.best.rules import LIKELIHOOD_SIGMAS
from gassip.best.significance import likelihood_gain
from gassip.best.trials import Regression
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.train.plan import Decision


def choose_weights(graph: Graph, metric: Metric) -> Decided[bool]:
    """Whether the given weights of edges are used."""
    bare = Regression.on(replace(graph, edge_weight=None), metric)
    given = Regression.on(graph, metric)
    taken = given.beats(bare)
    decision = Decision(
        stage="edge weights",
        taken="used" if taken else "left out",
        tried=(
            {"name": "left out", "score": bare.value, "statistic": 0.0},
            {
                "name": "used",
                "score": given.value,
                "statistic": likelihood_gain(given.likelihood, bare.likelihood),
            },
        ),
        statistic=LIKELIHOOD,
        threshold=LIKELIHOOD_SIGMAS,
    )
    return Decided(taken, decision)


def has_weights(graph: Graph) -> bool:
    """Whether edges weigh differently: only then is there a choice."""
    weight = graph.edge_weight
    return weight is not None and bool((weight != weight[0]).any())
