"""The propagation of operations.py in torch, exact under an edge mask: weight 0 equals edge absent,
weight 1 equals PyG's layer.

    y = Z_K + P_2,   Z_0 = s P_1,   Z_{k+1} = a S Z_k + b P_1
    y = Z_K,         Z_0 = P_1,     Z_{k+1} = S Z_k + P_{k+2}        with a matrix for each hop

with S one of `MaskedGraph.normalised`, or the shares of attention. PyG's GATConv and SAGEConv
cannot take the mask: a weight of 0 leaves the edge in the softmax and in the mean.

Shapes: N nodes, E directed edges, F width of the output, H heads.
"""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.kernels import iterate, multiply, segment_sum
from gassip.operations import OPERATIONS, Operation

NEGATIVE_SLOPE = 0.2


class MaskedGraph:
    """A ⊙ M_G: a pattern under edge weights, with the normalisations that layers and operations
    share."""

    def __init__(self, adjacency: Csr, edge_weight: Tensor, *, lasting: bool = False) -> None:
        self.adjacency = adjacency  # [N, N], row = receiver
        self.edge_weight = edge_weight  # [E]
        self.lasting = lasting  # the same features will come again and again
        self._smoothed: dict[str, tuple[Tensor, int, tuple[Tensor, ...]]] = {}
        self._matrices: dict[tuple[str, float], Csr] = {}
        self._beside: tuple[str, tuple[Tensor, ...], Tensor] | None = None

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

    def smoothed(self, op: str, x: Tensor, *, again: bool) -> tuple[Tensor, ...]:
        """S X of an operation whose output is S X W_1 (+ X W_2), [N, D], or of one with a matrix
        for each hop S^K X, ..., S X; kept where the same X is to come again."""
        if not (again and self.lasting) or x.is_inference() or torch.is_inference_mode_enabled():
            return smoothed(OPERATIONS[op], self, x)
        last = self._smoothed.get(op)
        if last is None or last[0] is not x or last[1] != x._version:
            last = (x, x._version, smoothed(OPERATIONS[op], self, x))
            self._smoothed[op] = last
        return last[2]

    def beside(self, op: str, parts: tuple[Tensor, ...]) -> Tensor:
        """What `smoothed` gave, and perhaps X, side by side; kept while they are the same."""
        last = self._beside
        same = last is not None and last[0] == op and len(last[1]) == len(parts)
        if last is None or not same or any(a is not b for a, b in zip(last[1], parts, strict=True)):
            last = (op, parts, torch.cat(parts, 1))
            self._beside = last
        return last[2]

    def normalised(self, norm: str) -> tuple[Tensor, Tensor | None]:
        """S of a norm that no weight has a part in: its edges [E], and its diagonal [N, 1], None
        where that is 0."""
        match norm:
            case "gcn":
                return self.gcn
            case "arma":
                return self.arma, None
            case "mean":
                return self.mean, None
        raise GassipError(f"torch has no matrix for the norm {norm!r}; write it in nn/propagate.py")

    def matrix(self, norm: str, scale: float = 1.0) -> Csr:
        """The same S as one matrix, diagonal and all, times `scale`; kept."""
        if (norm, scale) not in self._matrices:
            edge, loop = self.normalised(norm)
            pattern, value = self.adjacency, edge
            if loop is not None:
                pattern, entry, diagonal = self.adjacency.looped
                value = edge.new_empty(edge.numel() + loop.numel())
                value[entry], value[diagonal] = edge, loop.squeeze(1)
            self._matrices[norm, scale] = pattern.with_value(scale * value)
        return self._matrices[norm, scale]

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


def propagate(
    operation: Operation,
    graph: MaskedGraph,
    products: Sequence[Tensor],
    attention: Tensor | None = None,
) -> Tensor:
    """Z_K + P_2 of the products X W, [N, F]."""
    if operation.norm is None:
        return products[0]
    if operation.attention:
        assert attention is not None
        out = attend(graph, products[0], attention)
    elif operation.matrices > 2:
        return over_hops(graph, operation.norm, products)
    else:
        out = passed_on(operation, graph, products[0])
    return out + products[1] if operation.matrices == 2 else out


def over_hops(graph: MaskedGraph, norm: str, products: Sequence[Tensor]) -> Tensor:
    """S^K P_1 + ... + S P_K + P_{K+1}, by Horner's rule."""
    out = products[0]
    for nearer in products[1:]:
        out = received(graph, norm, out) + nearer
    return out


def smoothed(operation: Operation, graph: MaskedGraph, x: Tensor) -> tuple[Tensor, ...]:
    """What the matrices that go over the edges are multiplied by, the farthest hop first."""
    assert operation.norm is not None
    if operation.matrices <= 2:
        return (passed_on(operation, graph, x),)
    hops = [x]
    for _ in range(operation.steps):
        hops.append(received(graph, operation.norm, hops[-1]))
    return tuple(hops[:0:-1])


def passed_on(operation: Operation, graph: MaskedGraph, p: Tensor) -> Tensor:
    """Z_K of Z_0 = s P, Z_{k+1} = a S Z_k + b P, for an S that no weight has a part in."""
    assert operation.norm is not None
    if not operation.iterates:
        return received(graph, operation.norm, p)
    if not graph.edge_weight.requires_grad:
        return iterate(
            graph.matrix(operation.norm, operation.scale),
            p,
            steps=operation.steps,
            back=operation.back,
            start=operation.start,
        )
    back, z = operation.back * p, operation.start * p
    for _ in range(operation.steps):
        z = torch.add(back, received(graph, operation.norm, z), alpha=operation.scale)
    return z


def received(graph: MaskedGraph, norm: str, h: Tensor) -> Tensor:
    """S H, [N, F]."""
    if not graph.edge_weight.requires_grad:
        return multiply(graph.matrix(norm), h)
    edge, loop = graph.normalised(norm)
    sent = multiply(graph.adjacency, h, edge)
    return sent if loop is None else sent + loop * h


def attend(graph: MaskedGraph, p: Tensor, attention: Tensor) -> Tensor:
    """Σ_j a_ij P_j, [N, F]; attention [2, H, F / H] holds s (sender) and t (receiver) by head."""
    heads, width = attention.shape[1:]
    outputs = []
    for head in range(heads):
        part = p[:, head * width : (head + 1) * width]
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
