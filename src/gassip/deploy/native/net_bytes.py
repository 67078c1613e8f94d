"""A net as the bytes that wasm.c reads: words of four bytes, little-endian, then its arrays."""

import numpy as np

from gassip.deploy.native.net import NativeLayer, NativeNet, Passing, arrays
from gassip.errors import GassipError
from gassip.graph.checks import Array

MAGIC = 0x324E4E47  # the letters GNN2
MOST_LAYERS = 16  # of wasm.c
ROUNDED, ATTENTION, NORMED, LAYER_NORM = 1, 2, 4, 8


def net_bytes(net: NativeNet) -> bytes:
    if len(net.layers) > MOST_LAYERS:
        raise GassipError(
            f"the net has {len(net.layers)} layers; WebAssembly reads at most {MOST_LAYERS}; "
            f"use --format runtime or onnx"
        )
    index = net.model.feature_index
    words = [*_head(net), *(word for layer in net.layers for word in _sizes(layer))]
    parts = [b"".join(words)]
    parts += [_aligned(array) for layer in net.layers for array in arrays(layer)]
    parts += [] if index is None else [_aligned(index.astype("<i4"))]
    return b"".join(parts)


def _head(net: NativeNet) -> list[bytes]:
    model = net.model
    whole = (MAGIC, len(net.layers), net.read, net.classes, int(model.undirected), model.features)
    flags = (int(model.normalize), int(model.feature_index is not None))
    weights = (model.label_weight, net.prior_weight)
    return [*map(_whole, (*whole, *flags)), *_passing(net.spread), *map(_real, weights)]


def _sizes(layer: NativeLayer) -> list[bytes]:
    flags = ROUNDED * (layer.unit is not None) + ATTENTION * (layer.attention is not None)
    flags += NORMED * (layer.times is not None) + LAYER_NORM * layer.layer_norm
    sizes = (layer.matrices, layer.weight.shape[0], layer.width, layer.heads, flags)
    return [*_passing(layer.passing), *map(_whole, sizes)]


def _passing(passing: Passing) -> list[bytes]:
    factors = (passing.scale, passing.back, passing.start)
    return [*map(_whole, (passing.norm, passing.steps)), *map(_real, factors)]


def _whole(value: int) -> bytes:
    return value.to_bytes(4, "little", signed=True)


def _real(value: float) -> bytes:
    return np.array(value, dtype="<f4").tobytes()


def _aligned(array: Array) -> bytes:
    """The cells, filled up to a multiple of four bytes."""
    content = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
    return content + bytes(-len(content) % 4)
