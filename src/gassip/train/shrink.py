"""Nets with whole hidden units, heads, input features and operations removed, not merely zeroed.

A zero in a dense matrix costs as much as any other number, so what is pruned must go in whole rows
and columns. There are two ways to it. `select` narrows what a search found *before* retraining: the
net never has what was cut. `shrink` narrows a *trained* net and leaves its output as it was, so it
removes only what is exactly without effect:

    feature i      its row of layer 1 is zero
    unit u         its row of layer l+1 is zero; in GATConv its attention must be without effect
                   too: its column or both
                   its attention weights are zero, or its whole head is unread
    unit u, fold   its column of layer l is zero: its output is the constant c = norm(ReLU(bias_u))
                   on every node.
                   c = 0 removes it. Linear, and the root part of SAGEConv and ArmaConv, take c·W_u
                   into the bias. A propagated constant is c times the row sum of the operator: not
                   a constant for GCNConv and ArmaConv, nor for PageRank, nor for SAGEConv at a node
                   without edges, and inside GATConv it shifts logits under a LeakyReLU: there the
                   unit stays
                   Under a layer norm every unit has a part in the mean and the variance of all:
                   none of them goes, and none is constant behind it
    operation      SAGEConv or ArmaConv without neighbour weights is Linear; so is any other without
                   weights

What is still zero inside stays in a dense matrix. A CSR weight was measured on Cora (one thread, 16
to 256 wide): X·W with a sparse X is slower with it at every share of zeros up to 99 %, and H·W
gains only past 90 to 95 %, where the product is a small part of the whole.

A net keeps at least one feature and one unit per hidden layer, and the heads of a GATConv keep
equal widths.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.metrics import all_scores
from gassip.nn.net import Architecture, Net
from gassip.nn.size import size_of
from gassip.operations import OPERATIONS
from gassip.train.plan import Plan, Solution
from gassip.train.trainer import predict

State = dict[str, Tensor]


def select(plan: Plan, features: Tensor, units: Sequence[Tensor]) -> Plan:
    """What was found, reading only `features` [D] bool, with only `units` (one [F] bool per hidden
    layer)."""
    architecture = plan.architecture
    units = [even(keep, heads_of(architecture, l)) for l, keep in enumerate(units)]
    rows = [features, *units]
    keeps = {f"weight_keep_{l}": keep for l, keep in enumerate(plan.weight_keep)}
    return replace(
        plan,
        architecture=narrowed(architecture, units),
        weight_keep=list(take(keeps, architecture, rows).values()),
        first_weights=take(plan.first_weights, architecture, rows),
        last_weights=take(plan.last_weights, architecture, rows),
        feature_index=narrowed_index(plan.feature_index, features),
    )


def compact(plan: Plan) -> Plan:
    """What was found without the units and features that no kept weight enters or leaves."""
    keep, architecture = [k.clone() for k in plan.weight_keep], plan.architecture
    alive = [k.any(1) for k in keep]  # rows: features, then the units of each hidden layer
    for l in range(len(keep) - 1, 0, -1):
        alive[l] = some(keep[l].any(1) & _by_unit(keep[l - 1], architecture.hidden[l - 1]).any(0))
        keep[l - 1] &= alive[l].repeat(keep[l - 1].shape[1] // alive[l].numel())
    alive[0] = some(keep[0].any(1))
    return select(plan, alive[0], alive[1:])


def shrink(solution: Solution) -> Solution:
    """The same output from a physically smaller net; scores and size are those of the smaller
    one."""
    if not isinstance(solution.model, Net):
        return solution
    net = shrink_net(solution.model)
    smaller = replace(solution, model=net, size=size_of(net, solution.graph))
    return replace(smaller, scores=all_scores(predict(net, solution.graph), solution.graph))


@torch.no_grad()
def shrink_net(net: Net) -> Net:
    """A copy of a trained net without what has no effect; in evaluation mode."""
    net.zero_pruned()
    architecture = net.architecture
    state = {name: value.clone() for name, value in net.state_dict().items()}
    index = state.pop("feature_index", None)
    while True:
        architecture = simplified(state, architecture)
        for l in range(len(architecture.hidden)):
            fold_constants(state, architecture, l)
        rows = alive_rows(state, architecture)
        if all(bool(row.all()) for row in rows):
            break
        state = take(state, architecture, rows)
        index = narrowed_index(index, rows[0])
        architecture = narrowed(architecture, rows[1:])
    small = Net(
        state["layers.0.weight"].shape[0],
        net.layers[-1].out_width,
        architecture,
        net.dropout,
        index,
    )
    small.to(state["layers.0.weight"].device)
    masks = {name: state.pop(name) for name in list(state) if name.startswith("weight_keep_")}
    small.load_state_dict(state if index is None else state | {"feature_index": index})
    everything = [torch.ones_like(layer.weight, dtype=torch.bool) for layer in small.layers]
    small.prune(
        [masks.get(f"weight_keep_{l}", all_of_them) for l, all_of_them in enumerate(everything)]
    )
    small.label_weight = net.label_weight
    return small.eval()


def simplified(state: State, architecture: Architecture) -> Architecture:
    """Operations whose propagated weights are all zero become Linear, those whose farthest hop is
    zero lose it, in `state` and in the architecture."""
    ops = list(architecture.ops)
    for l in range(len(ops)):
        width = state[f"layers.{l}.bias"].shape[1]
        while OPERATIONS[ops[l]].norm and not bool(state[f"layers.{l}.weight"][:, :width].any()):
            operation = OPERATIONS[ops[l]]
            ops[l] = operation.shorter or "Linear"
            state.pop(f"layers.{l}.attention", None)
            if operation.matrices > 1:  # what is left are the nearer hops, or the node itself
                for name in {f"layers.{l}.weight", f"weight_keep_{l}"} & state.keys():
                    state[name] = state[name][:, width:].contiguous()
    heads = tuple(
        h if OPERATIONS[op].attention else 1 for op, h in zip(ops, architecture.heads, strict=False)
    )
    return replace(architecture, ops=tuple(ops), heads=heads)


def fold_constants(state: State, architecture: Architecture, l: int) -> None:
    """Units of hidden layer l without input: their constant goes into the next layer's bias where
    that is exact."""
    if architecture.layer_norm:  # constant in front of the norm, but not behind it
        return
    weight, following = state[f"layers.{l}.weight"], state[f"layers.{l + 1}.weight"]
    width, operation = architecture.hidden[l], OPERATIONS[architecture.ops[l + 1]]
    constant = ~_by_unit(weight != 0, width).any(0)
    value = F.relu(state[f"layers.{l}.bias"][0])
    if architecture.batch_norm:
        mean, var = state[f"norms.{l}.running_mean"], state[f"norms.{l}.running_var"]
        scale, shift = state[f"norms.{l}.weight"], state[f"norms.{l}.bias"]
        value = F.batch_norm(value.unsqueeze(0), mean, var, scale, shift, eps=1e-5)[0]
    out = state[f"layers.{l + 1}.bias"].shape[1]
    # columns whose constants are not constant after the operation
    propagated = operation.propagated * out
    exact = constant & ((value == 0) | ~(following[:, :propagated] != 0).any(1))
    if not operation.own_weights:  # nothing of it stays where it is
        exact = constant & (value == 0)
    else:
        state[f"layers.{l + 1}.bias"] += (exact * value) @ following[:, propagated:]
    following[exact] = 0


def alive_rows(state: State, architecture: Architecture) -> list[Tensor]:
    """Features, then units of each hidden layer, that have an effect; those of the last layer are
    settled first."""
    hidden = architecture.hidden
    weights = [state[f"layers.{l}.weight"] != 0 for l in range(len(hidden) + 1)]
    rows = [torch.ones(0)] * len(weights)
    for l in range(len(hidden), 0, -1):
        keep = weights[l].any(1) | architecture.layer_norm  # its mean reads every unit
        if OPERATIONS[architecture.ops[l - 1]].attention:
            heads = architecture.heads[l - 1]
            vectors = state[f"layers.{l - 1}.attention"].flatten(1)
            attends = (vectors != 0).any(0) & weights[l - 1][:, : hidden[l - 1]].any(0)
            read = keep.view(heads, -1).any(1).repeat_interleave(hidden[l - 1] // heads)
            keep = keep | (attends & read)
        rows[l] = even(keep, heads_of(architecture, l - 1))
        weights[l - 1] &= rows[l].repeat(weights[l - 1].shape[1] // hidden[l - 1])
    rows[0] = some(weights[0].any(1))
    return rows


def take(
    tensors: Mapping[str, Tensor], architecture: Architecture, rows: Sequence[Tensor]
) -> State:
    """Parameters and buffers of a net, narrowed: `rows[0]` the features and `rows[l]` the units of
    layer l, bool."""
    taken: State = {}
    for name, value in tensors.items():
        if name.startswith("input_"):
            taken[name] = value[rows[0]]
            continue
        l = int("".join(c for c in name if c.isdigit()))
        columns = rows[l + 1] if l + 1 < len(rows) else None  # the classes all stay
        if name.endswith("num_batches_tracked"):
            taken[name] = value
        elif name.startswith("norms.") and columns is not None:
            taken[name] = value[columns]
        elif name.endswith(".bias"):
            taken[name] = value if columns is None else value[:, columns]
        elif name.endswith(".attention"):
            heads = value.shape[1] if columns is None else narrowed_heads(columns, value.shape[1])
            taken[name] = (
                value.flatten(1) if columns is None else value.flatten(1)[:, columns]
            ).view(2, heads, -1)
        else:
            value = value[rows[l]]
            taken[name] = (
                value
                if columns is None
                else value[:, columns.repeat(value.shape[1] // columns.numel())]
            )
    return {name: value.contiguous() for name, value in taken.items()}


def narrowed(architecture: Architecture, units: Sequence[Tensor]) -> Architecture:
    hidden = tuple(int(keep.sum()) for keep in units)
    heads = tuple(narrowed_heads(keep, heads_of(architecture, l)) for l, keep in enumerate(units))
    return replace(architecture, hidden=hidden, heads=heads)


def narrowed_heads(units: Tensor, heads: int) -> int:
    """Heads with a unit left."""
    return int(units.view(heads, -1).any(1).sum())


def narrowed_index(index: Tensor | None, features: Tensor) -> Tensor | None:
    """Which columns of x are read, [kept]; None still means all."""
    if bool(features.all()):
        return index
    return torch.nonzero(features).squeeze(1) if index is None else index[features]


def heads_of(architecture: Architecture, l: int) -> int:
    """Heads that hidden layer l has to keep equally wide."""
    return architecture.heads[l] if OPERATIONS[architecture.ops[l]].attention else 1


def even(keep: Tensor, heads: int) -> Tensor:
    """`keep` [F] with the same number of units in every head that has any: those with fewer get
    some back."""
    keep = some(keep).view(heads, -1).clone()
    most = int(keep.sum(1).max())
    for head in keep:
        if head.any():
            head[torch.nonzero(~head).squeeze(1)[: most - int(head.sum())]] = True
    return keep.flatten()


def some(keep: Tensor) -> Tensor:
    """`keep`, with the first where there is none."""
    if bool(keep.any()):
        return keep
    return torch.arange(keep.numel(), device=keep.device) == 0


def _by_unit(weight: Tensor, width: int) -> Tensor:
    """A layer's matrices one below the other: a column is all that enters one unit, [matrices · in,
    F]."""
    return weight.view(weight.shape[0], -1, width).flatten(0, 1)
