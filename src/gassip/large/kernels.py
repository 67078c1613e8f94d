"""S H over the edges of a mapped graph, block of receivers by block of receivers.

    y_i = r_i (Σ_j m_ij c_j h_j + l c_i h_i)

    norm    r_i                     c_j           l
    mean    1 / Σ_j m_ij            1             0        0 where there is no sender
    gcn     1 / √(1 + Σ_j m_ij)     r_j           1

The senders of a receiver are added in the order in which they are stored, so that threads and
blocks do not change a bit. Compiled by numba (extra `large`); scipy stands in where it is missing.

Shapes: N nodes, E edges, B columns.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from scipy import sparse as sp

from gassip.graph.store import GraphFolder
from gassip.large.arrays import slab

Norm = Literal["mean", "gcn"]
ENTRIES = 2**23  # edges that are read at once
LARGE = "needs the 'large' extra for speed: pip install 'gassip[large]'"
Kernel = Callable[..., None]


@dataclass(frozen=True, eq=False)
class Edges:
    """Senders by receiver; arrays in memory, or mapped and read piece by piece."""

    indptr: np.ndarray  # [N + 1] int64
    indices: np.ndarray  # [E]
    weight: np.ndarray | None = None  # [E] float32; None: all 1
    names: tuple[str, ...] = ()  # of the files, where there are some

    @staticmethod
    def of(folder: GraphFolder) -> "Edges":
        names = ("indptr", "indices", *(("weight",) if folder.has("weight") else ()))
        return Edges.mapped([str(folder.path / f"{name}.npy") for name in names])

    @staticmethod
    def mapped(names: Sequence[str]) -> "Edges":
        """From the files of indptr, indices and perhaps weight."""
        arrays = [np.load(name, mmap_mode="r", allow_pickle=False) for name in names]
        weight = arrays[2] if len(arrays) > 2 else None
        return Edges(np.array(arrays[0]), arrays[1], weight, tuple(names))

    @property
    def nodes(self) -> int:
        return len(self.indptr) - 1

    @cached_property
    def degree(self) -> np.ndarray:
        """Σ_j m_ij [N] float32."""
        if self.weight is None:
            return np.diff(self.indptr).astype(np.float32)
        total = np.zeros(self.nodes, dtype=np.float32)
        for start, stop in self.pieces():
            first, last = self.indptr[start], self.indptr[stop]
            sums = np.add.accumulate(slab(self.weight, first, last), dtype=np.float64)
            ends = np.concatenate([[0.0], sums])[self.indptr[start : stop + 1] - first]
            total[start:stop] = np.diff(ends)
        return total

    def pieces(self, most: int = ENTRIES) -> Iterator[tuple[int, int]]:
        """Ranges of receivers with about `most` edges each."""
        start = 0
        while start < self.nodes:
            after = np.searchsorted(self.indptr, self.indptr[start] + most, side="right") - 1
            stop = min(self.nodes, max(start + 1, int(after)))
            yield start, stop
            start = stop

    def scales(self, norm: Norm) -> tuple[np.ndarray, np.ndarray | None]:
        """r [N], and c [N] unless it is 1."""
        if norm == "mean":
            return np.divide(1, self.degree, where=self.degree > 0, out=0 * self.degree), None
        root = (1 / np.sqrt(1 + self.degree)).astype(np.float32)
        return root, root


def received(edges: Edges, h: np.ndarray, norm: Norm = "mean", threads: int = 1) -> np.ndarray:
    """S H [N, B] of H [N, B] float32 in memory."""
    out = np.empty_like(h)
    row_scale, column_scale = edges.scales(norm)
    if column_scale is not None:
        h = h * column_scale[:, None]
    add = summed()
    with ThreadPoolExecutor(threads) as pool:
        for start, stop in edges.pieces():
            first, last = edges.indptr[start], edges.indptr[stop]
            near = edges.indptr[start : stop + 1] - first
            senders = slab(edges.indices, first, last)
            weight = None if edges.weight is None else slab(edges.weight, first, last)
            cuts = np.linspace(0, stop - start, threads + 1).astype(np.int64)
            jobs = [
                pool.submit(add, near, senders, weight, h, out, start, low, high)
                for low, high in pairwise(cuts)
            ]
            for job in jobs:
                job.result()
            if column_scale is not None:
                out[start:stop] += h[start:stop]
            out[start:stop] *= row_scale[start:stop, None]
    return out


@cache
def summed() -> Kernel:
    """out_i = Σ_j m_ij h_j for the receivers low..high of a piece that begins at `start`."""
    try:
        import numba
    except ImportError:
        return _by_scipy
    compiled: Any = numba.njit(nogil=True, cache=True, boundscheck=False)
    plain, weighted = compiled(_plain), compiled(_weighted)

    def add(
        indptr: np.ndarray,
        indices: np.ndarray,
        weight: np.ndarray | None,
        h: np.ndarray,
        out: np.ndarray,
        start: int,
        low: int,
        high: int,
    ) -> None:
        if weight is None:
            plain(indptr, indices, h, out, start, low, high)
        else:
            weighted(indptr, indices, weight, h, out, start, low, high)

    return add


def compiled_here() -> bool:
    """Whether numba is there."""
    return summed() is not _by_scipy


def _plain(
    indptr: np.ndarray,
    indices: np.ndarray,
    h: np.ndarray,
    out: np.ndarray,
    start: int,
    low: int,
    high: int,
) -> None:
    for i in range(low, high):
        at = start + i
        for c in range(h.shape[1]):
            out[at, c] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            for c in range(h.shape[1]):
                out[at, c] += h[j, c]


def _weighted(
    indptr: np.ndarray,
    indices: np.ndarray,
    weight: np.ndarray,
    h: np.ndarray,
    out: np.ndarray,
    start: int,
    low: int,
    high: int,
) -> None:
    for i in range(low, high):
        at = start + i
        for c in range(h.shape[1]):
            out[at, c] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j, m = indices[e], weight[e]
            for c in range(h.shape[1]):
                out[at, c] += m * h[j, c]


def _by_scipy(
    indptr: np.ndarray,
    indices: np.ndarray,
    weight: np.ndarray | None,
    h: np.ndarray,
    out: np.ndarray,
    start: int,
    low: int,
    high: int,
) -> None:
    first, last = indptr[low], indptr[high]
    senders = indices[first:last]
    values = np.ones(len(senders), dtype=np.float32) if weight is None else weight[first:last]
    shape = (int(high - low), len(h))
    matrix = sp.csr_array(
        (values, senders, indptr[low : high + 1] - first), shape=shape, copy=False
    )
    out[start + low : start + high] = matrix @ h
