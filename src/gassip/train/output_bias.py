"""A bias for each class that raises macro F1 on validation nodes, kept in the net's last layer.

    b_c: one class after the other, twice; the shift of z_c with the highest macro F1, smoothed

F1 asks for other borders between classes than accuracy does: a rare class is named at a
probability under 1/2. Scores that few nodes decide jump, so macro F1 is averaged over neighbouring
shifts before the highest is taken. The biases belong to the weights: every runtime and export has
them.

Shapes: n validation nodes, C classes, G shifts.
"""

import numpy as np
import torch

from gassip.graph.graph import Graph
from gassip.metrics import macro_f1
from gassip.nn.net import Net
from gassip.nn.propagate import MaskedGraph

SHIFTS = 81  # of a class, evenly from -RANGE to RANGE
RANGE = 3.0  # in standard deviations of the class's margin over the others
SMOOTHED = 5  # neighbouring shifts on each side
ROUNDS = 2


def fit_output_bias(net: Net, graph: Graph) -> None:
    """Add the fitted biases to the last layer; nothing without validation nodes."""
    add_output_bias(net, fitted_bias(net, graph))


@torch.no_grad()
def fitted_bias(net: Net, graph: Graph) -> tuple[float, ...]:
    """b of a net on its graph; () without validation nodes."""
    if not bool(graph.val_mask.any()):
        return ()
    net.eval()
    logits = net.run(graph.x, MaskedGraph.of(graph))[graph.val_mask]
    bias = best_bias(logits.double().cpu().numpy(), graph.y[graph.val_mask].cpu().numpy())
    return tuple(bias.tolist())


@torch.no_grad()
def add_output_bias(net: Net, bias: tuple[float, ...]) -> None:
    """Add b to the last layer."""
    if bias:
        last_bias = net.layers[-1].bias
        last_bias.add_(torch.tensor(bias, dtype=torch.float64).to(last_bias))


def best_bias(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """b [C] for logits [n, C] and labels [n]; zeros where nothing raises the score."""
    classes = logits.shape[1]
    bias = np.zeros(classes)
    steps = np.linspace(-RANGE, RANGE, SHIFTS)
    for _ in range(ROUNDS):
        for c in range(classes):
            margin, rival = margins(logits + bias, c)
            shifts = steps * margin.std()
            values = scores(margin, rival, y, c, shifts)
            best = int(smoothed(values).argmax())
            if values[best] > values[SHIFTS // 2]:
                bias[c] += shifts[best]
    return bias - bias.mean()


def margins(logits: np.ndarray, c: int) -> tuple[np.ndarray, np.ndarray]:
    """z_c − max of the others [n], and the class that is named unless c is [n]."""
    others = np.delete(logits, c, axis=1)
    names = np.delete(np.arange(logits.shape[1]), c)
    return logits[:, c] - others.max(1), names[others.argmax(1)]


def scores(
    margin: np.ndarray, rival: np.ndarray, y: np.ndarray, c: int, shifts: np.ndarray
) -> np.ndarray:
    """Macro F1 under each shift of class c, [G]."""
    classes = int(max(y.max(), rival.max(), c)) + 1
    return np.array(
        [macro_f1(y, np.where(margin + shift > 0, c, rival), classes) for shift in shifts]
    )


def smoothed(values: np.ndarray) -> np.ndarray:
    """The mean over neighbouring shifts, [G]; at the ends over those that there are."""
    kernel = np.ones(2 * SMOOTHED + 1)
    return np.convolve(values, kernel, "same") / np.convolve(np.ones_like(values), kernel, "same")
