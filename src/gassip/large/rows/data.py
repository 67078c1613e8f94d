"""What a search on rows reads of a graph folder: labelled rows, and a sample of the others.

Shapes: N nodes, n rows, D features, K hops, C classes.
"""

import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from gassip.deploy.by_rows import Source
from gassip.errors import GassipError
from gassip.graph.store import GraphFolder
from gassip.large.rows.nets import Scaling
from gassip.large.rows.training import Table

FITTED = 2**17  # rows on which the scaling is fitted
VALIDATION = 50_000  # rows that judge
PIECE = 2**17  # rows that are gathered at once
SAMPLE = 2**28  # numbers of a table, at most: 1 GiB


@dataclass(frozen=True, eq=False, kw_only=True)
class Chosen:
    """Which nodes train, judge and are taught, ascending; labels of test nodes are not here."""

    train: np.ndarray
    val: np.ndarray
    others: np.ndarray  # without a label to train on: a teacher says what they are
    y: np.ndarray  # [N] classes, -1 where the search may not look

    @staticmethod
    def of(folder: GraphFolder, width: int, seed: int, others: int = 200_000) -> "Chosen":
        """At most so many rows that a table of `width` columns holds SAMPLE numbers."""
        split, labels = np.asarray(folder.array("split")), np.asarray(folder.array("y"))
        most = max(1000, SAMPLE // max(1, width))
        generator = np.random.default_rng(seed)
        train = _some(np.flatnonzero((split == 1) & (labels >= 0)), most, generator)
        val = _some(np.flatnonzero((split == 2) & (labels >= 0)), VALIDATION, generator)
        rest = _some(np.flatnonzero((split != 1) & (split != 2)), min(most, others), generator)
        for name, nodes in (("training", train), ("validation", val)):
            if not len(nodes):
                raise GassipError(f"{folder.path} has no {name} nodes; give a column split")
        y = np.where((split == 1) | (split == 2), labels, -1)
        return Chosen(train=train, val=val, others=rest, y=y)

    def refit(self) -> "Chosen":
        """Validation rows train too; none is left to judge by."""
        return replace(self, train=np.union1d(self.train, self.val), val=self.val[:0])


def _some(nodes: np.ndarray, most: int, generator: np.random.Generator) -> np.ndarray:
    if len(nodes) <= most:
        return nodes
    return np.sort(generator.choice(nodes, most, replace=False))


@dataclass(frozen=True, eq=False)
class Offsets:
    """Logits that are added to a net's, of the chosen nodes, ascending."""

    train: Tensor  # [n, C]
    val: Tensor
    others: Tensor

    def times(self, weight: float) -> "Offsets":
        return Offsets(weight * self.train, weight * self.val, weight * self.others)


class Tables:
    """Rows of the chosen nodes, gathered when first asked for, from disk or from a hidden layer;
    after that the source is let go."""

    def __init__(
        self,
        chosen: Chosen,
        source: Source,
        steps: int,
        features: int,
        offsets: Offsets | None = None,
    ) -> None:
        self.chosen, self.steps, self.features = chosen, steps, features
        self.source: Source | None = source
        self.offsets = offsets

    def beside(self, offsets: Offsets) -> "Tables":
        """The same rows in memory, with logits beside the net."""
        assert self._gathered and self._val_rows.dim() == 2  # read now, and shared
        other = copy.copy(self)
        other.offsets = offsets
        return other

    def rows(self, nodes: np.ndarray) -> Tensor:
        """[n, (K + 1) D]"""
        width = self.features * (self.steps + 1)
        out = np.empty((len(nodes), width), dtype=np.float32)
        self.fill(out, nodes, np.arange(len(nodes)))
        return torch.from_numpy(out)

    def fill(self, out: np.ndarray, nodes: np.ndarray, place: np.ndarray) -> None:
        """The row of nodes[k] to out[place[k]], piece by piece."""
        assert self.source is not None
        for start in range(0, len(nodes), PIECE):
            part = slice(start, start + PIECE)
            for k in range(self.steps + 1):
                columns = slice(k * self.features, (k + 1) * self.features)
                out[place[part], columns] = self.source.many(k, nodes[part])

    @cached_property
    def _gathered(self) -> tuple[Tensor, Scaling]:
        """Rows of training nodes, in an order drawn once so that the first are a sample, then of
        the others: standardised, held once."""
        chosen = self.chosen
        count = len(chosen.train)
        out = torch.empty(count + len(chosen.others), self.features * (self.steps + 1))
        place = np.empty(count, dtype=np.int64)
        place[self._order] = np.arange(count)
        self.fill(out.numpy(), chosen.train, place)
        self.fill(out.numpy(), chosen.others, np.arange(count, len(out)))
        scaling = Scaling.fit(out[: min(count, FITTED)])
        return scaling.apply_(out), scaling

    @property
    def _both(self) -> Tensor:
        return self._gathered[0]

    @property
    def scaling(self) -> Scaling:
        return self._gathered[1]

    @cached_property
    def _order(self) -> np.ndarray:
        return np.random.default_rng(0).permutation(len(self.chosen.train))

    @property
    def train(self) -> Table:
        count = len(self.chosen.train)
        offset = None if self.offsets is None else self.offsets.train[self._order]
        return Table(self._both[:count], self._train_labels, self.scaling, offset)

    @cached_property
    def _train_labels(self) -> Tensor:
        return self._labels(self.chosen.train[self._order])

    @property
    def val(self) -> Table:
        offset = None if self.offsets is None else self.offsets.val
        return Table(self._val_rows, self._val_labels, self.scaling, offset)

    @cached_property
    def _val_labels(self) -> Tensor:
        return self._labels(self.chosen.val)

    @cached_property
    def _val_rows(self) -> Tensor:
        rows = self.scaling.apply_(self.rows(self.chosen.val))
        self.source = None  # nothing more is read
        return rows

    @property
    def others(self) -> Tensor:
        return self._both[len(self.chosen.train) :]

    def taught(self, probs: Tensor) -> Table:
        """Training rows by their labels, others by the teacher's probabilities [n, C]."""
        train = self.train
        labels = torch.nn.functional.one_hot(train.target, probs.shape[1]).float()
        offset = None
        if self.offsets is not None and train.offset is not None:
            offset = torch.cat([train.offset, self.offsets.others])
        return Table(self._both, torch.cat([labels, probs]), self.scaling, offset)

    def _labels(self, nodes: np.ndarray) -> Tensor:
        return torch.from_numpy(self.chosen.y[nodes].astype(np.int64))
