"""Pages that a training has had are not asked for again."""

import resource

import pytest
import torch

from gassip.train.allocation import LARGE, keep_freed_memory


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


@pytest.mark.skipif(not keep_freed_memory(), reason="the C library is not glibc")
def test_a_block_that_was_freed_comes_back_without_faults() -> None:
    numbers = LARGE // 4 // 4  # a quarter of what goes back, of four bytes each
    torch.ones(numbers)
    before = faults()
    for _ in range(5):
        torch.ones(numbers)
    assert faults() - before < numbers * 4 // 4096  # less than the pages of one of them
