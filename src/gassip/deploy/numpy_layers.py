"""The layers of a net in numpy and scipy: what gassip.runtime runs.

    h_0 = X,   h_l = o_l(norm(ReLU(h_{l-1}))),   labels = argmax h_L

    o_l: Z_K + P_2 of operations.py, or its sum over hops

    A·(H W) = (A·H) W: the narrower of the two goes over the edges; sums are accumulated in place,
        bias first
    A·(H W) + H V: H [W V] in one pass, then one matrix over its rows W_0, V_0, W_1, V_1, ...
        (`interleaved`)
    (H s + 1 t) W = [H 1] [s W; t W]: a column of ones carries the norm's shift through the weights
        (`filled`)
    exp LeakyReLU(s + t) = max(eˢ eᵗ, e^{.2 s} e^{.2 t}): exponentials of nodes, none of edges
        (`growth`)
    field of a set S of nodes:   S_L = S,   S_{l-1} = S_l ∪ senders to S_l   (K times for K steps)

Widths are filled up to whole vector registers, and a full pass writes into the arrays of the one
before (`Scratch`): memory that is new costs more in page faults than the sums done in it. X and A
are CSR, A normalised once per graph; a query for a few nodes computes their field only, with the
degrees of the whole graph, so it equals the full pass.

Shapes: N nodes, d features that are read, E directed edges, F width of a layer, H heads, R
receivers of a step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import local
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import sparse as sp

# scipy's kernels behind `@` and `*`; a release that moves them makes the runtime slower, not wrong
try:
    from scipy.sparse._sparsetools import csr_matvecs, csr_scale_columns, csr_scale_rows
except ImportError:
    csr_matvecs = None

from gassip.errors import GassipError
from gassip.graph.checks import Array, Table, canonical, row_sums, scaled, take
from gassip.operations import OPERATIONS, PRIOR_WEIGHT, SPREAD, Operation
from gassip.runs.format import Tensors

NEGATIVE_SLOPE = 0.2  # of attention, as nn/propagate.py
EPSILON = 1e-5  # of batch norm, torch's
SAFE = (1e-20, 1e20)  # sums between these have lost nothing to underflow or overflow
# floats of a vector register, as scipy is compiled; a width that is no multiple costs up to a third
# more
LANES = 4
NARROW = 16  # width up to which one pass over both products of an operation pays
UNSHARED = 2**18  # multiply-adds up to which BLAS keeps to the thread that calls it


@dataclass(frozen=True, eq=False, kw_only=True)
class Layer:
    """One operation with its weights; `scale` and `shift` are the norm in front of it, where there
    is one."""

    op: str
    weights: tuple[Array, ...]  # [in, F] each
    bias: Array  # [F]
    attention: Array | None = None  # [2, H, F / H], filled: [2, H, more]
    scale: Array | None = None  # [in]
    shift: Array | None = None  # [in]
    width: int = 0  # F before it was filled

    @property
    def operation(self) -> Operation:
        return OPERATIONS[self.op]

    @cached_property
    def side_by_side(self) -> Array:
        """All its weights, [in, matrices · F]."""
        return np.concatenate(self.weights, axis=1)


def standardised(layer: Layer, x: Table) -> Table:
    """x as the first layer reads it: x · scale + shift, if it has these."""
    if layer.scale is None or layer.shift is None:
        return x
    dense = x.toarray() if isinstance(x, sp.csr_array) else x
    return dense * layer.scale + layer.shift


def filled(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """The same net without norms and with widths that are multiples of LANES; the scores are its
    first C columns.

    A layer with a norm behind it puts out a column of ones by its bias; the other new columns are
    zeros. Attention has at least one new column per head, the last, in which `attend` sums up.
    """
    first = replace(layers[0], scale=None, shift=None)  # of x: `standardised`
    layers, out, rows = (first, *layers[1:]), [], 0
    for layer, after in zip(layers, [*layers[1:], None], strict=True):
        size, ones = layer.bias.size, int(after is not None and after.shift is not None)
        more = ones + -(size + ones) % LANES
        bias = np.concatenate([layer.bias, np.arange(more) < ones]).astype(np.float32)
        weights, attention = (
            tuple(_behind_norm(layer, weight, rows) for weight in layer.weights),
            layer.attention,
        )
        if attention is None:
            weights = tuple(np.pad(weight, ((0, 0), (0, more))) for weight in weights)
        else:
            heads = attention.shape[1]
            own_weights = (np.pad(weight, ((0, 0), (0, more))) for weight in weights[1:])
            weights = (_by_head(weights[0], heads), *own_weights)
            attention = _by_head(attention.reshape(2, -1), heads).reshape(2, heads, -1)
        made = replace(
            layer,
            weights=weights,
            bias=bias,
            attention=attention,
            scale=None,
            shift=None,
            width=size,
        )
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


def layers_of(ops: Sequence[str], state: Tensors, classes: int) -> tuple[Layer, ...]:
    """The layers of a net from its parameters by name."""
    layers: list[Layer] = []
    width = state["layers.0.weight"].shape[0]
    for at, op in enumerate(ops):
        weight, bias = state[f"layers.{at}.weight"], state[f"layers.{at}.bias"].reshape(-1)
        matrices = OPERATIONS[op].matrices
        if weight.shape != (width, matrices * bias.size) or not bias.size:
            raise GassipError(
                f"layer {at}, {op}, has weights {list(weight.shape)} behind width {width}"
            )
        attention = state[f"layers.{at}.attention"] if OPERATIONS[op].attention else None
        if attention is not None and (
            attention.ndim != 3 or attention.shape[0] != 2 or attention.size != 2 * bias.size
        ):
            raise GassipError(
                f"layer {at}, {op}, has attention {list(attention.shape)} for width {bias.size}"
            )
        parts = tuple(np.ascontiguousarray(part) for part in np.split(weight, matrices, axis=1))
        scale, shift = _in_front(state, at, width)
        layers.append(
            Layer(op=op, weights=parts, bias=bias, attention=attention, scale=scale, shift=shift)
        )
        width = bias.size
    if width != classes:
        raise GassipError(f"the last layer has {width} outputs for {classes} classes")
    return tuple(layers)


def _in_front(state: Tensors, at: int, width: int) -> tuple[Array | None, Array | None]:
    """Scale and shift in front of layer `at`: of batch norm, or of x; None where there are none."""
    if at:
        return _norm(state, at - 1) if f"norms.{at - 1}.weight" in state else (None, None)
    scale, shift = state.get("input_scale"), state.get("input_shift")
    if (scale is None) != (shift is None) or not all(
        own is None or own.shape == (width,) for own in (scale, shift)
    ):
        raise GassipError(f"input_scale and input_shift must have {width} numbers each")
    return scale, shift


def _norm(state: Tensors, at: int) -> tuple[Array, Array]:
    """Batch norm by its running mean and variance: h · scale + shift."""
    mean, variance = state[f"norms.{at}.running_mean"], state[f"norms.{at}.running_var"]
    scale = state[f"norms.{at}.weight"] / np.sqrt(variance + np.float32(EPSILON))
    return scale, state[f"norms.{at}.bias"] - mean * scale


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
            f"numpy has no matrix for the norm {norm!r}; write it in deploy/numpy_layers.py"
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


def multiplied(left: Array, right: Array, out: Array) -> Array:
    """left·right into `out`, so many rows at a time that BLAS does not share them among threads.

    These are tall and narrow: waking a thread takes longer than it saves, most of all beside
    another library's.
    """
    rows = max(1, UNSHARED // max(1, right.size))
    for start in range(0, left.shape[0], rows):
        np.matmul(left[start : start + rows], right, out=out[start : start + rows])
    return out


@dataclass(frozen=True, eq=False)
class Sums:
    """Products, and where they are written."""

    room: Room = fresh

    def accumulate(self, out: Array, left: Table, right: Array) -> None:
        """out += left·right. scipy's own `@` zeroes a new array first, and the sum would then be a
        second pass."""
        if isinstance(left, sp.csr_array) and csr_matvecs is not None:
            right = np.ascontiguousarray(right, dtype=np.float32)
            sizes = (*left.shape, right.shape[1])
            csr_matvecs(*sizes, left.indptr, left.indices, left.data, right.ravel(), out.ravel())
        elif isinstance(left, sp.csr_array):
            out += left @ right
        else:
            out += multiplied(left, right, self.room("addend", *out.shape))

    def product(self, left: Table, right: Array, name: str = "product") -> Array:
        """left·right, [rows of left, columns of right]."""
        out = self.room(name, left.shape[0], right.shape[1])
        if not isinstance(left, sp.csr_array):
            return multiplied(left, right, out)
        out.fill(0)
        self.accumulate(out, left, right)
        return out


PLAIN = Sums()


def apply(layer: Layer, h: Table, step: Step, sums: Sums = PLAIN) -> Array:
    """o(h) of the step's receivers, [R, F]."""
    matrix, receivers, both = step
    mine = h if isinstance(receivers, slice) else h[receivers]
    out = sums.room("out", mine.shape[0], layer.bias.size)
    out[:] = layer.bias
    if both:
        products = sums.product(h, layer.side_by_side)
        sums.accumulate(out, matrix, products.reshape(-1, layer.bias.size))
        return out
    operation, weight = layer.operation, layer.weights[0]
    if operation.matrices > 2:
        out += over_hops(layer, h, step, sums)[receivers]
        return out
    if operation.matrices == 2:
        sums.accumulate(out, mine, layer.weights[1])
    narrow_first = weight.shape[0] < weight.shape[1] and not sp.issparse(h)
    if matrix is None:
        sums.accumulate(out, h, weight)
    elif operation.attention:
        attend(out, layer, sums.product(h, weight), step, sums)
    elif operation.iterates and narrow_first:
        sums.accumulate(out, passed_on(operation, h, matrix, sums)[receivers], weight)
    elif operation.iterates:
        out += passed_on(operation, sums.product(h, weight), matrix, sums)[receivers]
    elif narrow_first:
        sums.accumulate(out, sums.product(matrix, h), weight)
    else:
        sums.accumulate(out, matrix, sums.product(h, weight))
    return out


def over_hops(layer: Layer, h: Table, step: Step, sums: Sums) -> Array:
    """Z_K of Z_0 = P_1, Z_{k+1} = S Z_k + P_{k+2}."""
    assert step.matrix is not None
    z = sums.product(h, layer.weights[0], "hop0")
    for k, weight in enumerate(layer.weights[1:], start=1):
        nearer = sums.product(h, weight, f"hop{k % 2}")
        sums.accumulate(nearer, step.matrix, z)
        z = nearer
    return z


def passed_on(operation: Operation, products: Array, matrix: sp.csr_array, sums: Sums) -> Array:
    """Z_K of Z_0 = s P, Z_{k+1} = a S Z_k + b P; the matrix is a S."""
    b, s = operation.back, operation.start
    back = np.multiply(products, np.float32(b), out=sums.room("back", *products.shape))
    z = back if s == b else products if s == 1 else products * np.float32(s)
    for k in range(operation.steps):
        following = sums.room(f"z{k % 2}", *products.shape)
        following[:] = back
        sums.accumulate(following, matrix, z)
        z = following
    return z


def opinion(inputs: Inputs, classes: int) -> Array:
    """o of labels.py: what the labels of a graph say of every node, [N, C]."""
    matrix, labels = inputs.matrix(SPREAD), inputs.labels
    assert labels is not None and matrix is not None
    known = np.flatnonzero(labels >= 0)
    y = np.zeros((labels.size, classes), dtype=np.float32)
    y[known, labels[known]] = 1
    common = (y.sum(0) + 1) / (known.size + classes)
    arrived = passed_on(OPERATIONS[SPREAD], y, matrix, PLAIN)
    return np.log(arrived + np.float32(PRIOR_WEIGHT) * common.astype(np.float32))


def attend(out: Array, layer: Layer, products: Array, step: Step, sums: Sums) -> None:
    """out += Σ_j a_ij P_j, a_ij ∝ m_ij exp LeakyReLU(s·P_j + t·P_i), head by head; the layer is
    filled.

    The last column of a head becomes ones, so that one product gives the sums and what they are
    divided by.
    """
    matrix, receivers, _ = step
    assert layer.attention is not None and matrix is not None
    heads, filled_width = layer.attention.shape[1:]
    for head in range(heads):
        part = np.ascontiguousarray(products[:, head * filled_width : (head + 1) * filled_width])
        sender, receiver = np.ascontiguousarray((part @ layer.attention[:, head].T).T)
        part[:, -1] = 1
        summed = sums.product(growth(sender, receiver[receivers], matrix, sums), part, "head")
        if not (SAFE[0] < summed[:, -1].min() and summed[:, -1].max() < SAFE[1]):
            summed = sums.product(safe_growth(sender, receiver[receivers], matrix), part, "head")
        width = layer.width // heads
        shares = summed[:, :width]
        np.divide(shares, summed[:, -1:], out=shares)
        out[:, head * width : (head + 1) * width] += shares


def growth(sender: Array, receiver: Array, matrix: sp.csr_array, sums: Sums) -> sp.csr_array:
    """m_ij exp LeakyReLU(s_j + t_i), each row up to a factor: m_ij max(e^{s_j - c}, e^{.2 (s_j -
    c)} e^{-.8 (t_i + c)})

    with c = max s. Where the numbers of a graph lie so far apart that this is not safe, its caller
    sees it.
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
        return sp.csr_array(
            (np.maximum(above, below, out=above), matrix.indices, matrix.indptr), shape=matrix.shape
        )


def safe_growth(sender: Array, receiver: Array, matrix: sp.csr_array) -> sp.csr_array:
    """The same with the largest of each row at e^0, whatever the numbers; several times slower."""
    counts = np.diff(matrix.indptr)
    logit = sender[matrix.indices] + np.repeat(receiver, counts)
    logit = np.maximum(logit, NEGATIVE_SLOPE * logit)
    # every row holds the node itself, so none is empty and reduceat is safe
    grown = matrix.data * np.exp(
        logit - np.repeat(np.maximum.reduceat(logit, matrix.indptr[:-1]), counts)
    )
    return sp.csr_array((grown, matrix.indices, matrix.indptr), shape=matrix.shape)
