"""Which edges the masks of different nets remove, and how far they agree (the paper's first
figure).

    m* = argmin_m min_θ CE(f_θ(A ⊙ m)) + λ |m|₁        one m per undirected edge, from 1 ± 1e-5
    R_p(f) = the p of the edges with the lowest m*
    s(f, f') = |R_p(f) ∩ R_p(f')| / (p |E|)            p for a cut at random

The masks are those of UGS: its rates, its L1 weight, its epochs. A net beside itself with another
seed is the control. Overlaps are kept as JSON beside the records, one file a graph, each seed as
soon as it is known.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gassip.baselines._shared.pruning import NOISE
from gassip.baselines.gat import Gat
from gassip.baselines.gcn import Gcn
from gassip.baselines.gin import Gin
from gassip.baselines.ugs import Ugs
from gassip.bench.machine import commit_of, machine
from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.net import Model
from gassip.nn.propagate import MaskedGraph
from gassip.runs.output import replace_file
from gassip.train.trainer import seeded, train

VERSION = 1  # to be raised when the figures change; files of another are not read
SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)
NETS = ("GCN", "GAT", "GIN")
OTHER_SEED = 1_000_000  # what the control adds to a seed
Overlaps = dict[str, list[float]]  # "GCN, GAT": one value for each of SHARES


class Masked(Model):
    """A net that weighs each undirected edge by a trainable m."""

    slot: Tensor  # [E] the undirected edge of each directed one

    def __init__(self, net: Model, graph: Graph) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("slot", graph.pair, persistent=False)
        pairs = int(graph.pair.max()) + 1 if graph.num_edges else 0
        self.edge_mask = nn.Parameter(1 + NOISE * torch.randn(pairs))

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        share = self.edge_mask.clamp_min(0).index_select(0, self.slot)
        return self.net.run(x, MaskedGraph(graph.adjacency, graph.edge_weight * share))


def trained_mask(name: str, graph: Graph, seed: int, epochs: int | None = None) -> Tensor:
    """m of a net, [P]."""
    ugs = Ugs.for_graph(graph)
    with seeded(seed, graph.device):
        net = Masked(net_of(name, graph), graph).to(graph.device)

        def loss(model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
            scores = model.run(graph.x, masked)[graph.train_mask]
            penalty = ugs.l1_edge * net.edge_mask.abs().sum()
            return F.cross_entropy(scores, graph.y[graph.train_mask]) + penalty

        count = ugs.epochs if epochs is None else epochs
        train(net, graph, epochs=count, lr=ugs.lr, weight_decay=ugs.weight_decay, loss=loss)
    return net.edge_mask.detach()


def net_of(name: str, graph: Graph) -> Model:
    """Two layers, as the method of that name has them."""
    if name == "GCN":
        return Gcn.for_graph(graph).net(graph)
    return (Gat if name == "GAT" else Gin).for_graph(graph).model(graph)


def removed(score: Tensor, share: float) -> Tensor:
    """The lowest `share` of the edges, bool [P]."""
    out = torch.zeros(score.numel(), dtype=torch.bool)
    out[torch.sort(score, stable=True).indices[: round(share * score.numel())]] = True
    return out


def overlap(a: Tensor, b: Tensor) -> float:
    """s of two sets of removed edges of one size."""
    return float((a & b).sum()) / max(1, int(a.sum()))


def overlaps(graph: Graph, seed: int, epochs: int | None = None) -> Overlaps:
    """Of every pair of nets, of every net with a random cut and with itself by another seed."""
    scores = {name: trained_mask(name, graph, seed, epochs) for name in NETS}
    again = {name: trained_mask(name, graph, seed + OTHER_SEED, epochs) for name in NETS}
    draw = torch.rand(scores["GCN"].numel(), generator=torch.Generator().manual_seed(seed))
    pairs = {f"{a}, {b}": (scores[a], scores[b]) for a, b in PAIRS}
    pairs |= {f"{name}, random": (scores[name], draw) for name in NETS}
    pairs |= {f"{name}, another seed": (scores[name], again[name]) for name in NETS}
    return {
        name: [overlap(removed(a, share), removed(b, share)) for share in SHARES]
        for name, (a, b) in pairs.items()
    }


PAIRS = (("GCN", "GAT"), ("GCN", "GIN"), ("GAT", "GIN"))
NAMES = (
    *(f"{a}, {b}" for a, b in PAIRS),
    *(f"{name}, another seed" for name in NETS),
    *(f"{name}, random" for name in NETS),
)


@dataclass(frozen=True)
class Kept:
    """The overlaps of one graph by seed, in a file of the folder of records."""

    path: Path

    @staticmethod
    def of(results: str | Path, dataset: str) -> "Kept":
        return Kept(Path(results) / "overlap" / f"{dataset}.json")

    def read(self) -> dict[int, dict[str, Any]]:
        """By seed; empty where there is no file, or one of another version."""
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            if content["version"] != VERSION or content["shares"] != list(SHARES):
                return {}
            found = {int(seed): entry for seed, entry in content["seeds"].items()}
            for entry in found.values():
                checked(entry)
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise GassipError(
                f"{self.path} is damaged ({type(error).__name__}); delete it to compute it anew"
            ) from None
        return found

    def write(self, seeds: dict[int, dict[str, Any]]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {"version": VERSION, "shares": list(SHARES)}
        content["seeds"] = {str(seed): seeds[seed] for seed in sorted(seeds)}
        replace_file(self.path, (json.dumps(content, indent=1) + "\n").encode())


def checked(entry: dict[str, Any]) -> None:
    """Raises where a seed's entry has not what is drawn."""
    float(entry["seconds"])
    for name in NAMES:
        if len([float(value) for value in entry["overlaps"][name]]) != len(SHARES):
            raise ValueError(name)


def measured(graph: Graph, seed: int, epochs: int | None = None) -> dict[str, Any]:
    """The entry of one seed."""
    began = time.perf_counter()
    found = overlaps(graph, seed, epochs)
    seconds, (commit, dirty) = time.perf_counter() - began, commit_of()
    about = {"seconds": seconds, "commit": commit, "dirty": dirty, "machine": machine()}
    return {"overlaps": found} | about
