"""Features of a graph that has none, made from its edges and the ids of its nodes.

    degree      log(1 + in), log(1 + out), the mean of the neighbours', and the power of two
    position    leading eigenvectors of D^-1/2 (A + Aᵀ + I) D^-1/2, times their eigenvalues
    hashed id   64 signs by a hash of the id: of use where ids come again, or label propagation does

The first kind stays unless another makes the validation nodes likelier beyond chance; the judge is
logistic regression on Â² X. Positions have no meaning in another graph, so a net that reads them
labels its own graph alone.

Where features are given, the columns of the first kind may stand beside them (`beside`); of that
the search decides (best/degrees.py).

Shapes: N nodes, E edges, D features.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from scipy import sparse as sp

from gassip.errors import GassipError
from gassip.graph.checks import Table, checked_edges, merged_edges

KINDS = ("degree", "degree and position", "degree and hashed id")
WHERE = ("", "; such a net labels this graph alone", "; such a net labels nodes of known ids alone")
BESIDE = "the given ones and degree"
POSITIONS = 32
SIGNS = 64
BUCKETS = 16
DEGREES = 3 + BUCKETS  # columns of the first kind
STRENGTHS = (0.01, 0.1, 1.0, 10.0)  # inverse regularisation of the judge
SIGMAS = 2.0  # standard errors by which another kind must be better


def structural(kind: str, edges: np.ndarray, ids: Sequence[str]) -> np.ndarray:
    """x [N, D] float32."""
    blocks = [degree(edges, len(ids))]
    if kind == KINDS[1]:
        blocks.append(position(edges, len(ids)))
    if kind == KINDS[2]:
        blocks.append(hashed(ids))
    return np.concatenate(blocks, axis=1).astype(np.float32)


def degree(edges: np.ndarray, nodes: int) -> np.ndarray:
    """[N, 3 + buckets]"""
    incoming, outgoing = (np.bincount(edges[at], minlength=nodes) for at in (1, 0))
    log_in, log_out = np.log1p(incoming), np.log1p(outgoing)
    near = np.bincount(edges[1], log_in[edges[0]], minlength=nodes) / np.maximum(incoming, 1)
    bucket = np.minimum(np.log2(1 + incoming + outgoing).astype(int), BUCKETS - 1)
    return np.concatenate([np.stack([log_in, log_out, near], 1), np.eye(BUCKETS)[bucket]], axis=1)


def beside(x: Table, edges: np.ndarray) -> Table:
    """x and the columns of `degree` [N, D + 19]; CSR stays CSR."""
    columns = degree(edges, x.shape[0]).astype(np.float32)
    if sp.issparse(x):
        return sp.csr_array(sp.hstack([x, sp.csr_array(columns)], format="csr"))
    return np.concatenate([x, columns], axis=1)


def hashed(ids: Sequence[str]) -> np.ndarray:
    """[N, 64], -1/8 or 1/8: rows of length 1."""
    digests = [hashlib.blake2b(name.encode(), digest_size=SIGNS // 8).digest() for name in ids]
    bits = np.unpackbits(np.frombuffer(b"".join(digests), dtype=np.uint8)).reshape(-1, SIGNS)
    return (2.0 * bits - 1) / np.sqrt(SIGNS)


def position(edges: np.ndarray, nodes: int) -> np.ndarray:
    """[N, K], each of mean square λ²."""
    from scipy.sparse.linalg import eigsh

    count = min(POSITIONS, nodes - 2)
    if count < 1:
        return np.zeros((nodes, 0))
    start = np.random.default_rng(0).standard_normal(nodes)
    values, vectors = eigsh(_normalised(edges, nodes), k=count, v0=start, which="LA")
    signs = np.sign(vectors[np.abs(vectors).argmax(0), np.arange(count)])
    return vectors * signs * np.maximum(values, 0) * np.sqrt(nodes)


def _normalised(edges: np.ndarray, nodes: int) -> sp.csr_array:
    """D^-1/2 (A + Aᵀ + I) D^-1/2 of the pattern."""
    ends = np.concatenate([edges, edges[::-1]], axis=1)
    matrix = sp.csr_array((np.ones(ends.shape[1]), (ends[1], ends[0])), shape=(nodes, nodes))
    matrix.data[:] = 1.0
    matrix = sp.csr_array(matrix + sp.eye_array(nodes))
    scale = sp.diags_array(1 / np.sqrt(matrix.sum(1)))
    return sp.csr_array(scale @ matrix @ scale)


def choose_structure(
    edges: np.ndarray, ids: Sequence[str], y: np.ndarray, train: np.ndarray, val: np.ndarray
) -> tuple[str, str]:
    """The kind taken, and a note that says how the others did."""
    smooth = _normalised(edges, len(ids))
    values = {
        kind: _likelihood(smooth @ (smooth @ structural(kind, edges, ids)), y, train, val)
        for kind in KINDS
    }
    taken = KINDS[0]
    for kind in KINDS[1:]:
        gain = values[kind] - values[taken]
        error = gain.std(ddof=1) / np.sqrt(gain.size) if gain.size > 1 else np.inf
        if gain.mean() > SIGMAS * error:
            taken = kind
    tried = ", ".join(f"{kind} {value.mean():.2f}" for kind, value in values.items())
    where = WHERE[KINDS.index(taken)]
    return taken, f"no features given: made of {taken} (validation log-likelihood: {tried}){where}"


def _likelihood(x: np.ndarray, y: np.ndarray, train: np.ndarray, val: np.ndarray) -> np.ndarray:
    """log p(y) of each validation node, under the regularisation that makes them likeliest; classes
    all have training nodes."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    x, rows = StandardScaler().fit_transform(x), np.arange(int(val.sum()))
    found = [LogisticRegression(C=c, max_iter=500).fit(x[train], y[train]) for c in STRENGTHS]
    probs = [model.predict_proba(x[val])[rows, y[val]] for model in found]
    values = [np.log(np.maximum(p, 1e-12)) for p in probs]
    return max(values, key=lambda value: float(value.mean()))


def made_features(
    kind: str | None, edge_index: np.ndarray, weight: np.ndarray | None, ids: Sequence[str]
) -> np.ndarray:
    """x of a graph without features, for a net whose features were made so too; of its edges as
    given, without loops, repeats and weights of 0."""
    if kind is None or kind == BESIDE:
        raise GassipError("x is missing: no features are given, and the run's graph has some")
    edges, _ = merged_edges(*checked_edges(edge_index, weight, len(ids)), len(ids), [])
    return structural(kind, edges, ids)


def structural_like(kind: str, edges: np.ndarray, ids: Sequence[str], named: bool) -> np.ndarray:
    """The features of another graph, where the kind has a meaning there: ids must be `named` by
    the user."""
    if kind == KINDS[0] or (kind == KINDS[2] and named):
        return structural(kind, edges, ids)
    what = "positions" if kind == KINDS[1] else "numbers of nodes"
    raise GassipError(
        f"x is missing: the features of the training graph are {what} in that graph, which another "
        f"one does not have; give x, or fit on both graphs as one"
    )
