"""What a net reads of a graph, in numpy and scipy: features, normalised matrices, fields of nodes.

    A·(H W) + H V: H [W V] in one pass, then one matrix over its rows W_0, V_0, W_1, V_1, ...
        (`interleaved`)
    field of a set S of nodes:   S_L = S,   S_{l-1} = S_l ∪ senders to S_l   (K times for K steps)

X and A are CSR, A normalised once per graph; a query for a few nodes computes their field only,
with the degrees of the whole graph, so it equals the full pass.

Shapes: N nodes, d features that are read, E directed edges, F width of a layer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse as sp

from gassip.deploy.numpy_layers import Layer
from gassip.errors import GassipError
from gassip.graph.checks import Array, Table, canonical, row_sums, scaled, take
from gassip.operations import OPERATIONS

NARROW = 16  # width up to which one pass over both products of an operation pays


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a net reads of a graph: the needed columns of x, and weighted edges; normalisations are
    made once."""

    x: Table  # [N, d]
    edges: sp.csr_array  # [N, N], row = receiver; no self-loops, no weight 0
    labels: Array | None = (
        None  # [N] that count beside the net, -1 where unknown; None: all unknown
    )

    @cached_property
    def degree(self) -> Array:
        """Σ_j m_ij, [N]."""
        return row_sums(self.edges.indptr, self.edges.data)

    @cached_property
    def looped(self) -> sp.csr_array:
        """The edges and, with weight 1, every node itself."""
        return canonical(
            self.edges + sp.eye_array(self.edges.shape[0], dtype=np.float32, format="csr")
        )

    @cached_property
    def gcn(self) -> sp.csr_array:
        """m_ij / √(d_i d_j) over edges and nodes themselves, d counting the node itself."""
        return scaled(self.looped, 1 / np.sqrt(1 + self.degree), both=True)

    @cached_property
    def arma(self) -> sp.csr_array:
        """m_ij / √(d_i d_j), d not counting the node itself; 0 where d is 0."""
        return scaled(
            self.edges, 1 / np.sqrt(np.where(self.degree > 0, self.degree, np.inf)), both=True
        )

    @cached_property
    def mean(self) -> sp.csr_array:
        """m_ij / Σ_j m_ij; 0 where the sum is 0."""
        return scaled(self.edges, 1 / np.where(self.degree > 0, self.degree, np.inf), both=False)

    def normalised(self, norm: str) -> sp.csr_array:
        """S of a norm; for attention, the pattern that its shares fill."""
        match norm:
            case "gcn":
                return self.gcn
            case "arma":
                return self.arma
            case "mean":
                return self.mean
            case "attention":
                return self.looped
        raise GassipError(
            f"numpy has no matrix for the norm {norm!r}; write it in deploy/numpy_graph.py"
        )

    def matrix(self, op: str) -> sp.csr_array | None:
        """a S of operation `op`; None where it reads no edges."""
        operation = OPERATIONS[op]
        if operation.norm is None:
            return None
        matrix = self.normalised(operation.norm)
        if operation.scale == 1:
            return matrix
        if op not in self._scaled:
            parts = (np.float32(operation.scale) * matrix.data, matrix.indices, matrix.indptr)
            self._scaled[op] = sp.csr_array(parts, shape=matrix.shape)
        return self._scaled[op]

    @cached_property
    def _scaled(self) -> dict[str, sp.csr_array]:
        """a S by operation, made once."""
        return {}

    @cached_property
    def _interleaved(self) -> dict[str, sp.csr_array]:
        """`interleaved` of S by norm, made once."""
        return {}

    def whole(self, layer: Layer) -> "Step":
        """The step from all nodes to all nodes."""
        operation = layer.operation
        one_product = operation.commutes and not operation.iterates
        if not one_product or operation.matrices == 1 or layer.bias.size > NARROW:
            return Step(self.matrix(layer.op), slice(None))
        assert operation.norm is not None
        if operation.norm not in self._interleaved:
            self._interleaved[operation.norm] = interleaved(self.normalised(operation.norm))
        return Step(self._interleaved[operation.norm], slice(None), interleaved=True)

    @cached_property
    def near(self) -> tuple["Inputs", Array]:
        """The graph in an order in which neighbours lie close, and where each node stands in it.

        Reverse Cuthill-McKee, after Cuthill and McKee (1969): what a row of A gathers is then
        mostly in the cache.
        """
        from scipy.sparse.csgraph import reverse_cuthill_mckee

        order = reverse_cuthill_mckee(self.edges)
        place = np.empty_like(order)
        place[order] = np.arange(order.size, dtype=order.dtype)
        edges = take(self.edges, order)
        edges = sp.csr_array((edges.data, place[edges.indices], edges.indptr), shape=edges.shape)
        return Inputs(self.rows(order), canonical(edges)), place

    def rows(self, nodes: Array) -> Table:
        """x of some nodes."""
        return take(self.x, nodes) if isinstance(self.x, sp.csr_array) else self.x[nodes]


def interleaved(matrix: sp.csr_array) -> sp.csr_array:
    """[N, 2 N] that makes Σ_j a_ij P_j + Q_i of the rows P_0, Q_0, P_1, Q_1, ..."""
    nodes = matrix.shape[0]
    shape = (nodes, 2 * nodes)
    sent = sp.csr_array((matrix.data, 2 * matrix.indices, matrix.indptr), shape=shape)
    ends = np.arange(nodes + 1, dtype=np.int32)
    loops = sp.csr_array((np.ones(nodes, dtype=np.float32), 2 * ends[:-1] + 1, ends), shape=shape)
    return canonical(sent + loops)


class Step(NamedTuple):
    """One layer's way from its senders to its receivers; `own` is where the receivers stand among
    the senders."""

    matrix: sp.csr_array | None
    receivers: Array | slice
    interleaved: bool = False  # the matrix is that of `interleaved`


def field(inputs: Inputs, ops: Sequence[str], nodes: Array) -> tuple[Array, list[Step]]:
    """The nodes whose features the outputs of `nodes` need, and the steps from those to these."""
    steps: list[Step] = []
    for op in reversed(ops):
        matrix = inputs.matrix(op)
        if matrix is None:
            steps.append(Step(None, slice(None)))
            continue
        operation = OPERATIONS[op]
        if operation.iterates:
            local, senders = _reach(matrix, nodes, operation.steps)
        else:
            local, senders = _received(matrix, nodes)
        steps.append(Step(local, np.searchsorted(senders, nodes)))
        nodes = senders
    return nodes, steps[::-1]


def _received(matrix: sp.csr_array, nodes: Array) -> tuple[sp.csr_array, Array]:
    """The rows of some nodes over the columns of those and their senders, and which these are."""
    part = take(matrix, nodes)
    senders = np.unique(np.concatenate([part.indices, nodes]))
    columns = np.searchsorted(senders, part.indices).astype(part.indptr.dtype)
    return sp.csr_array(
        (part.data, columns, part.indptr), shape=(nodes.size, senders.size)
    ), senders


def _reach(matrix: sp.csr_array, nodes: Array, steps: int) -> tuple[sp.csr_array, Array]:
    """The square matrix over all within `steps` hops of some nodes.

    Rows of the outermost hop are empty: what they receive comes too late to reach the nodes.
    """
    for _ in range(steps - 1):
        wider = np.unique(np.concatenate([take(matrix, nodes).indices, nodes]))
        if wider.size == nodes.size:
            break
        nodes = wider
    part, all_of_them = _received(matrix, nodes)
    counts = np.zeros(all_of_them.size, dtype=np.int32)
    counts[np.searchsorted(all_of_them, nodes)] = np.diff(part.indptr)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    shape = (all_of_them.size, all_of_them.size)
    return sp.csr_array((part.data, part.indices, indptr), shape=shape), all_of_them
