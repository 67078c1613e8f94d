"""A·H with gradients to H and to the edge weights, against PyG's gather and scatter; X·W as CSR
against dense."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.nn import GraphConv

from benchmarks.timing import alternate, report
from gassip.graph.csr import Csr
from gassip.graph.datasets import load
from gassip.nn.kernels import multiply

WIDTH = 64


def backward(run: Callable[[], Tensor]) -> Callable[[], object]:
    return lambda: run().sum().backward()


def main() -> bool:
    torch.set_num_threads(1)
    met = []
    for name in ("cora", "citeseer", "physics"):
        graph = load(name)
        weight = torch.rand(graph.num_edges, requires_grad=True)
        h = torch.randn(graph.num_nodes, WIDTH, requires_grad=True)
        scatter = GraphConv(WIDTH, WIDTH)
        spans = alternate(
            {
                "ours": backward(lambda: multiply(graph.adjacency, h, weight)),  # noqa: B023
                "pyg": backward(
                    lambda index=graph.edge_index, h=h, weight=weight, scatter=scatter: (
                        scatter.propagate(index, x=(h, h), edge_weight=weight, size=None)
                    )
                ),
            },
            repeats=9 if name == "physics" else 41,
        )
        ratio = spans["pyg"] / spans["ours"]
        met.append(
            report(f"{name}: scatter / CSR, A·H both gradients", ratio, 2.0, higher_is_better=True)
        )
        if name != "physics":  # dense X of Physics is 1.2 GB
            assert isinstance(graph.x, Csr)
            dense = torch.from_numpy(graph.x.to_scipy().toarray())
            w = torch.randn(graph.num_features, WIDTH, requires_grad=True)
            spans = alternate(
                {
                    "ours": backward(lambda: multiply(graph.x, w)),  # noqa: B023
                    "dense": backward(lambda: dense @ w),  # noqa: B023
                },  # type: ignore[arg-type]
                repeats=21,
            )
            met.append(
                report(
                    f"{name}: dense / CSR, X·W",
                    spans["dense"] / spans["ours"],
                    8.0,
                    higher_is_better=True,
                )
            )
    return all(met)


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
