"""Hard bounds on what a net weighs, and how what a search found is cut to fit them.

The largest share that fits is taken (cuts.py). A net that is pruned while it trains
(gradual_pruning.py) is pruned to fewer weights instead, from a share of its units, with all its
features, where that meets bounds on weights and bytes. Where even the smallest net does not fit the
multiply-adds or the time, edges go too.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from gassip.budget.budget import Budget as Budget
from gassip.budget.budget import Limits as Limits
from gassip.budget.budget import read_amount as read_amount
from gassip.budget.cuts import cut_edges, cut_weights, fewer_left
from gassip.budget.limits import broken, counted, latency_ms, limits
from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.nn.net import Architecture, Net, net_for
from gassip.nn.size import Size, packed, size_of
from gassip.settings import Settings
from gassip.train.deadline import Deadline
from gassip.train.gradual_pruning import Pruning
from gassip.train.plan import Plan, Solution
from gassip.train.shrink import shrink
from gassip.train.trainer import planned_net, retrain, seeded

MARGIN = 0.8  # of a time that must be kept: what is measured now comes out longer now and then
DIGITS = 64  # bytes by which a file's header may grow with the numbers in it
STEPS = 1000  # shares that are told apart
ATTEMPTS = 5  # retrainings, where the trained net proves slower than it was measured before


def retrain_within(
    graph: Graph,
    plan: Plan,
    budget: Budget,
    *,
    seed: int = 0,
    metric: Metric = "accuracy",
    on_epoch: Callable[[dict[str, float]], None] | None = None,
    deadline: Deadline | None = None,
) -> tuple[Plan, Solution]:
    """Cut, retrain, shrink, and check what came out; where it proves slower than allowed, cut
    further and again."""
    bound = limits(budget, plan.on(graph, all_edges=True))
    for attempt in range(ATTEMPTS):
        tighter = replace(bound, latency_ms=bound.latency_ms * MARGIN**attempt)
        fitted = fit_limits(graph, plan, budget, tighter) if budget else plan
        trained = retrain(
            graph, fitted, seed=seed, metric=metric, on_epoch=on_epoch, deadline=deadline
        )
        for solution in (
            shrink(trained),
            trained,
        ):  # without some features a net may need more bytes: it names the rest
            if not problems(solution, bound):
                return fitted, solution
    raise GassipError(f"{problems(solution, bound)[0]}, after {ATTEMPTS} attempts; allow more")


def fit_budget(graph: Graph, plan: Plan, budget: Budget) -> Plan:
    """A plan cut so that it fits; retrain it and it fits still. Refused where nothing
    does."""
    return fit_limits(graph, plan, budget, limits(budget, plan.on(graph, all_edges=True)))


def fit_limits(graph: Graph, plan: Plan, budget: Budget, bound: Limits) -> Plan:
    plan = cut_edges(graph, plan, bound.edges)
    if min(bound.macs, bound.latency_ms) < torch.inf:  # spreading labels takes as many steps again
        plan = replace(plan, recipe=replace(plan.recipe, label_weight=0.0))
    if fits(graph, plan, bound):
        return plan
    if plan.recipe.prune_to:
        plan = prune_further(graph, plan, replace(bound, macs=torch.inf, latency_ms=torch.inf))
        if fits(graph, plan, bound):
            return plan
    for edges in (int(plan.edge_keep.sum()), *edge_steps(plan)):
        fewer = cut_edges(graph, plan, edges)
        if fits(graph, cut_weights(fewer, 0.0), bound):
            return largest(graph, fewer, bound, cut_weights)
    least = cut_weights(cut_edges(graph, plan, 0), 0.0)
    net, kept, size = to_be(graph, least)
    above = broken(counted(net, kept, size), bound) or ["latency_ms"]
    raise GassipError(impossible(above[0], net, kept, budget))


def check_possible(graph: Graph, settings: Settings, budget: Budget) -> None:
    """Refuse, before a search, what no architecture of these operations could keep; time is not
    judged yet."""
    graph = (
        graph if settings.direction == "given" else graph.both_ways
    )  # where that is open, what allows more
    bound = limits(replace(budget, max_latency_ms=None), graph)
    one = rarest_feature(graph)
    bare = graph.keep(torch.zeros(graph.num_edges, dtype=torch.bool, device=graph.device))
    nets = []
    for op in (
        settings.search.ops
    ):  # a mixture of operations needs no less than the lightest of them alone
        ops, inner = (op,) * settings.search.layers, settings.search.layers - 1
        shape = Architecture(ops=ops, hidden=(1,) * inner, batch_norm=settings.search.batch_norm)
        nets.append(net_for(graph, shape, feature_index=one))
    counts = [counted(net, bare, size_of(net, bare)) for net in nets]
    for name in counts[0]:
        values = [count[name] for count in counts]
        if min(values) > getattr(bound, name):
            raise GassipError(impossible(name, nets[values.index(min(values))], bare, budget))


def rarest_feature(graph: Graph) -> Tensor:
    """The column of x with the fewest stored values, [1]: the cheapest to read."""
    if not isinstance(graph.x, Csr):
        return torch.zeros(1, dtype=torch.int64, device=graph.device)
    return torch.bincount(graph.x.col, minlength=graph.num_features).argmin().view(1)


def largest(graph: Graph, plan: Plan, bound: Limits, cut: Callable[[Plan, float], Plan]) -> Plan:
    """The largest share that fits, given that the smallest does."""
    low, high = 0, STEPS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high) if fits(graph, cut(plan, middle / STEPS), bound) else (low, middle)
        )
    return cut(plan, low / STEPS)


def prune_further(graph: Graph, plan: Plan, bound: Limits) -> Plan:
    """A net that is pruned while it trains, to as many weights as fit; as it is where all do, or
    none."""
    if fits(graph, plan, bound) or not fits(graph, fewer_left(plan, 0.0), bound):
        return plan
    return largest(graph, plan, bound, fewer_left)


def edge_steps(plan: Plan) -> Iterator[int]:
    """Halved again and again, down to none."""
    count = int(plan.edge_keep.sum())
    while count:
        count //= 2
        yield count


def fits(graph: Graph, plan: Plan, bound: Limits) -> bool:
    """Whether the net of `plan` is within the bounds before it is trained."""
    net, kept, size = to_be(graph, plan)
    return not broken(counted(net, kept, size), bound) and (
        bound.latency_ms == torch.inf or latency_ms(net, kept) <= MARGIN * bound.latency_ms
    )


def to_be(graph: Graph, plan: Plan) -> tuple[Net, Graph, Size]:
    """The net of `plan` before it is trained, its graph, and the most that it will weigh after."""
    with seeded(0, graph.device):
        net, kept = planned_net(graph, plan), plan.on(graph)
    if (pruning := Pruning.of(plan.recipe)) is None:
        return net, kept, size_of(net, kept)  # training changes no count
    pruning.finish(net)
    size = size_of(net, kept)
    for l, layer in enumerate(
        net.layers
    ):  # which weights will be left is not known: a mask for every layer
        if net.weight_keep(l) is None:
            net.register_buffer(f"weight_keep_{l}", torch.ones_like(layer.weight, dtype=torch.bool))
    return net, kept, replace(size, bytes=len(packed(net)) + DIGITS)


def problems(solution: Solution, bound: Limits) -> list[str]:
    """What a finished solution weighs too much of, in words."""
    net, graph = solution.model, solution.graph
    assert isinstance(net, Net)
    counts = counted(net, graph, size_of(net, graph))
    said = [
        f"max_{name} is {getattr(bound, name):,.0f}, this net has {counts[name]:,}"
        for name in broken(counts, bound)
    ]
    taken = latency_ms(net, graph) if bound.latency_ms < torch.inf else 0.0
    if taken > bound.latency_ms:
        said.append(f"max_latency_ms is {bound.latency_ms:.3g}, this net takes {taken:.3g} here")
    return said


def impossible(name: str, least: Net, graph: Graph, budget: Budget) -> str:
    """One line: which bound, and the least there is."""
    flag, given = f"--max-{name.replace('_', '-')}", getattr(budget, f"max_{name}")
    if name == "latency_ms":
        what = f"{latency_ms(least, graph) / MARGIN:.3g}"
    else:
        what = f"{counted(least, graph, size_of(least, graph))[name]:,}"
    smallest = (
        f"{least.architecture} with 1 feature and 1 unit per hidden layer for "
        f"{graph.num_classes} classes"
    )
    return f"{flag} {given} cannot be met on {graph.name}: the least is {what} ({smallest})"
