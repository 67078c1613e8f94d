"""The default search by stages: CPU seconds and shares, beside a grid of PyG's GCN.

One thread, one process; import and reading do not count. The grid has twelve settings of 200 epochs
each, with dense X as in PyG's examples; a few epochs of each are timed, and the rest is reckoned
from them. `python -m benchmarks.stages [dataset ...]`: small graphs unless others are named, which
take minutes and have no grid beside them.
"""

import sys
import time
from itertools import product
from typing import Any

from benchmarks import pyg
from benchmarks.timing import Bar, at_most, here
from gassip.best.pipeline import search
from gassip.graph.datasets import load
from gassip.graph.graph import Graph
from gassip.settings import Settings, preset
from gassip.threads import set_threads
from gassip.train.trainer import retrain

BARS = {"debian": 8.0, "cora": 10.0, "citeseer": 15.0, "pubmed": 60.0}  # CPU seconds
LARGER = {"photo": 60.0, "physics": 120.0, "debian-packages": 180.0, "arxiv-standin": 600.0}
OWN = ("debian-packages", "arxiv-standin")  # searched with `--for own`
GRID = list(product((16, 64, 256), (0.5, 0.8), (0.01, 0.005)))  # hidden units, dropout, rate
EPOCHS, TIMED = 200, 3


def main() -> list[Bar]:
    set_threads(1)
    given = sys.argv[1:] if __name__ == "__main__" else []
    bars = []
    for name in here(given or BARS):
        graph = load(name)
        own = {"for": "own"} if name in OWN else {}
        spent, accuracy = by_stage(graph, preset("best", graph, own))
        whole = sum(spent.values())
        print(f"\n{name}: validation accuracy {accuracy:.3f}")
        print(f"  {'stage':28}{'CPU s':>8}{'share':>8}")
        for stage, seconds in spent.items():
            print(f"  {stage:28}{seconds:8.1f}{seconds / whole:8.0%}")
        print(f"  {'whole':28}{whole:8.1f}")
        if name not in LARGER:
            print(f"  {f'PyG GCN, {len(GRID)} settings':28}{pyg_grid(graph):8.1f}")
        if (bar := (BARS | LARGER).get(name)) is not None:
            title = f"{name}: CPU seconds of the default search{', --for own' if own else ''}"
            bars.append(at_most(title, whole, bar))
    return bars


def by_stage(graph: Graph, settings: Settings) -> tuple[dict[str, float], float]:
    """CPU seconds of each stage and of the final training; the validation accuracy."""
    spent: dict[str, float] = {}
    last = time.process_time()

    def tell(row: dict[str, Any]) -> None:
        nonlocal last
        now = time.process_time()
        stage = kind(str(row.get("stage", "supernet")))
        spent[stage] = spent.get(stage, 0.0) + now - last
        last = now

    plan = search(graph, settings, on_epoch=tell)
    spent["other"] = time.process_time() - last
    last = time.process_time()
    solution = retrain(graph, plan)
    spent["final training"] = time.process_time() - last
    return spent, solution.accuracy["val"]


def kind(stage: str) -> str:
    """A stage without the names of what competes in it."""
    starts = ("graph", "recipe", "candidate trial", "kNN teacher", "edges", "pruned")
    return next((start for start in starts if stage.startswith(start)), stage)


def pyg_grid(graph: Graph) -> float:
    """CPU seconds of the whole grid, with a validation in every epoch."""
    data, seconds = graph.to_data(), 0.0
    for hidden, dropout, rate in GRID:
        net = pyg.gcn(graph, hidden, dropout)
        pyg.train(net, data, 1, rate)  # warms up
        began = time.process_time()
        pyg.train(net, data, TIMED, rate)
        seconds += (time.process_time() - began) * EPOCHS / TIMED
    return seconds


if __name__ == "__main__":
    main()
