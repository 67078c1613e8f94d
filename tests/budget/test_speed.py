from collections.abc import Callable

from gassip.budget.speed import beside_gcn
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, net_for


def test_a_larger_net_takes_longer_than_a_gcn(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(nodes=400)
    net = net_for(graph, Architecture(ops=("TAG4", "TAG4"), hidden=(512,))).eval()
    found = beside_gcn(net, graph, graph)
    assert set(found) == {"ms", "gcn_ms"} and found["ms"] > found["gcn_ms"] > 0
