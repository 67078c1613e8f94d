"""Perturbed graphs: random edges, Mettack's ready-made attacks, and PRBCD on any graph.

    noise      A' = A + `count` undirected edges drawn evenly among the pairs without one
    mettack    A' as published by Jin et al. (Pro-GNN, KDD 2020), attacked by Zügner and Günnemann's
               Mettack (ICLR 2019)
    prbcd      A' = A ⊕ P,  |P| ≤ budget,  P maximises the loss of a trained GCN; Geisler et al.,
               NeurIPS 2021

PRBCD knows the graph, the features and the training labels, not the model under test: it attacks a
GCN trained on the clean graph, on all nodes outside the training set, against that GCN's own
predictions there. No test label is read. The model under test is then trained on A' (poisoning by
transfer).
"""

import json
import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy import sparse as sp
from scipy.sparse.csgraph import connected_components
from torch import Tensor, nn

from gassip.baselines.gcn import Gcn
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.graph.undirected import ends
from gassip.nn.net import Model
from gassip.train.context import RunContext
from gassip.train.trainer import predict, seeded

RATES = ("0.05", "0.1", "0.15", "0.2", "0.25")


def noise(graph: Graph, count: int, seed: int) -> Graph:
    """The graph with `count` new undirected edges, none drawn twice; where edges have weights, new
    ones weigh 1."""
    n, both = graph.num_nodes, ends(graph).cpu().numpy()
    free = n * (n - 1) // 2 - both.shape[1]
    if not 0 <= count <= free:
        raise GassipError(f"noise asks for {count} new edges; this graph has room for 0 to {free}")
    rng = np.random.default_rng(seed)
    taken = np.unique(both[0] * n + both[1])
    drawn = np.zeros(0, dtype=np.int64)
    while drawn.size < count:
        pairs = np.sort(rng.integers(0, n, (2, 2 * (count - drawn.size) + 16)), axis=0)
        key = (pairs[0] * n + pairs[1])[pairs[0] < pairs[1]]
        key = key[~np.isin(key, taken)]
        joined = np.concatenate([drawn, key])
        drawn = joined[np.sort(np.unique(joined, return_index=True)[1])][
            :count
        ]  # first come, first kept
    added = torch.from_numpy(np.stack([drawn // n, drawn % n])).to(graph.device)
    said = f"{count} random undirected edges added with seed {seed}"
    edges = torch.cat([graph.edge_index, added, added.flip(0)], dim=1)
    weight = (
        None
        if graph.edge_weight is None
        else torch.cat([graph.edge_weight, graph.weight.new_ones(2 * count)])
    )
    return rewired(graph, edges, weight, said)


def rewired(graph: Graph, edge_index: Tensor, edge_weight: Tensor | None, said: str) -> Graph:
    """The same nodes with other edges, which may come in any order."""
    order = torch.argsort(edge_index[1] * graph.num_nodes + edge_index[0])
    weight = None if edge_weight is None else edge_weight[order]
    return replace(
        graph, edge_index=edge_index[:, order], edge_weight=weight, notes=(*graph.notes, said)
    )


def mettack(name: str, rate: float) -> Graph:
    """Cora or CiteSeer, largest component, with the share `rate` of its edges flipped; 0 for the
    clean graph."""
    text = next((r for r in ("0", *RATES) if float(r) == rate), None)
    if name not in ("cora", "citeseer") or text is None:
        known = ", ".join(RATES)
        raise GassipError(
            f"there is no Mettack graph {name!r} at {rate}; there are cora and citeseer at 0, "
            f"{known}"
        )
    folder = Path(os.environ.get("GASSIP_DATA", "")) / "Mettack"
    try:
        adjacency, features, labels = _clean(folder / "clean" / f"{name}.npz")
        if text != "0":
            adjacency = sp.csr_array(sp.load_npz(folder / "meta" / f"{name}_meta_adj_{text}.npz"))
        split = json.loads(
            (folder / "splits" / f"{name}_prognn_splits.json").read_text(encoding="utf-8")
        )
        masks = tuple(_mask(split[f"idx_{part}"], labels.size) for part in ("train", "val", "test"))
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise GassipError(
            f"no Mettack graphs in {folder} ({reason}); set GASSIP_DATA to the folder above it"
        ) from None
    said = f"Mettack, {text} of the edges flipped; largest component, its own split"
    label = f"{name}-mettack-{text}"
    edges = np.stack(adjacency.nonzero()).astype(np.int64)
    return Graph.build(
        features, edges, labels, masks=masks, name=label, normalize=True, notes=(said,)
    )


def _clean(path: Path) -> tuple[sp.csr_array, sp.csr_array, np.ndarray]:
    """Adjacency, features and labels of the largest component, nodes in their order."""
    with np.load(path, allow_pickle=False) as held:
        adjacency, features = (
            sp.csr_array(
                (
                    held[f"{kind}_data"].astype(np.float32),
                    held[f"{kind}_indices"],
                    held[f"{kind}_indptr"],
                ),
                shape=tuple(held[f"{kind}_shape"]),
            )
            for kind in ("adj", "attr")
        )
        labels = held["labels"].astype(np.int64)
    both = sp.csr_array(((adjacency + adjacency.T) > 0).astype(np.float32))
    both.setdiag(0)
    both.eliminate_zeros()
    part = connected_components(both, directed=False)[1]
    nodes = np.flatnonzero(part == np.bincount(part).argmax())
    return both[nodes][:, nodes], features[nodes], labels[nodes]


def _mask(index: list[int], size: int) -> np.ndarray:
    mask = np.zeros(size, dtype=bool)
    mask[np.asarray(index, dtype=np.int64)] = True
    return mask


class _Surrogate(nn.Module):
    """The trained GCN as PRBCD calls it: x stands for the graph's own features, which stay
    sparse."""

    def __init__(self, model: Model, graph: Graph) -> None:
        super().__init__()
        self.model, self.graph = model, graph

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        return self.model(self.graph.x, edge_index, edge_weight)


def prbcd(
    graph: Graph, share: float, seed: int, *, block: int = 100_000, epochs: int = 125
) -> Graph:
    """The graph with at most `share` of its undirected edges flipped; `block` pairs are weighed at
    a time."""
    if not 0 < share < 1:
        raise GassipError(
            f"share is {share}; the attack's budget is a share of the edges between 0 and 1"
        )
    if graph.edge_weight is not None:
        raise GassipError(
            "this graph has edge weights; PRBCD flips edges that are there or not: drop the weights"
        )
    n, count = graph.num_nodes, ends(graph).shape[1]
    symmetric = 2 * count == graph.num_edges
    budget = int(share * (count if symmetric else graph.num_edges))
    room = n * (n - 1) // 2 if symmetric else n * (n - 1)
    if not 0 < budget < min(block, room):
        raise GassipError(
            f"a budget of {budget} edges does not fit {min(block, room)} pairs; change share or "
            f"block"
        )
    with warnings.catch_warnings():  # PyG says at import that its attacks are experimental
        warnings.simplefilter("ignore")
        from torch_geometric.contrib.nn import PRBCDAttack
    surrogate = Gcn().solve(graph, RunContext(seed)).model
    for parameter in surrogate.parameters():
        parameter.requires_grad_(False)
    labels = torch.where(graph.train_mask, graph.y, predict(surrogate, graph).argmax(1))
    attack = PRBCDAttack(
        _Surrogate(surrogate, graph),
        block_size=min(block, room),
        epochs=epochs,
        epochs_resampling=max(1, epochs * 4 // 5),
        loss="tanh_margin",
        is_undirected=symmetric,
        log=False,
    )
    with seeded(seed, graph.device):
        edges, flipped = attack.attack(
            graph.y.new_zeros(n), graph.edge_index, labels, budget, ~graph.train_mask
        )
    said = f"PRBCD flipped {flipped.shape[1]} edges ({share:g} of them allowed) with seed {seed}"
    return rewired(graph, edges, None, said)
