"""M_G of the paper on sampled subgraphs, carried over to all edges as a line in four numbers.

    M_G,ij ≈ Σ_k w_k z_k(i, j)     z: agreement, cosine, sum and difference of log degrees

Algorithm 2 runs on subgraphs of near nodes. M_G of their edges, standardised in each subgraph, is
fitted by least squares; z is standardised too.

Shapes: n nodes of a subgraph, e of its edges.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch

from gassip.best.trials import seed_of
from gassip.graph.graph import Graph
from gassip.large.arrays import slab
from gassip.large.edge_cut import EdgeNumbers
from gassip.large.rows.trials import Trials
from gassip.paper import loop
from gassip.settings import preset
from gassip.train.trainer import seeded

SUBGRAPHS, NODES, EPOCHS = 4, 2_000, 15
FEWEST = 100  # edges of a subgraph


@dataclass(frozen=True, eq=False)
class FittedMask:
    """The line, and how well it fits."""

    centre: np.ndarray  # [4]
    scale: np.ndarray  # [4]
    weight: np.ndarray  # [4]
    r2: float

    def scores(self, numbers: np.ndarray) -> np.ndarray:
        return np.asarray(((numbers - self.centre) / self.scale) @ self.weight)


def fit_edge_mask(trials: Trials, known: EdgeNumbers) -> FittedMask | None:
    """None where no subgraph has both training and validation nodes, or M_G tells nothing."""
    starts = _starts(trials)
    parts = [_one(trials, known, start, at) for at, start in enumerate(starts)]
    found = [part for part in parts if part is not None]
    if not found:
        return None
    z, mask = (np.concatenate([part[k] for part in found]) for k in (0, 1))
    centre, scale = z.mean(0), np.where(z.std(0) > 1e-9, z.std(0), 1.0)
    z = (z - centre) / scale
    weight = np.linalg.lstsq(z, mask, rcond=None)[0]
    rest = float(((mask - z @ weight) ** 2).sum() / max(1e-12, (mask**2).sum()))
    return FittedMask(centre, scale, weight, 1 - rest)


def _starts(trials: Trials) -> list[int]:
    """First nodes of the subgraphs: each around a training node."""
    generator = np.random.default_rng(seed_of(trials.seed, "edge mask", 0))
    nodes = trials.hops.graph.nodes
    if nodes <= NODES:
        return [0]
    middle = generator.choice(trials.chosen.train, SUBGRAPHS)
    return [int(min(max(0, node - NODES // 2), nodes - NODES)) for node in middle]


def _one(
    trials: Trials, known: EdgeNumbers, start: int, at: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """The four numbers [e, 4] of the edges of a subgraph, and their M_G [e], standardised."""
    graph = subgraph(trials, start, min(trials.hops.graph.nodes, start + NODES))
    if graph.num_edges < FEWEST or not (graph.train_mask.any() and graph.val_mask.any()):
        return None
    settings = preset("best", graph, {}).search
    with seeded(seed_of(trials.seed, "edge mask", at + 1), torch.device("cpu")):
        state = loop.run(graph, replace(settings, epochs=EPOCHS, warmup_epochs=0))
    mask = state.edge_mask().detach().double().numpy()
    if mask.std() < 1e-9:
        return None
    sender, receiver = graph.edge_index.numpy() + start
    return known.numbers(receiver, sender), (mask - mask.mean()) / mask.std()


def subgraph(trials: Trials, start: int, stop: int) -> Graph:
    """Induced on consecutive nodes, which lie near each other; test labels are not in it."""
    folder, edges, chosen = trials.hops.graph, trials.edges, trials.chosen
    first, last = int(edges.indptr[start]), int(edges.indptr[stop])
    sender = slab(edges.indices, first, last).astype(np.int64) - start
    receiver = np.repeat(np.arange(stop - start), np.diff(edges.indptr[start : stop + 1]))
    inside = (sender >= 0) & (sender < stop - start)
    x = slab(folder.array("x"), start, stop)
    deviation = x.std(0)
    x = (x - x.mean(0)) / np.where(deviation > 1e-6, deviation, 1)
    split = np.asarray(folder.array("split")[start:stop])
    y = torch.from_numpy(chosen.y[start:stop].astype(np.int64))
    train, val = (torch.from_numpy(split == k) & (y >= 0) for k in (1, 2))
    return Graph(
        x=torch.from_numpy(x),
        edge_index=torch.from_numpy(np.stack([sender[inside], receiver[inside]])),
        y=y,
        train_mask=train,
        val_mask=val,
        test_mask=torch.zeros_like(train),
        class_names=folder.class_names,
        name="subgraph",
    )
