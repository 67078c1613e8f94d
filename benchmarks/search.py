"""One search epoch against the same supernet on PyG's layers with dense X; the whole search against
our own DARTS."""

from collections.abc import Callable

from benchmarks.pyg_supernet import PygSearch
from benchmarks.timing import Bar, alternate, at_least, at_most, here
from gassip.graph.datasets import load
from gassip.graph.graph import Graph
from gassip.paper.loop import epoch
from gassip.paper.state import State
from gassip.settings import preset
from gassip.settings.search import Search
from gassip.threads import set_threads

BARS = {"cora": 8.0, "citeseer": 12.0}


def ours(graph: Graph, settings: Search) -> Callable[[], object]:
    state = State(graph, settings)
    state.history = [{}] * settings.warmup_epochs  # past the warm-up, so that every step runs
    return lambda: epoch(state, "accuracy")


def main() -> list[Bar]:
    set_threads(1)
    bars = []
    for name in here(BARS):
        graph = load(name)
        settings = preset("literal", graph).search
        darts = preset("literal", graph, {"prune": False, "sparsify": False}).search
        pyg = PygSearch(graph, settings)
        sides = {"ours": ours(graph, settings), "pyg": pyg.epoch, "darts": ours(graph, darts)}
        spans = alternate(sides, repeats=21)
        detail = "; " + ", ".join(f"{side} {1e3 * span:.1f} ms" for side, span in spans.items())
        speed, cost = spans["pyg"] / spans["ours"], spans["ours"] / spans["darts"]
        bars.append(at_least(f"{name}: PyG / ours, one epoch", speed, BARS[name], detail))
        bars.append(at_most(f"{name}: ours / DARTS, one epoch", cost, 1.8))
    return bars


if __name__ == "__main__":
    main()
