"""What a net learns from beyond the labels: its own passes, and a teacher (METHOD.md).

    consistency    p̄_i = mean_s p_i^s,   q_i = p̄_i^(1/T) normalised,   L_con = mean_i mean_s
                   ‖p_i^s − q_i‖²
    distillation   L_dis = mean_{i ∉ V_L} CE(t_i, p_i)
    alone          L = mean_s CE(y, p^s on V_L) + w_con · min(1, epoch / ramp) · L_con
    taught         L = ρ CE(y, p on V_L) + w_dis · (1 − ρ) · L_dis,   ρ = |V_L| / N

    class weights  w_c = n / (C n_c) of n training nodes, n_c of class c: CE(y, p) becomes the mean
                   of w_y CE(y, p), CE(t, p) = −Σ_c w_c t_c log p_c; 1 unless the recipe has them

p^s are the class shares of S stochastic passes (S = 2 with consistency, else 1), q and the
teacher's shares t are constants. Consistency with sharpening is that of GRAND (Feng et al., NeurIPS
2020). A net that has a teacher hears of each node once (w_dis = 1): its label where it has one,
which what a teacher says of it would only blur, else the teacher; it need not agree with itself as
well.

Shapes: N nodes, C classes.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.graph.graph import Graph
from gassip.nn.net import Model
from gassip.nn.propagate import MaskedGraph
from gassip.settings.training import Recipe

Loss = Callable[[Model, Graph, MaskedGraph, int], Tensor]  # the last is the epoch, from 1


def supervised(model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
    """Cross-entropy on the training nodes."""
    return F.cross_entropy(model.run(graph.x, masked)[graph.train_mask], graph.y[graph.train_mask])


def sharpened(share: Tensor, temperature: float) -> Tensor:
    """q: each row of shares [N, C] to the power 1/T, normalised again."""
    return torch.softmax(share.clamp_min(1e-30).log() / temperature, 1)


def consistency(shares: Sequence[Tensor], temperature: float) -> Tensor:
    """L_con over passes [N, C] each."""
    with torch.no_grad():
        target = sharpened(torch.stack(list(shares)).mean(0), temperature)
    return torch.stack([(probs - target).square().sum(1).mean() for probs in shares]).mean()


def distillation(
    log_share: Tensor, teacher: Tensor, nodes: Tensor, weight: Tensor | None = None
) -> Tensor:
    """L_dis of one pass over the nodes marked in `nodes`, with a weight for each class [C]."""
    soft = teacher[nodes] if weight is None else teacher[nodes] * weight
    return -(soft * log_share[nodes]).sum(1).mean()


def class_weights(graph: Graph) -> Tensor:
    """w [C]: the classes weigh as much as each other; 1 for one without training nodes."""
    counts = torch.bincount(graph.y[graph.train_mask], minlength=graph.num_classes).float()
    return torch.where(counts > 0, counts.sum() / (graph.num_classes * counts.clamp_min(1)), 1.0)


def labels_loss(log_share: Tensor, graph: Graph, weight: Tensor | None) -> Tensor:
    """CE(y, p on V_L) of log p [N, C]: the mean of w_y CE(y, p), in which Σ w_y = n."""
    return F.nll_loss(log_share[graph.train_mask], graph.y[graph.train_mask], weight)


def weights_of(recipe: Recipe, graph: Graph) -> Tensor | None:
    return class_weights(graph) if recipe.class_weights else None


def training_loss(recipe: Recipe, teacher: Tensor | None = None) -> Loss:
    """The loss that the recipe names; plain cross-entropy where it names nothing."""
    if teacher is not None and recipe.distillation > 0:
        return taught(teacher, recipe)
    if recipe.consistency > 0:
        return alone(recipe)
    return weighted if recipe.class_weights else supervised


def weighted(model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
    """Cross-entropy on the training nodes, classes weighted."""
    log_share = F.log_softmax(model.run(graph.x, masked), 1)
    return labels_loss(log_share, graph, class_weights(graph))


def alone(recipe: Recipe) -> Loss:
    """Labels, and the agreement of two passes."""

    def loss(model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
        logs = [F.log_softmax(model.run(graph.x, masked), 1) for _ in range(2)]
        weight = weights_of(recipe, graph)
        labels = torch.stack([labels_loss(log_probs, graph, weight) for log_probs in logs]).mean()
        agreement = consistency(
            [log_probs.exp() for log_probs in logs], recipe.consistency_temperature
        )
        return labels + recipe.consistency * min(1.0, epoch / recipe.consistency_ramp) * agreement

    return loss


def taught(teacher: Tensor, recipe: Recipe) -> Loss:
    """Labels, and what the teacher says of the other nodes."""

    def loss(model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
        log_share, train = F.log_softmax(model.run(graph.x, masked), 1), graph.train_mask
        share, weight = float(train.float().mean()), weights_of(recipe, graph)
        labels = share * labels_loss(log_share, graph, weight)
        if share == 1:
            return labels
        soft = distillation(log_share, teacher, ~train, weight)
        return labels + recipe.distillation * (1 - share) * soft

    return loss
