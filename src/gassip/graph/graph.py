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
from gassip.graph.files import SPLITS as SPLITS

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

    @staticmethod
    def build(
        x: "np.ndarray | Tensor | sp.spmatrix | sp.sparray | Csr",
        edge_index: "np.ndarray | Tensor",
        y: "np.ndarray | Tensor",
        *,
        masks: "tuple[np.ndarray | Tensor, ...] | None" = None,
        edge_weight: "np.ndarray | Tensor | None" = None,
        class_names: Sequence[str] | None = None,
        name: str = "graph",
        seed: int = 0,
        undirected: bool = False,
        normalize: bool = False,
        notes: Sequence[str] = (),
    ) -> "Graph":
        """Check and clean everything; without `masks`, draw a stratified 50/25/25 split by
        `seed`."""
        said = list(notes)
        features, edges, weight = _inputs(x, edge_index, edge_weight, undirected, normalize, said)
        labels, names = _labels(to_numpy(y), features.shape[0], class_names)
        if masks is None:
            masks = stratified_split(labels, seed=seed)
            said.append(f"no masks given: stratified 50/25/25 split drawn with seed {seed}")
            if not masks[1].any():
                raise GassipError(
                    "no class has enough labelled nodes to draw a validation set (3 do); give "
                    "the masks"
                )
        train, val, test = _masks(masks, labels, names)
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
        """A PyG `Data` with x, edge_index, y and, where it has them, edge_weight and the three
        masks."""
        for key in ("x", "edge_index", "y"):
            if data.get(key) is None:
                raise GassipError(f"data.{key} is missing; a graph needs x, edge_index and y")
        given = [data.get(f"{split}_mask") for split in SPLITS]
        if any(m is not None for m in given) and any(m is None for m in given):
            missing = ", ".join(
                f"{s}_mask" for s, m in zip(SPLITS, given, strict=True) if m is None
            )
            raise GassipError(f"data has some masks but not {missing}; give all three or none")
        masks = None if given[0] is None else tuple(to_numpy(m) for m in given)
        return Graph.build(
            data.x,
            data.edge_index,
            data.y,
            masks=masks,
            edge_weight=data.get("edge_weight"),
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


def stratified_split(
    y: np.ndarray, *, seed: int, train: float = 0.5, val: float = 0.25
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boolean masks drawn class by class among the labelled nodes; every class gets a training node
    first."""
    if seed < 0:
        raise GassipError(f"seed must be 0 or more, not {seed}")
    rng = np.random.default_rng(seed)
    where = np.full(y.size, -1)
    for label in np.unique(y[y >= 0]):
        nodes = rng.permutation(np.flatnonzero(y == label))
        first = max(1, round(train * nodes.size))
        second = first + round(val * nodes.size)
        where[nodes[:first]], where[nodes[first:second]], where[nodes[second:]] = 0, 1, 2
    return where == 0, where == 1, where == 2


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


def _labels(
    y: np.ndarray, n: int, class_names: Sequence[str] | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels as 0..C-1 with -1 for unlabelled, and the name of each class (its own number where
    none is given)."""
    y = y.reshape(-1) if y.ndim == 2 and 1 in y.shape else y
    if y.ndim != 1:
        raise GassipError(f"y must hold one label per node, not shape {list(y.shape)}")
    if y.size != n:
        raise GassipError(
            f"y has {y.size} labels, but x has {n} rows; one label per node, -1 where unknown"
        )
    if np.issubdtype(y.dtype, np.floating):
        y = np.where(np.isnan(y), -1, y)
        if (y != np.round(y)).any() or (np.abs(y) > 2**53).any():
            raise GassipError(
                "y holds fractions or infinite values; labels must be whole numbers (class ids)"
            )
    elif not np.issubdtype(y.dtype, np.integer):
        raise GassipError(f"y must hold whole numbers (class ids), not {y.dtype}")
    y = y.astype(np.int64)
    if (y < -1).any():
        raise GassipError(
            f"y holds label {int(y.min())}; use -1 for unlabelled nodes and 0, 1, ... for classes"
        )
    if class_names is not None:
        if y.max() >= len(class_names):
            raise GassipError(
                f"y holds label {int(y.max())}, but there are only {len(class_names)} class names"
            )
        labels, names = y, tuple(str(c) for c in class_names)
    else:
        values = np.unique(y[y >= 0])
        labels = np.where(y >= 0, np.searchsorted(values, y), -1)
        names = tuple(str(v) for v in values)
    if len(names) < 2:
        raise GassipError(f"y holds {len(names)} class; a classifier needs at least two")
    return labels, names


def _masks(
    masks: "tuple[np.ndarray | Tensor, ...]", labels: np.ndarray, names: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three disjoint boolean masks over labelled nodes, with a training node for every class."""
    out = []
    for split, given in zip(SPLITS, masks, strict=True):
        mask = to_numpy(given)
        if mask.ndim != 1:
            raise GassipError(
                f"{split}_mask has shape {list(mask.shape)}, not one entry per node; pick one "
                f"split, e.g. mask[:, 0]"
            )
        if mask.size != labels.size:
            raise GassipError(f"{split}_mask has {mask.size} entries, but x has {labels.size} rows")
        if mask.dtype != bool and not np.isin(mask, (0, 1)).all():
            raise GassipError(f"{split}_mask must hold True/False, one per node")
        out.append(mask.astype(bool) & (labels >= 0))
    for a, b in ((0, 1), (0, 2), (1, 2)):
        both = np.flatnonzero(out[a] & out[b])
        if both.size:
            raise GassipError(
                f"{SPLITS[a]}_mask and {SPLITS[b]}_mask overlap in {both.size} nodes, the first "
                f"is node {both[0]}"
            )
    for split, mask in zip(SPLITS[:2], out, strict=False):
        if not mask.any():
            raise GassipError(f"{split}_mask marks no labelled node")
    counts = np.bincount(labels[out[0]], minlength=len(names))
    empty = [names[c] for c in np.flatnonzero(counts == 0)]
    if empty:
        raise GassipError(
            f"class {empty[0]} has no training node ({len(empty)} such); add one or merge the class"
        )
    return out[0], out[1], out[2]


def on_device(graph: Graph, device: str) -> Graph:
    try:
        return graph.to(torch.device(device))
    except (RuntimeError, AssertionError) as error:
        raise GassipError(
            f"device {device!r} cannot be used: {str(error).splitlines()[0][:120]}"
        ) from error
