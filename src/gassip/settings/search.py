"""The paper's settings: one field for each choice it makes or leaves open (PAPER.md lists the
gaps)."""

from dataclasses import dataclass
from typing import Literal

from gassip.errors import GassipError
from gassip.operations import ALL_OPS, MORE_OPS
from gassip.settings.fields import (
    NOT_NEGATIVE,
    POSITIVE,
    POSITIVE_OR_INFINITE,
    PROBABILITY,
    SHARE,
    Part,
    setting,
)


@dataclass(frozen=True, kw_only=True)
class Search(Part):
    """Supernet, masks, curriculum and schedule of Algorithm 2."""

    # search space (Appendix)
    ops: tuple[str, ...] = setting(ALL_OPS, "candidate operations")
    layers: int = setting(2, "layers of the net", POSITIVE)
    hidden: int = setting(64, "width of hidden layers", POSITIVE)
    heads: int = setting(1, "attention heads of GATConv in hidden layers", POSITIVE)
    dropout: float = setting(0.8, "dropout before each layer of the supernet", PROBABILITY)
    batch_norm: bool = setting(False, "batch norm before each layer but the first")
    # schedule (Algorithm 2)
    epochs: int = setting(250, "search epochs T", POSITIVE)
    warmup_epochs: int = setting(
        10, "warm-up r: before it only weights and their masks move", NOT_NEGATIVE
    )
    batch_nodes: int = setting(
        0, "nodes of a batch of the search; 0: the whole graph at once", NOT_NEGATIVE
    )
    # W and S_W (Sec. 4.2)
    prune: bool = setting(True, "learn the weight mask M_W; off: the ablation without it")
    lr_weight: float = setting(0.01, "Adam's learning rate for W", NOT_NEGATIVE)
    weight_decay: float = setting(1e-4, "weight decay of W in the search", NOT_NEGATIVE)
    weight_gain: float = setting(
        2.0, "W starts at this multiple of Glorot, since M_W starts near 1/2", POSITIVE
    )
    weight_form: Literal["sigmoid", "double"] = setting(
        "sigmoid", "M_W = σ(S_W) as printed, or 2σ(S_W)"
    )
    lr_score: float = setting(0.01, "Adam's learning rate for S_W", NOT_NEGATIVE)
    score_mean: float = setting(-0.3, "mean of the normal distribution from which S_W starts")
    score_std: float = setting(
        0.5, "standard deviation of the normal distribution from which S_W starts", NOT_NEGATIVE
    )
    score_sparsity: float = setting(0.0, "weight of an L1 term on M_W in L_train", NOT_NEGATIVE)
    weight_groups: Literal["element", "unit"] = setting(
        "element", "one score S_W per weight, or one per input feature and per hidden unit"
    )
    weight_rule: Literal["score", "budget", "size"] = setting(
        "score",
        "keep weights with S_W > 0, the highest weight_share of the net's, or as many of the "
        "highest as make weight_share of a GCN-64",
    )
    weight_share: float = setting(0.5, "share of weights kept by weight_rule budget or size", SHARE)
    sampled_paths: int = setting(
        0, "single architectures, drawn uniformly, trained beside the mixture", NOT_NEGATIVE
    )
    # S_G and γ (Sec. 4.3)
    sparsify: bool = setting(True, "learn the edge mask M_G; off: the ablation without it")
    edge_scores: Literal["undirected", "directed"] = setting(
        "undirected", "one score per undirected edge, or one per direction"
    )
    edge_start: float = setting(1.0, "initial value of S_G")
    threshold_start: float = setting(0.5, "initial value of γ")
    edge_optimizer: Literal["sgd", "adam"] = setting("sgd", "optimiser of S_G and γ")
    lr_edge: float = setting(0.004, "learning rate η of S_G and γ", NOT_NEGATIVE)
    update_rule: Literal["relative", "literal", "mean"] = setting(
        "relative", "gradient of S_G: mean/(std + mean|g|), mean/(std + eps), or mean"
    )
    update_clamp: float = setting(5.0, "bound on that quotient", POSITIVE_OR_INFINITE)
    update_eps: float = setting(1e-8, "eps of update_rule = literal", NOT_NEGATIVE)
    unbiased_std: bool = setting(True, "standard deviation over architectures with K - 1")
    edge_rule: Literal["paper", "half", "budget"] = setting(
        "paper", "remove edges with M_G < γ, M_G < 1/2, or the lowest"
    )
    edge_share: float = setting(0.9, "share of edges kept by edge_rule = budget", SHARE)
    keep_last: bool = setting(
        False, "the highest edge of every node stays, so that no node loses its last edge"
    )
    certain_share: float = setting(
        1.0,
        "share of edges that edge_rule may remove: those whose ends the supernet is surest of",
        SHARE,
    )
    kept_edges: Literal["soft", "binary"] = setting(
        "soft", "kept edges weigh M_G (soft), or as given (binary)"
    )
    # curriculum (Sec. 4.3)
    curriculum: bool = setting(True, "weigh nodes by difficulty; off: the ablation without it")
    num_archs: int = setting(2, "K, architectures that judge each edge", POSITIVE)
    lambda1: float = setting(1.0, "λ1, label divergence in the node view", NOT_NEGATIVE)
    lambda2: float = setting(1.0, "λ2, node view against architecture view", NOT_NEGATIVE)
    beta: float = setting(0.001, "β, entropy of M_G in L_struct", NOT_NEGATIVE)
    softmax_nodes: Literal["all", "labelled"] = setting(
        "all", "θ is a softmax over all nodes, or over the labelled ones"
    )
    loss_nodes: Literal["labelled", "all", "unlabelled"] = setting(
        "labelled",
        "L_struct sums over the labelled nodes, over all nodes, or over those without a label",
    )
    standardise: bool = setting(False, "standardise D_a before it is added to D_n")
    structure_dropout: bool = setting(False, "dropout also while S_G is stepped")
    # α (Sec. 3.1)
    lr_alpha: float = setting(0.03, "Adam's learning rate for α, betas .5 and .999", NOT_NEGATIVE)
    alpha_start: float = setting(1e-3, "α starts at this multiple of N(0, 1)", NOT_NEGATIVE)
    alpha_nodes: Literal["val", "train"] = setting("val", "nodes whose loss moves α")
    # the discrete architecture (Algorithm 2, line 9)
    induced_from: int = setting(
        1, "of this many architectures the best on validation is taken", POSITIVE
    )
    induced_by: Literal["alpha", "both"] = setting(
        "alpha",
        "which these are: the most probable by α, or as many of these as of those that validate "
        "best inside the supernet",
    )
    induce_epochs: int = setting(
        100,
        "epochs of the trainings that choose among them; those level with the best go on in full",
        POSITIVE,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.ops:
            if name not in MORE_OPS:
                raise GassipError(f"ops names {name!r}; there are {', '.join(MORE_OPS)}")
        if not self.ops or len(set(self.ops)) < len(self.ops):
            raise GassipError(f"ops is {list(self.ops)}; name at least one operation, each once")
        if self.hidden % self.heads:
            raise GassipError(
                f"heads is {self.heads}, which does not divide hidden = {self.hidden}"
            )
