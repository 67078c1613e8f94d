"""ALGNN: architectures that are accurate and light at once, by multi-objective evolution.

    maximise (validation score, −weights, −multiply-adds);   a dominates b if it is no worse in all
    and better in one
    next population: fronts of non-dominated architectures in turn, the last one cut by crowding
    distance

Cai, Tao, Tang and Shi, ALGNN: Auto-Designed Lightweight Graph Neural Network, PRICAI 2021: accuracy
is weighed against the model's size and against what its message passing costs. There is no runnable
reference: this follows the paper's objectives in the search space of this package, with the
selection of NSGA-II (Deb, Pratap, Agarwal and Meyarivan, IEEE TEC 2002). An architecture is one
operation per layer and a width per hidden layer; its cost is that of one inference (nn/size.py).
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gassip.baselines._shared.baseline import Baseline
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, Net, net_for
from gassip.nn.propagate import MaskedGraph
from gassip.nn.size import count_macs
from gassip.operations import ALL_OPS
from gassip.train.context import RunContext
from gassip.train.plan import Solution
from gassip.train.trainer import conclude, seeded, train, validate

Gene = tuple[
    int, ...
]  # the number of an operation per layer, then the number of a width per hidden layer
Point = tuple[float, ...]  # validation score, minus weights, minus cost: better when higher


def dominates(one: Point, other: Point) -> bool:
    """No worse in any objective and better in one."""
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))


def fronts(points: Sequence[Point]) -> list[list[int]]:
    """The points by rank: those that nothing dominates, those that only they dominate, and so
    on."""
    left, ranked = list(range(len(points))), []
    while left:
        front = [i for i in left if not any(dominates(points[j], points[i]) for j in left)]
        ranked.append(front)
        left = [i for i in left if i not in front]
    return ranked


def crowding(points: Sequence[Point]) -> list[float]:
    """Σ over objectives of the gap between a point's neighbours over the whole range; infinite at
    the ends."""
    distance = [0.0] * len(points)
    for k in range(len(points[0])):
        order = sorted(range(len(points)), key=lambda i: points[i][k])
        low, high = points[order[0]][k], points[order[-1]][k]
        distance[order[0]] = distance[order[-1]] = float("inf")
        for before, i, after in zip(order, order[1:], order[2:], strict=False):
            distance[i] += (
                (points[after][k] - points[before][k]) / (high - low) if high > low else 0.0
            )
    return distance


def survivors(points: Sequence[Point], count: int) -> list[int]:
    """The best `count`, in order: by front, inside a front the less crowded first."""
    chosen: list[int] = []
    for front in fronts(points):
        distance = crowding([points[i] for i in front])
        ranked = sorted(zip(front, distance, strict=True), key=lambda pair: (-pair[1], pair[0]))
        chosen += [i for i, _ in ranked]
    return chosen[:count]


def lightest(points: Sequence[Point], tolerance: float) -> int:
    """The smallest whose validation score lies within `tolerance` of the best; of equal sizes the
    better score."""
    best = max(point[0] for point in points)
    near = [i for i, point in enumerate(points) if point[0] >= best - tolerance]
    return max(near, key=lambda i: (points[i][1], points[i][0]))


@dataclass(frozen=True, kw_only=True)
class Algnn(Baseline):
    """The search's sizes are ours: 60 architectures at most, each trained briefly."""

    version: ClassVar[int] = 2

    ops: tuple[str, ...] = ALL_OPS
    layers: int = 2
    hidden: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
    population: int = 12
    generations: int = 4
    mutation: float = 0.2  # of each gene
    tolerance: float = 0.01  # validation score given up for size
    child_epochs: int = 100
    epochs: int = 300
    dropout: float = 0.5
    lr: float = 0.01
    weight_decay: float = 5e-4

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        began, run = time.perf_counter(), run.counted()
        with seeded(run.seed, graph.device):
            tried = self.evolve(graph, random.Random(run.seed), run)
            genes = list(tried)
            chosen = self.architecture(
                genes[lightest([tried[gene] for gene in genes], self.tolerance)]
            )
            model = net_for(graph, chosen, self.dropout)
            best_epoch = self.fit(model, graph, self.epochs, run)
        front = [genes[i] for i in fronts([tried[gene] for gene in genes])[0]]
        rows = [
            {
                "ops": str(a),
                "hidden": list(a.hidden),
                "val": tried[g][0],
                "weights": -int(tried[g][1]),
                "macs": -int(tried[g][2]),
            }
            for g, a in ((g, self.architecture(g)) for g in front)
        ]
        details: dict[str, object] = {
            "architecture": str(chosen),
            "hidden": list(chosen.hidden),
            "front": rows,
        }
        return conclude(
            model,
            graph,
            began=began,
            best_epoch=best_epoch,
            details=details | {"architectures_trained": len(tried)},
        )

    def evolve(self, graph: Graph, rng: random.Random, run: RunContext) -> dict[Gene, Point]:
        """Every architecture tried and its objectives."""
        tried: dict[Gene, Point] = {}

        def judged(genes: list[Gene]) -> list[Gene]:
            for gene in genes:
                if gene not in tried:
                    tried[gene] = self.judge(graph, gene, run)
            return genes

        population = judged([self.draw(rng) for _ in range(self.population)])
        for _ in range(self.generations):
            children = judged([self.child(population, rng) for _ in range(self.population)])
            pool = list(dict.fromkeys([*population, *children]))
            population = [
                pool[i] for i in survivors([tried[gene] for gene in pool], self.population)
            ]
        return tried

    def choices(self) -> list[int]:
        """How many values each gene has."""
        return [len(self.ops)] * self.layers + [len(self.hidden)] * (self.layers - 1)

    def draw(self, rng: random.Random) -> Gene:
        return tuple(rng.randrange(count) for count in self.choices())

    def child(self, ranked: list[Gene], rng: random.Random) -> Gene:
        """Each gene from one of two parents, each the better of two drawn, or drawn anew."""
        parents = [
            ranked[min(rng.randrange(len(ranked)), rng.randrange(len(ranked)))] for _ in range(2)
        ]
        mixed = [rng.choice(pair) for pair in zip(*parents, strict=True)]
        counts = self.choices()
        return tuple(
            rng.randrange(count) if rng.random() < self.mutation else gene
            for gene, count in zip(mixed, counts, strict=True)
        )

    def judge(self, graph: Graph, gene: Gene, run: RunContext) -> Point:
        """Validation score after a short training, minus the number of weights, minus the cost."""
        net = net_for(graph, self.architecture(gene), self.dropout)
        self.fit(net, graph, self.child_epochs, run)
        value, _ = validate(net, graph, MaskedGraph.of(graph), run.metric)
        return value, -float(net.num_weights()[0]), -float(count_macs(net, graph))

    def architecture(self, gene: Gene) -> Architecture:
        ops = tuple(self.ops[k] for k in gene[: self.layers])
        return Architecture(ops=ops, hidden=tuple(self.hidden[k] for k in gene[self.layers :]))

    def fit(self, net: Net, graph: Graph, epochs: int, run: RunContext) -> int:
        return train(
            net,
            graph,
            epochs=epochs,
            lr=self.lr,
            weight_decay=self.weight_decay,
            metric=run.metric,
            on_epoch=run.on_event,
        )
