"""Training: R seeds at once against R single runs; `gcn` and `gat` against PyG's own layers with
dense X.

Ten seeds at once gain 3.1 × on Cora and 3.5 × on CiteSeer on an AMD EPYC, 2.4 × and 2.8 × on an
Intel Xeon, both with AVX-512: there the bar is missed. What copies cannot share limits the gain:
the dropout of X, the products with what it leaves, their gradient and the step of Adam are about
six tenths of a batched epoch. Single runs have the same kernels.
"""

from collections.abc import Callable

from torch import nn

from benchmarks import pyg
from benchmarks.timing import Bar, alternate, at_least, here
from gassip.baselines.gat import Gat
from gassip.baselines.gcn import Gcn
from gassip.graph.datasets import load
from gassip.graph.graph import Graph
from gassip.nn.net import Model
from gassip.threads import set_threads
from gassip.train.batched import solve_many
from gassip.train.trainer import solve, train

COPIES = 10
MANY = ("cora", "citeseer")
# the cost of an epoch does not depend on their number
EPOCHS = {"cora": 10, "citeseer": 10, "pubmed": 5, "actor": 5, "photo": 5}
EPOCHS |= {"physics": 1, "debian-packages": 1, "arxiv-standin": 1}
GCN_BARS = dict.fromkeys(EPOCHS, 1.0) | {"cora": 4.0, "citeseer": 4.0}


def main() -> list[Bar]:
    set_threads(1)
    bars = [many_seeds(name) for name in here(MANY)]
    for name in here(EPOCHS):
        bars += against_pyg(name)
    return bars


def many_seeds(name: str) -> Bar:
    """The bar is for GCN-64 and as many epochs as a run has."""
    graph, method, epochs = load(name), Gcn(dropout=0.8), 300

    def single() -> object:
        return solve(
            graph,
            lambda: method.net(graph),
            seed=0,
            epochs=epochs,
            lr=method.lr,
            weight_decay=method.weight_decay,
        )

    def many() -> object:
        return solve_many(
            graph,
            lambda: method.net(graph),
            seeds=range(COPIES),
            epochs=epochs,
            lr=method.lr,
            weight_decay=method.weight_decay,
        )

    spans = alternate({"single": single, "many": many}, repeats=3, warmup=0)
    ratio = COPIES * spans["single"] / spans["many"]
    each = {"single": spans["single"], "batched": spans["many"] / COPIES}
    detail = ", ".join(f"{side} {1e3 * span / epochs:.2f}" for side, span in each.items())
    title = f"{name}: {COPIES} single runs / {COPIES} seeds at once"
    return at_least(title, ratio, 3.0, f"; {detail} ms per epoch")


def against_pyg(name: str) -> list[Bar]:
    graph, epochs = load(name), EPOCHS[name]
    gcn, gat = Gcn(dropout=0.6), Gat()
    return [
        ratio(
            f"{name}: PyG / ours, gcn",
            our_training(graph, lambda: gcn.net(graph), epochs),
            pyg_training(graph, lambda: pyg.gcn(graph, dropout=0.6, cached=True), epochs),
            epochs,
            GCN_BARS[name],
        ),
        ratio(
            f"{name}: PyG / ours, gat",
            our_training(graph, lambda: gat.model(graph), epochs),
            pyg_training(graph, lambda: pyg.gat(graph), epochs),
            epochs,
            1.0,
        ),
    ]


def ratio(
    title: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    epochs: int,
    bar: float,
) -> Bar:
    once = epochs <= 2  # seconds per epoch: repeated enough
    sides = {"ours": ours, "pyg": theirs}
    spans = alternate(sides, repeats=1 if once else 3, warmup=0 if once else 1)
    each = (f"{side} {1e3 * span / epochs:.1f} ms per epoch" for side, span in spans.items())
    return at_least(title, spans["pyg"] / spans["ours"], bar, "; " + ", ".join(each))


def our_training(graph: Graph, build: Callable[[], Model], epochs: int) -> Callable[[], object]:
    return lambda: train(build(), graph, epochs=epochs, lr=0.01, weight_decay=5e-4)


def pyg_training(graph: Graph, build: Callable[[], nn.Module], epochs: int) -> Callable[[], object]:
    data = graph.to_data()
    return lambda: pyg.train(build(), data, epochs)


if __name__ == "__main__":
    main()
