"""The default search by stages: CPU seconds and shares, beside a grid of PyG's GCN.

One thread, one process; import and reading do not count. The grid has twelve settings of 200 epochs
each, with dense X as in PyG's examples; a few epochs of each are timed, and the rest is reckoned
from them. `python -m benchmarks.stages [dataset ...]`.
"""

import sys
import time
from itertools import product
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch.nn import functional as F
from torch_geometric.nn import GCNConv

from benchmarks.timing import report
from gassip.best.pipeline import search
from gassip.graph.datasets import load
from gassip.graph.graph import Graph
from gassip.train.trainer import retrain

BARS = {"debian": 8.0, "cora": 10.0, "citeseer": 15.0, "pubmed": 60.0}  # CPU seconds
GRID = list(product((16, 64, 256), (0.5, 0.8), (0.01, 0.005)))  # hidden units, dropout, rate
EPOCHS, TIMED = 200, 5


def main() -> bool:
    torch.set_num_threads(1)
    threadpool_limits(1)
    given = sys.argv[1:] if __name__ == "__main__" else []
    met = []
    for name in given or list(BARS):
        graph = load(name)
        spent, accuracy = by_stage(graph)
        whole, grid = sum(spent.values()), pyg_grid(graph)
        print(f"\n{name}: validation accuracy {accuracy:.3f}")
        print(f"  {'stage':28}{'CPU s':>8}{'share':>8}")
        for stage, seconds in spent.items():
            print(f"  {stage:28}{seconds:8.1f}{seconds / whole:8.0%}")
        print(f"  {'whole':28}{whole:8.1f}\n  {f'PyG GCN, {len(GRID)} settings':28}{grid:8.1f}")
        if name in BARS:
            title = f"{name}: CPU seconds of the default search"
            met.append(report(title, whole, BARS[name], higher_is_better=False))
    return all(met)


def by_stage(graph: Graph) -> tuple[dict[str, float], float]:
    """CPU seconds of each stage and of the final training; the validation accuracy."""
    spent: dict[str, float] = {}
    last = time.process_time()

    def tell(row: dict[str, Any]) -> None:
        nonlocal last
        now = time.process_time()
        stage = kind(str(row.get("stage", "supernet")))
        spent[stage] = spent.get(stage, 0.0) + now - last
        last = now

    plan = search(graph, on_epoch=tell)
    spent["other"] = time.process_time() - last
    last = time.process_time()
    solution = retrain(graph, plan)
    spent["final training"] = time.process_time() - last
    return spent, solution.accuracy["val"]


def kind(stage: str) -> str:
    """A stage without the names of what competes in it."""
    starts = ("graph", "recipe", "candidate trial", "kNN teacher", "edges", "pruned")
    return next((start for start in starts if stage.startswith(start)), stage)


class Gcn(torch.nn.Module):
    """Two layers, as in PyG's examples."""

    def __init__(self, features: int, hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.first, self.second = GCNConv(features, hidden), GCNConv(hidden, classes)
        self.dropout = dropout

    def forward(self, x: Any, edge_index: Any) -> Any:
        h = self.first(F.dropout(x, self.dropout, self.training), edge_index).relu()
        return self.second(F.dropout(h, self.dropout, self.training), edge_index)


def pyg_grid(graph: Graph) -> float:
    """CPU seconds of the whole grid, with a validation in every epoch."""
    data, seconds = graph.to_data(), 0.0
    for hidden, dropout, rate in GRID:
        net = Gcn(graph.num_features, hidden, graph.num_classes, dropout)
        optimizer = torch.optim.Adam(net.parameters(), lr=rate, weight_decay=5e-4)
        for epoch in range(TIMED + 1):
            if epoch == 1:  # the one before warms up
                began = time.process_time()
            net.train()
            optimizer.zero_grad()
            scores = net(data.x, data.edge_index)[data.train_mask]
            F.cross_entropy(scores, data.y[data.train_mask]).backward()
            optimizer.step()
            net.eval()
            with torch.no_grad():
                net(data.x, data.edge_index)[data.val_mask].argmax(1)
        seconds += (time.process_time() - began) * EPOCHS / TIMED
    return seconds


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
