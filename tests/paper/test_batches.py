"""Algorithm 2 in batches."""

from collections.abc import Callable

import pytest
import torch

from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.paper import loop
from gassip.paper.batches import UNION, BatchState, batches, induced
from gassip.paper.state import State
from gassip.settings.search import Search
from gassip.train.trainer import seeded

QUICK = Search(epochs=3, hidden=4, warmup_epochs=1, dropout=0.5)


@pytest.fixture
def graph(make_graph: Callable[..., Graph]) -> Graph:
    return make_graph(nodes=40, edges=160)


def test_induced_by_hand(graph: Graph) -> None:
    """Edges with both ends inside, renumbered; the rest of the node goes along."""
    nodes = torch.arange(5, 30)
    part, kept = induced(graph, nodes)
    inside = ((graph.edge_index >= 5) & (graph.edge_index < 30)).all(0)
    assert torch.equal(kept, torch.nonzero(inside).squeeze(1))
    assert torch.equal(part.edge_index + 5, graph.edge_index[:, inside])
    assert torch.equal(part.y, graph.y[5:30])


def test_one_batch_is_the_whole_graph(graph: Graph) -> None:
    """Bit by bit: weights, α, scores of edges, logits."""
    with seeded(0, graph.device):
        whole = State(graph, QUICK)
        for _ in range(3):
            whole.history.append(loop.epoch(whole, "accuracy"))
    with seeded(0, graph.device):
        state = State(graph, QUICK)
        for _ in range(3):
            batch = BatchState(state, torch.arange(graph.num_nodes))
            before, grad_std = state.edge_score.detach().clone(), state.grad_std
            state.history.append(loop.epoch(batch, "accuracy"))
            batch.hand_back(before, grad_std)
    state.refresh()
    mine, other = state.tensors(), whole.tensors()
    assert mine.keys() == other.keys()
    for name, value in mine.items():
        assert torch.equal(value, other[name]), name


def test_batches_share_out_the_nodes(graph: Graph) -> None:
    settings = Search(epochs=1, hidden=4, batch_nodes=2 * UNION)
    with seeded(0, graph.device):
        found = list(batches(State(graph, settings)))
    nodes = torch.cat([batch.nodes for batch in found])
    assert nodes.unique().numel() == nodes.numel() and len(found) > 1
    assert all(batch.graph.num_nodes <= 2 * UNION for batch in found)


def test_a_batch_moves_the_scores_of_its_own_edges(graph: Graph) -> None:
    with seeded(0, graph.device):
        state = State(graph, QUICK)
        batch = BatchState(state, torch.arange(25))
        before, grad_std = state.edge_score.detach().clone(), state.grad_std
        loop.epoch(batch, "accuracy")
        batch.hand_back(before, grad_std)
    moved = state.edge_score.detach() != before
    mine = torch.zeros_like(moved)
    mine[batch.slot] = True
    assert bool(moved.any()) and not bool((moved & ~mine).any())


def test_a_search_in_batches(graph: Graph) -> None:
    settings = Search(epochs=4, hidden=4, warmup_epochs=1, batch_nodes=24)
    with seeded(0, graph.device):
        state = loop.run(graph, settings)
    assert len(state.history) == 4
    assert {"train_loss", "val_score", "edges_kept"} <= state.history[-1].keys()


def test_batches_too_small(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gassip.paper.batches.UNION", 1)
    with seeded(0, graph.device), pytest.raises(GassipError, match="batch_nodes is 1"):
        loop.run(graph, Search(epochs=1, hidden=4, batch_nodes=1))
