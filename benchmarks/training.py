"""Training: R seeds at once against R single runs; `gcn` and `gat` against PyG's own layers with
dense X."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GATConv, GCNConv

from benchmarks.timing import alternate, report
from gassip.baselines.gat import Gat
from gassip.baselines.gcn import Gcn
from gassip.graph.datasets import load
from gassip.graph.graph import Graph
from gassip.nn.net import Model
from gassip.train.batched import solve_many
from gassip.train.trainer import solve, train

COPIES = 10
EPOCHS = {
    "cora": 10,
    "citeseer": 10,
    "pubmed": 5,
    "physics": 2,
}  # per-epoch cost does not depend on their number
EPOCHS |= {"actor": 5, "photo": 5, "coauthor-cs": 2, "debian-packages": 2, "arxiv-standin": 1}
GCN_BARS = dict.fromkeys(EPOCHS, 1.0) | {"cora": 4.0, "citeseer": 4.0}


class Pyg(nn.Module):
    """Two of PyG's layers as its users stack them."""

    def __init__(self, graph: Graph, kind: str) -> None:
        super().__init__()
        features, classes = graph.num_features, graph.num_classes
        if kind == "gcn":
            self.layers = nn.ModuleList(
                [GCNConv(features, 64, cached=True), GCNConv(64, classes, cached=True)]
            )
        else:
            first = GATConv(features, 8, heads=8, dropout=0.6)
            self.layers = nn.ModuleList(
                [first, GATConv(64, classes, heads=1, concat=False, dropout=0.6)]
            )
        self.activation = F.relu if kind == "gcn" else F.elu

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.layers[0](F.dropout(x, 0.6, self.training), edge_index)
        return self.layers[1](F.dropout(self.activation(h), 0.6, self.training), edge_index)


def pyg_training(graph: Graph, kind: str, epochs: int) -> Callable[[], object]:
    """The usual loop: a step, then validation."""
    data = graph.to_data()

    def run() -> None:
        model = Pyg(graph, kind)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4, fused=True)
        for _ in range(epochs):
            model.train()
            optimizer.zero_grad()
            out = model(data.x, data.edge_index)
            F.cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                out = model(data.x, data.edge_index)[data.val_mask]
                (out.argmax(1) == data.y[data.val_mask]).float().mean().item()

    return run


def our_training(graph: Graph, build: Callable[[], Model], epochs: int) -> Callable[[], object]:
    return lambda: train(build(), graph, epochs=epochs, lr=0.01, weight_decay=5e-4)


def many_seeds(name: str) -> bool:
    """The bar is for GCN-64 and as many epochs as a run has."""
    graph, method = load(name), Gcn(dropout=0.8)
    options = {"epochs": 300, "lr": method.lr, "weight_decay": method.weight_decay}
    spans = alternate(
        {
            "single": lambda: solve(graph, lambda: method.net(graph), seed=0, **options),  # type: ignore[arg-type]
            "many": lambda: solve_many(
                graph, lambda: method.net(graph), seeds=range(COPIES), **options
            ),  # type: ignore[arg-type]
        },
        repeats=7,
        warmup=0,
    )
    ratio = COPIES * spans["single"] / spans["many"]
    detail = (
        f"; single {spans['single'] / 0.3:.2f}, batched {spans['many'] / COPIES / 0.3:.2f} ms "
        f"per epoch"
    )
    title = f"{name}: {COPIES} single runs / {COPIES} seeds at once"
    return report(title, ratio, 3.0, higher_is_better=True, detail=detail)


def against_pyg(name: str) -> list[bool]:
    graph, epochs = load(name), EPOCHS[name]
    gcn, gat = Gcn(dropout=0.6), Gat()
    met = []
    for kind, build, bar in (
        ("gcn", lambda: gcn.net(graph), GCN_BARS[name]),
        ("gat", lambda: gat.model(graph), 1.0),
    ):
        sides = {
            "ours": our_training(graph, build, epochs),
            "pyg": pyg_training(graph, kind, epochs),
        }
        once = EPOCHS[name] <= 2  # seconds per epoch: repeated enough
        spans = alternate(sides, repeats=1 if once else 3, warmup=0 if once else 1)
        detail = ", ".join(
            f"{side} {1e3 * span / epochs:.1f} ms per epoch" for side, span in spans.items()
        )
        ratio = spans["pyg"] / spans["ours"]
        met.append(
            report(
                f"{name}: PyG / ours, {kind}",
                ratio,
                bar,
                higher_is_better=True,
                detail=f"; {detail}",
            )
        )
    return met


def main() -> bool:
    torch.set_num_threads(1)
    met = [many_seeds(name) for name in ("cora", "citeseer")]
    for name in EPOCHS:
        met += against_pyg(name)
    return all(met)


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
