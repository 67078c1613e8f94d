"""A teacher without a net: logistic regression on the leading directions of Â² X (METHOD.md).

    Â² X ≈ U S Vᵀ (the K largest),   E_i = (U S)_i / |(U S)_i|,   p_i = softmax(E_i W + b)
    W, b = argmin mean_{V_L} CE(y, p) + λ |W|²,   λ: whichever makes the validation nodes likeliest

Columns of degree, where the graph has them (best/degrees.py), are no part of X: standardised and
divided by the root of their number they stand beside E.

X has rows of length 1, words weighing log(N / nodes that have them) where it is a bag of words
(similarity.py). No label has a part in E, so with few labels it is as good as a net, errs
elsewhere, costs half a second on Cora, and has no luck of seeds: equal graphs give equal shares.
That also makes it a judge of graphs.

Shapes: N nodes, C classes, K directions.
"""

import numpy as np
import torch
from scipy import sparse as sp
from scipy.sparse.linalg import LinearOperator, svds
from torch import Tensor
from torch.nn import functional as F

from gassip.best.calibration import log_likelihood
from gassip.best.lowest import lowest
from gassip.best.rules import SPECTRAL_DECAYS, SPECTRAL_DIRECTIONS, SPECTRAL_HOPS
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.graph.similarity import unit_rows
from gassip.graph.structure import BESIDE, DEGREES
from gassip.nn.net import dense_of, scale_and_shift
from gassip.nn.propagate import MaskedGraph

TINY = 1e-6  # of the longest row: under it a row is rounding
NARROW = 1024  # dense features up to which Mᵀ M is written out
STEPS_OF_FIT = 50  # each from where the one before ended


def spectral_probs(graph: Graph) -> Tensor:
    """p [N, C]."""
    return best_fit(inputs_of(graph, leading(graph)), graph).to(graph.device)


def inputs_of(graph: Graph, directions: Tensor) -> Tensor:
    """What the regression reads: E, and the columns of degree where the graph has them."""
    if graph.structure != BESIDE:
        return directions
    return torch.cat([directions, degrees(graph)], 1)


def degrees(graph: Graph) -> Tensor:
    """The columns of degree [N, 19] on the CPU, float64, rows of length about 1."""
    columns = torch.arange(graph.num_features - DEGREES, graph.num_features, device=graph.device)
    x = graph.x.columns(columns) if isinstance(graph.x, Csr) else graph.x[:, columns]
    values = dense_of(x).cpu().double()
    scale, shift = scale_and_shift(values)
    return (values * scale + shift) / DEGREES**0.5


def leading(graph: Graph, count: int = int(SPECTRAL_DIRECTIONS)) -> Tensor:
    """E [N, K] on the CPU, float64, rows of length 1; zeros where no feature differs from 0."""
    x, adjacency = unit_rows(graph.without_degrees.x), normalised(graph)
    narrow = isinstance(x, np.ndarray) and x.shape[1] <= NARROW
    found = of_narrow(x, adjacency, count) if narrow else of_wide(x, adjacency, count)
    length = np.linalg.norm(found, axis=1, keepdims=True)
    least = TINY * length.max(
        initial=0
    )  # a node without features, and without neighbours that have some, stays at 0
    return torch.from_numpy(
        np.ascontiguousarray(found / np.maximum(length, least if least > 0 else 1))
    )


def of_wide(x: "np.ndarray | sp.csr_array", adjacency: sp.csr_array, count: int) -> np.ndarray:
    """U S [N, K] of Â² X, which is never written out."""
    x = x.astype(np.float64)

    def forward(v: np.ndarray) -> np.ndarray:
        return propagated(adjacency, x @ v)

    def backward(v: np.ndarray) -> np.ndarray:
        return x.T @ propagated(adjacency.T, v)

    count = min(count, min(x.shape) - 1)  # ARPACK needs one to spare
    if count < 1:
        return of_narrow(x if isinstance(x, np.ndarray) else x.toarray(), adjacency, 1)
    product = LinearOperator(x.shape, matvec=forward, rmatvec=backward, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(min(x.shape))
    left, size, _ = svds(product, k=count, v0=start)
    return left * size


def of_narrow(x: np.ndarray, adjacency: sp.csr_array, count: int) -> np.ndarray:
    """The same of few, dense features: U S = M V with V the eigenvectors of Mᵀ M, M = Â² X."""
    product = propagated(adjacency, x.astype(np.float64))
    _, vectors = np.linalg.eigh(product.T @ product)  # rising eigenvalues
    return product @ vectors[:, -count:]


def propagated(adjacency: sp.csr_array, values: np.ndarray) -> np.ndarray:
    """Â² values."""
    for _ in range(int(SPECTRAL_HOPS)):
        values = adjacency @ values
    return values


def normalised(graph: Graph) -> sp.csr_array:
    """Â of a graph convolution, float64."""
    edge, self_loop = MaskedGraph.of(graph).gcn
    between = graph.adjacency.with_value(edge).to_scipy().astype(np.float64)
    return sp.csr_array(
        between + sp.diags_array(self_loop.squeeze(1).cpu().numpy().astype(np.float64))
    )


def best_fit(directions: Tensor, graph: Graph) -> Tensor:
    """p [N, C] under the λ that makes the validation nodes likeliest."""
    y, train, val = graph.y.cpu(), graph.train_mask.cpu(), graph.val_mask.cpu()
    directions = directions.float()  # the fit takes a quarter of the time of float64
    weight = directions.new_zeros((directions.shape[1] + 1, graph.num_classes))  # the last row is b
    best, best_probs = (
        -torch.inf,
        directions.new_full((directions.shape[0], graph.num_classes), 1 / graph.num_classes),
    )
    for decay in SPECTRAL_DECAYS:
        weight = fit(directions[train], y[train], weight, decay)
        share = torch.softmax(directions @ weight[:-1] + weight[-1], 1)
        value = float(log_likelihood(share[val], y[val]).mean())
        if value <= best:
            break
        best, best_probs = value, share
    return best_probs


def fit(inputs: Tensor, y: Tensor, start: Tensor, decay: float) -> Tensor:
    """W and, below it, b after some steps of L-BFGS from `start`."""

    def loss(weight: Tensor) -> Tensor:
        scores = inputs @ weight[:-1] + weight[-1]
        return F.cross_entropy(scores, y) + decay * weight[:-1].square().sum()

    return lowest(loss, start, STEPS_OF_FIT)
