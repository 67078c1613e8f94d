"""Every backend knows every operation of the table, and one more that is added to it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from gassip import operations
from gassip.deploy import export, runtime
from gassip.deploy.executorch import OnGraph
from gassip.deploy.numpy_graph import Inputs
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, Net, net_for
from gassip.nn.propagate import MaskedGraph, propagate
from gassip.nn.size import count_macs
from gassip.operations import NORMS, OPERATIONS, Norm, Operation
from gassip.train.batched import batchable, solve_many
from gassip.train.shrink import shrink_net
from gassip.train.trainer import predict, solve
from tests.saved_runs import random_net, save_run

MakeGraph = Callable[..., Graph]
TOYS = {
    "gcn, two matrices": Operation(norm="gcn", matrices=2),
    "mean, one matrix": Operation(norm="mean"),
    "attention, two matrices": Operation(norm="attention", matrices=2),
    "mean, three steps": Operation(norm="mean", steps=3, scale=0.5, back=0.25),
    "arma, two steps, two matrices": Operation(norm="arma", matrices=2, steps=2, start=0.5),
    "gcn, one step and back": Operation(norm="gcn", scale=0.8, back=0.2),
}
TABLE = OPERATIONS | TOYS
every_operation = pytest.mark.parametrize("op", TABLE)


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations that no other file has heard of."""
    for name, toy in TOYS.items():
        monkeypatch.setitem(OPERATIONS, name, toy)


@pytest.fixture
def graph(make_graph: MakeGraph) -> Graph:
    return make_graph(3, nodes=30, edges=90, features=5, weighted=True, undirected=False)


def two_layers(graph: Graph, op: str, *, norm: str = "") -> Net:
    heads = 2 if OPERATIONS[op].attention else 1
    shape = Architecture(
        ops=(op, op),
        hidden=(8,),
        heads=(heads,),
        batch_norm=norm == "batch",
        layer_norm=norm == "layer",
    )
    return random_net(graph, shape)


def dense_matrix(norm: str, weight: torch.Tensor) -> torch.Tensor:
    """S [N, N] of a norm from the weights m [N, N], by its equation."""
    degree = weight.sum(1)
    if norm == "gcn":
        root = (1 + degree).rsqrt()
        return root[:, None] * (weight + torch.eye(len(weight))) * root
    if norm == "mean":
        return weight / torch.where(degree > 0, degree, 1)[:, None]
    root = torch.where(degree > 0, degree.rsqrt(), 0)
    return root[:, None] * weight * root


@pytest.mark.parametrize("op", [name for name, own in TABLE.items() if own.commutes])
@pytest.mark.parametrize("learned", [False, True], ids=["fixed edges", "learned edges"])
def test_torch_computes_the_equation(graph: Graph, op: str, learned: bool) -> None:
    operation = OPERATIONS[op]
    assert operation.norm is not None
    weight = torch.zeros(30, 30)
    weight[graph.edge_index[1], graph.edge_index[0]] = graph.weight
    count = max(2, operation.matrices)
    matrix, products = dense_matrix(operation.norm, weight), torch.randn(count, 30, 4).unbind()
    z = operation.start * products[0]
    for _ in range(operation.steps):
        z = operation.scale * matrix @ z + operation.back * products[0]
    if count > 2:  # Σ_k S^{K-k} P_{k+1}
        hops = (
            torch.linalg.matrix_power(matrix, count - 1 - k) @ p for k, p in enumerate(products)
        )
        z = torch.stack(list(hops)).sum(0)
    expected = z + products[1] if operation.matrices == 2 else z
    masked = MaskedGraph(graph.adjacency, graph.weight.clone().requires_grad_(learned))
    torch.testing.assert_close(propagate(operation, masked, products), expected)


@every_operation
@pytest.mark.parametrize("norm", ["plain", "batch", "layer"])
def test_numpy_agrees_with_torch(graph: Graph, tmp_path: Path, op: str, norm: str) -> None:
    net = two_layers(graph, op, norm=norm)
    save_run(tmp_path / "run", graph, net, kept=1.0)
    model, expected = runtime.load(tmp_path / "run"), predict(net, graph).numpy()
    np.testing.assert_allclose(model.scores(), expected, rtol=1e-3, atol=1e-4)
    some = model.run(model.stored, np.array([2, 7, 29]))  # computes the field of three nodes only
    np.testing.assert_allclose(some, expected[[2, 7, 29]], rtol=1e-3, atol=1e-4)


@every_operation
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
def test_onnx_agrees_with_torch(graph: Graph, tmp_path: Path, op: str, dynamic: bool) -> None:
    pytest.importorskip("onnxruntime")
    save_run(tmp_path / "run", graph, two_layers(graph, op))
    assert export.to_onnx(tmp_path / "run", tmp_path / "net.onnx", dynamic=dynamic) > 0


def portable(graph: Graph, net: Net, folder: Path) -> tuple[OnGraph, torch.Tensor]:
    """The module that ExecuTorch translates, and the features it is called with."""
    save_run(folder, graph, net, kept=1.0)
    model = runtime.load(folder)
    x = np.array(export.all_columns(model, model.stored.x))
    return OnGraph(model, model.stored).eval(), torch.from_numpy(x)


@every_operation
@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_what_executorch_is_given_agrees_with_torch(
    graph: Graph, tmp_path: Path, op: str, norm: str
) -> None:
    net = two_layers(graph, op, norm=norm)
    module, x = portable(graph, net, tmp_path / "run")
    torch.testing.assert_close(module(x), predict(net, graph), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("op", ["SAGEConv", "GATConv", "APPNP5"])
@pytest.mark.parametrize("norm", ["plain", "layer"])
def test_what_executorch_is_given_can_be_traced(
    graph: Graph, tmp_path: Path, op: str, norm: str
) -> None:
    net = two_layers(graph, op, norm=norm)
    module, x = portable(graph, net, tmp_path / "run")
    with torch.no_grad():
        out = torch.export.export(module, (x,)).module()(x)
    torch.testing.assert_close(out, predict(net, graph), rtol=1e-3, atol=1e-4)


@every_operation
@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
def test_batched_training_or_its_fallback_ends_where_single_runs_end(
    make_graph: MakeGraph, op: str, sparse: bool
) -> None:
    graph = make_graph(5, nodes=45, edges=90, features=20, sparse=sparse)
    shape = Architecture(ops=(op, op), hidden=(8,))

    def build() -> Net:
        return net_for(graph, shape, 0.5)

    assert batchable(build(), graph) == (not OPERATIONS[op].iterates)
    many = solve_many(graph, build, seeds=(0, 1), epochs=8, lr=0.01, weight_decay=1e-3)
    alone = solve(graph, build, seed=1, epochs=8, lr=0.01, weight_decay=1e-3)
    expected = predict(alone.model, graph)
    torch.testing.assert_close(predict(many[1].model, graph), expected, rtol=1e-3, atol=1e-4)


@every_operation
def test_shrinking_leaves_the_output_as_it_was(graph: Graph, op: str) -> None:
    net = two_layers(graph, op)
    with torch.no_grad():  # an unread unit, an unread feature and a unit without input
        net.layers[1].weight[0] = 0
        net.layers[0].weight[1] = 0
        net.layers[0].weight[:, 5::8] = 0
        net.layers[0].bias[0, 5] = 0.7
        if net.layers[0].attention is not None:
            net.layers[0].attention[:, 0, 0] = 0
    small = shrink_net(net)
    assert small.num_weights()[1] < net.num_weights()[1]
    torch.testing.assert_close(predict(small, graph), predict(net, graph), rtol=1e-3, atol=1e-4)


@every_operation
def test_without_propagated_weights_it_is_linear(graph: Graph, op: str) -> None:
    net = two_layers(graph, op)
    with torch.no_grad():
        net.layers[1].weight[:, : OPERATIONS[op].propagated * graph.num_classes] = 0
    small = shrink_net(net)
    assert small.architecture.ops[1] == "Linear"
    torch.testing.assert_close(predict(small, graph), predict(net, graph), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("op", "left"), [("TAG4", "TAG3"), ("TAG3", "TAG2"), ("TAG2", "SAGEConv")])
def test_without_its_farthest_hop_it_is_shorter(graph: Graph, op: str, left: str) -> None:
    net = two_layers(graph, op)
    with torch.no_grad():
        net.layers[0].weight[:, :8] = 0
    small = shrink_net(net)
    assert small.architecture.ops == (left, op)
    torch.testing.assert_close(predict(small, graph), predict(net, graph), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_matrix_for_each_hop_takes_no_other_factors(steps: int) -> None:
    with pytest.raises(GassipError, match=r"matrices is 3|no other factors"):
        Operation(norm="mean", matrices=3 if steps == 1 else 4, steps=steps, back=0.5)


@every_operation
def test_every_operation_that_reads_edges_has_a_cost(graph: Graph, op: str) -> None:
    net, operation = two_layers(graph, op), OPERATIONS[op]
    products = 30 * operation.matrices * (5 * 8 + 8 * graph.num_classes)
    assert (count_macs(net, graph) > products) == (operation.norm is not None)


def test_a_new_norm_is_refused_by_name_where_it_is_missing(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NORMS, "sum", Norm(loops=False))
    monkeypatch.setitem(OPERATIONS, "Sum", Operation(norm="sum"))
    net = net_for(graph, Architecture(ops=("Sum",), hidden=()))
    with pytest.raises(GassipError, match=r"torch has no matrix for the norm 'sum'"):
        predict(net, graph)
    monkeypatch.setattr(MaskedGraph, "normalised", lambda self, _: (self.edge_weight, None))
    save_run(tmp_path / "run", graph, net.eval(), kept=1.0)
    with pytest.raises(GassipError, match=r"numpy has no matrix for the norm 'sum'"):
        runtime.load(tmp_path / "run").scores()
    pytest.importorskip("onnxruntime")
    with pytest.raises(GassipError, match=r"Sum cannot be exported as ONNX for any graph"):
        export.to_onnx(tmp_path / "run", tmp_path / "net.onnx", dynamic=True)


def test_a_new_norm_is_exported_by_its_matrix(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NORMS, "sum", Norm(loops=False))
    monkeypatch.setitem(OPERATIONS, "Sum", Operation(norm="sum", matrices=2))
    monkeypatch.setattr(MaskedGraph, "normalised", lambda self, _: (self.edge_weight, None))
    monkeypatch.setattr(Inputs, "normalised", lambda self, _: self.edges)
    pytest.importorskip("onnxruntime")
    save_run(tmp_path / "run", graph, two_layers(graph, "Sum"), kept=1.0)
    assert export.to_onnx(tmp_path / "run", tmp_path / "net.onnx") > 0  # compared with torch


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"norm": "max"}, "norm is 'max'; there are gcn, arma, mean, attention and None"),
        ({"norm": "gcn", "matrices": 3}, "matrices is 3; 1 or 2"),
        ({"norm": None, "matrices": 2}, "1 where norm is None"),
        ({"norm": "attention", "steps": 2}, "a norm of 'attention' takes only one step"),
        ({"norm": None, "back": 0.1}, "a norm of None takes only one step"),
        ({"norm": "gcn", "steps": 0}, "steps is 0"),
    ],
)
def test_an_operation_that_means_nothing_is_refused(given: dict[str, object], line: str) -> None:
    with pytest.raises(GassipError, match=line):
        Operation(**given)  # type: ignore[arg-type]


def test_the_spaces_are_those_of_the_paper_and_of_best() -> None:
    assert operations.ALL_OPS == ("GCNConv", "GATConv", "SAGEConv", "ArmaConv", "Linear")
    assert operations.NARROW_OPS == ("GCNConv", "GATConv", "ArmaConv", "Linear")
    assert (*operations.ALL_OPS, "APPNP10", "APPNP5") == operations.MORE_OPS
    means, hops = ("Hops4", "Hops2"), ("TAG4", "TAG3", "TAG2")
    assert (*operations.MORE_OPS, *means, "SkipGCN", *hops) == operations.NET_OPS


def test_the_table_needs_neither_torch_nor_numpy() -> None:
    code = "import gassip.operations, sys; "
    code += "sys.exit(bool({'torch', 'numpy', 'scipy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
