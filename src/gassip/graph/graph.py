"""Graph: one validated graph with node labels, sparse inside.

Edges are stored once per direction, sorted by target and then by source, without repeats and
without self-loops (every operation carries the node itself); `edge_index[0]` sends, `edge_index[1]`
receives, as in PyG. An undirected edge is two directed ones and shares one score: `pair` numbers
the undirected edges.

Shapes: N nodes, E directed edges, P undirected edges, D features.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor

from gassip.errors import GassipError
from gassip.graph.checks import both_directions
from gassip.graph.csr import Csr
from gassip.graph.inputs import checked_inputs, to_numpy
from gassip.graph.labels import class_labels, complete_masks
from gassip.graph.labels import stratified_split as stratified_split
from gassip.graph.parts import SPLITS as SPLITS
from gassip.graph.preparation import Preparation
from gassip.graph.structure import BESIDE, DEGREES, beside

if TYPE_CHECKING:  # PyG takes two seconds to import
    from torch_geometric.data import Data


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
    structure: str | None = None  # what x was made of, beside or instead of given features
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
        features, edges, weight = checked_inputs(
            x, edge_index, edge_weight, undirected, normalize, said
        )
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
        features, edges, weight = checked_inputs(
            x, edge_index, edge_weight, undirected, normalize, said
        )
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

    @property
    def featureless(self) -> bool:
        """Whether no features were given: x was made from the edges and ids."""
        return self.structure not in (None, BESIDE)

    @cached_property
    def with_degrees(self) -> "Graph":
        """The graph with columns of degree beside x; itself where it has them, or where x was made
        from the edges."""
        if self.structure is not None:
            return self
        x = self.x.to_scipy() if isinstance(self.x, Csr) else to_numpy(self.x)
        wide = beside(x, to_numpy(self.edge_index))
        made = Csr.from_scipy(wide) if sp.issparse(wide) else torch.from_numpy(wide)
        return replace(self, x=made.to(self.device), structure=BESIDE)

    @cached_property
    def without_degrees(self) -> "Graph":
        """The graph with the features that were given alone."""
        if self.structure != BESIDE:
            return self
        given = self.num_features - DEGREES
        if isinstance(self.x, Csr):
            x: Tensor | Csr = self.x.columns(torch.arange(given, device=self.device))
        else:
            x = self.x[:, :given]
        return replace(self, x=x, structure=None)

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


def on_device(graph: Graph, device: str) -> Graph:
    try:
        where = torch.device(device)
        torch.zeros(1, device=where).tolist()  # a device without memory, as meta, cannot
        return graph.to(where)
    except (RuntimeError, AssertionError, ValueError, OverflowError) as error:
        raise GassipError(
            f"device {device!r} cannot be used: {str(error).splitlines()[0][:120]}"
        ) from error
