"""PTDNet: each layer learns which edges to drop, towards a graph of low rank. Luo et al., Learning
to Drop: Robust Graph Neural Network via Topological Denoising, WSDM 2021.

    l_uv = a·ReLU(W_a h_u + b_a) + b·ReLU(W_b h_v + b_b) + c                           (per layer)
    z_uv = clip(γ + (ζ - γ) σ((l_uv + log ε/(1 - ε)) / β), 0, 1),   ε uniform;  σ(l_uv) in its place
                                                                    at evaluation
    L = CE(mean of 3 passes) + λ1 Σ mean_uv σ(l_uv - β log(-γ/ζ)) + λ3 Σ Σ_r σ_r(Z) + λ_c ½ Σ_t
        mean_i |p_ti - p̄_i|²

The sums run over passes and layers; σ_r are the largest singular values of Z = (z_uv), found on the
sparse matrix. At evaluation a gate at or under the threshold τ is 0; an edge that is 0 in every
layer is absent: it leaves the graph after training, and is counted as gone.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from math import log
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gassip.baselines._shared.trained import Trained
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.dropout import drop
from gassip.nn.kernels import multiply, transform
from gassip.nn.net import Model
from gassip.nn.propagate import MaskedGraph, received
from gassip.train.context import RunContext
from gassip.train.plan import Solution

LOW, HIGH = -0.1, 1.1  # γ and ζ


def hard_concrete(logit: Tensor, temperature: float | None) -> Tensor:
    """z, drawn at temperature β; without noise where β is None."""
    if temperature is None:
        gate = torch.sigmoid(logit)
    else:
        noise = torch.rand_like(logit).clamp_(1e-6, 1 - 1e-6)
        gate = torch.sigmoid((logit + torch.logit(noise)) / temperature)
    return (LOW + (HIGH - LOW) * gate).clamp(0.0, 1.0)


def l0(logit: Tensor, temperature: float) -> Tensor:
    """The mean probability that z is not 0."""
    return torch.sigmoid(logit - temperature * log(-LOW / HIGH)).sum() / max(logit.numel(), 1)


@torch.no_grad()
def singular_vectors(
    adjacency: Csr, value: Tensor, count: int, rounds: int
) -> tuple[Tensor, Tensor]:
    """The left and right singular vectors of the `count` largest singular values, [N, r] each, by
    block powers."""
    rowptr, col, order = adjacency.transpose
    flipped = Csr(rowptr, col, value[order], (adjacency.shape[1], adjacency.shape[0]))
    generator = torch.Generator(device=value.device).manual_seed(0)
    start = torch.randn(
        adjacency.shape[1], count, generator=generator, dtype=value.dtype, device=value.device
    )
    right = torch.linalg.qr(start).Q
    for _ in range(rounds):
        left = torch.linalg.qr(multiply(adjacency, right, value)).Q
        right = torch.linalg.qr(multiply(flipped, left)).Q
    inner, _, outer = torch.linalg.svd(left.T @ multiply(adjacency, right, value))
    return left @ inner, right @ outer.T


def nuclear(adjacency: Csr, value: Tensor, count: int, rounds: int) -> Tensor:
    """Σ of the `count` largest singular values; its gradient is Σ_r u_r v_rᵀ at the entries."""
    left, right = singular_vectors(adjacency, value, min(count, adjacency.shape[0]), rounds)
    return (value * (left[adjacency.row] * right[adjacency.col64]).sum(1)).sum()


class Denoiser(nn.Module):
    """l: what a layer thinks of each edge. The last product is a sum over both ends, so nodes carry
    it, not edges."""

    def __init__(self, in_width: int, width: int) -> None:
        super().__init__()
        self.ends = nn.Parameter(
            nn.init.kaiming_normal_(torch.empty(in_width, 2 * width), mode="fan_out")
        )
        self.ends_bias = nn.Parameter(torch.zeros(2 * width))
        self.out = nn.Parameter(nn.init.kaiming_normal_(torch.empty(2 * width, 1), mode="fan_out"))
        self.out_bias = nn.Parameter(torch.zeros(()))

    def logit(self, h: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        receiver, sender = (F.relu(transform(h, self.ends) + self.ends_bias)).chunk(2, dim=1)
        first, second = self.out.chunk(2)
        at_receiver, at_sender = (receiver @ first).squeeze(1), (sender @ second).squeeze(1)
        return graph.at_receiver(at_receiver) + graph.at_sender(at_sender) + self.out_bias


class PtdNetModel(Model):
    """A GCN with a denoiser in front of every layer."""

    def __init__(self, features: int, classes: int, settings: "PtdNet") -> None:
        super().__init__()
        self.dropout, self.threshold = settings.dropout, settings.threshold
        self.temperature = settings.first_temperature
        widths = [features, *[settings.hidden] * (settings.layers - 1), classes]
        spans = list(pairwise(widths))
        self.denoisers = nn.ModuleList(Denoiser(a, settings.denoise_hidden) for a, _ in spans)
        self.weights = nn.ParameterList(
            nn.init.xavier_uniform_(torch.empty(a, b)) for a, b in spans
        )
        self.biases = nn.ParameterList(torch.zeros(b) for _, b in spans)

    def passes(
        self, x: Tensor | Csr, graph: MaskedGraph
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Class scores [N, C], and of every layer the logits [E] and the gates [E]."""
        h: Tensor | Csr = x
        logits, gates = [], []
        for l, denoiser in enumerate(self.denoisers):
            assert isinstance(denoiser, Denoiser)
            h = F.relu(h) if l > 0 and isinstance(h, Tensor) else h
            logits.append(denoiser.logit(h, graph))
            gates.append(self.gate(logits[-1]))
            masked = MaskedGraph(graph.adjacency, graph.edge_weight * gates[-1])
            product = transform(drop(h, self.dropout if self.training else 0.0), self.weights[l])
            h = received(masked, "gcn", product) + self.biases[l]
        assert isinstance(h, Tensor)
        return h, logits, gates

    def gate(self, logit: Tensor) -> Tensor:
        """z, drawn; at evaluation as it is expected, and 0 at or under τ."""
        if self.training:
            return hard_concrete(logit, self.temperature)
        gate = hard_concrete(logit, None)
        return torch.where(gate > self.threshold, gate, 0.0)

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        return self.passes(x, graph)[0]


@dataclass(frozen=True, kw_only=True)
class PtdNet(Trained):
    """The weights of the terms are a tenth of those in the authors' code, picked on Cora: see
    PAPER.md."""

    version: ClassVar[int] = 2

    layers: int = 2
    hidden: int = 64
    dropout: float = 0.5
    denoise_hidden: int = 16
    first_temperature: float = 2.0  # β = max(.05, 2 · .99^epoch)
    cooling: float = 0.99
    last_temperature: float = 0.05
    threshold: float = 0.5  # τ
    lambda_l0: float = 0.01  # λ1
    lambda_nuclear: float = 0.001  # λ3
    lambda_consistency: float = 2.7  # of a mean over nodes: .001 of the code's sum on Cora
    samples: int = 3
    singular_values: int = 1
    rounds: int = 5

    def model(self, graph: Graph) -> Model:
        return PtdNetModel(graph.num_features, graph.num_classes, self)

    def loss(self, model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
        assert isinstance(model, PtdNetModel)
        beta = max(self.last_temperature, self.first_temperature * self.cooling ** (epoch - 1))
        model.temperature = beta
        runs = [model.passes(graph.x, masked) for _ in range(self.samples)]
        scores = torch.stack([run[0] for run in runs])  # [T, N, C]
        mean = scores.mean(0)
        total = F.cross_entropy(mean[graph.train_mask], graph.y[graph.train_mask])
        total = total + self.lambda_consistency / 2 * (scores - mean).square().sum() / max(
            graph.num_nodes, 1
        )
        for _, logits, gates in runs:
            for logit, gate in zip(logits, gates, strict=True):
                total = total + self.lambda_l0 * l0(logit, beta)
                if self.lambda_nuclear:
                    rank = nuclear(masked.adjacency, gate, self.singular_values, self.rounds)
                    total = total + self.lambda_nuclear * rank
        return total

    def used(self, model: Model, graph: Graph) -> Tensor | None:
        return heard(model, graph).any(0)

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        """The details say how many edges each layer hears; one may be gone from one layer alone."""
        solution = super().solve(graph, run)
        counts = heard(solution.model, solution.graph).sum(1).tolist()
        return replace(solution, details=solution.details | {"edges_by_layer": counts})


@torch.no_grad()
def heard(model: Model, graph: Graph) -> Tensor:
    """Whether the gate of a layer lets an edge through at evaluation, [layers, E]."""
    assert isinstance(model, PtdNetModel)
    return torch.stack(model.eval().passes(graph.x, MaskedGraph.of(graph))[2]) > 0
