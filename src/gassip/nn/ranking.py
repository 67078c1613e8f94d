"""Which scores are the highest: of one tensor, and of all layers together.

keep_i = 1 where fewer than `count` scores are higher than s_i (of equal ones the earlier is)
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def highest(score: Tensor, count: int) -> Tensor:
    """True for exactly the `count` highest scores; of equal ones the earlier."""
    if not 0 < count < score.numel():
        return torch.full((score.numel(),), count > 0, dtype=torch.bool, device=score.device)
    least = torch.kthvalue(score, score.numel() - count + 1).values  # a tenth of a sort's time
    keep = score > least
    equal = torch.nonzero(score == least).squeeze(1)
    keep[equal[: count - int(keep.sum())]] = True
    return keep


def highest_overall(scores: Sequence[Tensor], count: int) -> list[Tensor]:
    """True for exactly the `count` highest over all tensors together, each in its own shape."""
    kept = highest(torch.cat([score.flatten() for score in scores]), count)
    parts = kept.split([score.numel() for score in scores])
    return [part.view_as(score) for part, score in zip(parts, scores, strict=True)]
