"""Mini-batches of rows, for nets that read edges in their first layer alone.

    rows     R = [S^K X, ..., S X, X], computed once; row i is all that the net reads of node i
    loss     −(n / |B|) Σ_{i ∈ B} T_i ⊙ log p_i over batches B of the n nodes that have a target T_i

With many labels a net takes hundreds of steps in the time of one over the whole graph.

Shapes: N nodes, n nodes with a target, D features, K hops, C classes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.dropout import drop, dropped_relu
from gassip.nn.kernels import log_softmax, product
from gassip.nn.net import Architecture, Model, Net
from gassip.nn.propagate import MaskedGraph
from gassip.operations import OPERATIONS
from gassip.settings.training import Recipe
from gassip.train.losses import Loss, Targets, training_loss

MOST_BYTES = 2**30  # of R


def reads_rows(architecture: Architecture) -> bool:
    """Whether all layers but the first are plain products, and the first is one of rows."""
    first, *others = (OPERATIONS[name] for name in architecture.ops)
    plain = first.norm is None or (first.commutes and not first.node_dropout)
    return plain and len(others) > 0 and all(operation.norm is None for operation in others)


def fits(architecture: Architecture, graph: Graph) -> bool:
    """Whether such a net can be trained on rows of this graph: dense X, and R fits into memory."""
    if isinstance(graph.x, Csr) or not reads_rows(architecture):
        return False
    wide = OPERATIONS[architecture.ops[0]].matrices * graph.num_features
    return 4 * graph.num_nodes * wide <= MOST_BYTES


@dataclass(frozen=True, eq=False)
class ByRows:
    """The loss of a recipe with mini-batches; of a net that does not read rows, the whole sum."""

    targets: Targets
    batch: int

    def __call__(self, model: Model, graph: Graph, masked: MaskedGraph, epoch: int) -> Tensor:
        return -(self.targets.of(graph) * log_softmax(model.run(graph.x, masked))).sum()

    def suits(self, model: Model, graph: Graph) -> bool:
        """Whether mini-batches are to be had."""
        return isinstance(model, Net) and fits(model.architecture, graph)

    def batches(self, net: Net, graph: Graph, masked: MaskedGraph) -> Iterator[Tensor]:
        """The loss of one batch after the other, once over all nodes with a target."""
        rows, targets = inputs(net, graph, masked), self.targets.of(graph)
        nodes = torch.nonzero(targets.sum(1) > 0).squeeze(1)
        order = nodes[torch.randperm(nodes.numel()).to(nodes.device)]
        for part in order.split(self.batch):
            if part.numel() > 1:  # batch norm needs two rows
                scores = run_rows(net, rows.index_select(0, part))
                if net.label_logits is not None:
                    scores = scores + net.label_logits.index_select(0, part)
                share = nodes.numel() / part.numel()
                yield -share * (targets.index_select(0, part) * log_softmax(scores)).sum()


def loss_of(recipe: Recipe, teacher: Tensor | None = None) -> Loss:
    """The loss that the recipe names, by mini-batches if it has some."""
    if recipe.batch_rows == 0:
        return training_loss(recipe, teacher)
    return ByRows(Targets(recipe, teacher if recipe.distillation > 0 else None), recipe.batch_rows)


def inputs(net: Net, graph: Graph, masked: MaskedGraph) -> Tensor:
    """R [N, (K + 1) D] as the first layer's matrices lie side by side; kept with the masked
    graph."""
    x, name = net.inputs(graph.x), net.architecture.ops[0]
    assert isinstance(x, Tensor)
    if OPERATIONS[name].norm is None:
        return x
    parts = masked.smoothed(name, x, again=True)
    if len(parts) == OPERATIONS[name].matrices:
        return parts[0] if len(parts) == 1 else masked.beside(name, parts)
    return masked.beside(name, (*parts, x))


def run_rows(net: Net, rows: Tensor) -> Tensor:
    """Class scores [n, C] of rows; equal to the net on the graph."""
    rate = net.dropout if net.drops else 0.0
    first = net.layers[0]
    dropped = drop(rows, rate)
    assert isinstance(dropped, Tensor)
    h = product(dropped, torch.cat(first.apart(net.weight(0)))) + first.bias[0]
    for l in range(1, len(net.layers)):
        if net.norms:
            read = drop(net.norms[l - 1](F.relu(h)), rate)
            assert isinstance(read, Tensor)
        else:
            read = dropped_relu(h, rate)
        h = product(read, net.weight(l)) + net.layers[l].bias[0]
    return h
