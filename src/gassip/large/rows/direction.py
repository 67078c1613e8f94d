"""Directed edges are symmetrised if that raises the validation likelihood of a net over hops."""

from gassip.best.calibration import log_likelihood
from gassip.best.decisions import LIKELIHOOD
from gassip.best.rules import LIKELIHOOD_SIGMAS
from gassip.best.significance import likelihood_gain
from gassip.large.adjacency import symmetric
from gassip.large.kernels import Edges
from gassip.large.rows.data import Chosen
from gassip.large.rows.job import Job, prepared
from gassip.large.rows.nets import Shape
from gassip.train.plan import Decision, Row


def direction(job: Job, chosen: Chosen, made: list[Decision]) -> str:
    """`given`, or `both` if a net over hops of the symmetrised graph has a higher validation
    likelihood beyond chance."""
    if symmetric(Edges.of(job.graph)):
        return "given"
    if job.both:
        return "both"
    results = {}
    for key in ("given", "both"):
        trials = prepared(job, chosen, key)
        shape = Shape(hops=tuple(range(min(2, job.steps) + 1)))
        results[key] = trials.train("candidate direction", 0, shape)
        y = trials.tables.val.target
    likelihood = [log_likelihood(trained.probs, y) for trained in results.values()]
    statistic = likelihood_gain(likelihood[1], likelihood[0])
    taken = "both" if statistic > LIKELIHOOD_SIGMAS else "given"
    tried: list[Row] = [
        {"name": key, "score": trained.value, "statistic": value}
        for (key, trained), value in zip(results.items(), (0.0, statistic), strict=True)
    ]
    made.append(
        Decision(
            stage="direction",
            taken=taken,
            tried=tuple(tried),
            statistic=LIKELIHOOD,
            threshold=float(LIKELIHOOD_SIGMAS),
        )
    )
    return taken
