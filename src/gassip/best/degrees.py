"""Columns of degree stand beside the given features if they raise the validation log-likelihood.

    log(1 + in), log(1 + out), the mean of the neighbours' log(1 + in), the power of two of in + out

as in graph/structure.py. As for the direction of edges, the judge is logistic regression on the
leading singular vectors (spectral.py): once without the columns, once with them.
"""

from gassip.best.decisions import LIKELIHOOD, Decided
from gassip.best.rules import LIKELIHOOD_SIGMAS
from gassip.best.significance import likelihood_gain
from gassip.best.spectral import best_fit, inputs_of, leading
from gassip.best.trials import Regression
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.train.plan import Decision


def choose_degrees(graph: Graph, metric: Metric) -> Decided[bool]:
    """Whether nets read columns of degree beside the given features."""
    directions = leading(graph)
    without, given = (
        Regression.of(best_fit(inputs_of(own, directions), own).to(own.device), own, metric)
        for own in (graph, graph.with_degrees)
    )
    taken = given.beats(without)
    decision = Decision(
        stage="columns of degree",
        taken="with" if taken else "without",
        tried=(
            {"name": "without", "score": without.value, "statistic": 0.0},
            {
                "name": "with",
                "score": given.value,
                "statistic": likelihood_gain(given.likelihood, without.likelihood),
            },
        ),
        statistic=LIKELIHOOD,
        threshold=LIKELIHOOD_SIGMAS,
    )
    return Decided(taken, decision)


def may_read_degrees(graph: Graph) -> bool:
    """Whether there is a choice: features were given, and there are edges."""
    return graph.structure is None and graph.num_edges > 0
