from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse as sp
from torch import Tensor
from torch.testing import assert_close

from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.metrics import METRICS, Metric
from gassip.nn.dropout import DroppedRelu, kept
from gassip.nn.kernels import multiply, product
from gassip.nn.net import Architecture, Model, Net, net_for
from gassip.nn.propagate import MaskedGraph
from gassip.operations import OPERATIONS
from gassip.settings import Settings
from gassip.train.adam import Adam
from gassip.train.batched import batchable, copies_at_once, retrain_many, solve_many
from gassip.train.batched.copies import Copies
from gassip.train.batched.entries import Entries, Sparse
from gassip.train.batched.first_layer import SparseFirst
from gassip.train.batched.hops import repeated
from gassip.train.plan import Plan, Solution
from gassip.train.trainer import retrain, solve
from tests.conftest import random_graph
from tests.small import inputs_of

OPTIONS = {"epochs": 12, "lr": 0.03, "weight_decay": 1e-3}
SEEDS = (3, 4, 11)


def compare(
    graph: Graph, build: Callable[[], Model], metric: Metric = "accuracy"
) -> list[Solution]:
    """Batched and single runs agree; the batched ones are returned."""
    many = solve_many(graph, build, seeds=SEEDS, metric=metric, **OPTIONS)  # type: ignore[arg-type]
    for own, seed in zip(many, SEEDS, strict=True):
        single = solve(graph, build, seed=seed, metric=metric, **OPTIONS)  # type: ignore[arg-type]
        assert own.best_epoch == single.best_epoch
        assert own.scores["accuracy"] == single.scores["accuracy"]
        assert (own.weights_kept, own.edges_kept) == (single.weights_kept, single.edges_kept)
        for name, value in single.model.state_dict().items():
            if value.is_floating_point():
                assert_close(own.model.state_dict()[name], value, rtol=1e-3, atol=2e-5)
    return many


def builder(
    graph: Graph, *ops: str, dropout: float = 0.5, norm: str = "", heads: int = 1
) -> Callable[[], Net]:
    shape = Architecture(
        ops=ops,
        hidden=(8,) * (len(ops) - 1),
        heads=(heads,) * (len(ops) - 1),
        batch_norm=norm == "batch",
        layer_norm=norm == "layer",
    )
    return lambda: net_for(graph, shape, dropout)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("op", list(OPERATIONS))
def test_every_copy_ends_where_its_single_run_ends(op: str, sparse: bool) -> None:
    graph = random_graph(5, nodes=45, edges=90, features=40, sparse=sparse)
    assert isinstance(graph.x, Csr) == sparse
    many = compare(graph, builder(graph, op, op))
    first, second = (next(iter(own.model.parameters())) for own in many[:2])
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    "ops", [("Linear", "GCNConv"), ("GATConv", "Linear"), ("SAGEConv", "ArmaConv", "GCNConv")]
)
def test_mixed_layers_fields_of_other_depths(ops: tuple[str, ...]) -> None:
    graph = random_graph(6, nodes=60, edges=50, features=9, weighted=True, undirected=False)
    compare(graph, builder(graph, *ops, heads=2 if "GATConv" in ops else 1))


def test_batch_norm_reads_every_node() -> None:
    graph = random_graph(7, nodes=40, edges=60)
    net = builder(graph, "GCNConv", "SAGEConv", norm="batch")
    compare(graph, net)
    field = Copies([net()], [torch.Generator()], graph).field(graph.train_mask)
    assert field.nodes.numel() == graph.num_nodes


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("ops", [("SAGEConv",) * 4, ("Linear", "GATConv", "GCNConv")])
def test_layer_norm_reads_the_node_alone(ops: tuple[str, ...], sparse: bool) -> None:
    graph = random_graph(7, nodes=40, edges=60, isolated=4, sparse=sparse)
    net = builder(graph, *ops, norm="layer")
    compare(graph, net)
    copies, plain = (
        Copies([build()], [torch.Generator()], graph) for build in (net, builder(graph, *ops))
    )
    own = copies.field(graph.train_mask)
    assert torch.equal(own.nodes, plain.field(graph.train_mask).nodes)
    assert own.nodes.numel() < graph.num_nodes and not copies.running


def test_without_dropout() -> None:
    graph = random_graph(8, nodes=40, edges=60, features=30, sparse=True)
    compare(graph, builder(graph, "GCNConv", "GCNConv", dropout=0.0))


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric(metric: Metric) -> None:
    graph = random_graph(9, nodes=45, edges=60)
    compare(graph, builder(graph, "GCNConv", "GCNConv"), metric)


@given(st.integers(0, 1000), st.integers(0, 20), st.sampled_from(sorted(OPERATIONS)))
def test_on_random_graphs(seed: int, isolated: int, op: str) -> None:
    graph = random_graph(seed, nodes=36, edges=40, isolated=isolated)
    single = solve(
        graph, builder(graph, op, "GCNConv"), seed=1, epochs=3, lr=0.01, weight_decay=0.0
    )
    (many,) = solve_many(
        graph, builder(graph, op, "GCNConv"), seeds=[1], epochs=3, lr=0.01, weight_decay=0.0
    )
    for own, other in zip(many.model.parameters(), single.model.parameters(), strict=True):
        assert_close(own, other, rtol=1e-3, atol=1e-5)


def test_copies_may_have_different_weight_masks() -> None:
    graph = random_graph(5, nodes=45, edges=90)

    def build() -> Net:
        net = builder(graph, "GCNConv", "GCNConv")()
        net.prune([torch.rand(layer.weight.shape) < 0.5 for layer in net.layers])
        return net

    many = compare(graph, build)
    keeps = [own.model.weight_keep(0) for own in many if isinstance(own.model, Net)]
    assert (
        isinstance(keeps[0], Tensor)
        and isinstance(keeps[1], Tensor)
        and not torch.equal(keeps[0], keeps[1])
    )
    for own, keep in zip(many, keeps, strict=True):
        assert keep is not None
        assert torch.all(next(iter(own.model.parameters()))[~keep] == 0)


def test_retrain_many_is_retrain() -> None:
    graph = random_graph(2, nodes=36, edges=60)
    shape = Architecture(ops=("GCNConv", "SAGEConv"), hidden=(4,))
    layers = net_for(graph, shape).layers
    found = Plan(
        **inputs_of(Settings.of(retrain_epochs=4, hidden=4)),
        architecture=shape,
        weight_keep=[
            torch.arange(own.weight.numel()).view_as(own.weight) % 3 > 0 for own in layers
        ],
        edge_keep=torch.arange(graph.num_edges) % 2 == 0,
        edge_mask=torch.linspace(0, 1, graph.num_edges),
        first_weights={},
        last_weights={},
        history=[],
        seconds=0.0,
    )
    many = retrain_many(graph, found, seeds=(0, 5))
    for own, seed in zip(many, (0, 5), strict=True):
        single = retrain(graph, found, seed=seed)
        assert (own.edges_kept, own.edges_total) == (single.edges_kept, single.edges_total)
        assert (own.best_epoch, own.accuracy) == (single.best_epoch, single.accuracy)


def test_what_is_no_net_is_trained_by_single_runs() -> None:
    graph = random_graph(3)

    class Own(Net):
        pass

    def build() -> Own:
        return Own(
            graph.num_features, graph.num_classes, Architecture(ops=("GCNConv",), hidden=()), 0.5
        )

    assert not batchable(build(), graph)
    many = solve_many(graph, build, seeds=(0, 1), **OPTIONS)  # type: ignore[arg-type]
    again = [solve(graph, build, seed=seed, **OPTIONS) for seed in (0, 1)]  # type: ignore[arg-type]
    assert [own.scores for own in many] == [own.scores for own in again]


def test_many_copies_are_trained_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(3)
    build = builder(graph, "GCNConv", "GCNConv")
    whole = solve_many(graph, build, seeds=range(5), **OPTIONS)  # type: ignore[arg-type]
    monkeypatch.setattr("gassip.train.batched.many.AT_ONCE", 2 * 8 * graph.num_nodes)
    assert copies_at_once(build(), graph) == 2
    parts = solve_many(graph, build, seeds=range(5), **OPTIONS)  # type: ignore[arg-type]
    assert [own.best_epoch for own in parts] == [own.best_epoch for own in whole]


def test_test_labels_change_nothing() -> None:
    graph = random_graph(4, nodes=45)
    garbage = replace(graph, y=torch.where(graph.test_mask, 0, graph.y))
    build = builder(graph, "GCNConv", "GCNConv")
    one, two = (solve_many(own, build, seeds=SEEDS, **OPTIONS) for own in (graph, garbage))  # type: ignore[arg-type]
    assert [own.accuracy["val"] for own in one] == [own.accuracy["val"] for own in two]
    assert torch.equal(next(iter(one[0].model.parameters())), next(iter(two[0].model.parameters())))


def test_a_field_holds_the_targets_and_two_hops(path: Graph) -> None:
    """Path 0 - 1 - 2, node 3 apart; the targets are 0 and 1 (training): one hop adds 2, two add
    nothing."""
    net = builder(path, "GCNConv", "GCNConv")()
    field = Copies([net], [torch.Generator()], path).field(path.train_mask)
    assert field.nodes.tolist() == [0, 1, 2]
    assert [(hop.nodes_in, hop.nodes_out) for hop in field.hops] == [(3, 3), (3, 2)]
    edge, own = MaskedGraph.of(path).gcn
    dense = torch.zeros(4, 4).index_put_(
        (path.edge_index[1], path.edge_index[0]), edge
    ) + torch.diag(own.squeeze(1))
    assert_close(torch.from_numpy(field.hops[1].pattern.to_scipy().toarray()), dense[:2, :3])


def test_repeated_is_block_diagonal() -> None:
    dense = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
    many = repeated(Csr.from_scipy(dense.to_sparse_csr().to_dense().numpy()), 3)
    blocks = torch.block_diag(dense, dense, dense)
    assert_close(torch.from_numpy(many.to_scipy().toarray()), blocks)
    right = torch.randn(9, 2, requires_grad=True)
    out = multiply(many, right)
    assert_close(out, blocks @ right)
    (grad,) = torch.autograd.grad(out.square().sum(), right)
    assert_close(grad, 2 * blocks.T @ (blocks @ right))


@pytest.mark.parametrize("shape", [(5, 4, 3), (5, 4, 20)])
def test_product_is_the_plain_one(shape: tuple[int, int, int]) -> None:
    n, k, f = shape
    x, w = torch.randn(n, k, dtype=torch.float64), torch.randn(k, f, dtype=torch.float64)
    x, w = x.requires_grad_(), w.requires_grad_()
    assert_close(product(x, w), x @ w)
    assert torch.autograd.gradcheck(product, (x, w))
    stacked = torch.randn(2, n, k, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(2, k, f, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(product, (stacked, weights))


def random_csr(rows: int, columns: int, seed: int) -> Csr:
    generator = torch.Generator().manual_seed(seed)
    dense = torch.randn(rows, columns, generator=generator)
    return Csr.from_scipy(sp.csr_array(torch.where(dense > 0.3, dense, 0).numpy()))


def dense_of(entries: Entries, shape: tuple[int, int]) -> Tensor:
    return torch.from_numpy(
        Csr(entries.rowptr, entries.col, entries.value, shape).to_scipy().toarray()
    )


@given(st.integers(0, 999), st.sampled_from([0.2, 0.5, 0.8, 1.0]))
def test_the_kept_entries_are_those_of_plain_dropout(seed: int, p: float) -> None:
    x, nodes = random_csr(7, 5, seed), torch.tensor([6, 0, 3])
    bits = torch.randint(-(2**7), 2**7, (x.nnz,), dtype=torch.int8)
    assert x.value is not None
    expected = torch.from_numpy(
        x.with_value(x.value * kept(bits, p, torch.float32)).to_scipy().toarray()
    )[nodes]
    own = Sparse.of(x, nodes).dropped(bits, p)
    assert_close(dense_of(own, (3, 5)), expected)
    right, frame = torch.randn(3, 2), sp.csc_array((5, 3), dtype="float32")
    assert_close(own.transposed_times(right, frame), expected.T @ right)


@pytest.mark.parametrize("pruned", [True, False])
@pytest.mark.parametrize("op", ["GCNConv", "SAGEConv"])
def test_the_first_layer_and_its_gradient_are_the_dense_ones(op: str, pruned: bool) -> None:
    graph = random_graph(5, nodes=45, edges=90, features=40, sparse=True)
    nets = [builder(graph, op, "GCNConv", dropout=0.0)() for _ in range(2)]
    for net in nets if pruned else []:
        net.prune([torch.rand(layer.weight.shape) < 0.5 for layer in net.layers])
    copies = Copies(nets, [torch.Generator()] * 2, graph)
    field = copies.field(graph.train_mask)
    first, hop = SparseFirst(copies, field, field, Adam(0.01, 0.0)), field.hops[0]
    out = first.opening().detach()
    assert isinstance(graph.x, Csr)
    x = torch.from_numpy(graph.x.to_scipy().toarray())[field.nodes]
    a = torch.from_numpy(hop.pattern.to_scipy().toarray())
    grad = torch.randn(2, *first.leaf.shape[1:])
    for r, net in enumerate(nets):
        weight = net.weight(0).detach().requires_grad_()
        products = x @ weight
        plain = a @ products + net.layers[0].bias if op == "GCNConv" else products
        y = (
            plain
            if op == "GCNConv"
            else a @ products[:, :8] + products[: hop.nodes_out, 8:] + net.layers[0].bias
        )
        assert_close(out[r], y.detach())
        (expected,) = torch.autograd.grad((plain * grad[r]).sum(), weight)
        keep = net.weight_keep(0)
        assert_close(first.gradient(r, grad[r]), expected if keep is None else expected * keep)


def test_adam_is_that_of_torch() -> None:
    weights, grads = [torch.randn(4, 3), torch.randn(5)], [torch.randn(4, 3), torch.randn(5)]
    plain = [weight.clone().requires_grad_() for weight in weights]
    optimizer, step = (
        torch.optim.Adam(plain, lr=0.03, weight_decay=1e-2),
        Adam(0.03, 1e-2).of(weights),
    )
    for _ in range(3):
        step(grads)
        for own, grad in zip(plain, grads, strict=True):
            own.grad = grad
        optimizer.step()
    for own, weight in zip(plain, weights, strict=True):
        assert_close(own.detach(), weight)


def test_relu_and_dropout_in_one() -> None:
    h = torch.tensor([-1.0, 2.0, 3.0, -4.0], requires_grad=True)
    bits = torch.tensor([127, 127, -128, -128], dtype=torch.int8)  # kept, kept, dropped, dropped
    out = DroppedRelu.apply(h, bits, 0.75)
    assert out.tolist() == [0.0, 8.0, 0.0, 0.0]
    out.sum().backward()
    assert h.grad is not None and h.grad.tolist() == [0.0, 4.0, 0.0, 0.0]


def test_propagation_comes_first_where_few_nodes_are_asked_for(path: Graph) -> None:
    """3 nodes in, 2 out, 5 entries (0-0, 0-1, 1-0, 1-1, 1-2): 5 K + 2 K F against 3 K F + 5 F
    multiplications."""
    net = builder(path, "GCNConv", "GCNConv")()
    hop = Copies([net], [torch.Generator()], path).field(path.train_mask).hops[1]
    assert hop.pattern.nnz == 5
    assert hop.less_work_first(4, 7) and not hop.less_work_first(4, 1)  # 76 < 119; 28 > 17
