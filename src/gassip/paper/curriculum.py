"""Curriculum graph sparsification: edge difficulty, node weights, the structure update (Sec. 4.3,
Algorithm 1).

    ȳ_i = y_i for i ∈ V_L, else argmax z_i
    D_a(e_ij) = std_a(∇S_G,ij)
    D_n(e_ij) = cos(z_i, z_j) + λ1 · mean_{j∈N_i} [ȳ_j ≠ ȳ_i]
    D(e) = D_a + λ2 D_n,   D(i) = mean_{j∈N_i} D(e_ij),   θ = softmax D
    L_struct = Σ_{i∈V_L} θ_i (CE(z_i, ȳ_i) + β · mean entropy of M_G)
    ∇S_G = Σ_a ∇S_G^a / (K · std_a(∇S_G^a)),   ∇γ = mean_a ∇γ^a

Shapes: N nodes, E directed edges, P edge scores, C classes, K architectures. Gaps: PAPER.md, rows 1
and 5 to 8.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.graph.graph import Graph
from gassip.nn.kernels import segment_sum


def pseudo_labels(logits: Tensor, y: Tensor, labelled: Tensor) -> Tensor:
    """ȳ: the true label of labelled nodes, the predicted one elsewhere, [N]."""
    return torch.where(labelled, y, logits.argmax(1))


def label_divergence(graph: Graph, pseudo_label: Tensor) -> Tensor:
    """The share of each node's neighbours with another pseudo-label, [N]; 0 for isolated nodes."""
    adjacency = graph.adjacency
    differs = (pseudo_label[adjacency.row] != pseudo_label[adjacency.col64]).float()
    return neighbour_mean(graph, differs)


def node_view_difficulty(
    graph: Graph, logits: Tensor, pseudo_label: Tensor, lambda1: float
) -> Tensor:
    """D_n(e_ij) = cos(z_i, z_j) + λ1 · divergence of the receiver i, [E]."""
    adjacency = graph.adjacency
    unit = F.normalize(logits, dim=1)
    cosine = adjacency.sampled(unit, unit)
    return cosine + lambda1 * label_divergence(graph, pseudo_label)[adjacency.row]


def node_weights(graph: Graph, edge_difficulty: Tensor, over: Tensor | None = None) -> Tensor:
    """θ = softmax of the mean difficulty of each node's edges, over all nodes or those marked in
    `over`, [N]."""
    node_difficulty = neighbour_mean(graph, edge_difficulty)
    if over is not None:
        node_difficulty = node_difficulty.masked_fill(~over, -torch.inf)
    return torch.softmax(node_difficulty, 0)


def neighbour_mean(graph: Graph, per_edge: Tensor) -> Tensor:
    """Mean over each node's incoming edges, [N]; 0 where there are none."""
    count = graph.adjacency.rowptr.diff().clamp_min(1)
    return segment_sum(graph.adjacency, per_edge) / count


def standardised(grad_std: Tensor) -> Tensor:
    """D_a on a scale comparable with D_n: mean 0, deviation 1; zeros where it is constant."""
    spread = grad_std.std(correction=0)
    return (grad_std - grad_std.mean()) / spread if spread > 0 else torch.zeros_like(grad_std)


def mask_entropy(mask: Tensor) -> Tensor:
    """L_ent: mean binary entropy of M_G, in nats."""
    return -(torch.xlogy(mask, mask) + torch.xlogy(1 - mask, 1 - mask)).mean()


def structure_loss(
    logits: Tensor,
    pseudo_label: Tensor,
    node_weight: Tensor,
    nodes: Tensor,
    mask: Tensor,
    beta: float,
) -> Tensor:
    """L_struct = Σ_{i ∈ nodes} θ_i (CE_i + β L_ent)."""
    cross_entropy = F.cross_entropy(logits[nodes], pseudo_label[nodes], reduction="none")
    return (node_weight[nodes] * (cross_entropy + beta * mask_entropy(mask))).sum()


def score_update(
    gradients: Tensor, rule: str, clamp: float, eps: float, unbiased: bool
) -> tuple[Tensor, Tensor]:
    """∇S_G [P] and D_a = std over architectures [P], from the gradients of K architectures [K, P].

    `literal` divides the mean by std + eps; `relative` by std + mean|g|, which stays finite where
    all architectures agree; `mean` does not divide. The quotient is clamped to ±clamp. One
    architecture has no spread: `relative` is then mean / mean|g|, the others the plain mean.
    """
    mean = gradients.mean(0)
    alone = gradients.shape[0] == 1
    if alone and rule != "relative":
        return mean, torch.zeros_like(mean)
    count = gradients.shape[0] - int(unbiased and not alone)
    # Tensor.std over two rows is 50 times slower
    spread = ((gradients - mean).square().sum(0) / count).sqrt()
    if rule == "mean":
        return mean, spread
    floor = eps if rule == "literal" else gradients.abs().mean() + torch.finfo(mean.dtype).tiny
    return (mean / (spread + floor)).clamp(-clamp, clamp), spread
