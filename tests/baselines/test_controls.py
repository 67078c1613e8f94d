from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gassip.baselines.gassip import GassipMethod
from gassip.baselines.gassip_control import GassipControl
from gassip.baselines.magnitude import Magnitude, largest_weights
from gassip.baselines.random_edges import RandomEdges
from gassip.baselines.random_mask import RandomMask, random_keep
from gassip.baselines.small_gcn import SmallGcn
from gassip.bench.tuned import settings_for
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.graph.undirected import ends
from gassip.nn.net import Net
from gassip.train.context import Event, RunContext
from gassip.train.plan import Solution
from tests.conftest import random_graph


def zeros(solution: Solution) -> list[int]:
    assert isinstance(solution.model, Net)
    return [int((layer.weight == 0).sum()) for layer in solution.model.layers]


@given(st.floats(0, 1), st.integers(1, 9), st.integers(1, 9))
def test_random_keep_is_exact(share: float, rows: int, columns: int) -> None:
    keep = random_keep(torch.zeros(rows, columns), share)
    assert int((~keep).sum()) == round(share * rows * columns)


def test_random_mask_removes_its_share_and_the_zeros_stay(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(1)
    method = RandomMask(removed=0.5, hidden=8, epochs=10, lr=0.1)
    solution = method.solve(graph, RunContext(0))
    assert zeros(solution) == [6 * 8 // 2, 8 * 3 // 2]
    total = 6 * 8 + 8 + 8 * 3 + 3
    assert (solution.weights_kept, solution.weights_total) == (total - 36, total)
    again, other = method.net(graph), solution.model
    assert isinstance(other, Net)
    assert not torch.equal(again.get_buffer("weight_keep_0"), other.get_buffer("weight_keep_0"))
    assert solution.edges_kept == solution.edges_total == graph.num_edges


def test_random_edges_removes_its_share_of_undirected_edges(
    make_graph: Callable[..., Graph],
) -> None:
    graph = make_graph(2, edges=90)
    method = RandomEdges(removed=0.3, hidden=4, epochs=2)
    count = ends(graph).shape[1]
    solution = method.solve(graph, RunContext(3))
    assert solution.edges_kept == 2 * (count - round(0.3 * count)) == solution.graph.num_edges
    assert solution.edges_total == graph.num_edges
    edges = {(int(a), int(b)) for a, b in solution.graph.edge_index.T}
    assert edges == {(b, a) for a, b in edges}
    assert torch.equal(method.sparser(graph, 3).edge_index, solution.graph.edge_index)
    assert not torch.equal(method.sparser(graph, 4).edge_index, solution.graph.edge_index)


@pytest.mark.parametrize("method", [RandomMask, RandomEdges, Magnitude])
def test_shares_lie_between_0_and_1(method: type[RandomMask]) -> None:
    with pytest.raises(GassipError, match=r"removed is -0\.1; a share"):
        method(removed=-0.1)


def test_largest_weights_by_hand() -> None:
    # sizes 3, .1, 2 and .2, 1, .3: the three smallest of six go, wherever they are
    first, second = largest_weights(
        [torch.tensor([[3.0], [-0.1], [-2.0]]), torch.tensor([0.2, -1.0, 0.3])], 0.5
    )
    assert first.tolist() == [[True], [False], [True]]
    assert second.tolist() == [False, True, False]


def test_magnitude_keeps_the_largest_and_trains_on(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(5)
    log: list[Event] = []
    method = Magnitude(removed=0.75, hidden=8, epochs=6, tune_epochs=4)
    solution = method.solve(graph, RunContext(0, on_event=log.append))
    assert sum(zeros(solution)) == round(0.75 * (6 * 8 + 8 * 3))
    assert len(log) == 10
    assert solution.weights_total - solution.weights_kept == sum(zeros(solution))


def test_magnitude_prunes_the_trained_net(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(5)
    still = Magnitude(removed=0.5, hidden=8, epochs=6, tune_epochs=1, tune_lr=0.0, weight_decay=0.0)
    pruned = still.solve(graph, RunContext(0)).model
    dense = Magnitude(removed=0.0, hidden=8, epochs=6, tune_epochs=1, tune_lr=0.0, weight_decay=0.0)
    trained = dense.solve(graph, RunContext(0)).model
    assert isinstance(pruned, Net) and isinstance(trained, Net)
    sizes = torch.cat([layer.weight.abs().reshape(-1) for layer in trained.layers]).detach()
    kept = torch.cat([layer.weight.abs().reshape(-1) for layer in pruned.layers]).detach()
    assert torch.equal(kept.sort().values[36:], sizes.sort().values[36:])
    assert not kept.sort().values[:36].any()


@pytest.mark.parametrize("hidden", [4, 8, 16, 32])
def test_small_gcn_is_a_gcn_of_that_width(make_graph: Callable[..., Graph], hidden: int) -> None:
    solution = SmallGcn(hidden=hidden, epochs=1).solve(make_graph(0), RunContext(0))
    assert solution.weights_total == 6 * hidden + hidden + hidden * 3 + 3
    assert SmallGcn().hidden == 16


def test_controls_of_the_edge_mask_differ_in_edges_alone() -> None:
    graph, run = random_graph(0), RunContext(1)
    short = {"hidden": 4, "epochs": 3, "warmup_epochs": 1, "retrain_epochs": 3, "induced_from": 1}
    gassip = GassipMethod.for_graph(graph, "paper", **short)
    plan = gassip.search(graph, run)
    for edges, count in (("all", graph.num_edges), ("random", int(plan.edge_keep.sum()))):
        control = GassipControl(settings=gassip.settings, edges=edges)  # type: ignore[arg-type]
        other = control.search(graph, run)
        assert int(other.edge_keep.sum()) == count and not other.soft_edges
        assert other.architecture == plan.architecture
        for kept, as_found in zip(other.weight_keep, plan.weight_keep, strict=True):
            assert torch.equal(kept, as_found)
        assert control.solve_from(other, graph, run).edges_kept == count


def test_every_search_draws_another_random_cut() -> None:
    graph, run = random_graph(0, nodes=40, edges=200), RunContext(1)
    short = {"hidden": 4, "epochs": 3, "warmup_epochs": 1, "induced_from": 1, "edge_share": 0.5}
    settings = GassipMethod.for_graph(graph, "paper", **short).settings
    control = GassipControl(settings=settings, edges="random")
    plan = GassipMethod(settings=settings).search(graph, run)
    cuts = [control.after(plan, graph, seed).edge_keep for seed in (0, 1, 1)]
    assert torch.equal(cuts[1], cuts[2]) and not torch.equal(cuts[0], cuts[1])
    assert int(cuts[0].sum()) == int(cuts[1].sum())
    assert torch.equal(control.search(graph, run).edge_keep, cuts[1])


@pytest.mark.parametrize("method", [RandomMask, RandomEdges, Magnitude, SmallGcn])
def test_controls_train_at_the_dropout_of_the_tuned_gcn(
    make_graph: Callable[..., Graph], method: type[SmallGcn]
) -> None:
    tuned = settings_for("cora", "gcn")["dropout"]
    made = method.for_graph(make_graph(0))
    assert made.dropout == tuned == made.net(make_graph(0)).dropout
