"""Graphs of kinds on which a rule made on citation graphs errs, drawn small.

words     a bag of words, dense edges of which few join one class, few labels
mines     a grid with mines (two classes 4 : 1), 7 features: a neighbour's class is counted
workers   two classes 4 : 1, 10 features in units far apart, dense edges
rare      two classes 50 : 1, 12 features
degrees   the degree is the class, in three parts of equal size; 16 features of noise
"""

from collections.abc import Callable

import numpy as np
from scipy import sparse as sp

from gassip.graph.graph import Graph

Ints = np.ndarray
Floats = np.ndarray


def words(nodes: int = 1800, seed: int = 0) -> Graph:
    """Nine classes, 20 labels of each, degree about 60, a quarter of the edges within a class."""
    rng = np.random.default_rng(seed)
    classes, vocabulary = 9, 600
    y = np.arange(nodes) % classes
    source = rng.integers(0, nodes, 30 * nodes)
    same = rng.integers(0, nodes // classes, source.size) * classes + y[source]
    within = rng.random(source.size) < 0.15
    target = np.where(within, same, rng.integers(0, nodes, source.size))
    likely = np.where(np.arange(vocabulary) % classes == y[:, None], 0.045, 0.025)
    x = sp.csr_array((rng.random((nodes, vocabulary)) < likely).astype(np.float32))
    train = np.zeros(nodes, dtype=bool)
    train[: 20 * classes] = True
    rest = rng.permutation(np.arange(20 * classes, nodes))
    val = np.isin(np.arange(nodes), rest[:500])
    return Graph.build(
        x,
        _apart(source, target),
        y,
        masks=(train, val, ~train & ~val),
        undirected=True,
        name="words",
    )


def mines(side: int = 50, seed: int = 0) -> Graph:
    """A cell tells how many of its eight neighbours are mines, or (every other cell) that it does
    not tell."""
    rng = np.random.default_rng(seed)
    y = (rng.random((side, side)) < 0.2).astype(np.int64)
    number = np.arange(side * side).reshape(side, side)
    pairs = []
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        here = number[: side - down, max(0, -right) : side - max(0, right)]
        there = number[down:, max(0, right) : side + min(0, right)]
        pairs.append(np.stack([here.ravel(), there.ravel()]))
    edges = np.concatenate(pairs, axis=1)
    near = np.zeros(side * side, dtype=np.int64)
    for a, b in (edges, edges[::-1]):
        np.add.at(near, a, y.ravel()[b])
    told = rng.random(side * side) < 0.5
    x = np.where(told[:, None], np.arange(6) == np.minimum(near, 5)[:, None], 0)
    x = np.concatenate([x, ~told[:, None]], axis=1).astype(np.float32)
    return Graph.build(x, edges, y.ravel(), undirected=True, seed=seed, name="mines")


def workers(nodes: int = 2000, seed: int = 0) -> Graph:
    """A node's risk follows from its features and, more, from those of its neighbours."""
    rng = np.random.default_rng(seed)
    skill, place = rng.normal(size=nodes), rng.normal(size=nodes)
    order = np.argsort(place + 0.3 * rng.normal(size=nodes))
    rank = np.argsort(order)
    source = rng.integers(0, nodes, 40 * nodes)
    step = np.round(rng.normal(0, nodes / 25, source.size)).astype(np.int64)
    target = order[np.clip(rank[source] + step, 0, nodes - 1)]
    noise = rng.normal(size=(nodes, 10))
    units = np.array([1000, 300, 1, 0.01, 50, 1, 20, 0.1, 5, 2000.0])
    x = noise.copy()
    x[:, 0], x[:, 3], x[:, 6] = skill + 0.3 * noise[:, 0], place + noise[:, 3], skill * noise[:, 6]
    adjacency = sp.csr_array((np.ones(source.size), (source, target)), shape=(nodes, nodes))
    mean = adjacency @ x[:, 3] / np.maximum(adjacency.sum(1), 1)
    risk = 1.5 * np.sin(2 * mean) + np.abs(skill) - 0.8 * noise[:, 4] + 0.8 * rng.normal(size=nodes)
    y = (risk > np.quantile(risk, 0.8)).astype(np.int64)
    x = np.exp(0.5 * x) * units + 3 * units
    edges = _apart(source, target)
    return Graph.build(x.astype(np.float32), edges, y, undirected=True, seed=seed, name="workers")


def rare(nodes: int = 3000, seed: int = 0) -> Graph:
    """One node in fifty is of class 1; its features are shifted, some of its edges within."""
    rng = np.random.default_rng(seed)
    y = (np.arange(nodes) % 50 == 0).astype(np.int64)
    source = rng.integers(0, nodes, 4 * nodes)
    members = np.flatnonzero(y)
    same = np.where(y[source] == 1, rng.choice(members, source.size), source)
    target = np.where(rng.random(source.size) < 0.3, same, rng.integers(0, nodes, source.size))
    x = rng.normal(size=(nodes, 12)) + 0.8 * y[:, None] * (np.arange(12) < 5)
    edges = _apart(source, target)
    return Graph.build(x.astype(np.float32), edges, y, undirected=True, seed=seed, name="rare")


def degrees(nodes: int = 2000, seed: int = 0) -> Graph:
    """Few edges, some or many."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.normal(1.5, 0.8, nodes))
    source, target = rng.choice(nodes, (2, 4 * nodes), p=size / size.sum())
    edges = _apart(source, target)
    count = np.bincount(edges.ravel(), minlength=nodes)
    y = np.digitize(count, np.quantile(count, [1 / 3, 2 / 3]))
    x = rng.normal(size=(nodes, 16)).astype(np.float32)
    return Graph.build(x, edges, y, undirected=True, seed=seed, name="degrees")


def _apart(source: Ints, target: Ints) -> Ints:
    """Edges [2, E] without self-loops."""
    return np.stack([source, target])[:, source != target]


KINDS: dict[str, Callable[[], Graph]] = {
    "words": words,
    "mines": mines,
    "workers": workers,
    "rare": rare,
    "degrees": degrees,
}
