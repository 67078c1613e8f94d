"""The candidate operations: what torch, numpy, ONNX, ExecuTorch, training and counting all read.

With P_k = X W_k, m_ij the weight of the edge j → i, N_i the senders to i, S a normalised matrix:

    y = Z_K + P_2,   Z_0 = s P_1,   Z_{k+1} = a S Z_k + b P_1
    y = S P_1 + P_2                                 where K = a = s = 1, b = 0
    y = S^K P_1 + S^{K-1} P_2 + ... + P_{K+1}       where there are K + 1 > 2 matrices

    norm         S_ij, S_ii
    gcn          m_ij / √(d_i d_j), 1 / d_i                          d_i = 1 + Σ_j m_ij
    arma         m_ij / √(d_i d_j), 0                                d_i = Σ_j m_ij
    mean         m_ij / Σ_j m_ij, 0
    attention    a_ij ∝ m_ij exp LeakyReLU(s·P_j + t·P_i) over N_i ∪ i,   m_ii = 1
    None         y = P_1

    GCNConv    y_i = Σ_j m_ij P_j / √(d_i d_j) + P_i / d_i
    GATConv    y_i = Σ_{j ∈ N_i ∪ i} a_ij P_j
    SAGEConv   y_i = Σ_j m_ij P1_j / Σ_j m_ij + P2_i
    ArmaConv   y_i = Σ_j m_ij P1_j / √(d_i d_j) + P2_i               one stack, one step
    SkipGCN    y_i = Σ_j m_ij P1_j / √(d_i d_j) + P1_i / d_i + P2_i  GCNConv with a linear skip
    Linear     y_i = P_i
    APPNP10, APPNP5   Z_0 = P,   Z_{k+1} = (1 − t) Â Z_k + t P       K, t = 10, .1 and 5, .3
    Hops4, Hops2      y = (P + Â P + ... + Â^K P) / (K + 1)          K = 4 and 2
    TAG4, TAG3, TAG2  y = S^K P_1 + ... + S P_K + P_{K+1}            K = 4, 3, 2; S the mean

with Â of GCNConv, and a bias each. Training drops half of the rows of P in Hops4 and Hops2. The
first five operations are the paper's. The others are for the preset `best`: personalised PageRank
at a long and a short reach (Gasteiger et al., ICLR 2019), means over hops (GRAND: Feng et al.,
NeurIPS 2020), hops with a matrix each (Du et al., 2017; SIGN: Frasca et al., 2020), which by
Horner's rule take K propagations, and a graph convolution with a linear skip connection (Luo et
al., NeurIPS 2024). SAGEConv is TAG1, and has its skip by P2. ARMA's inner ReLU is the net's, one
line later.

A new operation of known norms and steps is one entry below. A new norm is one entry in NORMS, its
matrix in nn/propagate.py (`MaskedGraph.normalised`) and in deploy/numpy_graph.py
(`Inputs.normalised`).

Shapes: N nodes, E directed edges, F width of a layer's output, H heads.
"""

from dataclasses import dataclass
from typing import Literal

from gassip.errors import GassipError


@dataclass(frozen=True, kw_only=True)
class Norm:
    """What a normalised matrix holds, and what it costs beside one multiply-add per entry."""

    loops: bool  # whether the node itself is one of its senders
    per_unit: int = 0  # further multiply-adds for each node and unit
    per_head: int = 0  # further multiply-adds for each entry and head


NORMS = {
    "gcn": Norm(loops=True),
    "arma": Norm(loops=False),
    "mean": Norm(loops=False),
    # two logits of a node; from these to a share: sum, slope, exponential, mask, total, quotient
    "attention": Norm(loops=True, per_unit=2, per_head=6),
}


@dataclass(frozen=True, kw_only=True)
class Operation:
    """y = Z_K + P_2 as the module has it, and where the operation may be used."""

    norm: str | None  # of NORMS; None: edges are not read
    # products X W; of several, the last is for the node itself, the one before for its neighbours
    matrices: int = 1
    steps: int = 1  # K
    scale: float = 1.0  # a
    back: float = 0.0  # b
    start: float = 1.0  # s
    node_dropout: float = 0.0  # share of the rows of P that a net with dropout drops besides
    space: Literal["paper", "supernet", "net"] = "net"  # the first to use it; later ones do too
    large: bool = True  # whether the paper uses it from 30,000 nodes on (Appendix)
    cheaper: tuple[str, ...] = ()  # what may replace it under a bound, the dearest first
    shorter: str | None = None  # what it is where the matrix of the farthest hop is zero

    def __post_init__(self) -> None:
        if self.norm is not None and self.norm not in NORMS:
            raise GassipError(f"norm is {self.norm!r}; there are {', '.join(NORMS)} and None")
        if self.matrices not in (1, 2, self.steps + 1) or (self.norm is None and self.matrices > 1):
            raise GassipError(
                f"matrices is {self.matrices}; 1 or 2, and 1 where norm is None, or steps + 1"
            )
        if self.matrices > 2 and (self.scale, self.back, self.start) != (1.0, 0.0, 1.0):
            raise GassipError("an operation with a matrix for each hop takes no other factors")
        if self.steps < 1 or (self.iterates and not self.commutes):
            raise GassipError(f"steps is {self.steps}; a norm of {self.norm!r} takes only one step")

    @property
    def attention(self) -> bool:
        """Whether S depends on the products, by two learned vectors per head."""
        return self.norm == "attention"

    @property
    def commutes(self) -> bool:
        """S (X W) = (S X) W, with an S that no weight has a part in."""
        return self.norm is not None and not self.attention

    @property
    def iterates(self) -> bool:
        """Whether y is more than one product S P."""
        return (self.steps, self.scale, self.back, self.start) != (1, 1.0, 0.0, 1.0)

    @property
    def own_weights(self) -> bool:
        """Whether the node itself has weights apart from those of its neighbours."""
        return self.norm is None or self.matrices > 1

    @property
    def propagated(self) -> int:
        """Matrices whose products go over the edges."""
        return 0 if self.norm is None else max(1, self.matrices - 1)

    def macs(self, *, edges: int, nodes: int, width: int, heads: int = 1) -> int:
        """Multiply-adds of the propagation: K entries(S) F, and with several steps K N F for b P.

        Normalising edges is not counted, but for attention, whose shares are new in every pass.
        """
        if self.norm is None:
            return 0
        norm = NORMS[self.norm]
        entries = edges + norm.loops * nodes
        per_step = entries + (self.back != 0) * nodes
        per_width = self.steps * per_step + norm.per_unit * nodes
        return per_width * width + norm.per_head * entries * heads


OPERATIONS = {
    "GCNConv": Operation(norm="gcn", space="paper"),
    "GATConv": Operation(norm="attention", space="paper", cheaper=("GCNConv",)),
    "SAGEConv": Operation(norm="mean", matrices=2, space="paper", large=False),
    "ArmaConv": Operation(norm="arma", matrices=2, space="paper"),
    "Linear": Operation(norm=None, space="paper"),
    "APPNP10": Operation(
        norm="gcn",
        steps=10,
        scale=0.9,
        back=0.1,
        space="supernet",
        cheaper=("APPNP5", "GCNConv"),
    ),
    "APPNP5": Operation(
        norm="gcn", steps=5, scale=0.7, back=0.3, space="supernet", cheaper=("GCNConv",)
    ),
    "Hops4": Operation(
        norm="gcn", steps=4, back=1 / 5, start=1 / 5, node_dropout=0.5, cheaper=("GCNConv",)
    ),
    "Hops2": Operation(
        norm="gcn", steps=2, back=1 / 3, start=1 / 3, node_dropout=0.5, cheaper=("GCNConv",)
    ),
    "SkipGCN": Operation(norm="gcn", matrices=2, cheaper=("GCNConv",)),
    "TAG4": Operation(norm="mean", matrices=5, steps=4, cheaper=("TAG2",), shorter="TAG3"),
    "TAG3": Operation(norm="mean", matrices=4, steps=3, cheaper=("TAG2",), shorter="TAG2"),
    "TAG2": Operation(norm="mean", matrices=3, steps=2, cheaper=("SAGEConv",), shorter="SAGEConv"),
}
ALL_OPS = tuple(name for name, operation in OPERATIONS.items() if operation.space == "paper")
MORE_OPS = tuple(
    name for name, operation in OPERATIONS.items() if operation.space != "net"
)  # of a supernet
NET_OPS = tuple(OPERATIONS)  # of a net alone
NARROW_OPS = tuple(name for name in ALL_OPS if OPERATIONS[name].large)
SPREAD = "APPNP5"  # how labels are passed on (train/label_propagation.py)
PRIOR_WEIGHT = 0.01  # ε: weight of the class frequencies in these logits


def gcn_weights(features: int, classes: int) -> int:
    """Weights of a GCN with 64 hidden units, of which sizes are told as shares."""
    return (features + 1) * 64 + (64 + 1) * classes
