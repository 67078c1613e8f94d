"""How a net is trained: the inputs of the final training, and the recipe that any training
follows."""

from dataclasses import dataclass
from typing import Literal

from gassip.errors import GassipError
from gassip.settings.fields import NOT_NEGATIVE, POSITIVE, PROBABILITY, Part, setting

Start = Literal["fresh", "rewind", "inherit"]
Keep = Literal["best", "late", "last"]
PruneRule = Literal["magnitude", "random"]
Schedule = Literal["constant", "cosine"]


@dataclass(frozen=True, kw_only=True)
class Retraining(Part):
    """The training of what the search found (end of Sec. 4.4)."""

    start: Start = setting(
        "fresh",
        "initial weights: drawn anew, the search's first, or its last",
        flat="retrain_start",
    )
    epochs: int = setting(300, "epochs of the final training", POSITIVE, flat="retrain_epochs")
    lr: float = setting(
        0.01, "Adam's learning rate in the final training", NOT_NEGATIVE, flat="retrain_lr"
    )
    weight_decay: float = setting(
        5e-4, "weight decay in the final training", NOT_NEGATIVE, flat="retrain_weight_decay"
    )
    dropout: float = setting(
        0.8, "dropout in the final training", PROBABILITY, flat="retrain_dropout"
    )
    dropouts: tuple[float, ...] = setting(
        (),
        "dropouts tried beside retrain_dropout with every architecture that may be induced",
        PROBABILITY,
        flat="retrain_dropouts",
    )
    keep_epoch: Keep = setting(
        "best", "epoch that is kept: the best on validation of all or of the late half, or the last"
    )
    schedule: Schedule = setting(
        "constant", "learning rate over the epochs: as it is, or half a cosine down to 0"
    )
    validate_every: int = setting(1, "epochs from one validation to the next", POSITIVE)


@dataclass(frozen=True, kw_only=True)
class Recipe(Part):
    """Everything one training of one net follows from, besides the net, the graph and the seed."""

    start: Start = setting("fresh", "initial weights")
    epochs: int = setting(300, "epochs", POSITIVE)
    lr: float = setting(0.01, "Adam's learning rate", NOT_NEGATIVE)
    weight_decay: float = setting(5e-4, "weight decay", NOT_NEGATIVE)
    dropout: float = setting(0.8, "dropout before each layer", PROBABILITY)
    batch_norm: bool = setting(False, "batch norm before each layer but the first")
    layer_norm: bool = setting(False, "layer norm there instead: each node over its own units")
    standardised: bool = setting(False, "columns of x standardised in front of the first layer")
    keep_epoch: Keep = setting("best", "epoch that is kept")
    class_weights: bool = setting(False, "classes weighted by their inverse frequency in the loss")
    fit_bias: bool = setting(
        False, "a bias for each class, fitted to macro F1 on validation nodes after the training"
    )
    output_bias: tuple[float, ...] = setting(
        (), "the bias for each class where it is known and not fitted: after a refit"
    )
    schedule: Schedule = setting("constant", "learning rate over the epochs")
    validate_every: int = setting(1, "epochs from one validation to the next", POSITIVE)
    batch_rows: int = setting(
        0, "nodes of a mini-batch, for nets that read edges in layer 1 alone; 0: all", NOT_NEGATIVE
    )
    consistency: float = setting(
        0.0, "weight of the consistency loss, of nets without a teacher", NOT_NEGATIVE
    )
    consistency_temperature: float = setting(0.5, "sharpening temperature of its target", POSITIVE)
    consistency_ramp: int = setting(50, "epochs over which that weight grows", POSITIVE)
    distillation: float = setting(0.0, "weight of a soft label; a label weighs 1", NOT_NEGATIVE)
    prune_to: int = setting(
        0, "weights left when gradual pruning ends; 0: no pruning", NOT_NEGATIVE
    )
    prune_rule: PruneRule = setting("magnitude", "which weights stay")
    label_weight: float = setting(
        0.0, "weight of the label-propagation logits; 0: none are added", NOT_NEGATIVE
    )
    labels_in_training: bool = setting(
        True, "whether these logits are added in training too, or at prediction alone"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_norm and self.layer_norm:
            raise GassipError(
                "batch_norm and layer_norm are both on; a recipe has one norm: choose one"
            )

    @staticmethod
    def of(retraining: Retraining, *, batch_norm: bool = False) -> "Recipe":
        return Recipe(
            start=retraining.start,
            epochs=retraining.epochs,
            lr=retraining.lr,
            weight_decay=retraining.weight_decay,
            dropout=retraining.dropout,
            keep_epoch=retraining.keep_epoch,
            schedule=retraining.schedule,
            validate_every=retraining.validate_every,
            batch_norm=batch_norm,
        )
