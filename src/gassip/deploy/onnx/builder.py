"""Nodes of an ONNX graph in the order they are asked for, and what both ways to add up messages
share: inputs, norms, steps, heads.

Shapes: N nodes, F width.
"""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from gassip.deploy.numpy_layers import EPSILON, Layer
from gassip.deploy.runtime import Model
from gassip.operations import Operation

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


def start(build: Builder, model: Model) -> str:
    """The columns of x that the first layer reads, standardised if they are to be."""
    if model.feature_index is None:
        return scaled(build, model.layers[0], "x")
    index = build.constant(model.feature_index.astype(np.int64))
    return scaled(build, model.layers[0], build.add("Gather", "x", index, axis=1))


def between(build: Builder, layer: Layer, h: str) -> str:
    """ReLU, and the norm where there is one."""
    h = build.add("Relu", h)
    if not layer.layer_norm or layer.scale is None or layer.shift is None:
        return scaled(build, layer, h)
    own = [build.constant(layer.scale), build.constant(layer.shift)]
    return build.add("LayerNormalization", h, *own, axis=-1, epsilon=EPSILON)


def scaled(build: Builder, layer: Layer, h: str) -> str:
    """h · scale + shift of a layer that has these."""
    if layer.scale is None or layer.shift is None:
        return h
    return build.add(
        "Add", build.add("Mul", h, build.constant(layer.scale)), build.constant(layer.shift)
    )


def finish(
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


def over_hops(build: Builder, products: Sequence[str], total: Callable[[str], str]) -> str:
    """Z_K of Z_0 = P_1, Z_{k+1} = S Z_k + P_{k+2}; `total` multiplies by S."""
    z = products[0]
    for nearer in products[1:]:
        z = build.add("Add", total(z), nearer)
    return z


def passed_on(build: Builder, operation: Operation, h: str, total: Callable[[str], str]) -> str:
    """Z_K of Z_0 = s h, Z_{k+1} = a S Z_k + b h; `total` multiplies by a S."""
    if not operation.iterates:
        return total(h)
    shares = (operation.back, operation.start)
    back, z = (build.add("Mul", h, build.number(share)) for share in shares)
    for _ in range(operation.steps):
        z = build.add("Add", back, total(z))
    return z


def heads_of(build: Builder, layer: Layer, products: str) -> list[tuple[str, str, str]]:
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


def side_by_side(build: Builder, parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else build.add("Concat", *parts, axis=1)
