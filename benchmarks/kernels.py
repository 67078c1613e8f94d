"""A·H with gradients to H and to the edge weights, against PyG's gather and scatter; X·W as CSR
against dense."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.nn import GraphConv

from benchmarks.timing import Bar, alternate, at_least, here
from gassip.graph.csr import Csr
from gassip.graph.datasets import load
from gassip.graph.graph import Graph
from gassip.nn.kernels import multiply
from gassip.threads import set_threads

WIDTH = 64
DENSE = ("cora", "citeseer")  # dense X of Physics is 1.2 GB


def main() -> list[Bar]:
    set_threads(1)
    bars = []
    for name in here(("cora", "citeseer", "physics")):
        graph = load(name)
        ratio = scatter_ratio(graph, repeats=9 if name == "physics" else 41)
        bars.append(at_least(f"{name}: scatter / CSR, A·H both gradients", ratio, 2.0))
        if name in DENSE:
            bars.append(at_least(f"{name}: dense / CSR, X·W", dense_ratio(graph), 8.0))
    return bars


def backward(run: Callable[[], Tensor]) -> Callable[[], object]:
    return lambda: run().sum().backward()


def scatter_ratio(graph: Graph, repeats: int) -> float:
    """Seconds of PyG's propagation / ours, forward and backward."""
    weight = torch.rand(graph.num_edges, requires_grad=True)
    h = torch.randn(graph.num_nodes, WIDTH, requires_grad=True)
    index, layer = graph.edge_index, GraphConv(WIDTH, WIDTH)

    def scatter() -> Tensor:
        found: Tensor = layer.propagate(index, x=(h, h), edge_weight=weight, size=None)
        return found

    ours = backward(lambda: multiply(graph.adjacency, h, weight))
    spans = alternate({"ours": ours, "pyg": backward(scatter)}, repeats=repeats)
    return spans["pyg"] / spans["ours"]


def dense_ratio(graph: Graph) -> float:
    """Seconds of the dense product / ours, forward and backward."""
    x = graph.x
    assert isinstance(x, Csr)
    dense = torch.from_numpy(x.to_scipy().toarray())
    w = torch.randn(graph.num_features, WIDTH, requires_grad=True)
    sides = {"ours": backward(lambda: multiply(x, w)), "dense": backward(lambda: dense @ w)}
    spans = alternate(sides, repeats=21)
    return spans["dense"] / spans["ours"]


if __name__ == "__main__":
    main()
