"""Weights in fewer bytes.

    float16         w rounded to the nearest half
    int8            q = round(w / s), s = max|column| / 127, one s per column
    zeros           where they pay, one bit per weight says which are stored

Weights are widened to float32 when read: fewer bits make the file smaller, not the arithmetic
faster.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np

from gassip.errors import GassipError
from gassip.runs.format.tensors import Array, Tensors

Precision = Literal["float32", "float16", "int8"]


def pack(weight: Array, precision: Precision) -> Tensors:
    """A matrix as stored: "" the values, "scale" of int8's columns, "bits" and "shape" where
    leaving zeros out pays."""
    packed: Tensors = {}
    values = weight
    if precision == "int8":
        values, packed["scale"] = rounded(weight)
    elif precision == "float16":
        values = weight.astype(np.float16)
    kept = weight != 0
    # 200: two more entries in the header
    if int(kept.sum()) * values.itemsize + kept.size // 8 + 200 < values.nbytes:
        packed |= {"bits": np.packbits(kept), "shape": np.array(weight.shape, dtype=np.int64)}
        values = values[kept]
    return packed | {"": values}


def rounded(weight: Array) -> tuple[Array, Array]:
    """int8 and its scale per column."""
    scale = np.abs(weight).max(0) / 127
    scale = np.where(scale > 0, scale, 1).astype(np.float32)
    return np.rint(weight / scale).astype(np.int8), scale


def unpacked(packed: Tensors) -> Array:
    """The matrix again, as float32."""
    values = packed[""].astype(np.float32)
    if "bits" in packed:
        bits, shape = packed["bits"], tuple(packed["shape"].tolist())
        plain = (
            packed["shape"].dtype == np.int64
            and packed["shape"].ndim == 1
            and min(shape, default=0) > 0
        )
        if (
            not plain
            or bits.dtype != np.uint8
            or bits.shape != ((int(np.prod(shape, dtype=object)) + 7) // 8,)
        ):
            raise GassipError(
                f"bits of {list(bits.shape)} {bits.dtype} do not fit a matrix of shape {shape}"
            )
        whole = np.zeros(shape, dtype=np.float32)
        whole[np.unpackbits(packed["bits"], count=whole.size).astype(bool).reshape(shape)] = values
        values = whole
    return values * packed["scale"] if "scale" in packed else values


def unpack(state: Tensors, meta: Mapping[str, Any], precision: Precision | None) -> Tensors:
    """The net's state as float32, its matrices rounded to `precision`."""
    stored = meta.get("precision", "float32")
    if precision is not None and precision not in get_args(Precision):
        raise GassipError(
            f"precision must be one of {', '.join(get_args(Precision))}, not {precision!r}"
        )
    if stored != "float32" and precision not in (None, stored):
        raise GassipError(
            f"its weights are stored as {stored}; {precision} cannot be had from them"
        )
    out = dict(state)
    for at in range(len(meta["architecture"])):
        name = f"layers.{at}.weight"
        parts = {
            key.removeprefix(f"{name}."): out.pop(key)
            for key in state
            if key.startswith(f"{name}.")
        }
        weight = unpacked({"": state[name]} | parts)
        again = stored == "float32" and precision in ("float16", "int8")
        out[name] = unpacked(pack(weight, precision)) if again and precision else weight
    return out
