"""The two masks and their binarised forms (Sec. 4.1, 4.2 and the end of 4.4).

    M_W = σ(S_W)          kept: S_W > 0
    M_G = σ(S_G − γ)      kept: M_G ≥ γ

Gaps in the paper: PAPER.md, rows 2, 3, 4 and 13. Shapes: E directed edges, P scores of edges.
"""

import torch
from torch import Tensor

from gassip.graph.csr import Csr
from gassip.nn.ranking import highest, highest_overall


def weight_mask(weight_score: Tensor, form: str) -> Tensor:
    """M_W: `sigmoid` as printed, `double` for 2σ(S_W), which is 1 at a score of 0."""
    mask = torch.sigmoid(weight_score)
    return 2 * mask if form == "double" else mask


def weight_keep(weight_scores: list[Tensor], rule: str, share: float) -> list[Tensor]:
    """Which weights stay: `score` keeps S_W > 0, `budget` keeps the highest `share` over all layers
    together."""
    if rule == "score":
        return [score > 0 for score in weight_scores]
    count = round(share * sum(score.numel() for score in weight_scores))
    return highest_overall(weight_scores, count)


def group_keep(weight_scores: list[Tensor], share: float) -> list[Tensor]:
    """Whole rows and columns: the highest √share of the features and of the units of each hidden
    layer.

    `weight_scores` holds the lower score of a weight's row and column, so the mean over a row ranks
    the row.
    """
    rows = [
        highest(score.mean(1), max(1, round(share**0.5 * score.shape[0])))
        for score in weight_scores
    ]
    keeps = [
        row.unsqueeze(1).expand_as(score).clone()
        for row, score in zip(rows, weight_scores, strict=True)
    ]
    for keep, units in zip(keeps, rows[1:], strict=False):
        keep &= units.repeat(keep.shape[1] // units.numel())
    return keeps


def edge_mask(edge_score: Tensor, threshold: Tensor, slot: Tensor) -> Tensor:
    """M_G of every directed edge, [E], where edge e reads score number slot[e]."""
    return torch.sigmoid(edge_score - threshold).index_select(0, slot)


def best_of_a_node(mask: Tensor, slot: Tensor, adjacency: Csr) -> Tensor:
    """Which scores are the highest among the edges into some node, [P] bool; of equal ones all."""
    per_edge = mask.index_select(0, slot)
    top = per_edge.new_zeros(adjacency.shape[0])
    top = top.scatter_reduce(0, adjacency.row, per_edge, "amax")
    best = torch.zeros_like(mask, dtype=torch.bool)
    best[slot[per_edge == top.index_select(0, adjacency.row)]] = True
    return best


def edge_keep(mask: Tensor, threshold: float, rule: str, share: float) -> Tensor:
    """Which scores stay: `paper` M_G ≥ γ, `half` M_G ≥ 1/2, `budget` the highest `share`."""
    if rule == "budget":
        return highest(mask, round(share * mask.numel()))
    return mask >= (threshold if rule == "paper" else 0.5)
