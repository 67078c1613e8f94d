"""A net as an ONNX graph, written node by node; two ways to add up messages.

    fixed     the graph's edges are part of the file, x [N, D] is the input. Receivers are grouped
              by their number of
              senders (degree_buckets.py): Gather [n, k, F], weights [n, 1, k], MatMul. No scatter.
    dynamic   x [N, D], edge_index [2, E] and edge_weight [E] are inputs of any size; sums, maxima
              by ScatterElements.
              Where labels count beside the net, they are an input too: labels [N], -1 where
              unknown.

onnxruntime's ScatterND with addition races between threads on a CPU, and that is what exporters
make of an index_add; neither way uses it. Operations are those of operations.py; the shares of
attention under a mask are softmax(logit + log m).

Shapes: N nodes, D features, E edges, F width, n receivers of one group, k senders of each.
"""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from gassip.deploy.degree_buckets import ABSENT, groups, logs
from gassip.deploy.numpy_graph import Inputs
from gassip.deploy.numpy_layers import NEGATIVE_SLOPE, Layer
from gassip.deploy.runtime import Model
from gassip.errors import GassipError
from gassip.operations import OPERATIONS, PRIOR_WEIGHT, SPREAD, Operation

OPSET = 18  # the first with ScatterElements(max)


class Builder:
    """Nodes and constants in the order they were asked for."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def add(self, op: str, *inputs: str, **attributes: int | float | str) -> str:
        """One node with one output, whose name is returned."""
        name = f"{op}_{len(self.nodes)}"
        node = helper.make_node(op, list(inputs), [name], name=name)
        node.attribute.extend(
            helper.make_attribute(key, value) for key, value in attributes.items()
        )
        self.nodes.append(node)
        return name

    def constant(self, value: np.ndarray) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def number(self, value: float) -> str:
        return self.constant(np.array(value, dtype=np.float32))

    def axes(self, *axes: int) -> str:
        return self.constant(np.array(axes, dtype=np.int64))


def fixed(model: Model, inputs: Inputs) -> onnx.ModelProto:
    """The net on one graph, whose features are the input."""
    build, nodes = Builder(), inputs.edges.shape[0]
    senders = {layer.op for layer in model.layers if layer.operation.norm is not None}
    grouped = {op: Grouped(build, op, inputs) for op in senders}
    h = _start(build, model)
    for at, layer in enumerate(model.layers):
        h = _between(build, layer, h) if at else h
        h = _fixed_layer(build, layer, h, grouped.get(layer.op))
    if (said := model.said(inputs)) is not None:
        h = build.add("Add", h, build.constant(said))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [nodes, model.features])
    return _finish(build, model, [x], h, nodes)


def dynamic(model: Model) -> onnx.ModelProto:
    """The net on whatever graph it is given."""
    build = Builder()
    graph = Edges(build)
    h = _start(build, model)
    for at, layer in enumerate(model.layers):
        h = _between(build, layer, h) if at else h
        h = _dynamic_layer(build, layer, h, graph)
    if model.label_weight:
        h = build.add("Add", h, _said(build, model, graph))
    labels = helper.make_tensor_value_info("labels", TensorProto.INT64, ["nodes"])
    given = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["nodes", model.features]),
        helper.make_tensor_value_info("edge_index", TensorProto.INT64, [2, "edges"]),
        helper.make_tensor_value_info("edge_weight", TensorProto.FLOAT, ["edges"]),
        *([labels] if model.label_weight else []),
    ]
    return _finish(build, model, given, h, "nodes")


def _start(build: Builder, model: Model) -> str:
    """The columns of x that the first layer reads, standardised if they are to be."""
    if model.feature_index is None:
        return _scaled(build, model.layers[0], "x")
    index = build.constant(model.feature_index.astype(np.int64))
    return _scaled(build, model.layers[0], build.add("Gather", "x", index, axis=1))


def _between(build: Builder, layer: Layer, h: str) -> str:
    """ReLU, and the norm where there is one."""
    return _scaled(build, layer, build.add("Relu", h))


def _scaled(build: Builder, layer: Layer, h: str) -> str:
    """h · scale + shift of a layer that has these."""
    if layer.scale is None or layer.shift is None:
        return h
    return build.add(
        "Add", build.add("Mul", h, build.constant(layer.scale)), build.constant(layer.shift)
    )


def _finish(
    build: Builder, model: Model, given: list[onnx.ValueInfoProto], h: str, nodes: int | str
) -> onnx.ModelProto:
    build.nodes.append(helper.make_node("Identity", [h], ["scores"]))
    out = helper.make_tensor_value_info(
        "scores", TensorProto.FLOAT, [nodes, len(model.class_names)]
    )
    graph = helper.make_graph(build.nodes, "gassip", given, [out], build.constants)
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="gassip"
    )
    made.ir_version = 9  # of opset 18's time; a newer one would shut older runtimes out
    edges = "both ways" if model.undirected else "as given"  # how the run's graph was read
    helper.set_model_props(made, {"class_names": "\n".join(model.class_names), "edges": edges})
    onnx.checker.check_model(made)
    return made


# The fixed graph


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
        out = _over_hops(build, products, grouped.total)
    elif layer.attention is not None:
        heads = _heads(build, layer, build.add("MatMul", h, weights[0]))
        out = _side_by_side(build, [grouped.attention(*head) for head in heads])
    elif layer.weights[0].shape[0] < layer.weights[0].shape[1]:
        out = build.add("MatMul", _passed_on(build, layer.operation, h, grouped.total), weights[0])
    else:
        out = _passed_on(build, layer.operation, build.add("MatMul", h, weights[0]), grouped.total)
    if layer.operation.matrices == 2:
        out = build.add("Add", out, build.add("MatMul", h, weights[1]))
    return build.add("Add", out, build.constant(layer.bias))


def _over_hops(build: Builder, products: Sequence[str], total: Callable[[str], str]) -> str:
    """Z_K of Z_0 = P_1, Z_{k+1} = S Z_k + P_{k+2}; `total` multiplies by S."""
    z = products[0]
    for nearer in products[1:]:
        z = build.add("Add", total(z), nearer)
    return z


def _passed_on(build: Builder, operation: Operation, h: str, total: Callable[[str], str]) -> str:
    """Z_K of Z_0 = s h, Z_{k+1} = a S Z_k + b h; `total` multiplies by a S."""
    if not operation.iterates:
        return total(h)
    shares = (operation.back, operation.start)
    back, z = (build.add("Mul", h, build.number(share)) for share in shares)
    for _ in range(operation.steps):
        z = build.add("Add", back, total(z))
    return z


def _heads(build: Builder, layer: Layer, products: str) -> list[tuple[str, str, str]]:
    """For each head its part of the products [N, F / H], s·P [N, 1] and t·P [N, 1]."""
    assert layer.attention is not None
    heads, width = layer.attention.shape[1:]
    out = []
    for head in range(heads):
        part = products
        if heads > 1:
            columns = build.constant(np.arange(head * width, (head + 1) * width))
            part = build.add("Gather", products, columns, axis=1)
        sender, receiver = (build.constant(layer.attention[side, head][:, None]) for side in (0, 1))
        out.append((part, build.add("MatMul", part, sender), build.add("MatMul", part, receiver)))
    return out


def _side_by_side(build: Builder, parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else build.add("Concat", *parts, axis=1)


# Any graph


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
        heads = _heads(build, layer, products[0])
        out = _side_by_side(build, [_scattered_attention(build, graph, *head) for head in heads])
    elif operation.matrices > 2:
        out = _over_hops(build, products, _multiplier(build, graph, layer.op))
    else:
        out = _passed_on(build, operation, products[0], _multiplier(build, graph, layer.op))
    if operation.matrices == 2:
        out = build.add("Add", out, products[1])
    return build.add("Add", out, build.constant(layer.bias))


def _said(build: Builder, model: Model, graph: Edges) -> str:
    """w o of labels.py from the input `labels` [N], negative where unknown."""
    column = build.add("Unsqueeze", "labels", build.axes(1))
    truth = build.add("Equal", column, build.constant(np.arange(len(model.class_names))))
    y = build.add("Cast", truth, to=TensorProto.FLOAT)
    counts = build.add("Add", build.add("ReduceSum", y, build.axes(0), keepdims=1), build.number(1))
    common = build.add("Div", counts, build.add("ReduceSum", counts, build.axes(1), keepdims=1))
    q = _passed_on(build, OPERATIONS[SPREAD], y, _multiplier(build, graph, SPREAD))
    said = build.add(
        "Log", build.add("Add", q, build.add("Mul", common, build.number(PRIOR_WEIGHT)))
    )
    return build.add("Mul", said, build.number(model.label_weight))


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
