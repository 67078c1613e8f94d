"""Class probabilities calibrated on nodes whose labels are known.

    tempered         p_i ∝ q_i^t,             t      = argmin mean CE(y, p)
    bias-corrected   p_i ∝ q_i^t · exp(b),    t, b   = argmin mean CE(y, p) + .1 |b|²

The first is temperature scaling (Guo et al., ICML 2017), the second bias-corrected temperature
scaling (Alexandari et al., ICML 2020): nets that learn from equally many labels of each class take
all classes for equally common; b, one number per class, corrects that.

Shapes: N nodes, C classes.
"""

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.nn import functional as F

from gassip.best.lowest import lowest
from gassip.best.rules import BIAS_SHRINK

LEAST = 1e-9  # a probability under its logarithm
MOST_STEPS = 100


def temper(probs: Tensor, power: float) -> Tensor:
    """p [N, C]: each row of probabilities to this power, normalised again."""
    return torch.softmax(power * probs.clamp_min(LEAST).log(), 1)


def fit_temperature(probs: Tensor, y: Tensor) -> float:
    """t that makes the mean of log p(y_i) highest."""
    log_probs = probs.clamp_min(LEAST).log()

    def loss(power: float) -> float:
        return float(F.cross_entropy(power * log_probs, y))

    return float(minimize_scalar(loss, bounds=(0.05, 20), method="bounded").x)


def log_likelihood(probs: Tensor, y: Tensor) -> Tensor:
    """log p(y_i) of the tempered probabilities, [N]."""
    return temper(probs, fit_temperature(probs, y)).gather(1, y[:, None]).squeeze(1).log()


def bias_corrected(probs: Tensor, nodes: Tensor, y: Tensor) -> Tensor:
    """p [N, C] of all nodes, with t and b of the `nodes` whose labels are `y`; as given where there
    are none."""
    if nodes.numel() == 0:
        return probs
    log_probs = probs.double().clamp_min(LEAST).log()
    power, bias = (own.to(probs.device) for own in fit_power_and_bias(log_probs[nodes], y))
    return torch.softmax(power * log_probs + bias, 1).to(probs.dtype)


def fit_power_and_bias(log_probs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """t [1] and b [C] for log q [n, C] in float64 and labels [n]."""
    log_probs, y = log_probs.cpu(), y.cpu()
    start = torch.cat([log_probs.new_ones(1), log_probs.new_zeros(log_probs.shape[1])])

    def loss(both: Tensor) -> Tensor:
        power, bias = both[:1], both[1:]
        return F.cross_entropy(power * log_probs + bias, y) + BIAS_SHRINK * bias.square().sum()

    found = lowest(loss, start, MOST_STEPS)
    return found[:1], found[1:]
