"""What a search hands over: both masks binarised, the most probable architecture (Algorithm 2,
lines 9-11, and the end of Sec. 4.4)."""

import torch
from torch import Tensor

from gassip.metrics import Metric
from gassip.nn.ranking import highest
from gassip.operations import OPERATIONS, gcn_weights
from gassip.paper.masks import best_of_a_node, edge_keep, group_keep, weight_keep
from gassip.paper.state import State, architecture_of
from gassip.paper.supernet import Path, top_paths
from gassip.settings import Settings
from gassip.settings.training import Recipe
from gassip.train.plan import Plan
from gassip.train.shrink import compact
from gassip.train.trainer import judged

SCORED = 64  # of this many most probable architectures the supernet's own path is validated


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
