"""Train R copies of a net on one graph at once: one wide product instead of R narrow ones.

    h_r = o(A, dropout_r(ReLU(h_r)) W_r),   r = 1..R,   L = Σ_r L_r

Each copy has its own start, its own weight mask, its own stream of random numbers (drawn in the
order in which `retrain.train` draws them) and its own best epoch, so that copy r ends where
`retrain.solve` with seed r ends, up to rounding. A copy's loss reads only the training nodes and
their neighbourhoods, and its validation only the validation nodes and theirs: the rest of the graph
is left out of the products, which changes nothing. Of a sparse X only the entries that dropout
keeps are multiplied, and A (H W) is computed as (A H) W where that is less work. The first layer on
a sparse X is most of the memory, so its weights are visited once per epoch, copy by copy, by hand:
gradient, step of Adam, what validation reads of them, what the next epoch reads of them. Autograd
has the rest, all copies side by side.

Operations of one step, batch norm and layer norm are covered. A model that is not exactly a `Net`
of these, or is on a GPU, is trained by single runs instead.

Shapes: R copies, N nodes, n nodes of a field, D features, F width of a layer, B columns of its
weights, C classes.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.metrics import Metric, score
from gassip.nn.net import Model, Net
from gassip.operations import OPERATIONS
from gassip.train.adam import Adam
from gassip.train.batched.copies import Copies, Field
from gassip.train.batched.entries import Sparse
from gassip.train.batched.first_layer import DenseFirst, SparseFirst
from gassip.train.divergence import check_loss
from gassip.train.losses import supervised, training_loss
from gassip.train.plan import Plan, Solution
from gassip.train.trainer import conclude, planned_net, retrain, seeded, solve

AT_ONCE = 2**24  # values of the widest layer, over all nodes and copies, that are held at once


def solve_many(
    graph: Graph,
    build: Callable[[], Model],
    *,
    seeds: Sequence[int],
    epochs: int,
    lr: float,
    weight_decay: float,
    metric: Metric = "accuracy",
    edges_total: int | None = None,
    on_epoch: Callable[[dict[str, float]], None] | None = None,
) -> list[Solution]:
    """What `retrain.solve` gives for each of `seeds`; seconds are an even share of the whole."""
    options = {"epochs": epochs, "lr": lr, "weight_decay": weight_decay}
    solutions: list[Solution] = []
    while len(solutions) < len(seeds):
        left = seeds[len(solutions) :]
        began = time.perf_counter()
        first, _ = _start(build, left[0], graph)
        if not isinstance(first, Net) or not batchable(first, graph):
            return [
                solve(
                    graph,
                    build,
                    **options,  # type: ignore[arg-type]
                    seed=seed,
                    metric=metric,
                    edges_total=edges_total,
                    on_epoch=on_epoch,
                )
                for seed in seeds
            ]
        left = left[: copies_at_once(first, graph)]
        starts = [_start(build, seed, graph) for seed in left]
        nets = [net for net, _ in starts if isinstance(net, Net)]
        best = train_many(
            nets,
            [g for _, g in starts],
            graph,
            **options,  # type: ignore[arg-type]
            metric=metric,
            on_epoch=on_epoch,
        )
        done = [
            conclude(net, graph, began=began, best_epoch=epoch, edges_total=edges_total)
            for net, epoch in zip(nets, best, strict=True)
        ]
        share = (time.perf_counter() - began) / len(left)
        solutions += [replace(solution, seconds=share) for solution in done]
    return solutions


def retrain_many(
    graph: Graph,
    plan: Plan,
    *,
    seeds: Sequence[int],
    metric: Metric = "accuracy",
    on_epoch: Callable[[dict[str, float]], None] | None = None,
) -> list[Solution]:
    """What `trainer.retrain` gives for each of `seeds`; with a teacher, label propagation or
    pruning, by single runs."""
    recipe = plan.recipe
    plain = training_loss(recipe, plan.teacher) is supervised and recipe.keep_epoch == "best"
    plain = plain and recipe.schedule == "constant" and recipe.validate_every == 1
    if not plain or recipe.prune_to > 0 or recipe.label_weight > 0 or recipe.fit_bias:
        return [retrain(graph, plan, seed=seed, metric=metric, on_epoch=on_epoch) for seed in seeds]
    kept = plan.on(graph)
    return solve_many(
        kept,
        lambda: planned_net(kept, plan),
        seeds=seeds,
        epochs=recipe.epochs,
        lr=recipe.lr,
        weight_decay=recipe.weight_decay,
        metric=metric,
        edges_total=plan.edge_keep.numel(),
        on_epoch=on_epoch,
    )


def batchable(model: Model, graph: Graph) -> bool:
    """Whether copies of this model can be trained together."""
    if type(model) is not Net or graph.device.type != "cpu" or model.architecture.standardised:
        return False
    return not any(OPERATIONS[layer.ops[0]].iterates for layer in model.layers)


def copies_at_once(net: Net, graph: Graph) -> int:
    widths = [layer.weight.shape[1] for layer in net.layers]
    widths += [] if isinstance(graph.x, Csr) else [graph.num_features]
    return max(1, AT_ONCE // (graph.num_nodes * max(widths)))


def _start(build: Callable[[], Model], seed: int, graph: Graph) -> tuple[Model, torch.Generator]:
    """The model that `seed` gives, and a generator that goes on where building it stopped."""
    with seeded(seed, graph.device):
        model = build().to(graph.device)
        generator = torch.Generator()
        generator.set_state(torch.get_rng_state())
    return model, generator


def train_many(
    nets: Sequence[Net],
    generators: Sequence[torch.Generator],
    graph: Graph,
    *,
    epochs: int,
    lr: float,
    weight_decay: float,
    metric: Metric,
    on_epoch: Callable[[dict[str, float]], None] | None = None,
) -> list[int]:
    """`retrain.train` for every net; leaves each at its best validation epoch and returns these
    epochs."""
    copies = Copies(nets, generators, graph)
    train, val = copies.field(graph.train_mask), copies.field(graph.val_mask)
    first = (SparseFirst if isinstance(train.x, Sparse) else DenseFirst)(
        copies, train, val, Adam(lr, weight_decay)
    )
    h = first.opening()
    best, best_epoch = [(-torch.inf, -torch.inf)] * len(nets), [0] * len(nets)
    best_state = {
        name: [tensor.detach().clone() for tensor in value]
        for name, value in copies.state().items()
    }
    for epoch in range(1, epochs + 1):
        loss = losses(copies.rest(h, train, training=True), train).sum()
        check_loss(loss, graph, epoch, lr)
        h, shown = first.step(loss)
        values, val_losses = judge(shown, val, metric)
        judged = [
            (value, -loss_of_copy) for value, loss_of_copy in zip(values, val_losses, strict=True)
        ]
        better = [r for r in range(len(nets)) if judged[r] > best[r]]
        for r in better:
            best[r], best_epoch[r] = judged[r], epoch
        if better:
            _keep(best_state, copies.state(), better)
        if on_epoch:
            on_epoch(_mean_row(epoch, float(loss.detach()) / len(nets), val_losses, values))
    for r, net in enumerate(nets):
        net.load_state_dict({name: value[r] for name, value in best_state.items()}, strict=False)
        net.zero_pruned()
        net.eval()
    return best_epoch


def _mean_row(
    epoch: int, train_loss: float, val_losses: list[float], values: list[float]
) -> dict[str, float]:
    val_loss, value = (sum(row) / len(row) for row in (val_losses, values))
    return {"epoch": epoch, "train_loss": train_loss, "val_loss": val_loss, "val_score": value}


@torch.no_grad()
def _keep(best: dict[str, list[Tensor]], now: dict[str, list[Tensor]], copies: list[int]) -> None:
    for name, value in now.items():
        for r in copies:
            best[name][r].copy_(value[r])


def losses(logits: Tensor, field: "Field") -> Tensor:
    """Cross-entropy of each copy on the field's targets, [R]."""
    share = torch.log_softmax(
        logits.permute(2, 0, 1).contiguous(), 0
    )  # classes first: several times faster
    y = field.y.expand(1, *logits.shape[:2])
    return -share.gather(0, y).squeeze(0).mean(1)


def judge(logits: Tensor, field: "Field", metric: Metric) -> tuple[list[float], list[float]]:
    """Scores and losses of every copy, as `retrain.validate` has them."""
    loss: list[float] = losses(logits, field).tolist()
    if metric == "accuracy":
        values: list[float | None] = list((logits.argmax(2) == field.y).float().mean(1).tolist())
    else:
        values = [score(metric, scores, field.y) for scores in logits]
    return [
        -loss_of_copy if value is None else value
        for value, loss_of_copy in zip(values, loss, strict=True)
    ], loss
