"""The final net of the preset `best`: which architecture, which edges, how wide (METHOD.md).

    width     the largest with at most `size_share` of the weights of a GCN with 64 hidden units
    weights   where its teacher is ahead of that net by more than MARGIN, and than chance: a net
              `spare` times as
              large, pruned to as many weights while it trains; where it is still LARGER_MARGIN
              behind, to more, step by step; the architectures compete anew
    features  a share `feature_share`, those whose rows ‖W_i‖ of layer 1 weigh most in the teachers
    edges     the lowest of a ranking go, but never a node's last one; rankings compete on
              validation:
              curriculum   M_G of the search
              agreement    Σ_c t_ic t_jc of the teacher
              hubs         1/d_i + 1/d_j
              support      agreement · hubs: what goes are edges across classes, at nodes with many
                           others
              similarity   cos(x_i, x_j)
              random       the control
    labels    those of training nodes count beside it where validation nodes are likelier so
              (labels.py)

Every choice is made by training the net that would result, taught by the teacher, and validating
it; what comes first stays unless another is better by more than chance.

Shapes: N nodes, E directed edges, P undirected ones, C classes.
"""

from dataclasses import replace

import torch
from torch import Tensor

from gassip.best.calibration import LEAST, gains, log_likelihood
from gassip.best.teacher import (
    Attempt,
    Contest,
    Lesson,
    agreed,
    beats,
    beyond_chance,
    mean_share,
    right,
    winner,
)
from gassip.graph.graph import Graph
from gassip.graph.similarity import cosine
from gassip.graph.undirected import keep_highest, num_neighbours
from gassip.nn.net import Architecture, net_for
from gassip.nn.ranking import highest
from gassip.settings import Gassip, gcn_weights
from gassip.train.gradual_pruning import besides
from gassip.train.label_propagation import weight_of_labels
from gassip.train.trainer import Found

WIDEST = 1024
# of the validation score: a net so close to its teacher need not be pruned from a larger one
MARGIN = 0.01
LARGER_MARGIN = 0.02  # and one so close need not have more weights
FASTER, DECAY = 2, 2e-4  # where a net is pruned: times the rate, and the weight decay


def graduate(contest: Contest, lesson: Lesson, base: Found) -> Found:
    """Choose architecture, edges and size of the final net; `base` is what the search found."""
    graph, settings = contest.graph, lesson.settings
    keeps = cuts(graph, settings, lesson.share, base.edge_mask[contest.kept], contest.seed)
    graphs = {name: graph.keep(keep) for name, keep in keeps.items()}
    index = best_features(lesson.feature_weight, settings, contest.seed)
    given = tuple(settings.final_ops.split("+"))
    students = [given] if settings.final_ops else [own.ops for own in lesson.students]

    def attempt(
        stage: str, ops: tuple[str, ...], edges: str, share: float, spare: int = 1
    ) -> Attempt:
        own = (
            pruning_to(int(share * gcn_weights(graph.num_features, graph.num_classes)), settings)
            if spare > 1
            else settings
        )
        return contest.attempt(
            stage,
            widest(graph, ops, own, share * spare, index),
            own,
            epochs=own.retrain_epochs,
            graph=graphs[edges],
            teacher=lesson.share,
            feature_index=index,
        )

    share, edges = settings.size_share, next(iter(keeps))
    own = winner([attempt("student", ops, edges, share) for ops in students])
    for name in list(keeps)[1:]:
        rival = attempt(f"edges {name}", own.architecture.ops, name, share)
        if beats(rival, own):
            own, edges = rival, name
    for size in sizes(settings):
        margin = MARGIN if size == settings.size_share else LARGER_MARGIN
        if not far_behind(own.right, right(lesson.share, graph), margin):
            break
        rivals = [
            attempt(f"size {size:g}", ops, edges, size, settings.spare)
            for ops in prunable(students, settings)
        ]
        own = winner(
            [own, max(rivals, key=lambda rival: rival.value)]
        )  # none of them is known to be good
    contest.keep(keeps[edges])
    found = taken(base, own, contest.kept, lesson.share)
    return hearing_labels(contest, lesson, found, own) if settings.hear_labels else found


def hearing_labels(contest: Contest, lesson: Lesson, found: Found, own: Attempt) -> Found:
    """The final net trained beside training labels, by teachers that hear them too, where that is
    likelier."""
    graph = contest.graph
    weight = weight_of_labels(own.share.clamp_min(LEAST).log(), graph)
    if weight == 0:
        return found
    again = [
        contest.attempt(
            "teacher beside labels",
            teacher.architecture,
            replace(teacher.settings, label_weight=weight),
            epochs=teacher.settings.retrain_epochs,
        )
        for teacher in lesson.teachers
    ]
    settings, share = (
        replace(found.settings, label_weight=weight),
        agreed([mean_share(again)], graph),
    )
    rival = contest.attempt(
        "student beside labels",
        own.architecture,
        settings,
        epochs=settings.retrain_epochs,
        teacher=share,
        feature_index=found.feature_index,
    )
    return taken(found, rival, contest.kept, share) if likelier(rival, own, graph) else found


def likelier(challenger: Attempt, incumbent: Attempt, graph: Graph) -> bool:
    """Whether validation nodes are likelier by more than chance.

    How many are right swings from training to training: it only must not speak against it by more
    than chance.
    """
    y = graph.y[graph.val_mask]
    now, before = (log_likelihood(own.share[graph.val_mask], y) for own in (challenger, incumbent))
    return gains(now, before) and not beats(incumbent, challenger)


def sizes(settings: Gassip) -> list[float]:
    """What is tried beyond the narrow net: as many weights in a larger one that is pruned to them,
    and more."""
    larger = sorted(step for step in settings.size_steps if step > settings.size_share)
    return [settings.size_share, *larger] if larger and settings.spare > 1 else larger


def prunable(students: list[tuple[str, ...]], settings: Gassip) -> list[tuple[str, ...]]:
    """The architectures that compete there."""
    more = [tuple(text.split("+")) for text in settings.prunable]
    allowed = [ops for ops in more if len(ops) == settings.layers and set(ops) <= set(settings.ops)]
    fixed = settings.spare == 1 or settings.final_ops
    return students if fixed else list(dict.fromkeys([*students, *allowed]))


def far_behind(own: Tensor, teacher: Tensor, margin: float) -> bool:
    """Whether a net gets fewer validation nodes right, bool, than its teacher, by `margin` and by
    more than chance."""
    behind = float(teacher.float().mean() - own.float().mean())
    return behind > margin and beyond_chance(teacher, own)


def taken(base: Found, attempt: Attempt, edge_keep: Tensor, teacher: Tensor) -> Found:
    """The winner as something to retrain."""
    last = {name: value.detach().clone() for name, value in attempt.net.named_parameters()}
    return replace(
        base,
        settings=attempt.settings,
        architecture=attempt.architecture,
        weight_keep=[
            torch.ones_like(layer.weight, dtype=torch.bool) for layer in attempt.net.layers
        ],
        edge_keep=edge_keep,
        first_weights=attempt.first,
        last_weights=last,
        feature_index=attempt.net.feature_index,
        teacher=teacher,
    )


# Size


def num_params(
    graph: Graph, architecture: Architecture, feature_index: Tensor | None = None
) -> int:
    return sum(
        p.numel() for p in net_for(graph, architecture, feature_index=feature_index).parameters()
    )


def pruning_to(weights: int, settings: Gassip) -> Gassip:
    """For a net that loses all but so many weights while it trains: that takes longer, and larger
    steps."""
    return replace(
        settings,
        retrain_weights=weights,
        retrain_epochs=settings.prune_epochs,
        retrain_lr=FASTER * settings.retrain_lr,
        retrain_weight_decay=max(DECAY, settings.retrain_weight_decay),
    )


def widest(
    graph: Graph, ops: tuple[str, ...], settings: Gassip, share: float, feature_index: Tensor | None
) -> Architecture:
    """The widest net of these operations with at most `share` of the weights of a GCN with 64
    hidden units; of one that is pruned biases and the like, which stay, are at most half of what is
    left."""
    most = share * gcn_weights(graph.num_features, graph.num_classes)

    def fits(architecture: Architecture) -> bool:
        staying = besides(
            net_for(graph, architecture, feature_index=feature_index).named_parameters()
        )
        crowded = settings.retrain_weights > 0 and 2 * staying > settings.retrain_weights
        return not crowded and num_params(graph, architecture, feature_index) <= most

    def of(width: int) -> Architecture:
        inner = len(ops) - 1
        heads = (settings.heads if width % settings.heads == 0 else 1,) * inner
        return Architecture(
            ops=ops, hidden=(width,) * inner, heads=heads, batch_norm=settings.batch_norm
        )

    low, high = 1, WIDEST
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(of(middle)) else (low, middle - 1)
    return of(low)


def best_features(weight: Tensor, settings: Gassip, seed: int) -> Tensor | None:
    """The columns of x that the teachers read most (or, as a control, any), [kept]; None for
    all."""
    if settings.feature_share >= 1:
        return None
    if settings.feature_rule == "random":
        weight = torch.rand(weight.shape, generator=torch.Generator().manual_seed(seed)).to(
            weight.device
        )
    return torch.nonzero(
        highest(weight, max(1, round(settings.feature_share * weight.numel())))
    ).squeeze(1)


# Edges


def cuts(
    graph: Graph, settings: Gassip, teacher: Tensor, edge_mask: Tensor, seed: int
) -> dict[str, Tensor]:
    """The cuts that compete, by name: which edges each keeps, [E] bool."""
    kept: dict[str, Tensor] = {}
    for rule in settings.edge_rules:
        value = ranking(rule, graph, teacher, edge_mask, seed)
        for share in settings.edge_shares:
            kept[f"{rule} {share:g}"] = keep_highest(graph, value, share)
    return kept


def ranking(rule: str, graph: Graph, teacher: Tensor, edge_mask: Tensor, seed: int) -> Tensor:
    """What speaks for each edge, [E]."""
    adjacency = graph.adjacency
    if rule == "curriculum":
        return edge_mask
    if rule == "agreement":
        return adjacency.sampled(teacher, teacher)
    if rule == "similarity":
        return cosine(graph.x, adjacency)
    if rule == "random":
        draw = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(seed))
        return draw.to(graph.device)
    inverse = 1 / num_neighbours(graph).clamp_min(1).float()
    hubs = inverse[adjacency.row] + inverse[adjacency.col64]
    return hubs * adjacency.sampled(teacher, teacher) if rule == "support" else hubs
