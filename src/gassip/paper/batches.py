"""Algorithm 2 in batches, where activations of all nodes do not fit into memory (`batch_nodes`).

    blocks    consecutive nodes in an order in which neighbours lie near (reverse Cuthill-McKee)
    batch     the graph induced on a union of blocks that are drawn anew in every epoch

W, S_W, α, γ and S_G belong to the whole graph: a batch steps them on its own nodes, and moves the
scores of its own edges alone. One batch that holds all nodes is Algorithm 2 itself, bit by bit.

Shapes: N nodes, E directed edges, n nodes and e edges of a batch.
"""

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean

import numpy as np
import torch
from scipy import sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Tensor

from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.propagate import MaskedGraph
from gassip.paper.state import State

UNION = 8  # blocks of a batch


class BatchState(State):
    """A search's state as one batch sees it: everything shared, but for graph, masks and logits."""

    def __init__(self, whole: State, nodes: Tensor) -> None:
        self.__dict__.update(whole.__dict__)
        self.whole, self.nodes = whole, nodes
        self.graph, kept = induced(whole.graph, nodes)
        self.slot = whole.slot[kept]
        self.logits = None if whole.logits is None else whole.logits[nodes]
        self.refresh()

    def refresh(self) -> None:
        with torch.no_grad():
            mask = self.edge_mask() if self.settings.sparsify else None
            self.masked = MaskedGraph.of(self.graph, mask)

    def hand_back(self, before: Tensor, grad_std: Tensor) -> None:
        """What the batch has learnt, into the whole; edges of other batches stay as they were."""
        mine = torch.zeros_like(before, dtype=torch.bool)
        mine[self.slot] = True
        with torch.no_grad():
            self.edge_score.copy_(torch.where(mine, self.edge_score, before))
        self.whole.grad_std = torch.where(mine, self.grad_std, grad_std)
        if self.logits is not None:
            if self.whole.logits is None:
                shape = (self.whole.graph.num_nodes, self.logits.shape[1])
                self.whole.logits = self.logits.new_zeros(shape)
            self.whole.logits[self.nodes] = self.logits


def batches(state: State) -> Iterator[BatchState]:
    """The batches of one epoch; those without training or validation nodes are left out."""
    order = near_order(state)
    size = max(1, state.settings.batch_nodes // UNION)
    blocks = torch.randperm(-(-order.numel() // size))
    for start in range(0, len(blocks), UNION):
        parts = [order[k * size : (k + 1) * size] for k in blocks[start : start + UNION].tolist()]
        nodes = torch.cat(parts).sort().values
        graph = state.graph
        if bool(graph.train_mask[nodes].any()) and bool(graph.val_mask[nodes].any()):
            yield BatchState(state, nodes)


def near_order(state: State) -> Tensor:
    """Nodes, neighbours near each other, [N]; made once."""
    if state.near is None:
        graph = state.graph
        ends = graph.edge_index.cpu().numpy()
        shape = (graph.num_nodes, graph.num_nodes)
        matrix = sp.csr_array((np.ones(ends.shape[1], dtype=np.int8), (ends[1], ends[0])), shape)
        order = reverse_cuthill_mckee(matrix).astype(np.int64)
        state.near = torch.from_numpy(order).to(graph.device)
    return state.near


def induced(graph: Graph, nodes: Tensor) -> tuple[Graph, Tensor]:
    """The graph on ascending `nodes` [n] with the edges among them, and which these are [e]."""
    place = torch.full((graph.num_nodes,), -1, device=graph.device)
    place[nodes] = torch.arange(nodes.numel(), device=graph.device)
    ends = place[graph.edge_index]
    kept = torch.nonzero((ends >= 0).all(0)).squeeze(1)
    if isinstance(graph.x, Csr):
        x: Tensor | Csr = Csr.from_scipy(graph.x.to_scipy()[nodes.cpu().numpy()]).to(graph.device)
    else:
        x = graph.x[nodes]
    weight = None if graph.edge_weight is None else graph.edge_weight[kept]
    part = replace(
        graph,
        x=x,
        edge_index=ends[:, kept],
        y=graph.y[nodes],
        train_mask=graph.train_mask[nodes],
        val_mask=graph.val_mask[nodes],
        test_mask=graph.test_mask[nodes],
        edge_weight=weight,
        ids=None,
    )
    return part, kept


def mean_row(rows: list[dict[str, float | str]]) -> dict[str, float | str]:
    """The numbers of an epoch as means over its batches; texts and what the last said otherwise."""
    out = dict(rows[-1])
    for name, value in rows[-1].items():
        values = [row[name] for row in rows if name in row]
        if not isinstance(value, str) and name not in ("epoch", "seconds"):
            out[name] = fmean(float(number) for number in values)
    out["seconds"] = sum(float(row["seconds"]) for row in rows)
    return out
