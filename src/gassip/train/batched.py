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

Operations of one step and batch norm are covered. A model that is not exactly a `Net` of these, or
is on a GPU, is trained by single runs instead.

Shapes: R copies, N nodes, n nodes of a field, D features, F width of a layer, B columns of its
weights, C classes.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse as sp
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F

from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.metrics import Metric, score
from gassip.nn.dropout import kept, passing, words
from gassip.nn.kernels import multiply, product, segment_sum
from gassip.nn.net import Model, Net
from gassip.nn.propagate import NEGATIVE_SLOPE, MaskedGraph
from gassip.operations import OPERATIONS, Operation
from gassip.train.losses import supervised, training_loss
from gassip.train.plan import Plan, Solution
from gassip.train.trainer import conclude, planned_net, retrain, seeded, solve

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
AT_ONCE = 2**24  # values of the widest layer, over all nodes and copies, that are held at once
HEAP = (
    2**25 - 2**16
)  # bytes: having freed a block of this size, glibc keeps what is freed later for the next epoch
FIRST = "layers.0.weight"
# width under which copies are propagated side by side, [n, R·F], and not one after the other
NARROW = 32


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
        own = seeds[len(solutions) :]
        began = time.perf_counter()
        first, _ = _start(build, own[0], graph)
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
        own = own[: copies_at_once(first, graph)]
        starts = [_start(build, seed, graph) for seed in own]
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
        share = (time.perf_counter() - began) / len(own)
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
    if not plain or recipe.prune_to > 0 or recipe.label_weight > 0:
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
    if type(model) is not Net or graph.device.type != "cpu":
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
        name: [own.detach().clone() for own in value] for name, value in copies.state().items()
    }
    for epoch in range(1, epochs + 1):
        loss = losses(copies.rest(h, train, training=True), train).sum()
        h, shown = first.step(loss)
        values, val_losses = judge(shown, val, metric)
        judged = [(value, -own) for value, own in zip(values, val_losses, strict=True)]
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
    val_loss, value = (sum(own) / len(own) for own in (val_losses, values))
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
        values = [score(metric, own, field.y) for own in logits]
    return [-own if value is None else value for value, own in zip(values, loss, strict=True)], loss


@dataclass(frozen=True, eq=False, kw_only=True)
class Entries:
    """A sparse matrix S without gradients: its entries row by row."""

    rowptr: Tensor  # [rows + 1] int32
    col: Tensor  # [nnz] int32
    value: Tensor  # [nnz]

    @cached_property
    def row(self) -> npt.NDArray[np.int32]:
        """The row of each entry, [nnz]."""
        return np.repeat(
            np.arange(self.rowptr.numel() - 1, dtype=np.int32), self.rowptr.diff().numpy()
        )

    def times(self, dense: Tensor) -> Tensor:
        """S D without a gradient, [rows, F]."""
        return torch.embedding_bag(dense, self.col, self.rowptr, False, 0, False, self.value, True)[
            0
        ]  # 0: sums

    def transposed_times(self, dense: Tensor, frame: sp.csc_array) -> Tensor:
        """Sᵀ D without a gradient, [columns, F]; `frame` is any matrix of the shape of Sᵀ, to be
        filled.

        Slower than `times`, but faster than to transpose for one product.
        """
        frame.data, frame.indices, frame.indptr = (
            self.value.numpy(),
            self.col.numpy(),
            self.rowptr.numpy(),
        )
        return torch.from_numpy(frame @ dense.numpy())

    def among(self, passed: Flags, scale: float) -> "Entries":
        """Those marked in `passed` [nnz] only, `scale` times as large."""
        index = np.flatnonzero(
            passed
        )  # numpy: without branches, which random numbers would mislead
        rowptr = np.zeros(self.rowptr.numel(), dtype=np.int32)
        np.cumsum(np.bincount(self.row.take(index), minlength=rowptr.size - 1), out=rowptr[1:])
        col, value = self.col.numpy().take(index), self.value.numpy().take(index)
        value *= np.float32(scale)
        return Entries(
            rowptr=torch.from_numpy(rowptr),
            col=torch.from_numpy(col),
            value=torch.from_numpy(value),
        )


def both_ways(matrix: Csr) -> tuple[Entries, Entries]:
    """S and Sᵀ."""
    assert matrix.value is not None
    rowptr, col, order = matrix.transpose
    columns = Entries(rowptr=rowptr, col=col, value=matrix.value[order])
    return Entries(rowptr=matrix.rowptr, col=matrix.col, value=matrix.value), columns


@dataclass(frozen=True, eq=False, kw_only=True)
class Sparse:
    """The rows of a sparse X that a field reads, their transpose, and where each entry of the rows
    stands in X."""

    rows: Entries
    columns: Entries
    entries: Ints

    @staticmethod
    def of(x: Csr, nodes: Tensor) -> "Sparse":
        matrix, entries = _rows(x, nodes)
        rows, columns = both_ways(matrix)
        return Sparse(rows=rows, columns=columns, entries=entries.numpy())

    def dropped(self, bits: Tensor, p: float) -> Entries:
        """The entries that `dropout.kept` keeps under these random numbers, one per entry of X."""
        least, scale = passing(p)
        return self.rows.among((bits.numpy() >= least).take(self.entries), scale)


@dataclass(frozen=True, eq=False, kw_only=True)
class Hop:
    """One layer's part of the graph: it reads the first `nodes_in` nodes of a field and gives its
    first `nodes_out`."""

    nodes_in: int
    nodes_out: int
    pattern: Csr  # [out, in], with values where the operation fixes them
    # [R·out, R·in], the same for every copy: block-diagonal; under attention its values are the
    # edges' weights
    many: Csr

    @cached_property
    def both_ways(self) -> tuple[Entries, Entries]:
        return both_ways(self.pattern)

    def less_work_first(self, width_in: int, width_out: int) -> bool:
        """Whether (A H) W takes fewer multiplications than A (H W)."""
        first = self.pattern.nnz * width_in + self.nodes_out * width_in * width_out
        return first < self.nodes_in * width_in * width_out + self.pattern.nnz * width_out


@dataclass(frozen=True, eq=False, kw_only=True)
class Field:
    """The nodes a loss on some targets reads, targets first, then their neighbours, hop by hop."""

    nodes: Tensor  # [n]
    y: Tensor  # [targets]
    hops: list[Hop]  # per layer, the first layer's first
    x: "Tensor | Sparse"  # [n, D]


class Copies:
    """R nets of one architecture; their weights are stacked, [R, ...] each, but for the first
    layer's, a list."""

    def __init__(
        self, nets: Sequence[Net], generators: Sequence[torch.Generator], graph: Graph
    ) -> None:
        self.graph, self.net, self.generators, self.count = graph, nets[0], generators, len(nets)
        self.masked = MaskedGraph.of(graph)
        torch.empty(HEAP, dtype=torch.uint8)  # given back at once
        self._pool = torch.empty(0, dtype=torch.int64)
        self.x = nets[0].picked(graph.x)
        named = [dict(net.named_parameters()) for net in nets]
        self.first = [own.pop(FIRST).detach().clone() for own in named]
        self.weights = {
            name: nn.Parameter(torch.stack([own[name].detach() for own in named]))
            for name in named[0]
        }
        self.keeps = [_stacked_keep(nets, l) for l in range(len(nets[0].layers))]
        widths = [layer.weight.shape[0] for layer in list(nets[0].layers)[1:] if nets[0].norms]
        self.running = [
            (torch.zeros(self.count, width), torch.ones(self.count, width)) for width in widths
        ]

    def state(self) -> dict[str, list[Tensor]]:
        """Every parameter and running figure by its name in `Net`, one of each copy."""
        state: dict[str, list[Tensor]] = {name: list(value) for name, value in self.weights.items()}
        for l, (mean, var) in enumerate(self.running):
            state |= {f"norms.{l}.running_mean": list(mean), f"norms.{l}.running_var": list(var)}
        return state | {FIRST: list(self.first)}

    def field(self, targets: Tensor) -> Field:
        """The field of the nodes marked in `targets`; batch norm reads every node, so with it
        nothing is left out."""
        nodes = torch.nonzero(targets).squeeze(1)
        y, sizes = self.graph.y[nodes], [nodes.numel()]
        for layer in reversed(list(self.net.layers)):
            if self.net.norms or OPERATIONS[layer.ops[0]].norm is not None:
                nodes = _with_neighbours(nodes, self.graph, everything=bool(self.net.norms))
            sizes.append(nodes.numel())
        place = torch.full((self.graph.num_nodes,), -1)
        place[nodes] = torch.arange(nodes.numel())
        sizes = sizes[::-1]
        layers = zip(self.net.layers, sizes[:-1], sizes[1:], strict=True)
        hops = [
            self._hop(layer.ops[0], nodes, place, before, after) for layer, before, after in layers
        ]
        x = Sparse.of(self.x, nodes) if isinstance(self.x, Csr) else self.x[nodes]
        return Field(nodes=nodes, y=y, hops=hops, x=x)

    def _hop(self, op: str, nodes: Tensor, place: Tensor, before: int, after: int) -> Hop:
        """The edges into the first `after` nodes, and where the operation counts the node itself,
        that one last."""
        operation = OPERATIONS[op]
        if operation.norm is None:
            none = Csr(
                torch.zeros(after + 1, dtype=torch.int32),
                nodes[:0].int(),
                torch.empty(0),
                (after, before),
            )
            return Hop(nodes_in=before, nodes_out=after, pattern=none, many=none)
        rows, edges = _rows(self.graph.adjacency, nodes[:after])
        value, self_value = _edge_values(operation, self.masked)
        row, col, value = rows.row, place[rows.col64], value[edges]
        if self_value is not None:
            own = torch.arange(after)
            row, col, value = (
                torch.cat([row, own]),
                torch.cat([col, own]),
                torch.cat([value, self_value[nodes[:after]]]),
            )
            order = torch.argsort(row, stable=True)
            row, col, value = row[order], col[order], value[order]
        pattern = replace(Csr.from_sorted_edges(row, col, (after, before)), value=value)
        return Hop(
            nodes_in=before, nodes_out=after, pattern=pattern, many=repeated(pattern, self.count)
        )

    def rest(self, h: Tensor, field: Field, *, training: bool) -> Tensor:
        """Class scores of the field's targets, [R, targets, C], from what the first layer gives."""
        p = self.net.dropout if training else 0.0
        for l in range(1, len(self.net.layers)):
            if self.net.norms:
                h = self._norm(l - 1, F.relu(h), training)
                h = (
                    h
                    if p == 0.0
                    else h * kept(self.bits(h.shape[2], field.nodes[: h.shape[1]]), p, h.dtype)
                )
            elif p == 0.0:
                h = F.relu(h, inplace=not training)
            else:
                h = _DroppedRelu.apply(h, self.bits(h.shape[2], field.nodes[: h.shape[1]]), p)
            h = self.layer(l, field.hops[l], h, self._weight(l))
        return h

    def _weight(self, l: int) -> Tensor:
        """W of layer l as it is used, [R, K, B]."""
        weight, keep = self.weights[f"layers.{l}.weight"], self.keeps[l]
        return weight if keep is None else weight * keep

    def dropped(self, x: "Tensor | Sparse", r: int) -> Entries:
        """A sparse X as copy r sees it in its next epoch."""
        assert isinstance(self.x, Csr) and isinstance(x, Sparse)
        p = self.net.dropout
        return x.rows if p == 0.0 else x.dropped(self._draw(self.x.nnz, self.generators[r]), p)

    def _draw(self, count: int, generator: torch.Generator) -> Tensor:
        """8-bit random numbers; the next call writes over them, [count]."""
        if self._pool.numel() < words(count):
            self._pool = torch.empty(words(count), dtype=torch.int64)
        return (
            self._pool[: words(count)]
            .random_(-(2**63), None, generator=generator)
            .view(torch.int8)[:count]
        )

    def bits(self, width: int, nodes: Tensor) -> Tensor:
        """What a single run draws for its [N, width] values, for these nodes only, [R, n,
        width]."""
        bits = torch.empty(self.count, nodes.numel(), width, dtype=torch.int8)
        for own, generator in zip(bits, self.generators, strict=True):
            drawn = self._draw(self.graph.num_nodes * width, generator).view(-1, width)
            torch.index_select(drawn, 0, nodes, out=own)
        return bits

    def _norm(self, l: int, h: Tensor, training: bool) -> Tensor:
        """`nn.BatchNorm1d` of each copy."""
        norm, (mean, var) = self.net.norms[l], self.running[l]
        assert isinstance(norm, nn.BatchNorm1d) and norm.momentum is not None
        wide = h.transpose(0, 1).reshape(h.shape[1], -1)  # [N, R·F]: one channel per copy and unit
        weight, bias = (
            self.weights[f"norms.{l}.{name}"].reshape(-1) for name in ("weight", "bias")
        )
        out = F.batch_norm(
            wide, mean.view(-1), var.view(-1), weight, bias, training, norm.momentum, norm.eps
        )
        return out.view(h.shape[1], self.count, -1).transpose(0, 1)

    def layer(self, l: int, hop: Hop, h: Tensor, weight: Tensor) -> Tensor:
        """Layer l of every copy, [R, nodes_in, K] -> [R, nodes_out, F]; A (H W) is (A H) W where
        that is less work."""
        layer = self.net.layers[l]
        width = layer.out_width
        commutes = OPERATIONS[layer.ops[0]].commutes
        if not commutes or not hop.less_work_first(h.shape[2], width):
            return self.propagate(l, hop, product(h, weight))
        out = product(propagate(hop, h), weight[:, :, :width])
        if weight.shape[2] > width:
            out = out + product(h[:, : hop.nodes_out], weight[:, :, width:])
        return out + self.weights[f"layers.{l}.bias"]

    def propagate(self, l: int, hop: Hop, products: Tensor) -> Tensor:
        """The operation of layer l on the products of every copy, [R, nodes_in, B] -> [R,
        nodes_out, F]."""
        layer = self.net.layers[l]
        operation, width = OPERATIONS[layer.ops[0]], layer.out_width
        bias = self.weights[f"layers.{l}.bias"]
        if operation.norm is None:
            return products[:, : hop.nodes_out] + bias
        if operation.attention:
            out = attend(hop, products[:, :, :width], self.weights[f"layers.{l}.attention"])
        else:
            out = propagate(hop, products[:, :, :width])
        if operation.matrices == 2:  # the second is for the node itself
            out = out.add_(products[:, : hop.nodes_out, width:])
        return out.add_(bias)


@dataclass(frozen=True)
class Adam:
    """The steps of `torch.optim.Adam` by its own kernel; on small tensors the class takes as long
    as the kernel."""

    lr: float
    weight_decay: float

    def of(self, weights: Sequence[Tensor]) -> Callable[[Sequence[Tensor]], None]:
        """A step of these weights, given their gradients."""
        own = [weight.detach() for weight in weights]
        means, squares = ([torch.zeros_like(weight) for weight in own] for _ in range(2))
        counts = [torch.zeros(()) for _ in own]

        def step(grads: Sequence[Tensor]) -> None:
            for count in counts:
                count.add_(1)
            torch._fused_adam_(
                own,
                list(grads),
                means,
                squares,
                [],
                counts,
                lr=self.lr,
                beta1=0.9,
                beta2=0.999,
                weight_decay=self.weight_decay,
                eps=1e-8,
                amsgrad=False,
                maximize=False,
            )

        return step


class DenseFirst:
    """The first layer on a dense X, under autograd like all others."""

    def __init__(self, copies: Copies, train: Field, val: Field, adam: Adam) -> None:
        self.copies, self.train, self.val = copies, train, val
        weight = nn.Parameter(torch.stack(copies.first))
        copies.first = list(weight.detach())
        self.weights = [weight, *copies.weights.values()]
        self.move = adam.of(self.weights)

    def opening(self) -> Tensor:
        """What the first layer gives in the next epoch, [R, nodes_out, F]."""
        return self.output(self.train, self.copies.net.dropout)

    def step(self, loss: Tensor) -> tuple[Tensor, Tensor]:
        """All weights down the loss; then the first layer's output of the next epoch, and
        validation's class scores."""
        self.move(torch.autograd.grad(loss, self.weights))
        with torch.no_grad():
            shown = self.copies.rest(self.output(self.val, 0.0), self.val, training=False)
        return self.opening(), shown

    def output(self, field: Field, p: float) -> Tensor:
        x, copies, keep = field.x, self.copies, self.copies.keeps[0]
        assert isinstance(x, Tensor)
        weight = self.weights[0] if keep is None else self.weights[0] * keep
        if p == 0.0:
            return copies.propagate(0, field.hops[0], torch.matmul(x, weight))
        return copies.layer(
            0, field.hops[0], x * kept(copies.bits(x.shape[1], field.nodes), p, x.dtype), weight
        )


class SparseFirst:
    """The first layer on a sparse X: Y_r = A X_r W_r + b_r of one matrix and a fixed A, of others
    Y_r = X_r W_r; dW_r = X_rᵀ Aᵀ dY_r.

    One visit to each copy does all that reads its W: what lies between stays in the cache.
    """

    def __init__(self, copies: Copies, train: Field, val: Field, adam: Adam) -> None:
        self.copies, self.train, self.val = copies, train, val
        operation = OPERATIONS[copies.net.layers[0].ops[0]]
        self.whole = operation.commutes and operation.matrices == 1
        self.bias = copies.weights["layers.0.bias"]
        self.rest = [
            weight
            for weight in copies.weights.values()
            if not self.whole or weight is not self.bias
        ]
        self.move_rest = adam.of([*self.rest, self.bias] if self.whole else self.rest)
        self.move = [adam.of([weight]) for weight in copies.first]
        self.frame = sp.csc_array(
            (copies.first[0].shape[0], train.hops[0].nodes_in), dtype=np.float32
        )
        self.inputs: list[Entries] = []

    def opening(self) -> Tensor:
        """What the first layer gives in the first epoch, [R, nodes_out, F]."""
        self.leaf = self.empty(self.train)
        with torch.no_grad():
            for r, out in enumerate(self.leaf.unbind()):
                self.inputs.append(self.copies.dropped(self.train.x, r))
                self.write(self.train.hops[0], self.inputs[r], r, self.bias[r], out)
        return self.given(self.train, self.leaf.requires_grad_())

    def step(self, loss: Tensor) -> tuple[Tensor, Tensor]:
        """All weights down the loss; then the first layer's output of the next epoch, and
        validation's class scores."""
        grad, *others = torch.autograd.grad(loss, [self.leaf, *self.rest])
        self.move_rest([*others, grad.sum(1, keepdim=True)] if self.whole else others)
        self.leaf, seen = self.empty(self.train), self.empty(self.val)
        assert isinstance(self.val.x, Sparse)
        with torch.no_grad():
            parts = zip(
                grad.unbind(), seen.unbind(), self.leaf.unbind(), self.bias.unbind(), strict=True
            )
            for r, (own, val_out, train_out, bias) in enumerate(parts):
                self.move[r]([self.gradient(r, own)])
                self.write(self.val.hops[0], self.val.x.rows, r, bias, val_out)
                self.inputs[r] = self.copies.dropped(self.train.x, r)
                self.write(self.train.hops[0], self.inputs[r], r, bias, train_out)
            shown = self.copies.rest(self.given(self.val, seen), self.val, training=False)
        return self.given(self.train, self.leaf.requires_grad_()), shown

    def empty(self, field: Field) -> Tensor:
        nodes = field.hops[0].nodes_out if self.whole else field.hops[0].nodes_in
        return torch.empty(self.copies.count, nodes, self.copies.first[0].shape[1])

    def write(self, hop: Hop, x: Entries, r: int, bias: Tensor, out: Tensor) -> None:
        """Y_r into `out`."""
        products = x.times(self.copies.first[r])
        if self.whole:
            torch.add(hop.both_ways[0].times(products), bias, out=out)
        else:
            out.copy_(products)

    def gradient(self, r: int, grad: Tensor) -> Tensor:
        """dW_r from dY_r; 0 where the weight is pruned, so that it stays 0."""
        grad = self.train.hops[0].both_ways[1].times(grad) if self.whole else grad.contiguous()
        x, own, keep = self.train.x, self.inputs[r], self.copies.keeps[0]
        assert isinstance(x, Sparse)
        whole = x.columns.times(grad) if own is x.rows else own.transposed_times(grad, self.frame)
        return whole if keep is None else whole.mul_(keep[r])

    def given(self, field: Field, y: Tensor) -> Tensor:
        """The first layer's output from Y, [R, nodes_out, F]."""
        return y if self.whole else self.copies.propagate(0, field.hops[0], y)


def _stacked_keep(nets: Sequence[Net], l: int) -> Tensor | None:
    """The weight masks of layer l as numbers, [R, in, B]; None where all weights exist."""
    keeps = [net.weight_keep(l) for net in nets]
    if all(keep is None for keep in keeps):
        return None
    weight = nets[0].layers[l].weight.detach()
    return torch.stack(
        [torch.ones_like(weight) if keep is None else keep.to(weight.dtype) for keep in keeps]
    )


def _edge_values(operation: Operation, masked: MaskedGraph) -> tuple[Tensor, Tensor | None]:
    """What an operation multiplies each edge by, [E], and the node itself, [N], where that is one
    more edge; for attention, the edges' weights."""
    assert operation.norm is not None
    if operation.attention:
        return masked.edge_weight, torch.ones(masked.adjacency.shape[0])
    edge, loop = masked.normalised(operation.norm)
    return edge, None if loop is None else loop.squeeze(1)


def _with_neighbours(nodes: Tensor, graph: Graph, *, everything: bool) -> Tensor:
    """`nodes`, then those that send to them (or all others), each once."""
    seen = torch.zeros(graph.num_nodes, dtype=torch.bool)
    seen[nodes] = True
    reached = torch.ones_like(seen)
    if not everything:
        reached = torch.zeros_like(seen)
        reached[graph.edge_index[0, seen[graph.edge_index[1]]]] = True
    return torch.cat([nodes, torch.nonzero(reached & ~seen).squeeze(1)])


def _rows(matrix: Csr, rows: Tensor) -> tuple[Csr, Tensor]:
    """The matrix with these rows only, in this order, and which entries it took."""
    starts, counts = matrix.rowptr.long()[rows], matrix.rowptr.diff().long()[rows]
    rowptr = torch.zeros(rows.numel() + 1, dtype=torch.int64)
    rowptr[1:] = counts.cumsum(0)
    entries = torch.repeat_interleave(starts - rowptr[:-1], counts) + torch.arange(int(rowptr[-1]))
    value = None if matrix.value is None else matrix.value[entries]
    return Csr(
        rowptr.to(torch.int32), matrix.col[entries], value, (rows.numel(), matrix.shape[1])
    ), entries


def repeated(matrix: Csr, count: int) -> Csr:
    """diag(S, S, ..., S): `count` copies as one matrix, its transpose made from the one of S."""
    rows, columns = matrix.shape
    value = None if matrix.value is None else matrix.value.repeat(count)
    many = Csr(
        *_shifted(matrix.rowptr, matrix.col, columns, count), value, (rows * count, columns * count)
    )
    rowptr, col, order = matrix.transpose
    shift = torch.arange(count).unsqueeze(1) * matrix.nnz
    many.__dict__["transpose"] = (*_shifted(rowptr, col, rows, count), (order + shift).view(-1))
    return many


def _shifted(rowptr: Tensor, col: Tensor, columns: int, count: int) -> tuple[Tensor, Tensor]:
    copy = torch.arange(count, dtype=torch.int32).unsqueeze(1)
    starts = (rowptr[:-1] + copy * col.numel()).view(-1)
    end = torch.tensor([count * col.numel()], dtype=torch.int32)
    return torch.cat([starts, end]), (col + copy * columns).view(-1)


def propagate(hop: Hop, products: Tensor) -> Tensor:
    """A P of each copy, [R, nodes_out, F]."""
    copies, _, width = products.shape
    if width >= NARROW:
        return multiply(hop.many, products.reshape(-1, width)).view(copies, -1, width)
    wide = products.transpose(0, 1).reshape(hop.nodes_in, -1)  # [n, R·F]
    return multiply(hop.pattern, wide).view(-1, copies, width).transpose(0, 1)


def attend(hop: Hop, products: Tensor, attention: Tensor) -> Tensor:
    """GATConv of each copy under its own attention [R, 2, H, F / H]; the node itself is the last
    edge of its row."""
    copies, heads, width = attention.shape[0], *attention.shape[2:]
    outputs = []
    for head in range(heads):
        part = products[:, :, head * width : (head + 1) * width].contiguous()
        sender, receiver = torch.bmm(part, attention[:, :, head].transpose(1, 2)).unbind(2)
        shares = _shares(hop, sender.reshape(-1), receiver[:, : hop.nodes_out].reshape(-1))
        outputs.append(multiply(hop.many, part.view(-1, width), shares).view(copies, -1, width))
    return outputs[0] if heads == 1 else torch.cat(outputs, dim=2)


def _shares(hop: Hop, sender: Tensor, receiver: Tensor) -> Tensor:
    """a_ij of every copy and edge, as `attention_shares` of nn/propagate.py, [R·nnz]."""
    row, col, weight = hop.many.row, hop.many.col64, hop.many.value
    assert weight is not None
    logit = F.leaky_relu(
        sender.index_select(0, col) + receiver.index_select(0, row), NEGATIVE_SLOPE
    )
    with torch.no_grad():
        present = torch.where(weight > 0, logit, -torch.inf)
        top = torch.full_like(receiver, -torch.inf).scatter_reduce(0, row, present, "amax")
        floor = top.index_select(0, row)
    grown = weight * torch.exp(torch.where(logit > floor, floor, logit) - floor)
    return grown / segment_sum(hop.many, grown).index_select(0, row)


class _DroppedRelu(torch.autograd.Function):
    """y = dropout(ReLU(h)); dh = dy / (1 - p) where y > 0."""

    @staticmethod
    def forward(ctx: FunctionCtx, h: Tensor, bits: Tensor, p: float) -> Tensor:
        ctx.scale = passing(p)[1]  # type: ignore[attr-defined]
        out = kept(bits, p, h.dtype).mul_(h).clamp_min_(0.0)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, None, None]:
        (out,) = ctx.saved_tensors  # type: ignore[attr-defined]
        grad = torch.ops.aten.threshold_backward(grad, out, 0.0)
        return grad.mul_(ctx.scale), None, None  # type: ignore[attr-defined]
