"""The student: the final net, as small as asked, trained on the teacher's soft labels.

    width      the largest with at most `size_share` of a GCN-64's weights
    features   a share `feature_share`, those with the largest rows ‖W_i‖ of layer 1 in teachers,
               or all if a student that reads all is as wide as a candidate

Architecture, edges and pruning are chosen by training the net that would result and validating it.
Architectures compete by short trainings, after which the one taken is trained in full. The one that
comes first, that of the best candidate, stays unless another is better beyond chance. For a cut of
edges that net is trained on for a while. As many edges go as validation and teacher allow: shares
are tried in turn, until one is worse, or the teacher expects fewer nodes to be right:

    expected score    mean over nodes without a label of t_ic, c = argmax of the student

Shapes: N nodes, E directed edges, D features, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gassip.best.calibration import log_likelihood
from gassip.best.decisions import Decided, among, numbered
from gassip.best.edge_ranking import Known, kept_edges
from gassip.best.ensemble import Teacher
from gassip.best.recipe import suited
from gassip.best.rules import (
    CUT_EPOCHS,
    CUT_RATE,
    EXPECTED_LOSS,
    LEVEL_SIGMAS,
    POSSIBLE_LOSS,
    SCORE_SIGMAS,
    WIDEST,
)
from gassip.best.significance import gain, likelihood_gain, possible_loss
from gassip.best.tasks import Asked
from gassip.best.trials import Request, Trial, Trials, winner
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, Net
from gassip.nn.ranking import highest
from gassip.operations import gcn_weights
from gassip.settings import Settings
from gassip.settings.best import EdgeCut, Student
from gassip.settings.training import Recipe
from gassip.train.gradual_pruning import besides

ALL_EDGES, FULL = "all edges", "student in full"
SPARSEST = (
    "gain in the validation score over what came first, in standard errors; the sparsest cut that "
    "is not worse is taken"
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Classroom:
    """What every student has in common."""

    trials: Trials
    graph: Graph
    teacher: Teacher
    recipe: Recipe
    trial_epochs: int  # of a student while others compete with it
    heads: int
    known: Known  # what rankings of edges read
    features: Tensor | None  # [kept] columns of x that a student reads; None: all
    cuts: dict[str, Tensor]  # by name, which edges of `graph` are kept, [E] bool
    graphs: dict[str, Graph]  # the same as graphs

    @property
    def brief(self) -> Recipe:
        """The recipe of nets that compete; the one taken is trained in full."""
        return replace(self.recipe, epochs=min(self.trial_epochs, self.recipe.epochs))

    def cut(self, ranking: str, share: float) -> str:
        """The name of the graph with this share of its edges."""
        name = ALL_EDGES if share >= 1 else f"{ranking} {share:g}"
        if name not in self.cuts:
            self.cuts[name] = kept_edges(self.known, ranking, share)
            self.graphs[name] = self.graph.keep(self.cuts[name])
        return name

    def request(
        self, ops: tuple[str, ...], cut: str, share: float, recipe: Recipe, *, what: str = ""
    ) -> Request:
        """The widest net of these operations within `share`, taught on the graph so cut."""
        recipe = suited(recipe, shaped(ops, 1, 1, recipe), self.graph)
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
    size = settings.best.student.size_share
    narrow = width_within(graph, recipe, size) < settings.search.hidden
    return Classroom(
        trials=trials,
        graph=graph,
        teacher=teacher,
        recipe=recipe,
        trial_epochs=settings.best.recipe.trial_epochs,
        heads=settings.search.heads,
        known=Known(graph, teacher.probs, edge_mask, trials.seed),
        features=best_features(teacher.feature_weight, settings.best.student, trials.seed)
        if narrow
        else None,
        cuts={},
        graphs={},
    )


def choose_student(
    room: Classroom, architectures: list[tuple[str, ...]], share: float, edges: EdgeCut
) -> Decided[Chosen]:
    """The first architecture, unless a later one validates better."""
    cut = room.cut(edges.edge_rankings[0], first_share(edges))
    compete = len(architectures) * len(edges.edge_shares) * len(edges.edge_rankings) > 1
    recipe = room.brief if compete else room.recipe
    requests = [room.request(ops, cut, share, recipe) for ops in architectures]
    first = [(FULL, room.request(architectures[0], cut, share, room.recipe))] if compete else []
    tried = room.trials.train_all("student", requests, first)
    best = winner(tried)
    return Decided(Chosen(best, cut), among("student", numbered(tried), best))


def first_share(edges: EdgeCut) -> float:
    """Of several shares the student is first trained on all edges; a single one is as asked."""
    return edges.edge_shares[0] if len(edges.edge_shares) == 1 else 1.0


def choose_edges(
    room: Classroom, chosen: Chosen, share: float, edges: EdgeCut, *, behind: bool = False
) -> Decided[Chosen]:
    """The sparsest cut that is not worse than the best so far, nor expected to be; shares are tried
    in turn until one is. Rankings compete at the first; a random cut of the size taken is a
    control. Of a student that is far behind its teacher the first cut alone is tried: another net
    will take its place, and what is level for a weak net need not be so for that one."""
    rankings, name = list(edges.edge_rankings), chosen.cut
    if len(edges.edge_shares) == len(rankings) == 1:
        return Decided(chosen, among("edge cut", {name: chosen.trial}, chosen.trial))
    tried: dict[str, Trial] = {}
    start = chosen.trial.net.state_dict()
    parts = sorted((own for own in edges.edge_shares if own < 1), reverse=True)
    parts = parts[:1] if behind else parts

    def on(cuts: Sequence[str]) -> list[Request]:
        return [continued(room, chosen, start, cut, share) for cut in cuts]

    def train(cuts: Sequence[str], expected: Sequence[Asked] = ()) -> None:
        new = [cut for cut in dict.fromkeys(cuts) if cut not in tried]
        found = room.trials.train_all("edges", on(new), expected)
        tried.update(zip(new, found, strict=True))

    first = [room.cut(ranking, part) for part in parts[:1] for ranking in rankings]
    further = [room.cut(rankings[0], part) for part in parts[1:] if not room.trials.alone]
    train([chosen.cut, *first], [("edges", own) for own in on(further)])
    reference = tried[chosen.cut]
    for part in parts:
        cuts = [room.cut(ranking, part) for ranking in rankings]
        train(cuts)
        best = winner([tried[cut] for cut in cuts])
        at = next(k for k, cut in enumerate(cuts) if tried[cut] is best)
        rankings = [rankings[at]]
        if len(edges.edge_shares) > 1 and is_worse(best, reference, list(tried.values()), room):
            break
        name, sparsest = cuts[at], part
    if name != ALL_EDGES and len(edges.edge_shares) > 1 and rankings != ["random"]:
        whole = room.request(chosen.trial.architecture.ops, name, share, room.recipe)
        train([room.cut("random", sparsest)], [(FULL, whole)])
    decision = among("edge cut", tried, tried[name])
    decision = replace(decision, statistic=SPARSEST, threshold=-LEVEL_SIGMAS)
    trial = chosen.trial if name == chosen.cut else tried[name]
    return Decided(Chosen(trial, name), decision)


def continued(
    room: Classroom, chosen: Chosen, start: dict[str, Tensor], cut: str, share: float
) -> Request:
    """The student trained on for a while on another cut: from the start, a short training tells
    more of how fast a net learns there than of how good it will be."""
    request = room.request(chosen.trial.architecture.ops, cut, share, room.recipe, what=cut)
    whole = request.recipe
    epochs, rate = max(1, round(CUT_EPOCHS * whole.epochs)), CUT_RATE * whole.lr
    return replace(request, recipe=replace(whole, epochs=epochs, lr=rate), start=start)


def in_full(room: Classroom, chosen: Chosen, share: float) -> Chosen:
    """What was chosen, trained in full; not again if it was."""
    request = room.request(chosen.trial.architecture.ops, chosen.cut, share, room.recipe)
    return Chosen(room.trials.train_all(FULL, [request])[0], chosen.cut)


def settle_cut(
    room: Classroom, whole: Chosen, chosen: Chosen, share: float, edges: EdgeCut
) -> Decided[Chosen]:
    """The cut taken, if its student trained in full is not worse than `whole`, the one of all
    edges; or else the sparsest denser cut of which that holds. Where nothing was chosen, the
    student in full."""
    if len(edges.edge_shares) == 1 or chosen.cut == whole.cut:
        student = in_full(room, chosen, share)
        alone = {student.cut: student.trial}
        return Decided(student, among("edge cut in full", alone, student.trial))
    ranking, part = chosen.cut.rsplit(" ", 1)
    tried, taken = {whole.cut: whole.trial}, whole
    for denser in sorted(own for own in edges.edge_shares if float(part) <= own < 1):
        student = in_full(room, Chosen(chosen.trial, room.cut(ranking, denser)), share)
        tried[student.cut] = student.trial
        if not is_worse(student.trial, whole.trial, list(tried.values()), room):
            taken = student
            break
    decision = among("edge cut in full", tried, taken.trial)
    return Decided(taken, replace(decision, statistic=SPARSEST, threshold=-LEVEL_SIGMAS))


def is_worse(trial: Trial, reference: Trial, tried: Sequence[Trial], room: Classroom) -> bool:
    """Whether a cut is worse than the best so far, or the teacher expects too much less of it."""
    highest = max(tried, key=lambda own: own.value)
    lost = expected_score(reference, room) - expected_score(trial, room)
    return worse(trial, highest, room.graph) or lost > EXPECTED_LOSS


def expected_score(trial: Trial, room: Classroom) -> float:
    """The share of nodes without a label that a net has right, as the teacher expects: thousands
    of nodes, where validation has a few hundred."""
    unlabelled = ~room.graph.train_mask
    right = room.teacher.probs.gather(1, trial.probs.argmax(1, keepdim=True))
    return float(right[unlabelled].mean())


def worse(challenger: Trial, reference: Trial, graph: Graph) -> bool:
    """Whether a lighter net is worse: by its score, beyond chance by its likelihood, or by a loss
    that too few validation nodes cannot rule out."""
    if possible_loss(challenger.validation, reference.validation) > POSSIBLE_LOSS:
        return True
    if gain(challenger.validation, reference.validation) < -LEVEL_SIGMAS:
        return True
    val, y = graph.val_mask, graph.y[graph.val_mask]
    after, before = (log_likelihood(own.probs[val], y) for own in (challenger, reference))
    return likelihood_gain(after, before) < -SCORE_SIGMAS


def student_architectures(
    settings: Student, ranked: list[tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """The architectures that compete: the given one, or the best candidates."""
    return [tuple(settings.final_ops.split("+"))] if settings.final_ops else ranked


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


def width_within(graph: Graph, recipe: Recipe, share: float) -> int:
    """Hidden units of a GCN that reads all features within `share`."""
    return widest(graph, ("GCNConv", "GCNConv"), recipe, 1, share, None).hidden[0]


def shaped(ops: tuple[str, ...], width: int, heads: int, recipe: Recipe) -> Architecture:
    inner = len(ops) - 1
    heads = heads if width % heads == 0 else 1
    return Architecture(
        ops=ops,
        hidden=(width,) * inner,
        heads=(heads,) * inner,
        batch_norm=recipe.batch_norm,
        layer_norm=recipe.layer_norm,
        standardised=recipe.standardised,
    )


def fits(
    graph: Graph, architecture: Architecture, recipe: Recipe, most: float, features: Tensor | None
) -> bool:
    """At most `most` weights; of a net that is pruned, biases and norms, which stay, are at most
    half of what is left."""
    net = Net(graph.num_features, graph.num_classes, architecture, feature_index=features)
    crowded = recipe.prune_to > 0 and 2 * besides(net.named_parameters()) > recipe.prune_to
    return not crowded and sum(p.numel() for p in net.parameters()) <= most
