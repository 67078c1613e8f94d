"""UGS, IMP, DARTS+UGS, CGP, Early-Bird, ALGNN, HM-NAS and GLNN: each mechanism by hand, then what
all must hold."""

from collections.abc import Callable
from dataclasses import replace
from math import inf, log

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from gassip.baselines._shared.pruning import (
    EdgeMaskedNet,
    Start,
    apart,
    drop_lowest,
    flat,
    take_over,
)
from gassip.baselines.algnn import Algnn, crowding, dominates, fronts, lightest, survivors
from gassip.baselines.cgp import Cgp, CgpNet, cubic, next_keep
from gassip.baselines.darts_ugs import DartsUgs
from gassip.baselines.earlybird import EarlyBird, hamming, settled
from gassip.baselines.glnn import Glnn, distillation
from gassip.baselines.hmnas import Connection, HmNas, HmNet, binary, kept_connections, thinned
from gassip.baselines.imp import Imp
from gassip.baselines.ugs import Ugs, UgsNet
from gassip.bench.tuned import settings_for
from gassip.best.pipeline import search
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.methods import METHODS, Method
from gassip.nn.net import Architecture, Net, net_for
from gassip.nn.propagate import MaskedGraph
from gassip.settings import Settings
from gassip.train.context import Event, RunContext
from gassip.train.losses import supervised
from gassip.train.trainer import predict, seeded

GCN = Architecture(ops=("GCNConv", "GCNConv"), hidden=(4,))

SMALL: dict[str, Method] = {
    "ugs": Ugs(hidden=4, rounds=2, epochs=3),
    "imp": Imp(hidden=4, rounds=2, epochs=3),
    "darts-ugs": DartsUgs(rounds=2, epochs=3, search_epochs=2),
    "cgp": Cgp(hidden=4, gradual_epochs=6, every=2, epochs=3),
    "earlybird": EarlyBird(hidden=4, draw_epochs=6, epochs=3),
    "algnn": Algnn(hidden=(2, 4), population=3, generations=1, child_epochs=2, epochs=3),
    "hmnas": HmNas(hidden=4, search_epochs=3, mask_epochs=3, epochs=3, lr_score=5e-3),
    "glnn": Glnn(hidden=4, epochs=3, teacher_epochs=3, teacher_hidden=4),
}

Maker = Callable[..., Graph]


def weights(model: torch.nn.Module) -> Tensor:
    return torch.cat([value.flatten() for value in model.parameters()]).detach()


# What is shared


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=40), st.data(), st.floats(0, 0.99))
def test_drop_lowest_takes_exactly_the_share_of_what_is_alive(
    scores: list[float], data: st.DataObject, share: float
) -> None:
    alive = torch.tensor(
        data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    )
    score = torch.tensor(scores)
    left = drop_lowest(score, alive, share)
    count = int(alive.sum())
    assert int(left.sum()) == count - round(share * count)
    assert not (left & ~alive).any()
    gone = alive & ~left
    if gone.any() and left.any():
        assert score[gone].max() <= score[left].min()


def test_flat_and_apart_are_inverses() -> None:
    parts = [torch.arange(6.0).view(2, 3), torch.arange(4.0).view(4, 1)]
    for part, again in zip(parts, apart(flat(parts), parts), strict=True):
        assert torch.equal(part, again)


def test_edge_masks_come_before_normalisation_and_0_is_no_edge(path: Graph) -> None:
    torch.manual_seed(0)
    net = EdgeMaskedNet(path, GCN, 0.0)
    with torch.no_grad():
        net.edge_mask.copy_(
            torch.tensor([1.0, -0.3])
        )  # 0 - 1 stays; 1 - 2 is below 0, which counts as 0
    net.eval()
    plain = net_for(path, GCN)
    plain.load_state_dict(net.state_dict(), strict=False)
    cut = path.keep(torch.tensor([True, True, False, False]))
    assert_close(net.run(path.x, MaskedGraph.of(path)), predict(plain, cut))


def test_chance_not_the_number_decides_between_untouched_edges(make_graph: Maker) -> None:
    graph = make_graph(nodes=60, edges=200)
    with seeded(0, graph.device):
        score = EdgeMaskedNet(graph, GCN, 0.0).edge_score().detach()
    assert score.unique().numel() > score.numel() / 2
    assert_close(score, torch.ones_like(score), rtol=0, atol=1e-4)
    gone = ~drop_lowest(score, torch.ones_like(score, dtype=torch.bool), 0.2)
    assert gone[: score.numel() // 2].any() and gone[score.numel() // 2 :].any()


def test_cgp_leaves_factors_that_no_gradient_reaches(path: Graph) -> None:
    apart_graph = replace(
        path, train_mask=torch.tensor([False, False, False, True])
    )  # no edge leads to node 3
    net = CgpNet(apart_graph, GCN, 0.0)
    before = net.edge_mask.detach().clone()
    Cgp(gradual_epochs=5, every=9, edge_sparsity=0.0).prune_gradually(
        net, apart_graph, RunContext(0)
    )
    assert torch.equal(net.edge_mask, before)


def test_epochs_are_counted_through() -> None:
    seen: list[Event] = []
    run = RunContext(0, on_event=seen.append).counted()
    assert run.on_event is not None and RunContext(0).counted().on_event is None
    for epoch in (1, 2, 1):
        run.on_event({"epoch": epoch})
    assert [row["epoch"] for row in seen] == [1, 2, 3]


# UGS and IMP


def test_ugs_prunes_5_and_20_percent_of_what_remains(make_graph: Maker) -> None:
    graph = make_graph(nodes=60, edges=300)
    solution = Ugs(hidden=8, rounds=3, epochs=2).solve(graph, RunContext(0))
    rounds = solution.details["rounds"]
    assert isinstance(rounds, list)
    start = net_for(graph, Architecture(ops=("GCNConv", "GCNConv"), hidden=(8,)))
    weight, pairs = sum(layer.weight.numel() for layer in start.layers), graph.num_edges // 2
    other = start.num_weights()[0] - weight
    for row in rounds:
        weight -= round(0.2 * weight)
        pairs -= round(0.05 * pairs)
        assert (row["weights"], row["edges"]) == (weight + other, 2 * pairs)
    assert solution.edges_total == graph.num_edges
    best = max(row["val"] for row in rounds)
    chosen = [row for row in rounds if row["val"] == best][-1]
    assert (solution.weights_kept, solution.edges_kept) == (chosen["weights"], chosen["edges"])
    assert solution.accuracy["val"] == best


def test_ugs_rewinds_to_the_very_start(make_graph: Maker) -> None:
    graph = make_graph()
    with seeded(5, graph.device):
        start = net_for(graph, GCN, 0.5)
    ticket = (
        Ugs(hidden=4, rounds=2, epochs=0).solve(graph, RunContext(5)).model
    )  # no training after the rewind
    assert isinstance(ticket, Net)
    for l, (layer, first) in enumerate(zip(ticket.layers, start.layers, strict=True)):
        keep = ticket.weight_keep(l)
        assert keep is not None
        assert torch.equal(layer.weight, first.weight * keep)
        assert torch.equal(layer.bias, first.bias)


def test_training_the_masks_leaves_the_start_alone(make_graph: Maker) -> None:
    graph = make_graph()
    start = net_for(graph, GCN, 0.5)
    before = weights(start)
    keep = [torch.ones_like(layer.weight, dtype=torch.bool) for layer in start.layers]
    Ugs(hidden=4, epochs=3).prune(graph, start, keep, RunContext(0))
    assert torch.equal(weights(start), before)


def test_ugs_drops_the_lowest_masks(path: Graph) -> None:
    start = net_for(path, GCN)
    method = Ugs(epochs=0, noise=1.0, edge_share=0.5, weight_share=0.25)
    keep = [torch.ones_like(layer.weight, dtype=torch.bool) for layer in start.layers]
    with seeded(0, path.device):
        cut, left = method.prune(path, start, keep, RunContext(0))
    with seeded(0, path.device):
        net = UgsNet(path, GCN, 0.5, None, 1.0)
    size = flat([mask.detach().abs() for mask in net.weight_masks])
    assert torch.equal(flat(left), size > size.sort().values[size.numel() // 4 - 1])
    higher = int(net.edge_mask.argmax())
    assert torch.equal(cut.edge_index, path.edge_index[:, path.pair == higher])


def test_ugs_l1_by_hand(path: Graph) -> None:
    net = UgsNet(path, GCN, 0.0, None, 0.0)
    with torch.no_grad():
        net.edge_mask.copy_(torch.tensor([0.5, -0.25]))
        net.weight_masks[0].fill_(-0.5)  # 4 · 4 of them
        net.weight_masks[1].fill_(2.0)  # 4 · 2
    masked = MaskedGraph.of(path)
    extra = Ugs(l1_edge=0.1, l1_weight=0.01).penalised(net, path, masked, 1) - supervised(
        net, path, masked, 1
    )
    assert_close(extra, torch.tensor(0.1 * 0.75 + 0.01 * (8 + 16)), rtol=1e-4, atol=1e-5)


def test_masks_multiply_the_weights(path: Graph) -> None:
    net = UgsNet(path, GCN, 0.0, None, 0.0)
    plain = net_for(path, GCN)
    take_over(
        net, plain, [torch.ones_like(layer.weight, dtype=torch.bool) for layer in plain.layers]
    )
    masked = MaskedGraph.of(path)
    assert_close(net.run(path.x, masked), plain.run(path.x, masked))
    with torch.no_grad():
        net.weight_masks[1].fill_(3.0)
        plain.layers[1].weight.mul_(3.0)
    assert_close(net.run(path.x, masked), plain.run(path.x, masked))


def test_masks_below_0_are_told_apart(path: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clamped they would tie at 0, and the edge with the higher number would go."""

    def pressed(self: Ugs, net: UgsNet, *_: object) -> int:
        with torch.no_grad():
            net.edge_mask.copy_(torch.tensor([-0.2, -0.1]))
        return 0

    monkeypatch.setattr(Ugs, "fit", pressed)
    start = net_for(path, GCN)
    keep = [torch.ones_like(layer.weight, dtype=torch.bool) for layer in start.layers]
    cut, _ = Ugs(edge_share=0.5).prune(path, start, keep, RunContext(0))
    assert torch.equal(cut.edge_index, path.edge_index[:, path.pair == 1])


def test_a_level_is_its_round_and_every_round_is_told(make_graph: Maker) -> None:
    graph = make_graph(nodes=60, edges=300)
    whole = Ugs(hidden=8, rounds=3, epochs=2).solve(graph, RunContext(0))
    rounds = whole.details["rounds"]
    assert isinstance(rounds, list) and [row["round"] for row in rounds] == [1, 2, 3]
    for row in rounds:
        at = Ugs(hidden=8, rounds=3, epochs=2, level=row["round"]).solve(graph, RunContext(0))
        assert at.accuracy["val"] == row["val"] and at.accuracy["test"] == row["test"]
        assert (at.weights_kept, at.edges_kept) == (row["weights"], row["edges"])
    with pytest.raises(GassipError, match="level is 4; there are the rounds 1 to 3"):
        Ugs(rounds=3, level=4)


def test_imp_keeps_the_largest_of_the_weights_alive(make_graph: Maker) -> None:
    graph = make_graph()
    with seeded(0, graph.device):
        start = net_for(graph, GCN)
        keep = [torch.rand_like(layer.weight) < 0.8 for layer in start.layers]
    # no epoch: the sizes are those of the start
    _, left = Imp(epochs=0, weight_share=0.5).prune(graph, start, keep, RunContext(0))
    size, alive = flat([layer.weight.detach().abs() for layer in start.layers]), flat(keep)
    kept = flat(left)
    assert int(kept.sum()) == int(alive.sum()) - round(0.5 * int(alive.sum()))
    assert not (kept & ~alive).any()
    assert size[kept].min() >= size[alive & ~kept].max()


def test_imp_ranks_by_the_trained_size(make_graph: Maker) -> None:
    graph = make_graph(nodes=60, edges=200)
    start = net_for(graph, GCN)
    keep = [torch.ones_like(layer.weight, dtype=torch.bool) for layer in start.layers]
    before = weights(start)
    at_start = Imp(epochs=0, weight_share=0.5).prune(graph, start, keep, RunContext(0))[1]
    trained = Imp(epochs=60, lr=0.1, weight_share=0.5).prune(graph, start, keep, RunContext(0))[1]
    assert not torch.equal(flat(at_start), flat(trained))
    assert torch.equal(weights(start), before)


def test_imp_touches_no_edge(make_graph: Maker) -> None:
    graph = make_graph()
    solution = Imp(hidden=4, rounds=3, epochs=2).solve(graph, RunContext(0))
    assert solution.edges_kept == graph.num_edges
    assert torch.equal(solution.graph.edge_index, graph.edge_index)
    assert solution.weights_kept < solution.weights_total


def test_ugs_starts_from_the_masks_of_a_search(make_graph: Maker) -> None:
    graph = make_graph(nodes=60, edges=200)
    settings = Settings.of(
        hidden=4,
        epochs=12,
        warmup_epochs=1,
        edge_rule="budget",
        edge_share=0.5,
        kept_edges="binary",
    )
    found = search(graph, settings, seed=0)
    solution = Ugs(rounds=2, epochs=2).solve_from(found, graph, RunContext(0))
    assert isinstance(solution.model, Net)
    assert solution.model.architecture == found.architecture
    for l, given_keep in enumerate(found.weight_keep):
        keep = solution.model.weight_keep(l)
        assert keep is not None and not (keep & ~given_keep).any()
    assert (
        solution.edges_kept < int(found.edge_keep.sum()) < solution.edges_total == graph.num_edges
    )


def test_darts_ugs_prunes_what_darts_found(make_graph: Maker) -> None:
    graph = make_graph()
    method = DartsUgs(rounds=1, epochs=1, search_epochs=2)
    found = method.search(graph, RunContext(3))
    solution = method.solve(graph, RunContext(3))
    assert solution.details["architecture"] == str(found.architecture)
    again = Ugs(rounds=1, epochs=1).solve_from(found, graph, RunContext(3))
    assert torch.equal(weights(solution.model), weights(again.model))
    assert solution.seconds > float(str(solution.details["search_seconds"])) > 0


def test_published_l1_of_small_and_large_graphs(path: Graph) -> None:
    small, large = (
        Ugs.for_graph(path),
        Ugs.for_graph(replace(path, y=torch.zeros(20_000, dtype=torch.long))),
    )
    assert (small.l1_edge, small.l1_weight) == (1e-2, 1e-2)
    assert (large.l1_edge, large.l1_weight) == (1e-6, 1e-3)
    assert Imp.for_graph(path) == Imp()


# CGP


@pytest.mark.parametrize(
    ("step", "first", "value"),
    [
        (0, 0.0, 0.0),
        (5, 0.0, 0.7),
        (8, 0.0, 0.7936),
        (10, 0.0, 0.8),
        (12, 0.0, 0.8),
        (0, 0.2, 0.2),
        (5, 0.2, 0.725),
    ],
)
def test_cubic_schedule(step: int, first: float, value: float) -> None:
    assert cubic(step, 10, first, 0.8) == pytest.approx(value)  # .8 + (first - .8)(1 - step/10)³


def test_regrowth_by_hand() -> None:
    score = torch.tensor([5.0, -1.0, -4.0, 0.5, 0.0, 0.0])
    keep = torch.tensor([True, True, True, True, False, False])
    growth = torch.tensor([0.0, 0.0, 0.0, 3.0, 9.0, 1.0])
    # 3 are to live, a third of them grown: 5 and -4 by size, then number 4 by its gradient
    assert next_keep(score, keep, growth, 3, 1 / 3).nonzero().flatten().tolist() == [0, 2, 4]
    barred = growth.clone()
    barred[4] = -inf
    assert next_keep(score, keep, barred, 3, 1 / 3).nonzero().flatten().tolist() == [0, 2, 3]
    assert next_keep(score, keep, growth, 3, 0.0).nonzero().flatten().tolist() == [0, 1, 2]


@given(st.integers(1, 30), st.floats(0, 0.9), st.floats(0, 0.9), st.integers(0, 99))
def test_regrowth_keeps_the_count(count: int, sparsity: float, regrow: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    score, growth = torch.randn(2, count, generator=generator)
    keep = torch.rand(count, generator=generator) < 0.8
    kept = round((1 - sparsity) * count)
    assert int(next_keep(score, keep, growth.abs(), kept, regrow).sum()) == min(
        kept, int(keep.sum())
    )


def test_cgp_reaches_its_three_sparsities(make_graph: Maker) -> None:
    graph = make_graph(nodes=60, edges=200, features=20)
    method = Cgp(
        hidden=8, gradual_epochs=20, every=5, epochs=4, edge_sparsity=0.1, channel_sparsity=0.25
    )
    solution = method.solve(graph, RunContext(0))
    assert solution.details["channels_kept"] == 15
    assert solution.edges_kept == 2 * round(0.9 * graph.num_edges / 2)
    model = solution.model
    assert isinstance(model, Net)
    keep = model.weight_keep(0)
    assert keep is not None and int(keep.any(1).sum()) <= 15
    last = model.weight_keep(1)
    assert last is not None
    # 20 · 8 + 8 · 3 = 184 weights, half of them alive, less those in dead channels
    assert int(keep.sum() + last.sum()) <= 92
    assert model.layers[0].weight[~keep].eq(0).all()


def test_cgp_gradients_of_the_dead_are_those_of_the_loss_at_0(path: Graph) -> None:
    torch.manual_seed(1)
    net = CgpNet(path, GCN, 0.5)
    everything = [torch.ones_like(layer.weight, dtype=torch.bool) for layer in net.layers]
    fewer = [keep.clone() for keep in everything]
    fewer[1][0, 0] = False
    net.settle(fewer, torch.tensor([True, False]), torch.tensor([True, True, True, False]))
    masked = MaskedGraph.of(path)
    by_weight, by_edge, by_channel = net.gradients(path, masked)
    assert torch.equal(net.edge_keep, torch.tensor([True, False]))
    assert net.weight_keep(1) is not None and not net.channel_keep[3]
    assert by_channel.shape == (4,)

    def loss(weight: float, edge: float) -> float:
        with torch.no_grad():
            net.layers[1].weight[0, 0], net.edge_mask[1] = weight, edge
            net.settle(everything, torch.ones(2, dtype=torch.bool), net.channel_keep)
            return float(supervised(net, path, masked, 1))

    net.eval()
    assert (loss(0.01, 0.0) - loss(-0.01, 0.0)) / 0.02 == pytest.approx(
        float(by_weight[1][0, 0]), abs=1e-3
    )
    assert (loss(0.0, 0.01) - loss(0.0, 0.0)) / 0.01 == pytest.approx(float(by_edge[1]), abs=2e-3)


def test_cgp_grows_back_no_weight_that_a_search_removed(make_graph: Maker) -> None:
    graph = make_graph(nodes=60, edges=200)
    found = search(graph, Settings.of(hidden=4, epochs=3, warmup_epochs=1), seed=0)
    method = Cgp(
        gradual_epochs=6, every=2, epochs=2, weight_sparsity=0.2, regrow=0.5, channel_sparsity=0.0
    )
    model = method.solve_from(found, graph, RunContext(0)).model
    assert isinstance(model, Net)
    for l, given_keep in enumerate(found.weight_keep):
        keep = model.weight_keep(l)
        assert keep is not None and not (keep & ~given_keep).any()


# Early-Bird


def masks(*rows: tuple[int, int]) -> list[tuple[Tensor, Tensor]]:
    """Masks of 20 weights and 20 edges in which the first so many are alive."""
    return [(torch.arange(20) < weight, torch.arange(20) < edge) for weight, edge in rows]


def test_hamming_is_the_share_that_differs() -> None:
    one, other = masks((10, 0), (13, 0))
    assert hamming(one[0], other[0]) == pytest.approx(0.15)
    assert hamming(one[0], one[0]) == 0


@pytest.mark.parametrize(
    ("rows", "stop"),
    [
        ([(10, 10), (10, 10), (10, 10)], False),  # only two before the newest
        ([(10, 10), (10, 10), (10, 10), (10, 10)], True),
        ([(10, 10), (11, 10), (10, 10), (11, 10)], True),  # .05
        ([(10, 10), (12, 10), (12, 10), (12, 10)], False),  # .1 is not under .1
        (
            [(10, 10), (12, 10), (12, 10), (12, 10), (12, 10)],
            True,
        ),  # the first is out of the window
        ([(10, 10), (10, 15), (10, 10), (10, 10)], False),  # the edges moved
    ],
)
def test_early_bird_stops_when_the_masks_stand_still(
    rows: list[tuple[int, int]], stop: bool
) -> None:
    assert settled(masks(*rows), 3, 0.1) is stop


def test_early_bird_draws_at_its_ratios(make_graph: Maker) -> None:
    graph = make_graph(nodes=60, edges=200)
    solution = EarlyBird(hidden=8, epochs=2).solve(graph, RunContext(0))
    pairs = graph.num_edges // 2
    assert solution.edges_kept == 2 * (pairs - round(0.2 * pairs))
    assert solution.weights_total - solution.weights_kept == round(0.5 * (6 * 8 + 8 * 3))
    drawn = solution.details["drawn_at_epoch"]
    assert isinstance(drawn, int) and 4 <= drawn < 100
    never = EarlyBird(hidden=8, epochs=2, draw_epochs=5, tolerance=0.0).solve(graph, RunContext(0))
    assert never.details["drawn_at_epoch"] == 5


def test_early_bird_tells_masks_below_0_apart(path: Graph) -> None:
    """Clamped they would tie at 0, and edges would go by their number."""
    net = EdgeMaskedNet(path, GCN, 0.0)
    with torch.no_grad():
        net.edge_mask.copy_(torch.tensor([-0.2, -0.1]))
    given = torch.ones(sum(layer.weight.numel() for layer in net.layers), dtype=torch.bool)
    _, edges = EarlyBird(edge_share=0.5).masks(net, given)
    assert edges.tolist() == [False, True]


@pytest.mark.parametrize(("l1", "stays"), [(0.0, True), (1e-4, False)])
def test_early_bird_leaves_edges_alone_that_no_label_reaches(l1: float, stays: bool) -> None:
    """The pair 3 - 4 is apart from the training nodes 0 and 1; L1 would press it down."""
    graph = Graph.build(
        torch.eye(5),
        torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]),
        torch.tensor([0, 1, 0, 1, 0]),
        masks=(np.arange(5) < 2, np.arange(5) == 2, np.arange(5) > 2),
    )
    start = Start.gcn(graph, 4)
    net = EdgeMaskedNet(graph, start.architecture, 0.0)
    EarlyBird(l1_edge=l1, draw_epochs=4).draw(net, start, RunContext(0))
    far = graph.pair[(graph.adjacency.row == 3).nonzero()[0, 0]]
    assert (abs(float(net.edge_mask[far].detach()) - 1) < 1e-4) == stays


# ALGNN


def test_dominance() -> None:
    assert dominates((0.8, -10), (0.7, -10)) and dominates((0.8, -10), (0.8, -20))
    assert not dominates((0.8, -10), (0.8, -10)) and not dominates((0.8, -20), (0.7, -10))
    # equal in score and size: the cheaper one
    assert dominates((0.8, -10, -5), (0.8, -10, -6))
    assert not dominates((0.8, -9, -6), (0.8, -10, -5))


def test_fronts_crowding_and_survivors_by_hand() -> None:
    points = [(0.9, -9.0), (0.5, -1.0), (0.7, -4.0), (0.6, -6.0), (0.4, -7.0), (0.8, -5.0)]
    assert fronts(points) == [[0, 1, 2, 5], [3], [4]]
    # front 0 by score: .5 .7 .8 .9 and by size: -9 -5 -4 -1
    gap = crowding([points[i] for i in (0, 1, 2, 5)])
    assert gap[:2] == [inf, inf]
    assert gap[2:] == pytest.approx([0.3 / 0.4 + 4 / 8, 0.2 / 0.4 + 5 / 8])  # 1.25 and 1.125
    assert survivors(points, 5) == [0, 1, 2, 5, 3]
    assert survivors(points, 3) == [0, 1, 2]
    assert crowding([(0.5, -1.0), (0.5, -1.0), (0.5, -1.0)]) == [inf, 0.0, inf]


def test_the_lightest_within_tolerance_is_chosen() -> None:
    points = [(0.82, -90.0), (0.81, -40.0), (0.805, -10.0), (0.815, -40.0)]
    assert lightest(points, 0.0) == 0
    assert lightest(points, 0.011) == 3
    assert lightest(points, 0.02) == 2


def test_algnn_tells_its_front(make_graph: Maker) -> None:
    method = Algnn(hidden=(2, 4), population=4, generations=2, child_epochs=3, epochs=2)
    solution = method.solve(make_graph(), RunContext(0))
    front = solution.details["front"]
    assert isinstance(front, list)
    points = [(row["val"], -float(row["weights"]), -float(row["macs"])) for row in front]
    assert not any(dominates(one, other) for one in points for other in points)
    assert 4 <= int(str(solution.details["architectures_trained"])) <= 12
    assert isinstance(solution.model, Net)
    assert solution.details["architecture"] == str(solution.model.architecture)


def test_algnn_judges_by_score_size_and_cost(make_graph: Maker) -> None:
    graph, method = make_graph(), Algnn(hidden=(2, 4), child_epochs=1)
    # GCN‖GCN of 4: 6·4 + 4 + 4·3 + 3 weights; each node's own product, then (E + N)·F sums
    _, weight, cost = method.judge(graph, (0, 0, 1), RunContext(0))
    assert method.architecture((0, 0, 1)) == GCN
    n, e = graph.num_nodes, graph.num_edges
    assert (weight, cost) == (-43, -(n * 24 + (e + n) * 4 + n * 12 + (e + n) * 3))


# HM-NAS


def test_the_step_passes_the_gradient_on() -> None:
    score = torch.tensor([0.01, 0.005, -1.0], requires_grad=True)
    value = binary(score, 0.005)
    assert value.tolist() == [1.0, 0.0, 0.0]
    (value * torch.tensor([2.0, 3.0, 4.0])).sum().backward()
    assert score.grad is not None and score.grad.tolist() == [2.0, 3.0, 4.0]


CHAIN = tuple(Connection(i, j, ("GCNConv", "Linear")) for i, j in ((0, 1), (0, 2), (1, 2)))


@pytest.mark.parametrize(
    ("connections", "ops", "kept"),
    [
        ([1, 1, 1], [[1, 0], [1, 1], [0, 1]], [(0, [0]), (1, [0, 1]), (2, [1])]),
        (
            [1, 1, 0],
            [[1, 1], [0, 1], [1, 1]],
            [(1, [1])],
        ),  # nothing reads layer 1, so what leads to it goes
        (
            [0, 0, 1],
            [[1, 0], [1, 1], [1, 0]],
            [(0, [0]), (2, [0])],
        ),  # layer 1 is read: its best connection stays
        (
            [0, -1, 0.004],
            [[0, 0.001], [1, 1], [0.002, 0]],
            [(0, [1]), (2, [0])],
        ),  # all masked: the best of each
    ],
)
def test_masks_from_connections_down_to_operations(
    connections: list[float], ops: list[list[float]], kept: list[tuple[int, list[int]]]
) -> None:
    scores = [torch.tensor(row, dtype=torch.float) for row in ops]
    assert kept_connections(CHAIN, torch.tensor(connections), scores, 0.005, 2) == kept


def hm_net() -> HmNet:
    torch.manual_seed(0)
    net = HmNet([4, 3, 2], CHAIN, 0.5, 0.005)
    with torch.no_grad():
        net.beta.copy_(torch.tensor([0.3, log(3.0), 0.0]))
        net.alpha[1].copy_(torch.tensor([0.0, log(4.0)]))
    net.add_scores(0.01)
    return net.eval()


def test_shares_of_connections_and_operations() -> None:
    net = hm_net()
    # one connection ends in layer 1; of the two in layer 2 the first has weight 3 : 1
    assert_close(net.connection_share(), torch.tensor([1.0, 0.75, 0.25]))
    assert_close(net.op_share(1), torch.tensor([0.2, 0.8]))
    with torch.no_grad():
        net.op_scores[1][0] = 0.0
        assert net.connection_score is not None
        net.connection_score[2] = 0.0
    assert_close(net.connection_share(), torch.tensor([1.0, 0.75, 0.0]))
    assert_close(net.op_share(1), torch.tensor([0.0, 0.8]))


def test_what_is_masked_has_no_say(path: Graph) -> None:
    net, masked = hm_net(), MaskedGraph.of(path)
    with torch.no_grad():
        assert net.connection_score is not None
        net.connection_score[2] = 0.0
        net.op_scores[1][1] = 0.0
        net.weight_scores[1][0, 0] = 0.0
        before = net.run(path.x, masked)
        net.layers[2].weight.add_(1.0)
        net.layers[1].weight[:, net.layers[1].columns(1)] += 1.0
        net.layers[1].weight[0, 0] += 1.0
        assert torch.equal(net.run(path.x, masked), before)
        net.layers[1].weight[1, 0] += 1.0
        assert not torch.equal(net.run(path.x, masked), before)


def test_a_thinned_net_computes_the_same(path: Graph) -> None:
    net, masked = hm_net(), MaskedGraph.of(path)
    with torch.no_grad():
        net.weight_scores[0][0] = 0.0
        thin = thinned(net).eval()
        assert_close(thin.run(path.x, masked), net.run(path.x, masked))
    kept, total = thin.num_weights()
    assert total - kept == 6  # a row of GCN's and Linear's three columns
    with torch.no_grad():
        net.op_scores[0][1] = net.op_scores[2][0] = 0.0
    thin = thinned(net)
    assert [c.ops for c in thin.connections] == [("GCNConv",), ("GCNConv", "Linear"), ("Linear",)]
    assert torch.equal(thin.layers[2].weight, net.layers[2].weight[:, 2:])
    assert torch.equal(thin.layers[2].bias, net.layers[2].bias[1:])


def test_l0_terms_by_hand() -> None:
    net = hm_net()
    with torch.no_grad():
        net.weight_scores[0][0] = 0.0  # 6 of 24 + 16 + 12
        net.op_scores[2][1] = 0.0  # 1 of 6
        assert net.connection_score is not None
        net.connection_score[1] = 0.0  # 1 of 3
    assert_close(net.weights_share(), torch.tensor(46 / 52))
    assert_close(net.places_share(), torch.tensor(5 / 6 + 2 / 3))
    (by_score,) = torch.autograd.grad(net.weights_share(), [net.weight_scores[0]])
    assert_close(by_score, torch.full((4, 6), 1 / 52))  # on every score, masked or not


def test_the_l0_terms_thin_the_net(make_graph: Maker) -> None:
    graph = make_graph(nodes=60, edges=200)

    def kept(**pressed: float) -> float:
        method = HmNas(hidden=8, search_epochs=20, mask_epochs=30, epochs=1, **pressed)  # type: ignore[arg-type]
        solution = method.solve(graph, RunContext(0))
        return solution.weights_kept / solution.weights_total

    free, some, all_but = (kept(l0_weight=w) for w in (0.0, 1.0, 1e6))
    assert all_but < some < free
    assert all_but < 0.1 + 0.2  # biases and shares are not masked


# GLNN


def test_distillation_by_hand() -> None:
    student, y = torch.zeros(2, 2), torch.tensor([0, 1])
    teacher = torch.tensor([[log(3.0), 0.0], [0.0, 0.0]])  # (3/4, 1/4) and (1/2, 1/2)
    labelled = torch.tensor([True, False])
    soft = (0.75 * log(1.5) + 0.25 * log(0.5)) / 2  # the mean over two nodes
    for hard, expected in ((0.0, soft), (0.25, 0.25 * log(2) + 0.75 * soft), (1.0, log(2))):
        assert float(
            distillation(student, teacher, y, labelled, hard=hard, temperature=1.0)
        ) == pytest.approx(expected)
    warm = distillation(
        student, 2 * teacher, y, labelled, hard=0.0, temperature=2.0
    )  # the same shares, times τ²
    assert float(warm) == pytest.approx(4 * soft)
    assert float(
        distillation(teacher, teacher, y, labelled, hard=0.0, temperature=1.0)
    ) == pytest.approx(0)


def test_glnn_needs_no_edge(make_graph: Maker) -> None:
    graph = make_graph()
    solution = Glnn(hidden=4, epochs=5, teacher_epochs=5).solve(graph, RunContext(0))
    assert (solution.edges_kept, solution.edges_total) == (0, graph.num_edges)
    other = make_graph(seed=1)
    assert not torch.equal(graph.edge_index, other.edge_index)
    without = predict(solution.model, solution.graph)
    assert torch.equal(predict(solution.model, graph), without)
    assert torch.equal(
        predict(solution.model, replace(graph, edge_index=other.edge_index)), without
    )


# All of them


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("kind", ["undirected", "directed", "weighted", "sparse"])
def test_finite_on_random_graphs_with_isolated_nodes(
    name: str, kind: str, make_graph: Maker
) -> None:
    graph = make_graph(
        seed=2, undirected=kind != "directed", weighted=kind == "weighted", sparse=kind == "sparse"
    )
    solution = SMALL[name].solve(graph, RunContext(0))
    assert predict(solution.model, solution.graph).isfinite().all()
    assert 0 <= solution.edges_kept <= solution.edges_total == graph.num_edges
    assert 0 < solution.weights_kept <= solution.weights_total
    assert solution.edges_kept == solution.graph.num_edges


@pytest.mark.parametrize("name", SMALL)
def test_equal_seeds_equal_results_and_test_labels_are_not_read(
    name: str, make_graph: Maker
) -> None:
    graph = make_graph(seed=3)
    garbage = replace(graph, y=torch.where(graph.test_mask, (graph.y + 1) % 3, graph.y))
    torch.manual_seed(1)
    first = SMALL[name].solve(graph, RunContext(7))
    torch.manual_seed(2)
    second = SMALL[name].solve(garbage, RunContext(7))
    assert torch.equal(weights(first.model), weights(second.model))
    assert torch.equal(first.graph.edge_index, second.graph.edge_index)
    assert first.accuracy["val"] == second.accuracy["val"]
    assert first.best_epoch == second.best_epoch
    third = SMALL[name].solve(graph, RunContext(8))
    assert weights(third.model).shape != weights(first.model).shape or not torch.equal(
        weights(third.model), weights(first.model)
    )


@pytest.mark.parametrize("name", ["ugs", "imp", "darts-ugs", "cgp", "earlybird", "hmnas"])
def test_pruned_weights_are_exactly_0(name: str, make_graph: Maker) -> None:
    solution = SMALL[name].solve(make_graph(seed=4), RunContext(0))
    model = solution.model
    assert isinstance(model, (Net, HmNet))
    pruned = 0
    for l, layer in enumerate(model.layers):
        keep = (
            model.get_buffer(f"weight_keep_{l}")
            if f"weight_keep_{l}" in dict(model.named_buffers())
            else None
        )
        if keep is not None:
            assert layer.weight[~keep].eq(0).all()
            pruned += int((~keep).sum())
    assert solution.weights_total - solution.weights_kept == pruned > 0


@pytest.mark.parametrize("name", SMALL)
def test_every_epoch_is_told_in_order(name: str, make_graph: Maker) -> None:
    told: list[Event] = []
    SMALL[name].solve(make_graph(), RunContext(0, on_event=told.append))
    assert [row["epoch"] for row in told] == list(range(1, len(told) + 1))
    assert len(told) >= 3


@pytest.mark.parametrize("name", SMALL)
def test_listed(name: str, path: Graph) -> None:
    entry = METHODS[name]
    assert entry.family == "lightweight"
    assert type(entry.make(path)) is type(SMALL[name])


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Ugs(edge_share=1.0), "edge_share is 1.0"),
        (lambda: Cgp(regrow=-0.1), "regrow is -0.1"),
        (lambda: EarlyBird(weight_share=2), "weight_share is 2"),
    ],
)
def test_a_share_that_is_none_is_named(make: Callable[[], object], named: str) -> None:
    with pytest.raises(GassipError, match=named):
        make()


def test_glnn_learns_from_the_tuned_gcn(make_graph: Maker) -> None:
    graph = make_graph()
    for name in ("cora", "citeseer", "pubmed", "photo", "physics", "coauthor-cs", "actor"):
        made = Glnn.for_graph(replace(graph, name=name))
        tuned = settings_for(name, "gcn")
        assert (made.teacher_hidden, made.teacher_dropout) == (tuned["hidden"], tuned["dropout"])
    assert Glnn.for_graph(replace(graph, name="citeseer-noise")).teacher_hidden == 256
    other = Glnn.for_graph(graph)
    assert (other.teacher_hidden, other.teacher_dropout, other.dropout) == (64, 0.8, 0.6)
