"""The space of SANE (sane.py): node aggregators, skips, layer aggregators, and their supernet.

    n(h)   SAGE (sum, mean, max), GCN, GIN, GAT and its four kin, GeniePath
    m      Linear(ReLU(concat | max | LSTM-attention)) of s_1 … s_L

Shapes: N nodes, L layers, F hidden width.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gassip.baselines._shared.attention import VECTORS, attention_logits
from gassip.baselines._shared.extra_ops import Op, edge_max, lean, make_op, shares, weighted_sum
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.dropout import drop
from gassip.nn.kernels import transform
from gassip.nn.net import Model
from gassip.nn.propagate import MaskedGraph

PLAIN = {"gcn": "GCNConv", "gin": "GINConv", "sage-mean": "SAGEConv", "gat": "GATConv"}


KIN = {
    "gat-sym": "sym-gat",
    "gat-cos": "cos",
    "gat-linear": "linear",
    "gat-gene-linear": "gene-linear",
}


NODES = ("sage-sum", "sage-mean", "sage-max", "gcn", "gin", "gat", *KIN, "geniepath")


SKIPS = ("none", "skip")


MERGES = ("concat", "max", "lstm")


Head = Literal["linear", "mlp"]


class Summed(Op):
    """Σ or max over N_i ∪ i of m_ij P_j; the mask leaves out of a maximum what it removes."""

    def __init__(self, in_width: int, out_width: int, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.linear = nn.Linear(in_width, out_width)

    def forward(self, h: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        product = transform(h, self.linear.weight.t())
        share, ones = (
            graph.edge_weight.unsqueeze(1),
            torch.ones(product.shape[0], 1, device=product.device),
        )
        gather = edge_max if self.kind == "max" else weighted_sum
        return gather(graph, product, share, ones) + self.linear.bias


class Kin(Op):
    """GAT with another attention: the softmax over N_i ∪ i of a GraphNAS kind."""

    def __init__(self, in_width: int, out_width: int, kind: str, heads: int) -> None:
        super().__init__()
        self.kind = kind
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_width, out_width)))
        self.vectors = nn.Parameter(
            nn.init.xavier_uniform_(torch.empty(VECTORS[kind], heads, out_width // heads))
        )
        self.bias = nn.Parameter(torch.zeros(out_width))

    def forward(self, h: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        product = transform(h, self.weight)
        share, self_share = shares(
            graph, *attention_logits(self.kind, product, self.vectors, graph)
        )
        return weighted_sum(graph, product, share, self_share) + self.bias


class GeniePath(Op):
    """tanh of a GAT, then the gates of an LSTM that starts empty: c = σ(i) tanh(g), h = σ(o)
    tanh(c)."""

    def __init__(self, in_width: int, out_width: int) -> None:
        super().__init__()
        self.breadth = make_op("GATConv", in_width, out_width)
        self.gates = nn.Linear(out_width, 3 * out_width, bias=False)

    def forward(self, h: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        enter, new, leave = self.gates(torch.tanh(self.breadth(h, graph))).chunk(3, dim=1)
        return torch.sigmoid(leave) * torch.tanh(torch.sigmoid(enter) * torch.tanh(new))


def node_op(name: str, width: int, heads: int) -> Op:
    """A node aggregator of that name, width to width."""
    if name in PLAIN:
        return make_op(PLAIN[name], width, width, heads)
    if name in KIN:
        return Kin(width, width, KIN[name], heads)
    return (
        GeniePath(width, width)
        if name == "geniepath"
        else Summed(width, width, name.removeprefix("sage-"))
    )


class Merge(nn.Module):
    """Linear(ReLU(m(s_1 … s_L))) for L layers of width F."""

    def __init__(self, kind: str, width: int, layers: int) -> None:
        super().__init__()
        self.kind = kind
        self.linear = nn.Linear(width * layers if kind == "concat" else width, width)
        if kind == "lstm":
            self.lstm = nn.LSTM(width, layers * width // 2, batch_first=True, bidirectional=True)
            self.attend = nn.Linear(2 * (layers * width // 2), 1)

    def gather(self, parts: list[Tensor]) -> Tensor:
        """concat: side by side; max: feature by feature; lstm: their mean weighted by
        softmax(attend(LSTM))."""
        if self.kind == "concat":
            return torch.cat(parts, dim=1)
        stacked = torch.stack(parts, dim=1)
        if self.kind == "max":
            return stacked.max(1).values
        share = torch.softmax(self.attend(self.lstm(stacked)[0]), dim=1)
        return (share * stacked).sum(1)

    def forward(self, parts: list[Tensor]) -> Tensor:
        return self.linear(F.relu(self.gather(parts)))


@dataclass(frozen=True)
class Choices:
    """The candidates at every place; with one at each it is an architecture."""

    nodes: tuple[tuple[str, ...], ...]
    skips: tuple[tuple[str, ...], ...]
    merges: tuple[str, ...]

    def __str__(self) -> str:
        names = ["|".join(place) for place in (*self.nodes, *self.skips, self.merges)]
        return " ‖ ".join(names)


class SaneNet(Model):
    """The supernet, or one architecture of it: a softmax over one candidate is 1."""

    def __init__(
        self,
        graph: Graph,
        choices: Choices,
        hidden: int,
        heads: int,
        dropout: float,
        *,
        input_dropout: float = 0.0,
        input_scale: float = 1.0,
        head: Head = "mlp",
    ) -> None:
        super().__init__()
        self.choices, self.dropout = choices, dropout
        self.input_dropout, self.input_scale = input_dropout, input_scale
        self.first = nn.Parameter(nn.init.xavier_uniform_(torch.empty(graph.num_features, hidden)))
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.layers = nn.ModuleList(
            nn.ModuleList(node_op(n, hidden, heads) for n in names) for names in choices.nodes
        )
        self.merges = nn.ModuleList(
            Merge(kind, hidden, len(choices.nodes)) for kind in choices.merges
        )
        last = nn.Linear(hidden, graph.num_classes)
        self.head = (
            last if head == "linear" else nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), last)
        )

    def even(self) -> list[Tensor]:
        """Zeros of the shapes of α, β and δ."""
        device = self.first.device
        node, skip = self.choices.nodes, self.choices.skips
        sizes = [
            (len(node), len(node[0])),
            (len(skip), len(skip[0])),
            (1, len(self.choices.merges)),
        ]
        return [torch.zeros(size, device=device) for size in sizes]

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        return self.mixture(x, graph, self.even())

    def mixture(self, x: Tensor | Csr, graph: MaskedGraph, scores: list[Tensor]) -> Tensor:
        """Class scores [N, C], every place mixed by the softmax of its scores (α, β, δ)."""
        node, skip, merge = (torch.softmax(score, 1) for score in scores)
        seen = drop(x, self.input_dropout if self.training else 0.0)
        h = self.dropped(self.input_scale * transform(seen, self.first) + self.first_bias)
        parts = []
        for l, ops in enumerate(self.layers):
            assert isinstance(ops, nn.ModuleList)
            outputs = [
                share * F.elu(lean(op, h, graph))  # type: ignore[arg-type]
                for share, op in zip(node[l], ops, strict=True)
            ]
            h = self.dropped(torch.stack(outputs).sum(0))
            names = self.choices.skips[l]
            parts.append(
                h * skip[l, names.index("skip")] if "skip" in names else torch.zeros_like(h)
            )
        merged = [
            share * merge_op(parts) for share, merge_op in zip(merge[0], self.merges, strict=True)
        ]
        return self.head(self.dropped(torch.stack(merged).sum(0)))

    def dropped(self, h: Tensor) -> Tensor:
        out = drop(h, self.dropout if self.training else 0.0)
        assert isinstance(out, Tensor)
        return out


def highest(choices: Choices, scores: list[Tensor]) -> Choices:
    """One candidate at every place, by its score; where every skip is `none`, the last layer is
    kept."""
    node, skip, merge = (score.argmax(1).tolist() for score in scores)
    skips = [(choices.skips[l][k],) for l, k in enumerate(skip)]
    if all(place == ("none",) for place in skips):
        skips[-1] = ("skip",)
    nodes = tuple((choices.nodes[l][k],) for l, k in enumerate(node))
    return Choices(nodes, tuple(skips), (choices.merges[merge[0]],))
