"""The contest of the preset `best`: which graph, which recipe, which architectures, and what they
teach (METHOD.md).

    graph      as given, unless logistic regression on its leading directions (spectral.py) does
               better with the
               reverse of every edge, or without the edges between the least similar nodes; where it
               does better without any edge, architectures that do not mix a node with its
               neighbours come first, the best finalist teaches alone, and no feature goes
    recipe     the first of RECIPES, unless another validates better for the first architecture
    finalists  F architectures: the portfolio, then those whose paths of the supernet validate best;
               trained in full
    outsider   GCN ‖ GCN on a graph that also joins nodes with similar features: it errs elsewhere
               than the others
    t_i        the mean of three opinions, each at its likeliest power: the mean of softmax z_i over
               the best finalists,
               the outsider, the regression; then levelled (calibration.py)

Where many nodes are labelled, finalist k does not see the k-th part of the training labels, and a
labelled node's t_i comes from the one that has not seen its label: else the labels would speak
through the teacher where edges are judged.

Validation chooses everywhere, no test label is read here. A few hundred validation nodes cannot
tell good nets apart, so what comes first stays unless another is better by more than chance:
McNemar's test on the validation nodes,

    b − c > σ √(b + c),   b nodes that only the challenger gets right, c only the one that stays

with σ = 2, and 1 in the trials of recipes unless `norm` comes first. Of graphs, and of other
weights for the three opinions, the likelihood tells more: with g_i the gain in log p(y_i) of a
validation node,

    mean(g) > σ std(g) / √n,   σ = 3

and of graphs the score must be higher too: of many validation nodes the least gain in likelihood is
beyond chance.

Shapes: N nodes, C classes, D features.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Protocol

import torch
from torch import Tensor

from gassip.best.calibration import gains, levelled, likeliest_power, log_likelihood, powered
from gassip.best.spectral import spectral_share
from gassip.graph.graph import Graph
from gassip.graph.similarity import cosine, joined
from gassip.graph.undirected import keep_highest
from gassip.metrics import Metric, score
from gassip.nn.net import Architecture, Net, net_for
from gassip.operations import OPERATIONS
from gassip.settings import Gassip
from gassip.train.gradual_pruning import Pruning
from gassip.train.losses import lesson
from gassip.train.trainer import hearing, judged, predict, seeded, train

Row = dict[str, float | str]
SIGMAS = 2.0  # by how much a challenger has to be better
RECIPE_SIGMAS = {
    "strong": 1.0,
    "medium": 1.0,
    "norm": 2.0,
}  # by the first; of these only the last is known to be good
HIDE_FROM = 0.1  # share of labelled nodes from which finalists hide some labels
PARTS = 4  # weights of opinions are multiples of 1 / PARTS
PLAIN = ("GCNConv",)  # the operation of the outsider
RECIPES: dict[str, dict[str, float | bool]] = {
    "strong": {"retrain_dropout": 0.8, "retrain_weight_decay": 5e-4, "batch_norm": False},
    "medium": {"retrain_dropout": 0.5, "retrain_weight_decay": 5e-5, "batch_norm": False},
    "norm": {"retrain_dropout": 0.2, "retrain_weight_decay": 5e-5, "batch_norm": True},
}
MILDER = {
    "strong": RECIPES["medium"],
    "norm": RECIPES["norm"] | {"retrain_dropout": 0.0},
}  # for nets that are taught


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
    return challenger.value > incumbent.value and beyond_chance(
        challenger.right, incumbent.right, sigmas
    )


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


class Memory(Protocol):
    """Where a contest keeps the nets that it has trained, so that a killed one need not train them
    again."""

    def recall(self, number: int) -> "tuple[dict[str, Tensor], float] | None":
        """The weights of the net of this number, and the seconds it took; None where it is yet to
        be trained."""

    def remember(self, number: int, weights: dict[str, Tensor], seconds: float) -> None: ...


class Contest:
    """Trains nets one after the other, each with its own seed, and tells of each in one row.

    `graph` has the edges of the given one that are marked in `kept` [E].
    """

    def __init__(
        self,
        graph: Graph,
        *,
        seed: int,
        metric: Metric,
        tell: Callable[[Row], None],
        first_epoch: int = 0,
        memory: Memory | None = None,
    ) -> None:
        self.graph = replace(
            graph, test_mask=torch.zeros_like(graph.test_mask)
        )  # nothing to look at
        self.kept = torch.ones(graph.num_edges, dtype=torch.bool, device=graph.device)
        self.seed, self.metric, self.tell = seed, metric, tell
        self.number, self.memory = first_epoch, memory

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
        """Train `architecture` by the settings' recipe on `graph`, the contest's own where none is
        given."""
        began, graph = time.perf_counter(), graph or self.graph
        self.number += 1
        architecture = replace(architecture, batch_norm=settings.batch_norm)
        with seeded(1000 * (self.seed + 1) + self.number, graph.device):
            net = hearing(
                net_for(graph, architecture, settings.retrain_dropout, feature_index),
                graph,
                settings,
            )
            first = {name: value.detach().clone() for name, value in net.named_parameters()}
            known = None if self.memory is None else self.memory.recall(self.number)
            if known is not None:
                net.restore(known[0])
                net.heard = None
            else:
                train(
                    net,
                    graph,
                    epochs=epochs,
                    lr=settings.retrain_lr,
                    weight_decay=settings.retrain_weight_decay,
                    metric=self.metric,
                    loss=lesson(settings, teacher),
                    keep=settings.keep_epoch,
                    pruning=Pruning.of(settings),
                )
        scores = predict(net, graph)
        score, loss = judged(scores, graph, self.metric)
        seconds = time.perf_counter() - began if known is None else known[1]
        if known is None and self.memory is not None:
            self.memory.remember(self.number, net.state_dict(), seconds)
        row: Row = {"epoch": self.number, "stage": stage, "architecture": str(architecture)}
        row |= {"val_score": score, "val_loss": loss, "seconds": seconds}
        self.tell(row)
        share = torch.softmax(scores, 1)
        return Attempt(
            settings=settings,
            architecture=architecture,
            net=net,
            first=first,
            value=score,
            right=right(share, graph),
            share=share,
        )

    def regress(self, stage: str, graph: Graph) -> "Regression":
        """Logistic regression on the leading directions of `graph`."""
        began = time.perf_counter()
        self.number += 1
        own = Regression.on(graph, self.metric)
        row: Row = {
            "epoch": self.number,
            "stage": stage,
            "architecture": "directions",
            "val_score": own.value,
        }
        self.tell(
            row | {"val_loss": -float(own.gain.mean()), "seconds": time.perf_counter() - began}
        )
        return own


@dataclass(frozen=True, eq=False, kw_only=True)
class Regression:
    """What logistic regression on the leading directions says of a graph, and how it validates."""

    share: Tensor  # [N, C]
    value: float  # validation score
    gain: Tensor  # log p(y_i) of the validation nodes

    @staticmethod
    def on(graph: Graph, metric: Metric) -> "Regression":
        share, y = spectral_share(graph), graph.y[graph.val_mask]
        own = share[graph.val_mask]
        gain = log_likelihood(own, y)
        value = score(metric, own.clamp_min(1e-30).log(), y)
        return Regression(
            share=share, value=float(gain.mean()) if value is None else value, gain=gain
        )

    def beats(self, other: "Regression") -> bool:
        """Whether validation nodes are likelier by more than chance, and the score is higher."""
        return self.value > other.value and gains(self.gain, other.gain)


def right(share: Tensor, graph: Graph) -> Tensor:
    """Which validation nodes class shares [N, C] get right."""
    return (share.argmax(1) == graph.y)[graph.val_mask]


@dataclass(frozen=True, eq=False, kw_only=True)
class Lesson:
    """What the teachers hand over."""

    settings: Gassip  # with the recipe for a net that is taught
    students: list[
        Architecture
    ]  # of the best finalists, in the order in which they were candidates
    share: Tensor  # [N, C] t_i
    teachers: list[Attempt]  # the finalists, or wider nets, that it comes from
    feature_weight: Tensor  # [D] how much the teachers read of each feature


def teach(contest: Contest, candidates: Sequence[Architecture], settings: Gassip) -> Lesson:
    """Graph, recipe, finalists, teachers; `candidates` come in the order of what is known of them
    before."""
    judge = clean(contest, settings)
    if misleads(contest, judge):
        candidates = sorted(candidates, key=smoothing)
        settings = replace(settings, teachers=1, similar=0, spectral=False, feature_share=1.0)
    chosen = best_recipe(contest, candidates[0], settings)
    parts = hidden_parts(contest.graph, len(candidates), contest.seed)
    finalists = []
    for architecture, hidden in zip(candidates, parts, strict=True):
        seen = replace(contest.graph, train_mask=contest.graph.train_mask & ~hidden)
        own = gentler(chosen, architecture)
        finalists.append(
            contest.attempt(
                "finalist", architecture, own, epochs=settings.retrain_epochs, graph=seen
            )
        )
    ranked = sorted(finalists, key=lambda own: -own.value)  # stable: of equals the earlier
    best = trusted(wider(contest, ranked[: settings.teachers], settings), contest.graph)
    opinions, teachers = [mean_share(best)], list(best)
    if settings.similar > 0:
        outsider = replace(candidates[0], ops=PLAIN * len(candidates[0].ops))
        alike = joined(contest.graph, settings.similar)
        best.append(
            contest.attempt(
                "similar nodes", outsider, chosen, epochs=settings.retrain_epochs, graph=alike
            )
        )
        opinions.append(best[-1].share)
    if settings.spectral:
        opinions.append(judge.share)
    return Lesson(
        settings=milder(chosen),
        students=[own.architecture for own in finalists if own in ranked[: settings.students]],
        share=unseen(agreed(opinions, contest.graph), finalists, parts),
        teachers=teachers,
        feature_weight=torch.stack(
            [own.net.layers[0].weight.detach().norm(dim=1) for own in best]
        ).mean(0),
    )


def wider(contest: Contest, ranked: Sequence[Attempt], settings: Gassip) -> list[Attempt]:
    """The same architectures trained anew with `teacher_hidden` units on all labels, the best on
    validation first."""
    if settings.teacher_hidden == 0:
        return list(ranked)
    again = []
    for own in ranked:
        wide = replace(
            own.architecture, hidden=(settings.teacher_hidden,) * len(own.architecture.hidden)
        )
        again.append(contest.attempt("teacher", wide, own.settings, epochs=settings.retrain_epochs))
    return sorted(again, key=lambda own: -own.value)


def trusted(ranked: Sequence[Attempt], graph: Graph) -> list[Attempt]:
    """All of them, or the first few whose mean makes the validation nodes likelier by more than
    chance."""
    best, y = list(ranked), graph.y[graph.val_mask]
    likely = log_likelihood(mean_share(best)[graph.val_mask], y)
    for count in range(len(ranked) - 1, 0, -1):
        fewer = log_likelihood(mean_share(ranked[:count])[graph.val_mask], y)
        if gains(fewer, likely):
            best, likely = list(ranked[:count]), fewer
    return best


def mean_share(attempts: Sequence[Attempt]) -> Tensor:
    """[N, C]."""
    return torch.stack([own.share for own in attempts]).mean(0)


def agreed(opinions: Sequence[Tensor], graph: Graph) -> Tensor:
    """t [N, C]: the mean of opinions [N, C], or the weighted one under which the validation nodes
    are likelier by more than chance; levelled."""
    nodes = torch.nonzero(graph.val_mask).squeeze(1)
    y = graph.y[nodes]
    calm = torch.stack(
        [powered(share, likeliest_power(share[nodes], y)) for share in opinions]
    )  # [opinions, N, C]
    heard = calm[:, nodes, y]  # p(y_i), [opinions, validation nodes]
    weights = [w for w in product(range(PARTS, -1, -1), repeat=len(opinions)) if sum(w) == PARTS]
    table = torch.tensor(weights, dtype=calm.dtype, device=calm.device) / PARTS
    likely = (table @ heard).clamp_min(1e-30).log()  # [weights, validation nodes]
    best = int(likely.mean(1).argmax())
    even = torch.full_like(table[best], 1 / len(opinions))
    taken = table[best] if gains(likely[best], (even @ heard).clamp_min(1e-30).log()) else even
    return levelled(torch.einsum("k,knc->nc", taken, calm), nodes, y)


def facing(graph: Graph, settings: Gassip, metric: Metric) -> Gassip:
    """The settings with `direction` decided: both ways where the regression does better so."""
    if settings.direction != "auto":
        return settings
    one_way = graph.both_ways is not graph
    both = one_way and Regression.on(graph.both_ways, metric).beats(Regression.on(graph, metric))
    return replace(settings, direction="both" if both else "given")


def clean(contest: Contest, settings: Gassip) -> Regression:
    """Leave out edges between the least similar nodes where that helps; what the regression says
    then."""
    stays = contest.regress("graph with all edges", contest.graph)
    if not settings.clean_shares or contest.graph.num_edges == 0:
        return stays
    value = cosine(contest.graph.x, contest.graph.adjacency)
    kept = torch.ones_like(value, dtype=torch.bool)
    for share in sorted(settings.clean_shares, reverse=True):
        keep = keep_highest(contest.graph, value, share)
        rival = contest.regress(f"graph with {share:g} of the edges", contest.graph.keep(keep))
        if rival.beats(stays):
            stays, kept = rival, keep
    contest.keep(kept)
    return stays


def misleads(contest: Contest, judge: Regression) -> bool:
    """Whether the regression does better without any edge: neighbours are unlike, and a net that
    smooths errs."""
    none = torch.zeros(contest.graph.num_edges, dtype=torch.bool, device=contest.graph.device)
    return bool(none.numel()) and Regression.on(contest.graph.keep(none), contest.metric).beats(
        judge
    )


def smoothing(architecture: Architecture) -> tuple[bool, int]:
    """Whether any operation mixes a node with its neighbours, and how many read edges at all."""
    operations = [OPERATIONS[op] for op in architecture.ops]
    mixes = any(not own.own_weights for own in operations)
    return mixes, sum(own.norm is not None for own in operations)


def best_recipe(contest: Contest, architecture: Architecture, settings: Gassip) -> Gassip:
    """The settings with the recipe that validates best for this architecture."""
    if settings.recipe == "given":
        return settings
    tried = [
        contest.attempt(
            f"recipe {name}",
            architecture,
            with_recipe(settings, name),
            epochs=settings.trial_epochs,
        )
        for name in settings.recipes
    ]
    return winner(tried, RECIPE_SIGMAS[settings.recipes[0]]).settings


def milder(settings: Gassip) -> Gassip:
    """For a net that is taught: with something to learn from every node, it needs no strong
    hand."""
    for name, mild in MILDER.items() if settings.recipe == "auto" else ():
        if settings == with_recipe(settings, name):
            return replace(settings, **mild)  # type: ignore[arg-type]
    return settings


def gentler(settings: Gassip, architecture: Architecture) -> Gassip:
    """For a net that drops whole nodes: at most half of the entries besides."""
    drops = any(OPERATIONS[op].node_dropout for op in architecture.ops)
    return (
        replace(settings, retrain_dropout=min(settings.retrain_dropout, 0.5)) if drops else settings
    )


def with_recipe(settings: Gassip, name: str) -> Gassip:
    return replace(settings, **RECIPES[name])  # type: ignore[arg-type]


def unseen(share: Tensor, finalists: Sequence[Attempt], parts: Sequence[Tensor]) -> Tensor:
    """t [N, C]: what the teachers say; of a node with a hidden label, what the finalist says that
    has not seen it."""
    share = share.clone()
    for own, hidden in zip(finalists, parts, strict=True):
        share[hidden] = own.share[hidden]
    return share


def hidden_parts(graph: Graph, count: int, seed: int) -> list[Tensor]:
    """For each of `count` nets the training nodes [N] whose labels it does not see; none where
    labels are few."""
    nodes = torch.nonzero(graph.train_mask).squeeze(1)
    none = torch.zeros_like(graph.train_mask)
    if count < 2 or nodes.numel() < HIDE_FROM * graph.num_nodes:
        return [none] * count
    order = torch.randperm(nodes.numel(), generator=torch.Generator().manual_seed(seed)).to(
        nodes.device
    )
    parts = [none.clone() for _ in range(count)]
    for k, part in enumerate(parts):
        part[nodes[order[k::count]]] = True
    return parts
