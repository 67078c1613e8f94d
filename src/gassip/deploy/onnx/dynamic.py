"""A net for any graph: x [N, D], edge_index [2, E] and edge_weight [E] are inputs of any size.

Sums and maxima by ScatterElements. Where labels count beside the net, they are an input too: labels
[N], -1 where unknown.

Shapes: N nodes, D features, E edges, F width.
"""

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper

from gassip.deploy.degree_buckets import ABSENT
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
from gassip.errors import GassipError
from gassip.operations import OPERATIONS, PRIOR_WEIGHT, SPREAD


def dynamic(model: Model) -> onnx.ModelProto:
    """The net on whatever graph it is given."""
    build = Builder()
    graph = Edges(build)
    h = start(build, model)
    for at, layer in enumerate(model.layers):
        h = between(build, layer, h) if at else h
        h = _dynamic_layer(build, layer, h, graph)
    if model.label_weight:
        h = build.add("Add", h, _label_logits(build, model, graph))
    labels = helper.make_tensor_value_info("labels", TensorProto.INT64, ["nodes"])
    given = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["nodes", model.features]),
        helper.make_tensor_value_info("edge_index", TensorProto.INT64, [2, "edges"]),
        helper.make_tensor_value_info("edge_weight", TensorProto.FLOAT, ["edges"]),
        *([labels] if model.label_weight else []),
    ]
    return finish(build, model, given, h, "nodes")


class Edges:
    """What the layers share of a graph that is not known yet; self-loops given are worth 0."""

    def __init__(self, build: Builder) -> None:
        self.build = build
        self.sender = build.add("Gather", "edge_index", build.constant(np.array(0)), axis=0)  # [E]
        self.receiver = build.add("Gather", "edge_index", build.constant(np.array(1)), axis=0)
        loop = build.add("Equal", self.sender, self.receiver)
        self.weight = build.add("Where", loop, build.number(0), "edge_weight")
        self.nodes = build.add("Shape", "x", start=0, end=1)  # [1]
        zeros = build.add("Expand", build.number(0), self.nodes)
        self.degree = build.add(
            "ScatterElements", zeros, self.receiver, self.weight, axis=0, reduction="add"
        )
        self.present = build.add("Greater", self.degree, build.number(0))
        self.divisor = build.add("Where", self.present, self.degree, build.number(1))

    def at(self, ends: str, per_node: str) -> str:
        return self.build.add("Gather", per_node, ends, axis=0)

    def total(self, start: str, messages: str) -> str:
        """start_i + Σ_j messages_ij over the edges to i; [N, F] and [E, F]."""
        index = self.build.add("Unsqueeze", self.receiver, self.build.axes(1))
        index = self.build.add("Expand", index, self.build.add("Shape", messages))
        return self.build.add("ScatterElements", start, index, messages, axis=0, reduction="add")

    def column(self, per_edge: str) -> str:
        return self.build.add("Unsqueeze", per_edge, self.build.axes(1))

    def scaled(self, root: str) -> str:
        """m_ij r_i r_j, [E]."""
        ends = self.build.add("Mul", self.at(self.sender, root), self.at(self.receiver, root))
        return self.build.add("Mul", self.weight, ends)


def _dynamic_layer(build: Builder, layer: Layer, h: str, graph: Edges) -> str:
    products = [build.add("MatMul", h, build.constant(weight)) for weight in layer.weights]
    operation = layer.operation
    if operation.norm is None:
        out = products[0]
    elif operation.attention:
        heads = heads_of(build, layer, products[0])
        out = side_by_side(build, [_scattered_attention(build, graph, *head) for head in heads])
    elif operation.matrices > 2:
        out = over_hops(build, products, _multiplier(build, graph, layer.op))
    else:
        out = passed_on(build, operation, products[0], _multiplier(build, graph, layer.op))
    if operation.matrices == 2:
        out = build.add("Add", out, products[1])
    return build.add("Add", out, build.constant(layer.bias))


def _label_logits(build: Builder, model: Model, graph: Edges) -> str:
    """w o of label_propagation.py from the input `labels` [N], negative where unknown."""
    column = build.add("Unsqueeze", "labels", build.axes(1))
    truth = build.add("Equal", column, build.constant(np.arange(len(model.class_names))))
    y = build.add("Cast", truth, to=TensorProto.FLOAT)
    counts = build.add("Add", build.add("ReduceSum", y, build.axes(0), keepdims=1), build.number(1))
    common = build.add("Div", counts, build.add("ReduceSum", counts, build.axes(1), keepdims=1))
    q = passed_on(build, OPERATIONS[SPREAD], y, _multiplier(build, graph, SPREAD))
    logits = build.add(
        "Log", build.add("Add", q, build.add("Mul", common, build.number(PRIOR_WEIGHT)))
    )
    return build.add("Mul", logits, build.number(model.label_weight))


def _multiplier(build: Builder, graph: Edges, op: str) -> Callable[[str], str]:
    """What multiplies by a S of the operation."""
    edge, loop = _normalised(build, graph, op)
    if (scale := OPERATIONS[op].scale) != 1:
        edge = build.add("Mul", edge, build.number(scale))
        loop = build.add("Mul", loop, build.number(scale)) if loop else ""
    diagonal = graph.column(loop) if loop else ""

    def total(h: str) -> str:
        if diagonal:
            start = build.add("Mul", h, diagonal)
        else:
            start = build.add("Expand", build.number(0), build.add("Shape", h))
        return _summed(build, graph, start, h, edge)

    return total


def _normalised(build: Builder, graph: Edges, op: str) -> tuple[str, str]:
    """S of an operation: its edges [E], and its diagonal [N], "" where that is 0."""
    match OPERATIONS[op].norm:
        case "gcn":
            inverse = build.add("Reciprocal", build.add("Add", graph.degree, build.number(1)))
            return graph.scaled(build.add("Sqrt", inverse)), inverse
        case "arma":
            root = build.add("Reciprocal", build.add("Sqrt", graph.divisor))
            # a node may send and not receive
            root = build.add("Where", graph.present, root, build.number(0))
            return graph.scaled(root), ""
        case "mean":
            at_receiver = graph.at(graph.receiver, graph.divisor)
            return build.add("Div", graph.weight, at_receiver), ""
    raise GassipError(
        f"{op} cannot be exported as ONNX for any graph (norm {OPERATIONS[op].norm!r}); "
        "leave --dynamic out to export it on the run's graph"
    )


def _summed(build: Builder, graph: Edges, start: str, products: str, value: str) -> str:
    messages = build.add("Mul", graph.at(graph.sender, products), graph.column(value))
    return graph.total(start, messages)


def _scattered_attention(
    build: Builder, graph: Edges, part: str, sender: str, receiver: str
) -> str:
    """As in nn/propagate.py: the mask multiplies after the exponential, so that 0 removes."""
    ends = build.add("Add", graph.at(graph.sender, sender), graph.at(graph.receiver, receiver))
    logit = build.add("LeakyRelu", ends, alpha=NEGATIVE_SLOPE)  # [E, 1]
    self_logit = build.add(
        "LeakyRelu", build.add("Add", sender, receiver), alpha=NEGATIVE_SLOPE
    )  # [N, 1]
    weight = graph.column(graph.weight)
    there = build.add(
        "Where", build.add("Greater", weight, build.number(0)), logit, build.number(ABSENT)
    )
    index = graph.column(graph.receiver)
    top = build.add("ScatterElements", self_logit, index, there, axis=0, reduction="max")
    grown = build.add(
        "Mul", weight, build.add("Exp", build.add("Sub", there, graph.at(graph.receiver, top)))
    )
    own_grown = build.add("Exp", build.add("Sub", self_logit, top))
    total = build.add("ScatterElements", own_grown, index, grown, axis=0, reduction="add")
    summed = graph.total(
        build.add("Mul", part, own_grown), build.add("Mul", graph.at(graph.sender, part), grown)
    )
    return build.add("Div", summed, total)
