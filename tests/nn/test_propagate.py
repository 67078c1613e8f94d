from collections.abc import Callable
from dataclasses import replace
from math import log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.nn import APPNP, ARMAConv, GATConv, GCNConv, SAGEConv

from gassip.graph.graph import Graph
from gassip.nn.net import Layer
from gassip.nn.propagate import MaskedGraph, propagate
from gassip.operations import OPERATIONS

OPS = tuple(OPERATIONS)
WEIGHTS = torch.tensor([3.0, 1.0, 2.0, 8.0])  # of 1→0, 0→1, 2→1, 1→2
P1, P2 = torch.tensor([[1.0], [2.0], [3.0], [4.0]]), torch.tensor([[10.0], [20.0], [30.0], [40.0]])


def apply(
    op: str, graph: MaskedGraph, products: list[Tensor], attention: Tensor | None = None
) -> Tensor:
    return propagate(OPERATIONS[op], graph, products, attention)


def run_layer(layer: Layer, graph: Graph) -> Tensor:
    """The layer's one operation on the graph's own features."""
    assert isinstance(graph.x, Tensor)
    products = list((graph.x @ layer.weight).split(layer.out_width, 1))
    return apply(layer.ops[0], MaskedGraph.of(graph), products, layer.attention) + layer.bias[0]


def random_inputs(
    graph: Graph, op: str, width: int = 4, heads: int = 2
) -> tuple[list[Tensor], Tensor | None]:
    """Products and attention in float64 that ask for gradients."""
    generator = torch.Generator().manual_seed(7)
    shape = (graph.num_nodes, width)
    products = [
        torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True)
        for _ in range(OPERATIONS[op].matrices)
    ]
    if not OPERATIONS[op].attention:
        return products, None
    size = (2, heads, width // heads)
    return products, torch.randn(size, dtype=torch.float64, generator=generator, requires_grad=True)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        # d = 1 + (3, 1 + 2, 8, 0) = (4, 4, 9, 1)
        # 3·2/√16 + 1/4 = 1.75,  1·1/√16 + 2·3/√36 + 2/4 = 1.75,  8·2/√36 + 3/9 = 3,  4/1
        ("GCNConv", [1.75, 1.75, 3.0, 4.0]),
        # d = (3, 3, 8, 0): 3·2/√9 + 10 = 12,  1·1/√9 + 2·3/√24 + 20 = .3333 + 1.2247 + 20,  8·2/√24
        # + 30,  40
        ("ArmaConv", [12.0, 21.558078, 33.265986, 40.0]),
        # 3·2/3 + 10 = 12,  (1·1 + 2·3)/3 + 20 = 22.3333,  8·2/8 + 30 = 32,  40
        ("SAGEConv", [12.0, 22.333333, 32.0, 40.0]),
        ("Linear", [1.0, 2.0, 3.0, 4.0]),
    ],
)
def test_by_hand(path: Graph, op: str, expected: list[float]) -> None:
    out = apply(op, MaskedGraph.of(path, WEIGHTS), [P1, P2][: OPERATIONS[op].matrices])
    torch.testing.assert_close(out.flatten(), torch.tensor(expected))


@pytest.mark.parametrize(
    ("slope", "expected"),
    [
        # s = ln 2, t = 0: exp = 2^P = (2, 4, 8, 16); the node itself weighs 1
        # (2·1 + 3·4·2)/(2 + 12) = 26/14,  (4·2 + 1·2·1 + 2·8·3)/(4 + 2 + 16) = 58/22,  (8·3 +
        # 8·4·2)/(8 + 32) = 2.2
        (1.0, [1.857143, 2.636364, 2.2, 4.0]),
        # s = -5 ln 2, LeakyReLU .2: exp = 2^-P = (1/2, 1/4, 1/8, 1/16)
        # (.5·1 + 3·.25·2)/(.5 + .75) = 1.6,  (.25·2 + .5·1 + 2·.125·3)/(.25 + .5 + .25) = 1.75,
        # (.125·3 + 8·.25·2)/(.125 + 2) = 4.375/2.125
        (-5.0, [1.6, 1.75, 2.058824, 4.0]),
    ],
)
def test_attention_by_hand(path: Graph, slope: float, expected: list[float]) -> None:
    attention = torch.tensor([[[slope * log(2)]], [[0.0]]])
    out = apply("GATConv", MaskedGraph.of(path, WEIGHTS), [P1], attention)
    torch.testing.assert_close(out.flatten(), torch.tensor(expected))


def pyg_twin(op: str, layer: Layer, heads: int) -> Callable[..., Tensor]:
    """PyG's layer holding the same numbers."""
    weight, bias, width = layer.weight.data, layer.bias.data[0], layer.out_width
    if op == "GCNConv":
        gcn = GCNConv(weight.shape[0], width)
        gcn.lin.weight.data, gcn.bias.data = weight.t(), bias
        return gcn
    if op == "GATConv":
        assert layer.attention is not None
        gat = GATConv(weight.shape[0], width // heads, heads=heads)
        gat.lin.weight.data, gat.bias.data = weight.t(), bias
        gat.att_src.data, gat.att_dst.data = layer.attention.data[:1], layer.attention.data[1:]
        return gat
    if op == "SAGEConv":
        sage = SAGEConv(weight.shape[0], width)
        sage.lin_l.weight.data, sage.lin_r.weight.data = (
            weight[:, :width].t(),
            weight[:, width:].t(),
        )
        sage.lin_l.bias.data = bias
        return sage
    arma = ARMAConv(weight.shape[0], width, num_stacks=1, num_layers=1, act=None)
    arma.init_weight.data[0], arma.root_weight.data[0, 0] = weight[:, :width], weight[:, width:]
    arma.bias.data[0, 0, 0] = bias
    return arma


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("op", ["APPNP10", "APPNP5"])
def test_personalised_pagerank_equals_pyg(
    make_graph: Callable[..., Graph], op: str, undirected: bool
) -> None:
    graph = make_graph(seed=3, undirected=undirected)
    product = torch.randn(graph.num_nodes, 4)
    weight = torch.rand(graph.num_edges)
    own = apply(op, MaskedGraph.of(graph, weight), [product])
    steps, teleport = {"APPNP10": (10, 0.1), "APPNP5": (5, 0.3)}[op]
    torch.testing.assert_close(own, APPNP(steps, teleport)(product, graph.edge_index, weight))


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize(("op", "hops"), [("Hops4", 4), ("Hops2", 2)])
def test_the_mean_over_hops_equals_its_sum(
    make_graph: Callable[..., Graph], op: str, hops: int, undirected: bool
) -> None:
    graph = make_graph(seed=3, undirected=undirected)
    masked = MaskedGraph.of(graph, torch.rand(graph.num_edges))
    step = apply("GCNConv", masked, [torch.eye(graph.num_nodes)])  # the matrix of GCNConv itself
    product = torch.randn(graph.num_nodes, 4)
    expected = sum(torch.linalg.matrix_power(step, k) @ product for k in range(hops + 1)) / (
        hops + 1
    )
    torch.testing.assert_close(apply(op, masked, [product]), expected)


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize(
    ("op", "heads"),
    [("GCNConv", 1), ("GATConv", 1), ("GATConv", 4), ("SAGEConv", 1), ("ArmaConv", 1)],
)
def test_weight_one_equals_pyg(
    make_graph: Callable[..., Graph], op: str, heads: int, undirected: bool
) -> None:
    graph = make_graph(3, undirected=undirected)
    torch.manual_seed(0)
    layer = Layer(graph.num_features, 8, (op,), heads)
    layer.bias.data.normal_()
    theirs = pyg_twin(op, layer, heads)(graph.x, graph.edge_index)
    torch.testing.assert_close(run_layer(layer, graph), theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("op", ["GCNConv", "ArmaConv"])
def test_edge_weights_equal_pyg(
    make_graph: Callable[..., Graph], op: str, undirected: bool
) -> None:
    graph = make_graph(4, undirected=undirected, weighted=True)
    torch.manual_seed(0)
    layer = Layer(graph.num_features, 8, (op,))
    theirs = pyg_twin(op, layer, 1)(graph.x, graph.edge_index, graph.edge_weight)
    torch.testing.assert_close(run_layer(layer, graph), theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("undirected", [True, False])
def test_weight_zero_equals_edge_absent(
    make_graph: Callable[..., Graph], op: str, undirected: bool
) -> None:
    graph = make_graph(5, undirected=undirected, weighted=True)
    keep = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0)) < 0.6
    products, attention = random_inputs(graph, op)
    fewer, weight = graph.keep(keep), graph.weight.double()
    masked = apply(op, MaskedGraph(graph.adjacency, weight * keep), products, attention)
    absent = apply(op, MaskedGraph(fewer.adjacency, weight[keep]), products, attention)
    torch.testing.assert_close(masked, absent, atol=1e-12, rtol=0)


def test_absent_edge_with_a_huge_logit_leaves_no_trace(path: Graph) -> None:
    # node 2 would outweigh everything at node 1 by e^10000, but 2→1 is masked out
    products = torch.tensor([[1.0], [2.0], [10_000.0], [4.0]], requires_grad=True)
    attention = torch.tensor([[[1.0]], [[1.0]]])
    keep = torch.tensor([True, True, False, True])
    masked = apply("GATConv", MaskedGraph.of(path, keep.float()), [products], attention)
    absent = apply("GATConv", MaskedGraph.of(path.keep(keep)), [products], attention)
    assert torch.equal(masked, absent)
    by_masked = torch.autograd.grad(masked[:2].sum(), products)[0]
    assert torch.equal(by_masked, torch.autograd.grad(absent[:2].sum(), products)[0])
    assert by_masked[2] == 0


def test_huge_logits_that_are_present_do_not_overflow(path: Graph) -> None:
    products = torch.tensor([[-1e4], [2.0], [1e4], [0.0]])
    out = apply("GATConv", MaskedGraph.of(path), [products], torch.tensor([[[1.0]], [[1.0]]]))
    # node 0 hears only node 1, node 1 only node 2, node 2 only itself: the others are e^-2000 and
    # less
    torch.testing.assert_close(out.flatten(), torch.tensor([2.0, 1e4, 1e4, 0.0]))


@pytest.mark.parametrize("op", OPS)
def test_gradients_to_edge_weights_and_products(make_graph: Callable[..., Graph], op: str) -> None:
    graph = make_graph(6, nodes=7, edges=10, undirected=False)
    mask = (
        torch.rand(graph.num_edges, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        + 0.1
    )
    products, attention = random_inputs(graph, op)
    inputs = [mask.requires_grad_(), *products] + ([] if attention is None else [attention])
    count = OPERATIONS[op].matrices

    def run(m: Tensor, *rest: Tensor) -> Tensor:
        return apply(
            op,
            MaskedGraph(graph.adjacency, m),
            list(rest[:count]),
            rest[count] if attention is not None else None,
        )

    assert torch.autograd.gradcheck(run, inputs)


@pytest.mark.parametrize("op", OPS)
@given(seed=st.integers(0, 10_000), undirected=st.booleans())
def test_relabelling_nodes_permutes_the_output(
    make_graph: Callable[..., Graph], op: str, seed: int, undirected: bool
) -> None:
    graph = make_graph(seed, weighted=True, undirected=undirected)
    order = torch.randperm(
        graph.num_nodes, generator=torch.Generator().manual_seed(seed)
    )  # new node k is old order[k]
    assert graph.edge_weight is not None
    moved = Graph.build(
        torch.ones(graph.num_nodes, 1),
        order.argsort()[graph.edge_index],
        graph.y,
        edge_weight=graph.edge_weight,
    )
    products, attention = random_inputs(graph, op)
    out = apply(op, MaskedGraph(graph.adjacency, graph.weight.double()), products, attention)
    renamed_graph = MaskedGraph(moved.adjacency, moved.weight.double())
    renamed = apply(op, renamed_graph, [p[order] for p in products], attention)
    torch.testing.assert_close(renamed, out[order])


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("mask", [0.0, 1.0])
def test_isolated_nodes_and_empty_masks_stay_finite(
    make_graph: Callable[..., Graph], op: str, mask: float
) -> None:
    graph = make_graph(8, isolated=5)
    edge_weight = torch.full((graph.num_edges,), mask, dtype=torch.float64, requires_grad=True)
    products, attention = random_inputs(graph, op)
    out = apply(op, MaskedGraph(graph.adjacency, edge_weight), products, attention)
    inputs = [edge_weight, *products] + ([] if attention is None else [attention])
    gradients = torch.autograd.grad(out.square().sum(), inputs, allow_unused=op == "Linear")
    assert out.isfinite().all()
    assert all(g is None or bool(g.isfinite().all()) for g in gradients)


def test_mask_multiplies_the_given_weights(path: Graph) -> None:
    given_weights = replace(path, edge_weight=torch.tensor([2.0, 1.0, 4.0, 1.0]))
    masked = MaskedGraph.of(given_weights, torch.tensor([0.5, 1.0, 0.25, 0.0]))
    assert masked.edge_weight.tolist() == [1.0, 1.0, 1.0, 0.0]
    assert masked.degree.tolist() == [1.0, 2.0, 0.0, 0.0]


@pytest.mark.parametrize("op", [op for op in OPS if OPERATIONS[op].steps > 1])
def test_many_steps_are_the_same_where_edges_have_gradients(
    make_graph: Callable[..., Graph], op: str
) -> None:
    graph = make_graph(2, weighted=True)
    products, _ = random_inputs(graph, op)
    weight = graph.weight.double()
    plain, learned = (
        MaskedGraph(graph.adjacency, own) for own in (weight, weight.clone().requires_grad_())
    )
    scores = [apply(op, own, products) for own in (plain, learned)]
    torch.testing.assert_close(scores[0], scores[1])
    grads = [torch.autograd.grad(own.square().sum(), products) for own in scores]
    torch.testing.assert_close(grads[0], grads[1])
    assert torch.autograd.gradcheck(lambda *p: apply(op, plain, list(p)), products)
