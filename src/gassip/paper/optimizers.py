"""The steps of a search: Adam and SGD, to the same bits as those of `torch.optim`.

`torch.optim` imports torch's compiler when its first optimizer is made, which takes longer than a
search of a small graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

Slots = dict[int, dict[str, Tensor]]  # what an optimizer knows of each parameter, by its number


class Optimizer(Protocol):
    """Moves its parameters by their gradients; those without a gradient stay as they are."""

    def zero_grad(self) -> None: ...

    def step(self) -> None: ...

    def slots(self) -> Slots: ...

    def restore(self, slots: Slots) -> None: ...


@dataclass(frozen=True)
class Group:
    """Parameters with the same learning rate and weight decay."""

    parameters: Sequence[nn.Parameter]
    lr: float
    weight_decay: float = 0.0


class Sgd:
    """w ← w − lr · g."""

    def __init__(self, parameters: Sequence[nn.Parameter], lr: float) -> None:
        self.parameters, self.lr = list(parameters), lr

    def zero_grad(self) -> None:
        _zero(self.parameters)

    @torch.no_grad()
    def step(self) -> None:
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.add_(parameter.grad, alpha=-self.lr)

    def slots(self) -> Slots:
        return {}

    def restore(self, slots: Slots) -> None:
        """Nothing is kept between steps."""


class Adam:
    """Adam (Kingma and Ba, 2015), by torch's fused kernel, or without it in other rounding."""

    def __init__(
        self, groups: Sequence[Group], *, betas: tuple[float, float] = (0.9, 0.999), fused: bool
    ) -> None:
        self.groups, self.betas, self.fused = list(groups), betas, fused
        self.parameters = [parameter for group in groups for parameter in group.parameters]
        self.known: dict[nn.Parameter, dict[str, Tensor]] = {}

    def zero_grad(self) -> None:
        _zero(self.parameters)

    @torch.no_grad()
    def step(self) -> None:
        for group in self.groups:
            present = [own for own in group.parameters if own.grad is not None]
            for parameter in present:
                self._slots_of(parameter)["step"].add_(1)
            if self.fused:
                self._fused(present, group)
            else:
                for parameter in present:
                    self._single(parameter, group)

    def slots(self) -> Slots:
        order = enumerate(self.parameters)
        return {index: self.known[own] for index, own in order if own in self.known}

    def restore(self, slots: Slots) -> None:
        for index, found in slots.items():
            own = self._slots_of(self.parameters[index])
            for name, value in found.items():
                own[name].copy_(value)

    def _slots_of(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        if parameter not in self.known:
            device = parameter.device if self.fused else torch.device("cpu")
            self.known[parameter] = {
                "step": torch.zeros((), device=device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        return self.known[parameter]

    def _fused(self, present: list[nn.Parameter], group: Group) -> None:
        slots = [self.known[own] for own in present]
        torch._fused_adam_(
            present,  # type: ignore[arg-type]
            [own.grad for own in present if own.grad is not None],
            [own["exp_avg"] for own in slots],
            [own["exp_avg_sq"] for own in slots],
            [],
            [own["step"] for own in slots],
            lr=group.lr,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=group.weight_decay,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )

    def _single(self, parameter: nn.Parameter, group: Group) -> None:
        """w ← w − lr m̂ / (√v̂ + ε)."""
        own, grad, (beta1, beta2) = self.known[parameter], parameter.grad, self.betas
        assert grad is not None
        step = float(own["step"])
        own["exp_avg"].lerp_(grad, 1 - beta1)
        own["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        root = (own["exp_avg_sq"].sqrt() / (1 - beta2**step) ** 0.5).add_(1e-8)
        parameter.addcdiv_(own["exp_avg"], root, value=-group.lr / (1 - beta1**step))


def _zero(parameters: Sequence[nn.Parameter]) -> None:
    for parameter in parameters:
        parameter.grad = None
