"""Pages that a training has had are not asked for again."""

import subprocess
import sys

import pytest

from gassip.train.allocation import LARGE, keep_freed_memory

BLOCKS = f"""
import resource, torch
from gassip.train.allocation import keep_freed_memory
keep_freed_memory()
def ones():
    torch.ones({LARGE // 16})  # a quarter of what goes back, in numbers of four bytes
for _ in range(20):  # until blocks of this size have found their places
    ones()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    ones()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not keep_freed_memory(), reason="the C library is not glibc")
def test_a_block_that_was_freed_comes_back_without_faults() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKS], capture_output=True, text=True)
    pages = LARGE // 4 // 4096
    assert int(done.stdout) < pages  # of five blocks
