"""A sample of a graph and where its nodes are drawn.

sample     the largest part that is connected, grown from its node of most edges; at most MOST nodes
positions  two eigenvectors of D^-1/2 A D^-1/2 as a start, then forces: edges pull as d²/k, nodes
           push as k²/d (Fruchterman, Reingold), cooled to 0

Shapes: N nodes, E directed edges, n nodes of the sample, e undirected edges among them.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components

from gassip.graph.checks import Array

MOST = 1_200  # nodes of a sample: what a canvas shows apart
MOST_EDGES = 6_000
STEPS = 60  # of the forces
INNER = 0.8  # of the half width, within which places are to scale


@dataclass(frozen=True, eq=False)
class Sample:
    """Some nodes of a graph with their places and the edges among them."""

    nodes: Array  # [n] numbers in the graph
    places: Array  # [n, 2] in 0..1
    pairs: Array  # [2, e] numbers in the sample, low before high
    edges: Array  # [e] the number of one directed edge of each


def sample(edges: Array, nodes: int, most: int = MOST) -> Sample | None:
    """A connected sample of the graph; None of a graph without edges."""
    if edges.shape[1] == 0:
        return None
    ones = np.ones(edges.shape[1], dtype=np.float32)
    whole = sp.csr_array((ones, (edges[0], edges[1])), shape=(nodes, nodes))
    whole = whole + whole.T
    chosen = _grown(whole, most)
    number = np.full(nodes, -1)
    number[chosen] = np.arange(len(chosen))
    low, high = np.sort(number[edges], axis=0)
    inside = np.flatnonzero((low >= 0) & (low != high))
    code = low[inside] * len(chosen) + high[inside]
    first = inside[np.unique(code, return_index=True)[1]]
    if len(first) > MOST_EDGES:
        first = np.sort(np.random.default_rng(0).choice(first, MOST_EDGES, replace=False))
    pairs = np.stack([low[first], high[first]])
    return Sample(chosen, positions(pairs, len(chosen)), pairs, first)


def _grown(whole: sp.csr_array, most: int) -> Array:
    """Breadth first in the largest component from its node of most neighbours."""
    _, part = connected_components(whole, directed=False)
    largest = part == np.bincount(part).argmax()
    degree = np.diff(whole.indptr)
    start = int(np.where(largest, degree, -1).argmax())
    order = breadth_first_order(whole, start, directed=False, return_predecessors=False)
    return np.sort(order[:most])


def positions(pairs: Array, count: int) -> Array:
    """Places in 0..1, [n, 2]; the same for the same edges."""
    rng = np.random.default_rng(0)
    place = _spectral(pairs, count) + rng.normal(scale=0.05, size=(count, 2))
    place = place.astype(np.float32)
    ideal = float(1 / np.sqrt(max(count, 1)))
    for step in range(STEPS):
        force = _pulls(place, pairs, ideal) + _pushes(place, ideal) - 0.6 * ideal * place
        length = np.linalg.norm(force, axis=1, keepdims=True).clip(1e-9)
        place = place + force / length * np.minimum(length, 0.1 * (1 - step / STEPS))
    return _framed(place)


def _framed(place: Array) -> Array:
    """[m, 2] in 0..1: most nodes to scale; the outermost are drawn in, and stay in their order."""
    low, high = np.quantile(place, [0.01, 0.99], axis=0)
    at = 2 * (place - low) / (high - low).clip(1e-9) - 1
    beyond = np.tanh((np.abs(at) - INNER).clip(0.0) / (1 - INNER)) * (1 - INNER)
    framed: Array = np.where(np.abs(at) <= INNER, at, np.sign(at) * (INNER + beyond))
    return (framed + 1) / 2


def _spectral(pairs: Array, count: int) -> Array:
    """A rough start: power steps of the normalised adjacency on two random vectors, made orthogonal
    to the first eigenvector and to each other."""
    ends = np.concatenate([pairs, pairs[::-1]], axis=1)
    adjacency = sp.csr_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(count, count))
    root = np.sqrt(np.diff(adjacency.indptr).clip(1))
    scaled = sp.diags_array(1 / root) @ adjacency @ sp.diags_array(1 / root)
    vectors = np.column_stack([root, np.random.default_rng(1).normal(size=(count, 2))])
    for _ in range(40):
        vectors, _ = np.linalg.qr(0.5 * vectors + 0.5 * (scaled @ vectors))
    vectors = vectors[:, 1:] if vectors.shape[1] == 3 else np.zeros((count, 2))
    return np.sign(vectors) * np.sqrt(np.abs(vectors))  # spread: eigenvectors crowd around 0


def _pulls(place: Array, pairs: Array, ideal: float) -> Array:
    step = place[pairs[1]] - place[pairs[0]]
    pull = step * np.linalg.norm(step, axis=1, keepdims=True) / ideal
    out = np.zeros_like(place)
    np.add.at(out, pairs[0], pull)
    np.add.at(out, pairs[1], -pull)
    return out


def _pushes(place: Array, ideal: float) -> Array:
    """Of all pairs of nodes: Σ_j w_ij (p_i − p_j) with w_ij = k² / |p_i − p_j|²."""
    square = np.square(place).sum(1)
    far = square[:, None] + square[None] - 2 * (place @ place.T)
    near = ideal**2 / far.clip(1e-6)
    return near.sum(1, keepdims=True) * place - near @ place
