"""A net as plain arrays, as core.c reads it; what core.c cannot compute is refused.

    int8        q = round(w / s), s = max|column| / 127, as gassip.runs.format
    norm        h · times + shift in front of a layer, of batch norm's running statistics; or of
                layer norm, behind the mean and deviation of each row

core.c knows the norms in NORMS and the fields of `Operation`, `Layer` and `Model` that are named
below. A field that it does not know and that is not at its default is an error, so that an
operation which other backends learn is never left out in silence.

Shapes: F width of a layer's output, M its matrices, H heads, C classes.
"""

from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Literal

import numpy as np

from gassip.deploy.model import makes_no_columns
from gassip.deploy.numpy_layers import Layer
from gassip.deploy.runtime import Model, load
from gassip.errors import GassipError
from gassip.graph.checks import Array
from gassip.operations import OPERATIONS, PRIOR_WEIGHT, SPREAD, Operation
from gassip.runs.format import label_weight, read_meta, rounded

FOLDER = Path(__file__).parent
CORE = FOLDER / "core.c"
NORMS = (None, "gcn", "arma", "mean", "attention")  # by core.c's numbers
NativePrecision = Literal["float32", "int8"]
# training and counting read the others of Operation
OPERATION_FIELDS = ("norm", "matrices", "steps", "scale", "back", "start")
OPERATION_IGNORED = ("node_dropout", "space", "large", "cheaper", "shorter")
LAYER_FIELDS = ("op", "weights", "bias", "attention", "scale", "shift", "layer_norm", "width")
MODEL_FIELDS = (
    "layers",
    "class_names",
    "features",
    "feature_index",
    "undirected",
    "normalize",
    "edges_total",
    "edges",
    "x",
    "y",
    "test_mask",
    "ids",
    "label_weight",
    "labels",
    "soft",
    "preparation",
    "statistics",  # for warnings of `predict` alone
    "elsewhere",
    "reorder",
)


@dataclass(frozen=True, kw_only=True)
class Passing:
    """Z_0 = s P, Z_{k+1} = a S Z_k + b P: core.c's `passing`."""

    norm: int
    steps: int
    scale: float
    back: float
    start: float

    @staticmethod
    def of(name: str) -> "Passing":
        operation = OPERATIONS[name]
        refuse_unknown(operation, OPERATION_FIELDS + OPERATION_IGNORED, f"operation {name}")
        return Passing(
            norm=_norm(name, operation),
            steps=operation.steps,
            scale=operation.scale,
            back=operation.back,
            start=operation.start,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class NativeLayer:
    """core.c's `layer`."""

    passing: Passing
    matrices: int
    heads: int
    weight: Array  # [in, M F] float32 or int8
    unit: Array | None  # [M F], of int8
    bias: Array  # [F]
    attention: Array | None  # [2, F]
    times: Array | None  # [in]
    shift: Array | None  # [in]
    layer_norm: bool = False  # whether rows are standardised before these two

    @property
    def width(self) -> int:
        return int(self.bias.size)


@dataclass(frozen=True, eq=False, kw_only=True)
class NativeNet:
    """core.c's `net`, with the model it was made from as the reference."""

    model: Model  # whose scores are to be met
    layers: tuple[NativeLayer, ...]
    spread: Passing
    prior_weight: float

    @property
    def read(self) -> int:
        """d, the features that the net reads."""
        return int(self.layers[0].weight.shape[0])

    @property
    def classes(self) -> int:
        return len(self.model.class_names)

    @property
    def weights_bytes(self) -> int:
        """Bytes of all arrays of the net."""
        return sum(array.nbytes for layer in self.layers for array in arrays(layer))


def arrays(layer: NativeLayer) -> list[Array]:
    """Those that a layer has, in core.c's order."""
    found = (
        layer.weight,
        layer.unit,
        layer.bias,
        layer.attention,
        layer.times,
        layer.shift,
    )
    return [array for array in found if array is not None]


def native_net(folder: str | Path, precision: NativePrecision) -> NativeNet:
    """The net of a run's folder or of an export."""
    meta = read_meta(Path(folder))
    model = load(folder, precision=precision if precision == "int8" else None)
    return NativeNet(
        model=checked_model(model),
        layers=tuple(_layer(layer, precision) for layer in model.layers),
        spread=Passing.of(SPREAD),
        prior_weight=PRIOR_WEIGHT if label_weight(meta) else 0.0,
    )


def checked_model(model: Model) -> Model:
    makes_no_columns(model, "compiled code")
    refuse_unknown(model, MODEL_FIELDS, "the run")
    return model


def refuse_unknown(given: object, known: Iterable[str], what: str) -> None:
    """Refuse a field that is not known here, unless it is at its default."""
    known = set(known)
    for field in fields(given):  # type: ignore[arg-type]
        if field.name in known:
            continue
        value = getattr(given, field.name)
        default = field.default if field.default is not MISSING else None
        if field.default_factory is not MISSING:
            default = field.default_factory()
        if not (value is default or value == default):
            raise GassipError(
                f"{what} has {field.name}, which C and WebAssembly do not know; "
                f"use --format runtime or onnx"
            )


def _norm(name: str, operation: Operation) -> int:
    if operation.norm not in NORMS:
        raise GassipError(
            f"operation {name} has the norm {operation.norm!r}, which C and WebAssembly do not "
            f"know; use --format runtime or onnx"
        )
    if operation.matrices not in (1, 2, operation.steps + 1):
        raise GassipError(
            f"operation {name} has {operation.matrices} matrices for {operation.steps} steps; "
            f"C and WebAssembly do not know that; use --format runtime or onnx"
        )
    return NORMS.index(operation.norm)


def _layer(layer: Layer, precision: NativePrecision) -> NativeLayer:
    refuse_unknown(layer, LAYER_FIELDS, f"a layer of {layer.op}")
    weight: Array = layer.side_by_side
    unit = None
    if precision == "int8":
        weight, unit = rounded(weight)
    attention = layer.attention
    return NativeLayer(
        passing=Passing.of(layer.op),
        matrices=layer.operation.matrices,
        heads=1 if attention is None else int(attention.shape[1]),
        weight=np.ascontiguousarray(weight),
        unit=unit,
        bias=layer.bias.astype(np.float32),
        attention=None if attention is None else attention.reshape(2, -1).astype(np.float32),
        times=None if layer.scale is None else layer.scale.astype(np.float32),
        shift=None if layer.shift is None else layer.shift.astype(np.float32),
        layer_norm=layer.layer_norm,
    )
