"""One layer's way from senders to receivers, for R copies side by side.

Shapes: R copies, n nodes of a field, F width of a layer.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.kernels import multiply, segment_sum
from gassip.nn.propagate import NEGATIVE_SLOPE, MaskedGraph
from gassip.operations import Operation
from gassip.train.batched.entries import Entries, both_ways

# width under which copies are propagated side by side, [n, R·F], and not one after the other
NARROW = 32


@dataclass(frozen=True, eq=False, kw_only=True)
class Hop:
    """One layer's part of the graph: it reads the first `nodes_in` nodes of a field and gives its
    first `nodes_out`."""

    nodes_in: int
    nodes_out: int
    pattern: Csr  # [out, in], with values where the operation fixes them
    # [R·out, R·in], the same for every copy: block-diagonal; under attention its values are the
    # edges' weights
    many: Csr

    @cached_property
    def both_ways(self) -> tuple[Entries, Entries]:
        return both_ways(self.pattern)

    def less_work_first(self, width_in: int, width_out: int) -> bool:
        """Whether (A H) W takes fewer multiplications than A (H W)."""
        first = self.pattern.nnz * width_in + self.nodes_out * width_in * width_out
        return first < self.nodes_in * width_in * width_out + self.pattern.nnz * width_out


def edge_values(operation: Operation, masked: MaskedGraph) -> tuple[Tensor, Tensor | None]:
    """What an operation multiplies each edge by, [E], and the node itself, [N], where that is one
    more edge; for attention, the edges' weights."""
    assert operation.norm is not None
    if operation.attention:
        return masked.edge_weight, torch.ones(masked.adjacency.shape[0])
    edge, loop = masked.normalised(operation.norm)
    return edge, None if loop is None else loop.squeeze(1)


def with_neighbours(nodes: Tensor, graph: Graph, *, everything: bool) -> Tensor:
    """`nodes`, then those that send to them (or all others), each once."""
    seen = torch.zeros(graph.num_nodes, dtype=torch.bool)
    seen[nodes] = True
    reached = torch.ones_like(seen)
    if not everything:
        reached = torch.zeros_like(seen)
        reached[graph.edge_index[0, seen[graph.edge_index[1]]]] = True
    return torch.cat([nodes, torch.nonzero(reached & ~seen).squeeze(1)])


def repeated(matrix: Csr, count: int) -> Csr:
    """diag(S, S, ..., S): `count` copies as one matrix, its transpose made from the one of S."""
    rows, columns = matrix.shape
    value = None if matrix.value is None else matrix.value.repeat(count)
    many = Csr(
        *_shifted(matrix.rowptr, matrix.col, columns, count), value, (rows * count, columns * count)
    )
    rowptr, col, order = matrix.transpose
    shift = torch.arange(count).unsqueeze(1) * matrix.nnz
    many.__dict__["transpose"] = (*_shifted(rowptr, col, rows, count), (order + shift).view(-1))
    return many


def _shifted(rowptr: Tensor, col: Tensor, columns: int, count: int) -> tuple[Tensor, Tensor]:
    copy = torch.arange(count, dtype=torch.int32).unsqueeze(1)
    starts = (rowptr[:-1] + copy * col.numel()).view(-1)
    end = torch.tensor([count * col.numel()], dtype=torch.int32)
    return torch.cat([starts, end]), (col + copy * columns).view(-1)


def propagate(hop: Hop, products: Tensor) -> Tensor:
    """A P of each copy, [R, nodes_out, F]."""
    copies, _, width = products.shape
    if width >= NARROW:
        return multiply(hop.many, products.reshape(-1, width)).view(copies, -1, width)
    wide = products.transpose(0, 1).reshape(hop.nodes_in, -1)  # [n, R·F]
    return multiply(hop.pattern, wide).view(-1, copies, width).transpose(0, 1)


def attend(hop: Hop, products: Tensor, attention: Tensor) -> Tensor:
    """GATConv of each copy under its own attention [R, 2, H, F / H]; the node itself is the last
    edge of its row."""
    copies, heads, width = attention.shape[0], *attention.shape[2:]
    outputs = []
    for head in range(heads):
        part = products[:, :, head * width : (head + 1) * width].contiguous()
        sender, receiver = torch.bmm(part, attention[:, :, head].transpose(1, 2)).unbind(2)
        shares = _shares(hop, sender.reshape(-1), receiver[:, : hop.nodes_out].reshape(-1))
        outputs.append(multiply(hop.many, part.view(-1, width), shares).view(copies, -1, width))
    return outputs[0] if heads == 1 else torch.cat(outputs, dim=2)


def _shares(hop: Hop, sender: Tensor, receiver: Tensor) -> Tensor:
    """a_ij of every copy and edge, as `attention_shares` of nn/propagate.py, [R·nnz]."""
    row, col, weight = hop.many.row, hop.many.col64, hop.many.value
    assert weight is not None
    logit = F.leaky_relu(
        sender.index_select(0, col) + receiver.index_select(0, row), NEGATIVE_SLOPE
    )
    with torch.no_grad():
        present = torch.where(weight > 0, logit, -torch.inf)
        top = torch.full_like(receiver, -torch.inf).scatter_reduce(0, row, present, "amax")
        floor = top.index_select(0, row)
    grown = weight * torch.exp(torch.where(logit > floor, floor, logit) - floor)
    return grown / segment_sum(hop.many, grown).index_select(0, row)
