"""How fast a net is beside a plain GCN: both in gassip.runtime, in turn, on one machine.

    ms       of one pass of the net over the graph as it reads it
    gcn_ms   of a GCN with 64 hidden units over the whole graph

Each is the quickest of several passes, so what else the machine does counts little. Label
propagation is not timed: the runtime computes what labels say once for a graph.
"""

import time

from gassip.budget.limits import gcn64, in_runtime
from gassip.graph.graph import Graph
from gassip.nn.net import Net

PASSES, BUDGET_MS = 20, 600.0  # of both nets: how many each, or as many as fit; at least three


def beside_gcn(net: Net, reads: Graph, whole: Graph) -> dict[str, float]:
    """`reads` has the edges that the net kept, `whole` has all."""
    models = {"ms": in_runtime(net, reads), "gcn_ms": in_runtime(gcn64(whole), whole)}
    taken: dict[str, list[float]] = {name: [] for name in models}
    for model in models.values():
        model.scores()  # normalises the edges
    for at in range(PASSES):
        if at >= 3 and sum(map(sum, taken.values())) > BUDGET_MS:
            break
        for name, model in models.items():
            began = time.perf_counter()
            model.scores()
            taken[name].append(1000 * (time.perf_counter() - began))
    return {name: min(readings) for name, readings in taken.items()}
