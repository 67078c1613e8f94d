from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from scipy import sparse as sp
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.nn import LayerNorm

from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, Layer, Net, dense_of, net_for
from gassip.nn.propagate import MaskedGraph, propagate
from gassip.operations import OPERATIONS
from gassip.train.trainer import predict, train
from tests.conftest import random_graph

OPS = tuple(OPERATIONS)


def layers_of(net: Net) -> list[Layer]:
    return [layer for layer in net.layers if isinstance(layer, Layer)]


def two_layers(op: str = "GCNConv", *, heads: int = 1, batch_norm: bool = False) -> Architecture:
    return Architecture(ops=(op, "SAGEConv"), hidden=(4,), heads=(heads,), batch_norm=batch_norm)


@pytest.fixture
def graph(make_graph: Callable[..., Graph]) -> Graph:
    return make_graph(0, weighted=True)


def dense_x(graph: Graph) -> Tensor:
    assert isinstance(graph.x, Tensor)
    return graph.x


@pytest.mark.parametrize("op", OPS)
def test_called_like_a_pyg_model(graph: Graph, op: str) -> None:
    """Edges in any order and with self-loops give what the sorted graph gives."""
    torch.manual_seed(0)
    net = net_for(graph, two_layers(op, heads=2)).eval()
    order = torch.randperm(graph.num_edges)
    loops = torch.arange(3).repeat(2, 1)
    shuffled = torch.cat([loops, graph.edge_index[:, order]], 1)
    weight = torch.cat([torch.full((3,), 9.0), graph.weight[order]])
    torch.testing.assert_close(net(graph.x, shuffled, weight), predict(net, graph))


@pytest.mark.parametrize("op", OPS)
def test_dense_and_csr_features_agree(make_graph: Callable[..., Graph], op: str) -> None:
    graph = make_graph(1, sparse=True)
    assert isinstance(graph.x, Csr)
    net = net_for(graph, two_layers(op))
    dense = torch.from_numpy(graph.x.to_scipy().toarray())
    from_csr, from_dense = net(graph.x, graph.edge_index), net(dense, graph.edge_index)
    torch.testing.assert_close(from_csr, from_dense)
    by_csr = torch.autograd.grad(from_csr.square().sum(), layers_of(net)[0].weight)[0]
    torch.testing.assert_close(
        by_csr, torch.autograd.grad(from_dense.square().sum(), layers_of(net)[0].weight)[0]
    )


def test_no_edge_weight_means_ones(graph: Graph) -> None:
    net = net_for(graph, two_layers())
    ones = torch.ones(graph.num_edges)
    torch.testing.assert_close(net(graph.x, graph.edge_index), net(graph.x, graph.edge_index, ones))


def test_another_graph_is_sorted_anew(graph: Graph, make_graph: Callable[..., Graph]) -> None:
    net, other = net_for(graph, two_layers()), make_graph(9)
    first = net(graph.x, graph.edge_index)
    second = net(graph.x, other.edge_index)
    assert not torch.allclose(first, second)
    torch.testing.assert_close(second, net(graph.x, other.edge_index.clone()))


def test_the_same_edges_under_more_nodes(graph: Graph) -> None:
    net, x = net_for(graph, two_layers()), dense_x(graph)
    fewer = net(x, graph.edge_index)
    more = net(
        torch.cat([x, torch.ones(2, x.shape[1])]), graph.edge_index
    )  # two more isolated nodes
    torch.testing.assert_close(more[: len(x)], fewer)


def test_edge_weights_can_be_learnt_outside(graph: Graph) -> None:
    """Two steps on the same tensors: the second sees the new weights and has a graph of its own."""
    net = net_for(graph, two_layers())
    weight = graph.weight.clone().requires_grad_()
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(graph.x, graph.edge_index, weight).square().sum().backward()
        optimizer.step()
    expected = net(graph.x, graph.edge_index, weight.detach().clone())
    torch.testing.assert_close(net(graph.x, graph.edge_index, weight), expected)


def test_training_after_inference_mode(graph: Graph) -> None:
    net = net_for(graph, two_layers("GATConv"))
    with torch.inference_mode():
        net(graph.x, graph.edge_index, graph.weight)
    net(graph.x, graph.edge_index, graph.weight).sum().backward()
    gradient = layers_of(net)[0].weight.grad
    assert gradient is not None and gradient.isfinite().all()


def test_layers_relu_between_by_hand(path: Graph) -> None:
    # Linear ‖ Linear on X = I: relu(W1 + b1) W2 + b2, row by row
    net = Net(4, 2, Architecture(ops=("Linear", "Linear"), hidden=(1,)))
    layers_of(net)[0].weight.data = torch.tensor([[1.0], [-2.0], [3.0], [0.0]])
    layers_of(net)[0].bias.data = torch.tensor([[1.0]])
    layers_of(net)[1].weight.data = torch.tensor([[10.0, 1.0]])
    layers_of(net)[1].bias.data = torch.tensor([[0.0, 5.0]])
    # hidden: relu(2, -1, 4, 1) = (2, 0, 4, 1)
    expected = torch.tensor([[20.0, 7.0], [0.0, 5.0], [40.0, 9.0], [10.0, 6.0]])
    torch.testing.assert_close(net(path.x, path.edge_index), expected)


def test_pruned_weights_stay_exactly_zero(graph: Graph) -> None:
    torch.manual_seed(1)
    net = net_for(graph, two_layers("ArmaConv"), dropout=0.3)
    keeps = [torch.rand_like(layer.weight) < 0.5 for layer in layers_of(net)]
    net.prune(keeps)
    before = [layer.weight.detach().clone() for layer in layers_of(net)]
    train(net, graph, epochs=5, lr=0.05, weight_decay=1e-3)
    for layer, keep, start in zip(layers_of(net), keeps, before, strict=True):
        assert (start[~keep] == 0).all() and (layer.weight[~keep] == 0).all()
        assert (layer.weight[keep] != start[keep]).any()


def test_pruned_weights_are_not_used_even_if_written(graph: Graph) -> None:
    net = net_for(graph, two_layers())
    net.prune([torch.zeros_like(layer.weight) for layer in layers_of(net)])
    with torch.no_grad():
        layers_of(net)[0].weight.fill_(3.0)
    assert torch.equal(
        net(graph.x, graph.edge_index), layers_of(net)[1].bias.expand(graph.num_nodes, -1)
    )


def test_num_weights_by_hand() -> None:
    # GAT 5 -> 4, two heads: 20 + bias 4 + attention 2·4; batch norm 4 + 4; SAGE 4 -> 3: 2·12 + bias
    # 3; in all 67
    net = Net(5, 3, two_layers("GATConv", heads=2, batch_norm=True))
    assert net.num_weights() == (67, 67)
    first = torch.ones(5, 4)
    first[0] = 0  # 4 go
    second = torch.ones(4, 6)
    second[:, 0] = 0  # 4 go
    net.prune([first, second])
    assert net.num_weights() == (59, 67)
    shape = replace(two_layers("GATConv", heads=2), layer_norm=True)
    assert Net(5, 3, shape).num_weights() == (67, 67)  # gain 4 and bias 4


def test_architecture_reads_well() -> None:
    architecture = Architecture(ops=("GCNConv", "Linear", "GATConv"), hidden=(8, 6))
    assert str(architecture) == "GCNConv ‖ Linear ‖ GATConv"
    assert architecture.widths(20, 3) == [(20, 8), (8, 6), (6, 3)]
    assert Architecture(ops=("Linear",), hidden=()).widths(20, 3) == [(20, 3)]


def test_glorot_start_with_gain() -> None:
    torch.manual_seed(0)
    layer = Layer(100, 50, OPS)
    layer.reset(gain=2.0)
    bound = 2 * (6 / 150) ** 0.5  # of each matrix, not of all side by side
    assert bound * 0.99 < layer.weight.abs().max() <= bound
    assert (layer.bias == 0).all()
    assert [layer.columns(k) for k in range(5)] == [
        slice(0, 50),
        slice(50, 100),
        slice(100, 200),
        slice(200, 300),
        slice(300, 350),
    ]


def test_batch_norm_before_every_layer_but_the_first(graph: Graph) -> None:
    torch.manual_seed(0)
    net = net_for(graph, two_layers("Linear", batch_norm=True))
    assert len(net.norms) == 1
    hidden = F.relu(dense_x(graph) @ layers_of(net)[0].weight)
    normed = (hidden - hidden.mean(0)) / (hidden.var(0, correction=0) + 1e-5).sqrt()
    by_hand = propagate(
        OPERATIONS["SAGEConv"],
        MaskedGraph.of(graph),
        list((normed @ layers_of(net)[1].weight).split(3, 1)),
        None,
    )
    torch.testing.assert_close(net.run(graph.x, MaskedGraph.of(graph)), by_hand)
    running = net.norms[0].running_mean
    assert isinstance(running, Tensor)
    torch.testing.assert_close(running, 0.1 * hidden.mean(0).detach())  # torch's momentum


def layer_normed_path() -> tuple[Net, Tensor, Tensor]:
    """Linear, then SAGEConv behind a layer norm, on the path 0 - 1 - 2."""
    net = Net(1, 1, Architecture(ops=("Linear", "SAGEConv"), hidden=(2,), layer_norm=True)).eval()
    net.load_state_dict(
        {
            "layers.0.weight": torch.tensor([[1.0, 3.0]]),
            "layers.0.bias": torch.zeros(1, 2),
            "norms.0.weight": torch.tensor([2.0, 1.0]),
            "norms.0.bias": torch.tensor([0.0, 1.0]),
            "layers.1.weight": torch.eye(2),  # neighbours by unit 0, the node itself by unit 1
            "layers.1.bias": torch.zeros(1, 1),
        }
    )
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    return net, torch.tensor([[1.0], [2.0], [-1.0]]), edges


def test_layer_norm_by_hand() -> None:
    # ReLU(x W) = (1, 3), (2, 6), (0, 0): means 2, 4, 0 and deviations 1, 2, 0, so standardised
    # (-1, 1), (-1, 1), (0, 0); with gain (2, 1) and bias (0, 1): (-2, 2), (-2, 2), (0, 1);
    # neighbours by unit 0: -2, (-2 + 0) / 2, -2; the node itself by unit 1: 2, 2, 1
    net, x, edges = layer_normed_path()
    expected = torch.tensor([[0.0], [1.0], [-1.0]])
    torch.testing.assert_close(net(x, edges), expected, rtol=0, atol=1e-4)


def test_layer_norm_is_that_of_torch_and_of_pyg(graph: Graph) -> None:
    shape = Architecture(ops=("GCNConv", "GATConv", "Linear"), hidden=(6, 4), layer_norm=True)
    torch.manual_seed(0)
    net = net_for(graph, shape).eval()
    h = torch.randn(graph.num_nodes, 6)
    for own in net.norms.parameters():
        torch.nn.init.normal_(own)
    norm, own_norm = LayerNorm(6, mode="node"), net.norms[0]
    assert isinstance(own_norm, torch.nn.LayerNorm)
    norm.load_state_dict(own_norm.state_dict())
    by_torch = F.layer_norm(F.relu(h), (6,), own_norm.weight, own_norm.bias, 1e-5)
    read = net.dropped(h, 1)
    assert isinstance(read, Tensor)
    torch.testing.assert_close(read, norm(F.relu(h)))
    torch.testing.assert_close(read, by_torch)
    assert len(net.norms) == 2 and not list(net.norms.buffers())


def test_layer_norm_drops_units_behind_it_in_training(graph: Graph) -> None:
    net = net_for(graph, replace(two_layers(), layer_norm=True), dropout=0.5)
    h = torch.randn(2000, 4)
    read, whole = net.train().dropped(h, 1), net.eval().dropped(h, 1)
    assert isinstance(read, Tensor) and isinstance(whole, Tensor)
    assert 0.45 < float((read == 0).float().mean()) < 0.55
    torch.testing.assert_close(read[read != 0], 2 * whole[read != 0])


def test_one_norm_at_a_time() -> None:
    with pytest.raises(GassipError, match="batch_norm and layer_norm are both on"):
        Architecture(ops=("Linear", "Linear"), hidden=(2,), batch_norm=True, layer_norm=True)


def test_dropout_only_in_training(graph: Graph) -> None:
    torch.manual_seed(0)
    net = net_for(graph, two_layers(), dropout=0.5)
    masked = MaskedGraph.of(graph)
    assert not torch.equal(net.run(graph.x, masked), net.run(graph.x, masked))
    net.eval()
    assert torch.equal(net.run(graph.x, masked), net.run(graph.x, masked))


def test_a_mean_over_hops_drops_whole_nodes_in_training(graph: Graph) -> None:
    """With one linear layer behind it and no edges, a dropped node shows in all of its outputs at
    once."""
    bare = graph.keep(torch.zeros(graph.num_edges, dtype=torch.bool))
    net, masked = (
        net_for(bare, Architecture(ops=("Hops2",), hidden=()), dropout=1e-9),
        MaskedGraph.of(bare),
    )
    whole = net.eval().run(bare.x, masked)
    torch.manual_seed(0)
    ratio = (net.train().run(bare.x, masked) / whole).detach().round(decimals=4)
    assert set(ratio.flatten().tolist()) == {0.0, 2.0}
    assert torch.equal(ratio, ratio[:, :1].expand_as(ratio))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("op", OPS)
def test_smoothing_before_or_after_the_weights_is_the_same(
    graph: Graph, op: str, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked, scores, grads = MaskedGraph.of(graph, lasting=True), [], []
    for most in (0, 99):  # never, always
        monkeypatch.setattr("gassip.nn.net.LASTING", most)
        monkeypatch.setattr("gassip.nn.net.TRAINING", most)
        torch.manual_seed(0)
        net = net_for(graph, two_layers(op, batch_norm=True), dropout)
        drops_nodes = dropout > 0 and OPERATIONS[op].node_dropout > 0
        assert net.smooths_first(graph.x, masked) == (
            most > 0 and OPERATIONS[op].commutes and not drops_nodes
        )
        scores.append(net.run(graph.x, masked))
        scores[-1].square().sum().backward()
        grads.append([p.grad for p in net.parameters()])
    torch.testing.assert_close(scores[0], scores[1])
    torch.testing.assert_close(grads[0], grads[1], atol=1e-4, rtol=1e-4)


def test_smoothed_features_are_kept_until_they_are_written_to(graph: Graph) -> None:
    masked, x = MaskedGraph.of(graph, lasting=True), dense_x(graph).clone()
    once = masked.smoothed("GCNConv", x, again=True)
    assert masked.smoothed("GCNConv", x, again=True) is once
    assert masked.smoothed("SAGEConv", x, again=True) is not once
    x[0] += 1
    moved = masked.smoothed("GCNConv", x, again=True)
    assert moved is not once and not torch.equal(moved[0], once[0])
    other = x.clone()
    assert masked.smoothed("GCNConv", other, again=False) is not masked.smoothed(
        "GCNConv", other, again=False
    )
    with torch.inference_mode():
        masked.smoothed("ArmaConv", x, again=True)
    assert not masked.smoothed("ArmaConv", x, again=True)[0].is_inference()
    once_only = MaskedGraph.of(graph)
    assert once_only.smoothed("GCNConv", x, again=True) is not once_only.smoothed(
        "GCNConv", x, again=True
    )


def test_features_made_in_inference_mode_are_read_like_any(graph: Graph) -> None:
    with torch.inference_mode():
        x = dense_x(graph).clone()
    net = net_for(graph, Architecture(ops=("GCNConv", "Linear"), hidden=(64,))).eval()
    with torch.no_grad():
        torch.testing.assert_close(net(x, graph.edge_index, graph.edge_weight), predict(net, graph))


@pytest.mark.parametrize(
    ("lasting", "training", "most"),
    [(True, True, 8), (True, False, 8), (False, True, 2), (False, False, 1)],
)
def test_features_are_smoothed_first_where_that_takes_less_time(
    graph: Graph, lasting: bool, training: bool, most: int
) -> None:
    masked = MaskedGraph.of(graph, lasting=lasting)
    for columns, pays in ((most * 4, True), (most * 4 + 1, False)):
        net = Net(columns, 3, two_layers()).train(training)
        assert net.smooths_first(torch.zeros(graph.num_nodes, columns), masked) is pays


@pytest.mark.parametrize("needs", ["features", "edges"])
def test_gradients_of_features_and_edges_are_not_lost(graph: Graph, needs: str) -> None:
    x, weight = dense_x(graph).clone(), graph.weight.clone()
    (x if needs == "features" else weight).requires_grad_()
    net_for(graph, two_layers()).run(x, MaskedGraph(graph.adjacency, weight)).sum().backward()
    grad = x.grad if needs == "features" else weight.grad
    assert grad is not None and bool(grad.abs().sum() > 0)


def test_columns_of_x_are_standardised_where_the_architecture_says_so() -> None:
    graph = random_graph(1, nodes=30)
    assert isinstance(graph.x, Tensor)
    x = graph.x * 50 + 1000
    x[:, 2] = 7.0  # tells nothing
    own = replace(graph, x=x)
    shape = Architecture(ops=("Linear", "GCNConv"), hidden=(4,), standardised=True)
    net = net_for(own, shape)
    read = net.inputs(x)
    assert isinstance(read, Tensor) and net.inputs(x) is read
    other = [column for column in range(x.shape[1]) if column != 2]
    torch.testing.assert_close(read[:, other].mean(0), torch.zeros(len(other)), atol=1e-4, rtol=0)
    torch.testing.assert_close(read.std(0, correction=0)[other], torch.ones(len(other)))
    assert not read[:, 2].any()
    some = net_for(own, shape, feature_index=torch.tensor([0, 3]))
    torch.testing.assert_close(some.inputs(x), read[:, [0, 3]])
    # a net of the same weights on the columns as they were made reads the same
    plain = net_for(replace(own, x=read), replace(shape, standardised=False))
    plain.load_state_dict(net.state_dict(), strict=False)
    with torch.no_grad():
        torch.testing.assert_close(
            net(x, graph.edge_index), plain(read, graph.edge_index), rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("layers", [1, 2])
def test_passes_side_by_side_are_passes_one_after_the_other(
    graph: Graph, op: str, layers: int
) -> None:
    net = net_for(graph, Architecture(ops=(op,) * layers, hidden=(8,) * (layers - 1)), 0.5)
    net.label_logits = torch.randn(graph.num_nodes, graph.num_classes)
    masked = MaskedGraph.of(graph)
    torch.manual_seed(0)
    beside = net.train().run_several(graph.x, masked, 2)
    torch.manual_seed(0)
    for s in range(2):
        torch.testing.assert_close(beside[:, s], net.run(graph.x, masked))


def test_what_dropout_removes_from_a_large_x_is_not_stored(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = Csr.from_scipy(sp.csr_array(dense_of(graph.x).numpy()))
    net = net_for(graph, Architecture(ops=("GCNConv", "Linear"), hidden=(8,)), 0.5).train()
    scores, grads = [], []
    for entries in (10**9, 1):
        monkeypatch.setattr("gassip.nn.net.THIN_FROM", entries)
        torch.manual_seed(0)
        net.zero_grad()
        scores.append(net.run(x, MaskedGraph.of(graph)))
        scores[-1].square().sum().backward()
        grads.append(net.layers[0].weight.grad.clone())  # type: ignore[union-attr]
    assert torch.equal(scores[0], scores[1])
    torch.testing.assert_close(grads[0], grads[1])
