"""What a net learns from beyond the labels: its own passes, and a teacher (METHOD.md).

    consistency    p̄_i = mean_s p_i^s,   q_i = p̄_i^(1/T) normalised,   L_con = mean_i mean_s ‖p_i^s − q_i‖²
    distillation   L_dis = mean_{i ∉ V_L} mean_s CE(t_i, p_i^s)
    lesson         L = mean_s CE(y, p^s on V_L) + w_con · min(1, epoch / ramp) · L_con + w_dis · L_dis

p^s are the class shares of S stochastic passes (S = 2 with consistency, else 1), q and the teacher's shares t are
constants. Consistency with sharpening is that of GRAND (Feng et al., NeurIPS 2020). A labelled node has its label: what
a teacher says of it would only blur it, so it is left out.

Shapes: N nodes, C classes.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.graph import Graph
from gassip.ops import MaskedGraph
from gassip.settings import Gassip
from gassip.space import Model

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
    return torch.stack([(own - target).square().sum(1).mean() for own in shares]).mean()


def distillation(log_share: Tensor, teacher: Tensor, nodes: Tensor) -> Tensor:
    """L_dis of one pass over the nodes marked in `nodes`."""
    return -(teacher[nodes] * log_share[nodes]).sum(1).mean()


def lesson(settings: Gassip, teacher: Tensor | None = None) -> Loss:
    """The loss that the settings name; plain cross-entropy where they name nothing."""
    taught = teacher is not None and settings.distillation > 0
    if settings.consistency == 0 and not taught:
        return supervised
    passes = 2 if settings.consistency > 0 else 1

    def loss(model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
        logs = [F.log_softmax(model.run(graph.x, masked), 1) for _ in range(passes)]
        train = graph.train_mask
        total = torch.stack([F.nll_loss(own[train], graph.y[train]) for own in logs]).mean()
        if settings.consistency > 0:
            ramp = min(1.0, epoch / settings.consistency_ramp)
            agreement = consistency([own.exp() for own in logs], settings.consistency_temperature)
            total = total + settings.consistency * ramp * agreement
        if taught and not bool(train.all()):
            assert teacher is not None
            taught_by = torch.stack([distillation(own, teacher, ~train) for own in logs]).mean()
            total = total + settings.distillation * taught_by
        return total

    return loss
