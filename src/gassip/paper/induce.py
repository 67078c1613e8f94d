"""What a search hands over: both masks binarised, the most probable architecture (Algorithm 2,
lines 9-11, and the end of Sec. 4.4)."""

import torch
from torch import Tensor

from gassip.operations import OPERATIONS
from gassip.paper.masks import edge_keep, group_keep, weight_keep
from gassip.paper.state import State, architecture_of
from gassip.paper.supernet import Path, top_paths
from gassip.settings import Settings
from gassip.settings.training import Recipe
from gassip.train.plan import Plan
from gassip.train.shrink import compact


def kept_weights(state: State, path: Path) -> list[Tensor]:
    """Binarised M_W of one path, per layer."""
    settings, layers = state.settings, state.supernet.layers
    if not settings.prune:
        own = [layer.weight[:, layer.columns(k)] for layer, k in zip(layers, path, strict=True)]
        return [torch.ones_like(weight, dtype=torch.bool) for weight in own]
    scores = state.supernet.path_scores(path)
    if settings.weight_groups == "unit" and settings.weight_rule == "budget":
        return group_keep(scores, settings.weight_share)
    return weight_keep(scores, settings.weight_rule, settings.weight_share)


def kept_edges(state: State) -> Tensor:
    """Binarised M_G of every edge, [E] bool."""
    settings = state.settings
    if not settings.sparsify:
        return torch.ones(state.graph.num_edges, dtype=torch.bool, device=state.graph.device)
    mask = torch.sigmoid(state.edge_score - state.threshold)
    return edge_keep(mask, float(state.threshold), settings.edge_rule, settings.edge_share)[
        state.slot
    ]


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
