"""What a budget bounds on one graph: shares of a GCN with 64 hidden units as numbers, and the time
of one inference in gassip.runtime."""

import time
from collections.abc import Mapping
from dataclasses import fields, replace
from statistics import median

from gassip.budget.budget import COUNTS, Budget, Limits, read_amount
from gassip.deploy import runtime
from gassip.deploy.numpy_layers import layers_of
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, Net, net_for
from gassip.nn.size import Size, size_of

READINGS, LEAST_READINGS, READING_MS = 15, 5, 300.0  # of a time: how many, or as many as fit


def limits(budget: Budget, graph: Graph) -> Limits:
    """Shares turned into numbers: of GCN-64 on this graph, or of the graph's edges."""
    bounds: dict[str, float] = {}
    for field in fields(budget):
        amount = read_amount(field.name, getattr(budget, field.name))
        name = field.name.removeprefix("max_")
        if amount is not None:
            value, is_share = amount
            bounds[name] = value * reference(name, graph) if is_share else value
    return Limits(**bounds)


def reference(name: str, graph: Graph) -> float:
    """What a share refers to."""
    if name == "edges":
        return graph.num_edges
    net = gcn64(graph)
    if name == "latency_ms":
        return latency_ms(net, graph)
    return counted(net, graph, size_of(net, graph))[name]


def gcn64(graph: Graph) -> Net:
    """What shares refer to: two graph convolutions with 64 hidden units."""
    return net_for(graph, Architecture(ops=("GCNConv", "GCNConv"), hidden=(64,))).eval()


def latency_ms(net: Net, graph: Graph) -> float:
    """Median milliseconds of one inference on the whole graph in gassip.runtime, which is what is
    deployed."""
    model = in_runtime(net, graph)
    taken: list[float] = []
    model.scores()  # normalises the edges
    while len(taken) < LEAST_READINGS or (len(taken) < READINGS and sum(taken) < READING_MS):
        began = time.perf_counter()
        model.scores()
        taken.append(1000 * (time.perf_counter() - began))
    return median(taken)


def in_runtime(net: Net, graph: Graph) -> runtime.Model:
    """The net and the graph as `runtime.load` would read them from a run's folder."""
    net.zero_pruned()
    state = {name: value.detach().cpu().numpy() for name, value in net.state_dict().items()}
    edges, x = replace(graph.adjacency, value=graph.weight).to_scipy(), net.picked(graph.x)
    edges.eliminate_zeros()
    return runtime.Model(
        layers=layers_of(net.architecture.ops, state, graph.num_classes),
        class_names=graph.class_names,
        features=graph.num_features,
        feature_index=state.get("feature_index"),
        undirected=False,
        normalize=False,
        edges_total=graph.num_edges,
        edges=edges,
        x=x.to_scipy() if isinstance(x, Csr) else x.detach().cpu().numpy(),
    )


def counted(net: Net, graph: Graph, size: Size) -> dict[str, float]:
    """Everything that a budget may bound, by name, but time."""
    return vars(size) | {name: count(net, graph) for name, count in COUNTS.items()}


def broken(counts: Mapping[str, float], bound: Limits) -> list[str]:
    """The counts above their bounds, by name."""
    return [name for name, value in counts.items() if value > getattr(bound, name)]
