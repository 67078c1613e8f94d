from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse as sp
from torch import Tensor

from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, Net
from gassip.nn.propagate import MaskedGraph
from gassip.operations import OPERATIONS
from gassip.runs import write as artefact
from gassip.settings import Settings
from gassip.train.plan import Plan
from gassip.train.shrink import compact, even, select, shrink, shrink_net
from gassip.train.trainer import planned_net, predict, retrain
from tests.small import inputs_of

OPS = tuple(OPERATIONS)
NORMS = ("", "batch", "layer")


def small_graph(seed: int, *, features: int = 6) -> Graph:
    """12 nodes, some without edges, directed edges with weights."""
    draw = torch.Generator().manual_seed(seed)
    pairs = torch.randint(0, 9, (2, 20), generator=draw)  # nodes 9, 10, 11 have no edges
    pairs = torch.cat([pairs, torch.tensor([[0], [1]])], dim=1)
    mask = torch.arange(12) % 3
    return Graph.build(
        torch.randn(12, features, generator=draw),
        pairs,
        torch.arange(12) % 2,
        masks=(mask == 0, mask == 1, mask == 2),
        edge_weight=torch.rand(pairs.shape[1], generator=draw) + 0.1,
    )


def random_net(seed: int, ops: tuple[str, ...], *, heads: int, norm: str, kept: float) -> Net:
    """Trained-looking: random biases, statistics and masks; whole rows and columns are pruned
    too."""
    torch.manual_seed(seed)
    inner = len(ops) - 1
    net = Net(
        6,
        2,
        Architecture(
            ops=ops,
            hidden=(4,) * inner,
            heads=(heads,) * inner,
            batch_norm=norm == "batch",
            layer_norm=norm == "layer",
            standardised=norm != "",
        ),
    )
    keeps = []
    for layer in net.layers:
        torch.nn.init.normal_(layer.bias)
        layer.bias.data[torch.rand_like(layer.bias) < 0.3] = 0.0
        if layer.attention is not None:
            layer.attention.data[:, torch.rand(layer.attention.shape[1:]) < 0.3] = 0.0
        rows, columns = torch.rand(layer.weight.shape[0], 1), torch.rand(layer.bias.numel())
        columns = columns.repeat(layer.weight.shape[1] // columns.numel())
        keeps.append((torch.rand_like(layer.weight) < kept) & (rows < kept) & (columns < kept))
        if torch.rand(()) < 0.3:  # an operation without neighbour weights
            keeps[-1][:, : layer.out_width] = False
    for value in net.norms.state_dict().values():
        if value.is_floating_point():
            value.uniform_(0.5, 2.0)
    net.prune(keeps)
    return net.eval()


def run(net: Net, graph: Graph) -> Tensor:
    with torch.no_grad():
        return net.run(graph.x, MaskedGraph.of(graph))


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    ops=st.lists(st.sampled_from(OPS), min_size=1, max_size=4).map(tuple),
    heads=st.sampled_from([1, 2, 4]),
    norm=st.sampled_from(NORMS),
    kept=st.sampled_from([0.2, 0.5, 0.8, 1.0]),
)
def test_output_is_the_masked_nets(
    seed: int, ops: tuple[str, ...], heads: int, norm: str, kept: float
) -> None:
    graph, net = small_graph(seed), random_net(seed, ops, heads=heads, norm=norm, kept=kept)
    before = run(net, graph)
    small = shrink_net(net)
    torch.testing.assert_close(run(small, graph), before, rtol=1e-4, atol=1e-5)
    assert small.num_weights()[1] <= net.num_weights()[1]
    again = shrink_net(small)
    assert again.architecture == small.architecture and again.num_weights() == small.num_weights()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("following", OPS)
def test_unread_units_and_features_go(op: str, following: str, norm: str) -> None:
    """Under a layer norm features alone."""
    graph, net = small_graph(3), random_net(3, (op, following), heads=2, norm=norm, kept=1.0)
    for layer in net.layers:
        torch.nn.init.normal_(layer.weight)
        torch.nn.init.ones_(layer.bias)
    first, second = (torch.ones_like(layer.weight, dtype=torch.bool) for layer in net.layers)
    second[:2] = False  # units 0 and 1 are unread: the first head of a GATConv
    first[[1, 4]] = False  # nobody reads features 1 and 4
    net.prune([first, second])
    small = shrink_net(net)
    assert small.feature_index is not None and small.feature_index.tolist() == [0, 2, 3, 5]
    assert small.weight_keep(0) is None and (small.weight_keep(1) is None) == (norm != "layer")
    left = (4,) if norm == "layer" else (2,)
    assert small.architecture.hidden == left
    assert small.architecture.heads == ((2,) if left == (4,) and op == "GATConv" else (1,))
    torch.testing.assert_close(run(small, graph), run(net, graph), rtol=1e-4, atol=1e-5)


def test_a_constant_is_folded_only_where_it_stays_constant() -> None:
    # unit 0 has no input and the bias 2: ReLU 2 on every node; unit 1 is ordinary
    widths: dict[str, int] = {}
    for op in OPS:
        net = Net(6, 2, Architecture(ops=("Linear", op), hidden=(2,)))
        torch.nn.init.ones_(net.layers[0].weight)
        net.layers[0].bias.data[0, 0] = 2.0
        net.layers[1].weight.data.fill_(0.5)
        if net.layers[1].attention is not None:
            torch.nn.init.ones_(net.layers[1].attention)
        keep = torch.ones_like(net.layers[0].weight, dtype=torch.bool)
        keep[:, 0] = False
        net.prune([keep, torch.ones_like(net.layers[1].weight, dtype=torch.bool)])
        small = shrink_net(net.eval())
        widths[op] = small.architecture.hidden[0]
        torch.testing.assert_close(run(small, small_graph(0)), run(net, small_graph(0)))
        if op == "Linear":  # 2 · 0.5
            torch.testing.assert_close(small.layers[1].bias, torch.ones(1, 2))
    assert widths == dict.fromkeys(OPS, 2) | {"Linear": 1}


@pytest.mark.parametrize("op", ["SAGEConv", "ArmaConv"])
def test_an_operation_without_neighbour_weights_is_linear(op: str) -> None:
    net = Net(6, 2, Architecture(ops=(op, op), hidden=(3,))).eval()
    net.prune([torch.arange(6).expand(6, 6) >= 3, torch.arange(4).expand(3, 4) >= 0])
    small = shrink_net(net)
    assert small.architecture.ops == ("Linear", op)
    assert small.layers[0].weight.shape == (6, 3)
    torch.testing.assert_close(run(small, small_graph(1)), run(net, small_graph(1)))


def test_attention_sees_units_that_the_next_layer_does_not() -> None:
    net = random_net(0, ("GATConv", "Linear"), heads=1, norm="", kept=1.0)
    torch.nn.init.normal_(net.layers[0].weight)
    torch.nn.init.ones_(net.layers[0].attention)  # type: ignore[arg-type]
    first, second = (torch.ones_like(layer.weight, dtype=torch.bool) for layer in net.layers)
    second[0] = False
    net.prune([first, second])
    assert shrink_net(net).architecture.hidden == (
        4,
    )  # unit 0 moves the attention of the other three
    with torch.no_grad():
        net.layers[0].attention[:, 0, 0] = 0  # type: ignore[index]
    assert shrink_net(net).architecture.hidden == (3,)


def test_even_heads() -> None:
    keep = torch.tensor([True, False, False, False, False, False, True, True, False])
    # heads of three units: one kept, none kept, two kept -> the first gets one back, the second
    # goes
    assert even(keep, 3).tolist() == [True, True, False, False, False, False, True, True, False]
    assert even(torch.zeros(4, dtype=torch.bool), 2).tolist() == [True, False, False, False]


def found_for(graph: Graph, net: Net) -> Plan:
    keeps = [net.weight_keep(l) for l in range(len(net.layers))]
    weights = {name: value.detach().clone() for name, value in net.named_parameters()}
    return Plan(
        **inputs_of(
            Settings.of(retrain_epochs=3, retrain_start="inherit", retrain_lr=0.0, sparsify=False)
        ),
        architecture=net.architecture,
        weight_keep=[
            torch.ones_like(l.weight) > 0 if k is None else k
            for l, k in zip(net.layers, keeps, strict=True)
        ],
        edge_keep=torch.ones(graph.num_edges, dtype=torch.bool),
        edge_mask=torch.ones(graph.num_edges),
        first_weights=weights,
        last_weights=weights,
        history=[],
        seconds=0.0,
    )


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    ops=st.lists(st.sampled_from(OPS), min_size=1, max_size=3).map(tuple),
    heads=st.sampled_from([1, 2]),
    norm=st.sampled_from(["batch", "layer"]),
    kept=st.sampled_from([0.3, 0.7, 1.0]),
)
def test_compact_leaves_no_empty_row_or_column(
    seed: int, ops: tuple[str, ...], heads: int, norm: str, kept: float
) -> None:
    graph, net = small_graph(seed), random_net(seed, ops, heads=heads, norm=norm, kept=kept)
    found = compact(found_for(graph, net))
    small = planned_net(graph, found)
    assert small.architecture.ops == ops and small.architecture.hidden == found.architecture.hidden
    kept_before = sum(int(keep.sum()) for keep in found_for(graph, net).weight_keep)
    assert sum(int(keep.sum()) for keep in found.weight_keep) <= kept_before
    if found.weight_keep[0].any():
        assert found.weight_keep[0].any(1).all()
    # what is left starts from the same numbers
    index = torch.arange(6) if found.feature_index is None else found.feature_index
    first = net.layers[0].weight.detach()[index]
    assert set(found.last_weights["layers.0.weight"].flatten().tolist()) <= set(
        first.flatten().tolist()
    )


def test_select_takes_rows_and_columns_of_both_matrices(make_graph: Callable[..., Graph]) -> None:
    net = Net(6, 2, Architecture(ops=("SAGEConv", "GCNConv"), hidden=(3,)))
    with torch.no_grad():
        net.layers[0].weight.copy_(torch.arange(36.0).view(6, 6))
    found = select(
        found_for(small_graph(0), net),
        torch.tensor([True, False, False, False, False, True]),
        [torch.tensor([True, False, True])],
    )
    assert found.last_weights["layers.0.weight"].tolist() == [[0, 2, 3, 5], [30, 32, 33, 35]]
    assert found.last_weights["layers.1.weight"].tolist() == net.layers[1].weight[[0, 2]].tolist()
    assert found.architecture.hidden == (2,) and found.feature_index is not None
    assert found.feature_index.tolist() == [0, 5]


@pytest.mark.parametrize("sparse", [False, True])
def test_feature_index_reads_only_those_columns(sparse: bool) -> None:
    graph = small_graph(5)
    assert isinstance(graph.x, Tensor)
    x = graph.x * (torch.rand(graph.x.shape) < 0.5)
    whole = Net(6, 2, Architecture(ops=("GCNConv", "Linear"), hidden=(3,))).eval()
    with torch.no_grad():
        whole.layers[0].weight[[0, 3, 4]] = 0
    index = torch.tensor([1, 2, 5])
    part = Net(6, 2, whole.architecture, feature_index=index).eval()
    state = whole.state_dict() | {
        "layers.0.weight": whole.layers[0].weight[index],
        "feature_index": index,
    }
    part.load_state_dict(state)
    own: Tensor | Csr = Csr.from_scipy(sp.csr_array(x.numpy())) if sparse else x
    masked = MaskedGraph.of(graph)
    torch.testing.assert_close(part.run(own, masked), whole.run(own, masked))
    assert part.picked(own) is part.picked(own)  # picked once for one x
    other = replace(own) if isinstance(own, Csr) else own.clone()
    assert part.picked(other) is not part.picked(own)
    if isinstance(own, Tensor):
        own[0, 1] += 1.0  # written to: picked anew
        torch.testing.assert_close(part.run(own, masked), whole.run(own, masked))


def test_columns_of_a_csr() -> None:
    dense = torch.tensor([[1.0, 0, 2, 3], [0, 0, 4, 0], [0, 5, 0, 6]])
    matrix = Csr.from_scipy(sp.csr_array(dense.numpy()))
    part = matrix.columns(torch.tensor([0, 3]))
    assert part.shape == (3, 2) and part.to_scipy().toarray().tolist() == [[1, 3], [0, 0], [0, 6]]


def test_a_constant_unit_stays_under_a_layer_norm() -> None:
    # unit 0 has no input and the bias 2, unit 1 none at all: both are in the mean of every node
    net = Net(6, 2, Architecture(ops=("Linear", "Linear"), hidden=(3,), layer_norm=True)).eval()
    net.layers[0].bias.data[0, 0] = 2.0
    keep = torch.ones_like(net.layers[0].weight, dtype=torch.bool)
    keep[:, :2] = False
    net.prune([keep, torch.ones_like(net.layers[1].weight, dtype=torch.bool)])
    small = shrink_net(net)
    assert small.architecture == net.architecture
    torch.testing.assert_close(run(small, small_graph(0)), run(net, small_graph(0)))


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_a_shrunk_solution_survives_its_folder(tmp_path: Path, norm: str) -> None:
    graph = small_graph(2)
    net = random_net(8, ("SAGEConv", "GATConv", "GCNConv"), heads=2, norm=norm, kept=0.6)
    found = found_for(graph, net)
    trained = retrain(graph, found)
    small = shrink(trained)
    assert isinstance(small.model, Net) and small.size is not None and trained.size is not None
    assert small.size.macs < trained.size.macs and small.weights_kept == trained.weights_kept
    if norm == "batch":
        assert small.size.params < trained.size.params
    torch.testing.assert_close(
        predict(small.model, graph), predict(trained.model, graph), rtol=1e-4, atol=1e-5
    )
    meta = artefact.save(tmp_path / "run", graph, found, small)
    assert meta["size"]["params"] == small.model.num_weights()[0]
    assert meta["size"]["bytes"] == (tmp_path / "run" / "model.safetensors").stat().st_size
    run_again = artefact.open_run(tmp_path / "run")
    assert run_again.model.architecture == small.model.architecture
    assert torch.equal(predict(run_again.model, graph), predict(small.model, graph))
    assert run_again.plan.architecture == found.architecture  # evaluate retrains what was found
    assert retrain(graph, run_again.plan).scores == trained.scores
