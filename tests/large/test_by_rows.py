"""Nets over hops: rows, graphs and blocks of rows agree."""

from pathlib import Path

import numpy as np
import pytest
import torch

from gassip.deploy.by_rows import RowModel, label_logits
from gassip.deploy.numpy_layers import layers_of
from gassip.errors import GassipError
from gassip.graph.datasets import read
from gassip.graph.graph import Graph
from gassip.graph.store import GraphFolder
from gassip.large.block_model import BlockModel, draw
from gassip.large.hops import Hops, open_hops, propagate
from gassip.large.kernels import Edges
from gassip.large.rows.nets import Basis, Scaling, Shape, folded, fresh, joined, run_rows
from gassip.large.writing import write_block_model
from gassip.nn.net import Architecture, Net
from gassip.nn.propagate import MaskedGraph
from gassip.train.label_propagation import known_labels
from gassip.train.label_propagation import label_logits as torch_label_logits
from gassip.train.trainer import predict
from tests.saved_runs import random_net

MODEL = BlockModel(nodes=300, degree=4, features=8, classes=3)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, Hops]:
    out = tmp_path_factory.mktemp("rows") / "csbm.graph"
    write_block_model(MODEL, draw(MODEL), 0.9, out)
    folder = GraphFolder.open(out)
    hops = open_hops(folder, out / "hops", steps=4)
    propagate(hops, Edges.of(folder))
    return read(out), hops


def trained(hops: Hops, shape: Shape, seed: int = 0) -> tuple[Net, torch.Tensor]:
    """A net with batch statistics of its own, folded, and what it said of every row before."""
    torch.manual_seed(seed)
    nodes = np.arange(hops.graph.nodes)
    rows = torch.from_numpy(hops.rows(nodes, range(shape.hops[-1] + 1)))
    net = fresh(hops.features, 3, shape)
    scaling = Scaling.fit(rows)
    scaling.apply_(rows)
    basis = Basis.fit(rows, scaling, hops.features) if shape.signed else None
    for _ in range(3):
        run_rows(net.train(), rows, basis)
    return folded(net.eval(), scaling, basis), run_rows(net.eval(), rows, basis).detach()


@pytest.mark.parametrize(
    "shape",
    [
        Shape(hops=(0,), width=5),
        Shape(hops=(0, 1), width=4, depth=1),
        Shape(hops=(0, 1, 2), width=6, depth=3),
        Shape(hops=(1, 4), width=5),
        Shape(hops=(0, 1, 2, 3), width=5, signed=True),
    ],
    ids=str,
)
def test_a_row_net_is_an_ordinary_net(made: tuple[Graph, Hops], shape: Shape) -> None:
    """Folded: the same on rows, on the graph in torch, and by blocks of rows in numpy."""
    graph, hops = made
    net, wanted = trained(hops, shape)
    assert not net.architecture.batch_norm
    torch.testing.assert_close(predict(net, graph), wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model_of(net, hops).scores(), wanted.numpy(), rtol=1e-4, atol=1e-4)


def model_of(net: Net, hops: Hops) -> RowModel:
    state = {
        name: value.numpy()
        for name, value in net.state_dict().items()
        if not name.startswith("weight_keep")
    }
    layers = layers_of(net.architecture.ops, state, 3)
    return RowModel(layers=layers, hops=hops, edges=Edges.of(hops.graph))


def test_layer_norm_by_rows_equals_the_graph(made: tuple[Graph, Hops]) -> None:
    """By blocks of rows, with hops behind a norm too, and of a node that is added."""
    graph, hops = made
    shape = Architecture(ops=("TAG2", "Linear", "SAGEConv"), hidden=(6, 5), layer_norm=True)
    net = random_net(graph, shape)
    model, wanted = model_of(net, hops), predict(net, graph).numpy()
    np.testing.assert_allclose(model.scores(), wanted, rtol=1e-3, atol=1e-3)
    senders = graph.edge_index[0, graph.edge_index[1] == 17].numpy()
    found = model.new_node(np.array(hops.graph.array("x"))[17], senders)
    np.testing.assert_allclose(found, wanted[17], rtol=1e-3, atol=1e-3)
    with pytest.raises(GassipError, match="layer norm does not fold into weights"):
        folded(net, Scaling.none(3 * 8))


def test_joined_nets_equal_the_net_on_the_graph(made: tuple[Graph, Hops]) -> None:
    graph, hops = made
    lower, _ = trained(hops, Shape(hops=(0, 1, 2), width=6))
    upper = fresh(6, 3, Shape(hops=(0, 1, 2), width=4))
    upper = folded(upper.eval(), Scaling.none(18))
    net = joined(lower, upper)
    assert net.architecture.ops == ("TAG2", "TAG2", "Linear")
    wanted = predict(net, graph).numpy()
    np.testing.assert_allclose(model_of(net, hops).scores(), wanted, rtol=1e-4, atol=1e-4)


def test_a_new_node_equals_the_whole_graph(made: tuple[Graph, Hops]) -> None:
    """An old node taken as new, with its own features and senders, gets its own scores."""
    graph, hops = made
    x = np.array(hops.graph.array("x"))
    lower, _ = trained(hops, Shape(hops=(0, 1, 2), width=6))
    upper = fresh(6, 3, Shape(hops=(0, 1), width=4))
    upper = folded(upper.eval(), Scaling.none(12))
    model = model_of(joined(lower, upper), hops)
    scores = model.scores()
    for node in (0, 17, 299):
        senders = graph.edge_index[0, graph.edge_index[1] == node].numpy()
        found = model.new_node(x[node], senders)
        np.testing.assert_allclose(found, scores[node], rtol=1e-4, atol=1e-5)
    alone = model.new_node(x[0], np.array([], dtype=np.int64))
    assert np.isfinite(alone).all()
    with pytest.raises(GassipError, match="outside 0"):
        model.new_node(x[0], np.array([300]))


def test_label_logits_equal_torch(made: tuple[Graph, Hops]) -> None:
    graph, hops = made
    labels = known_labels(graph)
    wanted = torch_label_logits(labels, 3, MaskedGraph.of(graph))
    found = label_logits(labels.numpy(), 3, Edges.of(hops.graph))
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-4)


def test_an_operation_without_hops_is_refused(made: tuple[Graph, Hops], tmp_path: Path) -> None:
    graph, hops = made
    from gassip.nn.net import Architecture, net_for

    net = net_for(graph, Architecture(ops=("GCNConv", "Linear"), hidden=(4,)))
    with pytest.raises(GassipError, match="whole graph"):
        model_of(net, hops).scores()
