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

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F

from gassip.graph.graph import Graph
from gassip.nn.kernels import log_softmax, row_sums, softmax
from gassip.nn.net import Model
from gassip.nn.propagate import MaskedGraph
from gassip.settings.training import Recipe

Loss = Callable[[Model, Graph, MaskedGraph, int], Tensor]  # the last is the epoch, from 1


def supervised(model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
    """Cross-entropy on the training nodes."""
    return F.cross_entropy(model.run(graph.x, masked)[graph.train_mask], graph.y[graph.train_mask])


def sharpened(share: Tensor, temperature: float) -> Tensor:
    """q: each row of shares [N, C] to the power 1/T, normalised again."""
    return softmax(share.clamp_min(1e-30).log() / temperature)


class _Agreement(torch.autograd.Function):
    """L of a net alone from the class scores z [N, S, C] of its passes, with ∂L / ∂z by hand:

    ∂L / ∂ log p_i^s = (2 w p_i^s (p_i^s − q_i) / N − T_i) / S,   T of the mean cross-entropy
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx, scores: Tensor, targets: Tensor, weight: float, temperature: float
    ) -> Tensor:
        nodes, count, classes = scores.shape
        log_share = log_softmax(scores.reshape(-1, classes)).view_as(scores)
        share, targets = log_share.exp(), targets.unsqueeze(1)
        q = sharpened(share.sum(1).div_(count), temperature)
        apart, nodes = share - q.unsqueeze(1), max(1, nodes)
        value = (weight / nodes * apart.square().sum() - (targets * log_share).sum()) / count
        slope = apart.mul_(share).mul_(2 * weight / nodes).sub_(targets).div_(count)
        slope -= share * row_sums(slope.view(-1, classes)).view(-1, count, 1)
        ctx.save_for_backward(slope)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (slope,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad * slope, None, None, None


def agreement(scores: Tensor, targets: Tensor, weight: float, temperature: float) -> Tensor:
    """mean_s CE(T, p^s) + w L_con of passes with class scores [N, S, C]; T [N, C] is what each
    node counts for each class."""
    return _Agreement.apply(scores, targets, weight, temperature)


def class_weights(graph: Graph) -> Tensor:
    """w [C]: the classes weigh as much as each other; 1 for one without training nodes."""
    counts = torch.bincount(graph.y[graph.train_mask], minlength=graph.num_classes).float()
    return torch.where(counts > 0, counts.sum() / (graph.num_classes * counts.clamp_min(1)), 1.0)


def training_loss(recipe: Recipe, teacher: Tensor | None = None) -> Loss:
    """The loss that the recipe names; plain cross-entropy where it names nothing."""
    if teacher is not None and recipe.distillation > 0:
        return summed(Targets(recipe, teacher))
    if recipe.consistency > 0:
        return alone(recipe)
    return summed(Targets(recipe)) if recipe.class_weights else supervised


class Targets:
    """T [N, C] of a cross-entropy −Σ T ⊙ log p; made once for the graph of a training."""

    def __init__(self, recipe: Recipe, teacher: Tensor | None = None) -> None:
        self.recipe, self.teacher = recipe, teacher
        self.last: tuple[Graph, Tensor] | None = None

    def of(self, graph: Graph) -> Tensor:
        if self.last is None or self.last[0] is not graph:
            targets = label_targets(graph)
            if self.teacher is not None:
                targets = taught_targets(graph, self.teacher, self.recipe.distillation)
            weight = class_weights(graph) if self.recipe.class_weights else None
            self.last = (graph, targets if weight is None else targets * weight)
        return self.last[1]


def label_targets(graph: Graph) -> Tensor:
    """T of the mean cross-entropy over the training nodes."""
    targets = torch.zeros(graph.num_nodes, graph.num_classes, device=graph.device)
    nodes = torch.nonzero(graph.train_mask).squeeze(1)
    targets[nodes, graph.y[nodes]] = 1 / max(1, nodes.numel())
    return targets


def taught_targets(graph: Graph, teacher: Tensor, weight: float) -> Tensor:
    """T of a net with a teacher: ρ / |V_L| for a label, w (1 − ρ) t / (N − |V_L|) elsewhere."""
    train = graph.train_mask
    share = float(train.float().mean())
    others = max(1, int((~train).sum()))
    soft = weight * (1 - share) / others * teacher
    return torch.where(train.unsqueeze(1), share * label_targets(graph), soft)


def summed(targets: Targets) -> Loss:
    """−Σ T ⊙ log p of one pass."""

    def loss(model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
        return -(targets.of(graph) * log_softmax(model.run(graph.x, masked))).sum()

    return loss


def alone(recipe: Recipe) -> Loss:
    """Labels, and the agreement of two passes."""
    targets = Targets(recipe)

    def loss(model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
        scores = model.run_several(graph.x, masked, 2)
        weight = recipe.consistency * min(1.0, epoch / recipe.consistency_ramp)
        return agreement(scores, targets.of(graph), weight, recipe.consistency_temperature)

    return loss
