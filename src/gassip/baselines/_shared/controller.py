"""A recurrent controller that writes an architecture choice by choice, and learns by REINFORCE.

    p(a) = Π_s softmax(c · tanh(U_s h_s / T))_{a_s},   h_s = LSTM(h_{s-1}, E a_{s-1})
    ∇J = Σ_s ∇log p(a_s) (R − b),   b ← d b + (1 − d) R

Zoph and Le, Neural Architecture Search with Reinforcement Learning, ICLR 2017; shared by GraphNAS
and GAUSS.

Shapes: B architectures at once, S choices each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Draw:
    """B architectures with what the controller thought of each choice."""

    actions: Tensor  # [B, S] int64
    log_prob: Tensor  # [B, S]
    entropy: Tensor  # [B, S]


class Controller(nn.Module):
    """`steps` names the kind of each choice, `sizes` how many options a kind has; equal kinds share
    their weights.

    `tanh_constant` bounds the scores; None leaves them as they are.
    """

    def __init__(
        self,
        steps: Sequence[str],
        sizes: dict[str, int],
        *,
        units: int = 100,
        tanh_constant: float | None = 2.5,
        temperature: float = 5.0,
    ) -> None:
        super().__init__()
        self.steps, self.tanh_constant, self.temperature = tuple(steps), tanh_constant, temperature
        self.cell = nn.LSTMCell(units, units)
        self.embeddings = nn.ModuleDict(
            {kind: nn.Embedding(size, units) for kind, size in sizes.items()}
        )
        self.decoders = nn.ModuleDict(
            {kind: nn.Linear(units, size) for kind, size in sizes.items()}
        )
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)
        for decoder in self.decoders.values():
            nn.init.zeros_(decoder.bias)  # type: ignore[arg-type]

    def draw(self, count: int) -> Draw:
        """`count` architectures, independently."""
        device = self.cell.weight_ih.device
        state: tuple[Tensor, Tensor] | None = None
        said = torch.zeros(count, self.cell.input_size, device=device)
        actions, log_probs, entropies = [], [], []
        for kind in self.steps:
            state = self.cell(said, state)
            score = self.decoders[kind](state[0]) / self.temperature
            if self.tanh_constant is not None:
                score = self.tanh_constant * torch.tanh(score)
            log_share = torch.log_softmax(score, 1)
            action = torch.multinomial(log_share.detach().exp(), 1)
            actions.append(action)
            log_probs.append(log_share.gather(1, action))
            entropies.append(-(log_share.exp() * log_share).sum(1, keepdim=True))
            said = self.embeddings[kind](action.squeeze(1))
        return Draw(torch.cat(actions, 1), torch.cat(log_probs, 1), torch.cat(entropies, 1))


class Reinforce:
    """The controller's optimiser and the moving average of what it has earned."""

    def __init__(self, controller: Controller, *, lr: float, decay: float, entropy: float) -> None:
        self.optimizer = torch.optim.Adam(controller.parameters(), lr=lr)
        self.decay, self.entropy = decay, entropy
        self.baseline: float | None = None

    def step(self, draw: Draw, reward: Tensor) -> None:
        """One step up the reward [B], to which the entropy of the choices is added."""
        earned = reward + self.entropy * draw.entropy.detach().sum(1)
        mean = float(earned.mean())
        self.baseline = (
            mean if self.baseline is None else self.decay * self.baseline + (1 - self.decay) * mean
        )
        loss = -(draw.log_prob.sum(1) * (earned - self.baseline)).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
