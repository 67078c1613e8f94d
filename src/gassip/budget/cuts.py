"""Cuts of a plan to a share; those of a smaller share lie inside those of a larger one.

    keep(s) = the ⌈s·D⌉ highest features, the ⌈√s·F_l⌉ highest units of each hidden layer, for one
    share s in (0, 1]

An input feature ranks by ‖(W ⊙ M_W)_i‖, its row of layer 1; a hidden unit by ‖column‖·‖row‖, what
enters it times what leaves it: what the search made of weight and mask together. So one search
gives nested nets. Inside the kept rows and columns the net is dense: a mask there would cost
accuracy and save nothing that is counted here. Edges are cut to the highest M_G.
"""

from dataclasses import replace
from math import ceil

import torch
from torch import Tensor

from gassip.graph.graph import Graph
from gassip.nn.net import Architecture
from gassip.nn.ranking import highest
from gassip.train.gradual_pruning import besides
from gassip.train.plan import Plan
from gassip.train.shrink import heads_of, select


def cut_edges(graph: Graph, plan: Plan, most: float) -> Plan:
    """The highest M_G among the kept edges, at most `most` directed ones; both directions of an
    edge or neither."""
    kept = int(plan.edge_keep.sum())
    if kept <= most:
        return plan
    graph = plan.on(graph, all_edges=True)
    pair = (
        graph.pair
        if plan.settings.search.edge_scores == "undirected"
        else torch.arange(graph.num_edges)
    )
    pair = pair.to(plan.edge_keep.device)
    size = torch.zeros(int(pair.max()) + 1, device=pair.device).index_add_(
        0, pair, plan.edge_keep.float()
    )
    score = torch.full_like(size, -torch.inf).scatter_reduce(0, pair, plan.edge_mask, "amax")
    order = torch.sort(
        torch.where(size > 0, score, -torch.inf), descending=True, stable=True
    ).indices
    chosen = torch.zeros_like(size, dtype=torch.bool)
    chosen[order[size[order].cumsum(0) <= most]] = True
    return replace(plan, edge_keep=plan.edge_keep & chosen[pair])


def cut_weights(plan: Plan, share: float) -> Plan:
    """A plan at one share, dense inside; the smallest net at 0."""
    features, units = ranks(plan)
    kept = highest(features, max(1, ceil(share * features.numel())))
    cut = select(plan, kept, best_of_each(units, share**0.5, plan.architecture))
    return replace(cut, weight_keep=[torch.ones_like(keep) for keep in cut.weight_keep])


def fewer_left(plan: Plan, share: float) -> Plan:
    """A net that is pruned while it trains: this share of its units, and of the weights that are
    left."""
    features, units = ranks(plan)
    everything = torch.ones_like(features, dtype=torch.bool)
    cut = select(plan, everything, best_of_each(units, share, plan.architecture))
    least = besides(cut.last_weights.items()) + 1
    left = max(least, int(share * plan.recipe.prune_to))
    return replace(cut, recipe=replace(plan.recipe, prune_to=left))


def ranks(plan: Plan) -> tuple[Tensor, list[Tensor]]:
    """‖row of layer 1‖ per feature; ‖what enters‖·‖what leaves‖ per unit of each hidden layer."""
    weights = [plan.last_weights[f"layers.{l}.weight"] for l in range(len(plan.architecture.ops))]
    units = []
    for before, after, width in zip(weights, weights[1:], plan.architecture.hidden, strict=False):
        units.append(
            before.view(before.shape[0], -1, width).flatten(0, 1).norm(dim=0) * after.norm(dim=1)
        )
    return weights[0].norm(dim=1), units


def best_of_each(units: list[Tensor], share: float, architecture: Architecture) -> list[Tensor]:
    """The highest share of the units of each hidden layer, at least one."""
    return [
        best_units(score, max(1, ceil(share * score.numel())), heads_of(architecture, l))
        for l, score in enumerate(units)
    ]


def best_units(score: Tensor, count: int, heads: int) -> Tensor:
    """The highest `count` units; of several heads whole ones, and fewer than a head's only from the
    highest head."""
    width = score.numel() // heads
    by_head = highest(score.view(heads, -1).sum(1), max(1, count // width)).repeat_interleave(width)
    if count >= width:
        return by_head
    return highest(torch.where(by_head, score, -torch.inf), count)
