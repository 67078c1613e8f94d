"""Operations beyond the paper's five, exact under an edge mask: weight 0 equals edge absent, weight
1 PyG's layer.

With m_ij the weight of the edge j → i, P = X W and N_i the senders to i:

    GINConv      y_i = MLP(x_i + Σ_j m_ij x_j),   MLP = Linear, ReLU, Linear
    GraphConv    y_i = Σ_j m_ij P1_j + P2_i
    GATv2Conv    y_i = Σ_{j ∈ N_i ∪ i} a_ij P1_j,   a_ij ∝ m_ij exp(v · LeakyReLU(P1_j + P2_i)),
                 m_ii = 1

GIN from Xu et al., ICLR 2019; GraphConv from Morris et al., AAAI 2019; GATv2 from Brody et al.,
ICLR 2022. The sum in GIN is linear, so its first Linear comes before it and a sparse X stays
sparse. What couples the two ends of an edge in F features is computed in slices of edges and
computed again in the backward pass: nothing of size E × F is kept.

Shapes: N nodes, E directed edges, F width, H heads of width F / H.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gassip.graph.csr import Csr
from gassip.nn.kernels import multiply, transform
from gassip.nn.net import Layer
from gassip.nn.propagate import NEGATIVE_SLOPE, MaskedGraph

SLICE = 2**22  # numbers held at once where an edge has F of them
# edges from which a supernet computes its operations again rather than keep what they saved
RECOMPUTE_FROM = 200_000
Coupling = Literal["leaky_relu", "tanh"]


class Op(nn.Module):
    """One operation with its own weights: [N, in] -> [N, out]."""

    def forward(self, h: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        raise NotImplementedError


class Plain(Op):
    """One of the paper's five operations."""

    def __init__(self, in_width: int, out_width: int, name: str, heads: int) -> None:
        super().__init__()
        self.layer = Layer(in_width, out_width, (name,), heads)

    def forward(self, h: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        return self.layer.propagate(0, self.layer.apart(transform(h, self.layer.weight)), graph)


class Gin(Op):
    """MLP(x_i + Σ_j m_ij x_j)."""

    def __init__(self, in_width: int, out_width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_width, out_width)))
        self.bias = nn.Parameter(torch.zeros(out_width))
        self.second = nn.Linear(out_width, out_width)

    def forward(self, h: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        product = transform(h, self.weight)
        summed = product + multiply(graph.adjacency, product, graph.edge_weight) + self.bias
        return self.second(F.relu(summed))


class GraphConv(Op):
    """Σ_j m_ij P1_j + P2_i."""

    def __init__(self, in_width: int, out_width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_width, 2 * out_width))
        self.bias = nn.Parameter(torch.zeros(out_width))
        for part in self.weight.data.split(out_width, dim=1):
            part.copy_(nn.init.xavier_uniform_(torch.empty(in_width, out_width)))

    def forward(self, h: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        sent, mine = transform(h, self.weight).chunk(2, dim=1)
        return multiply(graph.adjacency, sent.contiguous(), graph.edge_weight) + mine + self.bias


class Gatv2(Op):
    """a_ij ∝ m_ij exp(v · LeakyReLU(P1_j + P2_i)); heads side by side."""

    def __init__(self, in_width: int, out_width: int, heads: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_width, 2 * out_width))
        self.vector = nn.Parameter(nn.init.xavier_uniform_(torch.empty(heads, out_width // heads)))
        self.bias = nn.Parameter(torch.zeros(out_width))
        for part in self.weight.data.split(out_width, dim=1):
            part.copy_(nn.init.xavier_uniform_(torch.empty(in_width, out_width)))

    def forward(self, h: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        sent, mine = (part.contiguous() for part in transform(h, self.weight).chunk(2, dim=1))
        logit = coupled_logits(graph.adjacency, mine, sent, self.vector, "leaky_relu")
        here = F.leaky_relu(mine + sent, NEGATIVE_SLOPE).view(-1, *self.vector.shape)
        share, self_share = shares(graph, logit, (here * self.vector).sum(2))
        return weighted_sum(graph, sent, share, self_share) + self.bias


def make_op(name: str, in_width: int, out_width: int, heads: int = 1) -> Op:
    """The operation of that name."""
    extra: dict[str, Callable[[], Op]] = {
        "GINConv": lambda: Gin(in_width, out_width),
        "GraphConv": lambda: GraphConv(in_width, out_width),
        "GATv2Conv": lambda: Gatv2(in_width, out_width, heads),
    }
    return extra[name]() if name in extra else Plain(in_width, out_width, name, heads)


def lean(op: Op, h: Tensor | Csr, graph: MaskedGraph) -> Tensor:
    """op(h), computed again in the backward pass on large graphs, so that a supernet keeps only its
    outputs."""
    if not torch.is_grad_enabled() or graph.adjacency.nnz < RECOMPUTE_FROM:
        return op(h, graph)
    out = checkpoint(op, h, graph, use_reentrant=False)
    assert isinstance(out, Tensor)
    return out


def shares(graph: MaskedGraph, logit: Tensor, self_logit: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax over N_i ∪ i of logits [E, H] and [N, H]; the mask multiplies after the exponential,
    so 0 removes."""
    row = graph.adjacency.row
    weight = graph.edge_weight.unsqueeze(1)
    with torch.no_grad():  # the largest logit that is present, so that no exponential overflows
        present = torch.where(weight > 0, logit, -torch.inf)
        top = self_logit.scatter_reduce(0, row.unsqueeze(1).expand_as(logit), present, "amax")
        floor = top.index_select(0, row)
    grown = weight * torch.exp(
        torch.where(logit > floor, floor, logit) - floor
    )  # an absent edge may lie above
    self_grown = torch.exp(self_logit - top)
    total = self_grown.index_add(0, row, grown)
    return grown / total.index_select(0, row), self_grown / total


def per_head(adjacency: Csr, heads: int) -> Csr:
    """The pattern once per head down the diagonal, [H·N, H·N]; made once and kept beside the
    pattern."""
    if heads == 1:
        return adjacency
    known: dict[int, Csr] = adjacency.__dict__.setdefault("per_head", {})
    if heads not in known:
        rows, columns = adjacency.shape
        starts = [adjacency.rowptr[:-1] + k * adjacency.nnz for k in range(heads)]
        end = adjacency.rowptr.new_tensor([heads * adjacency.nnz])
        col = torch.cat([adjacency.col + k * columns for k in range(heads)])
        known[heads] = Csr(torch.cat([*starts, end]), col, None, (heads * rows, heads * columns))
    return known[heads]


def weighted_sum(graph: MaskedGraph, sent: Tensor, share: Tensor, self_share: Tensor) -> Tensor:
    """Σ_j a_ij P_j + a_ii P_i, all heads in one product, [N, F]."""
    nodes, heads = self_share.shape
    apart = sent.view(nodes, heads, -1)
    stacked = apart.transpose(0, 1).reshape(heads * nodes, -1)
    near = multiply(per_head(graph.adjacency, heads), stacked, share.t().reshape(-1))
    return (near.view(heads, nodes, -1).transpose(0, 1) + self_share.unsqueeze(2) * apart).flatten(
        1
    )


def edge_dot(adjacency: Csr, receiver: Tensor, sender: Tensor) -> Tensor:
    """<receiver_i, sender_j> for each edge j → i and head, [E, H]; both ends are [N, H, F / H]."""
    heads, width = receiver.shape[1:]
    left, right = (end.transpose(0, 1).reshape(-1, width) for end in (receiver, sender))
    return _EdgeDot.apply(per_head(adjacency, heads), left, right).view(heads, -1).t()


class _EdgeDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, adjacency: Csr, receiver: Tensor, sender: Tensor) -> Tensor:
        ctx.save_for_backward(receiver, sender)
        ctx.adjacency = adjacency  # type: ignore[attr-defined]
        return adjacency.sampled(receiver, sender)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        receiver, sender = ctx.saved_tensors  # type: ignore[attr-defined]
        adjacency: Csr = ctx.adjacency  # type: ignore[attr-defined]
        rowptr, col, order = adjacency.transpose
        back = Csr(rowptr, col, None, (adjacency.shape[1], adjacency.shape[0]))
        return None, multiply(adjacency, sender, grad), multiply(back, receiver, grad[order])


def coupled_logits(
    adjacency: Csr, receiver: Tensor, sender: Tensor, vector: Tensor, coupling: Coupling
) -> Tensor:
    """v_h · φ(receiver_i + sender_j) for each edge and head, [E, H]; φ is LeakyReLU or tanh, v is
    [H, F / H]."""
    return _Coupled.apply(adjacency, receiver, sender, vector, coupling)


class _Coupled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx,
        adjacency: Csr,
        receiver: Tensor,
        sender: Tensor,
        vector: Tensor,
        coupling: Coupling,
    ) -> Tensor:
        ctx.save_for_backward(receiver, sender, vector)
        ctx.adjacency, ctx.coupling = adjacency, coupling  # type: ignore[attr-defined]
        out = receiver.new_empty(adjacency.nnz, vector.shape[0])
        for part in _slices(adjacency.nnz, receiver.shape[1]):
            total = receiver.index_select(0, adjacency.row[part]).add_(
                sender.index_select(0, adjacency.col[part])
            )
            bent = (
                F.leaky_relu_(total, NEGATIVE_SLOPE) if coupling == "leaky_relu" else total.tanh_()
            )
            out[part] = (bent.view(-1, *vector.shape) * vector).sum(2)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[None, Tensor, Tensor, Tensor, None]:
        receiver, sender, vector = ctx.saved_tensors  # type: ignore[attr-defined]
        adjacency: Csr = ctx.adjacency  # type: ignore[attr-defined]
        leaky = ctx.coupling == "leaky_relu"  # type: ignore[attr-defined]
        to_receiver, to_sender, to_vector = (
            torch.zeros_like(t) for t in (receiver, sender, vector)
        )
        for part in _slices(adjacency.nnz, receiver.shape[1]):
            row, col = adjacency.row[part], adjacency.col64[part]
            total = receiver.index_select(0, row) + sender.index_select(0, col)
            bent = F.leaky_relu(total, NEGATIVE_SLOPE) if leaky else torch.tanh(total)
            slope = torch.where(total > 0, 1.0, NEGATIVE_SLOPE) if leaky else 1 - bent.square()
            by_head = grad[part].unsqueeze(2)
            to_vector += (bent.view(-1, *vector.shape) * by_head).sum(0)
            flow = (by_head * vector).flatten(1) * slope
            to_receiver.index_add_(0, row, flow)
            to_sender.index_add_(0, col, flow)
        return None, to_receiver, to_sender, to_vector, None


def edge_max(graph: MaskedGraph, sent: Tensor, share: Tensor, self_share: Tensor) -> Tensor:
    """max over N_i ∪ i of a_ij P_j, feature by feature, [N, F]; a and a_ii are [E, H] and [N,
    H]."""
    parts = sent.chunk(share.shape[1], dim=1)
    outputs = []
    for k, part in enumerate(parts):
        mine = self_share[:, k, None] * part
        near = _EdgeMax.apply(
            graph.adjacency, graph.edge_weight > 0, part.contiguous(), share[:, k].contiguous()
        )
        outputs.append(torch.maximum(mine, near))
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)


class _EdgeMax(torch.autograd.Function):
    """max_j v_ij D_j over present edges, -inf where there are none; keeps only which edge won, [R,
    F]."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, adjacency: Csr, present: Tensor, dense: Tensor, value: Tensor
    ) -> Tensor:
        nodes, width = adjacency.shape[0], dense.shape[1]
        out = dense.new_full((nodes, width), -torch.inf)
        winner = torch.full((nodes, width), -1, dtype=torch.int64, device=dense.device)
        number = torch.arange(adjacency.nnz, device=dense.device)
        step = max(1, SLICE // max(adjacency.nnz, 1))
        for at in range(0, width, step):
            columns = slice(at, at + step)
            sent = dense[:, columns].index_select(0, adjacency.col64) * value.unsqueeze(1)
            sent = sent.masked_fill_(~present.unsqueeze(1), -torch.inf)
            index = adjacency.row.unsqueeze(1).expand_as(sent)
            out[:, columns] = out[:, columns].scatter_reduce(0, index, sent, "amax")
            won = (sent == out[:, columns].index_select(0, adjacency.row)) & present.unsqueeze(1)
            first = torch.where(won, number.unsqueeze(1), -1)
            winner[:, columns] = winner[:, columns].scatter_reduce(0, index, first, "amax")
        ctx.save_for_backward(dense, value, winner)
        ctx.adjacency = adjacency  # type: ignore[attr-defined]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[None, None, Tensor, Tensor]:
        dense, value, winner = ctx.saved_tensors  # type: ignore[attr-defined]
        adjacency: Csr = ctx.adjacency  # type: ignore[attr-defined]
        some = winner >= 0
        edge = winner[some]
        column = torch.arange(dense.shape[1], device=dense.device).expand_as(winner)[some]
        sender, flow = adjacency.col64[edge], grad[some]
        to_dense = torch.zeros_like(dense).index_put_(
            (sender, column), flow * value[edge], accumulate=True
        )
        to_value = torch.zeros_like(value).index_add_(0, edge, flow * dense[sender, column])
        return None, None, to_dense, to_value


def _slices(count: int, width: int) -> list[slice]:
    step = max(1, SLICE // max(width, 1))
    return [slice(at, at + step) for at in range(0, count, step)]
