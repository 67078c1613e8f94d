"""What a net weighs: weights stored, bytes on disk, edges, multiply-adds of one inference.

    MACs = Σ_l [ nnz(h_l)·B_l + propagate_l ] + norms (+ N·D where x is standardised)

h_l is dense but for a sparse X, of which only the stored values in columns that the net reads
count; B_l is the number of columns of the layer's weight matrix, every weight counted, removed or
not. `Operation.macs` of operations.py is the cost of propagation:

    gcn          (E + N)·F
    arma, mean   E·F
    attention    (E + N)·F + 2 N·F + 6 (E + N)·H
    K steps      K times that of the norm, and K N·F
    none         0

and, where training labels count beside the net, that of passing them on. The norm before a layer
that reads F units takes

    batch norm   N·F: a factor and a summand
    layer norm   4 N·F: mean, variance, quotient, and these two

Normalising edges, but for attention, ReLU and biases are not counted.

Shapes: N nodes, E directed edges kept, F width of a layer's output, B columns of its weight matrix,
H heads.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.net import Model, Net
from gassip.operations import OPERATIONS, SPREAD
from gassip.runs.format import write_tensors

BATCH_NORM, LAYER_NORM = 1, 4  # multiply-adds of a norm per node and unit


@dataclass(frozen=True, kw_only=True)
class Size:
    """The counts that budgets bound."""

    params: int  # numbers stored as parameters; weights that a mask removed are not
    bytes: int  # of model.safetensors
    edges: int  # directed
    macs: int  # of one inference on the whole graph


def size_of(net: Net, graph: Graph) -> Size:
    """The counts of `net` on `graph`, whose edges are the kept ones."""
    stored, _ = net.num_weights()
    return Size(
        params=stored, bytes=len(packed(net)), edges=graph.num_edges, macs=count_macs(net, graph)
    )


def packed(net: Model) -> bytes:
    """model.safetensors: the state of the net; of a matrix under a mask the weights that exist, and
    which they are."""
    state: dict[str, Tensor] = net.state_dict()
    for l in range(len(net.layers)) if isinstance(net, Net) else ():
        name, keep = f"layers.{l}.weight", state.pop(f"weight_keep_{l}", None)
        if keep is not None:
            bits = torch.from_numpy(np.packbits(keep.numpy()))
            state |= {
                name: state[name][keep],
                f"{name}.bits": bits,
                f"{name}.shape": torch.tensor(keep.shape),
            }
    return to_bytes(state)


def to_bytes(tensors: Mapping[str, Tensor], texts: Mapping[str, str] | None = None) -> bytes:
    """A safetensors file of torch's tensors."""
    return write_tensors({k: v.detach().cpu().numpy() for k, v in tensors.items()}, texts)


def count_macs(net: Net, graph: Graph) -> int:
    """Multiply-adds of one full-graph inference, as the module's formula counts them."""
    return macs_of(net, nodes=graph.num_nodes, edges=graph.num_edges, read=_read(net, graph))


def macs_of(net: Net, *, nodes: int, edges: int, read: int) -> int:
    """The same from the counts alone; `read` values of X."""
    rows, columns = net.layers[0].weight.shape
    total = read * columns
    if net.architecture.standardised:  # its zeros are no longer zeros
        total = nodes * rows * (columns + 1)
    per_unit = BATCH_NORM * net.architecture.batch_norm + LAYER_NORM * net.architecture.layer_norm
    for layer in list(net.layers)[1:]:
        rows, columns = layer.weight.shape
        total += rows * nodes * (columns + per_unit)
    for layer in net.layers:
        total += OPERATIONS[layer.ops[0]].macs(
            edges=edges, nodes=nodes, width=layer.out_width, heads=layer.heads
        )
    if net.label_weight:
        classes = net.layers[-1].out_width
        total += OPERATIONS[SPREAD].macs(edges=edges, nodes=nodes, width=classes)
    return total


def _read(net: Net, graph: Graph) -> int:
    """Values of X that the first layer reads: all of a dense X, the stored ones of a CSR."""
    if not isinstance(graph.x, Csr):
        return graph.num_nodes * net.layers[0].weight.shape[0]
    if net.feature_index is None:
        return graph.x.nnz
    return int(torch.bincount(graph.x.col, minlength=graph.num_features)[net.feature_index].sum())
