"""Products of matrices in place: sums are accumulated, and arrays are kept from pass to pass.

A full pass writes into the arrays of the one before (`Scratch`): memory that is new costs more in
page faults than the sums done in it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import local
from typing import TypeAlias

import numpy as np
from scipy import sparse as sp

# scipy's kernel behind `@`; a release that moves it makes the runtime slower, not wrong
try:
    from scipy.sparse._sparsetools import csr_matvecs
except ImportError:
    csr_matvecs = None

from gassip.graph.checks import Array, Table

UNSHARED = 2**18  # multiply-adds up to which BLAS keeps to the thread that calls it


class Scratch:
    """Arrays by name that are kept, for each thread that predicts its own."""

    def __init__(self) -> None:
        self.kept = local()

    def __call__(self, name: str, rows: int, columns: int) -> Array:
        found: Array | None = self.kept.__dict__.get(name)
        if found is None or found.shape != (rows, columns):
            found = self.kept.__dict__[name] = fresh(name, rows, columns)
        return found


def fresh(name: str, rows: int, columns: int) -> Array:
    return np.empty((rows, columns), dtype=np.float32)


Room: TypeAlias = Callable[[str, int, int], Array]


def multiplied(left: Array, right: Array, out: Array) -> Array:
    """left·right into `out`, so many rows at a time that BLAS does not share them among threads.

    These are tall and narrow: waking a thread takes longer than it saves, most of all beside
    another library's.
    """
    rows = max(1, UNSHARED // max(1, right.size))
    for start in range(0, left.shape[0], rows):
        np.matmul(left[start : start + rows], right, out=out[start : start + rows])
    return out


@dataclass(frozen=True, eq=False)
class Sums:
    """Products, and where they are written."""

    room: Room = fresh

    def accumulate(self, out: Array, left: Table, right: Array) -> None:
        """out += left·right. scipy's own `@` zeroes a new array first, and the sum would then be a
        second pass."""
        if isinstance(left, sp.csr_array) and csr_matvecs is not None:
            right = np.ascontiguousarray(right, dtype=np.float32)
            sizes = (*left.shape, right.shape[1])
            csr_matvecs(*sizes, left.indptr, left.indices, left.data, right.ravel(), out.ravel())
        elif isinstance(left, sp.csr_array):
            out += left @ right
        else:
            out += multiplied(left, right, self.room("addend", *out.shape))

    def product(self, left: Table, right: Array, name: str = "product") -> Array:
        """left·right, [rows of left, columns of right]."""
        out = self.room(name, left.shape[0], right.shape[1])
        if not isinstance(left, sp.csr_array):
            return multiplied(left, right, out)
        out.fill(0)
        self.accumulate(out, left, right)
        return out


PLAIN = Sums()
