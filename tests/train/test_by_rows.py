from dataclasses import replace

import pytest
import torch
from scipy import sparse as sp

from gassip.best.recipe import suited
from gassip.graph.csr import Csr
from gassip.nn.net import Architecture, net_for
from gassip.nn.propagate import MaskedGraph
from gassip.settings.training import Recipe
from gassip.train.by_rows import ByRows, fits, inputs, loss_of, reads_rows, run_rows
from gassip.train.losses import supervised, training_loss
from gassip.train.trainer import train
from tests.conftest import random_graph

FIRST = ("Linear", "GCNConv", "SAGEConv", "ArmaConv", "APPNP5", "TAG2", "TAG3")


def shape(first: str, *, norm: str = "", standardised: bool = False) -> Architecture:
    return Architecture(
        ops=(first, "Linear", "Linear"),
        hidden=(5, 4),
        batch_norm=norm == "batch",
        layer_norm=norm == "layer",
        standardised=standardised,
    )


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("norm", ["", "batch", "layer"])
def test_rows_give_what_the_graph_gives(first: str, norm: str) -> None:
    graph = random_graph(1, nodes=30)
    net = net_for(graph, shape(first, norm=norm, standardised=norm != "")).eval()
    masked = MaskedGraph.of(graph, lasting=True)
    rows = inputs(net, graph, masked)
    torch.testing.assert_close(run_rows(net, rows), net.run(graph.x, masked))
    if first != "Linear":
        assert inputs(net, graph, masked) is rows  # computed once


def test_nets_that_read_edges_later_or_drop_nodes_do_not_go_by_rows() -> None:
    assert reads_rows(shape("TAG2")) and not reads_rows(shape("GATConv"))
    assert not reads_rows(shape("Hops2"))
    assert not reads_rows(Architecture(ops=("Linear", "GCNConv"), hidden=(4,)))
    assert not reads_rows(Architecture(ops=("SAGEConv",), hidden=()))
    graph = random_graph(1, nodes=30)
    assert isinstance(graph.x, torch.Tensor) and fits(shape("TAG2"), graph)
    sparse = replace(graph, x=Csr.from_scipy(sp.csr_array(graph.x.numpy())))
    assert not fits(shape("TAG2"), sparse)


@pytest.mark.parametrize("taught", [False, True])
@pytest.mark.parametrize("heard", [False, True])
def test_one_batch_of_all_nodes_is_the_whole_graph(taught: bool, heard: bool) -> None:
    graph = random_graph(1, nodes=30)
    soft = torch.softmax(torch.randn(graph.num_nodes, graph.num_classes), 1) if taught else None
    recipe = Recipe(distillation=float(taught))
    net, masked = net_for(graph, shape("SAGEConv")).train(), MaskedGraph.of(graph, lasting=True)
    net.label_logits = torch.randn(graph.num_nodes, graph.num_classes) if heard else None
    by_rows = loss_of(replace(recipe, batch_rows=100), soft)
    assert isinstance(by_rows, ByRows) and by_rows.suits(net, graph)
    (batch,) = by_rows.batches(net, graph, masked)
    whole = training_loss(recipe, soft)(net, graph, masked, 1)
    torch.testing.assert_close(batch, whole)
    torch.testing.assert_close(by_rows(net, graph, masked, 1), whole)
    parts = list(replace(by_rows, batch=4).batches(net, graph, masked))
    assert len(parts) > 1
    assert loss_of(Recipe()) is supervised


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_training_by_rows_takes_a_step_for_each_batch(norm: str) -> None:
    graph = random_graph(1, nodes=60)
    net = net_for(graph, shape("TAG2", norm=norm), 0.2)
    before = net.layers[0].weight.detach().clone()
    loss = loss_of(Recipe(batch_rows=4))
    assert train(net, graph, epochs=3, lr=0.01, weight_decay=0.0, loss=loss) >= 1
    assert not torch.equal(before, net.layers[0].weight)


def test_mini_batches_suit_many_labels_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, recipe = random_graph(1, nodes=60), Recipe(epochs=90, lr=0.03)
    assert suited(recipe, shape("TAG2"), graph) is recipe
    monkeypatch.setattr("gassip.best.recipe.ROWS_FROM", 5)
    own = suited(recipe, shape("TAG2"), graph)
    assert (own.batch_rows, own.lr, own.epochs) == (1024, 0.005, 30)
    taught = replace(recipe, consistency=1.0)
    assert suited(taught, shape("TAG2"), graph) is taught
    over_edges = Architecture(ops=("Linear", "GCNConv"), hidden=(4,))
    assert suited(recipe, over_edges, graph) is recipe
