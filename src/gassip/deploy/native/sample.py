"""A small graph with the scores that a net must give on it: the golden rows of a C file.

The graph has nodes of the run's graph around one of them, a node apart, and weighted edges. The
scores of all nodes, and of a new node beside them, are those of gassip.runtime.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse as sp

from gassip.deploy.native.net import NativeNet
from gassip.deploy.numpy_graph import Inputs
from gassip.deploy.runtime import Model
from gassip.graph.checks import Array, Table, canonical, clean_edges, dense


@dataclass(frozen=True, eq=False, kw_only=True)
class Golden:
    """A graph, a node to add to it, and what the runtime says of both."""

    inputs: Inputs
    scores: Array  # [N, C]
    new_x: Array  # [d]
    neighbours: Array  # [k]
    new_scores: Array  # [C]


def golden(net: NativeNet, nodes: int = 12, seed: int = 0) -> Golden:
    inputs = small_graph(net, nodes, seed)
    new_x = dense(inputs.x)[0]
    neighbours = np.arange(0, inputs.x.shape[0], 3)
    larger = joined(inputs, new_x, neighbours, both_ways=net.model.undirected)
    return Golden(
        inputs=inputs,
        scores=net.model.run(inputs),
        new_x=new_x,
        neighbours=neighbours,
        new_scores=net.model.run(larger, [inputs.x.shape[0]])[0],
    )


def small_graph(net: NativeNet, nodes: int, seed: int) -> Inputs:
    """Features are those of the run's nodes; drawn where the run was saved without any."""
    rng = np.random.default_rng(seed)
    chosen = around(net.model, nodes)
    x = _features(net, chosen, rng)
    ring = np.arange(chosen.size)
    drawn = rng.integers(0, chosen.size, (2, chosen.size))
    ends = np.concatenate([[ring, np.roll(ring, 1)], drawn], axis=1)
    weight = rng.uniform(0.2, 2, (ends.shape[1],))
    edges = clean_edges(ends, weight, x.shape[0], undirected=net.model.undirected)
    labels = rng.integers(-1, net.classes, (x.shape[0],)) if net.model.label_weight else None
    return Inputs(x, edges, labels)


def _features(net: NativeNet, chosen: Array, rng: np.random.Generator) -> Table:
    """[chosen + 1, d], the last row empty."""
    if net.model.x is None:
        rows = np.zeros((chosen.size, net.read), dtype=np.float32)
        columns = rng.integers(0, net.read, (chosen.size, min(8, net.read)))
        np.put_along_axis(rows, columns, rng.normal(size=columns.shape).astype(np.float32), 1)
        part: Table = sp.csr_array(rows)
    else:
        part = net.model.stored.rows(chosen)
    if isinstance(part, sp.csr_array):
        return canonical(sp.vstack([part, sp.csr_array((1, net.read))], format="csr"))
    return np.concatenate([part, np.zeros((1, net.read), dtype=np.float32)])


def joined(inputs: Inputs, x: Array, neighbours: Array, *, both_ways: bool) -> Inputs:
    """The graph with one node more, as `Model.extend` makes it."""
    nodes = inputs.x.shape[0]
    ends = np.stack([neighbours, np.full(neighbours.size, nodes)])
    more = clean_edges(ends, None, nodes + 1, undirected=both_ways)
    edges = sp.csr_array(inputs.edges, copy=True)
    edges.resize((nodes + 1, nodes + 1))
    rows = x[None].astype(np.float32)
    if isinstance(inputs.x, sp.csr_array):
        table: Table = canonical(sp.vstack([inputs.x, sp.csr_array(rows)], format="csr"))
    else:
        table = np.concatenate([inputs.x, rows])
    labels = None if inputs.labels is None else np.append(inputs.labels, -1)
    return Inputs(table, canonical(edges + more), labels)


def around(model: Model, nodes: int) -> Array:
    """The node with the most edges, and others in the order of their distance to it."""
    count, edges = model.edges.shape[0], model.edges
    found = dict.fromkeys([int(np.argmax(np.diff(edges.indptr)))])
    queue = list(found)
    while queue and len(found) < nodes:
        node = queue.pop(0)
        fresh = [j for j in edges.indices[edges.indptr[node] : edges.indptr[node + 1]].tolist()]
        queue += [j for j in fresh if j not in found]
        found |= dict.fromkeys(fresh)
    found |= dict.fromkeys(range(min(count, nodes)))
    return np.array(list(found)[:nodes])
