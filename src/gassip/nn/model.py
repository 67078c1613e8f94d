"""What the trainer asks of a net, and what makes it a module that any PyG user can call."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gassip.graph.csr import Csr
from gassip.nn.propagate import MaskedGraph


@dataclass(frozen=True, eq=False)
class SortedEdges:
    """Edges as a PyG user holds them, in any order, made ready: self-loops dropped, sorted by
    receiver."""

    adjacency: Csr
    order: Tensor  # [kept] which given edge each one is

    @staticmethod
    def of(edge_index: Tensor, num_nodes: int) -> "SortedEdges":
        apart = torch.nonzero(edge_index[0] != edge_index[1]).squeeze(1)
        sender, receiver = edge_index[:, apart]
        order = torch.argsort(receiver * num_nodes + sender)
        adjacency = Csr.from_sorted_edges(receiver[order], sender[order], (num_nodes, num_nodes))
        return SortedEdges(adjacency, apart[order])

    def masked(self, edge_weight: Tensor | None) -> MaskedGraph:
        if edge_weight is None:
            return MaskedGraph(
                self.adjacency, torch.ones(self.order.numel(), device=self.order.device)
            )
        return MaskedGraph(self.adjacency, edge_weight[self.order])


class Model(nn.Module):
    """What the trainer asks of a net; called like any PyG model: `net(x, edge_index,
    edge_weight=None)`."""

    # w of label_propagation.py: how much labels count beside it, where they are at hand
    label_weight: float = 0.0
    label_logits: Tensor | None = None  # w o of label_propagation.py [N, C], while it trains
    _sorted: tuple[Tensor, int, int, SortedEdges] | None = None

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        """Class scores [N, C] on a prepared graph."""
        raise NotImplementedError

    def run_several(self, x: Tensor | Csr, graph: MaskedGraph, count: int) -> Tensor:
        """Class scores of several passes, [N, count, C]."""
        return torch.stack([self.run(x, graph) for _ in range(count)], 1)

    def forward(
        self, x: Tensor | Csr, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Class scores [N, C] for dense or CSR x."""
        return self.run(x, self._edges(edge_index, x.shape[0]).masked(edge_weight))

    def _edges(self, edge_index: Tensor, num_nodes: int) -> SortedEdges:
        """Sorted anew only for another tensor, or one that was written to."""
        if torch.is_inference_mode_enabled():  # what is made there cannot be used in training
            return SortedEdges.of(edge_index, num_nodes)
        last = self._sorted
        if (
            last is None
            or last[0] is not edge_index
            or last[1:3] != (edge_index._version, num_nodes)
        ):
            last = (
                edge_index,
                edge_index._version,
                num_nodes,
                SortedEdges.of(edge_index, num_nodes),
            )
            self._sorted = last
        return last[3]

    def num_weights(self) -> tuple[int, int]:
        """Weights kept and weights in all."""
        total = sum(p.numel() for p in self.parameters())
        return total, total

    def zero_pruned(self) -> None:
        """Write the zeros of pruned weights into the weights themselves, so that what is saved is
        what is run."""
