"""A trained net without torch: on the run's graph, on it with nodes and edges added, or on another.

Shapes: N nodes, D features of x, d of them read, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse as sp

from gassip.deploy.numpy_forward import apply, label_logits
from gassip.deploy.numpy_graph import Inputs, Step, field
from gassip.deploy.numpy_layers import Layer, filled, standardise_rows, standardised
from gassip.deploy.numpy_products import Room, Scratch, Sums, fresh
from gassip.errors import GassipError
from gassip.graph.checks import Array, Table, canonical, clean_edges, dense, normalized, pattern
from gassip.graph.columns import Table as Columns
from gassip.graph.drift import Statistics, drift, told_once
from gassip.graph.parts import row_numbers
from gassip.graph.preparation import Preparation
from gassip.graph.structure import BESIDE, DEGREES, beside
from gassip.graph.table_frames import as_table
from gassip.graph.tables import parts_of
from gassip.runs.format import no_new_nodes


@dataclass(frozen=True, eq=False, kw_only=True)
class Model:
    """A trained net, and the graph it was trained on where the folder holds it. Made by `load`."""

    layers: tuple[Layer, ...]
    class_names: tuple[str, ...]
    features: int  # D, of the graph it was trained on
    feature_index: Array | None  # [d], the columns of x it reads; None: all
    undirected: bool  # how that graph was made ready, which is done to others too
    normalize: bool
    edges_total: int  # of that graph, before any were removed
    edges: sp.csr_array  # [N, N], the ones kept
    x: Table | None  # [N, d]
    weighted: bool = True  # whether given weights of edges are used
    y: Array | None = None  # [N], -1 where unlabelled
    test_mask: Array | None = None  # [N]
    ids: tuple[str, ...] | None = None  # what the user calls the nodes; None: their numbers
    label_weight: float = 0.0  # of label propagation beside the net, on that graph
    labels: Array | None = None  # [N], of its training nodes, -1 elsewhere; None: not stored
    elsewhere: str | None = None  # what is missing on another graph; None: nothing
    soft: bool = False  # the kept edges weigh M_G besides what was given
    preparation: Preparation | None = None  # how named columns become x; None: x was given
    statistics: Statistics | None = None  # of the features in training
    structure: str | None = None  # what x was made of, beside or instead of given features
    absent: str | None = None  # why the run's graph is not here; None: it is, or was left out
    reorder: bool = False  # full passes in an order of the nodes in which neighbours lie close

    def scores(
        self,
        x: Table | None = None,
        edge_index: Array | None = None,
        edge_weight: Array | None = None,
        *,
        nodes: Array | Sequence[int] | None = None,
    ) -> Array:
        """Class scores [N, C] on a graph, or on the one of the run; of some `nodes` only, in their
        order."""
        if (x is None) != (edge_index is None) or (x is None and edge_weight is not None):
            raise GassipError(
                "x and edge_index come together: give both, or neither for the graph of the run"
            )
        inputs = (
            self.stored
            if x is None or edge_index is None
            else self.prepare(x, edge_index, edge_weight)
        )
        return self.run(inputs, nodes)

    def predict_proba(
        self,
        x: Table | None = None,
        edge_index: Array | None = None,
        edge_weight: Array | None = None,
        *,
        nodes: Array | Sequence[int] | None = None,
    ) -> Array:
        """Class probabilities [N, C], the arguments as for `scores`."""
        return softmax(self.scores(x, edge_index, edge_weight, nodes=nodes))

    def predict(
        self,
        x: Table | None = None,
        edge_index: Array | None = None,
        edge_weight: Array | None = None,
        *,
        nodes: Array | Sequence[int] | None = None,
    ) -> Array:
        """The number of the most probable class, [N]; `class_names` has the names."""
        return self.scores(x, edge_index, edge_weight, nodes=nodes).argmax(1)

    def run(self, inputs: Inputs, nodes: Array | Sequence[int] | None = None) -> Array:
        """Class scores on a prepared graph; for some `nodes` only their field is computed.

        What labels say is the same whenever a graph is asked about, so it is computed once.
        """
        scores, logits = self._own_scores(inputs, nodes), self.label_logits(inputs)
        if logits is None:
            return scores
        return scores + (logits if nodes is None else logits[np.atleast_1d(np.asarray(nodes))])

    def label_logits(self, inputs: Inputs) -> Array | None:
        """w o of label_propagation.py, [N, C]; None where labels do not count, or none is known."""
        if not self.label_weight or inputs.labels is None:
            return None
        if (logits := self._label_logits.get(inputs)) is None:
            logits = np.float32(self.label_weight) * label_logits(inputs, len(self.class_names))
            self._label_logits[inputs] = logits
        return logits

    def _own_scores(self, inputs: Inputs, nodes: Array | Sequence[int] | None = None) -> Array:
        """What the net says, whatever labels there are."""
        if nodes is None:
            whole, place = inputs.near if self.reorder else (inputs, None)
            scores = self._forward(whole.x, self._whole_steps(whole), self._scratch)
            # whole rows are copied several times faster than a part of each
            ordered = scores.copy() if place is None else np.take(scores, place, axis=0)
            return ordered[:, : len(self.class_names)]
        wanted, order = np.unique(_nodes(nodes, inputs.x.shape[0]), return_inverse=True)
        read, steps = field(inputs, [layer.op for layer in self.layers], wanted)
        return self._forward(inputs.rows(read), steps)[order, : len(self.class_names)]

    def _whole_steps(self, inputs: Inputs) -> list[Step]:
        """The steps of a full pass, made once for a graph."""
        if (steps := self._steps.get(inputs)) is None:
            steps = self._steps[inputs] = [inputs.whole(layer) for layer in self.layers]
        return steps

    def _forward(self, h: Table, steps: Sequence[Step], scratch: Room = fresh) -> Array:
        """The output of the last layer, as wide as it was filled."""
        h = standardised(self.layers[0], h)
        for at, (layer, step) in enumerate(zip(self._filled, steps, strict=True)):
            h = np.maximum(h, 0, out=h) if at else h
            if layer.layer_norm:
                h = standardise_rows(h, self._filled[at - 1].width)
            sums = Sums(lambda name, *shape, at=at: scratch(f"{at} {name}", *shape))
            h = apply(layer, h, step, sums)
        assert isinstance(h, np.ndarray)
        return h

    @cached_property
    def _filled(self) -> tuple[Layer, ...]:
        return filled(self.layers)

    @cached_property
    def _label_logits(self) -> "WeakKeyDictionary[Inputs, Array]":
        return WeakKeyDictionary()

    @cached_property
    def _steps(self) -> "WeakKeyDictionary[Inputs, list[Step]]":
        return WeakKeyDictionary()

    @cached_property
    def _scratch(self) -> Scratch:
        return Scratch()

    @cached_property
    def stored(self) -> Inputs:
        """The graph of the run."""
        if self.x is None:
            raise GassipError(
                self.absent
                or "the run was saved without its inputs; give the graph: --data PATH, or "
                "predict(x, edge_index)"
            )
        return Inputs(self.x, self.edges, self.labels)

    def prepare(self, x: Table, edge_index: Array, edge_weight: Array | None = None) -> Inputs:
        """Another graph, checked and made ready as the one of the run was; that one itself gets its
        kept edges."""
        whole, edges = self._whole(x, edge_index, edge_weight)
        table = whole if self.feature_index is None else whole[:, self.feature_index]
        edges = edges if self.weighted else pattern(edges)
        return (
            Inputs(table, self.edges, self.labels)
            if self._is_own(table, edges)
            else Inputs(table, edges)
        )

    def extend(self, x: Table, edge_index: Array, edge_weight: Array | None = None) -> "Model":
        """The model on the run's graph with nodes and edges added: new nodes follow the old ones in
        number.

        `x` [new, D] may have no rows. An edge that is there already keeps its weight.
        """
        if self.structure == BESIDE:
            raise GassipError(no_new_nodes(self.structure))
        old, new = self.stored, self._table(x) if x.shape[0] else self.stored.x[:0]
        nodes = old.x.shape[0] + new.shape[0]
        more = clean_edges(edge_index, edge_weight, nodes, self.undirected)
        more = more if self.weighted else pattern(more)
        ours = sp.csr_array(self.edges, copy=True)
        ours.resize((nodes, nodes))
        present = sp.csr_array(
            (np.ones_like(ours.data), ours.indices, ours.indptr), shape=ours.shape
        )
        more = more - more.multiply(present)
        sparse = isinstance(old.x, sp.csr_array)
        x = (
            sp.vstack([old.x, sp.csr_array(new)], format="csr")
            if sparse
            else np.concatenate([old.x, dense(new)])
        )
        labels = self.labels
        if labels is not None:
            labels = np.concatenate([labels, np.full(new.shape[0], -1, dtype=labels.dtype)])
        return replace(
            self, x=x, edges=canonical(ours + more), labels=labels, y=None, test_mask=None, ids=None
        )

    def add(self, nodes: Any, edges: Any) -> "Model":
        """The model on the run's graph with new nodes, and edges that name old and new ones by id:
        DataFrames or mappings of columns, named as in nodes.csv and edges.csv.

        The new nodes are the last of `ids`, in their order.
        """
        return added(self, as_table(nodes, "nodes"), as_table(edges, "edges"))[0]

    def drift(self, x: Table, edge_index: Array, edge_weight: Array | None = None) -> list[str]:
        """What differs on another graph from the training graph (gassip.graph.drift), a line
        each."""
        table, edges = self._whole(x, edge_index, edge_weight)
        return self._differs(table, edges.nnz / table.shape[0])

    def _differs(self, x: Table, degree: float) -> list[str]:
        then = self.edges_total / max(self.edges.shape[0], 1)
        return drift(
            x,
            self.statistics,
            degree=(degree, then),
            preparation=self.preparation,
            columns=self.feature_index,
        )

    def _table(self, x: Table) -> Table:
        """The columns that are read, finite, as float32; CSR stays CSR."""
        table = self._whole_table(x)
        return table if self.feature_index is None else table[:, self.feature_index]

    def _whole(
        self, x: Table, edge_index: Array, edge_weight: Array | None
    ) -> tuple[Table, sp.csr_array]:
        """All columns of x, those of degree too, and the edges, made ready."""
        table = self._whole_table(x)
        edges = clean_edges(edge_index, edge_weight, table.shape[0], self.undirected)
        if self.structure == BESIDE:
            ends = edges.tocoo()
            table = beside(table, np.stack([ends.col, ends.row]))
        return table, edges

    def _whole_table(self, x: Table) -> Table:
        """All columns that are given, as `_table` has them."""
        table = sp.csr_array(x) if sp.issparse(x) else np.asarray(x)
        if len(table.shape) != 2 or table.dtype.kind not in "fiub" or table.shape[0] == 0:
            raise GassipError(
                f"x must be a table of numbers [nodes, features], not {table.dtype} "
                f"{list(table.shape)}"
            )
        given = self.features - (DEGREES if self.structure == BESIDE else 0)
        if table.shape[1] != given:
            raise GassipError(f"x has {table.shape[1]} features; the run's graph has {given}")
        with np.errstate(
            over="ignore"
        ):  # what float32 cannot hold becomes infinite and is refused as such
            table = table.astype(np.float32)
        if not np.isfinite(table.data if sp.issparse(table) else table).all():
            raise GassipError("x has values that are NaN or infinite; fill or drop them")
        return normalized(table) if self.normalize else table

    def _is_own(self, x: Table, edges: sp.csr_array) -> bool:
        """Whether this is the graph of the run, whole: its size, what it reads of x, and the kept
        edges among all."""
        if edges.shape != self.edges.shape or edges.nnz != self.edges_total:
            return False
        if (
            np.diff((pattern(edges) - pattern(self.edges)).indptr).sum()
            != edges.nnz - self.edges.nnz
        ):
            return False
        if (
            not self.soft
            and np.abs((edges.multiply(pattern(self.edges)) - self.edges).data).max(initial=0)
            > 1e-6
        ):
            return False  # the same edges with other weights
        return self.x is None or bool(np.allclose(_dense_sum(x - self.x), 0, atol=1e-5))


def added(model: Model, nodes: Columns, edges: Columns) -> tuple[Model, list[str]]:
    """The model with nodes and edges added by id, and what there is to warn of."""
    if model.structure is not None:
        raise GassipError(no_new_nodes(model.structure))
    old = model.ids or row_numbers(model.edges.shape[0])
    parts = parts_of(
        nodes, edges, labels=False, prepared=False, preparation=model.preparation, known=old
    )
    more = model.extend(parts.x, parts.edge_index, parts.edge_weight)
    new = np.arange(len(old), len(old) + parts.x.shape[0])
    count = np.diff(more.edges.indptr)[new].sum() / new.size
    lines = told_once(parts.notes, model._differs(model._whole_table(parts.x), count))
    return replace(more, ids=(*old, *parts.node_ids())), lines


def makes_no_columns(model: Model, form: str) -> None:
    """Refuse a form that does not make columns of degree from the edges that it is given."""
    if model.structure == BESIDE:
        raise GassipError(
            f"the net reads columns of degree beside the given features, which {form} does not "
            "make; export it with --format runtime, or search with --set degree_features=false"
        )


def softmax(scores: Array) -> Array:
    grown = np.exp(scores.astype(np.float64) - scores.max(1, keepdims=True))
    return grown / grown.sum(1, keepdims=True)


def _dense_sum(difference: Table) -> Array:
    """The values of a difference; of a sparse one those stored."""
    return np.asarray(difference.data if sp.issparse(difference) else difference)


def _nodes(nodes: Array | Sequence[int], count: int) -> Array:
    wanted = np.atleast_1d(np.asarray(nodes))
    if wanted.ndim != 1 or wanted.size == 0 or wanted.dtype.kind not in "iu":
        raise GassipError("nodes must be some whole numbers, one per node asked for")
    if wanted.min() < 0 or wanted.max() >= count:
        raise GassipError(
            f"node {wanted.max() if wanted.max() >= count else wanted.min()} is not among "
            f"0..{count - 1}"
        )
    return wanted
