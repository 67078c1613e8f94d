"""A net whose graph is part of the file; x [N, D] is the input.

Receivers are grouped by their number of senders (degree_buckets.py): Gather [n, k, F], weights
[n, 1, k], MatMul. No scatter.

Shapes: N nodes, D features, F width, n receivers of one group, k senders of each.
"""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from gassip.deploy.degree_buckets import groups, logs
from gassip.deploy.numpy_graph import Inputs
from gassip.deploy.numpy_layers import NEGATIVE_SLOPE, Layer
from gassip.deploy.onnx.builder import (
    Builder,
    between,
    finish,
    heads_of,
    over_hops,
    passed_on,
    side_by_side,
    start,
)
from gassip.deploy.runtime import Model
from gassip.operations import OPERATIONS


def fixed(model: Model, inputs: Inputs) -> onnx.ModelProto:
    """The net on one graph, whose features are the input."""
    build, nodes = Builder(), inputs.edges.shape[0]
    senders = {layer.op for layer in model.layers if layer.operation.norm is not None}
    grouped = {op: Grouped(build, op, inputs) for op in senders}
    h = start(build, model)
    for at, layer in enumerate(model.layers):
        h = between(build, layer, h) if at else h
        h = _fixed_layer(build, layer, h, grouped.get(layer.op))
    if (logits := model.label_logits(inputs)) is not None:
        h = build.add("Add", h, build.constant(logits))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [nodes, model.features])
    return finish(build, model, [x], h, nodes)


class Grouped:
    """The groups of one operation's matrix, stored once for all the layers that use it."""

    def __init__(self, build: Builder, op: str, inputs: Inputs) -> None:
        matrix = inputs.matrix(op)
        assert matrix is not None
        found = groups(matrix)
        self.build = build
        self.senders = [build.constant(senders) for _, senders, _ in found]
        if OPERATIONS[op].attention:
            self.last_axis = build.axes(2)
            self.receivers = [build.constant(receivers) for receivers, _, _ in found]
            self.values = [build.constant(logs(matrix)) for _, _, matrix in found]
        else:
            self.values = [build.constant(matrix[:, None, :]) for _, _, matrix in found]
        self.place = build.constant(
            np.argsort(np.concatenate([receivers for receivers, _, _ in found]))
        )
        self.axis = build.axes(1)

    def total(self, h: str) -> str:
        """A·h, [N, F]."""
        pairs = zip(self.senders, self.values, strict=True)
        return self._in_order([self._weighted(values, h, senders) for senders, values in pairs])

    def attention(self, part: str, sender: str, receiver: str) -> str:
        """Σ_j a_ij P_j of one head, [N, F / H]."""
        build, parts = self.build, []
        for senders, receivers, masks in zip(
            self.senders, self.receivers, self.values, strict=True
        ):
            there = build.add(
                "Squeeze", build.add("Gather", sender, senders, axis=0), self.last_axis
            )
            here = build.add("Gather", receiver, receivers, axis=0)
            logit = build.add("LeakyRelu", build.add("Add", there, here), alpha=NEGATIVE_SLOPE)
            share = build.add("Softmax", build.add("Add", logit, masks), axis=1)
            parts.append(self._weighted(build.add("Unsqueeze", share, self.axis), part, senders))
        return self._in_order(parts)

    def _weighted(self, values: str, h: str, senders: str) -> str:
        """[n, 1, k] times [n, k, F]."""
        return self.build.add("MatMul", values, self.build.add("Gather", h, senders, axis=0))

    def _in_order(self, parts: Sequence[str]) -> str:
        """The groups' sums [n, 1, F] under one another, then each at its node."""
        whole = parts[0] if len(parts) == 1 else self.build.add("Concat", *parts, axis=0)
        return self.build.add(
            "Squeeze", self.build.add("Gather", whole, self.place, axis=0), self.axis
        )


def _fixed_layer(build: Builder, layer: Layer, h: str, grouped: Grouped | None) -> str:
    weights = [build.constant(weight) for weight in layer.weights]
    if grouped is None:
        out = build.add("MatMul", h, weights[0])
    elif len(weights) > 2:
        products = [build.add("MatMul", h, weight) for weight in weights]
        out = over_hops(build, products, grouped.total)
    elif layer.attention is not None:
        heads = heads_of(build, layer, build.add("MatMul", h, weights[0]))
        out = side_by_side(build, [grouped.attention(*head) for head in heads])
    elif layer.weights[0].shape[0] < layer.weights[0].shape[1]:
        out = build.add("MatMul", passed_on(build, layer.operation, h, grouped.total), weights[0])
    else:
        out = passed_on(build, layer.operation, build.add("MatMul", h, weights[0]), grouped.total)
    if layer.operation.matrices == 2:
        out = build.add("Add", out, build.add("MatMul", h, weights[1]))
    return build.add("Add", out, build.constant(layer.bias))
