from collections.abc import Callable
from dataclasses import replace
from math import exp, log

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gassip.baselines.dropedge import PUBLISHED, DropEdge, thinned
from gassip.baselines.dspar import Dspar, inclusion, probability, systematic
from gassip.baselines.neuralsparse import NeuralSparse, NeuralSparseNet, largest, shares
from gassip.baselines.ptdnet import Denoiser, PtdNet, PtdNetModel, hard_concrete, heard, l0, nuclear
from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.graph.undirected import draw, ends
from gassip.nn.kernels import segment_sum
from gassip.nn.net import Model
from gassip.nn.propagate import MaskedGraph, received
from gassip.train.context import RunContext
from gassip.train.trainer import predict, seeded
from tests.conftest import random_graph


def dense_features(graph: Graph) -> Tensor:
    assert isinstance(graph.x, Tensor)
    return graph.x


def dense(adjacency: Csr, value: Tensor) -> Tensor:
    matrix = torch.zeros(adjacency.shape, dtype=value.dtype)
    matrix[adjacency.row, adjacency.col64] = value
    return matrix


# DropEdge


@given(st.floats(0, 1), st.integers(0, 50))
def test_thinned_keeps_the_exact_share(share: float, seed: int) -> None:
    masked = MaskedGraph.of(random_graph(seed, weighted=True))
    kept = thinned(masked, share).edge_weight
    assert int((kept > 0).sum()) == round(share * kept.numel())
    assert bool(((kept == 0) | (kept == masked.edge_weight)).all())


def test_dropedge_drops_its_share_each_epoch_and_none_at_evaluation(
    make_graph: Callable[..., Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make_graph(1)
    seen: list[tuple[bool, Tensor]] = []
    method = DropEdge(keep=0.4, epochs=5, hidden=4)

    class Watched(DropEdge):
        def model(self, graph: Graph) -> Model:
            net = super().model(graph)
            run = net.run

            def watched(x: Tensor | Csr, masked: MaskedGraph) -> Tensor:
                seen.append((net.training, masked.edge_weight > 0))
                return run(x, masked)

            monkeypatch.setattr(net, "run", watched)
            return net

    solution = Watched(keep=0.4, epochs=5, hidden=4).solve(graph, RunContext(0))
    training = [kept for mode, kept in seen if mode]
    assert [int(kept.sum()) for kept in training] == [round(0.4 * graph.num_edges)] * 5
    assert not torch.equal(training[0], training[1])
    assert all(bool(kept.all()) for mode, kept in seen if not mode)
    assert solution.edges_kept == solution.edges_total == graph.num_edges
    assert solution.scores == method.solve(graph, RunContext(0)).scores


def test_dropedge_takes_published_settings_by_name(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(0)
    assert DropEdge.for_graph(replace(graph, name="citeseer")) == DropEdge(
        **PUBLISHED["citeseer"]  # type: ignore[arg-type]
    )
    assert DropEdge.for_graph(replace(graph, name="cora-mettack-0.05")) == DropEdge()
    assert DropEdge.for_graph(graph) == DropEdge()
    with pytest.raises(GassipError, match=r"keep is 1\.5"):
        DropEdge(keep=1.5)


# NeuralSparse


@given(st.integers(0, 50), st.integers(1, 6))
def test_largest_keeps_k_per_node_and_the_right_ones(seed: int, k: int) -> None:
    adjacency = random_graph(seed).adjacency
    value = torch.from_numpy(
        np.random.default_rng(seed).permutation(adjacency.nnz).astype(np.float32)
    )
    keep = largest(adjacency, value, k)
    for node in range(adjacency.shape[0]):
        mine = adjacency.row == node
        expected = set(value[mine].topk(min(k, int(mine.sum()))).values.tolist())
        assert set(value[mine & keep].tolist()) == expected


def test_shares_by_hand(path: Graph) -> None:
    # edges 1→0, 0→1, 2→1, 1→2; node 1 hears both: e^1/(e^1 + e^3); node 2's edge is not kept
    logit = torch.tensor([5.0, 1.0, 3.0, 2.0], requires_grad=True)
    z = shares(path.adjacency, logit, torch.tensor([True, True, True, False]))
    first = exp(1) / (exp(1) + exp(3))
    torch.testing.assert_close(z.detach(), torch.tensor([1.0, first, 1 - first, 0.0]))
    z[1].backward()
    assert logit.grad is not None
    torch.testing.assert_close(
        logit.grad, torch.tensor([0.0, first * (1 - first), -first * (1 - first), 0.0])
    )


def test_neuralsparse_hears_k_neighbours_and_noise_only_in_training(
    make_graph: Callable[..., Graph],
) -> None:
    graph = make_graph(3, edges=120)
    masked = MaskedGraph.of(graph)
    net = NeuralSparse(neighbours=2).model(graph)
    assert isinstance(net, NeuralSparseNet)
    degree = torch.bincount(graph.edge_index[1], minlength=graph.num_nodes)
    for z in (net.train().sparsify(graph.x, masked), net.eval().sparsify(graph.x, masked)):
        heard = segment_sum(graph.adjacency, (z > 0).float())
        assert torch.equal(heard.long(), degree.clamp(max=2))
        torch.testing.assert_close(segment_sum(graph.adjacency, z), (degree > 0).float())
    assert torch.equal(net.sparsify(graph.x, masked), net.sparsify(graph.x, masked))
    assert not torch.equal(net.train().sparsify(graph.x, masked), net.sparsify(graph.x, masked))


def test_neuralsparse_score_is_the_mlp_of_both_ends(path: Graph) -> None:
    net = NeuralSparse(score_hidden=3).model(path)
    assert isinstance(net, NeuralSparseNet)
    x = torch.eye(4)
    both = torch.cat([x[path.edge_index[1]], x[path.edge_index[0]]], dim=1)
    weight = torch.cat(list(net.ends.chunk(2, dim=1)))
    expected = torch.relu(both @ weight + net.ends_bias) @ net.out
    torch.testing.assert_close(net.score(path.x, MaskedGraph.of(path)), expected.squeeze(1))


def test_neuralsparse_runs_alike_on_what_it_kept(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(4, nodes=30, edges=150)
    solution = NeuralSparse(neighbours=2, epochs=8, hidden=8).solve(graph, RunContext(0))
    assert solution.edges_kept == solution.graph.num_edges < solution.edges_total == graph.num_edges
    torch.testing.assert_close(
        predict(solution.model, solution.graph), predict(solution.model, graph)
    )


def test_neuralsparse_cools_every_fifty_epochs() -> None:
    method = NeuralSparse()
    assert [method.temperature(epoch) for epoch in (1, 50, 51, 101)] == [
        1.0,
        1.0,
        exp(-0.05),
        exp(-0.1),
    ]


# PTDNet


def test_hard_concrete_by_hand() -> None:
    # without noise: 1.2 σ(l) - .1, clipped; σ(0) = .5 -> .5; σ(log 3) = .75 -> .8; far out -> 0 and
    # 1
    logit = torch.tensor([0.0, log(3), -9.0, 9.0])
    torch.testing.assert_close(hard_concrete(logit, None), torch.tensor([0.5, 0.8, 0.0, 1.0]))


def test_hard_concrete_is_hard_when_cold_and_as_likely_as_l0_says() -> None:
    with seeded(0, torch.device("cpu")):
        gates = hard_concrete(torch.full((20000,), 0.4), 0.5)
    chance = float(l0(torch.tensor([0.4]), 0.5))
    assert abs(float((gates > 0).float().mean()) - chance) < 0.01
    assert float(((gates == 0) | (gates == 1)).float().mean()) > 0.2


def test_l0_by_hand() -> None:
    # σ(l - β log(.1 / 1.1)) = σ(l + β log 11); with β = 1 and l = 0: 11/12, l = -log 11: 1/2
    torch.testing.assert_close(
        l0(torch.tensor([0.0, -log(11)]), 1.0), torch.tensor((11 / 12 + 1 / 2) / 2)
    )


@pytest.mark.parametrize("count", [1, 3, 18])
def test_nuclear_is_the_sum_of_the_largest_singular_values(count: int) -> None:
    graph = random_graph(2, undirected=False, edges=80, weighted=True)
    value = graph.weight.double().requires_grad_()
    ours = nuclear(graph.adjacency, value, count, rounds=300)
    matrix = dense(graph.adjacency, value.detach())
    left, size, right = np.linalg.svd(matrix.numpy())
    assert float(ours.detach()) == pytest.approx(size[:count].sum(), rel=1e-6)
    (gradient,) = torch.autograd.grad(ours, value)
    if count < 18:  # the smallest singular values are 0, where the derivative is not unique
        expected = torch.from_numpy(left[:, :count] @ right[:count])[
            graph.adjacency.row, graph.adjacency.col64
        ]
        torch.testing.assert_close(gradient, expected, atol=1e-4, rtol=1e-4)


def test_denoiser_is_a_network_of_both_ends(path: Graph) -> None:
    denoiser = Denoiser(4, 3)
    x = torch.eye(4)
    first, second = denoiser.ends.chunk(2, dim=1)
    receiver, sender = (
        torch.relu(x[path.edge_index[1]] @ first),
        torch.relu(x[path.edge_index[0]] @ second),
    )
    expected = torch.cat([receiver, sender], dim=1) @ denoiser.out + denoiser.out_bias
    torch.testing.assert_close(denoiser.logit(path.x, MaskedGraph.of(path)), expected.squeeze(1))


def test_ptdnet_loss_adds_its_terms(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(5)
    masked = MaskedGraph.of(graph)
    base = {
        "lambda_l0": 0.0,
        "lambda_nuclear": 0.0,
        "lambda_consistency": 0.0,
        "hidden": 8,
        "samples": 2,
    }

    def loss(**weights: float) -> Tensor:
        method = PtdNet(**{**base, **weights})  # type: ignore[arg-type]
        with seeded(0, graph.device):
            net = method.model(graph)
            return method.loss(net, graph, masked, 3).detach()

    with seeded(0, graph.device):
        net = PtdNet(hidden=8).model(graph)
        assert isinstance(net, PtdNetModel)
        beta = net.temperature = 2 * 0.99**2
        runs = [net.passes(graph.x, masked) for _ in range(2)]
    terms = sum(l0(logit, beta) for run in runs for logit in run[1])
    ranks = sum(
        float(np.linalg.svd(dense(graph.adjacency, z.detach()).numpy())[1][0])
        for run in runs
        for z in run[2]
    )
    spread = (runs[0][0] - runs[1][0]).square().sum(
        1
    ).mean() / 4  # ½ Σ_t |p_t - mean|² for two passes
    torch.testing.assert_close(loss(lambda_l0=0.5) - loss(), (0.5 * terms).detach())  # type: ignore[union-attr]
    assert float(loss(lambda_nuclear=0.5, rounds=200) - loss()) == pytest.approx(
        0.5 * ranks, rel=1e-3
    )
    torch.testing.assert_close(
        loss(lambda_consistency=0.5) - loss(), (0.5 * spread).detach(), atol=1e-5, rtol=1e-3
    )


def test_ptdnet_runs_alike_on_what_it_kept(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(6, nodes=30, edges=100)
    method = PtdNet(epochs=3, hidden=8)
    solution = method.solve(graph, RunContext(0))
    assert isinstance(solution.model, PtdNetModel)
    for l, denoiser in enumerate(solution.model.denoisers):
        assert isinstance(denoiser, Denoiser)
        with torch.no_grad():  # half of the logits below 0, where the gate is under the threshold
            middle = solution.model.passes(graph.x, MaskedGraph.of(graph))[1][l].median()
            denoiser.out_bias.sub_(middle + 0.01)
    keep = method.used(solution.model, graph)
    assert keep is not None and 0 < int(keep.sum()) < graph.num_edges
    torch.testing.assert_close(
        predict(solution.model, graph.keep(keep)), predict(solution.model, graph)
    )


def test_ptdnet_gates_under_the_threshold_are_weight_0(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(6, nodes=30, edges=100)
    with seeded(0, graph.device):
        net = PtdNet(hidden=8, layers=1).model(graph)
        assert isinstance(net, PtdNetModel)
    (denoiser,) = net.denoisers
    assert isinstance(denoiser, Denoiser)
    net.eval()
    with torch.no_grad():
        scores, (logit,), (gate,) = net.passes(graph.x, MaskedGraph.of(graph))
        weight = torch.where(logit > 0, hard_concrete(logit, None), 0.0)
        product = dense_features(graph) @ net.weights[0]
        by_hand = received(MaskedGraph.of(graph, weight), "gcn", product) + net.biases[0]
    assert 0 < int((gate == 0).sum()) < graph.num_edges
    torch.testing.assert_close(gate, weight)
    torch.testing.assert_close(scores, by_hand)
    net.train()
    assert bool((net.passes(graph.x, MaskedGraph.of(graph))[2][0] > 0).any())


def test_ptdnet_solution_has_only_the_edges_that_some_layer_hears(
    make_graph: Callable[..., Graph],
) -> None:
    graph = make_graph(6, nodes=30, edges=100)
    solution = PtdNet(epochs=40, hidden=8, lambda_l0=5.0, lr=0.1).solve(graph, RunContext(0))
    assert solution.edges_kept == solution.graph.num_edges < graph.num_edges
    assert solution.edges_total == graph.num_edges
    torch.testing.assert_close(
        predict(solution.model, solution.graph), predict(solution.model, graph)
    )
    layers = solution.details["edges_by_layer"]
    assert isinstance(layers, list) and max(layers) <= solution.edges_kept <= sum(layers)
    assert layers == heard(solution.model, graph).sum(1).tolist()


# DSpar


def test_dspar_probability_by_hand(path: Graph) -> None:
    # a path of degrees 1, 2, 1: both edges have 1 + 1/2; with one more edge 2 - 3 the degrees are
    # 1, 2, 2, 1:
    torch.testing.assert_close(probability(path), torch.tensor([0.5, 0.5]))
    longer = Graph.build(
        torch.eye(4),
        torch.tensor([[0, 1, 2], [1, 2, 3]]),
        torch.tensor([0, 1, 0, 1]),
        masks=(np.array([1, 1, 0, 0]), np.array([0, 0, 1, 0]), np.array([0, 0, 0, 1])),
        undirected=True,
    )
    torch.testing.assert_close(probability(longer), torch.tensor([1.5, 1.0, 1.5]) / 4)


def test_draw_follows_the_scores_and_never_repeats() -> None:
    score = torch.tensor([4.0, 2.0, 1.0, 1.0])
    drawn = torch.stack([draw(score, 1, seed) for seed in range(4000)]).float().mean(0)
    torch.testing.assert_close(drawn, score / 8, atol=0.03, rtol=0)
    assert all(int(draw(score, 3, seed).sum()) == 3 for seed in range(20))
    assert torch.equal(draw(score, 2, 5), draw(score, 2, 5))


def test_dspar_keeps_its_share_of_undirected_edges(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(8, edges=80)
    solution = Dspar(keep=0.7, epochs=3, hidden=4).solve(graph, RunContext(1))
    assert solution.edges_kept == 2 * round(0.7 * ends(graph).shape[1]) == solution.graph.num_edges
    assert solution.edges_total == graph.num_edges
    both = solution.graph.edge_index
    assert {(int(a), int(b)) for a, b in both.T} == {(int(b), int(a)) for a, b in both.T}


def test_inclusion_by_hand() -> None:
    # 3 · (.5, .3, .1, .1) = (1.5, .9, .3, .3): the first is sure, 2 are left for (.3, .1, .1):
    # (1.2, .4, .4): the second is sure too, and 1 is left for two equal ones
    share = torch.tensor([0.5, 0.3, 0.1, 0.1])
    half = torch.tensor([1.0, 1.0, 0.5, 0.5], dtype=torch.float64)
    torch.testing.assert_close(inclusion(share, 3), half)
    torch.testing.assert_close(inclusion(share, 4), torch.ones(4, dtype=torch.float64))
    assert not inclusion(share, 0).any()


def test_systematic_draws_have_exactly_their_chances() -> None:
    chance = torch.tensor([1.0, 0.9, 0.3, 0.5, 0.3], dtype=torch.float64)
    draws = torch.stack([systematic(chance, seed) for seed in range(4000)])
    assert (draws.sum(1) == 3).all()
    torch.testing.assert_close(draws.double().mean(0), chance, atol=0.03, rtol=0)


def test_dspar_expects_the_full_aggregation() -> None:
    # a star: 1 - 0 - 2 and 1 - 2; over the draws the mean of A' x is A x, that of A without weights
    # is not
    graph = Graph.build(
        torch.eye(4),
        torch.tensor([[0, 0, 0, 1], [1, 2, 3, 2]]),
        torch.tensor([0, 1, 0, 1]),
        masks=(np.array([1, 1, 0, 0]), np.array([0, 0, 1, 0]), np.array([0, 0, 0, 1])),
        undirected=True,
    )
    full = dense(graph.adjacency, graph.weight)
    method = Dspar(keep=0.5)
    drawn = [method.sparser(graph, seed) for seed in range(3000)]
    mean = torch.stack([dense(own.adjacency, own.weight) for own in drawn]).mean(0)
    torch.testing.assert_close(mean, full, atol=0.08, rtol=0)
    assert all(own.num_edges == 4 for own in drawn)  # 2 of 4, both ways
    # by hand: degrees 3, 2, 2, 1; p ∝ (5/6, 5/6, 4/3, 1) = 5, 5, 8, 6 of 24, π = 2 p
    torch.testing.assert_close(
        inclusion(probability(graph), 2).sort().values * 12,
        torch.tensor([5.0, 5.0, 6.0, 8.0], dtype=torch.float64),
    )
