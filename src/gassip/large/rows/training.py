"""Training a net on rows, in batches; the epoch kept is the best on validation.

    L = mean over a batch of CE(target_i, z_i + o_i)

target: a label, or a teacher's probabilities. o: logits beside the net, if there are any.

Adam, its rate along a half cosine. Rows come standardised; the net is folded at the end.

Shapes: n rows, D features, K hops, C classes.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.errors import GassipError
from gassip.large.rows.nets import Basis, Scaling, Shape, folded, fresh, run_rows, stacked
from gassip.metrics import Metric, score
from gassip.nn.net import Net
from gassip.train.adam import Adam
from gassip.train.deadline import Deadline
from gassip.train.gradual_pruning import Pruning
from gassip.train.trainer import seeded

BLOCK = 2**15  # rows that are judged at once
LR = 5e-3
JUDGED_FROM = 2 / 3  # of the epochs, as pruning ends; before that no epoch is the best


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of some nodes, nearest hop first, and what is to be said of them."""

    rows: Tensor  # [n, (K + 1) D]
    target: Tensor  # [n] classes, or [n, C] probabilities
    scaling: Scaling  # that of the rows
    offset: Tensor | None = None  # o [n, C]

    def __len__(self) -> int:
        return len(self.rows)

    def first(self, count: int) -> "Table":
        offset = None if self.offset is None else self.offset[:count]
        return Table(self.rows[:count], self.target[:count], self.scaling, offset)

    def spread(self, count: int) -> "Table":
        """About so many rows, evenly from all of them."""
        some = slice(None, None, max(1, len(self) // count))
        offset = None if self.offset is None else self.offset[some]
        return Table(self.rows[some], self.target[some], self.scaling, offset)

    def upto(self, hop: int, features: int) -> "Table":
        """Hops 0..hop alone."""
        columns = (hop + 1) * features
        return Table(self.rows[:, :columns], self.target, self.scaling.first(columns), self.offset)


@dataclass(frozen=True, eq=False, kw_only=True)
class Trained:
    """A net, folded, and how it validates."""

    net: Net
    shape: Shape
    value: float  # validation score
    logits: Tensor  # [n_val, C], with o
    epoch: int
    seconds: float = 0.0
    seen: float = 0.0  # rows, each as often as it was trained on
    cut: bool = False  # by a time limit

    @property
    def probs(self) -> Tensor:
        return torch.softmax(self.logits.double(), 1).float()


def epochs_for(rows: int) -> int:
    """As many as three million rows are, within 8 and 60."""
    return int(min(60, max(8, 3_000_000 // max(1, rows))))


def train_rows(
    shape: Shape,
    table: Table,
    val: Table,
    *,
    features: int,
    classes: int,
    seed: int,
    metric: Metric = "accuracy",
    epochs: int | None = None,
    prune_to: int = 0,
    deadline: Deadline | None = None,
    on_epoch: Callable[[dict[str, float]], None] | None = None,
) -> Trained:
    """A fresh net of `shape`; all randomness follows from `seed`."""
    table, val = (part.upto(shape.hops[-1], features) for part in (table, val))
    total = epochs or epochs_for(len(table))
    with seeded(seed, table.rows.device):
        net = fresh(features, classes, shape)
        basis = None
        if shape.signed:
            basis = Basis.fit(table.rows[: 4 * BLOCK], table.scaling, features)
        pruning = _pruning(net, prune_to, total)
        keep, ended, seen = _Keep(metric), False, 0
        step = Adam(lr=LR, weight_decay=shape.decay).of(list(net.parameters()))
        batch = 1024 if len(table) <= 200_000 else 4096
        for epoch in range(1, total + 1):
            rate = (1 + math.cos(math.pi * (epoch - 1) / total)) / 2
            loss, count = _epoch(net, table, basis, partial(step, factor=rate), batch, deadline)
            seen += count
            if pruning is not None:
                pruning.step(net, epoch)
            whole = epoch == total and count + 1 >= len(table)
            ended = deadline is not None and deadline.passed and not whole
            if ended and pruning is not None and epoch < pruning.last:
                pruning.finish(net)
            if epoch >= max(1, JUDGED_FROM * total) or ended:
                keep.look(net, val, basis, epoch)
            if on_epoch:
                on_epoch({"epoch": epoch, "train_loss": loss, "val_score": keep.last})
            if ended:
                break
        net.load_state_dict(keep.state)
        net.zero_pruned()
        net.eval()
    return Trained(
        net=folded(net, table.scaling, basis),
        shape=shape,
        value=keep.best[0],
        logits=keep.logits,
        epoch=keep.epoch,
        seen=seen,
        cut=ended,
    )


def _pruning(net: Net, prune_to: int, epochs: int) -> Pruning | None:
    if prune_to == 0 or prune_to >= net.num_weights()[0]:
        return None
    pruning = Pruning(weights=prune_to, first=epochs // 30, last=max(1, 2 * epochs // 3))
    pruning.check(net)
    return pruning


def _epoch(
    net: Net,
    table: Table,
    basis: Basis | None,
    step: Callable[..., None],
    batch: int,
    deadline: Deadline | None,
) -> tuple[float, int]:
    """The mean loss, and of how many rows."""
    net.train()
    weights, order = list(net.parameters()), torch.randperm(len(table))
    total, seen = 0.0, 0
    for start in range(0, len(table), batch):
        part = order[start : start + batch]
        if len(part) < 2:  # batch norm needs two rows
            continue
        if deadline is not None and deadline.passed:
            break
        logits = run_rows(net, table.rows.index_select(0, part), basis)
        if table.offset is not None:
            logits = logits + table.offset[part]
        loss = F.cross_entropy(logits, table.target[part])
        step(torch.autograd.grad(loss, weights))
        total, seen = total + float(loss.detach()) * len(part), seen + len(part)
    if not math.isfinite(total):
        raise GassipError("the loss is no finite number; are features of very different scale?")
    return total / max(1, seen), seen


class _Keep:
    """The best epoch so far."""

    def __init__(self, metric: Metric) -> None:
        self.metric, self.epoch, self.last = metric, 0, 0.0
        self.best = (-math.inf, -math.inf)
        self.state: dict[str, Tensor] = {}
        self.logits = torch.empty(0)

    def look(self, net: Net, val: Table, basis: Basis | None, epoch: int) -> None:
        logits = judged_rows(net, val.rows, basis)
        logits = logits if val.offset is None else logits + val.offset
        loss = float(F.cross_entropy(logits, val.target)) if len(val) else 0.0
        value = score(self.metric, logits, val.target)
        self.last = -loss if value is None else value
        if (self.last, -loss) > self.best or not len(val):  # nothing to judge by: the last epoch
            self.best, self.epoch, self.logits = (self.last, -loss), epoch, logits
            self.state = copy.deepcopy(net.state_dict())


@torch.no_grad()
def judged_rows(net: Net, rows: Tensor, basis: Basis | None = None) -> Tensor:
    """Class scores [n, C], block by block."""
    net.eval()
    parts = [run_rows(net, part, basis) for part in rows.split(BLOCK)]
    return torch.cat(parts) if parts else rows.new_empty(0, net.layers[-1].out_width)


@torch.no_grad()
def folded_probs(net: Net, rows: Tensor, scaling: Scaling) -> Tensor:
    """Probabilities [n, C] by a folded net, of rows that were standardised."""
    columns = len(stacked(net))
    own = scaling.first(columns)
    parts = [run_rows(net, own.undone(part[:, :columns])) for part in rows.split(BLOCK)]
    logits = torch.cat(parts) if parts else rows.new_empty(0, net.layers[-1].out_width)
    return torch.softmax(logits.double(), 1).float()
