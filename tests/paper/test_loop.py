from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from math import exp

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.best.candidates import choose_candidates
from gassip.best.pipeline import search
from gassip.best.steps import num_rows
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, Layer, Net
from gassip.nn.propagate import MaskedGraph
from gassip.operations import ALL_OPS, MORE_OPS
from gassip.paper import curriculum, loop
from gassip.paper.choose import Tried, level_with_the_best, sigmas_ahead, with_dropout
from gassip.paper.induce import induce
from gassip.paper.loop import difficulty_weights, step_alpha, step_structure, step_weights
from gassip.paper.state import State
from gassip.paper.supernet import Supernet, top_paths
from gassip.settings import Settings
from gassip.settings.search import Search
from gassip.train.plan import Plan, Row
from gassip.train.trainer import retrain, seeded

QUICK = Settings.of(
    hidden=4,
    epochs=5,
    warmup_epochs=2,
    dropout=0.5,
    lr_edge=0.3,
    lr_alpha=0.2,
    retrain_epochs=4,
    retrain_dropout=0.5,
)
OPS = ALL_OPS
CPU = torch.device("cpu")


def layers_of(net: Net | Supernet) -> list[Layer]:
    return [layer for layer in net.layers if isinstance(layer, Layer)]


@pytest.fixture
def graph(make_graph: Callable[..., Graph]) -> Graph:
    return make_graph(0)


def start(graph: Graph, settings: Settings = QUICK, seed: int = 0) -> State:
    with seeded(seed, CPU):
        return State(graph, settings.search)


def fixed(state: State) -> list[Tensor]:
    """W ⊙ M_W as the structure and α steps see it."""
    return [w.detach() for w in state.weights()]


def structure_step(state: State) -> Row:
    return step_structure(state, fixed(state), None)


def alpha_after(state: State) -> Tensor:
    step_alpha(state, fixed(state), None, "accuracy")
    return state.supernet.alpha.detach().clone()


def with_labels(graph: Graph, mask: Tensor) -> Graph:
    """Garbage in place of the labels marked."""
    return replace(graph, y=torch.where(mask, (graph.y + 1) % graph.num_classes, graph.y))


def everything(found: Plan) -> list[Tensor]:
    named = [*found.first_weights.values(), *found.last_weights.values()]
    return [found.edge_keep, found.edge_mask, *found.weight_keep, *named]


def told(found: Plan) -> list[Row]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in found.history]


def same(one: Plan, other: Plan) -> bool:
    tensors = zip(everything(one), everything(other), strict=True)
    return one.architecture == other.architecture and all(torch.equal(a, b) for a, b in tensors)


class Recorder:
    """A checkpoint in memory: every epoch's state, copied."""

    def __init__(self, resume: tuple[dict[str, Tensor], list[Row]] | None = None) -> None:
        self.resume = resume
        self.states: list[tuple[dict[str, Tensor], list[Row]]] = []

    def load(self) -> tuple[dict[str, Tensor], list[Row]] | None:
        return self.resume

    def save(self, tensors: Callable[[], dict[str, Tensor]], history: list[Row]) -> None:
        self.states.append(({k: v.detach().clone() for k, v in tensors().items()}, list(history)))

    def recall(self, name: str) -> None:
        return None

    def remember(self, name: str, trained: tuple[dict[str, Tensor], float, int]) -> None:
        pass


# ---- the loop


def test_equal_seeds_equal_bits(graph: Graph) -> None:
    one, again, other = (search(graph, QUICK, seed=seed) for seed in (0, 0, 1))
    assert same(one, again) and told(one) == told(again)
    assert not same(one, other)


def test_the_callers_random_state_is_untouched(graph: Graph) -> None:
    before = torch.get_rng_state()
    search(graph, QUICK)
    assert torch.equal(torch.get_rng_state(), before)


def test_test_labels_change_nothing(graph: Graph) -> None:
    garbage = with_labels(graph, graph.test_mask)
    one, other = search(graph, QUICK), search(garbage, QUICK)
    assert same(one, other) and told(one) == told(other)
    scores, garbled = retrain(graph, one).scores, retrain(garbage, other).scores
    for metric, by_split in scores.items():
        assert all(by_split[split] == garbled[metric][split] for split in ("train", "val"))


def test_unlabelled_nodes_are_welcome(graph: Graph) -> None:
    hidden = replace(
        graph,
        y=graph.y.masked_fill(graph.test_mask, -1),
        test_mask=torch.zeros_like(graph.test_mask),
    )
    settings = QUICK.changed(loss_nodes="all")
    assert same(search(graph, settings), search(hidden, settings))


def test_only_weights_and_their_masks_move_in_warm_up(graph: Graph) -> None:
    recorder = Recorder()
    search(graph, QUICK.changed(warmup_epochs=4), checkpoint=recorder)
    one, two, three, four, _ = (tensors for tensors, _ in recorder.states)
    first = start(graph)
    later = ("net.alpha", "edge_score", "threshold")
    assert torch.equal(one["net.alpha"], first.supernet.alpha) and torch.equal(
        one["edge_score"], first.edge_score
    )
    for key in later:
        assert torch.equal(one[key], three[key]) and not torch.equal(three[key], four[key])
    for key in (k for k in one if k.startswith(("net.layers", "net.weight_scores"))):
        assert not torch.equal(one[key], two[key])


@pytest.mark.parametrize("warmup", [0, 1])
def test_no_warm_up(graph: Graph, warmup: int) -> None:
    """Algorithm 2 skips epochs t < r, so r = 0 and r = 1 both skip none."""
    recorder = Recorder()
    search(graph, QUICK.changed(warmup_epochs=warmup), checkpoint=recorder)
    assert not torch.equal(recorder.states[0][0]["net.alpha"], start(graph).supernet.alpha)


@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("edge_optimizer", ["sgd", "adam"])
def test_a_killed_search_goes_on_where_it_was(
    graph: Graph, epochs: int, edge_optimizer: str
) -> None:
    settings = QUICK.changed(edge_optimizer=edge_optimizer, batch_norm=True, sampled_paths=1)
    recorder = Recorder()
    whole = search(graph, settings, checkpoint=recorder)
    assert len(recorder.states) == 5
    rest: list[Row] = []
    resumed = search(
        graph, settings, checkpoint=Recorder(recorder.states[epochs - 1]), on_epoch=rest.append
    )
    assert same(whole, resumed) and told(whole) == told(resumed)
    assert [row["epoch"] for row in rest] == list(range(epochs + 1, 6))


def test_history_tells_every_epoch(graph: Graph) -> None:
    seen: list[Row] = []
    found = search(graph, QUICK, on_epoch=seen.append, metric="macro-f1")
    assert [row["epoch"] for row in found.history] == [1, 2, 3, 4, 5] and seen == found.history
    # the epochs', and what the choice of the architecture took after them
    assert 0 < found.seconds - sum(float(row["seconds"]) for row in seen) < 1
    last = found.history[-1]
    assert last["architecture"] == str(found.architecture)
    assert last["edges_kept"] == pytest.approx(float(found.edge_keep.float().mean()))
    kept, total = (
        sum(int(k.sum()) for k in found.weight_keep),
        sum(k.numel() for k in found.weight_keep),
    )
    assert last["weights_kept"] == pytest.approx(kept / total)
    assert "val_loss" not in found.history[0] and 0 <= float(last["val_score"]) <= 1


def test_default_settings_are_the_preset(graph: Graph) -> None:
    class Stop(Exception):
        pass

    def stop(row: Row) -> None:
        raise Stop(row["epoch"])

    with pytest.raises(Stop, match="1"):
        search(graph, on_epoch=stop)


@pytest.mark.parametrize(
    "change",
    [
        {"batch_norm": True},
        {"layers": 1},
        {"layers": 3, "batch_norm": True, "ops": ("GCNConv", "GATConv", "ArmaConv", "Linear")},
        {"heads": 2},
        {"ops": ("Linear",)},
        {"edge_scores": "directed", "edge_rule": "half"},
        {"weight_form": "double", "weight_gain": 1.0, "score_sparsity": 0.1},
        {"structure_dropout": True, "curriculum": False},
        {"standardise": True, "softmax_nodes": "labelled", "loss_nodes": "all"},
    ],
)
@pytest.mark.parametrize("kind", ["undirected", "directed", "sparse"])
def test_variants_run_on_every_kind_of_graph(
    make_graph: Callable[..., Graph], kind: str, change: dict[str, object]
) -> None:
    graph = make_graph(
        3, undirected=kind != "directed", weighted=kind == "directed", sparse=kind == "sparse"
    )
    settings = QUICK.changed(epochs=3, **change)
    found = search(graph, settings)
    assert all(t.isfinite().all() for t in everything(found))
    assert len(found.architecture.ops) == settings.search.layers
    solution = retrain(graph, found)
    assert solution.model.architecture == found.architecture and 0 <= solution.accuracy["val"] <= 1


def test_a_graph_of_one_edge(make_graph: Callable[..., Graph]) -> None:
    found = search(make_graph(0, edges=1), QUICK.changed(standardise=True))
    assert found.edge_keep.shape == (2,) and found.edge_mask.isfinite().all()


@pytest.mark.parametrize(
    "name", ["edge_start", "threshold_start", "score_mean", "alpha_start", "weight_gain"]
)
def test_whole_numbers_stand_for_fractions(graph: Graph, name: str) -> None:
    one = search(graph, QUICK.changed(**{name: 1}))
    assert same(one, search(graph, QUICK.changed(**{name: 1.0})))


# ---- W and S_W


def test_weight_step_reads_training_labels_only(graph: Graph) -> None:
    state, garbled = start(graph), start(with_labels(graph, ~graph.train_mask))
    other = start(with_labels(graph, graph.train_mask))
    for each in (state, garbled, other):
        with seeded(0, CPU):
            step_weights(each)
    assert torch.equal(layers_of(state.supernet)[0].weight, layers_of(garbled.supernet)[0].weight)
    assert not torch.equal(layers_of(state.supernet)[0].weight, layers_of(other.supernet)[0].weight)


def test_weight_step_leaves_the_rest_alone(graph: Graph) -> None:
    state = start(graph)
    alpha, edge_score = state.supernet.alpha.detach().clone(), state.edge_score.detach().clone()
    step_weights(state)
    assert torch.equal(state.supernet.alpha, alpha) and torch.equal(state.edge_score, edge_score)


def test_without_pruning_every_weight_is_kept(graph: Graph) -> None:
    recorder = Recorder()
    found = search(graph, QUICK.changed(prune=False), checkpoint=recorder)
    assert all(keep.all() for keep in found.weight_keep)
    scores = [tensors["net.weight_scores.0"] for tensors, _ in recorder.states]
    assert torch.equal(scores[0], scores[-1])
    assert (
        layers_of(start(graph, QUICK.changed(prune=False)).supernet)[0].weight.abs().max()
        <= (6 / 10) ** 0.5
    )
    assert "weights_kept" not in found.history[-1]


def test_weight_masks_start_as_told(graph: Graph) -> None:
    state = start(
        graph, QUICK.changed(score_mean=2.0, score_std=0.0, weight_gain=3.0, weight_form="sigmoid")
    )
    weight = layers_of(state.supernet)[0].weight
    torch.testing.assert_close(state.weights()[0], weight / (1 + exp(-2.0)))
    bound = 3 * (6 / 10) ** 0.5
    assert 0.8 * bound < weight.abs().max() <= bound


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_weight_budget_is_exact(graph: Graph, share: float) -> None:
    found = search(graph, QUICK.changed(weight_rule="budget", weight_share=share))
    total = sum(keep.numel() for keep in found.weight_keep)
    assert sum(int(keep.sum()) for keep in found.weight_keep) == round(share * total)


def test_weights_with_positive_scores_are_kept(graph: Graph) -> None:
    settings = QUICK.changed(weight_rule="score")
    state = start(graph, settings)
    (path,) = top_paths(state.supernet.alpha, 1)
    found = induce(state, settings)
    for layer, score, k, keep in zip(
        layers_of(state.supernet),
        state.supernet.weight_scores,
        path,
        found.weight_keep,
        strict=True,
    ):
        assert torch.equal(keep, score[:, layer.columns(k)] > 0)


def test_sparsity_term_pushes_scores_down(graph: Graph) -> None:
    plain, pushed = start(graph), start(graph, QUICK.changed(score_sparsity=100.0))
    for state in (plain, pushed):
        with seeded(0, CPU):
            step_weights(state)
    assert pushed.supernet.weight_scores[0].mean() < plain.supernet.weight_scores[0].mean()
    assert (pushed.supernet.weight_scores[0] < start(graph).supernet.weight_scores[0]).all()


@pytest.mark.parametrize("paths", [0, 40])
def test_sampled_paths_reach_a_neglected_operation(graph: Graph, paths: int) -> None:
    """Gap 15: an operation with no share in the mixture gets its gradient from the paths drawn
    evenly."""
    state = start(graph, QUICK.changed(sampled_paths=paths))
    state.supernet.alpha.data[:, 2] = -1000.0  # SAGEConv
    with seeded(0, CPU):
        step_weights(state)
    for layer, score in zip(layers_of(state.supernet), state.supernet.weight_scores, strict=True):
        assert score.grad is not None
        assert bool((score.grad[:, layer.columns(2)] != 0).any()) is (paths > 0)


def test_train_loss_is_per_path(graph: Graph) -> None:
    one_op = QUICK.changed(ops=("Linear",), dropout=0.0)  # every path is the mixture
    losses = [
        step_weights(start(graph, one_op.changed(sampled_paths=n)))["train_loss"] for n in (0, 3)
    ]
    assert losses[0] == pytest.approx(losses[1])


# ---- S_G and γ


def test_structure_starts_as_told(graph: Graph) -> None:
    state = start(graph, QUICK.changed(edge_start=2.0, threshold_start=0.5))
    torch.testing.assert_close(
        state.edge_mask(), torch.full((graph.num_edges,), 1 / (1 + exp(-1.5)))
    )
    torch.testing.assert_close(state.masked.edge_weight, state.edge_mask().detach())


def test_given_edge_weights_multiply_the_mask(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(0, weighted=True)
    state = start(graph)
    structure_step(state)
    torch.testing.assert_close(state.masked.edge_weight, graph.weight * state.edge_mask().detach())
    off = start(graph, QUICK.changed(sparsify=False))
    torch.testing.assert_close(off.masked.edge_weight, graph.weight)


def algorithm_1(state: State, rule: str) -> tuple[Tensor, Tensor]:
    """Line by line: ∇S_G and ∇γ from fresh leaves, without the code under test around them."""
    graph, net, weights = state.graph, state.supernet, fixed(state)
    with torch.no_grad():
        logits = net(graph.x, state.masked, weights)
    pseudo = curriculum.pseudo_labels(logits, graph.y, graph.train_mask)
    node_view = curriculum.node_view_difficulty(graph, logits, pseudo, state.settings.lambda1)
    theta = curriculum.node_weights(
        graph, state.settings.lambda2 * node_view
    )  # D_a is 0 at the first step
    by_score: list[Tensor] = []
    by_threshold: list[Tensor] = []
    for path in top_paths(net.alpha, state.settings.num_archs):
        score, threshold = (
            state.edge_score.detach().requires_grad_(),
            state.threshold.detach().requires_grad_(),
        )
        mask = torch.sigmoid(score - threshold)[graph.pair]
        out = net(graph.x, MaskedGraph(graph.adjacency, mask), weights, path=path)
        entropy = -(mask * mask.log() + (1 - mask) * (1 - mask).log()).mean()
        cross = F.cross_entropy(out, pseudo, reduction="none")
        loss = (theta * (cross + state.settings.beta * entropy))[graph.train_mask].sum()
        gradients = torch.autograd.grad(loss, (score, threshold))
        by_score.append(gradients[0])
        by_threshold.append(gradients[1])
    stacked = torch.stack(by_score)
    quotient = stacked.mean(0) if rule == "mean" else stacked.mean(0) / (stacked.std(0) + 1e-3)
    return quotient.clamp(-5, 5), torch.stack(by_threshold).mean()


@pytest.mark.parametrize("rule", ["mean", "literal"])
@pytest.mark.parametrize("num_archs", [1, 2, 3])
def test_structure_step_is_algorithm_1(graph: Graph, rule: str, num_archs: int) -> None:
    settings = QUICK.changed(
        update_rule="mean" if rule == "mean" else "literal",
        num_archs=num_archs,
        update_eps=1e-3,
        update_clamp=5.0,
        lr_edge=0.1,
        beta=0.2,
        lambda1=0.7,
        lambda2=1.3,
    )
    settings = settings.changed(
        loss_nodes="labelled", softmax_nodes="all", standardise=False, unbiased_std=True
    )
    state = start(
        graph,
        settings.changed(edge_optimizer="sgd", structure_dropout=False, edge_scores="undirected"),
    )
    by_score, by_threshold = algorithm_1(state, "mean" if num_archs == 1 else rule)
    score, threshold = state.edge_score.detach().clone(), state.threshold.detach().clone()
    structure_step(state)
    torch.testing.assert_close(
        state.edge_score.detach(), score - 0.1 * by_score, atol=1e-5, rtol=1e-4
    )
    torch.testing.assert_close(
        state.threshold.detach(), threshold - 0.1 * by_threshold, atol=1e-6, rtol=1e-4
    )
    assert (state.edge_score != score).any() and state.threshold != threshold


def test_structure_step_leaves_the_rest_alone(graph: Graph) -> None:
    state = start(graph)
    before = {k: v.clone() for k, v in state.supernet.state_dict().items()}
    structure_step(state)
    assert all(torch.equal(v, before[k]) for k, v in state.supernet.state_dict().items())
    assert all(p.grad is None for p in state.supernet.parameters())


def test_adam_moves_every_score_by_the_rate(graph: Graph) -> None:
    state = start(graph, QUICK.changed(edge_optimizer="adam", lr_edge=0.05, beta=0.1))
    score = state.edge_score.detach().clone()
    structure_step(state)
    moved = (state.edge_score.detach() - score).abs()
    torch.testing.assert_close(moved, torch.full_like(moved, 0.05), atol=1e-3, rtol=0)


def test_without_sparsification_every_edge_is_kept(graph: Graph) -> None:
    recorder = Recorder()
    found = search(graph, QUICK.changed(sparsify=False), checkpoint=recorder)
    assert found.edge_keep.all() and (found.edge_mask == 1).all()
    assert torch.equal(recorder.states[-1][0]["edge_score"], start(graph).edge_score)
    assert "edges_kept" not in found.history[-1]
    assert torch.equal(found.on(graph).weight, graph.weight)


def reverse(graph: Graph) -> Tensor:
    """Where each edge's other direction stands."""
    key = graph.edge_index[1] * graph.num_nodes + graph.edge_index[0]
    return torch.searchsorted(key, graph.edge_index[0] * graph.num_nodes + graph.edge_index[1])


def test_undirected_scores_keep_the_mask_symmetric(graph: Graph) -> None:
    """Gap 13."""
    other = reverse(graph)
    together = search(
        graph, QUICK.changed(edge_scores="undirected", edge_rule="budget", edge_share=0.6)
    )
    assert torch.equal(together.edge_mask, together.edge_mask[other])
    assert (
        torch.equal(together.edge_keep, together.edge_keep[other]) and not together.edge_keep.all()
    )
    apart = search(graph, QUICK.changed(edge_scores="directed", edge_rule="budget", edge_share=0.6))
    assert not torch.equal(apart.edge_mask, apart.edge_mask[other])


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("edge_scores", ["undirected", "directed"])
def test_edge_budget_is_exact(graph: Graph, share: float, edge_scores: str) -> None:
    settings = QUICK.changed(
        epochs=3,
        edge_rule="budget",
        edge_share=share,
        edge_scores=edge_scores,
    )
    found = search(graph, settings)
    each = 2 if edge_scores == "undirected" else 1
    assert int(found.edge_keep.sum()) == each * round(share * graph.num_edges / each)


@pytest.mark.parametrize(("rule", "limit"), [("paper", 0.6), ("half", 0.5)])
def test_edges_below_the_threshold_go(graph: Graph, rule: str, limit: float) -> None:
    settings = QUICK.changed(edge_rule=rule, threshold_start=0.6)
    state = start(graph, settings)
    state.edge_score.data = torch.linspace(-2, 3, state.edge_score.numel())
    found = induce(state, settings)
    assert torch.equal(found.edge_keep, found.edge_mask >= limit)
    assert 0 < int(found.edge_keep.sum()) < graph.num_edges


@pytest.mark.parametrize("loss_nodes", ["labelled", "all"])
def test_loss_over_labelled_or_all_nodes(make_graph: Callable[..., Graph], loss_nodes: str) -> None:
    """Gap 6: one SAGE layer reaches exactly the edges into the nodes of the loss."""
    graph = make_graph(1, undirected=False)
    settings = QUICK.changed(layers=1, ops=("SAGEConv",), beta=0.0, edge_scores="directed")
    state = start(graph, settings.changed(loss_nodes=loss_nodes))
    structure_step(state)
    assert state.edge_score.grad is not None
    several = (
        torch.bincount(graph.edge_index[1], minlength=graph.num_nodes)[graph.edge_index[1]] > 1
    )
    reached = (
        state.edge_score.grad.abs() > 1e-6
    )  # the only edge into a node is its whole mean, whatever it weighs
    labelled = graph.train_mask[graph.edge_index[1]]
    assert torch.equal(reached, several & labelled if loss_nodes == "labelled" else several)


def test_softmax_over_labelled_or_all_nodes(graph: Graph) -> None:
    """Gap 5."""
    state = start(graph, QUICK.changed(softmax_nodes="labelled"))
    state.logits = torch.randn(graph.num_nodes, 3, generator=torch.Generator().manual_seed(0))
    labelled = difficulty_weights(state, graph.y)
    assert (labelled[~graph.train_mask] == 0).all() and float(labelled.sum()) == pytest.approx(1.0)
    state.settings = QUICK.changed(softmax_nodes="all").search
    over_all = difficulty_weights(state, graph.y)
    assert (over_all > 0).all() and float(over_all.sum()) == pytest.approx(1.0)
    kept = over_all[graph.train_mask]
    torch.testing.assert_close(kept / kept.sum(), labelled[graph.train_mask])


@pytest.mark.parametrize("standardise", [True, False])
def test_difficulty_adds_both_views(graph: Graph, standardise: bool) -> None:
    """Gap 7: D = D_a + λ2 D_n, with D_a as it is or brought to deviation 1."""
    state = start(graph, QUICK.changed(standardise=standardise, lambda1=0.5, lambda2=2.0))
    state.logits = torch.randn(graph.num_nodes, 3, generator=torch.Generator().manual_seed(0))
    state.grad_std = 1e-6 * torch.arange(state.edge_score.numel())
    grad_std = state.grad_std
    if standardise:
        grad_std = (grad_std - grad_std.mean()) / grad_std.std(correction=0)
    node_view = curriculum.node_view_difficulty(graph, state.logits, graph.y, 0.5)
    expected = curriculum.node_weights(graph, grad_std[graph.pair] + 2 * node_view)
    torch.testing.assert_close(difficulty_weights(state, graph.y), expected)


def test_without_the_curriculum_nodes_weigh_the_same(graph: Graph) -> None:
    state = start(graph, QUICK.changed(curriculum=False))
    torch.testing.assert_close(
        difficulty_weights(state, graph.y), torch.full((graph.num_nodes,), 1 / graph.num_nodes)
    )


def test_difficulty_remembers_the_last_spread(graph: Graph) -> None:
    state = start(graph)
    structure_step(state)
    assert state.grad_std.shape == state.edge_score.shape and (state.grad_std > 0).any()


def test_more_architectures_than_there_are(graph: Graph) -> None:
    settings = QUICK.changed(ops=("GCNConv", "Linear"))
    assert same(
        search(graph, settings.changed(num_archs=4)),
        search(graph, settings.changed(num_archs=100)),
    )
    found = search(graph, QUICK.changed(epochs=2, num_archs=26))  # 5² = 25
    assert found.edge_mask.isfinite().all()


def test_clamp_share_counts_what_is_clamped(graph: Graph) -> None:
    tight, loose = (QUICK.changed(update_rule="literal", update_clamp=c) for c in (1e-12, 1e12))
    assert structure_step(start(graph, tight))["clamp_share"] == 1.0
    assert structure_step(start(graph, loose))["clamp_share"] == 0.0


# ---- α


def test_alpha_moves_on_validation_labels_only(graph: Graph) -> None:
    """Gap 9."""
    alpha = alpha_after(start(graph))
    assert not torch.equal(alpha, start(graph).supernet.alpha)
    assert torch.equal(alpha, alpha_after(start(with_labels(graph, ~graph.val_mask))))
    assert not torch.equal(alpha, alpha_after(start(with_labels(graph, graph.val_mask))))


def test_alpha_can_move_on_training_labels(graph: Graph) -> None:
    settings = QUICK.changed(alpha_nodes="train")
    alpha = alpha_after(start(graph, settings))
    assert torch.equal(alpha, alpha_after(start(with_labels(graph, ~graph.train_mask), settings)))
    assert not torch.equal(
        alpha, alpha_after(start(with_labels(graph, graph.train_mask), settings))
    )
    assert same(search(graph, settings), search(with_labels(graph, graph.val_mask), settings))


@pytest.mark.parametrize("alpha_nodes", ["val", "train"])
def test_validation_loss_is_of_validation_nodes(graph: Graph, alpha_nodes: str) -> None:
    state = start(graph, QUICK.changed(alpha_nodes=alpha_nodes))
    row = step_alpha(state, fixed(state), None, "accuracy")
    assert state.logits is not None
    logits, y = state.logits[graph.val_mask], graph.y[graph.val_mask]
    assert row["val_loss"] == pytest.approx(float(F.cross_entropy(logits, y)))
    assert row["val_score"] == pytest.approx(float((logits.argmax(1) == y).float().mean()))


def test_alpha_step_keeps_its_representation(graph: Graph) -> None:
    """Gap 8: z of the next structure step; before the first α step one forward stands in."""
    state = start(graph)
    structure_step(state)
    step_alpha(state, fixed(state), None, "accuracy")
    assert state.logits is not None and torch.equal(state.logits, start_forward(state))


def start_forward(state: State) -> Tensor:
    """The mixture under the α of the start, which the α step ran with."""
    net = deepcopy(state.supernet)
    net.alpha.data = start(state.graph).supernet.alpha.data
    with torch.no_grad():
        out = net(state.graph.x, state.masked, fixed(state))
    assert isinstance(out, Tensor)
    return out


def test_alpha_step_leaves_the_rest_alone(graph: Graph) -> None:
    state = start(graph)
    before = {k: v.clone() for k, v in state.supernet.state_dict().items() if k != "alpha"}
    step_alpha(state, fixed(state), None, "accuracy")
    assert all(torch.equal(state.supernet.state_dict()[k], v) for k, v in before.items())
    assert all(p.grad is None for name, p in state.supernet.named_parameters() if name != "alpha")


@pytest.mark.parametrize("structure_dropout", [True, False])
def test_dropout_in_structure_and_alpha_steps(graph: Graph, structure_dropout: bool) -> None:
    outcomes = []
    for seed in (0, 1):
        state = start(graph, QUICK.changed(structure_dropout=structure_dropout))
        with seeded(seed, CPU):
            structure_step(state)
            outcomes.append((state.edge_score.detach(), alpha_after(state)))
    (score, alpha), (other_score, other_alpha) = outcomes
    assert torch.equal(score, other_score) is not structure_dropout
    assert torch.equal(alpha, other_alpha) is not structure_dropout


def darts(graph: Graph, settings: Search, seed: int) -> Supernet:
    """DARTS, first order, written out."""
    with seeded(seed, CPU):
        shape = Architecture(ops=OPS[:1] * 2, hidden=(settings.hidden,))
        net = Supernet(
            graph.num_features,
            graph.num_classes,
            OPS,
            shape,
            weight_gain=1.0,
            alpha_start=settings.alpha_start,
            score_mean=settings.score_mean,
            score_std=settings.score_std,
        )
    masked, weights = MaskedGraph.of(graph), [layer.weight for layer in layers_of(net)]
    decay = settings.weight_decay
    by_weight = torch.optim.Adam(
        net.layers.parameters(), lr=settings.lr_weight, weight_decay=decay, fused=True
    )
    by_alpha = torch.optim.Adam([net.alpha], lr=settings.lr_alpha, betas=(0.5, 0.999))
    for epoch in range(1, settings.epochs + 1):
        for optimizer, nodes in ((by_weight, graph.train_mask), (by_alpha, graph.val_mask)):
            if optimizer is by_alpha and epoch < settings.warmup_epochs:
                continue
            net.zero_grad()
            F.cross_entropy(net(graph.x, masked, weights)[nodes], graph.y[nodes]).backward()
            optimizer.step()
    return net


def test_without_both_masks_it_is_darts(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(0, weighted=True)
    settings = QUICK.changed(
        prune=False,
        sparsify=False,
        dropout=0.0,
        alpha_nodes="val",
        batch_norm=False,
        heads=1,
    )
    recorder = Recorder()
    search(graph, settings, seed=3, checkpoint=recorder)
    by_hand = darts(graph, settings.search, seed=3)
    found = recorder.states[-1][0]
    torch.testing.assert_close(found["net.alpha"], by_hand.alpha.detach(), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(
        found["net.layers.0.weight"], layers_of(by_hand)[0].weight.detach(), atol=1e-4, rtol=1e-3
    )


# ---- what is handed over


def path_of(found: Plan) -> tuple[int, ...]:
    return tuple(OPS.index(name) for name in found.architecture.ops)


def test_first_and_last_weights_are_the_searchs_own(graph: Graph) -> None:
    recorder = Recorder()
    found = search(graph, QUICK.changed(heads=2, weight_form="sigmoid"), checkpoint=recorder)
    first, last = start(graph, QUICK.changed(heads=2)), recorder.states[-1][0]
    for number, (layer, k) in enumerate(
        zip(layers_of(first.supernet), path_of(found), strict=True)
    ):
        name, columns = f"layers.{number}", layer.columns(k)
        assert torch.equal(found.first_weights[f"{name}.weight"], layer.weight[:, columns])
        masked = last[f"net.{name}.weight"] * torch.sigmoid(last[f"net.weight_scores.{number}"])
        assert torch.equal(found.last_weights[f"{name}.weight"], masked[:, columns])
        assert torch.equal(found.last_weights[f"{name}.bias"], last[f"net.{name}.bias"][k : k + 1])


@pytest.mark.parametrize("retrain_start", ["rewind", "inherit"])
@pytest.mark.parametrize("batch_norm", [True, False])
def test_retraining_takes_every_parameter_over(
    graph: Graph, retrain_start: str, batch_norm: bool
) -> None:
    """With a rate of 0 the retrained net is its start, pruned: attention and batch norm
    included."""
    settings = QUICK.changed(
        ops=("GATConv",), heads=2, batch_norm=batch_norm, retrain_lr=0.0, lr_weight=0.1
    )
    found = search(graph, settings.changed(retrain_start=retrain_start, retrain_weight_decay=0.0))
    named = found.first_weights if retrain_start == "rewind" else found.last_weights
    net = retrain(graph, found, seed=9).model
    keep = {f"layers.{number}.weight": k for number, k in enumerate(found.weight_keep)}
    for name, parameter in net.named_parameters():
        assert torch.equal(parameter, named[name] * keep.get(name, torch.tensor(True)))


def candidates(graph: Graph, settings: Settings) -> list[tuple[str, ...]]:
    found = choose_candidates(start(graph, settings), settings, "accuracy")
    return [architecture.ops for architecture in found]


def test_candidates_are_the_default_ones_and_what_ranks_highest(graph: Graph) -> None:
    named = ("Hops4+Linear", "GCNConv+GCNConv")
    own = QUICK.changed(ops=MORE_OPS, default_candidates=named, candidates=4)
    all_of_them = candidates(graph, own)
    assert all_of_them[:2] == [("Hops4", "Linear"), ("GCNConv", "GCNConv")]
    assert len(set(all_of_them)) == 4
    fewer = own.changed(ops=("GCNConv", "Linear"))  # what the user left out stays out
    assert candidates(graph, fewer)[0] == ("GCNConv", "GCNConv")
    every = candidates(graph, own.changed(default_candidates=(), candidates=99))
    assert {ops[0] for ops in every} == set(ALL_OPS) and {ops[1] for ops in every} == set(MORE_OPS)
    alone = candidates(graph, own.changed(ops=("APPNP5",)))
    assert alone == [("APPNP5", "APPNP5")]


def test_deeper_nets_may_be_default_candidates(graph: Graph) -> None:
    named = ("Linear+APPNP10", "SAGEConv+SAGEConv+SAGEConv", "Linear")
    own = QUICK.changed(ops=MORE_OPS, default_candidates=named, candidates=2)
    assert candidates(graph, own) == [("Linear", "APPNP10"), ("SAGEConv",) * 3]


def test_the_most_probable_architecture_is_induced(graph: Graph) -> None:
    state = start(graph)
    state.supernet.alpha.data[0, 3] = state.supernet.alpha.data[1, 1] = 5.0
    assert induce(state, QUICK).architecture == Architecture(
        ops=("ArmaConv", "GATConv"),
        hidden=(4,),
        heads=(QUICK.search.heads,),
        batch_norm=QUICK.search.batch_norm,
    )


@pytest.mark.parametrize("kept_edges", ["soft", "binary"])
def test_kept_edges_in_the_sparser_graph(make_graph: Callable[..., Graph], kept_edges: str) -> None:
    graph = make_graph(0, weighted=True)
    settings = QUICK.changed(kept_edges=kept_edges, edge_rule="budget", edge_share=0.5)
    found = search(graph, settings)
    solution = retrain(graph, found)
    weight = graph.weight * found.edge_mask if kept_edges == "soft" else graph.weight
    assert torch.equal(solution.graph.weight, weight[found.edge_keep])
    assert (
        solution.edges_kept == int(found.edge_keep.sum()) < solution.edges_total == graph.num_edges
    )


def test_the_best_of_the_most_probable_architectures_is_induced(graph: Graph) -> None:
    settings = QUICK.changed(induced_from=3, induce_epochs=4)
    found = search(graph, settings, seed=2)
    state = start(graph, settings)
    with seeded(2, CPU):
        state = loop.run(graph, settings.search)
    values = []
    for path in top_paths(state.supernet.alpha, 3):
        plan = induce(state, settings, path=path)
        short = replace(plan, recipe=replace(plan.recipe, epochs=4))
        values.append((sum(retrain(graph, short, seed=s).accuracy["val"] for s in range(3)), plan))
    best = max(values, key=lambda row: row[0])[1]
    assert same(found, best)


def test_the_dropout_of_the_retraining_is_chosen_on_validation(graph: Graph) -> None:
    dropouts = (0.98, 0.0)
    settings = QUICK.changed(
        retrain_dropout=0.98,
        retrain_dropouts=(0.0, 0.98),
        induce_epochs=8,
        retrain_epochs=8,
        induced_from=1,
    )
    alone = search(graph, settings.changed(retrain_dropouts=()), seed=2)
    assert "induced" not in [own.stage for own in alone.decisions]
    values = [
        sum(retrain(graph, with_dropout(alone, p), seed=s).accuracy["val"] for s in range(3)) / 3
        for p in dropouts
    ]
    found = search(graph, settings, seed=2)
    decision = found.decisions[-1]
    assert decision.stage == "induced" and values[0] != values[1]
    # a dropout that is named twice is tried once
    assert [row["score"] for row in decision.tried] == pytest.approx(values)
    best = dropouts[values.index(max(values))]
    assert found.recipe == replace(alone.recipe, dropout=best)
    assert decision.taken == f"{found.architecture}, dropout {best:g}"
    assert same(alone, found)


def test_plans_that_are_level_after_short_trainings_are_trained_in_full(graph: Graph) -> None:
    settings = QUICK.changed(retrain_dropouts=(0.0,), induce_epochs=1, induced_from=3)
    found = search(graph, settings, seed=2)
    short, in_full = found.decisions[-2:]
    assert (short.stage, in_full.stage) == ("induced", "induced in full")
    again = {row["name"]: row["score"] for row in in_full.tried}
    assert 1 < len(again) <= len(short.tried) == 6
    assert in_full.taken == max(again, key=lambda name: float(again[name]))
    assert in_full.taken == f"{found.architecture}, dropout {found.recipe.dropout:g}"
    assert found.recipe.epochs == 4
    whole = [retrain(graph, found, seed=seed).accuracy["val"] for seed in range(3)]
    assert again[in_full.taken] == pytest.approx(sum(whole) / 3)
    told = [row for row in found.history if "stage" in row]
    assert [row["val_score"] for row in told] == [
        row["score"] for decision in (short, in_full) for row in decision.tried
    ]
    assert len(found.history) <= num_rows(settings)


def test_a_plan_behind_beyond_chance_is_not_trained_in_full(graph: Graph) -> None:
    """Of 100 nodes the best has all right; another 3 fewer (−1.76), one 5 fewer (−2.29)."""
    plan = search(graph, QUICK.changed(induced_from=1), seed=2)
    best, behind, far = (
        Tried(plan, 1 - k / 100, (torch.arange(100) >= k).double()) for k in (0, 3, 5)
    )
    assert level_with_the_best([best, behind, far]) == [best, behind]
    assert sigmas_ahead(far, best) == pytest.approx(-2.294, abs=1e-3)


def test_an_undefined_metric_does_not_stop_the_choice_of_an_architecture(graph: Graph) -> None:
    partial = replace(graph, val_mask=graph.val_mask & (graph.y != 0))  # no roc-auc there
    settings = QUICK.changed(induced_from=3, induce_epochs=2)
    found = search(partial, settings, metric="roc-auc")
    assert same(found, search(partial, settings, metric="roc-auc"))


def test_every_node_keeps_its_highest_edge_where_that_is_asked_for(graph: Graph) -> None:
    settings = QUICK.changed(edge_rule="budget", edge_share=0.5)
    before = torch.bincount(graph.edge_index[1], minlength=graph.num_nodes)
    for keep_last in (False, True):
        kept = search(graph, settings.changed(keep_last=keep_last)).edge_keep
        after = torch.bincount(graph.edge_index[1][kept], minlength=graph.num_nodes)
        assert bool(((after > 0) == (before > 0)).all()) is keep_last
