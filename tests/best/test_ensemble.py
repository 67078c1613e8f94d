from dataclasses import replace

import pytest
import torch

from gassip.best.calibration import gains, levelled, likeliest_power, powered
from gassip.best.spectral import spectral_share
from gassip.best.teacher import (
    RECIPES,
    Attempt,
    Contest,
    Regression,
    Row,
    agreed,
    beats,
    best_recipe,
    clean,
    facing,
    gentler,
    hidden_parts,
    milder,
    misleads,
    smoothing,
    teach,
    trusted,
    unseen,
    winner,
    with_recipe,
)
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture
from gassip.settings import Gassip
from tests.conftest import random_graph

SHAPES = [
    Architecture(ops=ops, hidden=(6,)) for ops in (("GCNConv", "GCNConv"), ("Linear", "APPNP5"))
]
QUICK = Gassip(
    teachers=2,
    finalists=2,
    students=1,
    trial_epochs=2,
    retrain_epochs=3,
    recipe="auto",
    consistency=1.0,
)


def contest(seed: int = 0, rows: list[Row] | None = None) -> Contest:
    return Contest(
        random_graph(1, nodes=30),
        seed=seed,
        metric="accuracy",
        tell=(rows if rows is not None else []).append,
    )


def judged(right: list[int], value: float | None = None) -> Attempt:
    """An attempt that gets these validation nodes right."""
    attempt = contest().attempt("", SHAPES[0], Gassip(), epochs=1)
    marks = torch.tensor(right, dtype=torch.bool)
    return replace(
        attempt, right=marks, value=float(marks.float().mean()) if value is None else value
    )


def test_a_challenger_must_be_better_by_more_than_chance() -> None:
    stays = judged([1] * 6 + [0] * 14)
    # 8 more right and 0 fewer: 8 > σ √8 up to σ = 2.83; 8 more and 4 fewer: 4 > σ √12 up to 1.15
    better, luckier = judged([1] * 14 + [0] * 6), judged([0] * 4 + [1] * 10 + [0] * 6)
    assert beats(better, stays, 2.8) and not beats(better, stays, 2.9)
    assert beats(luckier, stays, 1.0) and not beats(luckier, stays, 1.2)
    assert not beats(stays, stays, 0.0)


def test_what_validation_scores_lower_never_wins() -> None:
    assert not beats(judged([1] * 20, value=0.1), judged([0] * 20, value=0.2), 1.0)


def test_of_nets_that_cannot_be_told_apart_the_first_stays() -> None:
    first, second, far = (
        judged([1, 0, 0, 0] * 5),
        judged([0, 1, 0, 0] * 5),
        judged([1, 1, 1, 1] * 5),
    )
    assert winner([first, second]) is first
    assert winner([second, first]) is second
    assert winner([first, second, far]) is far


def test_hidden_parts_are_a_partition_of_the_training_nodes() -> None:
    graph = random_graph(1, nodes=30)
    parts = hidden_parts(graph, 3, seed=5)
    assert torch.equal(torch.stack(parts).sum(0), graph.train_mask.long())
    sizes = [int(part.sum()) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert all(
        torch.equal(*pair) for pair in zip(parts, hidden_parts(graph, 3, seed=5), strict=True)
    )


def test_where_labels_are_few_none_is_hidden() -> None:
    graph = random_graph(1, nodes=60)
    few = torch.zeros_like(graph.train_mask)
    few[:5] = True
    assert not torch.stack(hidden_parts(replace(graph, train_mask=few), 3, seed=0)).any()


def test_a_hidden_label_is_judged_by_the_net_that_did_not_see_it() -> None:
    own = contest()
    parts = hidden_parts(own.graph, 2, seed=0)
    nets = [own.attempt("", shape, Gassip(), epochs=1) for shape in SHAPES]
    each = [net.share for net in nets]
    mixed = unseen(each[1], nets, parts)
    torch.testing.assert_close(mixed[parts[0]], each[0][parts[0]])
    torch.testing.assert_close(mixed[~parts[0]], each[1][~parts[0]])
    torch.testing.assert_close(mixed.sum(1), torch.ones(own.graph.num_nodes))


def test_finalists_do_not_see_what_is_hidden_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    own, seen = contest(), []
    attempt = Contest.attempt

    def spy(self: Contest, stage: str, *args: object, **options: object) -> Attempt:
        if stage == "finalist":
            seen.append(options["graph"].train_mask)  # type: ignore[attr-defined]
        return attempt(self, stage, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Contest, "attempt", spy)
    teach(own, SHAPES, QUICK)
    parts = hidden_parts(own.graph, 2, seed=0)
    assert all(
        torch.equal(mask, own.graph.train_mask & ~part)
        for mask, part in zip(seen, parts, strict=True)
    )


def test_equal_seeds_teach_the_same_and_test_labels_do_not_matter() -> None:
    rows: list[Row] = []
    first = teach(contest(rows=rows), SHAPES, QUICK)
    graph = random_graph(1, nodes=30)
    garbage = replace(
        graph, y=torch.where(graph.test_mask, (graph.y + 1) % graph.num_classes, graph.y)
    )
    again = teach(Contest(garbage, seed=0, metric="accuracy", tell=lambda row: None), SHAPES, QUICK)
    assert torch.equal(first.share, again.share) and first.settings == again.settings
    assert not torch.equal(first.share, teach(contest(seed=1), SHAPES, QUICK).share)
    stages = [
        "graph with all edges",
        *(f"recipe {name}" for name in RECIPES),
        "finalist",
        "finalist",
    ]
    assert [row["stage"] for row in rows] == stages
    assert [row["epoch"] for row in rows] == list(range(1, 7))


def test_a_recipe_that_is_known_to_be_good_is_harder_to_beat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second gets 8 more right and 4 fewer: 1.15 σ."""
    right = {"first": [1] * 6 + [0] * 14, "second": [0] * 4 + [1] * 10 + [0] * 6}

    def attempt(
        stage: str, architecture: Architecture, settings: Gassip, *, epochs: int
    ) -> Attempt:
        order = "first" if stage == f"recipe {settings.recipes[0]}" else "second"
        return replace(judged(right[order]), settings=settings)

    for names, taken in (
        (("strong", "medium"), "medium"),
        (("norm", "medium"), "norm"),
        (("medium",), "medium"),
    ):
        settings, own = replace(QUICK, recipes=names), contest()
        with monkeypatch.context() as patch:
            patch.setattr(own, "attempt", attempt)
            assert best_recipe(own, SHAPES[0], settings) == with_recipe(settings, taken)


def test_recipes_that_there_are_not_are_refused() -> None:
    assert Gassip().recipes == tuple(RECIPES)
    for wrong in ((), ("strong", "weak")):
        with pytest.raises(GassipError, match="name at least one of strong, medium, norm"):
            Gassip(recipes=wrong)


def test_a_recipe_is_what_it_says() -> None:
    own = with_recipe(Gassip(), "norm")
    assert (own.retrain_dropout, own.retrain_weight_decay, own.batch_norm) == (0.2, 5e-5, True)
    net = contest().attempt("", SHAPES[0], own, epochs=1).net
    assert net.dropout == 0.2 and len(net.norms) == 1


def test_a_net_that_drops_nodes_drops_fewer_entries() -> None:
    strong, medium = (with_recipe(Gassip(), name) for name in ("strong", "medium"))
    over_hops = Architecture(ops=("Hops4", "Linear"), hidden=(6,))
    assert gentler(strong, over_hops).retrain_dropout == 0.5
    assert gentler(replace(medium, retrain_dropout=0.2), over_hops).retrain_dropout == 0.2
    assert gentler(strong, SHAPES[0]) is strong


def test_a_taught_net_has_a_milder_recipe_where_the_recipe_is_left_to_the_tool() -> None:
    auto = replace(Gassip(), recipe="auto")
    assert milder(with_recipe(auto, "strong")) == with_recipe(auto, "medium")
    assert milder(with_recipe(auto, "medium")) == with_recipe(auto, "medium")
    assert milder(with_recipe(auto, "norm")) == replace(
        with_recipe(auto, "norm"), retrain_dropout=0.0
    )
    assert milder(with_recipe(Gassip(), "strong")) == with_recipe(Gassip(), "strong")


def test_opinions_weigh_alike_unless_other_weights_are_likelier_by_more_than_chance() -> None:
    graph = contest().graph
    val = torch.nonzero(graph.val_mask).squeeze(1)
    y = graph.y[val]
    truth = torch.eye(graph.num_classes)[graph.y.clamp_min(0)]
    wrong = (1.01 - truth) / (1.01 - truth).sum(1, keepdim=True)
    sure = (truth + 0.01) / (truth + 0.01).sum(1, keepdim=True)

    def calm(share: torch.Tensor) -> torch.Tensor:
        return powered(share, likeliest_power(share[val], y))

    # one is always wrong: the other alone
    for opinions in ([wrong, sure], [sure, wrong]):
        torch.testing.assert_close(agreed(opinions, graph), levelled(calm(sure), val, y))
    # one is silent on a single validation node: a mean would be a little less likely, which may be
    # chance
    silent = sure.clone()
    silent[val[0]] = 1 / graph.num_classes
    mean = (calm(sure) + calm(silent)) / 2
    torch.testing.assert_close(agreed([sure, silent], graph), levelled(mean, val, y))
    torch.testing.assert_close(
        agreed([sure, silent, wrong], graph).sum(1), torch.ones(graph.num_nodes)
    )


def test_finalists_teach_together_unless_the_first_are_likelier_by_more_than_chance() -> None:
    graph = contest().graph
    truth = torch.eye(graph.num_classes)[graph.y.clamp_min(0)]
    noise = torch.rand(truth.shape, generator=torch.Generator().manual_seed(0))
    wrong = 1 - truth

    def saying(share: torch.Tensor) -> Attempt:
        return replace(judged([1]), share=(share + 0.01) / (share + 0.01).sum(1, keepdim=True))

    good, unsure, misled = saying(truth + noise), saying(truth + noise.flip(0)), saying(4 * wrong)
    assert trusted([good, unsure], graph) == [good, unsure]  # their mean is no worse
    assert trusted([good, misled, misled], graph) == [good]
    assert trusted([good], graph) == [good]


def test_those_who_teach_beside_the_finalists_are_asked_by_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[int] = []

    def spy(opinions: list[torch.Tensor], graph: Graph) -> torch.Tensor:
        heard.append(len(opinions))
        return opinions[0]

    monkeypatch.setattr("gassip.best.teacher.agreed", spy)
    for similar, spectral in ((0, False), (3, False), (0, True), (3, True)):
        rows: list[Row] = []
        teach(contest(rows=rows), SHAPES, replace(QUICK, similar=similar, spectral=spectral))
        assert ("similar nodes" in [row["stage"] for row in rows]) == (similar > 0)
    assert heard == [1, 2, 2, 3]


def test_the_best_finalists_are_trained_anew_wider_on_all_labels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own, trained = contest(), []
    attempt = Contest.attempt

    def spy(self: Contest, stage: str, *args: object, **options: object) -> Attempt:
        trained.append((stage, options.get("graph"), attempt(self, stage, *args, **options)))  # type: ignore[arg-type]
        return trained[-1][2]

    monkeypatch.setattr(Contest, "attempt", spy)
    lesson = teach(own, SHAPES, replace(QUICK, teachers=1, teacher_hidden=24))
    finalists = [net for stage, _, net in trained if stage == "finalist"]
    (graph, teacher), *more = [(graph, net) for stage, graph, net in trained if stage == "teacher"]
    best = max(finalists, key=lambda net: net.value).architecture
    assert not more and graph is None  # the contest's own, where no label is hidden
    assert teacher.architecture == replace(best, hidden=(24,)) and lesson.students == [best]
    share = agreed([teacher.share], own.graph)
    torch.testing.assert_close(lesson.share[~own.graph.train_mask], share[~own.graph.train_mask])


def test_a_gain_counts_in_units_of_its_standard_error() -> None:
    gain = torch.tensor([1.0, 3.0, 1.0, 3.0])  # mean 2, standard error √(4/3) / 2 = .577
    assert gains(gain, torch.zeros(4), sigmas=3.4) and not gains(gain, torch.zeros(4), sigmas=3.5)
    assert not gains(torch.zeros(4), gain)
    assert not gains(torch.ones(1), torch.zeros(1))  # of one node nothing can be said


def test_edges_between_unlike_nodes_go_where_that_validates_better() -> None:
    # two groups that share words and labels, and as many edges across as within
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(120) % 2
    x = torch.zeros(120, 40)
    for node in range(120):
        x[node, torch.randperm(20, generator=generator)[:6] + 20 * int(y[node])] = 1.0
    within = torch.randint(60, (2, 200), generator=generator) * 2
    across = torch.randint(60, (2, 300), generator=generator) * 2 + torch.tensor([[0], [1]])
    index = torch.cat([within, within + 1, across], 1)
    block = torch.arange(120) // 2 % 3
    masks = tuple((block == part).numpy() for part in range(3))
    graph = Graph.build(x, index, y, masks=masks, undirected=True)
    settings = replace(QUICK, clean_shares=(0.6,))
    own = Contest(graph, seed=0, metric="accuracy", tell=lambda row: None)
    said = clean(own, settings)
    kept = graph.keep(own.kept)
    same = kept.y[kept.edge_index[0]] == kept.y[kept.edge_index[1]]
    assert kept.num_edges < graph.num_edges and float(same.float().mean()) > 0.8  # .55 before
    torch.testing.assert_close(said.share, spectral_share(kept))
    untouched = Contest(random_graph(1, nodes=30), seed=0, metric="accuracy", tell=lambda row: None)
    clean(untouched, settings)
    assert untouched.kept.all()


def two_groups(blind: bool) -> Graph:
    """Two groups with words of their own; edges join any two nodes, or two of one group."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(240) % 2
    x = torch.zeros(240, 40)
    for node in range(240):
        x[node, torch.randperm(30, generator=generator)[:5] + 10 * int(y[node])] = (
            1.0  # a third is shared
        )
    ends = torch.randint(120, (2, 700), generator=generator) * 2
    index = torch.cat([ends, ends + 1], 1)
    if blind:
        index = torch.randint(240, (2, 1400), generator=generator)
    block = torch.arange(240) // 2 % 3
    return Graph.build(
        x, index, y, masks=tuple((block == part).numpy() for part in range(3)), undirected=True
    )


@pytest.mark.parametrize("blind", [False, True])
def test_blind_edges_mislead_and_nets_that_do_not_smooth_come_first(blind: bool) -> None:
    rows: list[Row] = []
    own = Contest(two_groups(blind), seed=0, metric="accuracy", tell=rows.append)
    assert misleads(own, own.regress("", own.graph)) == blind
    shapes = [
        Architecture(ops=ops, hidden=(6,)) for ops in (("Linear", "APPNP5"), ("Linear", "Linear"))
    ]
    rows.clear()
    lesson = teach(own, shapes, replace(QUICK, similar=3, feature_share=0.5))
    first = next(str(row["architecture"]) for row in rows if row["stage"] == "finalist")
    assert first == ("Linear ‖ Linear" if blind else "Linear ‖ APPNP5")
    assert lesson.settings.feature_share == (1.0 if blind else 0.5)
    assert ("similar nodes" in [row["stage"] for row in rows]) != blind


def test_a_graph_without_edges_does_not_mislead() -> None:
    graph = random_graph(1, nodes=30)
    bare = graph.keep(torch.zeros(graph.num_edges, dtype=torch.bool))
    own = Contest(bare, seed=0, metric="accuracy", tell=lambda row: None)
    assert not misleads(own, own.regress("", own.graph))


def test_how_far_an_architecture_smooths() -> None:
    texts = (
        "Linear+Linear",
        "ArmaConv+Linear",
        "SAGEConv+SAGEConv",
        "Linear+APPNP10",
        "GCNConv+SAGEConv",
    )
    shapes = [Architecture(ops=tuple(text.split("+")), hidden=(6,)) for text in texts]
    assert sorted(reversed(shapes), key=smoothing) == shapes
    assert [smoothing(shape)[0] for shape in shapes] == [False, False, False, True, True]


def test_of_two_regressions_the_likelier_must_score_higher_too() -> None:
    share, sure, unsure = (
        torch.ones(4, 2) / 2,
        torch.full((4,), -0.1),
        torch.tensor([-1.0, -1.1, -1.0, -1.1]),
    )
    low = Regression(share=share, value=0.5, gain=unsure)
    assert Regression(share=share, value=0.6, gain=sure).beats(low)
    assert not Regression(share=share, value=0.5, gain=sure).beats(low)
    assert not Regression(share=share, value=0.6, gain=unsure).beats(low)


def cited() -> Graph:
    """Four classes; 120 old nodes whose features tell theirs, 120 new ones whose features say
    nothing, each with six edges to old nodes of its class. Validation and test nodes are new."""
    generator = torch.Generator().manual_seed(0)
    y, new = torch.arange(240) % 4, torch.arange(240) >= 120
    x = torch.eye(8)[y] * ~new[:, None] + 0.2 * torch.randn(240, 8, generator=generator)
    sender = torch.nonzero(new).squeeze(1).repeat_interleave(6)
    receiver = 4 * torch.randint(30, (sender.numel(),), generator=generator) + y[sender]
    part = torch.arange(240) // 4 % 3
    masks = (~new | (part == 0), new & (part == 1), new & (part == 2))
    return Graph.build(x, torch.stack([sender, receiver]), y, masks=masks)


def test_edges_are_read_both_ways_where_that_makes_validation_nodes_likelier() -> None:
    graph, auto = cited(), Gassip(direction="auto")
    assert facing(graph, auto, "accuracy").direction == "both"
    assert facing(graph, Gassip(), "accuracy").direction == "given"  # not asked
    assert facing(graph.both_ways, auto, "accuracy").direction == "given"  # nothing to add
    noise = random_graph(3, nodes=60, edges=200, undirected=False)
    assert facing(noise, auto, "accuracy").direction == "given"
    hidden = replace(
        graph, y=torch.where(graph.test_mask, 0, graph.y)
    )  # no test label has a part in it
    assert facing(hidden, auto, "accuracy").direction == "both"
