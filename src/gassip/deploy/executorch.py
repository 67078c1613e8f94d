"""A net on one graph as an ExecuTorch program: plain tensor operations that its portable kernels
all have.

As the fixed form of onnx/: receivers are grouped by their number of senders (degree_buckets.py),
so that

    A·H = for each group   values [n, 1, k] · H[senders] [n, k, F],   rows put in order at the end

is gathers and products without a scatter, and attention is a softmax over k. x [N, D] is the input;
the graph, the weights and the columns that are read are constants of the program.
"""

import numpy as np
import torch
from torch import Tensor, nn

from gassip.deploy.degree_buckets import groups, logs
from gassip.deploy.numpy_graph import Inputs
from gassip.deploy.numpy_layers import EPSILON, NEGATIVE_SLOPE, Layer
from gassip.deploy.runtime import Model
from gassip.operations import OPERATIONS


class Grouped(nn.Module):
    """The groups of one operation's matrix; values are logarithms for attention."""

    place: Tensor  # [N], where a node stands among the groups

    def __init__(self, op: str, inputs: Inputs) -> None:
        super().__init__()
        matrix = inputs.matrix(op)
        assert matrix is not None
        found = groups(matrix)
        self.shapes = [senders.shape for _, senders, _ in found]
        for at, (receivers, senders, values) in enumerate(found):
            kept = logs(values) if OPERATIONS[op].attention else values
            self.register_buffer(f"senders{at}", torch.from_numpy(senders.ravel().astype(np.int64)))
            self.register_buffer(f"receivers{at}", torch.from_numpy(receivers.astype(np.int64)))
            self.register_buffer(f"values{at}", torch.from_numpy(kept[:, None, :].copy()))
        place = np.argsort(np.concatenate([receivers for receivers, _, _ in found]))
        self.register_buffer("place", torch.from_numpy(place))

    def total(self, h: Tensor) -> Tensor:
        """A·h, [N, F]."""
        parts = [
            torch.bmm(self.get_buffer(f"values{at}"), self._sent(h, at))
            for at in range(len(self.shapes))
        ]
        return self._in_order(parts)

    def attention(self, part: Tensor, sender: Tensor, receiver: Tensor) -> Tensor:
        """Σ_j a_ij P_j of one head, [N, F / H]; s·P and t·P are [N, 1]."""
        parts = []
        for at in range(len(self.shapes)):
            there = self._sent(sender, at).transpose(1, 2)  # [n, 1, k]
            here = receiver.index_select(0, self.get_buffer(f"receivers{at}")).unsqueeze(2)
            logit = torch.nn.functional.leaky_relu(there + here, NEGATIVE_SLOPE)
            share = torch.softmax(logit + self.get_buffer(f"values{at}"), 2)
            parts.append(torch.bmm(share, self._sent(part, at)))
        return self._in_order(parts)

    def _sent(self, h: Tensor, at: int) -> Tensor:
        """h of the senders of a group, [n, k, F]."""
        return h.index_select(0, self.get_buffer(f"senders{at}")).reshape(
            *self.shapes[at], h.shape[1]
        )

    def _in_order(self, parts: list[Tensor]) -> Tensor:
        return torch.cat(parts, 0).squeeze(1).index_select(0, self.place)


class Plain(nn.Module):
    """One layer; `grouped` is None where it reads no edges."""

    weight0: Tensor
    weight1: Tensor
    bias: Tensor
    attention: Tensor
    scale: Tensor | None
    shift: Tensor

    def __init__(self, layer: Layer, grouped: Grouped | None) -> None:
        super().__init__()
        self.grouped, self.operation = grouped, layer.operation
        self.layer_norm = layer.layer_norm
        self.heads = 0 if layer.attention is None else layer.attention.shape[1]
        self.narrow_first = layer.weights[0].shape[0] < layer.weights[0].shape[1]
        tensors = {
            "bias": layer.bias,
            "attention": layer.attention,
            "scale": layer.scale,
            "shift": layer.shift,
        }
        tensors |= {f"weight{at}": weight for at, weight in enumerate(layer.weights)}
        for name, value in tensors.items():
            self.register_buffer(name, None if value is None else torch.from_numpy(np.array(value)))

    def forward(self, h: Tensor) -> Tensor:
        h = self._normed(h)
        out = self._received(h)
        return (out + h @ self.weight1 if self.operation.matrices == 2 else out) + self.bias

    def _normed(self, h: Tensor) -> Tensor:
        """The norm in front, or x as it is read."""
        if self.scale is None:
            return h
        if self.layer_norm:
            shape = [self.scale.numel()]
            return nn.functional.layer_norm(h, shape, self.scale, self.shift, EPSILON)
        return h * self.scale + self.shift

    def _received(self, h: Tensor) -> Tensor:
        if self.grouped is None:
            return h @ self.weight0
        if self.heads:
            parts = (h @ self.weight0).chunk(self.heads, 1)
            heads = [self._head(part, at) for at, part in enumerate(parts)]
            return heads[0] if len(heads) == 1 else torch.cat(heads, 1)
        if self.operation.matrices > 2:
            return self._over_hops(h)
        return (
            self._passed_on(h) @ self.weight0
            if self.narrow_first
            else self._passed_on(h @ self.weight0)
        )

    def _over_hops(self, h: Tensor) -> Tensor:
        """Z_K of Z_0 = P_1, Z_{k+1} = S Z_k + P_{k+2}."""
        assert self.grouped is not None
        z = h @ self.weight0
        for at in range(1, self.operation.matrices):
            z = self.grouped.total(z) + h @ self.get_buffer(f"weight{at}")
        return z

    def _passed_on(self, h: Tensor) -> Tensor:
        """Z_K of the operation; the groups are those of a S."""
        assert self.grouped is not None
        if not self.operation.iterates:
            return self.grouped.total(h)
        back, z = self.operation.back * h, self.operation.start * h
        for _ in range(self.operation.steps):
            z = back + self.grouped.total(z)
        return z

    def _head(self, part: Tensor, at: int) -> Tensor:
        assert self.grouped is not None
        sender, receiver = (part @ self.attention[side, at].unsqueeze(1) for side in (0, 1))
        return self.grouped.attention(part, sender, receiver)


class OnGraph(nn.Module):
    """Class scores [N, C] from x [N, D]."""

    feature_index: Tensor | None
    label_logits: Tensor | None  # [N, C] what labels add; None: nothing

    def __init__(self, model: Model, inputs: Inputs) -> None:
        super().__init__()
        senders = {layer.op for layer in model.layers if layer.operation.norm is not None}
        shared = {op: Grouped(op, inputs) for op in senders}
        self.layers = nn.ModuleList([Plain(layer, shared.get(layer.op)) for layer in model.layers])
        index = (
            None
            if model.feature_index is None
            else torch.from_numpy(model.feature_index.astype(np.int64))
        )
        self.register_buffer("feature_index", index)
        logits = model.label_logits(inputs)
        self.register_buffer("label_logits", None if logits is None else torch.from_numpy(logits))

    def forward(self, x: Tensor) -> Tensor:
        h = x if self.feature_index is None else x.index_select(1, self.feature_index)
        for at, layer in enumerate(self.layers):
            h = layer(h.relu() if at else h)
        return h if self.label_logits is None else h + self.label_logits


def program(model: Model, inputs: Inputs, x: np.ndarray) -> bytes:
    """The .pte file of the net on a graph with features of the shape of `x`."""
    from executorch.exir import to_edge

    net = OnGraph(model, inputs).eval()
    with torch.no_grad():
        exported = torch.export.export(net, (torch.from_numpy(x),))
        return bytes(to_edge(exported).to_executorch().buffer)


class Session:
    """A program in ExecuTorch's own runtime."""

    def __init__(self, content: bytes) -> None:
        from executorch.runtime import Runtime

        self.program = Runtime.get().load_program(content)  # holds the memory that the method uses
        self.method = self.program.load_method("forward")

    def run(self, x: np.ndarray) -> np.ndarray:
        return self.method.execute([torch.from_numpy(x)])[0].numpy().copy()
