"""Trainings of nets of rows, told and counted; and chains of them, layer upon layer.

A chain grows by a segment: the hidden layer of the last one, for all nodes, is passed on by the
same kernel as the features, and the next segment is trained on the rows of its hops.

Shapes: N nodes, n rows, F width, C classes.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gassip.best.significance import Validation, gain
from gassip.best.trials import seed_of
from gassip.deploy.by_rows import InMemory, OnDisk, Source, all_rows
from gassip.deploy.numpy_layers import Layer, layers_of
from gassip.large.cluster import InProcess, RayTasks, Tasks
from gassip.large.hops import Hops
from gassip.large.kernels import Edges
from gassip.large.rows.data import Chosen, Offsets, Tables
from gassip.large.rows.kept import KeptNets, asked_for
from gassip.large.rows.nets import Shape, joined
from gassip.large.rows.pace import MARGIN, Pace
from gassip.large.rows.training import Table, Trained, epochs_for, folded_probs, train_rows
from gassip.metrics import Metric
from gassip.nn.net import Net
from gassip.nn.size import macs_of
from gassip.train.deadline import Deadline
from gassip.train.leaderboard import Standing, kind_of
from gassip.train.plan import Row

UPPER_HOPS = (0, 1, 2)  # of a segment on a hidden layer
PROBE = 2**15  # rows
SCORING = 2.0  # times the reading of all hops: the scores of all nodes


@dataclass(eq=False, kw_only=True)
class Chain:
    """Segments on top of each other as one net, and what its last segment reads."""

    trained: Trained  # the whole net
    last: Net  # its last segment
    source: Source | None  # None: nothing more is to be read
    tables: Tables
    length: int = 1

    def release(self) -> None:
        """Hops of a hidden layer fill memory as long as anything may read them."""
        self.source = None

    def others(self) -> Tensor:
        """Probabilities [n, C] of the nodes without a label to train on."""
        return folded_probs(self.last, self.tables.others, self.tables.scaling)


@dataclass(eq=False, kw_only=True)
class Trials:
    """One search's trainings."""

    hops: Hops
    edges: Edges
    chosen: Chosen
    tables: Tables  # of the features
    classes: int
    seed: int = 0
    metric: Metric = "accuracy"
    threads: int = 1
    pace: Pace = field(default_factory=Pace)
    hear: Callable[[Row], None] = lambda row: None
    tasks: Tasks = field(default_factory=InProcess)
    board: list[Standing] = field(default_factory=list)
    history: list[Row] = field(default_factory=list)
    kept: KeptNets | None = None  # what a killed search left
    edges_key: str = "given"
    offsets: Offsets | None = None  # label-propagation logits, once they are known
    first: Trained | None = None  # the first net of a chain, on features
    best_candidate: Trained | None = None  # the best candidate

    @property
    def late(self) -> bool:
        return self.pace.late

    def gather(self) -> None:
        """Rows into memory: all hops are read once. The scores of all nodes will read them too, and
        have that time."""
        began = time.perf_counter()
        assert len(self.tables.train) and len(self.tables.val)
        self.pace.reading = time.perf_counter() - began
        self.pace.keep(SCORING * self.pace.reading)

    def train(
        self,
        stage: str,
        index: int,
        shape: Shape,
        *,
        table: Table | None = None,
        tables: Tables | None = None,
        prune_to: int = 0,
        epochs: int | None = None,
        lower: Net | None = None,
        fit: bool = False,
    ) -> Trained:
        """A net on the features, or a segment on the hidden layer of `lower`, which `tables` holds,
        joined with it; labels alone unless `table` is given. `fit`: on as many rows, as often, as
        the time left allows."""
        read, began = tables or self.tables, time.perf_counter()
        given = table or read.train
        asked = self._asked(shape, given, prune_to, epochs, lower)
        made = self._recalled(stage, index, asked)
        if made is None:
            total, weights = epochs or epochs_for(len(given)), weights_of(shape, read, self.classes)
            rows, fewer = len(given), total
            if fit and self.pace.deadline is not None:
                self._probe(shape, given, read)
                rows, fewer = self.pace.fitted(rows, total, weights)
            settings = self._settings(read, prune_to, fewer)
            seed = seed_of(self.seed, stage, index)
            made = train_task((given.first(rows), read.val, settings), shape, seed)
            self.pace.measured(made.seconds, made.seen, weights)
            cut = made.cut or (rows, fewer) != (len(given), total)
            made = replace(made, seconds=time.perf_counter() - began, cut=cut)
            self._remember(stage, index, asked, made)
        whole = made if lower is None else replace(made, net=joined(lower, made.net))
        self.tell(stage, index, whole)
        return made

    def train_all(
        self,
        stage: str,
        first: int,
        shapes: Sequence[Shape],
        *,
        table: Table | None = None,
        epochs: int | None = None,
        fit: bool = False,
    ) -> list[Trained]:
        """Nets on the features, as tasks if there is a cluster; past the deadline the rest is left
        out, but for the first. `fit`: each as the time left allows, in equal parts."""
        if not isinstance(self.tasks, RayTasks):
            made: list[Trained] = []
            for k, shape in enumerate(shapes):
                if made and self.late:
                    break
                with self.pace.within(1 / (len(shapes) - k)):
                    own = self.train(stage, first + k, shape, table=table, epochs=epochs, fit=fit)
                made.append(own)
            return made
        tables, given = self.tables, table or self.tables.train
        shared = (given, tables.val, for_workers(self._settings(tables, 0, epochs)))
        asked = [self._asked(shape, given, 0, epochs) for shape in shapes]
        answers = [self._recalled(stage, first + k, asked[k]) for k in range(len(shapes))]
        wanting = [k for k, answer in enumerate(answers) if answer is None]
        items = [(shapes[k], seed_of(self.seed, stage, first + k)) for k in wanting]

        def arrived(at: int, answer: Trained) -> None:
            self._remember(stage, first + wanting[at], asked[wanting[at]], answer)

        found = self.tasks.map(train_task, shared, items, arrived)
        for k, answer in zip(wanting, found, strict=True):
            answers[k] = answer
        trained = [answer for answer in answers if answer is not None]
        for k, answer in enumerate(trained):
            self.tell(stage, first + k, answer)
        return trained

    def _probe(self, shape: Shape, table: Table, read: Tables) -> None:
        """The rate of this very net, by an epoch on a few rows: that of a narrower one misleads."""
        settings = self._settings(read, 0, 1) | {"deadline": None}
        some = (table.spread(PROBE), read.val.first(0), settings)
        made = train_task(some, shape, self.seed)
        self.pace.measured(made.seconds, made.seen, weights_of(shape, read, self.classes))

    def _asked(
        self,
        shape: Shape,
        table: Table,
        prune_to: int,
        epochs: int | None,
        lower: Net | None = None,
    ) -> str:
        return "" if self.kept is None else asked_for(shape, table, prune_to, epochs, lower)

    def _recalled(self, stage: str, index: int, asked: str) -> Trained | None:
        return None if self.kept is None else self.kept.recall(self._name(stage, index), asked)

    def _remember(self, stage: str, index: int, asked: str, made: Trained) -> None:
        if self.kept is not None and not made.cut:
            self.kept.remember(self._name(stage, index), asked, made)

    def _name(self, stage: str, index: int) -> str:
        return f"{self.edges_key} {stage} {index}"

    def _settings(self, tables: Tables, prune_to: int, epochs: int | None) -> dict[str, Any]:
        return {
            "features": tables.val.rows.shape[1] // (tables.steps + 1),
            "classes": self.classes,
            "metric": self.metric,
            "epochs": epochs,
            "prune_to": prune_to,
            "deadline": self.pace.deadline,
            "threads": self.threads,
        }

    def tell(self, stage: str, index: int, made: Trained) -> None:
        """To the listener, the history and the leaderboard."""
        layer = ", layer" if stage.startswith("student") else ""
        name = f"{stage}{layer} {index + 1}: {made.shape}"
        judged = len(self.tables.val) > 0
        row: Row = {"stage": stage, "architecture": str(made.net.architecture)}
        row |= {"val_score": made.value} if judged else {}
        row |= {"seconds": made.seconds}
        self.history.append(row | {"epoch": len(self.history) + 1})
        self.hear(row)
        graph = self.hops.graph
        macs = macs_of(
            made.net, nodes=graph.nodes, edges=graph.edges, read=graph.nodes * self.hops.features
        )
        self.board.append(
            Standing(
                name=name,
                kind=kind_of(stage),
                architecture=str(made.net.architecture),
                val_score=made.value if judged else None,
                weights=made.net.num_weights()[0],
                edges=graph.edges,
                macs=macs,
                seconds=made.seconds,
            )
        )

    def begin(self, trained: Trained) -> Chain:
        self.first = trained
        source = OnDisk(self.hops, self.tables.steps)
        return Chain(trained=trained, last=trained.net, source=source, tables=self.tables)

    def longer(
        self,
        chain: Chain,
        stage: str,
        shape: Shape,
        probs: Tensor | None = None,
        prune_to: int = 0,
        fit: bool = False,
        offsets: Offsets | None = None,
    ) -> Chain:
        """The chain with one more segment; taught by probabilities of the others, if given."""
        began = time.perf_counter()
        hidden = self.hidden(chain)
        chain.release()
        source = InMemory.of(hidden, self.edges, shape.hops[-1], self.threads)
        self.pace.passing = time.perf_counter() - began
        tables = Tables(self.chosen, source, shape.hops[-1], hidden.shape[1], offsets)
        table = None if probs is None else tables.taught(probs)
        lower = chain.trained.net
        upper = self.train(
            stage,
            chain.length,
            shape,
            table=table,
            tables=tables,
            prune_to=prune_to,
            lower=lower,
            fit=fit,
        )
        return Chain(
            trained=replace(upper, net=joined(lower, upper.net)),
            last=upper.net,
            source=source,
            tables=tables,
            length=chain.length + 1,
        )

    def affords_layer(self, width: int) -> bool:
        """Whether time is left to pass a hidden layer of all nodes on."""
        pace = self.pace
        passing = pace.of_spreading(self.hops.graph.edges, width, UPPER_HOPS[-1]) + pace.reading
        return not pace.late and pace.allows(max(passing, MARGIN * pace.passing))

    def hidden(self, chain: Chain) -> np.ndarray:
        """ReLU of the layer in front of the chain's last, [N, F]."""
        layers = numpy_layers(chain.last)[:-1]
        source = chain.source
        assert source is not None
        if isinstance(source, OnDisk):
            source = OnDisk(source.hops, len(layers[0].weights) - 1)
        h = all_rows(layers, source, self.hops.graph.nodes)
        return np.maximum(h, 0, out=h)

    def gain(self, challenger: Trained, incumbent: Trained) -> float:
        """Standard errors by which a net validates better."""
        y = self.tables.val.target
        return gain(
            Validation(self.metric, challenger.probs, y),
            Validation(self.metric, incumbent.probs, y),
        )


def for_workers(settings: dict[str, Any]) -> dict[str, Any]:
    """A deadline by the time of day: the clock of a Deadline is that of one machine."""
    deadline = settings.pop("deadline")
    until = None if deadline is None else time.time() + deadline.left
    return settings | {"until": until}


def train_task(shared: tuple[Table, Table, dict[str, Any]], shape: Shape, seed: int) -> Trained:
    """One training, here or on a worker, with as many threads as there: equal bits."""
    table, val, settings = shared
    began, settings = time.perf_counter(), dict(settings)
    if (until := settings.pop("until", None)) is not None:
        settings["deadline"] = Deadline.after(until - time.time())
    torch.set_num_threads(settings.pop("threads"))
    made = train_rows(shape, table, val, seed=seed, **settings)
    return replace(made, seconds=time.perf_counter() - began)


def weights_of(shape: Shape, read: Tables, classes: int) -> int:
    """About as many as a row is multiplied by."""
    inner = shape.width * (shape.depth - 2)
    return shape.width * (len(shape.hops) * read.features + inner + classes)


def numpy_layers(net: Net) -> tuple[Layer, ...]:
    """The net's layers for deploy/by_rows.py."""
    state = {
        name: value.detach().numpy()
        for name, value in net.state_dict().items()
        if not name.startswith("weight_keep")
    }
    return layers_of(net.architecture.ops, state, net.layers[-1].out_width)
