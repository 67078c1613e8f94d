from collections.abc import Callable
from itertools import product
from math import log, prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, Layer, Net, net_for
from gassip.nn.propagate import MaskedGraph
from gassip.operations import ALL_OPS
from gassip.paper.supernet import Supernet, top_paths

OPS = ALL_OPS


def layers_of(net: Net | Supernet) -> list[Layer]:
    return [layer for layer in net.layers if isinstance(layer, Layer)]


def supernet(
    graph: Graph, *, layers: int = 2, heads: int = 1, batch_norm: bool = False, seed: int = 0
) -> Supernet:
    torch.manual_seed(seed)
    inner = layers - 1
    shape = Architecture(
        ops=OPS[:1] * layers, hidden=(4,) * inner, heads=(heads,) * inner, batch_norm=batch_norm
    )
    return Supernet(
        graph.num_features,
        graph.num_classes,
        OPS,
        shape,
        weight_gain=1.5,
        alpha_start=0.5,
        score_mean=-0.2,
        score_std=0.5,
    )


@pytest.fixture
def graph(make_graph: Callable[..., Graph]) -> Graph:
    return make_graph(0, weighted=True)


def test_mixture_of_one_layer_is_the_weighted_sum_of_paths(graph: Graph) -> None:
    net, masked = supernet(graph, layers=1), MaskedGraph.of(graph)
    weights = net.masked_weights("sigmoid")
    share = torch.exp(net.alpha[0]) / torch.exp(net.alpha[0]).sum()
    paths = [net(graph.x, masked, weights, path=(k,)) for k in range(len(OPS))]
    by_hand = sum((s * out for s, out in zip(share, paths, strict=True)), torch.zeros(()))
    torch.testing.assert_close(net(graph.x, masked, weights), by_hand)


def test_every_layer_mixes_by_its_own_alpha(graph: Graph) -> None:
    net, masked = supernet(graph), MaskedGraph.of(graph)
    net.alpha.data[0, 3] = net.alpha.data[1, 1] = 200.0  # decided: ArmaConv, then GATConv
    weights = net.masked_weights("sigmoid")
    torch.testing.assert_close(
        net(graph.x, masked, weights), net(graph.x, masked, weights, path=(3, 1))
    )


@pytest.mark.parametrize("path", [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 1)])
@pytest.mark.parametrize("batch_norm", [True, False])
def test_path_equals_a_net_with_its_weights(
    graph: Graph, path: tuple[int, int], batch_norm: bool
) -> None:
    net = supernet(graph, heads=2, batch_norm=batch_norm)
    weights = net.masked_weights("double")
    names = tuple(OPS[k] for k in path)
    alone = net_for(graph, Architecture(ops=names, hidden=(4,), heads=(2,), batch_norm=batch_norm))
    for own, layer, weight, k in zip(layers_of(alone), layers_of(net), weights, path, strict=True):
        own.weight.data, own.bias.data = (
            weight[:, layer.columns(k)].detach(),
            layer.bias[k : k + 1].detach(),
        )
        if own.attention is not None:
            assert layer.attention is not None
            own.attention.data = layer.attention.detach()
    masked = MaskedGraph.of(graph)
    torch.testing.assert_close(net(graph.x, masked, weights, path=path), alone.run(graph.x, masked))


@pytest.mark.parametrize("path", [None, (2, 0), (1, 3)])
def test_known_first_products_change_nothing(graph: Graph, path: tuple[int, int] | None) -> None:
    net, masked = supernet(graph), MaskedGraph.of(graph)
    weights = net.masked_weights("sigmoid")
    assert isinstance(graph.x, Tensor)
    known = net(graph.x, masked, weights, path=path, first_products=graph.x @ weights[0])
    torch.testing.assert_close(known, net(graph.x, masked, weights, path=path))


def test_masked_weights_by_hand(graph: Graph) -> None:
    net = supernet(graph, layers=1)
    layers_of(net)[0].weight.data.fill_(3.0)
    net.weight_scores[0].data.zero_()
    assert (net.masked_weights("sigmoid")[0] == 1.5).all()  # σ(0) = 1/2
    assert (net.masked_weights("double")[0] == 3.0).all()
    assert net.masked_weights(None)[0] is layers_of(net)[0].weight


def test_starts(make_graph: Callable[..., Graph]) -> None:
    net = supernet(make_graph(0, features=400))
    scores = net.weight_scores[0].detach()
    assert scores.mean() == pytest.approx(-0.2, abs=0.03) and scores.std() == pytest.approx(
        0.5, abs=0.03
    )
    assert layers_of(net)[0].weight.abs().max() <= 1.5 * (6 / 404) ** 0.5
    assert net.alpha.shape == (2, 5) and 0 < net.alpha.abs().max() < 2.5


def test_mixture_has_gradients_to_everything(graph: Graph) -> None:
    net = supernet(graph, batch_norm=True)
    net(graph.x, MaskedGraph.of(graph), net.masked_weights("sigmoid")).square().sum().backward()
    assert all(
        p.grad is not None and p.grad.isfinite().all() and (p.grad != 0).any()
        for p in net.parameters()
    )


def probability(alpha: Tensor, path: tuple[int, ...]) -> float:
    share = torch.softmax(alpha.double(), 1)
    return prod(float(share[layer, k]) for layer, k in enumerate(path))


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 30), st.integers(0, 9999))
def test_top_paths_equal_brute_force(layers: int, ops: int, count: int, seed: int) -> None:
    alpha = torch.randn(layers, ops, generator=torch.Generator().manual_seed(seed))
    everything = sorted(
        product(range(ops), repeat=layers), key=lambda path: -probability(alpha, path)
    )
    found = top_paths(alpha, count)
    assert len(set(found)) == len(found) == min(count, ops**layers)
    expected = [probability(alpha, path) for path in everything[:count]]
    assert [probability(alpha, path) for path in found] == pytest.approx(expected)
    assert found == everything[:count]


def test_top_paths_by_hand() -> None:
    # shares .6 .3 .1 and .5 .4 .1: .30 (0,0), .24 (0,1), .15 (1,0), .12 (1,1), ...
    alpha = torch.tensor([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1]]).log()
    assert top_paths(alpha, 4) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_ties_go_to_the_lower_numbers() -> None:
    assert top_paths(torch.zeros(2, 3), 4) == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert len(top_paths(torch.zeros(2, 5), 1000)) == 25


def test_alpha_entropy(graph: Graph) -> None:
    net = supernet(graph)
    net.alpha.data.fill_(0.7)
    assert net.alpha_entropy() == pytest.approx(log(5))
    net.alpha.data[0] = torch.tensor([500.0, 0, 0, 0, 0])
    assert net.alpha_entropy() == pytest.approx(log(5) / 2)  # one layer decided, one not
