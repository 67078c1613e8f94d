"""Pruning while training: a wide net loses its smallest weights step by step (METHOD.md).

    k(e) = K + (W − K) (1 − (e − e_0) / (e_1 − e_0))³,   e_0 = T / 30,   e_1 = 2 T / 3

After epoch e the k(e) largest |w| over all layers together stay, the others are set to 0. Until e_1
a weight may come back; then what is 0 stays 0, and the net goes on to train for T − e_1 epochs. The
schedule is that of Zhu and Gupta, To Prune, or Not to Prune, 2017. Biases, attention and norms
stay, and count among the K. As a control, weights drawn at random stay from the first epoch on.

T epochs, W weights before and K after.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from gassip.errors import GassipError
from gassip.nn.net import Model, Net
from gassip.nn.ranking import highest_overall
from gassip.settings.training import Recipe


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """When a training prunes, and how many weights are left."""

    weights: int  # K
    first: int  # e_0
    last: int  # e_1
    rule: str = "magnitude"  # or random

    @staticmethod
    def of(recipe: Recipe) -> "Pruning | None":
        """What the recipe says of a training; None where no weight goes."""
        epochs = recipe.epochs
        if recipe.prune_to == 0:
            return None
        return Pruning(
            weights=recipe.prune_to,
            first=epochs // 30,
            last=max(1, 2 * epochs // 3),
            rule=recipe.prune_rule,
        )

    def share_left(self, epoch: int) -> float:
        """How much of what goes in all is still there after this epoch."""
        done = (epoch - self.first) / max(1, self.last - self.first)
        return (1 - min(1.0, max(0.0, done))) ** 3

    def check(self, model: Model) -> None:
        """Refuse to leave fewer numbers than those that are never pruned."""
        if self.weights <= (others := besides(model.named_parameters())):
            raise GassipError(
                f"prune_to is {self.weights}; this net has {others} biases and the like besides "
                f"its weights, "
                f"which stay: give {others + 1} or more, or a narrower net"
            )

    def finish(self, model: Model) -> None:
        """Leave as many weights as a whole training does."""
        for epoch in (1, self.last):
            self.step(model, epoch)

    @torch.no_grad()
    def step(self, model: Model, epoch: int) -> None:
        """After the optimizer's step of `epoch`, from 1."""
        assert isinstance(model, Net), "only nets of the search space are pruned while they train"
        if epoch > self.last:
            return
        weights, others = (
            [layer.weight for layer in model.layers],
            besides(model.named_parameters()),
        )
        there = model.num_weights()[0] - others
        target = min(there, max(1, self.weights - others))
        if self.rule == "random":
            if epoch == 1:
                model.prune(
                    self._highest(model, [torch.rand_like(weight) for weight in weights], target)
                )
            return
        count = round(target + (there - target) * self.share_left(epoch))
        keep = self._highest(model, [weight.abs() for weight in weights], count)
        if epoch == self.last:
            model.prune(keep)
        else:
            for weight, mask in zip(weights, keep, strict=True):
                weight.mul_(mask)

    @staticmethod
    def _highest(model: Net, scores: list[Tensor], count: int) -> list[Tensor]:
        """The `count` highest over all layers among the weights that exist."""
        for l, score in enumerate(scores):
            if (exist := model.weight_keep(l)) is not None:
                score.masked_fill_(~exist, -1)
        return highest_overall(scores, count)


def besides(parameters: Iterable[tuple[str, Tensor]]) -> int:
    """How many numbers of a net are never pruned: biases, attention, norms."""
    return sum(
        p.numel()
        for name, p in parameters
        if not (name.startswith("layers.") and name.endswith(".weight"))
    )
