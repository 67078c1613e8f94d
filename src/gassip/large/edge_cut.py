"""Edges of a mapped graph ranked and cut, piece by piece.

    random           a hash of the pair, the control
    inverse-degree   1/d_i + 1/d_j
    agreement        Σ_c t_ic t_jc of a net's probabilities
    support          agreement · inverse-degree
    similarity       cos(x_i, x_j)
    curriculum       M_G, carried over as a line in numbers of an edge (large/rows/edge_mask.py)

Both directions of a pair have the same score, bit by bit, and so stay or go together. A node's
highest edge always stays.

Shapes: N nodes, E directed edges, e edges of a piece, C classes, D features.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from gassip.large.arrays import slab
from gassip.large.kernels import Edges

PIECE = 2**17  # edges that are scored at once
Rank = Callable[[np.ndarray, np.ndarray], np.ndarray]
NUMBERS = ("agreement", "cosine", "sum of log degrees", "difference of log degrees")


@dataclass(frozen=True, eq=False)
class EdgeNumbers:
    """What is known of an edge, from its two nodes."""

    degree: np.ndarray  # [N] neighbours
    x: np.ndarray  # [N, D], mapped
    probs: np.ndarray  # [N, C] of a net
    seed: int = 0

    def inverse_degree(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        inverse = self._inverse
        return np.asarray(inverse[i] + inverse[j])

    def agreement(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return (self.probs[i] * self.probs[j]).sum(1)

    def support(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return self.agreement(i, j) * self.inverse_degree(i, j)

    def similarity(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Rows of mapped features are read once for each node of the piece."""
        nodes, at = np.unique(np.concatenate([i, j]), return_inverse=True)
        rows = np.asarray(self.x[nodes])
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        return np.asarray((rows[at[: len(i)]] * rows[at[len(i) :]]).sum(1))

    def random(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """splitmix64 of the pair and the seed, as a number in 0..1."""
        low, high = np.minimum(i, j).astype(np.uint64), np.maximum(i, j).astype(np.uint64)
        with np.errstate(over="ignore"):
            z = low * np.uint64(0x9E3779B97F4A7C15) + high + np.uint64(self.seed + 1)
            for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
                z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
        return ((z ^ (z >> np.uint64(31))) >> np.uint64(40)).astype(np.float32)

    def numbers(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """[e, 4]: NUMBERS."""
        a, b = self._log_degree[i], self._log_degree[j]
        columns = (self.agreement(i, j), self.similarity(i, j), a + b, np.abs(a - b))
        return np.stack(columns, axis=1).astype(np.float32)

    @cached_property
    def _inverse(self) -> np.ndarray:
        return (1 / np.maximum(self.degree, 1)).astype(np.float32)

    @cached_property
    def _log_degree(self) -> np.ndarray:
        return np.log1p(self.degree).astype(np.float32)


def pieces(edges: Edges) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Which edges, their receivers and their senders."""
    for start, stop in edges.pieces(PIECE):
        first, last = int(edges.indptr[start]), int(edges.indptr[stop])
        counts = np.diff(edges.indptr[start : stop + 1])
        receiver = np.repeat(np.arange(start, stop), counts)
        yield slice(first, last), receiver, slab(edges.indices, first, last)


def edge_scores(edges: Edges, rank: Rank) -> np.ndarray:
    """[E] float32, in one pass over the edges."""
    scores = np.empty(int(edges.indptr[-1]), dtype=np.float32)
    for part, receiver, sender in pieces(edges):
        scores[part] = rank(receiver, sender)
    return scores


def kept_edges(edges: Edges, scores: np.ndarray, share: float) -> np.ndarray:
    """Which edges stay, [E] bool: the highest, and the highest of each node."""
    count = max(1, round(share * len(scores)))
    lowest = np.partition(scores, len(scores) - count)[len(scores) - count]
    best = np.full(edges.nodes, np.inf, dtype=np.float32)
    there = np.flatnonzero(np.diff(edges.indptr))
    if len(there):
        best[there] = np.maximum.reduceat(scores, edges.indptr[there])
    keep = scores >= lowest
    for part, receiver, sender in pieces(edges):
        part_scores = scores[part]
        keep[part] |= (part_scores == best[receiver]) | (part_scores == best[sender])
    return keep


def write_cut(edges: Edges, keep: np.ndarray, path: Path) -> None:
    """cut-indptr.npy, cut-indices.npy and cut-weight.npy, each renamed when it is whole."""
    path.mkdir(parents=True, exist_ok=True)
    total = np.concatenate([[0], np.cumsum(keep, dtype=np.int64)])
    arrays = {"indptr": total[edges.indptr], "indices": np.asarray(edges.indices)[keep]}
    if edges.weight is not None:
        arrays["weight"] = np.asarray(edges.weight)[keep]
    for name, values in arrays.items():
        beside = path / f"cut-{name}.partial.npy"
        np.save(beside, values)
        beside.replace(path / f"cut-{name}.npy")
