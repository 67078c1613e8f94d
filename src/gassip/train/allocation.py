"""Freed memory stays with the process, where the C library is glibc.

glibc returns large blocks to the system, and the top of its heap besides; each page that comes
back costs a fault. A training frees and asks for the same blocks in every step: on Photo a fifth of
the time of a net went into faults. Blocks of graphs far larger than that still go back, so that
memory does not grow.
"""

import ctypes
import sys
from functools import cache

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of mallopt, malloc.h
KEPT = 2**28  # bytes at the top of the heap that are not returned
LARGE = 2**26  # bytes from which a block comes from the system and goes back to it


@cache
def keep_freed_memory() -> bool:
    """From here on, for the whole process; whether there was a way."""
    if sys.platform != "linux":
        return False
    library = ctypes.CDLL(None)
    if not (hasattr(library, "mallopt") and hasattr(library, "gnu_get_libc_version")):
        return False
    return bool(library.mallopt(MMAP_THRESHOLD, LARGE) and library.mallopt(TRIM_THRESHOLD, KEPT))
