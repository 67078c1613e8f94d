"""The contest of the preset `best`: which graph, which recipe, which architectures, and what they teach (METHOD.md).

    graph      as given, unless a GCN, which wrong edges harm most, does better without those between the least
               similar nodes
    recipe     the first of RECIPES, unless another validates better for the first architecture
    finalists  F architectures: the portfolio, then those whose paths of the supernet validate best; trained in full
    outsider   GCN ‖ GCN on a graph that also joins nodes with similar features: it errs elsewhere than the others
    t_i        (1 − w) mean of softmax z_i over the best finalists + w that of the outsider; w = ¼, but where edges had
               to go for the graph's sake, ¼, ½ or ¾, whichever makes the validation nodes likeliest

Where many nodes are labelled, finalist k does not see the k-th part of the training labels, and a labelled node's t_i
comes from the one that has not seen its label: else the labels would speak through the teacher where edges are judged.

Validation chooses everywhere, no test label is read here. A few hundred validation nodes cannot tell good nets apart,
so what comes first stays unless another is better by more than chance: McNemar's test on the validation nodes,

    b − c > σ √(b + c),   b nodes that only the challenger gets right, c only the one that stays

with σ = 2, and 1 in the trials of recipes. Of one architecture on several graphs the likelihood tells more: with g_i
the gain in log p(y_i) of a validation node, each net at the temperature that suits it best,

    mean(g) > σ std(g) / √n,   σ = 3

and the score must be higher too: of many validation nodes the least gain in likelihood is beyond chance.

Shapes: N nodes, C classes, D features.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from gassip.graph import Graph
from gassip.lessons import lesson
from gassip.metrics import Metric
from gassip.ops import OPERATIONS, MaskedGraph
from gassip.pairs import keep_highest
from gassip.retrain import predict, seeded, train, validate
from gassip.settings import Gassip
from gassip.similarity import cosine, joined
from gassip.space import Architecture, Net, net_for

Row = dict[str, float | str]
SIGMAS = 2.0  # by how much a challenger has to be better
GRAPH_SIGMAS = 3.0  # between attacks that hurt and those that do not (docs/DESIGN.md)
RECIPE_SIGMAS = 1.0  # the first recipe is not known to be good
HIDE_FROM = 0.1  # share of labelled nodes from which finalists hide some labels
OUTSIDER_WEIGHTS = (0.25, 0.5, 0.75)  # the first where the graph is to be trusted
PLAIN = ("GCNConv",)  # the operation of trials of graphs and of the outsider
RECIPES: dict[str, dict[str, float | bool]] = {
    "strong": {"retrain_dropout": 0.8, "retrain_weight_decay": 5e-4, "batch_norm": False},
    "medium": {"retrain_dropout": 0.5, "retrain_weight_decay": 5e-5, "batch_norm": False},
    "norm": {"retrain_dropout": 0.2, "retrain_weight_decay": 5e-5, "batch_norm": True},
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Attempt:
    """One net trained in the contest, and how it validates."""

    settings: Gassip
    architecture: Architecture
    net: Net
    first: dict[str, Tensor]  # its parameters before training
    value: float  # validation score
    right: Tensor  # which validation nodes it gets right, bool
    share: Tensor  # [N, C] softmax z_i


def beats(challenger: Attempt, incumbent: Attempt, sigmas: float = SIGMAS) -> bool:
    """Whether the challenger validates better by more than chance."""
    return challenger.value > incumbent.value and beyond_chance(challenger.right, incumbent.right, sigmas)


def beyond_chance(challenger: Tensor, incumbent: Tensor, sigmas: float = SIGMAS) -> bool:
    """McNemar's test on what each gets right, bool."""
    gained, lost = int((challenger & ~incumbent).sum()), int((incumbent & ~challenger).sum())
    return gained - lost > sigmas * (gained + lost) ** 0.5


def winner(attempts: Sequence[Attempt], sigmas: float = SIGMAS) -> Attempt:
    """The first, unless a later one beats it."""
    stays = attempts[0]
    for challenger in attempts[1:]:
        stays = challenger if beats(challenger, stays, sigmas) else stays
    return stays


class Contest:
    """Trains nets one after the other, each with its own seed, and tells of each in one row.

    `graph` has the edges of the given one that are marked in `kept` [E].
    """

    def __init__(
        self, graph: Graph, *, seed: int, metric: Metric, tell: Callable[[Row], None], first_epoch: int = 0
    ) -> None:
        self.graph = replace(graph, test_mask=torch.zeros_like(graph.test_mask))  # nothing to look at
        self.kept = torch.ones(graph.num_edges, dtype=torch.bool, device=graph.device)
        self.seed, self.metric, self.tell = seed, metric, tell
        self.number = first_epoch

    def keep(self, keep: Tensor) -> None:
        """Go on with these of the edges only, [edges of `graph`] bool."""
        self.graph = self.graph.keep(keep)
        self.kept[self.kept.clone()] = keep

    def attempt(
        self,
        stage: str,
        architecture: Architecture,
        settings: Gassip,
        *,
        epochs: int,
        graph: Graph | None = None,
        teacher: Tensor | None = None,
        feature_index: Tensor | None = None,
    ) -> Attempt:
        """Train `architecture` by the settings' recipe on `graph`, the contest's own where none is given."""
        began, graph = time.perf_counter(), graph or self.graph
        self.number += 1
        architecture = replace(architecture, batch_norm=settings.batch_norm)
        with seeded(1000 * (self.seed + 1) + self.number, graph.device):
            net = net_for(graph, architecture, settings.retrain_dropout, feature_index)
            first = {name: value.detach().clone() for name, value in net.named_parameters()}
            train(
                net,
                graph,
                epochs=epochs,
                lr=settings.retrain_lr,
                weight_decay=settings.retrain_weight_decay,
                metric=self.metric,
                loss=lesson(settings, teacher),
                keep=settings.keep_epoch,
            )
        score, loss = validate(net, graph, MaskedGraph.of(graph), self.metric)
        row: Row = {"epoch": self.number, "stage": stage, "architecture": str(architecture)}
        row |= {"val_score": score, "val_loss": loss, "seconds": time.perf_counter() - began}
        self.tell(row)
        share = torch.softmax(predict(net, graph), 1)
        return Attempt(
            settings=settings,
            architecture=architecture,
            net=net,
            first=first,
            value=score,
            right=right(share, graph),
            share=share,
        )


def right(share: Tensor, graph: Graph) -> Tensor:
    """Which validation nodes class shares [N, C] get right."""
    return (share.argmax(1) == graph.y)[graph.val_mask]


@dataclass(frozen=True, eq=False, kw_only=True)
class Lesson:
    """What the teachers hand over."""

    settings: Gassip  # with the recipe for a net that is taught
    students: list[Architecture]  # of the best finalists, in the order in which they were candidates
    share: Tensor  # [N, C] t_i
    feature_weight: Tensor  # [D] how much the teachers read of each feature


def teach(contest: Contest, candidates: Sequence[Architecture], settings: Gassip) -> Lesson:
    """Graph, recipe, finalists, teachers; `candidates` come in the order of what is known of them before."""
    plain = replace(candidates[0], ops=PLAIN * len(candidates[0].ops))
    clean(contest, plain, settings)
    chosen = best_recipe(contest, candidates[0], settings)
    parts = hidden_parts(contest.graph, len(candidates), contest.seed)
    finalists = []
    for architecture, hidden in zip(candidates, parts, strict=True):
        seen = replace(contest.graph, train_mask=contest.graph.train_mask & ~hidden)
        own = gentler(chosen, architecture)
        finalists.append(contest.attempt("finalist", architecture, own, epochs=settings.retrain_epochs, graph=seen))
    ranked = sorted(finalists, key=lambda own: -own.value)  # stable: of equals the earlier
    teachers, share = with_outsider(contest, ranked[: settings.teachers], plain, chosen)
    return Lesson(
        settings=milder(chosen),
        students=[own.architecture for own in finalists if own in ranked[: settings.students]],
        share=unseen(share, finalists, parts),
        feature_weight=torch.stack([own.net.layers[0].weight.detach().norm(dim=1) for own in teachers]).mean(0),
    )


def with_outsider(
    contest: Contest, teachers: list[Attempt], architecture: Architecture, settings: Gassip
) -> tuple[list[Attempt], Tensor]:
    """The teachers and what they say, [N, C]: an outsider of some weight takes the last one's place, or none does."""
    alone = torch.stack([own.share for own in teachers]).mean(0)
    if settings.similar == 0 or len(teachers) < 2:
        return teachers, alone
    wider = joined(contest.graph, settings.similar)
    outsider = contest.attempt("similar nodes", architecture, settings, epochs=settings.retrain_epochs, graph=wider)
    few = torch.stack([own.share for own in teachers[:-1]]).mean(0)
    weights = OUTSIDER_WEIGHTS[:1] if contest.kept.all() else OUTSIDER_WEIGHTS
    opinions = [(1 - weight) * few + weight * outsider.share for weight in weights]
    best = max(opinions, key=lambda share: float(log_likelihood(share, contest.graph).mean()))
    if gains(log_likelihood(alone, contest.graph), log_likelihood(best, contest.graph)):
        return teachers, alone
    return [*teachers[:-1], outsider], best


def clean(contest: Contest, architecture: Architecture, settings: Gassip) -> None:
    """Leave out edges between the least similar nodes, where this architecture is likelier and more often right."""
    if not settings.clean_shares or contest.graph.num_edges == 0:
        return
    value = cosine(contest.graph.x, contest.graph.adjacency)

    def attempt(share: float, graph: Graph) -> Attempt:
        stage = f"graph with {share:g} of the edges"
        return contest.attempt(stage, architecture, settings, epochs=settings.trial_epochs, graph=graph)

    stays, before = torch.ones_like(value, dtype=torch.bool), attempt(1.0, contest.graph)
    for share in sorted(settings.clean_shares, reverse=True):
        keep = keep_highest(contest.graph, value, share)
        after = attempt(share, contest.graph.keep(keep))
        likelier = gains(log_likelihood(after.share, contest.graph), log_likelihood(before.share, contest.graph))
        if likelier and after.value > before.value:
            stays, before = keep, after
    contest.keep(stays)


def log_likelihood(share: Tensor, graph: Graph) -> Tensor:
    """log p(y_i) of the validation nodes, with p_i ∝ share_i^t and the t that makes their mean highest."""
    log_share, y = share.clamp_min(1e-9).log()[graph.val_mask], graph.y[graph.val_mask]

    def at(power: float) -> Tensor:
        return torch.log_softmax(power * log_share, 1).gather(1, y[:, None]).squeeze(1)

    return at(minimize_scalar(lambda power: -float(at(power).mean()), bounds=(0.05, 20), method="bounded").x)


def gains(challenger: Tensor, incumbent: Tensor, sigmas: float = GRAPH_SIGMAS) -> bool:
    """Whether log-likelihoods of the same nodes are higher by more than chance."""
    gain = challenger - incumbent
    return gain.numel() > 1 and bool(gain.mean() > sigmas * gain.std() / gain.numel() ** 0.5)


def best_recipe(contest: Contest, architecture: Architecture, settings: Gassip) -> Gassip:
    """The settings with the recipe that validates best for this architecture."""
    if settings.recipe == "given":
        return settings
    tried = [
        contest.attempt(f"recipe {name}", architecture, with_recipe(settings, name), epochs=settings.trial_epochs)
        for name in RECIPES
    ]
    return winner(tried, RECIPE_SIGMAS).settings


def milder(settings: Gassip) -> Gassip:
    """For a net that is taught: with something to learn from every node, it needs no strong hand."""
    strong = all(getattr(settings, name) == value for name, value in RECIPES["strong"].items())
    return with_recipe(settings, "medium") if strong and settings.recipe == "auto" else settings


def gentler(settings: Gassip, architecture: Architecture) -> Gassip:
    """For a net that drops whole nodes: at most half of the entries besides."""
    drops = any(OPERATIONS[op].node_dropout for op in architecture.ops)
    return replace(settings, retrain_dropout=min(settings.retrain_dropout, 0.5)) if drops else settings


def with_recipe(settings: Gassip, name: str) -> Gassip:
    return replace(settings, **RECIPES[name])  # type: ignore[arg-type]


def unseen(share: Tensor, finalists: Sequence[Attempt], parts: Sequence[Tensor]) -> Tensor:
    """t [N, C]: what the teachers say; of a node with a hidden label, what the finalist says that has not seen it."""
    share = share.clone()
    for own, hidden in zip(finalists, parts, strict=True):
        share[hidden] = own.share[hidden]
    return share


def hidden_parts(graph: Graph, count: int, seed: int) -> list[Tensor]:
    """For each of `count` nets the training nodes [N] whose labels it does not see; none where labels are few."""
    nodes = torch.nonzero(graph.train_mask).squeeze(1)
    none = torch.zeros_like(graph.train_mask)
    if count < 2 or nodes.numel() < HIDE_FROM * graph.num_nodes:
        return [none] * count
    order = torch.randperm(nodes.numel(), generator=torch.Generator().manual_seed(seed)).to(nodes.device)
    parts = [none.clone() for _ in range(count)]
    for k, part in enumerate(parts):
        part[nodes[order[k::count]]] = True
    return parts
