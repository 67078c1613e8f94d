"""Training that diverges ends at once, with the likely cause: large inputs or the rate."""

import torch
from torch import Tensor

from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph

LARGE = 1e6  # inputs above this are the likelier cause


class Diverged(GassipError):
    """A loss, a weight or a score that is NaN or infinite."""


def check_loss(loss: Tensor, graph: Graph, epoch: int, lr: float) -> None:
    """Refuse a loss that is no finite number."""
    if not bool(loss.isfinite().all()):
        where = f"training diverged in epoch {epoch}: its loss is {float(loss.detach().sum())}"
        raise Diverged(f"{where}; {likely_cause(graph, lr)}")


def check_scores(scores: Tensor, graph: Graph, lr: float | None = None) -> None:
    """Refuse class scores [N, C] among which some are no finite numbers."""
    if not bool(scores.isfinite().all()):
        node = int((~scores.isfinite()).any(1).nonzero()[0])
        where = f"training diverged: the scores of node {node} are NaN or infinite"
        raise Diverged(f"{where}; {likely_cause(graph, lr)}")


def likely_cause(graph: Graph, lr: float | None) -> str:
    """What to change: features, edge weights or the rate."""
    if (top := _largest(graph.x.value if isinstance(graph.x, Csr) else graph.x)) > LARGE:
        return f"x holds values up to {top:.3g}: scale the features"
    if (top := _largest(graph.edge_weight)) > LARGE:
        return f"edge_weight holds values up to {top:.3g}: scale the weights"
    given = "" if lr is None else f" ({lr:g})"
    return f"lower the learning rate{given}, or scale the features"


def _largest(values: Tensor | None) -> float:
    if values is None or not values.numel():
        return 0.0
    return float(torch.linalg.vector_norm(values.detach(), float("inf")))
