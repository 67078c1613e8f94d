"""NeuralSparse: each node learns which k neighbours to hear. Zheng et al., Robust Graph
Representation Learning via Neural Sparsification, ICML 2020.

    s_uv = w·ReLU(W [x_u, x_v] + b),   g_uv = (s_uv + Gumbel noise) / τ,   K_u = the k neighbours
                                       with the largest g_uv
    z_uv = exp g_uv / Σ_{K_u} exp g_uv for v in K_u, else 0,   then a GCN on Z + I

No noise at evaluation. Since z is a softmax over K_u alone, running on the kept edges gives what
the whole graph gave. W [x_u, x_v] is a sum of one product for each end, so no edge carries
features.
"""

from dataclasses import dataclass
from math import exp, sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gassip.baselines._shared.trained import Trained
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.kernels import segment_sum, transform
from gassip.nn.net import Architecture, Model, Net
from gassip.nn.propagate import MaskedGraph
from gassip.train.losses import supervised


def largest(adjacency: Csr, value: Tensor, k: int) -> Tensor:
    """The k entries of each row with the largest values, bool [E]; rows with fewer keep all."""
    order = torch.argsort(value, descending=True, stable=True)
    order = order[torch.argsort(adjacency.row[order], stable=True)]  # by row, then falling
    first = adjacency.rowptr.long()[adjacency.row]  # rows stay where they were
    rank = torch.arange(value.numel(), device=value.device) - first
    keep = torch.zeros(value.numel(), dtype=torch.bool, device=value.device)
    keep[order[rank < k]] = True
    return keep


def shares(adjacency: Csr, logit: Tensor, keep: Tensor) -> Tensor:
    """A softmax over the kept entries of each row, 0 elsewhere, [E]."""
    with torch.no_grad():
        present = torch.where(keep, logit, -torch.inf)
        top = logit.new_full((adjacency.shape[0],), -torch.inf).scatter_reduce(
            0, adjacency.row, present, "amax"
        )
        floor = torch.where(keep, top[adjacency.row], 0.0)
    grown = torch.where(keep, torch.exp(torch.where(keep, logit - floor, 0.0)), 0.0)
    total = segment_sum(adjacency, grown)[adjacency.row]
    return grown / torch.where(keep, total, 1.0)


def gumbel(like: Tensor) -> Tensor:
    """Noise with distribution function exp(-exp(-x))."""
    return -torch.log(-torch.log(torch.rand_like(like).clamp_(1e-10, 1 - 1e-7)))


class NeuralSparseNet(Model):
    """The scorer of edges and the GCN behind it."""

    temperature: Tensor

    def __init__(self, features: int, classes: int, settings: "NeuralSparse") -> None:
        super().__init__()
        self.neighbours = settings.neighbours
        bound = sqrt(6 / (2 * features + settings.score_hidden))
        self.ends = nn.Parameter(
            torch.empty(features, 2 * settings.score_hidden).uniform_(-bound, bound)
        )
        self.ends_bias = nn.Parameter(torch.zeros(settings.score_hidden))
        self.out = nn.Parameter(nn.init.xavier_uniform_(torch.empty(settings.score_hidden, 1)))
        self.register_buffer("temperature", torch.ones(()))
        inner = (settings.hidden,) * (settings.layers - 1)
        shape = Architecture(ops=("GCNConv",) * settings.layers, hidden=inner)
        self.gcn = Net(features, classes, shape, settings.dropout)

    def score(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        """s [E]; a constant added to every score changes nothing, so the last bias is left out."""
        receiver, sender = transform(x, self.ends).chunk(2, dim=1)
        return (
            F.relu(graph.at_receiver(receiver) + graph.at_sender(sender) + self.ends_bias)
            @ self.out
        ).squeeze(1)

    def sparsify(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        """z [E]; an edge that weighs 0 in the given graph is never chosen."""
        score = self.score(x, graph)
        logit = (score + gumbel(score) if self.training else score) / self.temperature
        present = graph.edge_weight > 0
        keep = (
            largest(
                graph.adjacency, torch.where(present, logit.detach(), -torch.inf), self.neighbours
            )
            & present
        )
        return shares(graph.adjacency, logit, keep)

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        return self.gcn.run(
            x, MaskedGraph(graph.adjacency, graph.edge_weight * self.sparsify(x, graph))
        )


@dataclass(frozen=True, kw_only=True)
class NeuralSparse(Trained):
    """Scorer and GCN learn together from the training labels."""

    layers: int = 2
    hidden: int = 64
    dropout: float = 0.5
    neighbours: int = 5  # k
    score_hidden: int = 32
    cooling: float = 1e-3  # τ = exp(-cooling · epoch), refreshed every so many epochs
    refresh: int = 50

    def model(self, graph: Graph) -> Model:
        return NeuralSparseNet(graph.num_features, graph.num_classes, self)

    def temperature(self, epoch: int) -> float:
        """τ in epoch 1, 2, ..."""
        return exp(-self.cooling * ((epoch - 1) // self.refresh * self.refresh))

    def loss(self, model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
        assert isinstance(model, NeuralSparseNet)
        model.temperature.fill_(self.temperature(epoch))
        return supervised(model, graph, masked, epoch)

    @torch.no_grad()
    def used(self, model: Model, graph: Graph) -> Tensor | None:
        assert isinstance(model, NeuralSparseNet)
        return model.eval().sparsify(graph.x, MaskedGraph.of(graph)) > 0
