"""GAT: attention over neighbours. Veličković et al., Graph Attention Networks, ICLR 2018.

    h'_i = ‖_h Σ_{j ∈ N_i ∪ i} a^h_ij W^h h_j,   a^h_ij ∝ m_ij exp LeakyReLU(s^h·W^h h_j + t^h·W^h
                                                 h_i)

ELU between the layers; the output layer averages its heads. Dropout on the features and on a.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gassip.baselines._shared.trained import Trained
from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.dropout import drop
from gassip.nn.kernels import multiply, transform
from gassip.nn.net import Model
from gassip.nn.propagate import MaskedGraph, attention_shares


def copies(graph: MaskedGraph, count: int) -> MaskedGraph:
    """`count` copies of the graph side by side, node i of copy h being h N + i: one for each
    head."""
    adjacency, n = graph.adjacency, graph.adjacency.shape[0]
    first = torch.arange(count, dtype=torch.int32, device=adjacency.col.device).unsqueeze(1)
    ends = (adjacency.rowptr[1:] + first * adjacency.nnz).reshape(-1)
    columns = (adjacency.col + first * n).reshape(-1)
    pattern = Csr(torch.cat([adjacency.rowptr[:1], ends]), columns, None, (count * n, count * n))
    return MaskedGraph(pattern, graph.edge_weight.repeat(count))


class GatLayer(nn.Module):
    """Heads side by side, or averaged; all of them in one product, on as many copies of the
    graph."""

    _copies: tuple[MaskedGraph, MaskedGraph] | None = None

    def __init__(self, in_width: int, width: int, heads: int, *, average: bool) -> None:
        super().__init__()
        self.width, self.heads, self.average = width, heads, average
        bound = sqrt(6 / (in_width + heads * width))
        self.weight = nn.Parameter(torch.empty(in_width, heads * width).uniform_(-bound, bound))
        self.attention = nn.Parameter(nn.init.xavier_uniform_(torch.empty(2, heads, width)))
        self.bias = nn.Parameter(torch.zeros(width if average else heads * width))

    def propagate(self, x: Tensor | Csr, graph: MaskedGraph, dropout: float) -> Tensor:
        part = (
            transform(x, self.weight).view(-1, self.heads, self.width).transpose(0, 1).contiguous()
        )  # [H, N, F]
        logits = torch.einsum("hnf,shf->shn", part, self.attention).reshape(2, -1)
        many, part = self.many(graph), part.view(-1, self.width)
        share, self_share = attention_shares(many, logits[0], logits[1])
        share, self_share = drop(share, dropout), drop(self_share, dropout)  # type: ignore[assignment]
        heads = (multiply(many.adjacency, part, share) + self_share.unsqueeze(1) * part).view(
            self.heads, -1, self.width
        )
        joined = (
            heads.mean(0)
            if self.average
            else heads.transpose(0, 1).reshape(-1, self.heads * self.width)
        )
        return joined + self.bias

    def many(self, graph: MaskedGraph) -> MaskedGraph:
        """The graph's copies, made anew only for another graph."""
        if self.heads == 1:
            return graph
        if torch.is_inference_mode_enabled():  # what is made there cannot be used in training
            return copies(graph, self.heads)
        if self._copies is None or self._copies[0] is not graph:
            self._copies = (graph, copies(graph, self.heads))
        return self._copies[1]


class GatNet(Model):
    """Two attention layers, or more."""

    def __init__(self, features: int, classes: int, settings: "Gat") -> None:
        super().__init__()
        self.dropout, self.attention_dropout = settings.dropout, settings.attention_dropout
        widths = [features, *[settings.hidden] * (settings.layers - 1)]
        each = settings.hidden // settings.heads
        inner = [GatLayer(width, each, settings.heads, average=False) for width in widths[:-1]]
        self.inner = nn.ModuleList(inner)
        self.last = GatLayer(widths[-1], classes, settings.out_heads, average=True)

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        feature, attention = (self.dropout, self.attention_dropout) if self.training else (0.0, 0.0)
        h: Tensor | Csr = x
        for layer in self.inner:
            assert isinstance(layer, GatLayer)
            h = F.elu(layer.propagate(drop(h, feature), graph, attention))
        return self.last.propagate(drop(h, feature), graph, attention)


@dataclass(frozen=True, kw_only=True)
class Gat(Trained):
    """Eight heads of eight; the published numbers for Cora and CiteSeer."""

    layers: int = 2
    hidden: int = 64  # of all heads together
    heads: int = 8
    out_heads: int = 1
    dropout: float = 0.6
    attention_dropout: float = 0.6
    lr: float = 0.005

    def __post_init__(self) -> None:
        if self.heads < 1 or self.hidden % self.heads:
            raise GassipError(
                f"heads is {self.heads}, which does not divide hidden = {self.hidden}"
            )

    @classmethod
    def for_graph(cls, graph: Graph) -> Self:
        """PubMed has eight output heads, a higher rate and more weight decay."""
        if graph.name == "pubmed":
            return cls(out_heads=8, lr=0.01, weight_decay=1e-3)
        return cls()

    def model(self, graph: Graph) -> Model:
        return GatNet(graph.num_features, graph.num_classes, self)
