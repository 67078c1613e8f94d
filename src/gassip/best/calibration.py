"""Class shares fitted to nodes whose labels are known: how sure they should be, and how common each
class is.

    at the likeliest power   p_i ∝ share_i^t,               t      = argmin mean CE(y, p)
    levelled                 p_i ∝ share_i^t · exp(b),      t, b   = argmin mean CE(y, p) + .1 |b|²

Nets that learn from as many labels of each class take all classes for equally common; b, one number
per class, puts that right. The first is temperature scaling (Guo et al., ICML 2017), the second
bias-corrected temperature scaling (Alexandari et al., ICML 2020).

Shapes: N nodes, C classes.
"""

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.nn import functional as F

LEAST = 1e-9  # a share under its logarithm
SHRINK = 0.1  # of b: a few hundred nodes tell little about rare classes
MOST_STEPS = 100
SIGMAS = (
    3.0  # above all graphs that nobody perturbed, below all under a strong attack (docs/DESIGN.md)
)


def powered(share: Tensor, power: float) -> Tensor:
    """p [N, C]: each row of shares to this power, normalised again."""
    return torch.softmax(power * share.clamp_min(LEAST).log(), 1)


def likeliest_power(share: Tensor, y: Tensor) -> float:
    """t that makes the mean of log p(y_i) highest."""
    log_share = share.clamp_min(LEAST).log()

    def loss(power: float) -> float:
        return float(F.cross_entropy(power * log_share, y))

    return float(minimize_scalar(loss, bounds=(0.05, 20), method="bounded").x)


def log_likelihood(share: Tensor, y: Tensor) -> Tensor:
    """log p(y_i) at the likeliest power, [N]."""
    return powered(share, likeliest_power(share, y)).gather(1, y[:, None]).squeeze(1).log()


def gains(challenger: Tensor, incumbent: Tensor, sigmas: float = SIGMAS) -> bool:
    """Whether log-likelihoods of the same nodes are higher by more than chance."""
    gain = challenger - incumbent
    return gain.numel() > 1 and bool(gain.mean() > sigmas * gain.std() / gain.numel() ** 0.5)


def levelled(share: Tensor, nodes: Tensor, y: Tensor) -> Tensor:
    """p [N, C] of all nodes, with t and b of the `nodes` whose labels are `y`; as given where there
    are none."""
    if nodes.numel() == 0:
        return share
    log_share = share.double().clamp_min(LEAST).log()
    power = log_share.new_ones(1).requires_grad_()
    level = log_share.new_zeros(share.shape[1]).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [power, level], max_iter=MOST_STEPS, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = F.cross_entropy(power * log_share[nodes] + level, y) + SHRINK * level.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return torch.softmax((power * log_share + level).detach(), 1).to(share.dtype)
