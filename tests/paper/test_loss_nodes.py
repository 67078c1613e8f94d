"""Gap 6: the nodes over which L_struct sums."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from gassip.graph.graph import Graph
from gassip.nn.kernels import transform
from gassip.paper.loop import step_structure
from gassip.paper.state import State
from gassip.settings.search import Search


@pytest.mark.parametrize("which", ["labelled", "all", "unlabelled"])
def test_loss_over_the_nodes_named(make_graph: Callable[..., Graph], which: str) -> None:
    """One SAGE layer reaches exactly the edges into the nodes of the loss."""
    graph = make_graph(1, undirected=False)
    settings = Search(layers=1, ops=("SAGEConv",), beta=0.0, edge_scores="directed")
    state = State(graph, replace(settings, loss_nodes=which))  # type: ignore[arg-type]
    with torch.no_grad():
        weights = state.weights()
    step_structure(state, weights, transform(graph.x, weights[0]))
    assert state.edge_score.grad is not None
    into = graph.edge_index[1]
    # the only edge into a node is its whole mean, whatever it weighs
    several = torch.bincount(into, minlength=graph.num_nodes)[into] > 1
    labelled = graph.train_mask[into]
    nodes = {"labelled": labelled, "all": labelled | ~labelled, "unlabelled": ~labelled}
    assert torch.equal(state.edge_score.grad.abs() > 1e-5, several & nodes[which])
