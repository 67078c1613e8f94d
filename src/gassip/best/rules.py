"""Every threshold of the preset `best`, with its unit and its reason; METHOD.md's tables are made
from here (`python -m gassip.best.rules`).

A rule sets defaults from facts of the graph, before anything is trained; a setting given by the
user wins over it. A threshold decides between two things that were tried.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Facts:
    """What rules may know of a graph; no test label has a part in it."""

    nodes: int
    labelled: float  # share of nodes that are training nodes
    words: bool  # the features are a bag of words
    sparse: bool  # the features are stored sparse
    features: int
    gcn_weights: int  # of a GCN with 64 hidden units
    largest: float = 0.0  # absolute value of a dense feature


@dataclass(frozen=True)
class Rule:
    """Defaults of graphs for which `when` holds."""

    name: str
    condition: str
    when: Callable[[Facts], bool]
    sets: Callable[[Facts, Mapping[str, Any]], dict[str, Any]]
    effect: str
    reason: str


class Threshold(float):
    """A number that decides, with its unit and its reason."""

    unit: str
    reason: str

    def __new__(cls, value: float, unit: str, reason: str) -> "Threshold":
        number = super().__new__(cls, value)
        number.unit, number.reason = unit, reason
        return number

    def __getnewargs__(self) -> tuple[float, str, str]:  # type: ignore[override]
        """A copy is made from these: decisions hold thresholds."""
        return float(self), self.unit, self.reason


class Grid(tuple[float, ...]):
    """The values that are tried, or the two ends of a range, with their unit and their reason."""

    unit: str
    reason: str

    def __new__(cls, values: tuple[float, ...], unit: str, reason: str) -> "Grid":
        grid = super().__new__(cls, values)
        grid.unit, grid.reason = unit, reason
        return grid

    def __getnewargs__(self) -> tuple[tuple[float, ...], str, str]:
        return tuple(self), self.unit, self.reason


# Significance

SCORE_SIGMAS = Threshold(
    2.0,
    "standard errors",
    "a challenger replaces what came first only beyond chance; a few hundred validation nodes "
    "cannot tell good nets apart",
)
RECIPE_SIGMAS = Threshold(
    1.0,
    "standard errors",
    "trials of recipes are short and the first recipe is no better founded than the others",
)
NORM_SIGMAS = Threshold(
    2.0, "standard errors", "where `norm` comes first it is known to be good on graphs of that size"
)
LEVEL_SIGMAS = Threshold(
    1.0,
    "standard errors",
    "a cut of edges is taken for level unless its validation score is lower by this",
)
POSSIBLE_LOSS = Threshold(
    0.02,
    "of the validation score",
    "a cut is taken only where a larger loss is ruled out at one standard error; twenty validation "
    "nodes are all right on every cut, and say nothing about it",
)
EXPECTED_LOSS = Threshold(
    0.001,
    "of the nodes without a label",
    "a cut is taken only if its teacher expects no more of them to be lost; this sees smaller "
    "losses than a few hundred validation nodes",
)
CUT_EPOCHS = Threshold(
    0.1,
    "of the epochs of a full training",
    "for which the student is trained on for each cut; trained anew for a short while, sparser "
    "cuts seem better since nets learn faster on them",
)
CUT_RATE = Threshold(
    0.3, "times the learning rate", "of that training: larger steps would undo what was learned"
)
LIKELIHOOD_SIGMAS = Threshold(
    3.0,
    "standard errors",
    "gain in validation log-likelihood; above every unperturbed graph tried, below every strongly "
    "attacked one",
)
JACKKNIFE_GROUPS = Threshold(
    20, "groups of validation nodes", "of which one after the other is left out (jackknife)"
)

# Spectral regression, which judges graphs

SPECTRAL_DIRECTIONS = Threshold(
    32, "singular vectors", "more fit the noise of twenty labels per class"
)
SPECTRAL_HOPS = Threshold(2, "products with Â", "as many as a net of two layers has")
SPECTRAL_DECAYS = Grid(
    (3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6),
    "λ, tried from the largest on",
    "until the validation likelihood falls",
)
BIAS_SHRINK = Threshold(
    0.1, "times |b|²", "a few hundred validation nodes tell little about rare classes"
)
LABEL_WEIGHTS = Grid(
    (0.05, 10.0),
    "range of a; w has the same upper end",
    "if both predictors are always right, the optimum has no end",
)

# Teacher

CROSS_FIT_FROM = Threshold(
    0.1,
    "share of nodes that are labelled",
    "with many labels a teacher has memorised them, and edges would be judged by labels",
)
ENSEMBLE_STEPS = Threshold(4, "steps", "ensemble weights are multiples of 1 / steps")
RANKED_PATHS = Threshold(64, "architectures", "of the supernet that are compared one by one")

FURTHER = Threshold(
    3, "times fewer epochs", "of a teacher that goes on with label-propagation logits beside it"
)

# Student

WIDEST = Threshold(1024, "hidden units, at most", "of a student; wider ones were never smaller")
PRUNE_MARGIN = Threshold(
    0.01,
    "validation score",
    "a student this close to its teacher is not pruned from a larger one",
)
LARGER_MARGIN = Threshold(
    0.02, "validation score", "a student this close to its teacher is not given more weights"
)
PRUNE_RATE = Threshold(2, "times the learning rate", "a net that is pruned takes larger steps")
PRUNE_BRIEF = Threshold(
    4, "times fewer epochs", "of nets that compete to be pruned; the best of them is in full"
)
PRUNE_DECAY = Threshold(2e-4, "weight decay, at least", "of a net that is pruned")
NODE_DROPOUT_CAP = Threshold(
    0.5, "dropout, at most", "of a net whose operation drops whole nodes besides"
)

PLAIN_DROPOUT = Threshold(0.5, "dropout", "of a plain net that the student is held against")
PLAIN_DECAY = Threshold(5e-4, "weight decay", "of such a net; both as first published for GCN")

ROWS_FROM = Threshold(
    4096, "training nodes", "fewer make too few mini-batches: the whole graph is one step"
)
ROW_BATCH = Threshold(1024, "nodes", "of a mini-batch")
ROW_RATE = Threshold(0.005, "learning rate", "of mini-batches, which take many steps in an epoch")
ROW_EPOCHS = Threshold(30, "epochs, at most", "of mini-batches; twice with pruning")

# Rules

MANY_LABELS = Threshold(
    0.1, "share of nodes that are labelled", "with fewer, a net has much to learn from the others"
)
SIZE_SHARE = Threshold(0.35, "of a GCN-64's weights", "the default size of a student")
FEW_WEIGHTS = Threshold(3000, "weights", "12 kB: a smaller net is of no use to anyone")
LARGE = Threshold(30_000, "nodes", "fewer epochs suffice, and larger steps where features are few")
VERY_LARGE = Threshold(
    1e6, "feature value", "on values as given training diverges or learns nothing"
)
HUGE = Threshold(100_000, "nodes", "fewer still; batch norm validates best there")

HIDDEN = 64  # units of a candidate
ROWS_FIRST = (
    "TAG3+Linear",
    "TAG4+Linear",
    "TAG2+Linear",
)  # trained by mini-batches: the quickest, so first
WIDER = ("TAG2+Linear", "SkipGCN+SkipGCN", "SAGEConv+SAGEConv+SAGEConv+SAGEConv")

LARGE_STEPS = {"epochs": 8, "retrain_epochs": 75, "prune_epochs": 300, "trial_epochs": 30}
HUGE_STEPS = LARGE_STEPS | {"retrain_epochs": 50, "prune_epochs": 150}
HUGE_CHOICE: dict[str, Any] = {
    "recipes": ["norm", "strong", "medium"],
    "teachers": 2,
    "teacher_hidden": 256,
    "students": 2,
    "prune_candidates": ["GCNConv+APPNP5"],
}


def short_reach_first(given: Mapping[str, Any]) -> list[str]:
    """APPNP5 before APPNP10 among the default candidates."""
    names = list(given["default_candidates"])
    a, b = names.index("Linear+APPNP10"), names.index("Linear+APPNP5")
    names[a], names[b] = names[b], names[a]
    return names


def rows_first(given: Mapping[str, Any]) -> list[str]:
    """Nets over hops before the others, of which one APPNP is enough: its steps are dear."""
    names = given["default_candidates"]
    return [*ROWS_FIRST, *(name for name in names if name != "Linear+APPNP10")]


RULES = (
    Rule(
        "very large values",
        f"a dense feature reaches {VERY_LARGE:,.0f}",
        lambda facts: facts.largest >= VERY_LARGE,
        lambda facts, given: {"standardised": True},
        "all nets and the search on standardised features",
        "VERY_LARGE; on other features the choice is made by validation",
    ),
    Rule(
        "many labels",
        f"at least {MANY_LABELS:.0%} of the nodes are labelled",
        lambda facts: facts.labelled >= MANY_LABELS,
        lambda facts, given: {"consistency": 0.0},
        "no consistency loss",
        "labels tell enough; the loss costs a second pass",
    ),
    Rule(
        "many labels, wider",
        f"at least {MANY_LABELS:.0%} of the nodes are labelled, fewer than {LARGE:,.0f} nodes",
        lambda facts: facts.labelled >= MANY_LABELS and facts.nodes < LARGE,
        lambda facts, given: {
            "default_candidates": [*given["default_candidates"], *WIDER],
            "candidates": given["candidates"] + len(WIDER),
        },
        "hops side by side and deeper nets with skip connections among the candidates",
        "labels enough to train them; the published best on Photo, CS and Physics are such nets",
    ),
    Rule(
        "no bag of words",
        "the features are no bag of words",
        lambda facts: not facts.words,
        lambda facts, given: {"knn": 0},
        "no kNN-graph teacher",
        "cosine similarity of dense features was not found to tell",
    ),
    Rule(
        "words, few labels",
        f"a bag of words, fewer than {MANY_LABELS:.0%} labelled",
        lambda facts: facts.words and facts.labelled < MANY_LABELS,
        lambda facts, given: {
            "default_candidates": short_reach_first(given),
            "consistency_temperature": 0.3,
            "retrain_epochs": 300,
        },
        "APPNP5 first, consistency temperature .3, 300 epochs",
        "validated best on citation graphs",
    ),
    Rule(
        "large",
        f"at least {LARGE:,.0f} nodes",
        lambda facts: facts.nodes >= LARGE,
        lambda facts, given: {
            "candidates": 7,
            "knn": 0,
            "default_candidates": [*given["default_candidates"], "ArmaConv+ArmaConv"],
        },
        "7 candidates with ARMA ‖ ARMA, no kNN-graph teacher",
        "LARGE; exact neighbours cost N²",
    ),
    Rule(
        "large, no words",
        f"at least {LARGE:,.0f} nodes, no bag of words",
        lambda facts: facts.nodes >= LARGE and not facts.words,
        lambda facts, given: dict(LARGE_STEPS),
        "8 search epochs, 75 of training, 300 with pruning, 30 per trial",
        "a net that reads words has weights enough: its steps stay those of small graphs",
    ),
    Rule(
        "large, many labels",
        f"at least {LARGE:,.0f} nodes, no bag of words, at least {MANY_LABELS:.0%} labelled",
        lambda facts: facts.nodes >= LARGE and not facts.words and facts.labelled >= MANY_LABELS,
        lambda facts, given: {
            "candidates": 9,
            "students": 2,
            "default_candidates": rows_first(given),
        },
        "9 candidates, TAG3, TAG4 and TAG2 ‖ Linear first, without Linear ‖ APPNP10; 2 students",
        "nets over hops train by mini-batches in a tenth of the time, and validate higher",
    ),
    Rule(
        "huge",
        f"at least {HUGE:,.0f} nodes",
        lambda facts: facts.nodes >= HUGE,
        lambda facts, given: HUGE_STEPS | HUGE_CHOICE,
        "8 search epochs, 50 of training, 150 with pruning; `norm` first; 2 teachers of 256 units; "
        "2 students; GCN ‖ APPNP5 competes to be pruned",
        "HUGE",
    ),
    Rule(
        "sparse features",
        "the features are stored sparse",
        lambda facts: facts.sparse,
        lambda facts, given: {"feature_share": 0.5},
        "the student reads half of the features",
        "half of the words cost nothing on every graph of words tried",
    ),
    Rule(
        "few features",
        "fewer features than a candidate has hidden units",
        lambda facts: facts.features < HIDDEN,
        lambda facts, given: {"recipes": [*given["recipes"], "mild"]},
        "`mild` among the recipes",
        "dropout may remove a feature that nothing else tells",
    ),
    Rule(
        "few weights",
        f"the size share of a GCN-64's weights is under {FEW_WEIGHTS:,.0f}",
        lambda facts: SIZE_SHARE * facts.gcn_weights < FEW_WEIGHTS,
        lambda facts, given: {"size_share": round(FEW_WEIGHTS / facts.gcn_weights, 2)},
        f"the student has {FEW_WEIGHTS:,.0f} weights",
        "FEW_WEIGHTS",
    ),
)


def derived(facts: Facts, base: Mapping[str, Any]) -> dict[str, Any]:
    """What the rules set for a graph with these facts, in the order of the table."""
    out: dict[str, Any] = {}
    for rule in RULES:
        if rule.when(facts):
            out |= rule.sets(facts, {**base, **out})
    return out


def thresholds() -> dict[str, Threshold | Grid]:
    return {
        name: threshold
        for name, threshold in globals().items()
        if isinstance(threshold, Threshold | Grid)
    }


def value_text(threshold: Threshold | Grid) -> str:
    values = threshold if isinstance(threshold, Grid) else (threshold,)
    return ", ".join(f"{value:g}" for value in values)


def markdown() -> str:
    """Both tables, as METHOD.md holds them."""
    lines = ["| graph | defaults | reason |", "|---|---|---|"]
    lines += [f"| {rule.condition} | {rule.effect} | {rule.reason} |" for rule in RULES]
    lines += ["", "| threshold | value | unit | reason |", "|---|---|---|---|"]
    lines += [
        f"| `{n}` | {value_text(threshold)} | {threshold.unit} | {threshold.reason} |"
        for n, threshold in thresholds().items()
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
