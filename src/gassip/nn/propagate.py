"""The candidate operations, exact under an edge mask: weight 0 equals edge absent, weight 1 equals
PyG's layer.

With P_k = X W_k, m_ij the weight of the edge j → i, N_i the senders to i:

    GCNConv    y_i = Σ_j m_ij P_j / √(d_i d_j) + P_i / d_i          d_i = 1 + Σ_j m_ij
    ArmaConv   y_i = Σ_j m_ij P1_j / √(d_i d_j) + P2_i              d_i = Σ_j m_ij   (one stack, one
               step)
    SAGEConv   y_i = Σ_j m_ij P1_j / Σ_j m_ij + P2_i
    GATConv    y_i = Σ_{j ∈ N_i ∪ i} a_ij P_j,   a_ij ∝ m_ij exp LeakyReLU(s·P_j + t·P_i),   m_ii =
               1
    Linear     y_i = P_i
    APPNP10, APPNP5   Z_0 = P,   Z_{k+1} = (1 − t) Â Z_k + t P,   y = Z_K      Â of GCNConv; K, t =
                      10, .1 and 5, .3
    Hops4, Hops2      y = (P + Â P + ... + Â^K P) / (K + 1);   in training half of the rows of P are
                      dropped

and a bias each. The first five are the paper's; the others are for the preset `best`: personalised
PageRank at a long and a short reach (Gasteiger et al., ICLR 2019), means over hops (GRAND: Feng et
al., NeurIPS 2020). PyG's own GATConv and SAGEConv cannot take the mask: a weight of 0 leaves the
edge in the softmax and in the mean. ARMA's inner ReLU is the network's own, one line later.

Shapes: N nodes, E directed edges, F width of the output, H heads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.kernels import iterate, multiply, segment_sum
from gassip.runs.format import STEPS

NEGATIVE_SLOPE = 0.2


class MaskedGraph:
    """A ⊙ M_G: a pattern under edge weights, with the normalisations that layers and operations
    share."""

    def __init__(self, adjacency: Csr, edge_weight: Tensor, *, lasting: bool = False) -> None:
        self.adjacency = adjacency  # [N, N], row = receiver
        self.edge_weight = edge_weight  # [E]
        self.lasting = lasting  # the same features will come again and again
        self._smoothed: dict[str, tuple[Tensor, int, Tensor]] = {}

    @staticmethod
    def of(
        graph: Graph, edge_mask: Tensor | None = None, *, lasting: bool = False
    ) -> "MaskedGraph":
        weight = graph.weight if edge_mask is None else graph.weight * edge_mask
        return MaskedGraph(graph.adjacency, weight, lasting=lasting)

    def at_receiver(self, per_node: Tensor) -> Tensor:
        return per_node.index_select(0, self.adjacency.row)

    def at_sender(self, per_node: Tensor) -> Tensor:
        return per_node.index_select(0, self.adjacency.col64)

    def smoothed(self, op: str, x: Tensor, *, again: bool) -> Tensor:
        """S X of an operation whose output is S X W_1 (+ X W_2), [N, D]; kept where the same X is
        to come again."""
        if not (again and self.lasting) or x.is_inference() or torch.is_inference_mode_enabled():
            return OPERATIONS[op].propagate(self, (x, x.new_zeros(())), None)
        last = self._smoothed.get(op)
        if last is None or last[0] is not x or last[1] != x._version:
            last = (x, x._version, OPERATIONS[op].propagate(self, (x, x.new_zeros(())), None))
            self._smoothed[op] = last
        return last[2]

    @cached_property
    def degree(self) -> Tensor:
        """Σ_j m_ij, [N]."""
        return segment_sum(self.adjacency, self.edge_weight)

    @cached_property
    def gcn(self) -> tuple[Tensor, Tensor]:
        """m_ij / √(d_i d_j) [E] and 1 / d_i [N, 1], with d counting the node itself."""
        root = (1 + self.degree).rsqrt()
        return self.edge_weight * self.at_receiver(root) * self.at_sender(root), (
            root * root
        ).unsqueeze(1)

    @cached_property
    def looped(self) -> Tensor:
        """Â of GCNConv, diagonal and all, on the pattern `adjacency.looped`, [E + N]."""
        edge, self_loop = self.gcn
        _, entry, loop = self.adjacency.looped
        value = torch.empty(edge.numel() + self_loop.numel(), dtype=edge.dtype, device=edge.device)
        value[entry], value[loop] = edge, self_loop.squeeze(1)
        return value

    @cached_property
    def arma(self) -> Tensor:
        """m_ij / √(d_i d_j) [E], with d not counting the node itself; 0 where d is 0."""
        present = self.degree > 0
        root = torch.where(present, torch.where(present, self.degree, 1.0).rsqrt(), 0.0)
        return self.edge_weight * self.at_receiver(root) * self.at_sender(root)

    @cached_property
    def mean(self) -> Tensor:
        """m_ij / Σ_j m_ij [E]; 0 where the sum is 0."""
        total = torch.where(self.degree > 0, self.degree, 1.0)
        return self.edge_weight / self.at_receiver(total)


def gcn(graph: MaskedGraph, products: Sequence[Tensor], attention: Tensor | None) -> Tensor:
    edge, self_loop = graph.gcn
    return multiply(graph.adjacency, products[0], edge) + self_loop * products[0]


def arma(graph: MaskedGraph, products: Sequence[Tensor], attention: Tensor | None) -> Tensor:
    return multiply(graph.adjacency, products[0], graph.arma) + products[1]


def sage(graph: MaskedGraph, products: Sequence[Tensor], attention: Tensor | None) -> Tensor:
    return multiply(graph.adjacency, products[0], graph.mean) + products[1]


def linear(graph: MaskedGraph, products: Sequence[Tensor], attention: Tensor | None) -> Tensor:
    return products[0]


def gat(graph: MaskedGraph, products: Sequence[Tensor], attention: Tensor | None) -> Tensor:
    assert attention is not None  # [2, H, F / H]: s (sender) and t (receiver)
    heads, width = attention.shape[1:]
    outputs = []
    for head in range(heads):
        part = products[0][:, head * width : (head + 1) * width]
        share, self_share = attention_shares(
            graph, part @ attention[0, head], part @ attention[1, head]
        )
        outputs.append(multiply(graph.adjacency, part, share) + self_share.unsqueeze(1) * part)
    return outputs[0] if heads == 1 else torch.cat(outputs, dim=1)


def attention_shares(graph: MaskedGraph, sender: Tensor, receiver: Tensor) -> tuple[Tensor, Tensor]:
    """a_ij [E] and a_ii [N] from s·P_j and t·P_i; the mask multiplies after the exponential, so 0
    removes."""
    logit = F.leaky_relu(graph.at_sender(sender) + graph.at_receiver(receiver), NEGATIVE_SLOPE)
    self_logit = F.leaky_relu(sender + receiver, NEGATIVE_SLOPE)
    with torch.no_grad():  # the largest logit that is present, so that no exponential overflows
        present = torch.where(graph.edge_weight > 0, logit, -torch.inf)
        top = self_logit.scatter_reduce(0, graph.adjacency.row, present, "amax")
        floor = graph.at_receiver(top)
    # an absent edge may lie above the floor: cap it, so that 0 · exp stays 0
    grown = graph.edge_weight * torch.exp(torch.where(logit > floor, floor, logit) - floor)
    self_grown = torch.exp(self_logit - top)
    total = segment_sum(graph.adjacency, grown) + self_grown
    return grown / graph.at_receiver(total), self_grown / total


def passed_on(
    graph: MaskedGraph, products: Sequence[Tensor], attention: Tensor | None, *, op: str
) -> Tensor:
    """Z_K of Z_0 = s P, Z_{k+1} = a Â Z_k + b P."""
    steps, a, b, s = STEPS[op]
    if not graph.edge_weight.requires_grad:
        pattern, *_ = graph.adjacency.looped
        return iterate(pattern, a * graph.looped, products[0], steps=steps, back=b, start=s)
    back, z = b * products[0], s * products[0]
    for _ in range(steps):
        z = torch.add(back, gcn(graph, (z,), None), alpha=a)
    return z


@dataclass(frozen=True)
class Operation:
    """How many products X W it needs, and what it does with them."""

    matrices: int
    propagate: Callable[[MaskedGraph, Sequence[Tensor], Tensor | None], Tensor]
    attention: bool = False
    commutes: bool = False  # S (X W) = (S X) W, with an S that no weight has a part in
    steps: int = 1
    node_dropout: float = 0.0  # share of the rows of P that a net with dropout drops besides


OPERATIONS = {
    "GCNConv": Operation(1, gcn, commutes=True),
    "GATConv": Operation(1, gat, attention=True),
    "SAGEConv": Operation(2, sage, commutes=True),
    "ArmaConv": Operation(2, arma, commutes=True),
    "Linear": Operation(1, linear),
}
OPERATIONS |= {
    op: Operation(
        1,
        partial(passed_on, op=op),
        commutes=True,
        steps=STEPS[op][0],
        node_dropout=0.5 if op.startswith("Hops") else 0.0,
    )
    for op in STEPS
}
