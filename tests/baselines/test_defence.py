from collections.abc import Callable
from math import exp, log

import numpy as np
import pytest
import torch
from scipy import sparse as sp
from torch import Tensor
from torch.nn import functional as F

from gassip.baselines.gnnguard import GnnGuard, GuardedNet, defence
from gassip.baselines.jaccard import GcnJaccard
from gassip.baselines.rgcn import GaussianLayer, Rgcn, RgcnNet, divergence, twice_normalised
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.graph.similarity import cosine, is_bag, jaccard
from gassip.nn.propagate import MaskedGraph
from gassip.train.context import RunContext
from gassip.train.trainer import predict, seeded

# nodes 0..3 hold the words {0, 1}, {1, 2}, {0, 1, 2}, {3}; edges 0-1, 1-2, 2-3
WORDS = torch.tensor([[1.0, 1, 0, 0], [0, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1]])


def words_graph(x: Tensor) -> Graph:
    return Graph.build(
        x,
        torch.tensor([[0, 1, 2], [1, 2, 3]]),
        torch.tensor([0, 1, 0, 1]),
        masks=(np.array([1, 1, 0, 0]), np.array([0, 0, 1, 0]), np.array([0, 0, 0, 1])),
        undirected=True,
    )


def as_csr(x: Tensor) -> Csr:
    return Csr.from_scipy(sp.csr_array(x.numpy()))


# GCN-Jaccard


def test_jaccard_by_hand() -> None:
    # |{1}| / |{0,1,2}| = 1/3, |{1,2}| / |{0,1,2}| = 2/3, 0 / 4; edges by receiver: 1→0, 0→1, 2→1,
    # 1→2, 3→2, 2→3
    graph = words_graph(WORDS)
    expected = torch.tensor([1 / 3, 1 / 3, 2 / 3, 2 / 3, 0.0, 0.0])
    for x in (WORDS, 0.5 * WORDS, as_csr(WORDS)):
        torch.testing.assert_close(jaccard(x, graph.adjacency), expected)


def test_cosine_by_hand() -> None:
    # 1 / √(2·2), 2 / √(2·3), 0
    graph = words_graph(WORDS)
    expected = torch.tensor([0.5, 0.5, 2 / 6**0.5, 2 / 6**0.5, 0.0, 0.0])
    for x in (WORDS, as_csr(3 * WORDS)):
        torch.testing.assert_close(cosine(x, graph.adjacency), expected)


def test_similarity_of_nodes_without_features_is_zero() -> None:
    x = WORDS.clone()
    x[1] = 0
    graph = words_graph(WORDS)
    for x_of in (x, as_csr(x)):
        assert torch.equal(jaccard(x_of, graph.adjacency)[:4], torch.zeros(4))
        assert torch.equal(cosine(x_of, graph.adjacency)[:4], torch.zeros(4))


def test_blocks_change_nothing(
    make_graph: Callable[..., Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make_graph(0, sparse=True, features=40)
    whole = cosine(graph.x, graph.adjacency)
    monkeypatch.setattr("gassip.graph.similarity.BLOCK", 3)
    torch.testing.assert_close(cosine(graph.x, graph.adjacency), whole)


def test_bags_are_told_from_real_features(make_graph: Callable[..., Graph]) -> None:
    scaled = WORDS / WORDS.sum(1, keepdim=True)
    assert is_bag(WORDS) and is_bag(scaled) and is_bag(as_csr(scaled))
    assert not is_bag(make_graph(0).x) and not is_bag(-WORDS)


def test_gcn_jaccard_cuts_below_its_threshold() -> None:
    graph = words_graph(WORDS)
    assert GcnJaccard().sparser(graph).edge_index.tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]
    assert GcnJaccard(threshold=0.5).sparser(graph).edge_index.tolist() == [[2, 1], [1, 2]]
    assert GcnJaccard(threshold=0.6, similarity="cosine").sparser(graph).num_edges == 2
    solution = GcnJaccard(epochs=2, hidden=4).solve(graph, RunContext(0))
    assert (solution.edges_kept, solution.edges_total, solution.graph.num_edges) == (4, 6, 4)


def test_gcn_jaccard_may_cut_everything() -> None:
    solution = GcnJaccard(epochs=2, hidden=4, threshold=2.0).solve(
        words_graph(WORDS), RunContext(0)
    )
    assert solution.edges_kept == 0
    assert torch.isfinite(predict(solution.model, solution.graph)).all()


# RGCN


@pytest.fixture
def three() -> MaskedGraph:
    """The path 0 - 1 - 2: degrees with the node itself are 2, 3, 2."""
    graph = Graph.build(
        torch.eye(3),
        torch.tensor([[0, 1], [1, 2]]),
        torch.tensor([0, 1, 0]),
        masks=(np.array([1, 1, 0]), np.array([0, 0, 1]), np.array([0, 0, 0])),
        undirected=True,
    )
    return MaskedGraph.of(graph)


def test_rgcn_layer_by_hand(three: MaskedGraph) -> None:
    mean, variance = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[0.0], [log(2)], [0.0]])
    layer = GaussianLayer(1, 1, uncertainty=1.0)
    # a = 1, 1/2, 1; μ a = 1, 1, 3; σ a² = 0, log(2)/4, 0
    # h_μ0 = 1/2 + 1/√6;  h_μ1 = 1/√6 + 1/3 + 3/√6;  h_μ2 = 1/√6 + 3/2;  h_σ = log(2)/4 · (1/6, 1/9,
    # 1/6)
    new_mean, new_variance = layer.propagate(mean, variance, three)
    r = 6**-0.5
    torch.testing.assert_close(new_mean, torch.tensor([[0.5 + r], [4 * r + 1 / 3], [r + 1.5]]))
    torch.testing.assert_close(new_variance, log(2) / 4 * torch.tensor([[1 / 6], [1 / 9], [1 / 6]]))
    torch.testing.assert_close(
        twice_normalised(three, variance), log(2) * torch.tensor([[1 / 6], [1 / 9], [1 / 6]])
    )


def test_rgcn_activations_by_hand() -> None:
    layer = GaussianLayer(2, 1, uncertainty=1.0)
    with torch.no_grad():
        layer.mean_weight.copy_(torch.tensor([[1.0], [-1.0]]))
        layer.variance_weight.copy_(torch.tensor([[1.0], [-1.0]]))
    mean, variance = layer.activate(torch.eye(2), torch.eye(2))
    torch.testing.assert_close(mean, torch.tensor([[1.0], [exp(-1) - 1]]))  # ELU
    torch.testing.assert_close(variance, torch.tensor([[1.0], [0.0]]))  # ReLU


def test_rgcn_divergence_by_hand() -> None:
    # node 0: ½ (1 + 1 - 0) and ½ (0 + e - 1), mean of the two; node 1: ½ (4 + 1 - 0) and ½ (0 + 1 -
    # 0)
    mean, variance = (
        torch.tensor([[1.0, 0.0], [2.0, 0.0]]),
        torch.tensor([[1.0, exp(1)], [1.0, 1.0]]),
    )
    expected = (1 + (exp(1) - 1) / 2) / 2 + (2.5 + 0.5) / 2
    torch.testing.assert_close(divergence(mean, variance), torch.tensor(expected))


def test_rgcn_draws_in_training_and_takes_means_at_evaluation(
    make_graph: Callable[..., Graph],
) -> None:
    graph = make_graph(1)
    net = Rgcn(dropout=0.0).model(graph)
    masked = MaskedGraph.of(graph)
    assert not torch.equal(net.train().run(graph.x, masked), net.run(graph.x, masked))
    assert torch.equal(net.eval().run(graph.x, masked), net.run(graph.x, masked))


def test_rgcn_loss_adds_its_terms(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(2)
    method = Rgcn(beta_divergence=0.3, beta_decay=0.2, dropout=0.0)
    net = method.model(graph)
    assert isinstance(net, RgcnNet)
    masked = MaskedGraph.of(graph)
    with seeded(0, graph.device):
        loss = method.loss(net, graph, masked, 1)
    with seeded(0, graph.device):
        scores, mean, variance = net.passes(graph.x, masked)
    plain = F.cross_entropy(scores[graph.train_mask], graph.y[graph.train_mask])
    size = net.first.mean_weight.square().sum() + net.first.variance_weight.square().sum()
    torch.testing.assert_close(loss, plain + 0.3 * divergence(mean, variance) + 0.2 * size)


# GNNGuard


def test_defence_by_hand() -> None:
    # edges 1→0, 0→1, 2→1, 1→2, 3→2, 2→3; .05 is under the threshold of .1, so node 2 hears one,
    # node 3 none
    graph = MaskedGraph.of(words_graph(WORDS))
    edge, loop = defence(graph, torch.tensor([0.5, 0.6, 0.2, 0.4, 0.05, 0.05]), 0.1)
    # node 1 hears two: shares .75 and .25 of 2/3
    torch.testing.assert_close(edge, torch.tensor([0.5, 0.5, 1 / 6, 0.5, 0.0, 0.0]))
    torch.testing.assert_close(loop, torch.tensor([1 / 2, 1 / 3, 1 / 2, 1.0]))


def test_gnnguard_mixes_the_memory_of_the_layer_before() -> None:
    graph = words_graph(WORDS)
    net = GnnGuard(hidden=3).model(graph)
    assert isinstance(net, GuardedNet)
    net.eval()
    with torch.no_grad():
        net.memory.fill_(log(3))  # b = 3/4
        masked = MaskedGraph.of(graph)
        scores, (first, second) = net.passes(graph.x, masked)
        edge, loop = defence(masked, cosine(WORDS, graph.adjacency), 0.1)
        matrix = torch.diag(loop)
        matrix[graph.edge_index[1], graph.edge_index[0]] = edge
        h = torch.relu(matrix @ WORDS @ net.weights[0] + net.biases[0])
        edge2, loop2 = defence(masked, cosine(h, graph.adjacency), 0.1)
        matrix = 0.75 * matrix + 0.25 * torch.diag(loop2)
        matrix[graph.edge_index[1], graph.edge_index[0]] += 0.25 * edge2
    torch.testing.assert_close(first, edge)
    torch.testing.assert_close(second, 0.75 * edge + 0.25 * edge2)
    torch.testing.assert_close(scores, (matrix @ h @ net.weights[1] + net.biases[1]).detach())


def test_gnnguard_rows_sum_to_one(make_graph: Callable[..., Graph]) -> None:
    graph = MaskedGraph.of(make_graph(3, weighted=True))
    alike = torch.linspace(-1, 1, graph.edge_weight.numel())
    edge, loop = defence(graph, alike, 0.1)
    total = loop.index_add(0, graph.adjacency.row, edge)
    torch.testing.assert_close(total, torch.ones_like(total))


def test_gnnguard_runs_alike_on_what_it_kept(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(4, nodes=40, edges=120)
    solution = GnnGuard(epochs=5, threshold=0.7).solve(graph, RunContext(0))
    assert solution.edges_kept == solution.graph.num_edges < solution.edges_total == graph.num_edges
    torch.testing.assert_close(
        predict(solution.model, solution.graph), predict(solution.model, graph)
    )
