"""The part of a run's graph that a page holds, and where some of its nodes are drawn.

    held     all nodes, if their arrays take at most MOST_BYTES; else those around the node with the
             most edges. Degrees stay those of the whole graph
    drawn    at most MOST_DRAWN of them. Places: edges pull as d²/k, nodes push as k²/d
             (Fruchterman, Reingold), from a circle, cooled to 0

Shapes: N nodes of the run's graph, n held, m drawn.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse.csgraph import breadth_first_order

from gassip.deploy.native.graphs import GraphArrays, graph_arrays
from gassip.deploy.native.net import NativeNet
from gassip.deploy.native.sample import around
from gassip.deploy.numpy_graph import Inputs
from gassip.deploy.runtime import Model
from gassip.graph.checks import Array, canonical

MOST_BYTES = 6 * 2**20
MOST_DRAWN = 240
FEW = 6  # neighbours of one node that are drawn first, so that no hub fills the picture
STEPS = 150


@dataclass(frozen=True, eq=False, kw_only=True)
class PageGraph:
    """What a page holds of a graph."""

    nodes: Array  # [n] numbers in the run's graph
    inputs: Inputs  # of these
    arrays: GraphArrays
    drawn: Array  # [m] numbers among those held
    places: Array  # [m, 2] in 0..1

    def differ(self, model: Model) -> int:
        """How many held nodes have another label than on the whole graph."""
        if self.nodes.size == model.edges.shape[0]:
            return 0
        return int((model.run(self.inputs).argmax(1) != model.predict()[self.nodes]).sum())


def page_graph(net: NativeNet) -> PageGraph:
    model, stored = net.model, net.model.stored
    nodes = np.arange(stored.x.shape[0])
    inputs, arrays = stored, graph_arrays(stored)
    while (size := _bytes(arrays)) > MOST_BYTES and nodes.size > 1:
        fewer = max(1, int(nodes.size * min(0.9, MOST_BYTES / size)))
        nodes = np.sort(around(model, fewer))
        inputs, arrays = _part(stored, nodes)
    drawn = drawn_nodes(inputs, MOST_DRAWN, model.run(inputs).argmax(1))
    return PageGraph(
        nodes=nodes,
        inputs=inputs,
        arrays=arrays,
        drawn=drawn,
        places=places(_pairs(inputs, drawn), drawn.size),
    )


def _bytes(arrays: GraphArrays) -> int:
    return sum(array.nbytes for _, array in arrays.items() if array is not None)


def _part(stored: Inputs, nodes: Array) -> tuple[Inputs, GraphArrays]:
    """Nodes of a graph with the edges among them and the degrees they have in all of it."""
    labels = None if stored.labels is None else stored.labels[nodes]
    made = Inputs(stored.rows(nodes), canonical(stored.edges[nodes][:, nodes]), labels)
    degree = stored.degree[nodes].astype(np.float32)
    made.__dict__["degree"] = degree  # what the cached property would compute of the part alone
    return made, replace(graph_arrays(made), degree=degree)


def drawn_nodes(inputs: Inputs, most: int, label: Array) -> Array:
    """The hub of each label and a path to each from the largest; a FEW neighbours of each node on;
    then others by number."""
    edges, count = inputs.edges, inputs.x.shape[0]
    found = dict.fromkeys(_hubs_and_paths(inputs, label))
    queue = list(found)
    while queue and len(found) < most:
        node = queue.pop(0)
        near = edges.indices[edges.indptr[node] : edges.indptr[node + 1]].tolist()
        fresh = [other for other in near if other not in found][:FEW]
        found |= dict.fromkeys(fresh)
        queue += fresh
    found |= dict.fromkeys(range(min(count, most)))
    return np.sort(list(found)[:most])


def _hubs_and_paths(inputs: Inputs, label: Array) -> list[int]:
    """The node with the most edges of each label, the largest first, then shortest paths to it."""
    degree = np.diff(inputs.edges.indptr)
    hubs = [int(np.argmax(np.where(label == value, degree, -1))) for value in np.unique(label)]
    hubs.sort(key=lambda node: -degree[node])
    _, before = breadth_first_order(inputs.edges, hubs[0], directed=False)
    paths = []
    for node in hubs:
        while (node := int(before[node])) >= 0:
            paths.append(node)
    return hubs + paths


def _pairs(inputs: Inputs, drawn: Array) -> Array:
    """[2, e] numbers among the drawn."""
    edges = inputs.edges[drawn][:, drawn].tocoo()
    return np.stack([edges.row, edges.col])


def places(pairs: Array, count: int) -> Array:
    """[m, 2] in 0..1; the same for the same edges."""
    angle = 2 * np.pi * np.arange(count) / max(count, 1)
    at = (
        np.stack([np.cos(angle), np.sin(angle)], axis=1)
        * (0.3 + 0.2 * (np.arange(count) % 3))[:, None]
    )
    ideal = 1 / np.sqrt(max(count, 1))
    for step in range(STEPS):
        force = _pushes(at, ideal) + _pulls(at, pairs, ideal) - 0.8 * ideal * at
        length = np.linalg.norm(force, axis=1, keepdims=True).clip(1e-9)
        at = at + force / length * np.minimum(length, 0.1 * (1 - step / STEPS))
    low, high = at.min(axis=0, initial=0), at.max(axis=0, initial=0)
    return (at - low) / (high - low).clip(1e-9)


def _pushes(at: Array, ideal: float) -> Array:
    apart = at[:, None] - at[None]
    return (apart * (ideal**2 / (apart**2).sum(2).clip(1e-6))[:, :, None]).sum(1)


def _pulls(at: Array, pairs: Array, ideal: float) -> Array:
    apart = at[pairs[1]] - at[pairs[0]]
    force = np.zeros_like(at)
    np.add.at(force, pairs[0], apart * np.linalg.norm(apart, axis=1, keepdims=True) / ideal)
    return force
