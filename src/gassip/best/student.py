"""The student: the final net, as small as asked, trained on the teacher's soft labels.

    width      the largest with at most `size_share` of a GCN-64's weights
    features   a share `feature_share`, those with the largest rows ‖W_i‖ of layer 1 in the teachers

Architecture, edges and pruning are chosen by training the net that would result and validating it;
what comes first stays unless another is better beyond chance.

Shapes: N nodes, E directed edges, D features.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gassip.best.decisions import Decided, among, numbered
from gassip.best.edge_ranking import Known, cuts
from gassip.best.ensemble import Teacher
from gassip.best.rules import WIDEST
from gassip.best.trials import Request, Trial, Trials, winner
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, net_for
from gassip.nn.ranking import highest
from gassip.operations import gcn_weights
from gassip.settings import Settings
from gassip.settings.best import Student
from gassip.settings.training import Recipe
from gassip.train.gradual_pruning import besides


@dataclass(frozen=True, eq=False, kw_only=True)
class Classroom:
    """What every student has in common."""

    trials: Trials
    graph: Graph
    teacher: Teacher
    recipe: Recipe
    heads: int
    cuts: dict[str, Tensor]  # by name, which edges of `graph` are kept, [E] bool
    graphs: dict[str, Graph]  # the same as graphs
    features: Tensor | None  # [kept] columns of x that a student reads; None: all

    def request(
        self, ops: tuple[str, ...], cut: str, share: float, recipe: Recipe, *, what: str = ""
    ) -> Request:
        """The widest net of these operations within `share`, taught on the graph so cut."""
        return Request(
            architecture=widest(self.graph, ops, recipe, self.heads, share, self.features),
            recipe=recipe,
            graph=self.graphs[cut],
            teacher=self.teacher.probs,
            feature_index=self.features,
            what=what,
        )


@dataclass(frozen=True, eq=False)
class Chosen:
    """The student so far: its net, and the name of the cut whose edges it reads."""

    trial: Trial
    cut: str


def classroom(
    trials: Trials,
    graph: Graph,
    teacher: Teacher,
    recipe: Recipe,
    edge_mask: Tensor,
    settings: Settings,
) -> Classroom:
    assert settings.best is not None
    edges, student = settings.best.edges, settings.best.student
    known = Known(graph, teacher.probs, edge_mask, trials.seed)
    kept = cuts(known, edges.edge_rankings, edges.edge_shares)
    return Classroom(
        trials=trials,
        graph=graph,
        teacher=teacher,
        recipe=recipe,
        heads=settings.search.heads,
        cuts=kept,
        graphs={name: graph.keep(keep) for name, keep in kept.items()},
        features=best_features(teacher.feature_weight, student, trials.seed),
    )


def choose_student(
    room: Classroom, architectures: list[tuple[str, ...]], share: float
) -> Decided[Chosen]:
    """The first architecture, unless a later one validates better."""
    cut = next(iter(room.cuts))
    requests = [room.request(ops, cut, share, room.recipe) for ops in architectures]
    tried = room.trials.train_all("student", requests)
    best = winner(tried)
    return Decided(Chosen(best, cut), among("student", numbered(tried), best))


def choose_edges(room: Classroom, chosen: Chosen, share: float) -> Decided[Chosen]:
    """The first cut, unless the same net validates better on another."""
    others, ops = list(room.cuts)[1:], chosen.trial.architecture.ops
    requests = [room.request(ops, cut, share, room.recipe, what=cut) for cut in others]
    trained = room.trials.train_all("edges", requests)
    tried = {chosen.cut: chosen.trial} | dict(zip(others, trained, strict=True))
    best = winner(list(tried.values()))
    cut = next(name for name, trial in tried.items() if trial is best)
    return Decided(Chosen(best, cut), among("edge cut", tried, best))


def student_architectures(settings: Student, ranked: list[Architecture]) -> list[tuple[str, ...]]:
    """The architectures that compete: the given one, or the best candidates."""
    if settings.final_ops:
        return [tuple(settings.final_ops.split("+"))]
    return [architecture.ops for architecture in ranked]


def best_features(weight: Tensor, settings: Student, seed: int) -> Tensor | None:
    """The columns of x that the teachers read most (or, as a control, any), [kept]; None: all."""
    if settings.feature_share >= 1:
        return None
    if settings.feature_rule == "random":
        generator = torch.Generator().manual_seed(seed)
        weight = torch.rand(weight.shape, generator=generator).to(weight.device)
    count = max(1, round(settings.feature_share * weight.numel()))
    return torch.nonzero(highest(weight, count)).squeeze(1)


# Width


def widest(
    graph: Graph,
    ops: tuple[str, ...],
    recipe: Recipe,
    heads: int,
    share: float,
    features: Tensor | None,
) -> Architecture:
    """The widest net of these operations with at most `share` of a GCN-64's weights."""
    most = share * gcn_weights(graph.num_features, graph.num_classes)
    low, high = 1, int(WIDEST)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(graph, shaped(ops, middle, heads, recipe), recipe, most, features):
            low = middle
        else:
            high = middle - 1
    return shaped(ops, low, heads, recipe)


def shaped(ops: tuple[str, ...], width: int, heads: int, recipe: Recipe) -> Architecture:
    inner = len(ops) - 1
    heads = heads if width % heads == 0 else 1
    return Architecture(
        ops=ops, hidden=(width,) * inner, heads=(heads,) * inner, batch_norm=recipe.batch_norm
    )


def fits(
    graph: Graph, architecture: Architecture, recipe: Recipe, most: float, features: Tensor | None
) -> bool:
    """At most `most` weights; of a net that is pruned, biases and norms, which stay, are at most
    half of what is left."""
    net = net_for(graph, architecture, feature_index=features)
    crowded = recipe.prune_to > 0 and 2 * besides(net.named_parameters()) > recipe.prune_to
    return not crowded and sum(p.numel() for p in net.parameters()) <= most
