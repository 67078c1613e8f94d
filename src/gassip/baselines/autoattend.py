"""AutoAttend: what an attention looks at, what it passes on and how it compares are searched.

    y_i = Σ_{j ∈ N_i ∪ i} a_ij V_j,   a = softmax of kind_l(Q),   Q = h_q W_q,   V = h_v W_v
    a layer's choices: kind_l (intra-layer), q < l and v < l (cross-layer);   h_0 = X
    one supernet: each epoch another path at random, W ← L_train
    evolution on validation accuracy with the shared weights; the best few are trained from scratch

Guan, Wang and Zhu, AutoAttend: Automated Attention Representation Search, ICML 2021. Reduced: keys
and queries come from one representation, as in GAT, and a representation is a Linear of one layer's
output (published: chosen operations on several inputs); two layers by default; weights are shared
by the context of a layer and its source (published: by the context of the path before); the
evolution sees hundreds of paths. The kinds of attention are those of GraphNAS, with mean and GCN.

Shapes: N nodes, L layers, F width, H heads.
"""

import random
import time
from dataclasses import dataclass, replace
from itertools import product as every

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gassip.baselines._shared.attention import VECTORS, attention_logits
from gassip.baselines._shared.baseline import Baseline
from gassip.baselines._shared.extra_ops import shares, weighted_sum
from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.dropout import drop
from gassip.nn.kernels import transform
from gassip.nn.net import Model
from gassip.nn.propagate import MaskedGraph
from gassip.train.context import RunContext
from gassip.train.losses import supervised
from gassip.train.plan import Solution
from gassip.train.trainer import seeded, solve, validate

KINDS = ("mean", "gcn", *VECTORS)


@dataclass(frozen=True)
class Place:
    """The choices of one layer: how it compares, and which layers' outputs it compares and sums."""

    kind: str
    query: int
    value: int

    def __str__(self) -> str:
        return f"{self.kind}({self.query})·{self.value}"


Path = tuple[Place, ...]


def places(layer: int) -> list[Place]:
    """Every choice of layer `layer` (from 1); where nothing is compared the query is the value."""
    found = []
    for kind, query, value in every(KINDS, range(layer), range(layer)):
        if kind in VECTORS or query == value:
            found.append(Place(kind, query, value))
    return found


class AttendNet(Model):
    """The weights of one path, or of all of them; `path` is the one that runs."""

    def __init__(
        self, widths: list[int], options: list[list[Place]], heads: int, dropout: float
    ) -> None:
        super().__init__()
        self.dropout, self.path = dropout, tuple(places[0] for places in options)
        self.weights, self.vectors = nn.ParameterDict(), nn.ParameterDict()
        self.biases = nn.ParameterList(torch.zeros(width) for width in widths[1:])
        self.heads = [*[heads] * (len(options) - 1), 1]  # the last layer gives classes
        for l, places in enumerate(options):
            for name, source in sorted({part for place in places for part in parts(place)}):
                shape = (widths[source], widths[l + 1])
                self.weights[f"{name}{l}{source}"] = nn.init.xavier_uniform_(torch.empty(shape))
            for kind in sorted({place.kind for place in places} & set(VECTORS)):
                vector = torch.empty(VECTORS[kind], self.heads[l], widths[l + 1] // self.heads[l])
                self.vectors[f"{kind}{l}"] = nn.init.xavier_uniform_(vector)

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        states: list[Tensor | Csr] = [x]
        for l, place in enumerate(self.path):
            y = self.attend(l, place, states, graph) + self.biases[l]
            states.append(F.elu(y) if l + 1 < len(self.path) else y)
        assert isinstance(states[-1], Tensor)
        return states[-1]

    def attend(
        self, l: int, place: Place, states: list[Tensor | Csr], graph: MaskedGraph
    ) -> Tensor:
        """Σ_j a_ij V_j of one layer, [N, F]."""
        made = {
            (name, source): transform(
                drop(states[source], self.dropout if self.training else 0.0),
                self.weights[f"{name}{l}{source}"],
            )
            for name, source in parts(place)
        }
        value = made["value", place.value]
        if place.kind == "gcn":
            edge, here = graph.gcn
            share, self_share = (s.view(-1, 1).expand(-1, self.heads[l]) for s in (edge, here))
            return weighted_sum(graph, value, share, self_share)
        if place.kind == "mean":
            logit, self_logit = (
                value.new_zeros(size, self.heads[l])
                for size in (graph.adjacency.nnz, value.shape[0])
            )
        else:
            seen = made.get(("query", place.query), value)
            logit, self_logit = attention_logits(
                place.kind, seen, self.vectors[f"{place.kind}{l}"], graph
            )
        return weighted_sum(graph, value, *shares(graph, logit, self_logit))


def parts(place: Place) -> list[tuple[str, int]]:
    """The representations of a layer: V, and Q where it is of another layer than V."""
    value = ("value", place.value)
    return [value] if place.query == place.value else [value, ("query", place.query)]


@dataclass(frozen=True, kw_only=True)
class AutoAttend(Baseline):
    """The rates are GAT's; the counts of the search are ours."""

    layers: int = 2
    hidden: int = 64
    heads: int = 8
    dropout: float = 0.6
    search_epochs: int = 400  # one path each
    population: int = 20
    generations: int = 8
    mutation: float = 0.3  # of each layer
    finalists: int = 5
    finalist_epochs: int = 100
    epochs: int = 300
    lr: float = 0.005
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        if self.heads < 1 or self.hidden % self.heads:
            raise GassipError(
                f"heads is {self.heads}, which does not divide hidden = {self.hidden}"
            )
        if self.finalists < 1 or self.population < 1:
            raise GassipError("finalists and population must be 1 or more")

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        began = time.perf_counter()
        tried = self.evolve(self.supernet(graph, run), graph, run)
        ranked = sorted(tried, key=tried.__getitem__, reverse=True)[: self.finalists]
        judged: dict[Path, tuple[float, float]] = {}
        for path in ranked:
            model = self.trained(graph, path, self.finalist_epochs, run.silent()).model
            value, loss = validate(model, graph, MaskedGraph.of(graph), run.metric)
            judged[path] = value, -loss
        best, spent = max(judged, key=judged.__getitem__), time.perf_counter() - began
        solution = self.trained(graph, best, self.epochs, run)
        details: dict[str, object] = {
            "architecture": told(best),
            "search_seconds": spent,
            "paths_seen": len(tried),
            "trials": {told(path): value for path, (value, _) in judged.items()},
        }
        return replace(solution, seconds=solution.seconds + spent, details=details)

    def options(self) -> list[list[Place]]:
        """The choices of every layer."""
        return [places(l) for l in range(1, self.layers + 1)]

    def net(self, graph: Graph, options: list[list[Place]]) -> AttendNet:
        widths = [graph.num_features, *[self.hidden] * (self.layers - 1), graph.num_classes]
        return AttendNet(widths, options, self.heads, self.dropout)

    def supernet(self, graph: Graph, run: RunContext) -> AttendNet:
        """All weights, trained on one path drawn anew in each epoch."""
        rng, masked = random.Random(run.seed), MaskedGraph.of(graph, lasting=True)
        with seeded(run.seed, graph.device):
            net = self.net(graph, self.options()).to(graph.device)
            optimizer = torch.optim.Adam(
                net.parameters(), lr=self.lr, weight_decay=self.weight_decay
            )
            net.train()
            for epoch in range(1, self.search_epochs + 1):
                net.path = self.draw(rng)
                optimizer.zero_grad()  # to None: what the path does not use stays as it is
                supervised(net, graph, masked, epoch).backward()
                optimizer.step()
        return net

    def evolve(
        self, net: AttendNet, graph: Graph, run: RunContext
    ) -> dict[Path, tuple[float, float]]:
        """Every path looked at, with its validation score and minus its loss in the supernet."""
        rng, masked = random.Random(run.seed + 1), MaskedGraph.of(graph, lasting=True)
        tried: dict[Path, tuple[float, float]] = {}

        def judge(paths: list[Path]) -> None:
            for path in paths:
                if path not in tried:
                    net.path = path
                    value, loss = validate(net, graph, masked, run.metric)
                    tried[path] = value, -loss

        judge([self.draw(rng) for _ in range(self.population)])
        for _ in range(self.generations):
            parents = sorted(tried, key=tried.__getitem__, reverse=True)[: self.population]
            judge([self.child(parents, rng) for _ in range(self.population)])
        return tried

    def draw(self, rng: random.Random) -> Path:
        return tuple(rng.choice(places) for places in self.options())

    def child(self, parents: list[Path], rng: random.Random) -> Path:
        """Each layer from one of two parents, or drawn anew."""
        pair = rng.choice(parents), rng.choice(parents)
        return tuple(
            rng.choice(places) if rng.random() < self.mutation else rng.choice(both)
            for places, both in zip(self.options(), zip(*pair, strict=True), strict=True)
        )

    def trained(self, graph: Graph, path: Path, epochs: int, run: RunContext) -> Solution:
        """One path from scratch, with its own weights only."""
        return solve(
            graph,
            lambda: self.net(graph, [[place] for place in path]),
            epochs=epochs,
            lr=self.lr,
            weight_decay=self.weight_decay,
            seed=run.seed,
            metric=run.metric,
            on_epoch=run.on_event,
        )


def told(path: Path) -> str:
    """The path in words: kind(query)·value per layer."""
    return " ‖ ".join(map(str, path))
