"""GNNGuard: neighbours are heard by likeness. Zhang and Zitnik, GNNGuard: Defending Graph Neural
Networks against Adversarial Attacks, NeurIPS 2020.

    s_uv = m_uv cos(h_u, h_v), 0 if the cosine is under t,   n_u = #{v: s_uv > 0}
    a_uv = s_uv / Σ_v s_uv · n_u / (n_u + 1),   a_uu = 1 / (n_u + 1)
    ω_1 = a_1,   ω_l = b ω_{l-1} + (1 - b) a_l,   h' = ω_l h W

The likeness has no gradient; the memory b is learned. An edge whose ω is 0 in every layer is
absent.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gassip.baselines._shared.trained import Trained
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.graph.similarity import cosine
from gassip.nn.dropout import drop
from gassip.nn.kernels import multiply, segment_sum, transform
from gassip.nn.net import Model
from gassip.nn.propagate import MaskedGraph


def defence(graph: MaskedGraph, alike: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """a_uv [E] and a_uu [N] from the cosines."""
    strength = torch.where(alike >= threshold, alike, 0.0) * graph.edge_weight
    count = segment_sum(graph.adjacency, (strength > 0).to(strength.dtype))
    total = segment_sum(graph.adjacency, strength)
    scale = torch.where(total > 0, count / (count + 1) / torch.where(total > 0, total, 1.0), 0.0)
    return strength * graph.at_receiver(scale), 1 / (count + 1)


class GuardedNet(Model):
    """A GCN whose propagation weights come from likeness."""

    _first: tuple[Tensor | Csr, Csr, Tensor] | None = None

    def __init__(self, features: int, classes: int, settings: "GnnGuard") -> None:
        super().__init__()
        self.dropout, self.threshold = settings.dropout, settings.threshold
        widths = [features, *[settings.hidden] * (settings.layers - 1), classes]
        spans = list(pairwise(widths))
        self.weights = nn.ParameterList(
            nn.init.xavier_uniform_(torch.empty(a, b)) for a, b in spans
        )
        self.biases = nn.ParameterList(torch.zeros(b) for _, b in spans)
        self.memory = nn.Parameter(torch.zeros(()))  # b = σ(memory)

    def passes(self, x: Tensor | Csr, graph: MaskedGraph) -> tuple[Tensor, list[Tensor]]:
        """Class scores [N, C], and ω of every layer, [E]."""
        h: Tensor | Csr = x
        edges: list[Tensor] = []
        before: tuple[Tensor, Tensor] | None = None
        for l, weight in enumerate(self.weights):
            h = F.relu(h) if l > 0 and isinstance(h, Tensor) else h
            edge, loop = defence(
                graph,
                self.first_alike(x, graph) if l == 0 else self.alike(h, graph),
                self.threshold,
            )
            if before is not None:
                b = torch.sigmoid(self.memory)
                edge, loop = b * before[0] + (1 - b) * edge, b * before[1] + (1 - b) * loop
            before = edge, loop
            edges.append(edge)
            product = transform(drop(h, self.dropout if self.training else 0.0), weight)
            h = (
                multiply(graph.adjacency, product, edge)
                + loop.unsqueeze(1) * product
                + self.biases[l]
            )
        assert isinstance(h, Tensor)
        return h, edges

    @staticmethod
    @torch.no_grad()
    def alike(h: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        """Cosines of the ends, [E]."""
        return cosine(h, graph.adjacency)

    def first_alike(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        """Cosines of X, which never change and are computed once for a graph."""
        if self._first is None or self._first[0] is not x or self._first[1] is not graph.adjacency:
            self._first = (x, graph.adjacency, self.alike(x, graph))
        return self._first[2]

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        return self.passes(x, graph)[0]


@dataclass(frozen=True, kw_only=True)
class GnnGuard(Trained):
    """A guarded 2-layer GCN."""

    layers: int = 2
    hidden: int = 16
    dropout: float = 0.5
    threshold: float = 0.1
    epochs: int = 200

    def model(self, graph: Graph) -> Model:
        return GuardedNet(graph.num_features, graph.num_classes, self)

    @torch.no_grad()
    def used(self, model: Model, graph: Graph) -> Tensor | None:
        assert isinstance(model, GuardedNet)
        return torch.stack(model.eval().passes(graph.x, MaskedGraph.of(graph))[1]).amax(0) > 0
