"""How well a found net labels nodes that its training has not seen: an inductive validation.

    held out   half of the validation nodes, drawn by the seed, with all of their edges
    trained    the plan's net again, from fresh weights, on the graph without them
    judged     on the held-out nodes, attached again with all of their edges, without label
               propagation: as on another graph

Architecture, recipe, kept edges and the teacher's soft labels are those of the search, which saw
the held-out nodes; their labels chose among nets. `seen` is the score of the run's own net on the
same nodes. No test label is read.

Shapes: N nodes, E edges.
"""

import time
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.metrics import Metric, score
from gassip.train.plan import Plan, Solution
from gassip.train.trainer import predict, retrain

LEAST = 10  # held-out nodes, under which a score says nothing
MOST_SECONDS = 60.0  # of a retraining, above which it is not done unasked


@dataclass(frozen=True, kw_only=True)
class Inductive:
    """The score on nodes held out with their edges, and of the run's net, which has seen them."""

    score: float
    seen: float
    nodes: int
    seconds: float

    def to_json(self) -> dict[str, float]:
        return asdict(self)


def inductive_score(
    graph: Graph, plan: Plan, solution: Solution, *, seed: int, metric: Metric
) -> Inductive | None:
    """None where `held_out_logits` is, or if the metric is not defined on the nodes."""
    began, held = time.perf_counter(), held_out(graph, seed)
    logits = held_out_logits(graph, plan, held, seed=seed, metric=metric)
    if logits is None:
        return None
    value = score(metric, logits, graph.y[held])
    seen = score(metric, predict(solution.model, solution.graph)[held], graph.y[held])
    return inductive_of(value, seen, held, began)


def inductive_of(
    value: float | None, seen: float | None, held: Tensor, began: float
) -> Inductive | None:
    """Both scores of the nodes [N] bool; None if the metric is not defined on them."""
    if value is None or seen is None:
        return None
    seconds = time.perf_counter() - began
    return Inductive(score=value, seen=seen, nodes=int(held.sum()), seconds=seconds)


def held_out_logits(
    graph: Graph, plan: Plan, held: Tensor, *, seed: int, metric: Metric
) -> Tensor | None:
    """What the net says of nodes [N] bool that its training has not seen, [held, C]. None if they
    are too few, or if x was made from the edges of the whole graph."""
    graph = graph.without_degrees  # they are made anew without the held-out nodes
    if graph.structure is not None or int(held.sum()) < LEAST:
        return None
    whole = replace(plan, degrees=False).on(graph, all_edges=True)
    unseen = _without(whole, plan, held)
    if not bool(unseen[0].train_mask.any()):
        return None
    model = retrain(*unseen, seed=seed, metric=metric).model
    model.label_weight = 0.0
    return predict(model, _attached(plan.on(graph, all_edges=True), plan, held))[held]


def held_out(graph: Graph, seed: int) -> Tensor:
    """[N] bool: half of the validation nodes."""
    nodes = graph.val_mask.nonzero().ravel()
    order = torch.randperm(nodes.numel(), generator=torch.Generator().manual_seed(seed))
    held = torch.zeros_like(graph.val_mask)
    held[nodes[order[: nodes.numel() // 2].to(nodes.device)]] = True
    return held


def _without(whole: Graph, plan: Plan, held: Tensor) -> tuple[Graph, Plan]:
    """The graph and the plan without the held-out nodes."""
    stays = ~held[whole.edge_index].any(0)  # [E]
    start = "rewind" if plan.recipe.start == "inherit" else plan.recipe.start
    recipe = replace(plan.recipe, start=start)
    teacher = None if plan.teacher is None else plan.teacher[~held]
    smaller = replace(
        plan,
        recipe=recipe,
        symmetrised=False,
        weighted=True,
        edge_keep=plan.edge_keep[stays],
        edge_mask=plan.edge_mask[stays],
        teacher=teacher,
    )
    return induced(whole, ~held), smaller


def _attached(whole: Graph, plan: Plan, held: Tensor) -> Graph:
    """The kept edges, and all edges of the held-out nodes."""
    touches = held[whole.edge_index].any(0)
    weight = None
    if plan.soft_edges:
        weight = torch.where(touches, whole.weight, whole.weight * plan.edge_mask)
    return whole.keep(plan.edge_keep | touches, weight)


def induced(graph: Graph, nodes: Tensor) -> Graph:
    """The graph of some nodes [N] bool and the edges among them."""
    number = nodes.cumsum(0) - 1
    stays = nodes[graph.edge_index].all(0)
    rows = graph.x.to_scipy()[nodes.cpu().numpy()] if isinstance(graph.x, Csr) else None
    ids = graph.ids
    if ids is not None:
        ids = tuple(ids[at] for at in nodes.nonzero().ravel().tolist())
    assert rows is not None or isinstance(graph.x, Tensor)
    x = graph.x[nodes] if isinstance(graph.x, Tensor) else Csr.from_scipy(rows).to(graph.device)
    return replace(
        graph,
        x=x,
        y=graph.y[nodes],
        ids=ids,
        edge_index=number[graph.edge_index[:, stays]],
        edge_weight=None if graph.edge_weight is None else graph.edge_weight[stays],
        train_mask=graph.train_mask[nodes],
        val_mask=graph.val_mask[nodes],
        test_mask=graph.test_mask[nodes],
    )
