from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gassip.best.pipeline import search
from gassip.budget.cuts import best_units, cut_edges, cut_weights, ranks
from gassip.budget.fit import (
    MARGIN,
    Budget,
    Limits,
    check_possible,
    fit_budget,
    problems,
    read_amount,
    retrain_within,
    to_be,
)
from gassip.budget.limits import gcn64, in_runtime, limits
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, Net, net_for
from gassip.nn.size import count_macs, size_of
from gassip.operations import OPERATIONS
from gassip.paper.loop import step_weights
from gassip.paper.state import State
from gassip.settings import Settings
from gassip.train.plan import Plan
from gassip.train.trainer import planned_net, predict, retrain
from tests.small import inputs_of, with_recipe

OPS = tuple(OPERATIONS)
QUICK = Settings.of(hidden=8, epochs=2, warmup_epochs=1, retrain_epochs=2)


def found_on(
    graph: Graph, ops: tuple[str, ...], *, seed: int = 0, heads: int = 1, batch_norm: bool = False
) -> Plan:
    """What a search might hand over, with random weights and edge scores."""
    torch.manual_seed(seed)
    inner = len(ops) - 1
    shape = Architecture(
        ops=ops, hidden=(8,) * inner, heads=(heads,) * inner, batch_norm=batch_norm
    )
    net = net_for(graph, shape)
    weights = {name: value.detach().clone() for name, value in net.named_parameters()}
    per_pair = torch.rand(int(graph.pair.max()) + 1)
    return Plan(
        **inputs_of(QUICK.changed(edge_rule="budget")),
        architecture=shape,
        weight_keep=[torch.rand_like(layer.weight) < 0.6 for layer in net.layers],
        edge_keep=torch.ones(graph.num_edges, dtype=torch.bool),
        edge_mask=per_pair[graph.pair],
        first_weights=weights,
        last_weights=weights,
        history=[],
        seconds=0.0,
    )


@pytest.mark.parametrize(
    ("name", "given_amount", "expected"),
    [
        ("max_params", 1000, (1000.0, False)),
        ("max_params", "25%", (0.25, True)),
        ("max_params", "12.5 %", (0.125, True)),
        ("max_macs", "1e6", (1e6, False)),
        ("max_params", "1,500", (1500.0, False)),
        ("max_bytes", "100kB", (100_000.0, False)),
        ("max_bytes", "2MiB", (2.0 * 2**20, False)),
        ("max_latency_ms", "5ms", (5.0, False)),
        ("max_edges", None, None),
    ],
)
def test_amounts(
    name: str, given_amount: float | str | None, expected: tuple[float, bool] | None
) -> None:
    assert read_amount(name, given_amount) == expected


@pytest.mark.parametrize(
    "bad", ["", "many", "-1", "0", "0%", "nan", "inf", "1e999", "5 apples", "1.2.3", True, "50kB"]
)
def test_bad_amounts(bad: str) -> None:
    with pytest.raises(
        GassipError, match=r"--max-params is .*; expected a number above 0 or a share such as 25%"
    ):
        Budget(max_params=bad)


def test_an_empty_budget_is_false() -> None:
    assert not Budget() and Budget(max_edges="90%")


def test_shares_refer_to_gcn64_and_to_the_graphs_edges(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph()  # 6 features, 3 classes: 6·64 + 64 + 64·3 + 3 = 643
    bound = limits(Budget(max_params="50%", max_edges="25%"), graph)
    assert bound == Limits(params=321.5, edges=graph.num_edges / 4)
    assert sum(p.numel() for p in gcn64(graph).parameters()) == 643
    assert limits(Budget(max_latency_ms="100%"), graph).latency_ms > 0


def test_macs_by_hand(path: Graph) -> None:
    # 4 nodes, 4 directed edges; X = I is sparse only below a density of .15, so it is dense here: 4
    # · 4 values.
    # GCN 4 -> 3: 16·3 + (4 + 4)·3 = 72; batch norm 4·3 = 12; SAGE 3 -> 2, two matrices: 4·3·4 + 4·2
    # = 56; in all 140
    net = net_for(path, Architecture(ops=("GCNConv", "SAGEConv"), hidden=(3,), batch_norm=True))
    assert count_macs(net, path) == 140
    shape = Architecture(ops=("GCNConv", "SAGEConv"), hidden=(3,), layer_norm=True)
    assert count_macs(net_for(path, shape), path) == 140 + 3 * 12  # mean, variance, quotient
    # GAT alone 4 -> 2: 16·2 + (4 + 4)·2 + 2·4·2 + 6·(4 + 4) = 112; ARMA: 16·4 + 4·2 = 72; Linear:
    # 32
    alone = {op: count_macs(net_for(path, Architecture(ops=(op,), hidden=())), path) for op in OPS}
    for op, steps in {"APPNP10": 10, "APPNP5": 5, "Hops4": 4, "Hops2": 2}.items():
        assert alone.pop(op) == 32 + steps * (4 + 8) * 2
    # TAG of K hops: K + 1 matrices, then K steps over 4 edges
    for op, steps in {"TAG4": 4, "TAG3": 3, "TAG2": 2}.items():
        assert alone.pop(op) == (steps + 1) * 32 + steps * 4 * 2
    assert alone.pop("SkipGCN") == 2 * 32 + (4 + 4) * 2
    assert alone == {"GCNConv": 48, "GATConv": 112, "ArmaConv": 72, "SAGEConv": 72, "Linear": 32}
    scaled = net_for(path, Architecture(ops=("GCNConv",), hidden=(), standardised=True))
    assert count_macs(scaled, path) == 48 + 4 * 4  # each value of X once


def test_macs_count_only_the_columns_that_are_read(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(sparse=True, features=20)
    stored = graph.x.to_scipy().toarray() != 0  # type: ignore[union-attr]
    index = torch.tensor([0, 7, 19])
    net = net_for(graph, Architecture(ops=("Linear",), hidden=()), feature_index=index)
    assert count_macs(net, graph) == 3 * int(stored[:, index].sum())


def subset(small: Tensor, large: Tensor) -> bool:
    return set(small.tolist()) <= set(large.tolist())


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    ops=st.lists(st.sampled_from(OPS), min_size=2, max_size=3).map(tuple),
    heads=st.sampled_from([1, 2, 4]),
    shares=st.lists(st.floats(0, 1), min_size=2, max_size=2).map(sorted),
)
def test_a_smaller_share_lies_inside_a_larger(
    make_graph: Callable[..., Graph],
    seed: int,
    ops: tuple[str, ...],
    heads: int,
    shares: list[float],
) -> None:
    graph = make_graph(features=30)
    found = found_on(graph, ops, seed=seed, heads=heads)
    small, large = (cut_weights(found, share) for share in shares)
    everything = torch.arange(30)
    features = [everything if f.feature_index is None else f.feature_index for f in (small, large)]
    assert subset(*features)
    for l in range(len(ops)):  # the weights are all different numbers, so they name themselves
        name = f"layers.{l}.weight"
        assert subset(small.last_weights[name].flatten(), large.last_weights[name].flatten())


def test_ranks_by_hand(path: Graph) -> None:
    found = found_on(path, ("Linear", "Linear"))
    first, second = torch.zeros(4, 8), torch.zeros(8, 2)
    first[2, 0], first[2, 1], second[0, 0], second[1, 1] = 3.0, 4.0, 2.0, 0.5
    found = replace(found, last_weights={"layers.0.weight": first, "layers.1.weight": second})
    features, (units,) = ranks(found)
    assert features.tolist() == [0, 0, 5, 0]
    assert units.tolist() == [6, 2, 0, 0, 0, 0, 0, 0]


def test_whole_heads_go_before_units() -> None:
    score = torch.tensor([1.0, 2.0, 5.0, 0.0, 3.0, 3.0])  # heads of two: 3, 5, 6
    assert best_units(score, 5, 3).tolist() == [False, False, True, True, True, True]
    assert best_units(score, 2, 3).tolist() == [False, False, False, False, True, True]
    assert best_units(score, 1, 3).tolist() == [False, False, False, False, True, False]


@pytest.mark.parametrize("most", [0, 1, 7, 30])
def test_edges_are_cut_in_both_directions_lowest_first(
    make_graph: Callable[..., Graph], most: int
) -> None:
    graph = make_graph()
    found = found_on(graph, ("GCNConv", "Linear"))
    kept = cut_edges(graph, found, most).edge_keep
    assert most - 1 <= int(kept.sum()) <= most
    pairs = graph.pair[kept]
    assert (torch.bincount(pairs)[pairs] == 2).all()
    if kept.any():
        assert found.edge_mask[kept].min() >= found.edge_mask[~kept].max()


AMOUNT = st.one_of(st.none(), st.floats(1, 150).map(lambda p: f"{p:.3f}%"))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    ops=st.lists(st.sampled_from(OPS), min_size=1, max_size=3).map(tuple),
    heads=st.sampled_from([1, 2]),
    batch_norm=st.booleans(),
    sparse=st.booleans(),
    left=st.sampled_from([0, 0, 100, 150]),
    amounts=st.tuples(AMOUNT, AMOUNT, AMOUNT, AMOUNT),
)
def test_budgets_are_kept_or_refused(
    make_graph: Callable[..., Graph],
    seed: int,
    ops: tuple[str, ...],
    heads: int,
    batch_norm: bool,
    sparse: bool,
    left: int,
    amounts: tuple[str | None, str | None, str | None, str | None],
) -> None:
    graph = make_graph(seed, features=25, sparse=sparse)
    found = found_on(graph, ops, seed=seed, heads=heads, batch_norm=batch_norm)
    found = with_recipe(found, prune_to=left)
    params, edges, size, macs = amounts
    budget = Budget(max_params=params, max_edges=edges, max_bytes=size, max_macs=macs)
    bound = limits(budget, graph)
    try:
        _, solution = retrain_within(graph, found, budget)
    except GassipError as error:
        least = cut_weights(cut_edges(graph, found, 0), 0.0)
        smallest = size_of(planned_net(graph, least), graph.keep(least.edge_keep))
        assert "cannot be met on graph: the least is" in str(error)
        assert any(value > getattr(bound, name) for name, value in vars(smallest).items())
        return
    assert isinstance(solution.model, Net) and solution.size == size_of(
        solution.model, solution.graph
    )
    assert all(value <= getattr(bound, name) for name, value in vars(solution.size).items())
    assert problems(solution, bound) == []


def test_what_fits_is_left_alone_and_the_largest_is_taken(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(features=40)
    found = found_on(graph, ("GCNConv", "GCNConv"))
    assert fit_budget(graph, found, Budget(max_params=10_000)) is found
    sizes = [
        size_of(planned_net(graph, fit_budget(graph, found, Budget(max_params=n))), graph).params
        for n in (60, 200)
    ]
    assert 40 <= sizes[0] <= 60 and 160 <= sizes[1] <= 200


@pytest.mark.parametrize("rule", ["magnitude", "random"])
def test_a_net_that_is_pruned_while_it_trains_is_pruned_to_the_bound(
    make_graph: Callable[..., Graph], rule: Literal["magnitude", "random"]
) -> None:
    graph = make_graph(features=40)
    found = found_on(graph, ("SAGEConv", "SAGEConv"))
    found = with_recipe(found, prune_to=300, prune_rule=rule)
    assert sum(weight.numel() for weight in found.last_weights.values()) > 600
    assert fit_budget(graph, found, Budget(max_params=300)) is found  # it will fit
    fitted, solution = retrain_within(graph, found, Budget(max_params=150))
    assert isinstance(solution.model, Net) and solution.size is not None
    assert 0.9 * 150 <= solution.weights_kept <= 150 and solution.size.params <= 150
    assert (
        fitted.architecture.hidden[0] == 5 and fitted.feature_index is None
    )  # of 8: half, rounded up from 4.02
    dense = size_of(planned_net(graph, found), graph).bytes
    _, solution = retrain_within(graph, found, Budget(max_bytes=dense // 3))
    assert solution.size is not None and solution.size.bytes <= dense // 3
    macs = size_of(planned_net(graph, found), graph).macs
    narrow = fit_budget(
        graph, found, Budget(max_macs=macs // 2)
    )  # fewer weights do not save multiply-adds
    assert narrow.recipe.prune_to == 300 and narrow.architecture.hidden < found.architecture.hidden


def test_a_budget_of_time_is_kept(
    make_graph: Callable[..., Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "gassip.budget.fit.latency_ms", lambda net, own: count_macs(net, own) / 1e6
    )  # a calm machine
    graph = make_graph(nodes=3000, edges=9000, features=200, classes=3)
    shape = Architecture(ops=("GCNConv", "GCNConv"), hidden=(256,))
    net = net_for(graph, shape)
    weights = {name: value.detach().clone() for name, value in net.named_parameters()}
    found = replace(
        found_on(graph, ("GCNConv", "GCNConv")),
        architecture=shape,
        weight_keep=[torch.ones_like(layer.weight, dtype=torch.bool) for layer in net.layers],
        last_weights=weights,
        first_weights=weights,
    )
    whole = count_macs(net, graph) / 1e6
    _, solution = retrain_within(graph, found, Budget(max_latency_ms=whole / 3))
    assert isinstance(solution.model, Net)
    assert solution.model.architecture.hidden[0] < 256
    taken = count_macs(solution.model, solution.graph) / 1e6
    assert 0.95 * MARGIN * whole / 3 < taken <= MARGIN * whole / 3


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_time_is_measured_in_the_runtime_on_the_same_scores(
    make_graph: Callable[..., Graph], sparse: bool
) -> None:
    graph = make_graph(3, features=25, sparse=sparse, weighted=True)
    shape = Architecture(ops=("GATConv", "SAGEConv"), hidden=(6,), batch_norm=True)
    net = net_for(graph, shape, feature_index=torch.tensor([1, 4, 20])).eval()
    torch.testing.assert_close(
        torch.from_numpy(in_runtime(net, graph).scores()), predict(net, graph)
    )


def test_impossible_budgets_name_the_least(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph()
    found = found_on(graph, ("SAGEConv", "ArmaConv"))
    # one feature, one unit: 2 weights + 1 bias, then 2·3 + 3: 12
    with pytest.raises(
        GassipError,
        match=r"^--max-params 10 cannot be met on graph: the least is 12 \(SAGEConv ‖ Arma",
    ):
        fit_budget(graph, found, Budget(max_params=10))
    with pytest.raises(
        GassipError, match=r"--max-bytes 10B cannot be met on graph: the least is \d+"
    ):
        fit_budget(graph, found, Budget(max_bytes="10B"))
    with pytest.raises(
        GassipError, match=r"--max-latency-ms 1e-6 cannot be met on graph: the least is [0-9.]+"
    ):
        fit_budget(graph, found, Budget(max_latency_ms="1e-6"))
    # GCNConv, one matrix: 1 + 1, then 3 + 3: 8
    with pytest.raises(
        GassipError,
        match=r"--max-params 7 cannot be met on graph: the least is 8 \(GCNConv ‖ GCNConv",
    ):
        check_possible(graph, QUICK, Budget(max_params=7))
    check_possible(graph, QUICK, Budget(max_params=8))


@pytest.mark.parametrize("rule", ["score", "budget"])
def test_groups_end_in_whole_rows_and_columns(
    make_graph: Callable[..., Graph], rule: Literal["score", "budget"]
) -> None:
    graph = make_graph(features=20)
    settings = QUICK.changed(
        weight_groups="unit",
        weight_rule=rule,
        weight_share=0.25,
        score_mean=0.0,
        sampled_paths=1,
    )
    found = search(graph, settings)
    kept = 20 if found.feature_index is None else found.feature_index.numel()
    assert all(bool(keep.all()) for keep in found.weight_keep)  # what the groups cut is not there
    assert found.weight_keep[0].shape[0] == kept < 20 and found.architecture.hidden[0] < 8
    if rule == "budget":  # half the features times half the units
        assert (kept, found.architecture.hidden) == (10, (4,))
    solution = retrain(graph, found)
    assert solution.weights_kept == solution.weights_total


def test_group_scores_learn(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph()
    state = State(graph, QUICK.changed(weight_groups="unit").search)
    before = [score.detach().clone() for score in state.supernet.weight_scores]
    assert [list(score.shape) for score in before] == [[6], [5, 8]]  # features; operations × units
    step_weights(state)
    assert all(
        not torch.equal(a, b) for a, b in zip(before, state.supernet.weight_scores, strict=True)
    )


@pytest.mark.parametrize("form", ["sigmoid", "double"])
def test_group_mask_is_row_times_column(
    make_graph: Callable[..., Graph], form: Literal["sigmoid", "double"]
) -> None:
    state = State(make_graph(), QUICK.changed(weight_groups="unit", weight_form=form).search)
    net, scale = state.supernet, 2 if form == "double" else 1
    row, unit = (scale * torch.sigmoid(score) for score in net.weight_scores)
    masked, layer = net.masked_weights(form)[0], net.layers[0]
    for k in range(len(QUICK.search.ops)):
        part = layer.columns(k)
        matrices = (part.stop - part.start) // 8
        expected = layer.weight[:, part] * row.unsqueeze(1) * unit[k].repeat(matrices)
        torch.testing.assert_close(masked[:, part], expected)
    assert net.masked_weights(form)[1] is net.layers[1].weight  # the classes have no score


def test_bytes_of_a_pruned_net_are_bounded_whatever_is_left(
    make_graph: Callable[..., Graph],
) -> None:
    graph = make_graph(features=40)
    found = found_on(graph, ("GCNConv", "GCNConv"))
    found = replace(found, weight_keep=[torch.ones_like(keep) for keep in found.weight_keep])
    total = sum(weight.numel() for weight in found.last_weights.values())
    for left in (60, total // 2, total - 1):
        own = with_recipe(found, prune_to=left)
        most = to_be(graph, own)[2].bytes
        for seed in range(5):
            solution = retrain(graph, own, seed=seed)
            assert solution.size is not None and solution.size.bytes <= most


def test_fitting_is_no_matter_of_luck(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(features=40)
    found = found_on(graph, ("GCNConv", "GCNConv"))
    found = with_recipe(found, prune_to=200)
    fitted = []
    for seed in range(4):
        torch.manual_seed(seed)
        fitted.append(fit_budget(graph, found, Budget(max_bytes=1200)))
        assert torch.initial_seed() == seed
        drawn = torch.rand(1)
        torch.manual_seed(seed)
        assert torch.equal(drawn, torch.rand(1))  # the caller's random state is untouched
    assert len({(own.recipe.prune_to, own.architecture) for own in fitted}) == 1


def test_shares_refer_to_the_graph_as_it_is_read(make_graph: Callable[..., Graph]) -> None:
    given_graph = make_graph()
    low = given_graph.edge_index[0] < given_graph.edge_index[1]
    one_way = given_graph.keep(low)
    both = one_way.both_ways
    found = found_on(both, ("GCNConv", "GCNConv"))
    found = replace(found, symmetrised=True)
    assert (
        int(fit_budget(one_way, found, Budget(max_edges="100%")).edge_keep.sum()) == both.num_edges
    )
    _, solution = retrain_within(one_way, found, Budget(max_edges="50%"))
    assert both.num_edges // 2 - 1 <= solution.edges_kept <= both.num_edges // 2
