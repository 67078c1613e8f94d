"""When a challenger replaces what came first: beyond chance, on the validation nodes.

    accuracy         (b − c) / √(b + c)            McNemar's test: b nodes only the challenger gets
                                                   right, c only the incumbent
    other metrics    Δ / se(Δ)                     Δ = score of the challenger − score of the
                                                   incumbent; se by the jackknife over G groups
    likelihood       mean(g) / (std(g) / √n)       g_i gain in log p(y_i) of a validation node
    possible loss    (c − b + √(b + c + 1)) / n    what n nodes cannot rule out: the loss seen and
                                                   one standard error; others: −Δ + se(Δ)

    se(Δ)² = (G − 1) / G · Σ_k (Δ_k − mean Δ)²     Δ_k without the k-th group of nodes

All are in standard errors; a decision compares them with a threshold of rules.py.

Shapes: n validation nodes, C classes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gassip.best.rules import JACKKNIFE_GROUPS, LIKELIHOOD_SIGMAS
from gassip.metrics import Metric, score


@dataclass(frozen=True, eq=False)
class Validation:
    """What a net says of the validation nodes."""

    metric: Metric
    probs: Tensor  # [n, C]
    y: Tensor  # [n]

    @property
    def right(self) -> Tensor:
        """Which nodes it gets right, [n] bool."""
        return self.probs.argmax(1) == self.y

    def score(self, without: Tensor | None = None) -> float | None:
        """The metric; None where it is not defined. `without` [n] marks nodes that are left out."""
        keep = slice(None) if without is None else ~without
        return score(self.metric, self.probs[keep].clamp_min(1e-30).log(), self.y[keep])


def gain(challenger: Validation, incumbent: Validation) -> float:
    """Standard errors by which the challenger's metric is higher."""
    if challenger.metric == "accuracy":
        return mcnemar(challenger.right, incumbent.right)
    return standardised(*jackknife(challenger, incumbent))


def mcnemar(challenger: Tensor, incumbent: Tensor) -> float:
    """Standard errors by which a challenger gets more nodes right, from correctness [n] bool."""
    gained, lost = discordant(challenger, incumbent)
    if gained + lost == 0:
        return 0.0
    return float((gained - lost) / (gained + lost) ** 0.5)


def discordant(challenger: Tensor, incumbent: Tensor) -> tuple[int, int]:
    """How many nodes only the challenger gets right, and how many only the incumbent."""
    return int((challenger & ~incumbent).sum()), int((incumbent & ~challenger).sum())


def possible_loss(challenger: Validation, incumbent: Validation) -> float:
    """The loss of score that these validation nodes do not rule out, at one standard error.

    Where no node tells two nets apart the error counts one: twenty nodes see no loss under .05.
    """
    count = challenger.y.numel()
    if challenger.metric == "accuracy":
        gained, lost = discordant(challenger.right, incumbent.right)
        return (lost - gained + (gained + lost + 1) ** 0.5) / count
    change, error = jackknife(challenger, incumbent)
    return max(error, 1 / count) - change


def jackknife(challenger: Validation, incumbent: Validation) -> tuple[float, float]:
    """Δ and se(Δ) of the metric; 0 and 0 where it is not defined."""
    groups = stratified_groups(challenger.y)
    parts = [groups == k for k in range(int(JACKKNIFE_GROUPS)) if bool((groups == k).any())]
    differences = [difference(challenger, incumbent, part) for part in [None, *parts]]
    known = [value for value in differences[1:] if value is not None]
    if differences[0] is None or len(known) < 2:
        return 0.0, 0.0
    left_out = torch.tensor(known, dtype=torch.float64)
    spread = (left_out - left_out.mean()).square().sum() * (len(known) - 1) / len(known)
    return differences[0], float(spread.sqrt())


def difference(
    challenger: Validation, incumbent: Validation, without: Tensor | None
) -> float | None:
    """Δ, without some of the nodes."""
    after, before = challenger.score(without), incumbent.score(without)
    return None if after is None or before is None else after - before


def stratified_groups(y: Tensor) -> Tensor:
    """A group for each node, [n]: the nodes of each class are dealt out in turn."""
    groups = torch.empty_like(y)
    dealt = torch.arange(y.numel(), device=y.device) % int(JACKKNIFE_GROUPS)
    groups[torch.sort(y, stable=True).indices] = dealt
    return groups


def likelihood_gain(challenger: Tensor, incumbent: Tensor) -> float:
    """Standard errors by which log-likelihoods of the same nodes [n] are higher."""
    gains = challenger - incumbent
    if gains.numel() < 2:
        return 0.0
    return standardised(float(gains.mean()), float(gains.std()) / gains.numel() ** 0.5)


def standardised(value: float, error: float) -> float:
    """value / error; without any error, beyond every threshold on its side."""
    if error > 0:
        return value / error
    return 0.0 if value == 0 else float("inf") * value


def likelier(challenger: Tensor, incumbent: Tensor, sigmas: float = LIKELIHOOD_SIGMAS) -> bool:
    """Whether log-likelihoods of the same nodes are higher beyond chance."""
    return likelihood_gain(challenger, incumbent) > sigmas
