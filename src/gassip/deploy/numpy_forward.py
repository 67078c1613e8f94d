"""The forward pass of a layer in numpy and scipy: o_l(h) of operations.py.

    o_l: Z_K + P_2, or its sum over hops

    A·(H W) = (A·H) W: the narrower of the two goes over the edges; sums are accumulated in place,
        bias first
    exp LeakyReLU(s + t) = max(eˢ eᵗ, e^{.2 s} e^{.2 t}): exponentials of nodes, none of edges
        (`growth`)

Shapes: N nodes, F width of a layer, H heads, R receivers of a step.
"""

import numpy as np
from scipy import sparse as sp

# scipy's kernels behind `*`; a release that moves them makes the runtime slower, not wrong
try:
    from scipy.sparse._sparsetools import csr_scale_columns, csr_scale_rows
except ImportError:
    csr_scale_columns = None

from gassip.deploy.numpy_graph import Inputs, Step
from gassip.deploy.numpy_layers import NEGATIVE_SLOPE, Layer
from gassip.deploy.numpy_products import PLAIN, Sums
from gassip.graph.checks import Array, Table
from gassip.operations import OPERATIONS, PRIOR_WEIGHT, SPREAD, Operation

SAFE = (1e-20, 1e20)  # sums between these have lost nothing to underflow or overflow


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


def label_logits(inputs: Inputs, classes: int) -> Array:
    """o of label_propagation.py: what the labels of a graph say of every node, [N, C]."""
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
    if csr_scale_columns is None:
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
