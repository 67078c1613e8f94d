"""The settings of the preset `best`, one small dataclass for each stage of its pipeline
(METHOD.md)."""

from dataclasses import dataclass, field, fields
from typing import Literal

from gassip.best.edge_ranking import RANKINGS
from gassip.best.rules import SIZE_SHARE
from gassip.errors import GassipError
from gassip.operations import NET_OPS
from gassip.settings.fields import (
    NOT_NEGATIVE,
    POSITIVE,
    POSITIVE_EACH,
    SHARE,
    SHARES,
    Part,
    setting,
)
from gassip.settings.training import Keep, PruneRule

RECIPES = ("strong", "medium", "norm", "mild", "layer", "given")


@dataclass(frozen=True, kw_only=True)
class Cleaning(Part):
    """Edges between dissimilar nodes, dropped before anything is trained."""

    clean_shares: tuple[float, ...] = setting(
        (0.75, 0.5), "shares of edges, the most similar ends first, that may replace all", SHARES
    )


@dataclass(frozen=True, kw_only=True)
class RecipeTrials(Part):
    """Dropout, weight decay and norm, chosen by short trainings."""

    recipes: tuple[str, ...] = setting(
        ("strong", "medium", "norm"),
        "recipes that compete: strong, medium, norm, mild, layer, or given (the retrain "
        "settings); the first stays unless another validates better",
    )
    trial_epochs: int = setting(
        50,
        "epochs of one trial of a recipe, and of a candidate before the best are trained on",
        POSITIVE,
    )
    standardise_features: bool = setting(
        True, "standardise dense features if that validates better"
    )
    standardised: bool = setting(False, "standardise dense features from the start")
    degree_features: bool = setting(
        True, "add columns of degree to given features if the validation likelihood rises"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.recipes or not set(self.recipes) <= set(RECIPES):
            known = ", ".join(RECIPES)
            raise GassipError(f"recipes is {list(self.recipes)}; name at least one of {known}")


@dataclass(frozen=True, kw_only=True)
class Candidates(Part):
    """Architectures that compete to be teachers and students."""

    candidates: int = setting(6, "architectures that compete", POSITIVE)
    default_candidates: tuple[str, ...] = setting(
        (
            "Linear+APPNP10",
            "Linear+APPNP5",
            "GCNConv+GCNConv",
            "SAGEConv+SAGEConv",
            "Linear+Linear",
        ),
        "architectures that always compete, operations joined by +",
    )
    ranking: Literal["supernet", "random"] = setting(
        "supernet", "what ranks the other candidates; random is the control"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_architectures(self.default_candidates)


@dataclass(frozen=True, kw_only=True)
class Teaching(Part):
    """The ensemble whose soft labels the student is trained on."""

    teachers: int = setting(3, "best candidates whose mean is the teacher", POSITIVE)
    teacher_hidden: int = setting(
        0, "hidden units with which the teachers are trained anew; 0: as candidates", NOT_NEGATIVE
    )
    knn: int = setting(
        50, "neighbours per node in the kNN graph of one further teacher; 0: none", NOT_NEGATIVE
    )
    spectral: bool = setting(
        True, "add logistic regression on the leading singular vectors of Â²X to the teacher"
    )
    calibrate: bool = setting(
        True, "fit temperatures, weights and class biases of the teacher to validation labels"
    )
    consistency: float = setting(
        1.0, "weight of the consistency loss of nets without a teacher", NOT_NEGATIVE
    )
    consistency_temperature: float = setting(
        0.5, "sharpening temperature of the consistency target", POSITIVE
    )
    consistency_ramp: int = setting(25, "epochs over which the consistency weight grows", POSITIVE)


@dataclass(frozen=True, kw_only=True)
class Student(Part):
    """The final net."""

    students: int = setting(3, "best candidates that compete to be the final net", POSITIVE)
    final_ops: str = setting(
        "", "operations of the student joined by +; empty: chosen on validation"
    )
    size_share: float = setting(
        float(SIZE_SHARE),
        "weights of the student, as a share of a GCN with 64 hidden units",
        POSITIVE,
    )
    level: bool = setting(
        True,
        "take a larger or plainer net if the student validates worse than the best candidate",
    )
    feature_share: float = setting(1.0, "share of the input features that the student reads", SHARE)
    feature_rule: Literal["teacher", "random"] = setting(
        "teacher", "which features: those of the largest teacher weights; random is the control"
    )
    student_keep_epoch: Keep = setting(
        "late", "epoch of a student that is kept: the best of the late half or of all, or the last"
    )
    distillation: float = setting(
        1.0, "weight of a soft label in the training of the student; a label weighs 1", NOT_NEGATIVE
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_architectures((self.final_ops,) if self.final_ops else ())


@dataclass(frozen=True, kw_only=True)
class EdgeCut(Part):
    """Which edges the final net's graph keeps."""

    edge_rankings: tuple[str, ...] = setting(
        ("support", "curriculum"), "rankings of edges that compete on validation"
    )
    edge_shares: tuple[float, ...] = setting(
        (0.89, 0.75, 0.6, 0.4, 0.2),
        "shares of edges kept, until validation is worse",
        SHARES,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.edge_rankings:
            if name not in RANKINGS:
                known = ", ".join(RANKINGS)
                raise GassipError(f"edge_rankings names {name!r}; there are {known}")
        if not self.edge_rankings:
            known = ", ".join(RANKINGS)
            raise GassipError(f"edge_rankings is empty; name at least one of {known}")
        if not self.edge_shares:
            raise GassipError(
                "edge_shares is empty; name at least one share of edges to keep, such as 1.0"
            )


@dataclass(frozen=True, kw_only=True)
class Pruned(Part):
    """A student that is behind its teacher: over-parameterised, then pruned while it trains."""

    size_steps: tuple[float, ...] = setting(
        (1.0, 3.0),
        "larger size_shares, each tried only if the student is still behind its teacher",
        POSITIVE_EACH,
    )
    prune_from: int = setting(
        4,
        "over-parameterisation factor: the student starts this many times larger and is pruned "
        "to size; 1 turns pruning off",
        POSITIVE,
    )
    prune_epochs: int = setting(400, "epochs of a training with pruning", POSITIVE)
    prune_candidates: tuple[str, ...] = setting(
        ("ArmaConv+ArmaConv",), "architectures that always compete to be pruned"
    )
    prune_rule: PruneRule = setting(
        "magnitude", "which weights stay: the largest; random is the control"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_architectures(self.prune_candidates)


@dataclass(frozen=True, kw_only=True)
class LabelPropagation(Part):
    """Training labels, propagated over the training graph."""

    label_propagation: bool = setting(
        True, "add label-propagation logits if the validation likelihood rises"
    )
    serves: Literal["any", "own"] = setting(
        "any",
        "graphs it serves: any, or own (may train with label propagation)",
        flat="for",
    )


@dataclass(frozen=True, kw_only=True)
class Plain(Part):
    """Plain nets: light, trained on labels alone; the first ones under a time limit."""

    plain: tuple[str, ...] = setting(
        ("Linear+APPNP10", "GCNConv+GCNConv", "SAGEConv+SAGEConv", "Linear+Linear"),
        "architectures of plain nets, operations joined by +",
    )
    plain_epochs: int = setting(200, "most epochs of a plain net", POSITIVE)
    plain_only: bool = setting(False, "take the best plain net: no supernet, no teacher")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_architectures(self.plain)


def check_architectures(given: tuple[str, ...]) -> None:
    for text in given:
        if not set(text.split("+")) <= set(NET_OPS):
            raise GassipError(
                f"{text!r} is no architecture; join operations by +, such as Linear+APPNP10"
            )


@dataclass(frozen=True, kw_only=True)
class Best:
    """All stages of `best`."""

    cleaning: Cleaning = field(default_factory=Cleaning)
    recipe: RecipeTrials = field(default_factory=RecipeTrials)
    candidates: Candidates = field(default_factory=Candidates)
    teaching: Teaching = field(default_factory=Teaching)
    student: Student = field(default_factory=Student)
    edges: EdgeCut = field(default_factory=EdgeCut)
    pruning: Pruned = field(default_factory=Pruned)
    labels: LabelPropagation = field(default_factory=LabelPropagation)
    plain: Plain = field(default_factory=Plain)


STAGES: dict[str, type[Part]] = {
    stage.name: stage.default_factory  # type: ignore[misc]
    for stage in fields(Best)
}
