"""What a search hands over: both masks binarised, the most probable architecture (Algorithm 2,
lines 9-11, and the end of Sec. 4.4)."""

from dataclasses import replace

import torch
from torch import Tensor

from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.nn.ranking import highest
from gassip.operations import OPERATIONS, gcn_weights
from gassip.paper.masks import best_of_a_node, edge_keep, group_keep, weight_keep
from gassip.paper.state import State, architecture_of
from gassip.paper.supernet import Path, top_paths
from gassip.settings import Settings
from gassip.settings.training import Recipe
from gassip.train.batched import retrain_many
from gassip.train.plan import Decision, Plan, Row, Solution
from gassip.train.shrink import compact
from gassip.train.trainer import judged, predict

TRIALS = 3  # trainings of each architecture that may be induced
SCORED = 64  # of this many most probable architectures the supernet's own path is validated
CUT_SIGMAS = 2.0  # standard errors by which a cut must be better than the first
HIGHEST = "the highest mean validation score of three short trainings is taken"


def _value(solution: Solution, metric: Metric) -> float:
    """The validation score; where the metric is not defined there, accuracy stands in for it."""
    return solution.scores.get(metric, {}).get("val", solution.accuracy["val"])


def kept_weights(state: State, path: Path) -> list[Tensor]:
    """Binarised M_W of one path, per layer."""
    settings, layers = state.settings, state.supernet.layers
    if not settings.prune:
        weights = [layer.weight[:, layer.columns(k)] for layer, k in zip(layers, path, strict=True)]
        return [torch.ones_like(weight, dtype=torch.bool) for weight in weights]
    scores = state.supernet.path_scores(path)
    if settings.weight_groups == "unit" and settings.weight_rule == "budget":
        return group_keep(scores, settings.weight_share)
    if settings.weight_rule == "size":
        return weight_keep(scores, "budget", share_that_fits(state, path))
    return weight_keep(scores, settings.weight_rule, settings.weight_share)


def share_that_fits(state: State, path: Path) -> float:
    """The share of a path's weights with which the net, biases included, has `weight_share` of the
    weights of a GCN-64."""
    graph, settings, total = state.graph, state.settings, 0
    others = sum(p.numel() for p in state.supernet.norms.parameters())
    for layer, k in zip(state.supernet.layers, path, strict=True):
        columns = layer.columns(k)
        total += layer.weight.shape[0] * (columns.stop - columns.start)
        others += layer.out_width
        if layer.attention is not None and OPERATIONS[settings.ops[k]].attention:
            others += layer.attention.numel()
    most = int(settings.weight_share * gcn_weights(graph.num_features, graph.num_classes))
    return min(1.0, max(0.0, (most - others) / total))


def kept_edges(state: State, certain_share: float | None = None) -> Tensor:
    """Binarised M_G of every edge, [E] bool; `certain_share` in place of that of the settings."""
    settings = state.settings
    if not settings.sparsify:
        return torch.ones(state.graph.num_edges, dtype=torch.bool, device=state.graph.device)
    mask = torch.sigmoid(state.edge_score - state.threshold).detach()
    threshold = float(state.threshold.detach())
    last, unsure = torch.zeros_like(mask, dtype=torch.bool), uncertain(state, certain_share)
    if settings.keep_last:
        last = best_of_a_node(mask, state.slot, state.graph.adjacency)
    order = mask + last + 2 * unsure  # M_G is at most 1
    keep = edge_keep(order, threshold, settings.edge_rule, settings.edge_share)
    return (keep | last)[state.slot]


def uncertain(state: State, certain_share: float | None = None) -> Tensor:
    """The scores [P] that no evidence speaks against: all but the `certain_share` of the edges
    whose less certain end the supernet is surest of. Where it is not, pseudo-labels cannot tell
    what an edge does."""
    share = state.settings.certain_share if certain_share is None else certain_share
    count = state.edge_score.numel()
    if share >= 1 or state.logits is None:
        return torch.zeros(count, dtype=torch.bool, device=state.slot.device)
    adjacency = state.graph.adjacency
    sure = torch.softmax(state.logits, 1).amax(1)  # of the class that is most probable
    ends = torch.minimum(sure[adjacency.row], sure[adjacency.col64])
    certainty = ends.new_zeros(count).scatter_reduce(0, state.slot, ends, "amax")
    return ~highest(certainty, round(share * count))


def found_plan(
    state: State, settings: Settings, metric: Metric, *, symmetrised: bool = False
) -> tuple[Plan, tuple[Decision, ...]]:
    """What the search hands over, and how it was chosen: architecture and dropout, then the cut."""
    retraining, search = settings.retraining, settings.search
    paths = [
        induce(state, settings, symmetrised=symmetrised, path=path)
        for path in paths_to_try(state, metric)
    ]
    dropouts = tuple(dict.fromkeys((retraining.dropout, *retraining.dropouts)))  # each once
    plans = [with_dropout(plan, dropout) for plan in paths for dropout in dropouts]
    plan, decisions = best_plan(state.graph, plans, settings, metric)
    if not search.sparsify or search.certain_share >= 1:
        return plan, decisions
    keep = kept_edges(state, certain_share=1.0)
    cut = [replace(with_dropout(path, plan.recipe.dropout), edge_keep=keep) for path in paths]
    anywhere, _ = best_plan(state.graph, cut, settings, metric)
    plan, decision = choose_cut(state.graph, plan, anywhere, settings, metric)
    return plan, (*decisions, decision)


def best_plan(
    graph: Graph, plans: list[Plan], settings: Settings, metric: Metric
) -> tuple[Plan, tuple[Decision, ...]]:
    """Of these plans what validates best after short trainings. Line 9 reads off the most probable
    architecture: there is one plan where `induced_from` is 1 and one dropout is named."""
    if len(plans) == 1:
        return plans[0], ()
    values = [short_score(graph, plan, settings, metric) for plan in plans]
    names = [f"{plan.architecture}, dropout {plan.recipe.dropout:g}" for plan in plans]
    best = values.index(max(values))
    tried: list[Row] = [
        {"name": name, "score": value} for name, value in zip(names, values, strict=True)
    ]
    decision = Decision(stage="induced", taken=names[best], tried=tuple(tried), statistic=HIGHEST)
    return plans[best], (decision,)


def choose_cut(
    graph: Graph, plan: Plan, anywhere: Plan, settings: Settings, metric: Metric
) -> tuple[Plan, Decision]:
    """The plan whose cut is between certain nodes; the best one with the lowest edges by M_G
    wherever they are, if that validates better beyond chance. A cut may call for another
    architecture, so each comes with its own. Nodes are compared one by one, each by its share of
    three short trainings that label it rightly."""
    right = [labelled_rightly(graph, own, settings, metric) for own in (plan, anywhere)]
    gain = right[1] - right[0]
    error = float(gain.std(correction=0)) / gain.numel() ** 0.5
    sigmas = float(gain.mean()) / error if error > 0 else 0.0
    tried: list[Row] = [
        {"name": f"between certain nodes, {plan.architecture}", "score": float(right[0].mean())},
        {
            "name": f"anywhere, {anywhere.architecture}",
            "score": float(right[1].mean()),
            "statistic": sigmas,
        },
    ]
    better = sigmas > CUT_SIGMAS
    decision = Decision(
        stage="cut",
        taken=str(tried[better]["name"]),
        tried=tuple(tried),
        statistic="standard errors of the gain in validation nodes labelled rightly",
        threshold=CUT_SIGMAS,
    )
    return (anywhere if better else plan), decision


def labelled_rightly(graph: Graph, plan: Plan, settings: Settings, metric: Metric) -> Tensor:
    """Of each validation node the share of short trainings that label it rightly."""
    y, solutions = graph.y[graph.val_mask], short_trainings(graph, plan, settings, metric)
    labels = [predict(own.model, own.graph)[graph.val_mask].argmax(1) for own in solutions]
    return torch.stack([(label == y).double() for label in labels]).mean(0)


def paths_to_try(state: State, metric: Metric) -> list[Path]:
    """`induced_from` paths: the most probable ones, or as many of these as of those that validate
    best inside the supernet."""
    count = state.settings.induced_from
    if state.settings.induced_by == "alpha" or count == 1:
        return top_paths(state.supernet.alpha, count)
    probable = top_paths(state.supernet.alpha, max(SCORED, count))
    scores = {path: path_score(state, path, metric) for path in probable}
    first = probable[: (count + 1) // 2]
    others = sorted(probable[len(first) :], key=lambda path: scores[path], reverse=True)
    return [*first, *others[: count - len(first)]]


@torch.no_grad()
def path_score(state: State, path: Path, metric: Metric) -> float:
    """The validation score of one path of the supernet as it stands."""
    graph = state.graph
    logits = state.supernet(graph.x, state.masked, state.weights(), path=path)
    return judged(logits, graph, metric)[0]


def with_dropout(plan: Plan, dropout: float) -> Plan:
    """The plan with another dropout in its training."""
    return replace(plan, recipe=replace(plan.recipe, dropout=dropout))


def short_score(graph: Graph, plan: Plan, settings: Settings, metric: Metric) -> float:
    """The mean validation score of the plan's short trainings."""
    solutions = short_trainings(graph, plan, settings, metric)
    return sum(_value(solution, metric) for solution in solutions) / TRIALS


def short_trainings(graph: Graph, plan: Plan, settings: Settings, metric: Metric) -> list[Solution]:
    short = replace(plan.recipe, epochs=settings.search.induce_epochs)
    trial = replace(plan, recipe=short)
    return retrain_many(graph, trial, seeds=range(TRIALS), metric=metric)


@torch.no_grad()
def induce(
    state: State, settings: Settings, *, symmetrised: bool = False, path: Path | None = None
) -> Plan:
    """Binarise both masks and read off the most probable architecture, or `path` (Alg. 2, lines
    9-11)."""
    search = settings.search
    path = path or top_paths(state.supernet.alpha, 1)[0]
    masked = {f"layers.{l}.weight": w for l, w in enumerate(state.weights())}
    ones = torch.ones(state.graph.num_edges, device=state.graph.device)
    plan = Plan(
        settings=settings,
        recipe=Recipe.of(settings.retraining, batch_norm=search.batch_norm),
        architecture=architecture_of(search, tuple(search.ops[k] for k in path)),
        symmetrised=symmetrised,
        soft_edges=search.sparsify and search.kept_edges == "soft",
        weight_keep=kept_weights(state, path),
        edge_keep=kept_edges(state),
        edge_mask=state.edge_mask() if search.sparsify else ones,
        first_weights=_net_weights(state, path, state.first),
        last_weights=_net_weights(state, path, state.operations() | masked),
        history=state.history,
        seconds=sum(float(row["seconds"]) for row in state.history),
    )
    if search.prune and search.weight_groups == "unit":
        return compact(plan)  # what the groups cut is not there when the net is retrained
    return plan


def _net_weights(state: State, path: Path, source: dict[str, Tensor]) -> dict[str, Tensor]:
    """The parameters of one path out of the supernet's, under the names of `Net`."""
    named = {k: v.clone() for k, v in source.items() if k.startswith("norms.")}
    for l, (layer, k) in enumerate(zip(state.supernet.layers, path, strict=True)):
        named[f"layers.{l}.weight"] = source[f"layers.{l}.weight"][:, layer.columns(k)].clone()
        named[f"layers.{l}.bias"] = source[f"layers.{l}.bias"][k : k + 1].clone()
        if OPERATIONS[state.settings.ops[k]].attention:
            named[f"layers.{l}.attention"] = source[f"layers.{l}.attention"].clone()
    return named
