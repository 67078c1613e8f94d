"""The layers of a net as numpy arrays, from its parameters by name.

    h_0 = X,   h_l = o_l(norm(ReLU(h_{l-1}))),   labels = argmax h_L

    norm(h)_i = s ⊙ h_i + t                                        batch norm, by running statistics
    norm(h)_i = s ⊙ (h_i − mean_i) / sqrt(var_i + 1e-5) + t        layer norm (`standardise_rows`)

    (H s + 1 t) W = [H 1] [s W; t W]: a column of ones carries the norm's shift through the weights
        (`filled`)

Widths are filled up to whole vector registers. The graph is in numpy_graph.py, the arithmetic in
numpy_forward.py.

Shapes: d features that are read, F width of a layer, H heads.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse as sp

from gassip.errors import GassipError
from gassip.graph.checks import Array, Table
from gassip.operations import OPERATIONS, Operation
from gassip.runs.format import Tensors

NEGATIVE_SLOPE = 0.2  # of attention, as nn/propagate.py
EPSILON = 1e-5  # of both norms, torch's
# floats of a vector register, as scipy is compiled; a width that is no multiple costs up to a third
# more
LANES = 4


@dataclass(frozen=True, eq=False, kw_only=True)
class Layer:
    """One operation with its weights; `scale` and `shift` are the norm in front of it, where there
    is one: of layer norm what follows the mean and the deviation of each row."""

    op: str
    weights: tuple[Array, ...]  # [in, F] each
    bias: Array  # [F]
    attention: Array | None = None  # [2, H, F / H], filled: [2, H, more]
    scale: Array | None = None  # [in]
    shift: Array | None = None  # [in]
    layer_norm: bool = False  # whether rows are standardised before scale and shift
    width: int = 0  # F before it was filled

    @property
    def operation(self) -> Operation:
        return OPERATIONS[self.op]

    @cached_property
    def side_by_side(self) -> Array:
        """All its weights, [in, matrices · F]."""
        return np.concatenate(self.weights, axis=1)


def standardised(layer: Layer, x: Table) -> Table:
    """x as the first layer reads it: x · scale + shift, if it has these."""
    if layer.scale is None or layer.shift is None:
        return x
    dense = x.toarray() if isinstance(x, sp.csr_array) else x
    return dense * layer.scale + layer.shift


def standardise_rows(h: Array, width: int) -> Array:
    """(h_i − mean_i) / sqrt(var_i + 1e-5) of the first `width` columns, in place: layer norm
    without its scale and shift. Columns by which h was filled stay as they are."""
    units = h[:, :width]
    units -= units.mean(axis=1, keepdims=True)
    variance = np.einsum("ij,ij->i", units, units) / np.float32(width)
    units /= np.sqrt(variance + np.float32(EPSILON))[:, None]
    return h


def filled(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """The same net with widths that are multiples of LANES and without the norms' scales and
    shifts; the scores are its first C columns. Layer norm keeps its mean and deviation, which
    `standardise_rows` takes over the true width.

    A layer with a norm behind it puts out a column of ones by its bias; the other new columns are
    zeros. Attention has at least one new column per head, the last, in which `attend` sums up.
    """
    first = replace(layers[0], scale=None, shift=None)  # of x: `standardised`
    layers, out, rows = (first, *layers[1:]), [], 0
    for layer, after in zip(layers, [*layers[1:], None], strict=True):
        size, ones = layer.bias.size, int(after is not None and after.shift is not None)
        more = ones + -(size + ones) % LANES
        bias = np.concatenate([layer.bias, np.arange(more) < ones]).astype(np.float32)
        weights, attention = (
            tuple(_behind_norm(layer, weight, rows) for weight in layer.weights),
            layer.attention,
        )
        if attention is None:
            weights = tuple(np.pad(weight, ((0, 0), (0, more))) for weight in weights)
        else:
            heads = attention.shape[1]
            own_weights = (np.pad(weight, ((0, 0), (0, more))) for weight in weights[1:])
            weights = (_by_head(weights[0], heads), *own_weights)
            attention = _by_head(attention.reshape(2, -1), heads).reshape(2, heads, -1)
        made = replace(
            layer,
            weights=weights,
            bias=bias,
            attention=attention,
            scale=None,
            shift=None,
            width=size,
        )
        out.append(made)
        rows = more
    return tuple(out)


def _by_head(columns: Array, heads: int) -> Array:
    """Head after head with new columns of zeros behind each."""
    apart = columns.reshape(columns.shape[0], heads, -1)
    more = 1 + -(apart.shape[2] + 1) % LANES
    return np.pad(apart, ((0, 0), (0, 0), (0, more))).reshape(columns.shape[0], -1)


def _behind_norm(layer: Layer, weight: Array, rows: int) -> Array:
    """[s W; t W; 0] for an input that is `rows` wider, its first new column of ones."""
    whole = np.pad(weight, ((0, rows), (0, 0)))
    if layer.scale is not None and layer.shift is not None:
        whole[: weight.shape[0]] *= layer.scale[:, None]
        whole[weight.shape[0]] = layer.shift @ weight
    return whole


def layers_of(ops: Sequence[str], state: Tensors, classes: int) -> tuple[Layer, ...]:
    """The layers of a net from its parameters by name."""
    layers: list[Layer] = []
    width = state["layers.0.weight"].shape[0]
    for at, op in enumerate(ops):
        weight, bias = state[f"layers.{at}.weight"], state[f"layers.{at}.bias"].reshape(-1)
        matrices = OPERATIONS[op].matrices
        if weight.shape != (width, matrices * bias.size) or not bias.size:
            raise GassipError(
                f"layer {at}, {op}, has weights {list(weight.shape)} behind width {width}"
            )
        attention = state[f"layers.{at}.attention"] if OPERATIONS[op].attention else None
        if attention is not None and (
            attention.ndim != 3 or attention.shape[0] != 2 or attention.size != 2 * bias.size
        ):
            raise GassipError(
                f"layer {at}, {op}, has attention {list(attention.shape)} for width {bias.size}"
            )
        parts = tuple(np.ascontiguousarray(part) for part in np.split(weight, matrices, axis=1))
        scale, shift = _in_front(state, at, width)
        layers.append(
            Layer(
                op=op,
                weights=parts,
                bias=bias,
                attention=attention,
                scale=scale,
                shift=shift,
                layer_norm=at > 0 and _is_layer_norm(state, at - 1),
            )
        )
        width = bias.size
    if width != classes:
        raise GassipError(f"the last layer has {width} outputs for {classes} classes")
    return tuple(layers)


def _in_front(state: Tensors, at: int, width: int) -> tuple[Array | None, Array | None]:
    """Scale and shift in front of layer `at`: of a norm, or of x; None where there are none."""
    if at:
        return _norm(state, at - 1, width) if f"norms.{at - 1}.weight" in state else (None, None)
    scale, shift = state.get("input_scale"), state.get("input_shift")
    if (scale is None) != (shift is None) or not all(
        vector is None or vector.shape == (width,) for vector in (scale, shift)
    ):
        raise GassipError(f"input_scale and input_shift must have {width} numbers each")
    return scale, shift


def _is_layer_norm(state: Tensors, at: int) -> bool:
    """Whether norm `at` has no running statistics."""
    names = [f"norms.{at}.{name}" for name in ("running_mean", "running_var")]
    return f"norms.{at}.weight" in state and not any(name in state for name in names)


def _norm(state: Tensors, at: int, width: int) -> tuple[Array, Array]:
    """Batch norm by its running mean and variance, h · scale + shift; layer norm's own scale and
    shift."""
    if _is_layer_norm(state, at):
        scale, shift = state[f"norms.{at}.weight"], state[f"norms.{at}.bias"]
        if scale.shape != (width,) or shift.shape != (width,):
            raise GassipError(f"layer norm {at} must have {width} numbers each as gain and bias")
        return scale, shift
    mean, variance = state[f"norms.{at}.running_mean"], state[f"norms.{at}.running_var"]
    scale = state[f"norms.{at}.weight"] / np.sqrt(variance + np.float32(EPSILON))
    return scale, state[f"norms.{at}.bias"] - mean * scale
