"""The search, Algorithm 2: weights and their masks, the structure mask, the architecture, epoch by
epoch (Sec. 4.4).

    W*, M_W* = argmin L_train(A ⊙ M_G, W ⊙ M_W, α)      on training nodes
    M_G*     = argmin L_struct(A ⊙ M_G, W ⊙ M_W, α)     Algorithm 1, K architectures
    α*       = argmin L_val(A ⊙ M_G, W ⊙ M_W, α)        on validation nodes, first order

DARTS is the same loop with `prune` and `sparsify` off. No test label is read here.
"""

import time
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.metrics import Metric, score
from gassip.nn.kernels import transform
from gassip.nn.propagate import MaskedGraph
from gassip.paper import curriculum
from gassip.paper.batches import batches, mean_row
from gassip.paper.induce import kept_edges, kept_weights
from gassip.paper.masks import weight_mask
from gassip.paper.state import State
from gassip.paper.supernet import Path, top_paths
from gassip.settings.search import Search
from gassip.train.allocation import keep_freed_memory
from gassip.train.deadline import Deadline
from gassip.train.divergence import check_loss, check_scores
from gassip.train.plan import Row


class Checkpoint(Protocol):
    """Where a search keeps its state between epochs, so that a killed one can go on."""

    def load(self) -> "tuple[dict[str, Tensor], list[Row]] | None": ...

    def save(self, tensors: Callable[[], dict[str, Tensor]], history: list[Row]) -> None:
        """Called after every epoch; `tensors` gathers the state when it is to be written."""


def run(
    graph: Graph,
    settings: Search,
    *,
    metric: Metric = "accuracy",
    on_epoch: Callable[[Row], None] | None = None,
    checkpoint: Checkpoint | None = None,
    deadline: Deadline | None = None,
) -> State:
    """Algorithm 2, lines 1-8: the state after the last epoch."""
    keep_freed_memory()
    state = State(graph, settings)
    if checkpoint is not None and (saved := checkpoint.load()) is not None:
        state.restore(*saved)
    while len(state.history) < settings.epochs:
        if deadline is not None:
            deadline.check()
        state.history.append(whole_epoch(state, metric))
        if on_epoch is not None:
            on_epoch(state.history[-1])
        if checkpoint is not None:
            checkpoint.save(state.tensors, state.history)
    return state


def whole_epoch(state: State, metric: Metric) -> Row:
    """The loop over the graph at once, or over its batches."""
    size = state.settings.batch_nodes
    if not 0 < size < state.graph.num_nodes:
        return epoch(state, metric)
    rows = []
    for batch in batches(state):
        before, grad_std = state.edge_score.detach().clone(), state.grad_std
        rows.append(epoch(batch, metric))
        batch.hand_back(before, grad_std)
    if not rows:
        raise GassipError(
            f"batch_nodes is {size}: no batch has both training and validation nodes; give more"
        )
    state.refresh()
    return mean_row(rows)


def epoch(state: "State", metric: Metric) -> Row:
    """One turn of the loop: what it did, and what the search would hand over if it ended now."""
    began = time.perf_counter()
    number = len(state.history) + 1
    row: Row = {"epoch": number} | step_weights(state)  # line 2
    if number >= state.settings.warmup_epochs:  # lines 3-5
        with torch.no_grad():  # W and M_W stand still while S_G and α are stepped
            weights = state.weights()
        products = transform(state.graph.x, weights[0])
        if state.settings.sparsify:
            row |= step_structure(state, weights, products)  # line 6, Algorithm 1
        row |= step_alpha(state, weights, products, metric)  # line 7
    return row | outlook(state) | {"seconds": time.perf_counter() - began}


def step_weights(state: State) -> Row:
    """One Adam step of W and S_W on L_train (Alg. 2, line 2)."""
    settings, graph, net = state.settings, state.graph, state.supernet
    optimizer = state.optimizers["weight"]
    optimizer.zero_grad()
    weights = state.weights()
    paths: list[Path | None] = [None]
    for _ in range(settings.sampled_paths):
        paths.append(tuple(torch.randint(len(settings.ops), (settings.layers,)).tolist()))
    loss = torch.zeros((), device=graph.device)
    for path in paths:
        logits = net(graph.x, state.masked, weights, path=path, dropout=settings.dropout)
        loss = loss + F.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask])
    check_loss(loss, graph, len(state.history) + 1, settings.lr_weight)
    train_loss = float(loss.detach())
    if settings.prune and settings.score_sparsity > 0:
        masks = torch.cat(
            [weight_mask(s, settings.weight_form).flatten() for s in net.weight_scores]
        )
        loss = loss + settings.score_sparsity * masks.mean()
    loss.backward()
    optimizer.step()
    return {"train_loss": train_loss / len(paths)}


def step_structure(state: State, weights: list[Tensor], products: Tensor | None) -> Row:
    """One step of S_G and γ (Algorithm 1)."""
    settings, graph, net = state.settings, state.graph, state.supernet
    dropout = settings.dropout if settings.structure_dropout else 0.0
    if state.logits is None:  # no α step yet: one forward without gradient
        with torch.no_grad():
            state.logits = net(graph.x, state.masked, weights, first_products=products)
    pseudo_label = curriculum.pseudo_labels(state.logits, graph.y, graph.train_mask)  # line 1
    node_weight = difficulty_weights(state, pseudo_label)  # line 2
    nodes = loss_nodes(graph.train_mask, settings.loss_nodes)
    first_products = None if dropout else products
    gradients, threshold_gradients = [], []
    for path in top_paths(net.alpha, settings.num_archs):  # lines 3-6
        mask = state.edge_mask()
        masked = MaskedGraph.of(graph, mask)
        logits = net(
            graph.x, masked, weights, path=path, dropout=dropout, first_products=first_products
        )
        loss = curriculum.structure_loss(
            logits, pseudo_label, node_weight, nodes, mask, settings.beta
        )
        by_score, by_threshold = torch.autograd.grad(loss, (state.edge_score, state.threshold))
        gradients.append(by_score)
        threshold_gradients.append(by_threshold)
    update, state.grad_std = curriculum.score_update(  # line 7
        torch.stack(gradients),
        settings.update_rule,
        settings.update_clamp,
        settings.update_eps,
        settings.unbiased_std,
    )
    state.edge_score.grad, state.threshold.grad = update, torch.stack(threshold_gradients).mean(0)
    state.optimizers["edge"].step()  # line 8
    state.refresh()
    return {
        "threshold": float(state.threshold.detach()),
        "clamp_share": float((update.abs() >= settings.update_clamp).float().mean()),
        "reached_share": float((state.grad_std > 0).float().mean()),
    }


def loss_nodes(labelled: Tensor, which: str) -> Tensor:
    """The nodes over which L_struct sums, [N] bool. W has memorised the labels of the labelled
    ones; at all others ȳ is what the supernet predicts."""
    if which == "all":
        return torch.ones_like(labelled)
    return labelled if which == "labelled" else ~labelled


def difficulty_weights(state: State, pseudo_label: Tensor) -> Tensor:
    """θ [N]; even weights without the curriculum."""
    settings, graph = state.settings, state.graph
    over = graph.train_mask if settings.softmax_nodes == "labelled" else None
    difficulty = torch.zeros(graph.num_edges, device=graph.device)
    if settings.curriculum:
        assert state.logits is not None
        grad_std = (
            curriculum.standardised(state.grad_std) if settings.standardise else state.grad_std
        )
        node_view = curriculum.node_view_difficulty(
            graph, state.logits, pseudo_label, settings.lambda1
        )
        difficulty = grad_std[state.slot] + settings.lambda2 * node_view
    return curriculum.node_weights(graph, difficulty, over)


def step_alpha(state: State, weights: list[Tensor], products: Tensor | None, metric: Metric) -> Row:
    """One Adam step of α on L_val, first order (Alg. 2, line 7); keeps z for the next structure
    step."""
    settings, graph, net = state.settings, state.graph, state.supernet
    logits = net(graph.x, state.masked, weights, first_products=products)
    nodes = graph.val_mask if settings.alpha_nodes == "val" else graph.train_mask
    check_scores(logits.detach(), graph, settings.lr_weight)
    loss = F.cross_entropy(logits[nodes], graph.y[nodes])
    (net.alpha.grad,) = torch.autograd.grad(loss, (net.alpha,))
    state.optimizers["alpha"].step()
    state.logits = logits.detach()
    val_logits, val_y = state.logits[graph.val_mask], graph.y[graph.val_mask]
    value = score(metric, val_logits, val_y)
    val_loss = float(F.cross_entropy(val_logits, val_y))
    return {"val_loss": val_loss, "val_score": float("nan") if value is None else value}


@torch.no_grad()
def outlook(state: State) -> Row:
    """What the search would hand over if it ended now."""
    (path,) = top_paths(state.supernet.alpha, 1)
    row: Row = {"alpha_entropy": state.supernet.alpha_entropy()}
    row["architecture"] = " ‖ ".join(state.settings.ops[k] for k in path)
    row |= alpha_shares(state)
    if state.settings.prune:
        keep = kept_weights(state, path)
        row["weights_kept"] = sum(int(k.sum()) for k in keep) / sum(k.numel() for k in keep)
    if state.settings.sparsify:
        row["edges_kept"] = float(kept_edges(state).float().mean())
    return row


def alpha_shares(state: State) -> Row:
    """softmax α, one number for each operation of each layer: `alpha_<layer>_<operation>`."""
    shares = torch.softmax(state.supernet.alpha.detach(), 1).tolist()
    return {
        f"alpha_{layer}_{name}": share
        for layer, row in enumerate(shares, 1)
        for name, share in zip(state.settings.ops, row, strict=True)
    }
