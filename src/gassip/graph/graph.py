"""Graph: one validated graph with node labels, sparse inside.

Edges are stored once per direction, sorted by target and then by source, without repeats and
without self-loops (every operation carries the node itself); `edge_index[0]` sends, `edge_index[1]`
receives, as in PyG. An undirected edge is two directed ones and shares one score: `pair` numbers
the undirected edges.

Shapes: N nodes, E directed edges, P undirected edges, D features.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor

from gassip.errors import GassipError
from gassip.graph.checks import both_directions, checked_edges, merged_edges
from gassip.graph.csr import Csr
from gassip.graph.labels import class_labels, complete_masks
from gassip.graph.labels import stratified_split as stratified_split
from gassip.graph.limits import check_columns
from gassip.graph.parts import SPLITS as SPLITS
from gassip.graph.preparation import Preparation

if TYPE_CHECKING:  # PyG takes two seconds to import
    from torch_geometric.data import Data

SPARSE_BELOW = 0.15  # density under which X is kept as CSR


@dataclass(frozen=True, eq=False, kw_only=True)
class Graph:
    """Build one with `Graph.build` (checked) or `Graph.from_data`; the bare constructor trusts its
    arguments."""

    x: Tensor | Csr  # [N, D]
    edge_index: Tensor  # [2, E] int64
    y: Tensor  # [N] int64, -1 where unlabelled
    train_mask: Tensor  # [N] bool
    val_mask: Tensor  # [N] bool
    test_mask: Tensor  # [N] bool
    class_names: tuple[str, ...]
    edge_weight: Tensor | None = None  # [E], given weights; they multiply the mask
    name: str = "graph"
    notes: tuple[str, ...] = ()  # what was cleaned or drawn on the way in, for the summary
    ids: tuple[str, ...] | None = None  # [N], what the user calls the nodes; None: their numbers
    preparation: Preparation | None = None  # how named columns became x; None: x was given
    structure: str | None = None  # what x was made of, if the graph had none (structure.py)
    whole_labels: bool = False  # the user's labels are whole numbers, and class_names their digits

    def __repr__(self) -> str:
        """One line, not the tensors."""
        kind = "sparse" if self.has_sparse_features else "dense"
        splits = ", ".join(f"{int(self.mask(split).sum()):,} {split}" for split in SPLITS)
        return (
            f"Graph({self.name!r}: {self.num_nodes:,} nodes, {self.num_edges:,} edges, "
            f"{self.num_features:,} {kind} features, {self.num_classes} classes; {splits})"
        )

    @staticmethod
    def build(
        x: "np.ndarray | Tensor | sp.spmatrix | sp.sparray | Csr",
        edge_index: "np.ndarray | Tensor",
        y: "np.ndarray | Tensor",
        *,
        masks: "Sequence[np.ndarray | Tensor | None] | None" = None,
        edge_weight: "np.ndarray | Tensor | None" = None,
        class_names: Sequence[str] | None = None,
        name: str = "graph",
        seed: int = 0,
        undirected: bool = False,
        normalize: bool = False,
        notes: Sequence[str] = (),
        ids: tuple[str, ...] | None = None,
        preparation: Preparation | None = None,
        whole_labels: bool | None = None,
    ) -> "Graph":
        """Check and clean everything; without `masks`, draw a stratified 50/25/25 split by `seed`.
        If only validation nodes are not given they are drawn from the training nodes.
        `whole_labels`: whether class_names are digits of numbers; None: as y is, if no names are
        given."""
        said = list(notes)
        features, edges, weight = _inputs(x, edge_index, edge_weight, undirected, normalize, said)
        labels, names = class_labels(to_numpy(y), features.shape[0], class_names)
        if whole_labels is None:
            whole_labels = class_names is None and to_numpy(y).dtype.kind not in "UO"
        given = [None if mask is None else to_numpy(mask) for mask in masks or (None,) * 3]
        train, val, test = complete_masks(given, labels, names, seed, said)
        return Graph(
            x=features,
            edge_index=torch.from_numpy(edges),
            y=torch.from_numpy(labels),
            train_mask=torch.from_numpy(train),
            val_mask=torch.from_numpy(val),
            test_mask=torch.from_numpy(test),
            class_names=names,
            edge_weight=None if weight is None else torch.from_numpy(weight),
            name=name,
            notes=tuple(said),
            ids=ids,
            preparation=preparation,
            whole_labels=whole_labels,
        )

    @staticmethod
    def inputs(
        x: "np.ndarray | Tensor | sp.spmatrix | sp.sparray | Csr",
        edge_index: "np.ndarray | Tensor",
        *,
        edge_weight: "np.ndarray | Tensor | None" = None,
        class_names: Sequence[str],
        name: str = "graph",
        undirected: bool = False,
        normalize: bool = False,
        ids: tuple[str, ...] | None = None,
        preparation: Preparation | None = None,
    ) -> "Graph":
        """A graph to predict on: x and edges checked as ever, no label, no split."""
        said: list[str] = []
        features, edges, weight = _inputs(x, edge_index, edge_weight, undirected, normalize, said)
        nobody = torch.zeros(features.shape[0], dtype=torch.bool)
        return Graph(
            x=features,
            edge_index=torch.from_numpy(edges),
            y=torch.full((features.shape[0],), -1),
            train_mask=nobody,
            val_mask=nobody,
            test_mask=nobody,
            class_names=tuple(class_names),
            edge_weight=None if weight is None else torch.from_numpy(weight),
            name=name,
            notes=tuple(said),
            ids=ids,
            preparation=preparation,
        )

    @staticmethod
    def from_data(
        data: "Data",
        *,
        name: str = "graph",
        seed: int = 0,
        undirected: bool = False,
        normalize: bool = False,
        class_names: Sequence[str] | None = None,
    ) -> "Graph":
        """A PyG `Data` with x, edge_index (or adj_t), y and, where it has them, edge_weight and the
        three masks."""
        from gassip.graph.memory import as_graph

        return as_graph(
            data,
            class_names=class_names,
            name=name,
            seed=seed,
            undirected=undirected,
            normalize=normalize,
        )

    def to_data(self) -> "Data":
        """A PyG `Data` with dense x."""
        from torch_geometric.data import Data

        x = torch.from_numpy(self.x.to_scipy().toarray()) if isinstance(self.x, Csr) else self.x
        data = Data(x=x, edge_index=self.edge_index, y=self.y)
        for split in SPLITS:
            data[f"{split}_mask"] = self.mask(split)
        if self.edge_weight is not None:
            data.edge_weight = self.edge_weight
        return data

    def to(self, device: torch.device | str) -> "Graph":
        names = ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask")
        moved = {k: getattr(self, k).to(device) for k in names}
        weight = None if self.edge_weight is None else self.edge_weight.to(device)
        return replace(self, edge_weight=weight, **moved)

    def keep(self, edge_keep: Tensor, edge_weight: Tensor | None = None) -> "Graph":
        """The graph with only the edges marked in `edge_keep` [E]; `edge_weight` [E] replaces the
        given weights."""
        weight = self.edge_weight if edge_weight is None else edge_weight
        return replace(
            self,
            edge_index=self.edge_index[:, edge_keep],
            edge_weight=None if weight is None else weight[edge_keep],
        )

    @property
    def num_nodes(self) -> int:
        return self.y.numel()

    @property
    def num_edges(self) -> int:
        return self.edge_index.shape[1]

    @property
    def num_features(self) -> int:
        return self.x.shape[1]

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def classes(self) -> np.ndarray:
        """[C], what the user's labels are: whole numbers, or the names of the classes."""
        if self.whole_labels:
            return np.array([int(name) for name in self.class_names])
        return np.array(self.class_names)

    @property
    def device(self) -> torch.device:
        return self.y.device

    def mask(self, split: str) -> Tensor:
        return {"train": self.train_mask, "val": self.val_mask, "test": self.test_mask}[split]

    @cached_property
    def adjacency(self) -> Csr:
        """The pattern [N, N]: row = receiving node, column = sending node; entry e is edge e."""
        return Csr.from_sorted_edges(
            self.edge_index[1], self.edge_index[0], (self.num_nodes, self.num_nodes)
        )

    @cached_property
    def weight(self) -> Tensor:
        """The given edge weights, or ones, [E]."""
        if self.edge_weight is not None:
            return self.edge_weight
        return torch.ones(self.num_edges, device=self.device)

    @property
    def has_sparse_features(self) -> bool:
        return isinstance(self.x, Csr)

    @cached_property
    def pair(self) -> Tensor:
        """The undirected edge each directed edge belongs to, [E], numbered 0..P-1."""
        low, high = self.edge_index.min(0).values, self.edge_index.max(0).values
        return torch.unique(low * self.num_nodes + high, return_inverse=True)[1]

    @cached_property
    def both_ways(self) -> "Graph":
        """The graph with the reverse of every edge, as heavy; itself where it has them all."""
        if self.num_edges == 0:
            return self
        given = None if self.edge_weight is None else to_numpy(self.edge_weight)
        edges, weight = both_directions(to_numpy(self.edge_index), given)
        if edges.shape[1] == self.num_edges and (
            weight is None or given is None or np.array_equal(weight, given)
        ):
            return self
        return replace(
            self,
            edge_index=torch.from_numpy(edges).to(self.device),
            edge_weight=None if weight is None else torch.from_numpy(weight).to(self.device),
            notes=(*self.notes, "edges are read both ways"),
        )

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over everything a model can see, in hex; two equal graphs agree on it."""
        digest = hashlib.sha256()
        parts = [self.edge_index, self.y, self.train_mask, self.val_mask, self.test_mask]
        parts += [self.x.rowptr, self.x.col, self.x.value] if isinstance(self.x, Csr) else [self.x]  # type: ignore[list-item]
        parts += [] if self.edge_weight is None else [self.edge_weight]
        digest.update(
            str(tuple(self.x.shape)).encode()
        )  # a CSR's arrays do not tell how many columns it has
        for part in parts:
            digest.update(str(tuple(part.shape)).encode())
            digest.update(np.ascontiguousarray(part.cpu().numpy()).tobytes())
        digest.update("\n".join(self.class_names).encode())
        return digest.hexdigest()


def normalize_rows(x: Tensor | Csr) -> Tensor | Csr:
    """Each row divided by the sum of its absolute values; empty rows stay zero."""
    if isinstance(x, Csr):
        assert x.value is not None
        total = torch.zeros(x.shape[0]).index_add_(0, x.row, x.value.abs()).clamp_min_(1e-12)
        return x.with_value(x.value / total[x.row])
    return x / x.abs().sum(1, keepdim=True).clamp_min(1e-12)


def to_numpy(value: "np.ndarray | Tensor") -> np.ndarray:
    """A dense tensor from any device, or what numpy takes for an array."""
    if not isinstance(value, Tensor):
        return np.asarray(value)
    if value.layout != torch.strided:
        raise GassipError(
            f"a tensor of layout {value.layout} was given where a dense one is expected; use "
            f".to_dense()"
        )
    short = value.is_floating_point() and value.element_size() < 4  # numpy has no bfloat16
    array: np.ndarray = (value.float() if short else value).numpy(force=True)
    return array


def to_table(x: Tensor) -> "np.ndarray | sp.csr_array":
    """A tensor as numpy; one of torch's sparse layouts as scipy."""
    if x.layout == torch.strided:
        return to_numpy(x)
    coo = x.detach().to_sparse_coo().coalesce()
    if coo.sparse_dim() != 2 or coo.dense_dim() != 0:
        raise GassipError(
            f"x must be a sparse table [nodes, features], not a hybrid of shape {list(x.shape)}"
        )
    row, col = to_numpy(coo.indices())
    return sp.csr_array((to_numpy(coo.values()), (row, col)), shape=tuple(x.shape))


def _inputs(
    x: "np.ndarray | Tensor | sp.spmatrix | sp.sparray | Csr",
    edge_index: "np.ndarray | Tensor",
    edge_weight: "np.ndarray | Tensor | None",
    undirected: bool,
    normalize: bool,
    said: list[str],
) -> tuple[Tensor | Csr, np.ndarray, np.ndarray | None]:
    """Features, edges and their weights, checked and cleaned."""
    features = _features(x)
    weight = None if edge_weight is None else to_numpy(edge_weight)
    edges, weight = _edges(to_numpy(edge_index), weight, features.shape[0], said)
    if undirected:
        edges, weight = both_directions(edges, weight)
    return normalize_rows(features) if normalize else features, edges, weight


def _features(x: "np.ndarray | Tensor | sp.spmatrix | sp.sparray | Csr") -> Tensor | Csr:
    """Finite float32 [N, D]; CSR where sparse enough to pay."""
    x = x.to_scipy() if isinstance(x, Csr) else to_table(x) if isinstance(x, Tensor) else x
    table = x if sp.issparse(x) else np.asarray(x)
    if len(table.shape) != 2 or 0 in table.shape:
        raise GassipError(
            f"x must be a table [nodes, features] with at least one of each, not of shape "
            f"{table.shape}"
        )
    if table.dtype.kind not in "fiub":
        raise GassipError(f"x must hold numbers, not {table.dtype}")
    with np.errstate(
        over="ignore"
    ):  # what float32 cannot hold becomes infinite and is reported as such
        table = table.astype(np.float32)
    if sp.issparse(table):
        matrix = sp.csr_array(table)
        check_columns(matrix.shape[1], matrix.nnz)
        _check_finite(
            matrix.data, lambda at: int(np.searchsorted(matrix.indptr, at, side="right")) - 1
        )
        dense = matrix.nnz >= SPARSE_BELOW * matrix.shape[0] * matrix.shape[1]
        return torch.from_numpy(matrix.toarray()) if dense else Csr.from_scipy(matrix)
    _check_finite(table.ravel(), lambda at: at // table.shape[1])
    if np.count_nonzero(table) < SPARSE_BELOW * table.size:
        return Csr.from_scipy(sp.csr_array(table))
    return torch.from_numpy(table)


def _check_finite(values: np.ndarray, row_of: Callable[[int], int]) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        first = f"the first for node {row_of(int(bad[0]))}"
        raise GassipError(
            f"x has {bad.size} values that are NaN or infinite, {first}; fill or drop them"
        )


def _edges(
    edge_index: np.ndarray, weight: np.ndarray | None, n: int, said: list[str]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Checked and merged edges (graph/checks.py), of which there must be some."""
    edges, weight = checked_edges(edge_index, weight, n)
    if edges.shape[1] == 0:
        raise GassipError(
            "the graph has no edges; a GNN needs some (for features alone use an MLP)"
        )
    if bool((edges[0] == edges[1]).all()):
        raise GassipError("the graph has no edges besides self-loops; a GNN needs some")
    edges, weight = merged_edges(edges, weight, n, said)
    if edges.shape[1] == 0:
        raise GassipError("edge_weight is 0 for every edge; a GNN needs some edges with weight")
    return edges, weight


def on_device(graph: Graph, device: str) -> Graph:
    try:
        where = torch.device(device)
        torch.zeros(1, device=where).tolist()  # a device without memory, as meta, cannot
        return graph.to(where)
    except (RuntimeError, AssertionError, ValueError, OverflowError) as error:
        raise GassipError(
            f"device {device!r} cannot be used: {str(error).splitlines()[0][:120]}"
        ) from error
