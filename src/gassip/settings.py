"""Gassip: the method's settings, one field for each choice the paper makes or leaves open.

A field's `help` is its command-line help; rows refer to the table of gaps in PAPER.md.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from gassip.errors import GassipError
from gassip.operations import ALL_OPS, MORE_OPS, NARROW_OPS, NET_OPS

if TYPE_CHECKING:  # the command line makes its flags from here without waiting for torch
    from gassip.graph.graph import Graph

RECIPES = ("strong", "medium", "norm")
EDGE_RULES = ("support", "curriculum", "agreement", "hubs", "similarity", "random")
NARROW_FROM = 30_000  # nodes: Physics and larger, as in the paper's appendix
THREE_LAYERS_FROM = 100_000  # nodes: ogbn-arxiv


def _set(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, kw_only=True)
class Gassip:
    """The whole method as a value. `preset("paper", graph)` fills in what depends on the graph's
    size."""

    # search space (Appendix)
    ops: tuple[str, ...] = _set(ALL_OPS, "candidate operations")
    layers: int = _set(2, "layers of the net")
    hidden: int = _set(64, "width of hidden layers (row 10)")
    heads: int = _set(1, "attention heads of GATConv in hidden layers (row 17)")
    dropout: float = _set(0.8, "dropout before each layer (row 10)")
    batch_norm: bool = _set(False, "batch norm before each layer but the first (row 18)")
    # schedule (Algorithm 2)
    epochs: int = _set(250, "search epochs T")
    warmup_epochs: int = _set(
        10, "warm-up r: in epochs before it only weights and their masks move"
    )
    # W and S_W (Sec. 4.2)
    prune: bool = _set(
        True, "learn the weight mask M_W; off: the ablation without operation pruning"
    )
    lr_weight: float = _set(0.01, "Adam's rate for W (row 10)")
    weight_decay: float = _set(1e-4, "weight decay of W in the search (row 10)")
    weight_gain: float = _set(
        2.0, "W starts at this times Glorot, since M_W starts near 1/2 (row 4)"
    )
    weight_form: Literal["sigmoid", "double"] = _set(
        "sigmoid", "M_W = σ(S_W) as printed, or 2σ(S_W) (row 4)"
    )
    lr_score: float = _set(0.01, "Adam's rate for S_W (row 10)")
    score_mean: float = _set(-0.3, "mean of the normal start of S_W (row 4)")
    score_std: float = _set(0.5, "deviation of the normal start of S_W (row 4)")
    score_sparsity: float = _set(0.0, "weight of an L1 term on M_W in L_train (row 4)")
    weight_groups: Literal["element", "unit"] = _set(
        "element",
        "one score S_W per weight, or one per input feature and one per hidden unit: whole rows and columns go",
    )
    weight_rule: Literal["score", "budget"] = _set(
        "score", "keep S_W > 0, or the highest weight_share (row 4)"
    )
    weight_share: float = _set(0.5, "share of weights kept by the rule `budget`")
    sampled_paths: int = _set(
        0, "single architectures, drawn evenly, that train beside the mixture (row 15)"
    )
    # S_G and γ (Sec. 4.3)
    sparsify: bool = _set(
        True, "learn the edge mask M_G; off: the ablation without graph sparsification"
    )
    edge_scores: Literal["undirected", "directed"] = _set(
        "undirected", "one score per undirected edge, or two (row 13)"
    )
    edge_start: float = _set(1.0, "start of S_G (row 2)")
    threshold_start: float = _set(0.5, "start of γ (row 2)")
    edge_optimizer: Literal["sgd", "adam"] = _set("sgd", "optimiser of S_G and γ (row 2)")
    lr_edge: float = _set(0.004, "rate η of S_G and γ (row 10)")
    update_rule: Literal["relative", "literal", "mean"] = _set(
        "relative", "mean/(std + mean|g|), mean/(std + eps), or mean (row 1)"
    )
    update_clamp: float = _set(5.0, "bound on that quotient (row 1)")
    update_eps: float = _set(1e-8, "eps of the rule `literal` (row 1)")
    unbiased_std: bool = _set(True, "std over architectures with K - 1, as torch.std (row 19)")
    edge_rule: Literal["paper", "half", "budget"] = _set(
        "paper", "remove M_G < γ, M_G < 1/2, or the lowest (row 2)"
    )
    edge_share: float = _set(0.9, "share of edges kept by the rule `budget`")
    kept_edges: Literal["soft", "binary"] = _set("soft", "kept edges weigh M_G, or 1 (row 3)")
    # curriculum (Sec. 4.3)
    curriculum: bool = _set(
        True, "weigh nodes by difficulty; off: the ablation without the curriculum"
    )
    num_archs: int = _set(2, "K, architectures that judge each edge")
    lambda1: float = _set(1.0, "λ1, label divergence in the node view")
    lambda2: float = _set(1.0, "λ2, node view against architecture view")
    beta: float = _set(0.001, "β, entropy of M_G in L_struct")
    softmax_nodes: Literal["all", "labelled"] = _set(
        "all", "θ is a softmax over all nodes, or over V_L (row 5)"
    )
    loss_nodes: Literal["labelled", "all"] = _set(
        "labelled", "L_struct sums over V_L, or over all nodes (row 6)"
    )
    standardise: bool = _set(False, "bring D_a to the scale of D_n before adding them (row 7)")
    structure_dropout: bool = _set(False, "dropout also while S_G and α are stepped (row 20)")
    # α (Sec. 3.1)
    lr_alpha: float = _set(0.03, "Adam's rate for α, betas .5 and .999 (row 10)")
    alpha_start: float = _set(1e-3, "α starts at this times N(0, 1) (row 10)")
    alpha_nodes: Literal["val", "train"] = _set("val", "nodes whose loss moves α (row 9)")
    # evaluation (end of Sec. 4.4)
    retrain_start: Literal["fresh", "rewind", "inherit"] = _set(
        "fresh", "weights at retraining: drawn anew, the search's first, or its last (row 21)"
    )
    retrain_epochs: int = _set(300, "epochs of retraining (row 10)")
    retrain_lr: float = _set(0.01, "Adam's rate in retraining (row 10)")
    retrain_weight_decay: float = _set(5e-4, "weight decay in retraining (row 10)")
    retrain_dropout: float = _set(0.8, "dropout in retraining (row 10)")
    # past the paper (METHOD.md): off in the preset `paper`, on in `best`
    teachers: int = _set(
        0,
        "finalists whose mean teaches the final net; 0: what the search found is retrained as it is",
    )
    teacher_hidden: int = _set(
        0, "hidden units with which the best finalists are trained anew; 0: not at all"
    )
    finalists: int = _set(6, "architectures that compete on validation to be teachers")
    similar: int = _set(
        0,
        "nodes with similar features that one teacher's graph joins each node to; 0: no such teacher",
    )
    spectral: bool = _set(
        False, "logistic regression on the leading directions of the graph teaches beside them"
    )
    students: int = _set(3, "architectures that compete on validation to be the final net")
    portfolio: tuple[str, ...] = _set(
        (), "architectures that are always finalists, operations joined by +"
    )
    ranking: Literal["supernet", "random"] = _set(
        "supernet", "what the other finalists are taken by; random: control"
    )
    final_ops: str = _set("", "the final net's operations joined by +; empty: by validation")
    feature_rule: Literal["teacher", "random"] = _set(
        "teacher", "which features the final net reads; random: control"
    )
    recipe: Literal["given", "auto"] = _set(
        "given", "dropout, weight decay and batch norm: as set, or by validation"
    )
    recipes: tuple[str, ...] = _set(
        RECIPES, "those that compete; the first stays unless another validates better"
    )
    direction: Literal["given", "both", "auto"] = _set(
        "given",
        "edges are read as given, both ways, or both ways where that makes validation nodes likelier",
    )
    clean_shares: tuple[float, ...] = _set(
        (), "shares of edges, between the most similar nodes, that may be kept instead of all"
    )
    trial_epochs: int = _set(100, "epochs of a trial of a recipe")
    consistency: float = _set(
        0.0, "weight of the agreement of two stochastic passes, of nets without a teacher"
    )
    consistency_temperature: float = _set(0.5, "sharpening of what the passes are to agree on")
    consistency_ramp: int = _set(50, "epochs over which that weight grows")
    keep_epoch: Literal["best", "last"] = _set(
        "best", "the epoch of a training that is kept: the one that validates best, or the last"
    )
    distillation: float = _set(
        0.0, "what a node that only the teacher knows weighs in retraining; a label weighs 1"
    )
    size_share: float = _set(
        0.35, "stored weights of the final net, as a share of a GCN with 64 hidden units"
    )
    feature_share: float = _set(1.0, "share of the input features that the final net reads")
    size_steps: tuple[float, ...] = _set(
        (1.0, 3.0),
        "larger shares, each tried only where the teacher is ahead of the net so far by a point",
    )
    spare: int = _set(
        4,
        "such a net starts with so many times the weights and is pruned to its share; 1: it does not",
    )
    prune_epochs: int = _set(1200, "epochs of a training that so prunes")
    prunable: tuple[str, ...] = _set(
        (), "architectures that always compete to be pruned, operations joined by +"
    )
    prune_rule: Literal["magnitude", "random"] = _set(
        "magnitude", "which weights stay there; random: control"
    )
    retrain_weights: int = _set(
        0, "weights that retraining prunes a net to, the smallest first; 0: none go"
    )
    edge_rules: tuple[str, ...] = _set(
        ("support", "hubs", "curriculum"),
        "ways to rank edges for removal that compete on validation",
    )
    edge_shares: tuple[float, ...] = _set(
        (0.89,), "shares of edges kept that compete on validation"
    )
    hear_labels: bool = _set(
        False,
        "training labels, spread over the graph, count beside the net where validation nodes are likelier so",
    )
    label_weight: float = _set(
        0.0, "how much they do in retraining; found by validation where they are to be heard"
    )

    def __post_init__(self) -> None:
        for name in (
            "ops",
            "recipes",
            "portfolio",
            "prunable",
            "clean_shares",
            "size_steps",
            "edge_rules",
            "edge_shares",
        ):
            if not isinstance(getattr(self, name), (tuple, list)):
                raise GassipError(f"{name} is {getattr(self, name)!r}; it must be a list")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for check in fields(self):
            _check_field(check.name, check.type, getattr(self, check.name))
            if check.type is float:
                object.__setattr__(self, check.name, float(getattr(self, check.name)))
        _check_ranges(self)


_POSITIVE = (
    *(
        "layers",
        "hidden",
        "heads",
        "epochs",
        "num_archs",
        "retrain_epochs",
        "weight_gain",
        "update_clamp",
    ),
    *(
        "finalists",
        "students",
        "spare",
        "prune_epochs",
        "trial_epochs",
        "consistency_temperature",
        "consistency_ramp",
        "size_share",
    ),
)
_NOT_NEGATIVE = (
    *(
        "teachers",
        "teacher_hidden",
        "similar",
        "consistency",
        "distillation",
        "warmup_epochs",
        "sampled_paths",
        "lr_weight",
        "weight_decay",
        "lr_score",
        "score_std",
        "score_sparsity",
    ),
    *(
        "retrain_weights",
        "label_weight",
        "lr_edge",
        "update_eps",
        "lambda1",
        "lambda2",
        "beta",
        "lr_alpha",
        "alpha_start",
        "retrain_lr",
    ),
    "retrain_weight_decay",
)


def _check_ranges(settings: Gassip) -> None:
    for name in _POSITIVE:
        if getattr(settings, name) <= 0:
            raise GassipError(f"{name} is {getattr(settings, name)}; it must be above 0")
    for name in _NOT_NEGATIVE:
        if getattr(settings, name) < 0:
            raise GassipError(f"{name} is {getattr(settings, name)}; it must not be negative")
    for name in ("dropout", "retrain_dropout"):
        if not 0 <= getattr(settings, name) < 1:
            raise GassipError(
                f"{name} is {getattr(settings, name)}; it must be at least 0 and below 1"
            )
    for name in ("weight_share", "edge_share", "feature_share"):
        if not 0 < getattr(settings, name) <= 1:
            raise GassipError(
                f"{name} is {getattr(settings, name)}; a share lies above 0 and at most at 1"
            )
    for name in ("edge_shares", "clean_shares"):
        if not all(0 < share <= 1 for share in getattr(settings, name)):
            raise GassipError(
                f"{name} is {list(getattr(settings, name))}; shares lie above 0 and at most at 1"
            )
    if not settings.edge_shares:
        raise GassipError(
            "edge_shares is empty; name at least one share of edges to keep, such as 1.0"
        )
    if not all(share > 0 for share in settings.size_steps):
        raise GassipError(f"size_steps is {list(settings.size_steps)}; shares must be above 0")
    for text in (*settings.portfolio, *settings.prunable, *filter(None, [settings.final_ops])):
        if not set(text.split("+")) <= set(NET_OPS):
            raise GassipError(
                f"{text!r} is no architecture; join operations by +, such as Linear+APPNP10"
            )
    if not settings.recipes or not set(settings.recipes) <= set(RECIPES):
        raise GassipError(
            f"recipes is {list(settings.recipes)}; name at least one of {', '.join(RECIPES)}"
        )
    if settings.final_ops and len(settings.final_ops.split("+")) != settings.layers:
        raise GassipError(
            f"final_ops is {settings.final_ops!r}; name {settings.layers} operations, one per layer"
        )
    for name in settings.edge_rules:
        if name not in EDGE_RULES:
            raise GassipError(f"edge_rules names {name!r}; there are {', '.join(EDGE_RULES)}")
    if not settings.edge_rules:
        raise GassipError(f"edge_rules is empty; name at least one of {', '.join(EDGE_RULES)}")
    for name in ("hidden", "teacher_hidden"):
        if getattr(settings, name) % settings.heads:
            raise GassipError(
                f"heads is {settings.heads}, which does not divide {name} = {getattr(settings, name)}"
            )
    for name in settings.ops:
        if name not in MORE_OPS:
            raise GassipError(f"ops names {name!r}; there are {', '.join(MORE_OPS)}")
    if not settings.ops or len(set(settings.ops)) < len(settings.ops):
        raise GassipError(f"ops is {list(settings.ops)}; name at least one operation, each once")


def _check_field(name: str, kind: Any, value: Any) -> None:
    """A value of the field's own type; a whole number may stand for a fraction."""
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise GassipError(f"{name} is {value!r}; choose one of {', '.join(get_args(kind))}")
        return
    expected = {bool: (bool,), int: (int,), float: (int, float)}.get(kind)
    if expected and (
        not isinstance(value, expected) or (isinstance(value, bool) and kind is not bool)
    ):
        raise GassipError(f"{name} is {value!r}; it must be a {kind.__name__}")
    if kind is float and value != value:
        raise GassipError(f"{name} is {value}; it must be a number")


PRESETS = ("best", "paper")
BEST = {
    "ops": MORE_OPS,
    "epochs": 100,
    "weight_form": "double",
    "weight_gain": 1.0,
    "weight_groups": "unit",
    "score_mean": 0.0,
    "score_std": 0.0,
    "sampled_paths": 1,
    "loss_nodes": "all",
    "kept_edges": "binary",
    "portfolio": (
        "Linear+APPNP10",
        "Linear+APPNP5",
        "GCNConv+GCNConv",
        "SAGEConv+SAGEConv",
        "Linear+Linear",
    ),
    "finalists": 6,
    "prunable": ("ArmaConv+ArmaConv",),
    "direction": "auto",
    "clean_shares": (0.75, 0.5),
    "recipe": "auto",
    "teachers": 3,
    "spectral": True,
    "similar": 50,
    "consistency": 1.0,
    "distillation": 1.0,
    "hear_labels": True,
}
FEW_WORDS = {
    "portfolio": (
        "Linear+APPNP5",
        "Linear+APPNP10",
        "GCNConv+GCNConv",
        "SAGEConv+SAGEConv",
        "Linear+Linear",
    ),
    "consistency_temperature": 0.3,
}
ALIKE_FROM = (
    0.2  # homophily above chance: under it an edge across classes may tell as much as one within
)
FEW_WEIGHTS = 3000  # 12 kB: under it a smaller net is of no use to anyone
FEW_LABELS = 0.1  # share of labelled nodes under which a net has much to learn from the others
LARGE_FROM, HUGE_FROM = (
    30_000,
    100_000,
)  # nodes from which `best` takes fewer epochs, and larger steps
# a net that reads words has weights enough: its steps, and how long its recipes are tried, are
# those of small graphs
LARGE_WORDS: dict[str, Any] = {"epochs": 40, "finalists": 7, "similar": 0}
LARGE = LARGE_WORDS | {
    "retrain_lr": 0.03,
    "retrain_epochs": 150,
    "prune_epochs": 600,
    "trial_epochs": 40,
}
HUGE = LARGE | {
    **{
        "epochs": 20,
        "retrain_epochs": 75,
        "prune_epochs": 300,
        "recipes": ("norm", "strong", "medium"),
    },
    **{"teacher_hidden": 256, "students": 2, "prunable": ("GCNConv+APPNP5",)},
}


def gcn_weights(features: int, classes: int) -> int:
    """Of a GCN with 64 hidden units, which sizes are told in shares of."""
    return (features + 1) * 64 + (64 + 1) * classes


def _derived(graph: "Graph") -> dict[str, Any]:
    """What `best` takes from the graph itself: its size, whether its features are words, how many
    labels there are, whether neighbours share them, how few weights a GCN has."""
    from gassip.graph.similarity import homophily, is_bag  # needs torch

    few_labels = float(graph.train_mask.float().mean()) < FEW_LABELS
    own: dict[str, Any] = {} if few_labels else {"consistency": 0.0}
    words = graph.has_sparse_features and is_bag(graph.x)
    if not words:
        own["similar"] = 0
    elif few_labels:
        own |= FEW_WORDS
    if graph.num_nodes >= LARGE_FROM:
        own |= HUGE if graph.num_nodes >= HUGE_FROM else LARGE_WORDS if words else LARGE
        own["portfolio"] = (*own.get("portfolio", BEST["portfolio"]), "ArmaConv+ArmaConv")
    if graph.num_nodes >= HUGE_FROM:  # fewer steps, and better there (docs/DESIGN.md)
        own["portfolio"] = tuple(
            text.replace("Linear+APPNP10", "GCNConv+APPNP5") for text in own["portfolio"]
        )
    if graph.has_sparse_features:
        own["feature_share"] = 0.5
    alike = homophily(graph)
    if alike is not None and alike < ALIKE_FROM:
        own["edge_shares"] = (1.0,)  # every edge stays
        own["edge_rules"] = ("support",)  # so there is nothing to choose
    gcn = gcn_weights(graph.num_features, graph.num_classes)
    if Gassip.size_share * gcn < FEW_WEIGHTS:
        own["size_share"] = round(FEW_WEIGHTS / gcn, 2)
    return own


def preset(name: str, graph: "Graph", overrides: Mapping[str, Any] | None = None) -> Gassip:
    """The settings of a preset for this graph, with some fields replaced.

    `paper` follows the appendix: from 30,000 nodes on SAGEConv is left out and batch norm comes in
    (with dropout .5, chosen on the validation nodes of Physics), from 100,000 on there are three
    layers.
    """
    if name not in PRESETS:
        raise GassipError(f"there is no preset {name!r}; choose one of {', '.join(PRESETS)}")
    base = Gassip()
    if name == "best":
        return with_overrides(base, BEST | _derived(graph) | dict(overrides or {}))
    if graph.num_nodes >= NARROW_FROM:
        base = replace(base, ops=NARROW_OPS, batch_norm=True, dropout=0.5, retrain_dropout=0.5)
    if graph.num_nodes >= THREE_LAYERS_FROM:
        base = replace(base, layers=3)
    return with_overrides(base, overrides or {})


def num_rows(settings: Gassip) -> int:
    """Epochs of a search and, after them, the most nets that are trained in its contest."""
    if settings.teachers == 0:
        return settings.epochs
    recipes = len(settings.recipes) if settings.recipe == "auto" else 0
    trials = recipes + 1 + len(settings.clean_shares)
    pruned = (
        (settings.students + len(settings.prunable)) * (1 + len(settings.size_steps))
        if settings.size_steps
        else 0
    )
    rivals = len(settings.edge_rules) * len(settings.edge_shares) - 1 + pruned
    outsider = int(settings.similar > 0)
    wider = settings.teachers if settings.teacher_hidden > 0 else 0
    beside_labels = settings.teachers + 1 if settings.hear_labels else 0
    taught = settings.students + rivals + beside_labels
    return settings.epochs + trials + settings.finalists + wider + outsider + taught


def with_overrides(base: Gassip, overrides: Mapping[str, Any]) -> Gassip:
    known = {f.name for f in fields(Gassip)}
    for name in overrides:
        if name not in known:
            raise GassipError(f"there is no setting {name!r}; see `gassip search --help`")
    return replace(base, **overrides)


def read_settings(path: Path) -> dict[str, Any]:
    """Settings from a TOML or JSON file: a flat table of field names and values."""
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise GassipError(f"cannot read settings from {path}: {error}") from None
    if not isinstance(found, dict):
        raise GassipError(f"{path} must hold a table of settings, not a {type(found).__name__}")
    return found
