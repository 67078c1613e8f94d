"""When a challenger replaces what came first: beyond chance, on the validation nodes.

    McNemar       (b − c) / √(b + c) > σ      b nodes only the challenger gets right, c only the
                                              incumbent
    likelihood    mean(g) / (std(g) / √n) > σ     g_i gain in log p(y_i) of a validation node

Shapes: n validation nodes.
"""

from torch import Tensor

from gassip.best.rules import LIKELIHOOD_SIGMAS, MCNEMAR_SIGMAS


def mcnemar(challenger: Tensor, incumbent: Tensor) -> float:
    """Standard errors by which a challenger gets more nodes right, from correctness [n] bool."""
    gained = int((challenger & ~incumbent).sum())
    lost = int((incumbent & ~challenger).sum())
    if gained + lost == 0:
        return 0.0
    return float((gained - lost) / (gained + lost) ** 0.5)


def beyond_chance(challenger: Tensor, incumbent: Tensor, sigmas: float = MCNEMAR_SIGMAS) -> bool:
    return mcnemar(challenger, incumbent) > sigmas


def likelihood_gain(challenger: Tensor, incumbent: Tensor) -> float:
    """Standard errors by which log-likelihoods of the same nodes [n] are higher."""
    gain = challenger - incumbent
    if gain.numel() < 2:
        return 0.0
    error = float(gain.std()) / gain.numel() ** 0.5
    mean = float(gain.mean())
    if error == 0:
        return 0.0 if mean == 0 else float("inf") * mean
    return mean / error


def likelier(challenger: Tensor, incumbent: Tensor, sigmas: float = LIKELIHOOD_SIGMAS) -> bool:
    return likelihood_gain(challenger, incumbent) > sigmas
