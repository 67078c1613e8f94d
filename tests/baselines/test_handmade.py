from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import APPNP, GATConv, GINConv

from gassip.baselines.appnp import Appnp, AppnpNet
from gassip.baselines.arma import Arma
from gassip.baselines.gat import Gat, GatLayer, GatNet
from gassip.baselines.gin import GinLayer
from gassip.baselines.mlp import Mlp
from gassip.baselines.sage import Sage
from gassip.baselines.sgc import Sgc, SgcNet
from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.methods import METHODS
from gassip.nn.propagate import MaskedGraph
from gassip.train.context import RunContext
from gassip.train.losses import supervised
from gassip.train.trainer import predict, seeded


@pytest.fixture
def graph(make_graph: Callable[..., Graph]) -> Graph:
    return make_graph(4, nodes=24, edges=60, isolated=2)


def dense_x(graph: Graph) -> Tensor:
    return (
        graph.x if isinstance(graph.x, Tensor) else torch.from_numpy(graph.x.to_scipy().toarray())
    )


def normalised(graph: Graph) -> Tensor:
    """D^-1/2 (A + I) D^-1/2, dense."""
    a = torch.eye(graph.num_nodes)
    a[graph.edge_index[1], graph.edge_index[0]] = graph.weight
    root = a.sum(1).rsqrt()
    return root[:, None] * a * root


@pytest.mark.parametrize("out_heads", [1, 3])
def test_gat_is_two_of_pygs_layers(graph: Graph, out_heads: int) -> None:
    net = Gat(heads=4, hidden=20, out_heads=out_heads).model(graph).eval()
    assert isinstance(net, GatNet)
    first = GATConv(graph.num_features, 5, heads=4)
    last = GATConv(20, graph.num_classes, heads=out_heads, concat=False)
    for ours, theirs in zip([*net.inner, net.last], [first, last], strict=True):
        assert isinstance(ours, GatLayer)
        with torch.no_grad():
            theirs.lin.weight.copy_(ours.weight.T)
            theirs.att_src.copy_(ours.attention[0][None])
            theirs.att_dst.copy_(ours.attention[1][None])
            theirs.bias.copy_(ours.bias.uniform_(-1, 1))
    x = dense_x(graph)
    expected = last(F.elu(first(x, graph.edge_index)), graph.edge_index)
    torch.testing.assert_close(predict(net, graph), expected.detach(), atol=1e-5, rtol=1e-4)


def test_gat_heads_share_the_width() -> None:
    with pytest.raises(GassipError, match="heads is 3, which does not divide hidden = 64"):
        Gat(heads=3)


def test_gat_drops_attention_in_training_only(graph: Graph) -> None:
    net = Gat(dropout=0.0, attention_dropout=0.6).model(graph)
    masked = MaskedGraph.of(graph)
    net.train()
    assert not torch.equal(net.run(graph.x, masked), net.run(graph.x, masked))
    net.eval()
    assert torch.equal(net.run(graph.x, masked), net.run(graph.x, masked))


def test_gat_of_weight_zero_is_the_graph_without_the_edge(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(5)
    net = Gat().model(graph).eval()
    keep = torch.arange(graph.num_edges) % 3 > 0
    without = predict(net, graph.keep(keep))
    with torch.no_grad():
        masked = net.run(graph.x, MaskedGraph.of(graph, keep.float()))
    torch.testing.assert_close(masked, without)


@pytest.mark.parametrize("train_eps", [False, True])
def test_gin_layer_is_pygs(graph: Graph, train_eps: bool) -> None:
    ours = GinLayer(graph.num_features, 7, 4, train_eps=train_eps, batch_norm=False)
    mlp = nn.Sequential(nn.Linear(graph.num_features, 7), nn.ReLU(), nn.Linear(7, 4))
    theirs = GINConv(mlp, train_eps=train_eps)
    with torch.no_grad():
        ours.eps.fill_(0.3)
        theirs.eps.fill_(0.3)
        for linear, weight, bias in (
            (0, ours.first, ours.first_bias),
            (2, ours.second, ours.second_bias),
        ):
            weights = dict(mlp[linear].named_parameters())
            weights["weight"].copy_(weight.T)
            weights["bias"].copy_(bias.uniform_(-1, 1))
    expected = theirs(dense_x(graph), graph.edge_index)
    torch.testing.assert_close(
        ours.propagate(graph.x, MaskedGraph.of(graph)), expected, atol=1e-5, rtol=1e-4
    )
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


def test_sgc_is_powers_times_features_times_weights(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(6, weighted=True, sparse=True, features=12)
    net = Sgc(steps=3).model(graph)
    assert isinstance(net, SgcNet)
    expected = (
        torch.linalg.matrix_power(normalised(graph), 3) @ dense_x(graph) @ net.weight + net.bias
    )
    torch.testing.assert_close(predict(net, graph), expected.detach(), atol=1e-5, rtol=1e-4)


def test_appnp_is_pygs(graph: Graph) -> None:
    net = Appnp(hidden=9, steps=7, teleport=0.2).model(graph)
    assert isinstance(net, AppnpNet)
    with torch.no_grad():
        start = F.relu(dense_x(graph) @ net.first) @ net.second
    expected = APPNP(K=7, alpha=0.2)(start, graph.edge_index)
    torch.testing.assert_close(predict(net, graph), expected, atol=1e-5, rtol=1e-4)


def test_appnp_drops_entries_of_the_matrix_in_training(graph: Graph) -> None:
    net = Appnp(dropout=0.0, edge_dropout=0.5).model(graph)
    masked = MaskedGraph.of(graph)
    assert not torch.equal(net.train().run(graph.x, masked), net.run(graph.x, masked))
    still = Appnp(dropout=0.0, edge_dropout=0.0).model(graph)
    assert torch.equal(still.train().run(graph.x, masked), still.eval().run(graph.x, masked))


def test_appnp_decays_only_its_first_matrix(graph: Graph) -> None:
    method = Appnp(dropout=0.0, edge_dropout=0.0, first_decay=0.3)
    net = method.model(graph)
    assert isinstance(net, AppnpNet)
    masked = MaskedGraph.of(graph)
    extra = method.loss(net, graph, masked, 1) - supervised(net, graph, masked, 1)
    torch.testing.assert_close(extra, 0.15 * (net.first**2).sum())


def test_stacks_name_their_operation(graph: Graph) -> None:
    assert [method().net(graph).architecture.ops for method in (Arma, Sage, Mlp)] == [
        ("ArmaConv",) * 2,
        ("SAGEConv",) * 2,
        ("Linear",) * 2,
    ]


def test_mlp_does_not_see_the_graph(graph: Graph) -> None:
    net = Mlp().net(graph)
    torch.testing.assert_close(
        predict(net, graph), predict(net, graph.keep(torch.arange(graph.num_edges) < 2))
    )


def test_gat_and_dropedge_take_the_published_settings_of_a_graph(graph: Graph) -> None:
    assert Gat.for_graph(graph) == Gat()
    assert Gat.for_graph(replace(graph, name="pubmed")).out_heads == 8


@pytest.mark.parametrize("name", ["gat", "arma", "sage", "gin", "sgc", "appnp", "mlp"])
@pytest.mark.parametrize("sparse", [False, True])
def test_learns_features_that_tell_the_class(
    make_graph: Callable[..., Graph], name: str, sparse: bool
) -> None:
    graph = make_graph(7, nodes=60, edges=60, features=30, sparse=sparse)
    told = F.one_hot(graph.y, 30).float() + 0.01
    x: Tensor | Csr = Csr.from_scipy(F.one_hot(graph.y, 30).numpy()) if sparse else told
    graph = replace(
        graph,
        x=x,
        edge_index=graph.edge_index[
            :, graph.y[graph.edge_index[0]] == graph.y[graph.edge_index[1]]
        ],
    )
    method = METHODS[name].make(graph)
    with seeded(0, graph.device):
        solution = replace(method, epochs=60).solve(graph, RunContext(0))  # type: ignore[type-var]
    assert solution.accuracy["test"] > 0.9
