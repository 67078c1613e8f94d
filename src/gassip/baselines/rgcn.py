"""RGCN: nodes as Gaussians, uncertain ones heard less. Zhu et al., Robust Graph Convolutional
Networks Against Adversarial Attacks, KDD 2019.

    μ = ELU(h_μ W_μ),  σ = ReLU(h_σ W_σ),  a = exp(-g σ)
    h'_μ = D^-1/2 (A + I) D^-1/2 (μ ⊙ a),   h'_σ = D^-1 (A + I) D^-1 (σ ⊙ a ⊙ a)
    L = CE(h_μ + ε √h_σ) + β1 Σ_i mean_d ½ (μ² + σ - log σ) + β2 (|W_μ|² + |W_σ|²)     (both terms
    of layer 1)

ε is drawn in training; at evaluation the scores are the means.
"""

from dataclasses import dataclass

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

TINY = 1e-8


def twice_normalised(graph: MaskedGraph, h: Tensor) -> Tensor:
    """D^-1 (A + I) D^-1 h."""
    inverse = 1 / (1 + graph.degree)
    value = graph.edge_weight * graph.at_receiver(inverse) * graph.at_sender(inverse)
    return multiply(graph.adjacency, h, value) + (inverse * inverse).unsqueeze(1) * h


def divergence(mean: Tensor, variance: Tensor) -> Tensor:
    """Σ_i mean_d ½ (μ² + σ - log σ): the divergence from N(0, 1), up to a constant."""
    return (0.5 * (mean**2 + variance - torch.log(TINY + variance))).mean(1).sum()


class GaussianLayer(nn.Module):
    """One graph convolution of Gaussians."""

    def __init__(self, in_width: int, out_width: int, uncertainty: float) -> None:
        super().__init__()
        self.uncertainty = uncertainty
        self.mean_weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_width, out_width)))
        self.variance_weight = nn.Parameter(
            nn.init.xavier_uniform_(torch.empty(in_width, out_width))
        )

    def activate(self, mean: Tensor | Csr, variance: Tensor | Csr) -> tuple[Tensor, Tensor]:
        """μ and σ."""
        return F.elu(transform(mean, self.mean_weight)), F.relu(
            transform(variance, self.variance_weight)
        )

    def propagate(
        self, mean: Tensor, variance: Tensor, graph: MaskedGraph
    ) -> tuple[Tensor, Tensor]:
        """h'_μ and h'_σ."""
        heard = torch.exp(-self.uncertainty * variance)
        return received(graph, "gcn", mean * heard), twice_normalised(
            graph, variance * heard * heard
        )


class RgcnNet(Model):
    """Two Gaussian layers."""

    def __init__(self, features: int, classes: int, settings: "Rgcn") -> None:
        super().__init__()
        self.dropout = settings.dropout
        self.first = GaussianLayer(features, settings.hidden, settings.uncertainty)
        self.second = GaussianLayer(settings.hidden, classes, settings.uncertainty)

    def passes(self, x: Tensor | Csr, graph: MaskedGraph) -> tuple[Tensor, Tensor, Tensor]:
        """Class scores [N, C], and μ and σ of layer 1."""
        p = self.dropout if self.training else 0.0
        dropped = drop(x, p)
        first_mean, first_variance = self.first.activate(dropped, dropped)
        mean, variance = self.first.propagate(first_mean, first_variance, graph)
        mean, variance = self.second.propagate(
            *self.second.activate(drop(mean, p), drop(variance, p)), graph
        )
        scores = mean + torch.randn_like(mean) * (variance + TINY).sqrt() if self.training else mean
        return scores, first_mean, first_variance

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        return self.passes(x, graph)[0]


@dataclass(frozen=True, kw_only=True)
class Rgcn(Trained):
    """Sizes and weights as in the usual public implementation."""

    hidden: int = 32
    dropout: float = 0.6
    uncertainty: float = 1.0  # g
    beta_divergence: float = 5e-4  # β1
    beta_decay: float = 5e-4  # β2
    epochs: int = 200
    weight_decay: float = 0.0

    def model(self, graph: Graph) -> Model:
        return RgcnNet(graph.num_features, graph.num_classes, self)

    def loss(self, model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
        assert isinstance(model, RgcnNet)
        scores, mean, variance = model.passes(graph.x, masked)
        size = model.first.mean_weight.square().sum() + model.first.variance_weight.square().sum()
        loss = F.cross_entropy(scores[graph.train_mask], graph.y[graph.train_mask])
        return loss + self.beta_divergence * divergence(mean, variance) + self.beta_decay * size
