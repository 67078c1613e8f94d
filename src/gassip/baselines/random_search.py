"""Random search: n architectures drawn from the paper's space without repetition, the best on
validation taken.

    a* = argmax_{a ∈ S} val(train(a)),   S ⊂ O^L drawn evenly, |S| = n

Li and Talwalkar, Random Search and Reproducibility for Neural Architecture Search, UAI 2019. A
searcher that does not beat this is not searching.
"""

from dataclasses import dataclass, field

import torch

from gassip.baselines._shared.trials import all_paths
from gassip.baselines.exhaustive import Exhaustive
from gassip.errors import GassipError


@dataclass(frozen=True, kw_only=True)
class RandomSearch(Exhaustive):
    """Like the exhaustive search, over a random part of the space."""

    count: int = field(
        default=10, metadata={"help": "architectures drawn; all of them where there are fewer"}
    )

    def __post_init__(self) -> None:
        if self.count < 1:
            raise GassipError(f"count is {self.count}; draw at least one architecture")

    def paths(self, seed: int) -> list[tuple[str, ...]]:
        """`count` different architectures, by `seed`."""
        space = all_paths(self.settings.search)
        order = torch.randperm(len(space), generator=torch.Generator().manual_seed(seed))
        return [space[k] for k in order[: self.count].tolist()]
