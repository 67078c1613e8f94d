"""The edges of a fixed graph as a few dense blocks, for runtimes whose scatter is slow or races.

Receivers are grouped by their number of senders, rounded up to eight steps per octave, so that a
row has at most an eighth of filling. Shapes: n receivers of one group, k senders of each.
"""

import numpy as np
from scipy import sparse as sp

ABSENT = -1e30  # a logit whose exponential is 0


def groups(matrix: sp.csr_array) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Receivers [n], senders [n, k] and values [n, k] of each group; what fills a row up is node 0
    with value 0."""
    counts = np.diff(matrix.indptr)
    step = 2 ** np.maximum(np.floor(np.log2(np.maximum(counts, 1))).astype(np.int64) - 3, 0)
    widths = np.maximum(-(-counts // step) * step, 1)
    out = []
    for width in np.unique(widths):
        rows = np.flatnonzero(widths == width)
        inside = np.arange(width) < counts[rows, None]
        at = np.where(inside, matrix.indptr[rows, None] + np.arange(width), matrix.nnz)
        senders, values = (
            np.append(matrix.indices, 0)[at],
            np.append(matrix.data, np.float32(0))[at],
        )
        out.append((rows, senders.astype(np.int32), values))
    return out


def logs(values: np.ndarray) -> np.ndarray:
    """log m, under which softmax(logit + log m) is attention under a mask; what fills up is
    absent."""
    return np.where(values > 0, np.log(np.where(values > 0, values, 1)), ABSENT).astype(np.float32)
