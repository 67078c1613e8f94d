"""Predict from a run's folder with numpy and scipy alone: no torch, no PyG.

    h_0 = X,   h_l = o_l(norm(ReLU(h_{l-1}))),   labels = argmax h_L                  (space.py, ops.py)

    A·(H W) = (A·H) W: the narrower of the two goes over the edges; sums are accumulated in place, bias first
    A·(H W) + H V: H [W V] in one pass, then one matrix over its rows W_0, V_0, W_1, V_1, ... (`interleaved`)
    (H s + 1 t) W = [H 1] [s W; t W]: a column of ones carries the norm's shift through the weights (`filled`)
    exp LeakyReLU(s + t) = max(eˢ eᵗ, e^{.2 s} e^{.2 t}): exponentials of nodes, none of edges (`growth`)
    field of a set S of nodes:   S_L = S,   S_{l-1} = S_l ∪ senders to S_l   (K times for K steps of PageRank)

Widths are filled up to whole vector registers, and a full pass writes into the arrays of the one before (`Scratch`):
memory that is new costs more in page faults than the sums done in it. X and A are CSR, A normalised once per graph; a
query for a few nodes computes their field only, with the degrees of the whole graph, so it equals the full pass.

Shapes: N nodes, D features of x, d of them read, E directed edges, F width of a layer, C classes, H heads.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import local
from typing import NamedTuple, TypeAlias, get_args

import numpy as np
from scipy import sparse as sp

try:  # scipy's kernels behind `@` and `*`; a release that moves them makes the runtime slower, not wrong
    from scipy.sparse._sparsetools import csr_matvecs, csr_scale_columns, csr_scale_rows
except ImportError:
    csr_matvecs = None

from gassip.errors import GassipError
from gassip.store import MATRICES, PAGERANK, Precision, Tensors, read_meta, read_tensors, replace_file, unpack

NEGATIVE_SLOPE = 0.2  # of GATConv, as ops.py
EPSILON = 1e-5  # of batch norm, torch's
SAFE = (1e-20, 1e20)  # sums between these have lost nothing to underflow or overflow
LANES = 4  # floats of a vector register, as scipy is compiled; a width that is no multiple costs up to a third more
NARROW = 16  # width up to which one pass over both products of an operation pays
Array = np.ndarray
Table: TypeAlias = np.ndarray | sp.csr_array


@dataclass(frozen=True, eq=False, kw_only=True)
class Layer:
    """One operation with its weights; `scale` and `shift` are the norm in front of it, where there is one."""

    op: str
    weights: tuple[Array, ...]  # [in, F] each
    bias: Array  # [F]
    attention: Array | None = None  # [2, H, F / H], filled: [2, H, more]
    scale: Array | None = None  # [in]
    shift: Array | None = None  # [in]
    width: int = 0  # F before it was filled

    @cached_property
    def side_by_side(self) -> Array:
        """All its weights, [in, matrices · F]."""
        return np.concatenate(self.weights, axis=1)


def filled(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """The same net without norms and with widths that are multiples of LANES; the scores are its first C columns.

    A layer with a norm behind it puts out a column of ones by its bias; the other new columns are zeros. Attention has
    at least one new column per head, the last, in which `attend` sums up.
    """
    out: list[Layer] = []
    rows = 0
    for layer, after in zip(layers, [*layers[1:], None], strict=True):
        size, ones = layer.bias.size, int(after is not None and after.shift is not None)
        more = ones + -(size + ones) % LANES
        bias = np.concatenate([layer.bias, np.arange(more) < ones]).astype(np.float32)
        weights, attention = tuple(_behind_norm(layer, own, rows) for own in layer.weights), layer.attention
        if attention is None:
            weights = tuple(np.pad(own, ((0, 0), (0, more))) for own in weights)
        else:
            heads = attention.shape[1]
            weights = (_by_head(weights[0], heads),)
            attention = _by_head(attention.reshape(2, -1), heads).reshape(2, heads, -1)
        made = replace(layer, weights=weights, bias=bias, attention=attention, scale=None, shift=None, width=size)
        out.append(made)
        rows = more
    return tuple(out)


def _by_head(columns: Array, heads: int) -> Array:
    """Head after head with new columns of zeros behind each."""
    apart = columns.reshape(columns.shape[0], heads, -1)
    more = 1 + -(apart.shape[2] + 1) % LANES
    return np.pad(apart, ((0, 0), (0, 0), (0, more))).reshape(columns.shape[0], -1)


def _behind_norm(layer: Layer, weight: Array, rows: int) -> Array:
    """[s W; t W; 0] for an input that is `rows` wider, its first new column of ones."""
    whole = np.pad(weight, ((0, rows), (0, 0)))
    if layer.scale is not None and layer.shift is not None:
        whole[: weight.shape[0]] *= layer.scale[:, None]
        whole[weight.shape[0]] = layer.shift @ weight
    return whole


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


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a net reads of a graph: the needed columns of x, and weighted edges; normalisations are made once."""

    x: Table  # [N, d]
    edges: sp.csr_array  # [N, N], row = receiver; no self-loops, no weight 0

    @cached_property
    def degree(self) -> Array:
        """Σ_j m_ij, [N]."""
        return _row_sums(self.edges.indptr, self.edges.data)

    @cached_property
    def looped(self) -> sp.csr_array:
        """The edges and, with weight 1, every node itself."""
        return _canonical(self.edges + sp.eye_array(self.edges.shape[0], dtype=np.float32, format="csr"))

    @cached_property
    def gcn(self) -> sp.csr_array:
        """m_ij / √(d_i d_j) over edges and nodes themselves, d counting the node itself."""
        return _scaled(self.looped, 1 / np.sqrt(1 + self.degree), both=True)

    @cached_property
    def arma(self) -> sp.csr_array:
        """m_ij / √(d_i d_j), d not counting the node itself; 0 where d is 0."""
        return _scaled(self.edges, 1 / np.sqrt(np.where(self.degree > 0, self.degree, np.inf)), both=True)

    @cached_property
    def mean(self) -> sp.csr_array:
        """m_ij / Σ_j m_ij; 0 where the sum is 0."""
        return _scaled(self.edges, 1 / np.where(self.degree > 0, self.degree, np.inf), both=False)

    def matrix(self, op: str) -> sp.csr_array | None:
        """What operation `op` multiplies by; for attention, the pattern that its shares fill."""
        match op:
            case "GCNConv":
                return self.gcn
            case "ArmaConv":
                return self.arma
            case "SAGEConv":
                return self.mean
            case "GATConv":
                return self.looped
            case _ if op in PAGERANK:
                return self.pagerank[op]
        return None

    @cached_property
    def pagerank(self) -> dict[str, sp.csr_array]:
        """(1 - t) times the matrix of GCNConv, by operation."""
        gcn = self.gcn
        made = {op: (np.float32(1 - t) * gcn.data, gcn.indices, gcn.indptr) for op, (_, t) in PAGERANK.items()}
        return {op: sp.csr_array(parts, shape=gcn.shape) for op, parts in made.items()}

    @cached_property
    def arma_and_own(self) -> sp.csr_array:
        return interleaved(self.arma)

    @cached_property
    def mean_and_own(self) -> sp.csr_array:
        return interleaved(self.mean)

    def whole(self, layer: Layer) -> "Step":
        """The step from all nodes to all nodes."""
        if len(layer.weights) == 1 or layer.bias.size > NARROW:
            return Step(self.matrix(layer.op), slice(None))
        matrix = self.arma_and_own if layer.op == "ArmaConv" else self.mean_and_own
        return Step(matrix, slice(None), interleaved=True)

    @cached_property
    def near(self) -> tuple["Inputs", Array]:
        """The graph in an order in which neighbours lie close, and where each node stands in it.

        Reverse Cuthill-McKee, after Cuthill and McKee (1969): what a row of A gathers is then mostly in the cache.
        """
        from scipy.sparse.csgraph import reverse_cuthill_mckee

        order = reverse_cuthill_mckee(self.edges)
        place = np.empty_like(order)
        place[order] = np.arange(order.size, dtype=order.dtype)
        edges = _take(self.edges, order)
        edges = sp.csr_array((edges.data, place[edges.indices], edges.indptr), shape=edges.shape)
        return Inputs(self.rows(order), _canonical(edges)), place

    def rows(self, nodes: Array) -> Table:
        """x of some nodes."""
        return _take(self.x, nodes) if isinstance(self.x, sp.csr_array) else self.x[nodes]


def interleaved(matrix: sp.csr_array) -> sp.csr_array:
    """[N, 2 N] that makes Σ_j a_ij P_j + Q_i of the rows P_0, Q_0, P_1, Q_1, ..."""
    nodes = matrix.shape[0]
    shape = (nodes, 2 * nodes)
    sent = sp.csr_array((matrix.data, 2 * matrix.indices, matrix.indptr), shape=shape)
    ends = np.arange(nodes + 1, dtype=np.int32)
    own = sp.csr_array((np.ones(nodes, dtype=np.float32), 2 * ends[:-1] + 1, ends), shape=shape)
    return _canonical(sent + own)


class Step(NamedTuple):
    """One layer's way from its senders to its receivers; `own` is where the receivers stand among the senders."""

    matrix: sp.csr_array | None
    own: Array | slice
    interleaved: bool = False  # the matrix is that of `interleaved`


def field(inputs: Inputs, ops: Sequence[str], nodes: Array) -> tuple[Array, list[Step]]:
    """The nodes whose features the outputs of `nodes` need, and the steps from those to these."""
    steps: list[Step] = []
    for op in reversed(ops):
        matrix = inputs.matrix(op)
        if matrix is None:
            steps.append(Step(None, slice(None)))
            continue
        far = op in PAGERANK
        local, senders = _reach(matrix, nodes, PAGERANK[op][0]) if far else _received(matrix, nodes)
        steps.append(Step(local, np.searchsorted(senders, nodes)))
        nodes = senders
    return nodes, steps[::-1]


def _received(matrix: sp.csr_array, nodes: Array) -> tuple[sp.csr_array, Array]:
    """The rows of some nodes over the columns of those and their senders, and which these are."""
    part = _take(matrix, nodes)
    senders = np.unique(np.concatenate([part.indices, nodes]))
    columns = np.searchsorted(senders, part.indices).astype(part.indptr.dtype)
    return sp.csr_array((part.data, columns, part.indptr), shape=(nodes.size, senders.size)), senders


def _reach(matrix: sp.csr_array, nodes: Array, steps: int) -> tuple[sp.csr_array, Array]:
    """The square matrix over all within `steps` hops of some nodes.

    Rows of the outermost hop are empty: what they receive comes too late to reach the nodes.
    """
    for _ in range(steps - 1):
        wider = np.unique(np.concatenate([_take(matrix, nodes).indices, nodes]))
        if wider.size == nodes.size:
            break
        nodes = wider
    part, all_of_them = _received(matrix, nodes)
    counts = np.zeros(all_of_them.size, dtype=np.int32)
    counts[np.searchsorted(all_of_them, nodes)] = np.diff(part.indptr)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    shape = (all_of_them.size, all_of_them.size)
    return sp.csr_array((part.data, part.indices, indptr), shape=shape), all_of_them


@dataclass(frozen=True, eq=False)
class Sums:
    """Products, and where they are written."""

    room: Room = fresh

    def accumulate(self, out: Array, left: Table, right: Array) -> None:
        """out += left·right. scipy's own `@` zeroes a new array first, and the sum would then be a second pass."""
        if isinstance(left, sp.csr_array) and csr_matvecs is not None:
            right = np.ascontiguousarray(right, dtype=np.float32)
            sizes = (*left.shape, right.shape[1])
            csr_matvecs(*sizes, left.indptr, left.indices, left.data, right.ravel(), out.ravel())
        elif isinstance(left, sp.csr_array):
            out += left @ right
        else:
            out += np.matmul(left, right, out=self.room("addend", *out.shape))

    def product(self, left: Table, right: Array, name: str = "product") -> Array:
        """left·right, [rows of left, columns of right]."""
        out = self.room(name, left.shape[0], right.shape[1])
        if not isinstance(left, sp.csr_array):
            return np.matmul(left, right, out=out)
        out.fill(0)
        self.accumulate(out, left, right)
        return out


PLAIN = Sums()


def apply(layer: Layer, h: Table, step: Step, sums: Sums = PLAIN) -> Array:
    """o(h) of the step's receivers, [R, F]."""
    matrix, own, both = step
    mine = h if isinstance(own, slice) else h[own]
    out = sums.room("out", mine.shape[0], layer.bias.size)
    out[:] = layer.bias
    if both:
        products = sums.product(h, layer.side_by_side)
        sums.accumulate(out, matrix, products.reshape(-1, layer.bias.size))
        return out
    if len(layer.weights) == 2:
        sums.accumulate(out, mine, layer.weights[1])
    if matrix is None:
        sums.accumulate(out, h, layer.weights[0])
    elif layer.attention is not None:
        attend(out, layer, sums.product(h, layer.weights[0]), step, sums)
    elif layer.op in PAGERANK and layer.weights[0].shape[0] < layer.weights[0].shape[1] and not sp.issparse(h):
        sums.accumulate(out, personalised(layer.op, h, matrix, sums)[own], layer.weights[0])
    elif layer.op in PAGERANK:
        out += personalised(layer.op, sums.product(h, layer.weights[0]), matrix, sums)[own]
    elif layer.weights[0].shape[0] < layer.weights[0].shape[1] and not sp.issparse(h):
        sums.accumulate(out, sums.product(matrix, h), layer.weights[0])
    else:
        sums.accumulate(out, matrix, sums.product(h, layer.weights[0]))
    return out


def personalised(op: str, start: Array, matrix: sp.csr_array, sums: Sums) -> Array:
    """Z_K of Z_0 = P, Z_{k+1} = (1 - t) Â Z_k + t P; the matrix is (1 - t) Â."""
    steps, teleport = PAGERANK[op]
    back = np.multiply(start, np.float32(teleport), out=sums.room("back", *start.shape))
    z = start
    for k in range(steps):
        following = sums.room(f"z{k % 2}", *start.shape)
        following[:] = back
        sums.accumulate(following, matrix, z)
        z = following
    return z


def attend(out: Array, layer: Layer, products: Array, step: Step, sums: Sums) -> None:
    """out += Σ_j a_ij P_j, a_ij ∝ m_ij exp LeakyReLU(s·P_j + t·P_i), head by head; the layer is filled.

    The last column of a head becomes ones, so that one product gives the sums and what they are divided by.
    """
    matrix, own, _ = step
    assert layer.attention is not None and matrix is not None
    heads, filled_width = layer.attention.shape[1:]
    for head in range(heads):
        part = np.ascontiguousarray(products[:, head * filled_width : (head + 1) * filled_width])
        sender, receiver = np.ascontiguousarray((part @ layer.attention[:, head].T).T)
        part[:, -1] = 1
        summed = sums.product(growth(sender, receiver[own], matrix, sums), part, "head")
        if not (SAFE[0] < summed[:, -1].min() and summed[:, -1].max() < SAFE[1]):
            summed = sums.product(safe_growth(sender, receiver[own], matrix), part, "head")
        width = layer.width // heads
        shares = summed[:, :width]
        np.divide(shares, summed[:, -1:], out=shares)
        out[:, head * width : (head + 1) * width] += shares


def growth(sender: Array, receiver: Array, matrix: sp.csr_array, sums: Sums) -> sp.csr_array:
    """m_ij exp LeakyReLU(s_j + t_i), each row up to a factor: m_ij max(e^{s_j - c}, e^{.2 (s_j - c)} e^{-.8 (t_i + c)})

    with c = max s. Where the numbers of a graph lie so far apart that this is not safe, its caller sees it.
    """
    if csr_matvecs is None:
        return safe_growth(sender, receiver, matrix)
    top, slope = sender.max(), np.float32(NEGATIVE_SLOPE)
    with np.errstate(over="ignore"):
        turn = np.exp((slope - 1) * (receiver + top))
    above, below = sums.room("above", 1, matrix.nnz)[0], sums.room("below", 1, matrix.nnz)[0]
    pattern = (*matrix.shape, matrix.indptr, matrix.indices)
    above[:] = below[:] = matrix.data
    csr_scale_columns(*pattern, above, np.exp(sender - top))
    csr_scale_columns(*pattern, below, np.exp(slope * (sender - top)))
    with np.errstate(invalid="ignore"):
        csr_scale_rows(*pattern, below, turn)
        return sp.csr_array((np.maximum(above, below, out=above), matrix.indices, matrix.indptr), shape=matrix.shape)


def safe_growth(sender: Array, receiver: Array, matrix: sp.csr_array) -> sp.csr_array:
    """The same with the largest of each row at e^0, whatever the numbers; several times slower."""
    counts = np.diff(matrix.indptr)
    logit = sender[matrix.indices] + np.repeat(receiver, counts)
    logit = np.maximum(logit, NEGATIVE_SLOPE * logit)
    # every row holds the node itself, so none is empty and reduceat is safe
    grown = matrix.data * np.exp(logit - np.repeat(np.maximum.reduceat(logit, matrix.indptr[:-1]), counts))
    return sp.csr_array((grown, matrix.indices, matrix.indptr), shape=matrix.shape)


@dataclass(frozen=True, eq=False, kw_only=True)
class Model:
    """A trained net, and the graph it was trained on where the folder holds it. Made by `load`."""

    layers: tuple[Layer, ...]
    class_names: tuple[str, ...]
    features: int  # D, of the graph it was trained on
    feature_index: Array | None  # [d], the columns of x it reads; None: all
    undirected: bool  # how that graph was made ready, which is done to others too
    normalize: bool
    edges_total: int  # of that graph, before any were removed
    edges: sp.csr_array  # [N, N], the ones kept
    x: Table | None  # [N, d]
    y: Array | None = None  # [N], -1 where unlabelled
    test_mask: Array | None = None  # [N]
    ids: tuple[str, ...] | None = None  # what the user calls the nodes; None: their numbers
    reorder: bool = False  # full passes in an order of the nodes in which neighbours lie close

    def scores(
        self,
        x: Table | None = None,
        edge_index: Array | None = None,
        edge_weight: Array | None = None,
        *,
        nodes: Array | Sequence[int] | None = None,
    ) -> Array:
        """Class scores [N, C] on a graph, or on the one of the run; of some `nodes` only, in their order."""
        if (x is None) != (edge_index is None) or (x is None and edge_weight is not None):
            raise GassipError("x and edge_index come together: give both, or neither for the graph of the run")
        inputs = self.stored if x is None or edge_index is None else self.prepare(x, edge_index, edge_weight)
        return self.run(inputs, nodes)

    def predict_proba(
        self,
        x: Table | None = None,
        edge_index: Array | None = None,
        edge_weight: Array | None = None,
        *,
        nodes: Array | Sequence[int] | None = None,
    ) -> Array:
        """Class probabilities [N, C], the arguments as for `scores`."""
        return softmax(self.scores(x, edge_index, edge_weight, nodes=nodes))

    def predict(
        self,
        x: Table | None = None,
        edge_index: Array | None = None,
        edge_weight: Array | None = None,
        *,
        nodes: Array | Sequence[int] | None = None,
    ) -> Array:
        """The number of the most probable class, [N]; `class_names` has the names."""
        return self.scores(x, edge_index, edge_weight, nodes=nodes).argmax(1)

    def run(self, inputs: Inputs, nodes: Array | Sequence[int] | None = None) -> Array:
        """Class scores on a prepared graph; for some `nodes` only their field is computed."""
        if nodes is None:
            whole, place = inputs.near if self.reorder else (inputs, None)
            scores = self._forward(whole.x, [whole.whole(layer) for layer in self.layers], self._scratch)
            return scores.copy() if place is None else np.take(scores, place, axis=0)
        wanted, order = np.unique(_nodes(nodes, inputs.x.shape[0]), return_inverse=True)
        read, steps = field(inputs, [layer.op for layer in self.layers], wanted)
        return self._forward(inputs.rows(read), steps)[order]

    def _forward(self, h: Table, steps: Sequence[Step], scratch: Room = fresh) -> Array:
        for at, (layer, step) in enumerate(zip(self._filled, steps, strict=True)):
            h = np.maximum(h, 0, out=h) if at else h
            own = Sums(lambda name, *shape, at=at: scratch(f"{at} {name}", *shape))
            h = apply(layer, h, step, own)
        return h[:, : len(self.class_names)]

    @cached_property
    def _filled(self) -> tuple[Layer, ...]:
        return filled(self.layers)

    @cached_property
    def _scratch(self) -> Scratch:
        return Scratch()

    @cached_property
    def stored(self) -> Inputs:
        """The graph of the run."""
        if self.x is None:
            raise GassipError(
                "the run was saved without its inputs; give the graph: --data PATH, or predict(x, edge_index)"
            )
        return Inputs(self.x, self.edges)

    def prepare(self, x: Table, edge_index: Array, edge_weight: Array | None = None) -> Inputs:
        """Another graph, checked and made ready as the one of the run was; that one itself gets its kept edges."""
        table = self._table(x)
        edges = clean_edges(edge_index, edge_weight, table.shape[0], self.undirected)
        return Inputs(table, self.edges if self._is_own(table, edges) else edges)

    def extend(self, x: Table, edge_index: Array, edge_weight: Array | None = None) -> "Model":
        """The model on the run's graph with nodes and edges added: new nodes follow the old ones in number.

        `x` [new, D] may have no rows. An edge that is there already keeps its weight.
        """
        old, new = self.stored, self._table(x) if x.shape[0] else self.stored.x[:0]
        nodes = old.x.shape[0] + new.shape[0]
        more = clean_edges(edge_index, edge_weight, nodes, self.undirected)
        ours = sp.csr_array(self.edges, copy=True)
        ours.resize((nodes, nodes))
        present = sp.csr_array((np.ones_like(ours.data), ours.indices, ours.indptr), shape=ours.shape)
        more = more - more.multiply(present)
        sparse = isinstance(old.x, sp.csr_array)
        x = sp.vstack([old.x, sp.csr_array(new)], format="csr") if sparse else np.concatenate([old.x, _dense(new)])
        return replace(self, x=x, edges=_canonical(ours + more), y=None, test_mask=None, ids=None)

    def _table(self, x: Table) -> Table:
        """The columns that are read, finite, as float32; CSR stays CSR."""
        table = sp.csr_array(x) if sp.issparse(x) else np.asarray(x)
        if len(table.shape) != 2 or table.dtype.kind not in "fiub" or table.shape[0] == 0:
            raise GassipError(f"x must be a table of numbers [nodes, features], not {table.dtype} {list(table.shape)}")
        if table.shape[1] != self.features:
            raise GassipError(f"x has {table.shape[1]} features; the run's graph has {self.features}")
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and is refused as such
            table = table.astype(np.float32)
        if not np.isfinite(table.data if sp.issparse(table) else table).all():
            raise GassipError("x has values that are NaN or infinite; fill or drop them")
        if self.normalize:
            table = _normalized(table)
        return table if self.feature_index is None else table[:, self.feature_index]

    def _is_own(self, x: Table, edges: sp.csr_array) -> bool:
        """Whether this is the graph of the run, whole: its size, what it reads of x, and the kept edges among all."""
        if edges.shape != self.edges.shape or edges.nnz != self.edges_total:
            return False
        if np.diff((_pattern(edges) - _pattern(self.edges)).indptr).sum() != edges.nnz - self.edges.nnz:
            return False
        return self.x is None or bool(np.allclose(_dense_sum(x - self.x), 0, atol=1e-5))


def softmax(scores: Array) -> Array:
    grown = np.exp(scores.astype(np.float64) - scores.max(1, keepdims=True))
    return grown / grown.sum(1, keepdims=True)


def load(folder: str | Path, *, precision: Precision | None = None, reorder: bool = False) -> Model:
    """Read and check a run's folder, or what `gassip export --format runtime` wrote.

    `precision` rounds the weights as that format would; None takes them as they are stored.
    `reorder` pays where there will be hundreds of full passes over a large graph: it makes the first one slower.
    """
    folder = Path(folder)
    meta = read_meta(folder)
    model = read_tensors(folder, "model.safetensors", meta)
    graph = read_tensors(folder, "graph.safetensors", meta)
    inputs = read_tensors(folder, "inputs.safetensors", meta) if "inputs.safetensors" in meta["files"] else {}
    try:
        layers = layers_of(meta["architecture"], unpack(model, meta, precision), len(meta["class_names"]))
        index = _feature_index(model.get("feature_index"), meta["features"])
        x = _stored_x(inputs, meta["nodes"], layers[0].weights[0].shape[0])
        edges = _stored_edges(graph, meta["nodes"])
    except KeyError as error:
        raise GassipError(f"{folder}: the run is not complete: {error.args[0]} is missing") from error
    except (GassipError, ValueError, IndexError) as error:
        raise GassipError(f"{folder}: the run does not fit itself: {error}") from error
    width = meta["features"] if index is None else index.size
    if layers[0].weights[0].shape[0] != width:
        raise GassipError(f"{folder}: the first layer reads {layers[0].weights[0].shape[0]} features, x has {width}")
    ids = inputs.get("ids")
    return Model(
        layers=layers,
        class_names=tuple(meta["class_names"]),
        features=meta["features"],
        feature_index=index,
        undirected=bool(meta["source"].get("undirected")),
        normalize=bool(meta["source"].get("normalize")),
        edges_total=meta["edges_total"],
        edges=edges,
        x=x,
        y=inputs.get("y"),
        test_mask=inputs.get("test_mask", graph.get("test_mask")),
        ids=None if ids is None else tuple(json.loads(ids.tobytes())),
        reorder=reorder,
    )


def layers_of(ops: Sequence[str], state: Tensors, classes: int) -> tuple[Layer, ...]:
    """The layers of a net from its parameters by name."""
    layers: list[Layer] = []
    width = state["layers.0.weight"].shape[0]
    for at, op in enumerate(ops):
        weight, bias = state[f"layers.{at}.weight"], state[f"layers.{at}.bias"].reshape(-1)
        if weight.shape != (width, MATRICES[op] * bias.size) or not bias.size:
            raise GassipError(f"layer {at}, {op}, has weights {list(weight.shape)} behind width {width}")
        attention = state[f"layers.{at}.attention"] if op == "GATConv" else None
        if attention is not None and (
            attention.ndim != 3 or attention.shape[0] != 2 or attention.size != 2 * bias.size
        ):
            raise GassipError(f"layer {at}, {op}, has attention {list(attention.shape)} for width {bias.size}")
        parts = tuple(np.ascontiguousarray(part) for part in np.split(weight, MATRICES[op], axis=1))
        scale, shift = _norm(state, at - 1) if at and f"norms.{at - 1}.weight" in state else (None, None)
        layers.append(Layer(op=op, weights=parts, bias=bias, attention=attention, scale=scale, shift=shift))
        width = bias.size
    if width != classes:
        raise GassipError(f"the last layer has {width} outputs for {classes} classes")
    return tuple(layers)


def _norm(state: Tensors, at: int) -> tuple[Array, Array]:
    """Batch norm by its running mean and variance: h · scale + shift."""
    mean, variance = state[f"norms.{at}.running_mean"], state[f"norms.{at}.running_var"]
    scale = state[f"norms.{at}.weight"] / np.sqrt(variance + np.float32(EPSILON))
    return scale, state[f"norms.{at}.bias"] - mean * scale


def _feature_index(index: Array | None, features: int) -> Array | None:
    if index is not None and (index.ndim != 1 or (index < 0).any() or (index >= features).any()):
        raise GassipError(f"feature_index names columns outside 0..{features - 1}")
    return index


def _stored_x(inputs: Tensors, nodes: int, width: int) -> Table | None:
    if "x" in inputs:
        if inputs["x"].shape != (nodes, width):
            raise GassipError(f"x is {list(inputs['x'].shape)}, not {[nodes, width]}")
        return inputs["x"]
    if "x_data" in inputs:
        return _csr(inputs["x_data"], inputs["x_indices"], inputs["x_indptr"], (nodes, width))
    return None


def _stored_edges(graph: Tensors, nodes: int) -> sp.csr_array:
    if "edge_index" in graph:  # of a run's folder, sorted by receiver
        sender, receiver = graph["edge_index"]
        if (receiver < 0).any() or (np.diff(receiver) < 0).any():
            raise GassipError("edge_index is not sorted by receiver")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(receiver, minlength=nodes))])
    else:
        sender, indptr = graph["sender"], graph["indptr"]
    weight = graph["edge_weight"] if "edge_weight" in graph else np.ones(sender.size, dtype=np.float32)
    edges = _csr(weight, sender, indptr, (nodes, nodes))
    return _canonical(edges) if (weight == 0).any() else edges


def _csr(data: Array, indices: Array, indptr: Array, shape: tuple[int, int]) -> sp.csr_array:
    """scipy trusts these arrays and reads out of bounds where they lie, so they are checked first."""
    rises = indptr.shape == (shape[0] + 1,) and indptr[0] == 0 and bool((np.diff(indptr) >= 0).all())
    inside = indices.size == 0 or (int(indices.min()) >= 0 and int(indices.max()) < shape[1])
    if not rises or not inside or indptr[-1] != indices.size or data.shape != indices.shape:
        raise GassipError(f"a sparse table does not have the shape {list(shape)}")
    return sp.csr_array((data, indices.astype(np.int32), indptr.astype(np.int32)), shape=shape)


# Edges and tables


def clean_edges(edge_index: Array, weight: Array | None, nodes: int, undirected: bool) -> sp.csr_array:
    """As graph.py: self-loops dropped, repeats merged (given weights summed), reversed where the run's graph was."""
    ends = np.asarray(edge_index)
    if ends.ndim != 2 or ends.shape[0] != 2 or ends.dtype.kind not in "iu":
        raise GassipError(f"edge_index must be whole numbers of shape [2, edges], not {ends.dtype} {list(ends.shape)}")
    if ends.size and not 0 <= int(ends.min()) <= int(ends.max()) < nodes:
        raise GassipError(f"edge_index refers to nodes {ends.min()}..{ends.max()}; there are only 0..{nodes - 1}")
    value = np.ones(ends.shape[1], dtype=np.float32) if weight is None else np.asarray(weight, np.float32).reshape(-1)
    if value.size != ends.shape[1] or not np.isfinite(value).all() or (value < 0).any():
        raise GassipError(f"edge_weight must hold {ends.shape[1]} numbers of 0 or more, one for each edge")
    apart = ends[0] != ends[1]
    edges = sp.csr_array((value[apart], (ends[1][apart], ends[0][apart])), shape=(nodes, nodes))
    edges = edges.maximum(edges.T) if undirected else edges
    edges = _canonical(edges)
    return _pattern(edges) if weight is None else edges


def _canonical(matrix: sp.csr_array) -> sp.csr_array:
    """Rows sorted, repeats summed, zeros dropped, float32 and int32."""
    out = sp.csr_array(matrix, dtype=np.float32)
    out.sum_duplicates()
    out.eliminate_zeros()
    indices, indptr = out.indices.astype(np.int32), out.indptr.astype(np.int32)
    return sp.csr_array((out.data, indices, indptr), shape=out.shape)


def _pattern(matrix: sp.csr_array) -> sp.csr_array:
    return sp.csr_array((np.ones_like(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape)


def _row_sums(indptr: Array, data: Array) -> Array:
    return np.bincount(np.repeat(np.arange(indptr.size - 1), np.diff(indptr)), data, indptr.size - 1).astype(np.float32)


def _scaled(matrix: sp.csr_array, factor: Array, *, both: bool) -> sp.csr_array:
    """m_ij f_i, and f_j where `both`; inf as a divisor has made f 0."""
    value = matrix.data * np.repeat(factor.astype(np.float32), np.diff(matrix.indptr))
    if both:
        value *= factor.astype(np.float32)[matrix.indices]
    return sp.csr_array((value, matrix.indices, matrix.indptr), shape=matrix.shape)


def _take(matrix: sp.csr_array, rows: Array) -> sp.csr_array:
    """Some rows; scipy's own indexing costs several times as much for a few of them."""
    first = matrix.indptr[rows]
    counts = matrix.indptr[rows + 1] - first
    indptr = np.zeros(rows.size + 1, dtype=np.int32)
    np.cumsum(counts, out=indptr[1:])
    at = np.arange(indptr[-1]) + np.repeat(first - indptr[:-1], counts)
    return sp.csr_array((matrix.data[at], matrix.indices[at], indptr), shape=(rows.size, matrix.shape[1]))


def _normalized(x: Table) -> Table:
    """Each row divided by the sum of its absolute values; empty rows stay zero."""
    if isinstance(x, sp.csr_array):
        return _scaled(x, 1 / np.maximum(_row_sums(x.indptr, np.abs(x.data)), 1e-12), both=False)
    return x / np.maximum(np.abs(x).sum(1, keepdims=True), 1e-12)


def _dense(x: Table) -> Array:
    return x.toarray() if isinstance(x, sp.csr_array) else x


def _dense_sum(difference: Table) -> Array:
    """The values of a difference; of a sparse one those stored."""
    return np.asarray(difference.data if sp.issparse(difference) else difference)


def _nodes(nodes: Array | Sequence[int], count: int) -> Array:
    wanted = np.atleast_1d(np.asarray(nodes))
    if wanted.ndim != 1 or wanted.size == 0 or wanted.dtype.kind not in "iu":
        raise GassipError("nodes must be some whole numbers, one per node asked for")
    if wanted.min() < 0 or wanted.max() >= count:
        raise GassipError(f"node {wanted.max() if wanted.max() >= count else wanted.min()} is not among 0..{count - 1}")
    return wanted


# python -m gassip.runtime


def main(argv: Sequence[str] | None = None) -> int:
    from gassip.commands.common import Parser, fail

    parser = Parser(prog="python -m gassip.runtime", description="Label nodes from a run, without torch.")
    parser.add_argument("folder", metavar="RUN", help="folder that `gassip search` or `gassip export` wrote")
    parser.add_argument("--data", metavar="PATH", help="another graph: .npz, or folder with nodes.csv and edges.csv")
    parser.add_argument("--out", metavar="FILE", required=True, help="CSV to write: id, label, probability")
    parser.add_argument(
        "--precision", choices=get_args(Precision), help="round the weights first, and say at what cost"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace FILE where it exists")
    args = parser.parse_args(argv)
    try:
        label(Path(args.folder), args.data, Path(args.out), args.precision, args.overwrite)
    except GassipError as error:
        return fail(str(error))
    except OSError as error:
        return fail(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error))
    except MemoryError as error:
        return fail(f"out of memory ({error})")
    return 0


def label(folder: Path, data: str | None, out: Path, precision: Precision | None, overwrite: bool) -> None:
    """Write the labels of the run's nodes, or of those of `data`, and say what a lower precision costs."""
    if out.exists() and not overwrite:
        raise GassipError(f"{out} exists; choose another --out, or --overwrite to replace it")
    model = load(folder, precision=precision)
    inputs, ids = _to_label(model, data)
    share = softmax(model.run(inputs))
    best = share.argmax(1)
    replace_file(out, _csv(ids, [model.class_names[k] for k in best], share.max(1)).encode())
    print(f"written to {out}: {best.size} nodes")
    if precision not in (None, "float32"):
        print(cost(precision, best, load(folder).run(inputs).argmax(1), model if data is None else None))


def _to_label(model: Model, data: str | None) -> tuple[Inputs, Sequence[str]]:
    from gassip.files import naming, read_inputs, row_numbers

    if data is None:
        return model.stored, model.ids or row_numbers(model.edges.shape[0])
    parts = read_inputs(data)
    with naming(data):
        return model.prepare(parts.x, parts.edge_index, parts.edge_weight), parts.node_ids()


def cost(precision: str, rounded: Array, whole: Array, known: Model | None) -> str:
    """Labels that differ from float32's, and both accuracies where the test nodes are known."""
    differ = int((rounded != whole).sum())
    text = f"{precision} against float32: {differ} of {whole.size} labels differ ({differ / whole.size:.2%})"
    if known is None or known.y is None or known.test_mask is None or not known.test_mask.any():
        return text
    y, test = known.y[known.test_mask], known.test_mask
    return f"{text}; test accuracy {np.mean(rounded[test] == y):.4f}, float32 {np.mean(whole[test] == y):.4f}"


def _csv(ids: Sequence[str], names: Sequence[str], share: Array) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("id", "label", "probability"))
    writer.writerows((i, name, f"{p:.6f}") for i, name, p in zip(ids, names, share.tolist(), strict=True))
    return text.getvalue()


if __name__ == "__main__":
    sys.exit(main())
