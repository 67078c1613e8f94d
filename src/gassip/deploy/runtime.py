"""Predict from a run's folder with numpy and scipy alone: no torch, no PyG.

`load` reads a folder; its `Model` labels the run's graph, that graph with nodes and edges added, or
another one. `python -m gassip.runtime RUN --out labels.csv` does so from the command line. The
arithmetic is in light.py.

Shapes: N nodes, D features of x, d of them read, C classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse as sp

from gassip.deploy.numpy_layers import (
    Inputs,
    Layer,
    Room,
    Scratch,
    Step,
    Sums,
    apply,
    field,
    filled,
    fresh,
    layers_of,
    opinion,
    standardised,
)
from gassip.errors import GassipError
from gassip.graph.checks import (
    Array,
    Table,
    canonical,
    checked,
    clean_edges,
    dense,
    normalized,
    pattern,
)
from gassip.graph.columns import Table as Columns
from gassip.graph.drift import Statistics, drift
from gassip.graph.parts import row_numbers
from gassip.graph.preparation import Preparation
from gassip.graph.structure import made_features
from gassip.graph.table_frames import as_table
from gassip.graph.tables import parts_of
from gassip.runs.format import (
    Precision,
    Tensors,
    label_weight,
    labels_csv,
    only_for_own_graph,
    only_here,
    read_ids,
    read_meta,
    read_preparation,
    read_statistics,
    read_tensors,
    soft_edges,
    structure_of,
    unpack,
)


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
    label_weight: float = 0.0  # how much the labels count beside the net on that graph (labels.py)
    labels: Array | None = None  # [N], of its training nodes, -1 elsewhere; None: not stored
    only_own: str | None = None  # why the net is worse on other graphs; None: it is not
    soft: bool = False  # the kept edges weigh M_G besides what was given
    preparation: Preparation | None = None  # how named columns become x; None: x was given
    statistics: Statistics | None = None  # of the features in training
    structure: str | None = None  # what x was made of, if no features were given
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
        scores, said = self._own_scores(inputs, nodes), self.said(inputs)
        if said is None:
            return scores
        return scores + (said if nodes is None else said[np.atleast_1d(np.asarray(nodes))])

    def said(self, inputs: Inputs) -> Array | None:
        """w o of labels.py, [N, C]; None where labels do not count, or none is known."""
        if not self.label_weight or inputs.labels is None:
            return None
        if (said := self._said.get(inputs)) is None:
            said = np.float32(self.label_weight) * opinion(inputs, len(self.class_names))
            self._said[inputs] = said
        return said

    def _own_scores(self, inputs: Inputs, nodes: Array | Sequence[int] | None = None) -> Array:
        """What the net says, whatever labels there are."""
        if nodes is None:
            whole, place = inputs.near if self.reorder else (inputs, None)
            scores = self._forward(
                whole.x, [whole.whole(layer) for layer in self.layers], self._scratch
            )
            return scores.copy() if place is None else np.take(scores, place, axis=0)
        wanted, order = np.unique(_nodes(nodes, inputs.x.shape[0]), return_inverse=True)
        read, steps = field(inputs, [layer.op for layer in self.layers], wanted)
        return self._forward(inputs.rows(read), steps)[order]

    def _forward(self, h: Table, steps: Sequence[Step], scratch: Room = fresh) -> Array:
        h = standardised(self.layers[0], h)
        for at, (layer, step) in enumerate(zip(self._filled, steps, strict=True)):
            h = np.maximum(h, 0, out=h) if at else h
            sums = Sums(lambda name, *shape, at=at: scratch(f"{at} {name}", *shape))
            h = apply(layer, h, step, sums)
        return h[:, : len(self.class_names)]

    @cached_property
    def _filled(self) -> tuple[Layer, ...]:
        return filled(self.layers)

    @cached_property
    def _said(self) -> "WeakKeyDictionary[Inputs, Array]":
        return WeakKeyDictionary()

    @cached_property
    def _scratch(self) -> Scratch:
        return Scratch()

    @cached_property
    def stored(self) -> Inputs:
        """The graph of the run."""
        if self.x is None:
            raise GassipError(
                "the run was saved without its inputs; give the graph: --data PATH, or "
                "predict(x, edge_index)"
            )
        return Inputs(self.x, self.edges, self.labels)

    def prepare(self, x: Table, edge_index: Array, edge_weight: Array | None = None) -> Inputs:
        """Another graph, checked and made ready as the one of the run was; that one itself gets its
        kept edges."""
        table = self._table(x)
        edges = clean_edges(edge_index, edge_weight, table.shape[0], self.undirected)
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
        table = self._whole_table(x)
        edges = clean_edges(edge_index, edge_weight, table.shape[0], self.undirected)
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

    def _whole_table(self, x: Table) -> Table:
        """All columns, as `_table` has them."""
        table = sp.csr_array(x) if sp.issparse(x) else np.asarray(x)
        if len(table.shape) != 2 or table.dtype.kind not in "fiub" or table.shape[0] == 0:
            raise GassipError(
                f"x must be a table of numbers [nodes, features], not {table.dtype} "
                f"{list(table.shape)}"
            )
        if table.shape[1] != self.features:
            raise GassipError(
                f"x has {table.shape[1]} features; the run's graph has {self.features}"
            )
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
        raise GassipError(
            "the features of the run's graph were made from its edges, which new nodes change; "
            "give the whole graph: --data PATH"
        )
    old = model.ids or row_numbers(model.edges.shape[0])
    parts = parts_of(
        nodes, edges, labels=False, prepared=False, preparation=model.preparation, known=old
    )
    more = model.extend(parts.x, parts.edge_index, parts.edge_weight)
    new = np.arange(len(old), len(old) + parts.x.shape[0])
    count = np.diff(more.edges.indptr)[new].sum() / new.size
    lines = [*parts.notes, *model._differs(model._whole_table(parts.x), count)]
    return replace(more, ids=(*old, *parts.node_ids())), lines


def softmax(scores: Array) -> Array:
    grown = np.exp(scores.astype(np.float64) - scores.max(1, keepdims=True))
    return grown / grown.sum(1, keepdims=True)


def load(folder: str | Path, *, precision: Precision | None = None, reorder: bool = False) -> Model:
    """Read and check a run's folder, or what `gassip export --format runtime` wrote.

    `precision` rounds the weights as that format would; None takes them as they are stored.
    `reorder` pays where there will be hundreds of full passes over a large graph: it makes the
    first one slower.
    """
    folder = Path(folder)
    meta = read_meta(folder)
    model = read_tensors(folder, "model.safetensors", meta)
    apart = isinstance(meta.get("rows"), dict)  # the graph of a search on rows is in its folder
    graph = {} if apart else read_tensors(folder, "graph.safetensors", meta)
    inputs = (
        read_tensors(folder, "inputs.safetensors", meta)
        if "inputs.safetensors" in meta["files"]
        else {}
    )
    try:
        layers = layers_of(
            meta["architecture"], unpack(model, meta, precision), len(meta["class_names"])
        )
        index = _feature_index(model.get("feature_index"), meta["features"])
        x = _stored_x(inputs, meta["nodes"], layers[0].weights[0].shape[0])
        edges = sp.csr_array((0, 0)) if apart else _stored_edges(graph, meta["nodes"])
        weight = label_weight(meta)
        labels = _stored_labels(inputs, graph, meta) if weight and not apart else None
        ids = read_ids(inputs, meta["nodes"])
        preparation = read_preparation(folder, meta)
        structure = structure_of(meta)
    except KeyError as error:
        raise GassipError(
            f"{folder}: the run is not complete: {error.args[0]} is missing"
        ) from error
    except (GassipError, ValueError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise GassipError(f"{folder}: the run does not fit itself: {error}") from error
    width = meta["features"] if index is None else index.size
    if layers[0].weights[0].shape[0] != width:
        raise GassipError(
            f"{folder}: the first layer reads {layers[0].weights[0].shape[0]} features, x has "
            f"{width}"
        )
    return Model(
        layers=layers,
        class_names=tuple(meta["class_names"]),
        features=meta["features"],
        feature_index=index,
        undirected=bool(meta["source"].get("undirected")),
        normalize=bool(meta["source"].get("normalize")),
        weighted=meta["source"].get("weighted") is not False,
        edges_total=meta["edges_total"],
        edges=edges,
        x=x,
        y=inputs.get("y"),
        test_mask=inputs.get("test_mask", graph.get("test_mask")),
        ids=ids,
        preparation=preparation,
        structure=structure,
        statistics=read_statistics(folder, meta),
        label_weight=weight,
        labels=labels,
        only_own=only_for_own_graph(meta),
        soft=soft_edges(meta),
        reorder=reorder,
    )


def _feature_index(index: Array | None, features: int) -> Array | None:
    if index is not None and (index.ndim != 1 or (index < 0).any() or (index >= features).any()):
        raise GassipError(f"feature_index names columns outside 0..{features - 1}")
    return index


def _stored_x(inputs: Tensors, nodes: int, width: int) -> Table | None:
    if "x" in inputs:
        if inputs["x"].shape != (nodes, width):
            raise GassipError(f"x is {list(inputs['x'].shape)}, not {[nodes, width]}")
        return inputs["x"]
    if "x_data" in inputs:
        return checked(inputs["x_data"], inputs["x_indices"], inputs["x_indptr"], (nodes, width))
    return None


def _stored_labels(inputs: Tensors, graph: Tensors, meta: Mapping[str, Any]) -> Array | None:
    """Those of training nodes, -1 elsewhere; None where the run was saved without its inputs."""
    if "y" not in inputs:
        return None
    y, train = inputs["y"], inputs["train_mask"] if "train_mask" in inputs else graph["train_mask"]
    if (
        y.shape != (meta["nodes"],)
        or train.shape != y.shape
        or (y[train] >= len(meta["class_names"])).any()
    ):
        raise GassipError(
            f"y is {list(y.shape)} under a mask of {list(train.shape)}, or names a class there "
            f"is not"
        )
    return np.where(train, y, -1)


def _stored_edges(graph: Tensors, nodes: int) -> sp.csr_array:
    if "edge_index" in graph:  # of a run's folder, sorted by receiver
        sender, receiver = graph["edge_index"]
        if (receiver < 0).any() or (np.diff(receiver) < 0).any():
            raise GassipError("edge_index is not sorted by receiver")
        if receiver.size and int(receiver[-1]) >= nodes:
            raise GassipError(f"edge_index refers to node {receiver[-1]} of {nodes}")
        if "train_mask" in graph and graph["train_mask"].shape != (nodes,):
            raise GassipError(f"train_mask has not one entry for each of {nodes} nodes")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(receiver, minlength=nodes))])
    else:
        sender, indptr = graph["sender"], graph["indptr"]
    weight = (
        graph["edge_weight"] if "edge_weight" in graph else np.ones(sender.size, dtype=np.float32)
    )
    edges = checked(weight, sender, indptr, (nodes, nodes))
    return canonical(edges) if (weight == 0).any() else edges


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


# python -m gassip.runtime


def main(argv: Sequence[str] | None = None) -> int:
    from gassip.commands.common import Parser, fail
    from gassip.deploy import prediction

    parser = Parser(
        prog="python -m gassip.runtime", description="Label nodes from a run, without torch."
    )
    parser.add_argument(
        "folder", metavar="RUN", help="folder that `gassip search` or `gassip export` wrote"
    )
    parser.add_argument(
        "--data", metavar="PATH", help="another graph: .npz, or folder with nodes.csv and edges.csv"
    )
    prediction.new_node_flags(parser)
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="CSV to write: id, label, probability; - is stdout (default with --json)",
    )
    parser.add_argument(
        "--precision",
        choices=get_args(Precision),
        help="round the weights first, and say at what cost",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace FILE where it exists")
    args = parser.parse_args(argv)
    try:
        prediction.check_flags(args)
        if args.json is not None:
            return prediction.answer_requests(args)
        if args.add is not None:
            return prediction.label_added(args)
        label(Path(args.folder), args.data, args.out, args.precision)
    except GassipError as error:
        return max(fail(line) for line in error.lines)
    except OSError as error:
        return fail(
            f"{error.filename}: {error.strerror}"
            if error.filename
            else str(error.strerror or error)
        )
    except MemoryError as error:
        return fail(f"out of memory ({error})")
    return 0


def label(folder: Path, data: str | None, out: str, precision: Precision | None) -> None:
    """Write the labels of the run's nodes, or of those of `data`, and say what a lower precision
    costs."""
    from gassip.deploy.prediction import tell

    if data is None and isinstance(read_meta(folder).get("rows"), dict):
        from gassip.deploy.row_runs import write_labels

        if precision is not None:
            raise GassipError("--precision is not for the graph folder of a search on rows")
        return write_labels(folder, None, out)
    model = load(folder, precision=precision)
    inputs, ids = _to_label(model, data)
    best, text = _labels(model, inputs, ids)
    tell(text, out)
    if precision not in (None, "float32"):
        print(
            cost(
                precision, best, load(folder).run(inputs).argmax(1), model if data is None else None
            )
        )


def label_text(folder: Path, data: str | None) -> str:
    """The CSV of `label`."""
    model = load(folder)
    return _labels(model, *_to_label(model, data))[1]


def _labels(model: Model, inputs: Inputs, ids: Sequence[str]) -> tuple[Array, str]:
    """The classes, and a CSV of ids, labels and probabilities."""
    probs = softmax(model.run(inputs))
    best = probs.argmax(1)
    names = [model.class_names[k] for k in best]
    return best, labels_csv(ids, names, probs.max(1).tolist())


def _to_label(model: Model, data: str | None) -> tuple[Inputs, Sequence[str]]:
    from gassip.commands.common import warn
    from gassip.graph.files import naming, read_inputs, row_numbers

    if data is None:
        return model.stored, model.ids or row_numbers(model.edges.shape[0])
    parts = read_inputs(data, model.preparation)
    with naming(data):
        if parts.bare:
            weight, ids = parts.edge_weight, parts.node_ids()
            x = made_features(model.structure, parts.edge_index, weight, ids)
            parts = replace(parts, x=x)
        inputs = model.prepare(parts.x, parts.edge_index, parts.edge_weight)
        lines = list(parts.notes)
        if inputs.edges is not model.edges:
            only_here(model.structure, parts.ids)
            lines += [model.only_own] if model.only_own else []
            lines += model.drift(parts.x, parts.edge_index, parts.edge_weight)
    for line in lines:
        warn(line)
    return inputs, parts.node_ids()


def cost(precision: str, rounded: Array, whole: Array, known: Model | None) -> str:
    """Labels that differ from float32's, and both accuracies where the test nodes are known."""
    differ = int((rounded != whole).sum())
    text = (
        f"{precision} against float32: {differ} of {whole.size} labels differ "
        f"({differ / whole.size:.2%})"
    )
    if known is None or known.y is None or known.test_mask is None or not known.test_mask.any():
        return text
    y, test = known.y[known.test_mask], known.test_mask
    return (
        f"{text}; test accuracy {np.mean(rounded[test] == y):.4f}, float32 "
        f"{np.mean(whole[test] == y):.4f}"
    )
