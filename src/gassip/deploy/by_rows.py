"""A net over hops, applied to all nodes by blocks of rows, or to a new node; numpy alone.

    o_l(h)_i = Σ_k (S^k h)_i W_k + b             a matrix for each hop (Linear, SAGEConv, TAGk)

S^k X lies on disk (large/hops.py), so the first layer reads rows and no edge. A later layer with
hops first takes those of its input, N × F numbers in memory, by the same kernel. Layers without
hops follow in the same block of rows. A new node i with senders N_i needs no pass over the graph:

    (S^k h)_i = Σ_{j ∈ N_i} m_ij (S^{k-1} h)_j / Σ_j m_ij

which equals the net on the whole graph if no old node receives an edge from the new one.

Shapes: N nodes, D features, F width of a layer, C classes, n rows of a block.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse as sp

from gassip.deploy.numpy_layers import Layer, standardise_rows
from gassip.deploy.numpy_products import multiplied
from gassip.errors import GassipError
from gassip.large.cluster import InProcess, Tasks
from gassip.large.hops import ROWS, Hops
from gassip.large.kernels import Edges, received
from gassip.operations import OPERATIONS, PRIOR_WEIGHT, SPREAD

BLOCK = ROWS // 4  # rows that are labelled at once
TOGETHER = 16  # such blocks that are on their way at once


def reach(op: str) -> int:
    """K of an operation with a matrix for each hop of the mean."""
    operation = OPERATIONS[op]
    if operation.norm is None:
        return 0
    if operation.norm != "mean" or operation.matrices != operation.steps + 1:
        raise GassipError(f"{op} has no matrix for each hop of the mean; it needs the whole graph")
    return operation.steps


def segments(layers: Sequence[Layer]) -> list[list[Layer]]:
    """Layers cut before each one, but the first, that reads hops."""
    out: list[list[Layer]] = []
    for layer in layers:
        if not out or reach(layer.op):
            out.append([])
        out[-1].append(layer)
    return out


def entering(layer: Layer, h: np.ndarray) -> np.ndarray:
    """ReLU, and the norm in front of the layer."""
    h = np.maximum(h, 0)
    h = standardise_rows(h, h.shape[1]) if layer.layer_norm else h
    return h if layer.scale is None or layer.shift is None else h * layer.scale + layer.shift


def through(segment: Sequence[Layer], hops: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of hops 0..K of the segment's input through all of its layers, [n, F]."""
    first = segment[0]
    h = np.broadcast_to(first.bias, (len(hops[0]), first.bias.size)).copy()
    room = np.empty_like(h)
    for hop, weight in zip(hops, reversed(first.weights), strict=True):
        if weight.any():
            h += multiplied(np.ascontiguousarray(hop), weight, room)
    for layer in segment[1:]:
        h = entering(layer, h) @ layer.weights[0] + layer.bias
    return h


class Source:
    """Hops 0..K of what a segment reads, by rows."""

    def block(self, start: int, stop: int) -> list[np.ndarray]:
        raise NotImplementedError

    def at(self, k: int, nodes: np.ndarray) -> np.ndarray:
        """Hop k of a few nodes."""
        raise NotImplementedError

    def many(self, k: int, nodes: np.ndarray) -> np.ndarray:
        """Hop k of many nodes in ascending order."""
        return self.at(k, nodes)


@dataclass(frozen=True, eq=False)
class OnDisk(Source):
    """Features."""

    hops: Hops
    steps: int

    def block(self, start: int, stop: int) -> list[np.ndarray]:
        return [self.hops.block(k, start, stop) for k in range(self.steps + 1)]

    def at(self, k: int, nodes: np.ndarray) -> np.ndarray:
        return self.hops.at(k, nodes)

    def many(self, k: int, nodes: np.ndarray) -> np.ndarray:
        return self.hops.rows(nodes, (k,))


@dataclass(frozen=True, eq=False)
class InMemory(Source):
    """The output of a segment, [N, F] each."""

    hops: list[np.ndarray]

    @staticmethod
    def of(h: np.ndarray, edges: Edges, steps: int, threads: int = 1) -> "InMemory":
        hops = [h]
        for _ in range(steps):
            hops.append(received(edges, hops[-1], "mean", threads))
        return InMemory(hops)

    def block(self, start: int, stop: int) -> list[np.ndarray]:
        return [hop[start:stop] for hop in self.hops]

    def at(self, k: int, nodes: np.ndarray) -> np.ndarray:
        return self.hops[k][nodes]


def all_rows(segment: Sequence[Layer], source: Source, nodes: int) -> np.ndarray:
    """The segment's output for every node, [N, F]."""
    out = np.empty((nodes, segment[-1].bias.size), dtype=np.float32)
    for start in range(0, nodes, BLOCK):
        stop = min(nodes, start + BLOCK)
        out[start:stop] = through(segment, source.block(start, stop))
    return out


@dataclass(frozen=True, eq=False, kw_only=True)
class RowModel:
    """A trained net on a graph folder."""

    layers: tuple[Layer, ...]
    hops: Hops
    edges: Edges
    label_weight: float = 0.0
    labels: np.ndarray | None = None  # [N] of training nodes, -1 elsewhere
    threads: int = 1

    @cached_property
    def segments(self) -> list[list[Layer]]:
        return segments(self.layers)

    def each_source(self) -> Iterator[Source]:
        """What each segment reads, one after the other."""
        source: Source = OnDisk(self.hops, reach(self.layers[0].op))
        yield source
        for segment, following in zip(self.segments, self.segments[1:], strict=False):
            h = all_rows(segment, source, self.hops.graph.nodes)
            h, steps = entering(following[0], h), reach(following[0].op)
            source = InMemory.of(h, self.edges, steps, self.threads)
            yield source

    @cached_property
    def sources(self) -> list[Source]:
        """All at once, computed once: for new nodes."""
        return list(self.each_source())

    @cached_property
    def last_source(self) -> Source:
        """Alone in memory."""
        *_, last = deque(self.each_source(), maxlen=1)
        return last

    @cached_property
    def label_logits(self) -> np.ndarray | None:
        """Label-propagation logits times their weight, [N, C]; None: they do not count."""
        if not self.label_weight or self.labels is None:
            return None
        classes = self.layers[-1].bias.size
        logits = label_logits(self.labels, classes, self.edges, self.threads)
        return np.float32(self.label_weight) * logits

    def blocks(self, tasks: Tasks | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """Class scores of consecutive rows, with the first row's number."""
        nodes = self.hops.graph.nodes
        shared = (self.segments[-1], self.last_source, nodes)
        starts = range(0, nodes, BLOCK)
        for first in range(0, len(starts), TOGETHER):
            some = starts[first : first + TOGETHER]
            found = (tasks or InProcess()).map(scored_block, shared, [(at,) for at in some])
            for start, scores in zip(some, found, strict=True):
                if self.label_logits is not None:
                    scores = scores + self.label_logits[start : start + len(scores)]
                yield start, scores

    def scores(self) -> np.ndarray:
        """Class scores [N, C] of all nodes."""
        return np.concatenate([scores for _, scores in self.blocks()])

    def new_node(
        self, x: np.ndarray, senders: np.ndarray, weight: np.ndarray | None = None
    ) -> np.ndarray:
        """Class scores [C] of a node that is not in the graph, from its features x [D] and the
        nodes that send to it. Labels of neighbours are not read."""
        h = np.asarray(x, dtype=np.float32)[None]
        if h.shape[1] != self.hops.features:
            raise GassipError(f"x has {h.shape[1]} features; the graph has {self.hops.features}")
        senders = _checked(senders, self.hops.graph.nodes)
        share = _shares(senders, weight)
        for at, (segment, source) in enumerate(zip(self.segments, self.sources, strict=True)):
            h = entering(segment[0], h) if at else h
            steps = reach(segment[0].op)
            near = [share @ source.at(k, senders) for k in range(steps)]
            h = through(segment, [h, *near])
        return np.asarray(h[0])

    def new_nodes(self, x: np.ndarray, received: sp.csr_array, old: np.ndarray) -> np.ndarray:
        """Class scores [n, C] of n nodes that are not in the graph. `received` [n, m + n]: what
        each is sent by the m nodes `old` and by the new ones."""
        total = np.asarray(received.sum(axis=1)).reshape(-1)
        share = sp.diags_array(1 / np.where(total > 0, total, 1)).astype(np.float32) @ received
        from_old, from_new = share[:, : len(old)], share[:, len(old) :]
        h = np.asarray(x, dtype=np.float32)
        for at, (segment, source) in enumerate(zip(self.segments, self.sources, strict=True)):
            hops = [entering(segment[0], h) if at else h]
            for k in range(reach(segment[0].op)):
                hops.append(from_old @ source.at(k, old) + from_new @ hops[-1])
            h = through(segment, hops)
        return h


def scored_block(shared: tuple[Sequence[Layer], Source, int], start: int) -> np.ndarray:
    """Scores of the rows from `start` on, before labels count."""
    segment, source, nodes = shared
    return through(segment, source.block(start, min(nodes, start + BLOCK)))


def _checked(senders: np.ndarray, nodes: int) -> np.ndarray:
    senders = np.asarray(senders, dtype=np.int64).reshape(-1)
    if senders.size and not 0 <= senders.min() <= senders.max() < nodes:
        raise GassipError(f"senders name a node outside 0..{nodes - 1}")
    return senders


def _shares(senders: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """m_ij / Σ_j m_ij as a row [1, d]."""
    given = np.ones(len(senders)) if weight is None else np.asarray(weight, dtype=np.float64)
    if given.shape != senders.shape:
        raise GassipError(f"weight has {given.size} numbers for {senders.size} senders")
    total = given.sum()
    return np.asarray((given / total if total > 0 else given)[None], dtype=np.float32)


def label_logits(
    labels: np.ndarray,
    classes: int,
    edges: Edges,
    threads: int = 1,
    nodes: np.ndarray | slice = slice(None),
) -> np.ndarray:
    """o of train/label_propagation.py at `nodes`, from labels [N], -1 where unknown; the kernel of
    hops, a few classes at a time."""
    known = np.flatnonzero(labels >= 0)
    counts = np.bincount(labels[known], minlength=classes).astype(np.float32)
    common = ((counts + 1) / (known.size + classes)).astype(np.float32)
    out = np.empty((len(labels[nodes]), classes), dtype=np.float32)
    for first in range(0, classes, TOGETHER):
        some = slice(first, min(classes, first + TOGETHER))
        z = spread(labels, some, edges, threads)[nodes]
        out[:, some] = np.log(z + np.float32(PRIOR_WEIGHT) * common[some])
    return out


def spread(labels: np.ndarray, classes: slice, edges: Edges, threads: int = 1) -> np.ndarray:
    """Labels of some classes spread over the graph, [N, classes]."""
    operation = OPERATIONS[SPREAD]
    known = np.flatnonzero((labels >= classes.start) & (labels < classes.stop))
    columns = labels[known] - classes.start
    z = np.zeros((len(labels), classes.stop - classes.start), dtype=np.float32)
    z[known, columns] = 1
    for _ in range(operation.steps):
        z = received(edges, z, "gcn", threads)
        z *= np.float32(operation.scale)
        z[known, columns] += np.float32(operation.back)
    return z
