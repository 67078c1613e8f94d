import json
import random
from collections.abc import Callable
from dataclasses import replace
from math import exp, log

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, GINConv, GraphConv, JumpingKnowledge

from gassip.baselines import sane, sane_space
from gassip.baselines._shared import extra_ops
from gassip.baselines._shared.attention import VECTORS, attention_logits
from gassip.baselines._shared.controller import Controller, Draw, Reinforce
from gassip.baselines._shared.extra_ops import Op, edge_dot, edge_max, make_op, shares
from gassip.baselines._shared.trials import try_all
from gassip.baselines.autoattend import KINDS as ATTEND_KINDS
from gassip.baselines.autoattend import AutoAttend, Place, parts, places
from gassip.baselines.darts import UNMASKED, Darts
from gassip.baselines.darts_dropedge import DartsDropedge, drawn_edges
from gassip.baselines.exhaustive import Exhaustive, rank_of
from gassip.baselines.gassip import GassipMethod
from gassip.baselines.gasso import OPS as GASSO_OPS
from gassip.baselines.gasso import (
    Gasso,
    GassoNet,
    LinearGin,
    edge_differences,
    gasso_op,
    structure_loss,
)
from gassip.baselines.gauss import Gauss, GaussNet, floor_weight, importance, node_weights
from gassip.baselines.graphnas import (
    ACTIVATIONS,
    AGGREGATORS,
    ATTENTIONS,
    Attend,
    Block,
    Child,
    Graphnas,
)
from gassip.baselines.random_search import RandomSearch
from gassip.baselines.sane import Sane
from gassip.baselines.sane_space import Choices, Merge, SaneNet, highest, node_op
from gassip.best.pipeline import search
from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.methods import METHODS, Method
from gassip.nn.kernels import multiply
from gassip.nn.propagate import MaskedGraph, received
from gassip.operations import ALL_OPS
from gassip.settings import Settings
from gassip.train.context import Event, RunContext
from gassip.train.plan import Solution
from gassip.train.trainer import predict, seeded
from tests.conftest import random_graph

Make = Callable[..., Graph]
EXTRA = ("GINConv", "GraphConv", "GATv2Conv")
SHORT = {"hidden": 8, "epochs": 6, "warmup_epochs": 2, "retrain_epochs": 5}
MASKED, BARE = Settings.of(**SHORT), UNMASKED.changed(**SHORT)
FAST: dict[str, Callable[[], Method]] = {
    "darts": lambda: Darts(settings=BARE),
    "darts-dropedge": lambda: DartsDropedge(settings=BARE),
    "gassip": lambda: GassipMethod(settings=MASKED),
    "gassip-no-prune": lambda: GassipMethod(settings=MASKED.changed(prune=False)),
    "gassip-no-sparsify": lambda: GassipMethod(settings=MASKED.changed(sparsify=False)),
    "gassip-no-curriculum": lambda: GassipMethod(settings=MASKED.changed(curriculum=False)),
    "random-search": lambda: RandomSearch(count=3, trial_epochs=4, settings=BARE),
    "exhaustive": lambda: Exhaustive(
        settings=BARE.changed(ops=("GCNConv", "Linear")), trial_epochs=4
    ),
    "graphnas": lambda: Graphnas(children=5, child_epochs=3, epochs=4, max_width=128),
    "gasso": lambda: Gasso(hidden=8, epochs=8, warmup_epochs=3),
    "gauss": lambda: Gauss(
        hidden=8, epochs=8, warmup_epochs=3, controller_every=2, drawn=2, retrain_epochs=4
    ),
    "autoattend": lambda: AutoAttend(
        hidden=8, heads=2, search_epochs=6, population=4, generations=2, finalist_epochs=3, epochs=4
    ),
    "sane": lambda: Sane(layers=2, search_hidden=8, hidden=8, heads=2, search_epochs=3, epochs=4),
}


@pytest.fixture
def graph(make_graph: Make) -> Graph:
    return make_graph(2, nodes=36, edges=60)


def dense(graph: Graph) -> Tensor:
    assert isinstance(graph.x, Tensor)
    return graph.x


def same(a: Solution, b: Solution) -> None:
    torch.testing.assert_close(predict(a.model, a.graph), predict(b.model, b.graph), rtol=0, atol=0)
    assert (a.weights_kept, a.edges_kept, a.best_epoch) == (
        b.weights_kept,
        b.edges_kept,
        b.best_epoch,
    )
    assert a.accuracy["val"] == b.accuracy["val"]


# every method


def test_the_names_are_listed() -> None:
    assert set(FAST) <= set(METHODS)


@pytest.mark.parametrize("name", FAST)
def test_equal_seeds_and_garbage_test_labels(make_graph: Make, name: str) -> None:
    graph = make_graph(3, nodes=36, edges=50, isolated=6)
    garbage = torch.where(graph.test_mask, (graph.y + 1) % graph.num_classes, graph.y)
    first = FAST[name]().solve(graph, RunContext(4))
    again = FAST[name]().solve(replace(graph, y=garbage), RunContext(4))
    assert torch.isfinite(predict(first.model, first.graph)).all()
    same(first, again)
    json.dumps(first.details)
    assert first.details["architecture"] == again.details["architecture"]


@pytest.mark.parametrize("name", FAST)
def test_sparse_features_and_the_defaults_for_a_graph(make_graph: Make, name: str) -> None:
    graph = make_graph(1, nodes=36, features=30, sparse=True)
    assert type(METHODS[name].make(graph)) is type(FAST[name]())
    solution = FAST[name]().solve(graph, RunContext(0))
    assert solution.weights_kept <= solution.weights_total
    assert torch.isfinite(predict(solution.model, solution.graph)).all()


def test_ablations_switch_off_one_thing(graph: Graph) -> None:
    base = METHODS["gassip"].make(graph)
    assert isinstance(base, GassipMethod)
    for name in ("prune", "sparsify", "curriculum"):
        off = {name: False}
        switched = replace(base, settings=base.settings.changed(**off))
        assert METHODS[f"gassip-no-{name}"].make(graph) == switched


def test_gassip_is_search_then_retrain(graph: Graph) -> None:
    method = GassipMethod(settings=MASKED)
    found = method.search(graph, RunContext(5))
    expected = search(graph, MASKED, seed=5)
    torch.testing.assert_close(found.edge_mask, expected.edge_mask, rtol=0, atol=0)
    assert found.settings == MASKED
    same(method.solve(graph, RunContext(5)), method.solve_from(found, graph, RunContext(5)))


# DARTS


def test_darts_is_the_search_with_both_masks_off(graph: Graph) -> None:
    found = Darts(settings=BARE).search(graph, RunContext(1))
    expected = search(graph, MASKED.changed(prune=False, sparsify=False), seed=1)
    assert found.architecture == expected.architecture
    assert found.edge_keep.all() and all(keep.all() for keep in found.weight_keep)
    for name, value in expected.last_weights.items():
        torch.testing.assert_close(found.last_weights[name], value, rtol=0, atol=0)
    solution = Darts(settings=BARE).solve(graph, RunContext(1))
    assert (
        solution.edges_kept == graph.num_edges and solution.weights_kept == solution.weights_total
    )


def test_dropedge_draws_other_edges_in_every_epoch_and_retrains_on_all(graph: Graph) -> None:
    method = DartsDropedge(settings=BARE, keep=0.5)
    draws: list[Tensor] = []
    found = method.search(graph, RunContext(0), on_draw=draws.append)
    pairs = int(graph.pair.max()) + 1
    assert len(draws) == method.settings.search.epochs
    assert len({tuple(d.tolist()) for d in draws}) == method.settings.search.epochs
    for kept in draws:
        assert graph.pair[kept].unique().numel() == round(0.5 * pairs)
        assert kept.sum() == 2 * round(0.5 * pairs)  # both directions of an edge go together
    assert found.edge_keep.all()
    assert method.solve_from(found, graph, RunContext(0)).edges_kept == graph.num_edges


def test_dropedge_changes_what_the_weights_see(graph: Graph) -> None:
    whole = Darts(settings=BARE).search(graph, RunContext(0))
    part = DartsDropedge(settings=BARE).search(graph, RunContext(0))
    assert any(
        (whole.last_weights[k] - part.last_weights[k]).abs().max() > 1e-4
        for k in set(part.last_weights) & set(whole.last_weights)
    )
    with seeded(0, graph.device):
        assert drawn_edges(graph, 1.0).all()
    with pytest.raises(GassipError, match="keep is 0"):
        DartsDropedge(keep=0.0)


# random and exhaustive


def test_exhaustive_visits_all_25_once_and_ranks_by_validation(graph: Graph) -> None:
    method = Exhaustive(trial_epochs=1, settings=BARE)
    seen: list[Event] = []
    found = method.search(graph, RunContext(0, on_event=seen.append))
    assert (
        len(seen) == method.num_steps(graph) == 25
        and len({row["architecture"] for row in seen}) == 25
    )
    scores = [float(row["val_score"]) for row in found.history]
    assert scores == sorted(scores, reverse=True)
    best = max(seen, key=lambda row: (float(row["val_score"]), -float(row["val_loss"])))
    assert str(found.architecture) == best["architecture"]
    solution = method.solve_from(found, graph, RunContext(0))
    table = solution.details["trials"]
    assert isinstance(table, list) and len(table) == 25
    assert rank_of(str(found.architecture), table) == 1
    assert sorted(rank_of(str(row["architecture"]), table) for row in table) == list(range(1, 26))


def test_a_trial_is_what_the_final_training_repeats(graph: Graph) -> None:
    method = Exhaustive(settings=BARE.changed(ops=("GCNConv", "SAGEConv")), trial_epochs=5)
    solution = method.solve(graph, RunContext(3))
    table = solution.details["trials"]
    assert isinstance(table, list)
    assert solution.accuracy["val"] == table[0]["val_score"]


def test_random_search_draws_different_architectures_by_seed() -> None:
    method = RandomSearch(count=10)
    drawn = method.paths(0)
    assert len(set(drawn)) == 10 and all(op in ALL_OPS for ops in drawn for op in ops)
    assert drawn == method.paths(0) and drawn != method.paths(1)
    assert len(RandomSearch(count=99).paths(0)) == 25
    assert (
        len(RandomSearch(count=99, settings=UNMASKED.changed(layers=3, ops=ALL_OPS[:4])).paths(0))
        == 64
    )
    with pytest.raises(GassipError, match="count is 0"):
        RandomSearch(count=0)


def test_trials_are_sorted_by_score_then_loss(graph: Graph) -> None:
    paths = [("GCNConv", "GCNConv"), ("Linear", "Linear"), ("SAGEConv", "Linear")]
    trials = try_all(graph, Settings.of(hidden=8), paths, 8, seed=0, metric="accuracy")
    keys = [(-t.val_score, t.val_loss) for t in trials]
    assert keys == sorted(keys) and {t.ops for t in trials} == set(paths)


# the extra operations


def pyg_op(name: str, op: Op, width: int) -> nn.Module:
    """PyG's layer with the weights of ours."""
    if isinstance(op, extra_ops.Gin):
        first = nn.Linear(op.weight.shape[0], width)
        first.weight.data, first.bias.data = op.weight.data.t(), op.bias.data
        return GINConv(nn.Sequential(first, nn.ReLU(), op.second))
    if isinstance(op, extra_ops.GraphConv):
        layer = GraphConv(op.weight.shape[0], width)
        sent, own = op.weight.data.chunk(2, dim=1)
        layer.lin_rel.weight.data, layer.lin_root.weight.data, layer.lin_rel.bias.data = (
            sent.t(),
            own.t(),
            op.bias.data,
        )
        return layer
    assert isinstance(op, extra_ops.Gatv2)
    heads = op.vector.shape[0]
    layer = GATv2Conv(op.weight.shape[0], width // heads, heads=heads)
    sent, own = op.weight.data.chunk(2, dim=1)
    layer.lin_l.weight.data, layer.lin_r.weight.data = sent.t(), own.t()
    layer.lin_l.bias.data.zero_()
    layer.lin_r.bias.data.zero_()
    layer.att.data, layer.bias.data = op.vector.data.unsqueeze(0), op.bias.data
    return layer


@pytest.mark.parametrize("name", EXTRA)
@pytest.mark.parametrize("heads", [1, 2])
def test_extra_operations_equal_pyg(make_graph: Make, name: str, heads: int) -> None:
    graph = make_graph(5)
    with seeded(1, graph.device):
        op = make_op(name, 6, 4, heads)
        nn.init.normal_(op.get_parameter("bias"))
    expected = pyg_op(name, op, 4)(graph.x, graph.edge_index)
    torch.testing.assert_close(op(graph.x, MaskedGraph.of(graph)), expected, rtol=1e-4, atol=1e-5)


def propagators() -> list[tuple[str, Callable[[], nn.Module], int]]:
    """Everything that propagates, with its input width."""
    rows: list[tuple[str, Callable[[], nn.Module], int]] = []
    for name in EXTRA:
        rows.append((name, lambda n=name: make_op(n, 6, 8, 2), 6))  # type: ignore[misc]
    for name in sane_space.NODES:
        rows.append((f"sane {name}", lambda n=name: node_op(n, 6, 2), 6))  # type: ignore[misc]
    for attention in ATTENTIONS:
        for aggregator in AGGREGATORS:
            block = Block(attention, aggregator, "linear", 2, 3)
            make = lambda b=block: Attend(6, b, average=False, dropout=0.5)  # noqa: E731
            rows.append((f"graphnas {attention} {aggregator}", make, 6))
    return rows


ROWS = propagators()


@pytest.mark.parametrize(("name", "make", "width"), ROWS, ids=[row[0] for row in ROWS])
def test_mask_zero_is_edge_absent_and_gradients_are_right(
    make_graph: Make, name: str, make: Callable[[], nn.Module], width: int
) -> None:
    graph = make_graph(6, nodes=12, edges=20, features=width, weighted=True)
    with seeded(3, graph.device):
        op = make().double().eval()
        for parameter in op.parameters():
            nn.init.normal_(parameter, std=0.7)
    keep = torch.arange(graph.num_edges) % 3 != 0
    x = dense(graph).double()
    masked = MaskedGraph(graph.adjacency, (graph.weight * keep).double())
    part = graph.keep(keep)
    absent = MaskedGraph(part.adjacency, part.weight.double())
    torch.testing.assert_close(op(x, masked), op(x, absent))
    torch.autograd.gradcheck(lambda h: op(h, masked), (x.requires_grad_(),), atol=1e-4)
    values = [p for p in op.parameters() if p.requires_grad]
    direction = torch.randn_like(op(x, masked))
    grads = torch.autograd.grad((op(x, masked) * direction).sum(), values, allow_unused=True)
    check_slope(op, values, grads, lambda: float((op(x.detach(), masked) * direction).sum()))


def check_slope(
    op: nn.Module,
    values: list[nn.Parameter],
    grads: tuple[Tensor | None, ...],
    value: Callable[[], float],
) -> None:
    """The gradient of every parameter against a central difference in one random direction."""
    for parameter, grad in zip(values, grads, strict=True):
        towards = torch.randn_like(parameter)
        with torch.no_grad():
            parameter.add_(towards, alpha=1e-6)
            above = value()
            parameter.sub_(towards, alpha=2e-6)
            below = value()
            parameter.add_(towards, alpha=1e-6)
        slope = 0.0 if grad is None else float((grad * towards).sum())
        assert abs((above - below) / 2e-6 - slope) < 1e-4 * max(1.0, abs(slope))


def test_slices_do_not_change_anything(make_graph: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = make_graph(7)
    masked = MaskedGraph.of(graph)
    with seeded(0, graph.device):
        ops = [
            make_op("GATv2Conv", 6, 8, 2),
            node_op("sage-max", 6, 2),
            node_op("gat-gene-linear", 6, 2),
        ]
    whole = [
        torch.autograd.grad(op(graph.x, masked).square().sum(), list(op.parameters())) for op in ops
    ]
    monkeypatch.setattr(extra_ops, "SLICE", 16)
    sliced = [
        torch.autograd.grad(op(graph.x, masked).square().sum(), list(op.parameters())) for op in ops
    ]
    for a, b in zip(whole, sliced, strict=True):
        for left, right in zip(a, b, strict=True):
            torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)


def test_recomputing_does_not_change_a_gradient(
    make_graph: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make_graph(8)
    with seeded(0, graph.device):
        net = GassoNet(graph, 2, 8, 2, 0.0, 0.1)
    once = torch.autograd.grad(
        net.run(graph.x, MaskedGraph.of(graph)).square().sum(), list(net.parameters())
    )
    monkeypatch.setattr(extra_ops, "RECOMPUTE_FROM", 0)
    again = torch.autograd.grad(
        net.run(graph.x, MaskedGraph.of(graph)).square().sum(), list(net.parameters())
    )
    for left, right in zip(once, again, strict=True):
        torch.testing.assert_close(left, right)


def test_max_and_dot_by_hand(path: Graph) -> None:
    # edges 1→0, 0→1, 2→1, 1→2 with shares 1, 2, 3, 4; the node itself weighs 1; node 3 has only
    # itself
    masked = MaskedGraph.of(path)
    sent = torch.tensor([[1.0], [-2.0], [3.0], [-4.0]])
    share = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    out = edge_max(masked, sent, share, torch.ones(4, 1))
    # max(1, -2) = 1,  max(-2, 2·1, 3·3) = 9,  max(3, 4·-2) = 3,  -4
    assert out.flatten().tolist() == [1.0, 9.0, 3.0, -4.0]
    own = torch.tensor([[10.0], [20.0], [30.0], [40.0]])
    expected = [-20.0, 20.0, 60.0, -60.0]
    assert (
        edge_dot(path.adjacency, own.unsqueeze(1), sent.unsqueeze(1)).flatten().tolist() == expected
    )


def test_shares_by_hand(path: Graph) -> None:
    masked = MaskedGraph.of(path, torch.tensor([1.0, 0.0, 2.0, 1.0]))
    edge, own = shares(
        masked, torch.tensor([[log(3.0)], [500.0], [log(2.0)], [0.0]]), torch.zeros(4, 1)
    )
    # node 0: 3 / (3 + 1); node 1: edge absent, 2·2 / (2·2 + 1); node 2: 1 / 2; node 3: alone
    torch.testing.assert_close(edge.flatten(), torch.tensor([0.75, 0.0, 0.8, 0.5]))
    torch.testing.assert_close(own.flatten(), torch.tensor([0.25, 0.2, 0.5, 1.0]))


# GraphNAS


def test_the_controller_learns_a_toy_reward() -> None:
    """Reward 1 for the third of seven attentions, else 0: its probability rises above .8."""
    with seeded(0, torch.device("cpu")):
        controller = Controller(("attention", "heads"), {"attention": 7, "heads": 6})
        teacher = Reinforce(controller, lr=0.02, decay=0.95, entropy=1e-4)
        before = float((controller.draw(500).actions[:, 0] == 2).float().mean())
        for _ in range(300):
            draw = controller.draw(4)
            teacher.step(draw, (draw.actions[:, 0] == 2).float())
        after = float((controller.draw(500).actions[:, 0] == 2).float().mean())
    assert before < 0.3 and after > 0.8


def test_reinforce_by_hand() -> None:
    """b = mean reward at first, then .5 b + .5 R; the loss is -log p (R - b)."""
    controller = Controller(("a",), {"a": 2})
    teacher = Reinforce(controller, lr=0.0, decay=0.5, entropy=0.1)
    log_prob = torch.tensor([[-1.0], [-2.0]], requires_grad=True)
    teacher.step(
        Draw(torch.zeros(2, 1).long(), log_prob, torch.zeros(2, 1)), torch.tensor([1.0, 0.0])
    )
    assert teacher.baseline == 0.5
    assert log_prob.grad is not None
    torch.testing.assert_close(
        log_prob.grad, torch.tensor([[-0.25], [0.25]])
    )  # -(1 - .5) / 2, -(0 - .5) / 2
    again = torch.tensor([[-1.0]], requires_grad=True)
    teacher.step(Draw(torch.zeros(1, 1).long(), again, torch.ones(1, 1)), torch.tensor([1.0]))
    assert teacher.baseline == pytest.approx(0.8)  # .5 · .5 + .5 · (1 + .1)


def test_scores_of_the_controller_are_bounded() -> None:
    with seeded(0, torch.device("cpu")):
        controller = Controller(("a",), {"a": 3}, tanh_constant=2.5, temperature=5.0)
        controller.decoders["a"].bias.data.copy_(torch.tensor([1e6, -1e6, 0.0]))  # type: ignore[operator]
        nn.init.zeros_(controller.decoders["a"].weight)  # type: ignore[arg-type]
        draw = controller.draw(200)
    shares_ = torch.softmax(torch.tensor([2.5, -2.5, 0.0]), 0).log()
    torch.testing.assert_close(draw.log_prob.flatten(), shares_[draw.actions.flatten()])


def test_graphnas_layers_equal_pyg(make_graph: Make) -> None:
    graph = make_graph(4)
    with seeded(0, graph.device):
        gat = Attend(6, Block("gat", "sum", "linear", 2, 4), average=False, dropout=0.6).eval()
        gcn = Attend(6, Block("gcn", "sum", "relu", 1, 4), average=False, dropout=0.6).eval()
    assert gat.vectors is not None
    other = GATConv(6, 4, heads=2)
    other.lin.weight.data = gat.weight.data.t()
    other.att_src.data, other.att_dst.data = gat.vectors.data[:1], gat.vectors.data[1:]
    masked = MaskedGraph.of(graph)
    torch.testing.assert_close(
        gat(graph.x, masked), other(graph.x, graph.edge_index), rtol=1e-4, atol=1e-5
    )
    plain = GCNConv(6, 4)
    plain.lin.weight.data = gcn.weight.data.t()
    torch.testing.assert_close(
        gcn(graph.x, masked), plain(graph.x, graph.edge_index).relu(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("aggregator", ["mean", "max", "mlp"])
def test_pooling_equals_pooling_every_message(path: Graph, aggregator: str) -> None:
    with seeded(2, path.device):
        layer = Attend(4, Block("const", aggregator, "linear", 2, 3), average=False, dropout=0.0)
    assert layer.pool is not None
    product = (dense(path) @ layer.weight).view(4, 2, 3)
    message = layer.pool(product)  # [N, H, F / H]; every edge weighs 1
    senders = [[0, 1], [1, 0, 2], [2, 1], [3]]
    fold: dict[str, Callable[[Tensor], Tensor]] = {
        "mean": lambda m: m.mean(0),
        "mlp": lambda m: m.sum(0),
        "max": lambda m: m.max(0).values,
    }
    expected = torch.stack([fold[aggregator](message[near]).flatten() for near in senders])
    torch.testing.assert_close(layer(path.x, MaskedGraph.of(path)), expected)


def test_attention_kinds_by_hand(path: Graph) -> None:
    # P = (1, 2, 3, 4), s = 1, t = .5, v = 2; edges 1→0, 0→1, 2→1, 1→2
    product = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    vectors = torch.tensor([1.0, 0.5, 2.0]).view(3, 1, 1)
    masked = MaskedGraph.of(path)
    tanh = [torch.tanh(torch.tensor(v)).item() for v in (2.5, 2.0, 4.0, 3.5)]
    expected = {
        "gat": [2.5, 2.0, 4.0, 3.5],  # P_j + P_i / 2
        "sym-gat": [4.5, 4.5, 7.5, 7.5],  # plus P_i + P_j / 2
        "cos": [1.0, 1.0, 3.0, 3.0],  # P_i P_j / 2
        "linear": [torch.tanh(torch.tensor(v)).item() for v in (2.0, 1.0, 3.0, 2.0)],
        "gene-linear": [2 * v for v in tanh],
    }
    for kind, value in expected.items():
        edge, _ = attention_logits(kind, product, vectors, masked)
        torch.testing.assert_close(edge.flatten(), torch.tensor(value))


def test_children_have_what_the_controller_wrote(graph: Graph) -> None:
    method = Graphnas()
    blocks = method.blocks(graph, [2, 1, 7, 4, 1, 1, 0, 3, 0])
    assert str(blocks[0]) == "gat/mean/elu/8x8"
    assert blocks[1] == Block("gcn", "sum", "linear", 1, graph.num_classes)
    child = Child(graph.num_features, graph.num_classes, blocks, 0.6)
    assert child(graph.x, graph.edge_index).shape == (graph.num_nodes, graph.num_classes)
    # 6·64 + 64 bias + 2·64 attention + (8·128 + 128) + (128·8 + 8), then 64·3 + 3
    assert child.num_weights()[0] == 384 + 64 + 128 + 1152 + 1032 + 195
    assert len(ACTIVATIONS) == 8 and len(ATTENTIONS) == 7 and len(AGGREGATORS) == 4


def test_a_child_too_wide_earns_nothing(graph: Graph) -> None:
    wide = (Block("gcn", "sum", "relu", 16, 256), Block("gcn", "sum", "linear", 1, 3))
    assert Graphnas().reward(graph, wide, "accuracy") == (0.0, -torch.inf)


def test_graphnas_says_which_budget_it_had(graph: Graph) -> None:
    solution = Graphnas(children=2, child_epochs=3, epochs=4).solve(graph, RunContext(0))
    said = "reduced: 2 children of 3 epochs, at most 256 wide (published 1000 of 300, 4096)"
    assert solution.details["budget"] == said
    full = Graphnas(children=1000, child_epochs=300, max_width=4096)
    assert full.budget().startswith("published: 1000 children of 300 epochs")


# GASSO


def test_structure_loss_by_hand() -> None:
    # λ .6, scores 0 and ln 3 (σ = .5 and .75), differences 2 and 4: .6·(1 + 3) + (0 + ln² 3)
    scores = torch.tensor([[0.0, log(3.0)]])
    expected = 0.6 * 4 + log(3.0) ** 2
    assert float(structure_loss(scores, torch.tensor([2.0, 4.0]), 0.6)) == pytest.approx(
        expected, rel=1e-5
    )
    both = structure_loss(scores.repeat(2, 1), torch.tensor([2.0, 4.0]), 0.6)
    assert float(both) == pytest.approx(2 * expected, rel=1e-5)


def test_edge_differences_by_hand(path: Graph) -> None:
    z = torch.tensor([[0.0, 1.0], [2.0, 1.0], [2.0, 4.0], [9.0, 9.0]])
    torch.testing.assert_close(
        edge_differences(MaskedGraph.of(path), z), torch.tensor([4.0, 4.0, 9.0, 9.0])
    )


def test_gin_of_gasso_by_hand(path: Graph) -> None:
    # 0 - 1 - 2, every edge weighs .5: W (x_i + .5 Σ_j x_j) + b with W = 2, b = 1; 3 is alone
    op = gasso_op("GINConv", 1, 1, 1)
    assert isinstance(op, LinearGin)
    op.linear.weight.data.fill_(2.0)
    op.linear.bias.data.fill_(1.0)
    x = torch.tensor([[1.0], [3.0], [5.0], [7.0]])
    masked = MaskedGraph.of(path, torch.full((4,), 0.5))
    assert op(x, masked).squeeze(1).tolist() == [6.0, 13.0, 14.0, 15.0]


def test_gasso_counts_its_whole_supernet(graph: Graph) -> None:
    solution = Gasso(hidden=8, heads=2, epochs=3, warmup_epochs=1).solve(graph, RunContext(0))
    # operations of a layer d → f: gat d·f + f + 2f, gcn, gin and linear d·f + f, sage 2·d·f + f
    layer = lambda d, f: 6 * d * f + 7 * f  # noqa: E731
    expected = layer(6, 8) + layer(8, 3) + 2 * len(GASSO_OPS) + 2 * graph.num_edges
    assert solution.weights_kept == solution.weights_total == expected


def test_gasso_moves_alpha_and_edges_only_after_warm_up(graph: Graph) -> None:
    idle = Gasso(hidden=8, epochs=3, warmup_epochs=3).solve(graph, RunContext(0)).model
    moved = Gasso(hidden=8, epochs=12, warmup_epochs=1).solve(graph, RunContext(0)).model
    assert isinstance(idle, GassoNet) and isinstance(moved, GassoNet)
    assert (idle.edge_score == 1).all()
    other = Graph.build(
        graph.x,
        graph.edge_index[:, :8],
        graph.y,
        masks=(graph.train_mask, graph.val_mask, graph.test_mask),
    )
    with pytest.raises(GassipError, match="GASSO has weights for"):
        predict(moved, other)


def test_gasso_steps_edges_down_the_structure_loss(graph: Graph) -> None:
    from gassip.baselines.gasso import Steps

    settings = Gasso(hidden=8, warmup_epochs=0, dropout=0.0)
    with seeded(0, graph.device):
        net = GassoNet(graph, 2, 8, 2, 0.0, 0.1)
    masked = MaskedGraph.of(graph)
    with torch.no_grad():
        difference = edge_differences(masked, torch.log_softmax(net.run(graph.x, masked), 1))
    Steps(settings)(net, graph, masked, 1)
    # w = 1 - .04 (.6 d σ'(1) + 2)
    slope = exp(-1.0) / (1 + exp(-1.0)) ** 2
    expected = 1 - 0.04 * (0.6 * difference * slope + 2)
    torch.testing.assert_close(net.edge_score, expected.expand(2, -1))
    assert net.edge_score.shape == (2, graph.num_edges)


# GAUSS


def test_importance_by_hand() -> None:
    # 6 operations; even draws weigh 1; p = 1/2, 1/3: 1/(6·½) · 1/(6·⅓) = 1/6; p = 1/60 each: 100;
    # clipped to .5 and 2
    log_prob = torch.tensor([[1 / 6, 1 / 6], [1 / 2, 1 / 3], [1 / 60, 1 / 60]]).log()
    torch.testing.assert_close(importance(log_prob, 6, 0.0, 1e9), torch.tensor([1.0, 1 / 6, 100.0]))
    torch.testing.assert_close(importance(log_prob, 6, 0.5, 2.0), torch.tensor([1.0, 0.5, 2.0]))


def test_curriculum_of_gauss_by_hand() -> None:
    assert [floor_weight(t, 10, 0.2) for t in (0, 5, 10)] == pytest.approx([0.2, 0.6, 1.0])
    # 10 classes: the bar is 5/10 = .5; wrong with .9, wrong with .6, wrong but unsure, right and
    # sure
    chance = torch.full((4, 10), 0.0)
    for row, top in enumerate((0.9, 0.6, 0.3, 0.95)):
        chance[row] = (1 - top) / 9
        chance[row, 0] = top
    y = torch.tensor([1, 1, 1, 0])
    torch.testing.assert_close(
        node_weights(chance.log(), y, 0.25, 1.0), torch.tensor([0.25, 0.25, 1.0, 1.0])
    )
    torch.testing.assert_close(
        node_weights(chance.log(), y, 0.25, 0.25), torch.tensor([0.25, 1.0, 1.0, 1.0])
    )
    assert (
        node_weights(chance.log(), y, 0.25, 0.2).tolist() == [1.0] * 4
    )  # int(.2 · 4) = 0 may be lowered


def test_gauss_hands_over_a_net_of_its_operations(graph: Graph) -> None:
    method = Gauss(
        hidden=8, epochs=4, warmup_epochs=1, controller_every=1, drawn=2, retrain_epochs=3
    )
    solution = method.solve(graph, RunContext(0))
    scores = solution.details["supernet_scores"]
    assert isinstance(scores, dict) and len(scores) == 36
    assert scores[solution.details["architecture"]] == max(scores.values())
    assert isinstance(solution.model, GaussNet) and [len(ops) for ops in solution.model.layers] == [  # type: ignore[arg-type]
        1,
        1,
    ]
    few = replace(method, candidates=5).solve(graph, RunContext(0)).details["supernet_scores"]
    assert isinstance(few, dict) and 1 <= len(few) <= 5
    with pytest.raises(GassipError, match="the clip"):
        Gauss(min_clip=3.0)


# SANE


def test_layer_aggregators_by_hand() -> None:
    parts = [torch.tensor([[1.0, -2.0]]), torch.tensor([[0.0, 5.0]])]
    assert Merge("concat", 2, 2).gather(parts).tolist() == [[1.0, -2.0, 0.0, 5.0]]
    assert Merge("max", 2, 2).gather(parts).tolist() == [[1.0, 5.0]]
    merge = Merge("lstm", 2, 2)
    merge.attend.weight.data.zero_()  # every layer gets the same share: the mean
    torch.testing.assert_close(merge.gather(parts), torch.tensor([[0.5, 1.5]]))
    merge = Merge("max", 2, 2)
    merge.linear.weight.data, merge.linear.bias.data = torch.eye(2), torch.tensor([0.5, 0.0])
    low = [torch.tensor([[-1.0, -2.0]]), torch.tensor([[-3.0, 4.0]])]
    torch.testing.assert_close(merge(low), torch.tensor([[0.5, 4.0]]))  # ReLU, then Linear


def test_lstm_aggregator_equals_jumping_knowledge() -> None:
    with seeded(0, torch.device("cpu")):
        merge = Merge("lstm", 4, 3)
        parts = [torch.randn(5, 4) for _ in range(3)]
    jump = JumpingKnowledge("lstm", channels=4, num_layers=3)
    jump.lstm, jump.att = merge.lstm, merge.attend
    torch.testing.assert_close(merge.gather(parts), jump(parts))


def test_geniepath_equals_an_lstm_that_starts_empty(graph: Graph) -> None:
    with seeded(0, graph.device):
        op = sane_space.GeniePath(6, 4)
    lstm = nn.LSTM(4, 4, bias=False)
    enter, new, leave = op.gates.weight.data.chunk(3)
    lstm.weight_ih_l0.data = torch.cat(
        [enter, torch.zeros(4, 4), new, leave]
    )  # torch's order: i, f, g, o
    masked = MaskedGraph.of(graph)
    expected = lstm(torch.tanh(op.breadth(graph.x, masked)).unsqueeze(0))[0].squeeze(0)
    torch.testing.assert_close(op(graph.x, masked), expected)


def test_highest_takes_one_of_each_and_never_skips_everything() -> None:
    choices = Choices((("gcn", "gat"),) * 2, (("none", "skip"),) * 2, ("concat", "max"))
    scores = [
        torch.tensor([[1.0, 2.0], [3.0, 0.0]]),
        torch.tensor([[0.0, 1.0], [1.0, 0.0]]),
        torch.tensor([[0.0, 1.0]]),
    ]
    assert str(highest(choices, scores)) == "gat ‖ gcn ‖ skip ‖ none ‖ max"
    scores[1] = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    assert highest(choices, scores).skips == (("none",), ("skip",))


def test_a_decided_supernet_is_the_single_net(graph: Graph) -> None:
    """Scores of ±50 leave one candidate at each place; its weights in a net of its own give the
    same scores."""
    choices = Choices((sane_space.NODES,) * 2, (sane_space.SKIPS,) * 2, sane_space.MERGES)
    with seeded(0, graph.device):
        whole = SaneNet(graph, choices, 8, 2, 0.0)
    picks = [(4, 6), (0, 1), (1,)]
    scores = [zero - 50 for zero in whole.even()]
    for score, pick in zip(scores, picks, strict=True):
        for row, k in enumerate(pick):
            score[row, k] = 50
    single = SaneNet(graph, highest(choices, scores), 8, 2, 0.0)
    single.first.data, single.head = whole.first.data, whole.head
    for l, k in enumerate(picks[0]):
        single.layers[l][0].load_state_dict(whole.layers[l][k].state_dict())  # type: ignore[index]
    single.merges[0].load_state_dict(whole.merges[1].state_dict())
    masked = MaskedGraph.of(graph)
    torch.testing.assert_close(
        whole.mixture(graph.x, masked, scores), single.run(graph.x, masked), rtol=1e-4, atol=1e-5
    )


def test_sane_searches_on_validation_labels(graph: Graph) -> None:
    """Other validation labels lead the choices elsewhere; other test labels do not (checked for
    every method)."""
    method = Sane(layers=2, search_hidden=8, hidden=8, heads=2, search_epochs=10, lr_alpha=0.2)
    turned = replace(graph, y=torch.where(graph.val_mask, (graph.y + 1) % 3, graph.y))
    assert method.search_choices(graph, RunContext(0)) != method.search_choices(
        turned, RunContext(0)
    )
    with pytest.raises(GassipError, match="heads is 3"):
        Sane(heads=3)


def test_sane_keeps_the_best_of_its_candidates_on_validation(graph: Graph) -> None:
    small = {
        "layers": 2,
        "search_hidden": 8,
        "hidden": 8,
        "heads": 2,
        "search_epochs": 8,
        "lr_alpha": 0.5,
        "epochs": 3,
    }
    method = Sane(**small, candidates=4, candidate_epochs=5)  # type: ignore[arg-type]
    choices = method.search_choices(graph, RunContext(0))
    assert 1 < len(choices) <= 4 and len(set(choices)) == len(choices)
    details = method.solve(graph, RunContext(0)).details
    trials = details["trials"]
    assert isinstance(trials, dict) and set(trials) == {str(own) for own in choices}
    assert trials[details["architecture"]] == max(trials.values())


def test_sane_tunes_what_it_found_on_validation(graph: Graph) -> None:
    method = Sane(
        layers=2, search_hidden=8, hidden=8, heads=8, search_epochs=2, tunings=4, candidate_epochs=6
    )
    choices = method.search_choices(graph, RunContext(0))[0]
    best = method.tuned(graph, choices, RunContext(0))
    rng = random.Random(0)
    tried = [method, *(method.drawn(rng) for _ in range(4))]
    scores = [own.trained(graph, choices, 6, RunContext(0)).accuracy["val"] for own in tried]
    assert best in tried and scores[tried.index(best)] == max(scores)
    for own in tried[1:]:
        assert all(getattr(own, name) in values for name, values in sane.TUNED.items())
    assert replace(method, tunings=0).tuned(graph, choices, RunContext(0)).hidden == 8
    assert Sane(heads=32).drawn(rng).hidden % 32 == 0
    with pytest.raises(GassipError, match="tunings is -1"):
        Sane(tunings=-1)


def test_the_head_of_sane(graph: Graph) -> None:
    choices = Choices((("gcn",),), (("skip",),), ("concat",))
    plain, deep = (SaneNet(graph, choices, 8, 2, 0.0, head=kind) for kind in ("linear", "mlp"))
    # X → 8, GCN 8 → 8, merge 8 → 8, head 8 → 3, each with biases; the MLP has 8 → 8 more
    assert plain.num_weights()[0] == 56 + 72 + 72 + 27
    assert deep.num_weights()[0] == plain.num_weights()[0] + 72
    made = Sane(hidden=8, heads=2).trained(graph, choices, 1, RunContext(0)).model
    assert isinstance(made, SaneNet) and isinstance(made.head, nn.Linear)


def test_sane_counts_words_again_where_rows_were_divided() -> None:
    bags = random_graph(3, sparse=True)
    assert isinstance(bags.x, Csr) and bags.x.value is not None
    halves = replace(bags, x=bags.x.with_value(torch.full_like(bags.x.value, 0.5)))
    assert Sane().input_scale(halves) == pytest.approx(2.0)
    assert (
        Sane.published().input_scale(halves)
        == Sane().input_scale(random_graph(3, sparse=False))
        == 1.0
    )


# AutoAttend


def test_the_space_of_autoattend() -> None:
    assert [str(place) for place in places(1)] == [f"{kind}(0)·0" for kind in ATTEND_KINDS]
    # five kinds compare: 5 · 2 · 2 pairs of sources; mean and gcn: 2 · 2
    assert len(places(2)) == 24 and len(set(places(2))) == 24
    method = AutoAttend(layers=3)
    for seed in range(20):
        path = method.draw(random.Random(seed))
        for l, place in enumerate(path, 1):
            assert place.query < l and place.value < l


@pytest.mark.parametrize("kind", ["gat", "mean", "gcn"])
def test_paths_of_autoattend_are_known_layers(kind: str, graph: Graph) -> None:
    """(kind, 0, 0) is GAT's, SAGE's or GCN's sum; the paths of a supernet share its weights."""
    net = AutoAttend(hidden=8, heads=1).net(graph, AutoAttend(hidden=8, heads=1).options()).eval()
    net.path = (Place(kind, 0, 0), Place("gcn", 1, 1))
    masked = MaskedGraph.of(graph)
    with torch.no_grad():
        got = net.attend(0, net.path[0], [graph.x], masked)
        product = dense(graph) @ net.weights["value00"]
        if kind == "gcn":
            expected = received(masked, "gcn", product)
        elif kind == "mean":
            total = product + multiply(graph.adjacency, product, graph.weight)
            expected = total / (1 + masked.degree.unsqueeze(1))
        else:
            layer = GATConv(6, 8, bias=False)
            layer.lin.weight.copy_(net.weights["value00"].t())
            layer.att_src.copy_(net.vectors["gat0"][0])
            layer.att_dst.copy_(net.vectors["gat0"][1])
            expected = layer(dense(graph), graph.edge_index)
    torch.testing.assert_close(got, expected)


def test_a_found_path_has_its_own_weights_only(graph: Graph) -> None:
    method = AutoAttend(hidden=8, heads=2)
    path = (Place("gat", 0, 0), Place("cos", 0, 1))
    net = method.net(graph, [[place] for place in path])
    # value 6·8, 2·8 vectors, 8 biases; value 8·3 of h_1, query 6·3 of X, 2·3 vectors, 3 biases
    assert net.num_weights()[0] == 48 + 16 + 8 + 24 + 18 + 6 + 3
    assert net.path == path


def test_a_search_of_autoattend_trains_only_the_path_drawn(graph: Graph) -> None:
    method = AutoAttend(hidden=8, heads=2, search_epochs=1)
    with seeded(0, graph.device):
        before = method.net(graph, method.options()).state_dict()
    after = method.supernet(graph, RunContext(0))
    moved = {name for name, value in after.state_dict().items() if (value != before[name]).any()}
    used = {f"weights.{name}{l}{s}" for l, p in enumerate(after.path) for name, s in parts(p)}
    used |= {f"vectors.{p.kind}{l}" for l, p in enumerate(after.path) if p.kind in VECTORS}
    assert moved <= used | {"biases.0", "biases.1"} and "biases.1" in moved


def test_evolution_never_judges_a_path_twice_and_trains_the_best(graph: Graph) -> None:
    made = FAST["autoattend"]()
    assert isinstance(made, AutoAttend)
    solution = made.solve(graph, RunContext(0))
    trials = solution.details["trials"]
    assert isinstance(trials, dict) and len(trials) <= 5
    assert trials[solution.details["architecture"]] == max(trials.values())
    assert 4 <= int(str(solution.details["paths_seen"])) <= 12
    with pytest.raises(GassipError, match="does not divide hidden = 64"):
        AutoAttend(heads=5)
