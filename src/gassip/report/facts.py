"""What a page tells of: a run's folder as arrays, read without torch.

The folder holds the kept edges. The removed ones are known only from the graph itself; a page
without it leaves out what needs them. Of a graph with more than MOST_NODES nodes a page says
nothing of single nodes and edges. Test labels are read here for the final numbers alone.

Shapes: N nodes, C classes, E directed edges of the graph as the run read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gassip.deploy.model import softmax
from gassip.deploy.row_runs import load_row_run
from gassip.deploy.runtime import load
from gassip.deploy.stored import is_row_run, stored_tensors
from gassip.errors import GassipError
from gassip.graph.checks import Array
from gassip.graph.parts import SPLITS
from gassip.operations import gcn_weights
from gassip.report.words import number
from gassip.runs.format import (
    DECISIONS,
    Tensors,
    labels_in_training,
    read_ids,
    read_meta,
    read_rows,
    read_tensors,
)
from gassip.runs.history import FILE as HISTORY
from gassip.runs.history import read_history
from gassip.train.leaderboard import FILE as LEADERBOARD
from gassip.train.leaderboard import Standing, from_rows

Row = dict[str, float | str]
MOST_NODES = 1_000_000  # of a graph whose nodes a page still tells of


@dataclass(frozen=True, eq=False, kw_only=True)
class Facts:
    """A run; what it does not have is None or empty."""

    folder: str  # as the user named it, for commands to copy
    meta: dict[str, Any]
    decisions: list[dict[str, Any]] = field(default_factory=list)
    history: list[Row] = field(default_factory=list)
    leaderboard: tuple[Standing, ...] = ()
    edge_keep: Array | None = None  # [E] bool
    edge_mask: Array | None = None  # [E] M_G
    edges: Array | None = None  # [2, E]
    weight_keep: list[Array] = field(default_factory=list)  # per layer, bool
    probs: Array | None = None  # [N, C]
    y: Array | None = None  # [N], -1 where unlabelled
    masks: dict[str, Array] = field(default_factory=dict)  # [N] bool by split
    ids: tuple[str, ...] | None = None

    @property
    def classes(self) -> list[str]:
        return [str(name) for name in self.meta["class_names"]]

    @property
    def title(self) -> str:
        how = self.meta.get("preset") or self.meta.get("method") or ""
        return " · ".join(part for part in (str(self.meta["dataset"]), str(how)) if part)

    @property
    def metric(self) -> str:
        return str(self.meta.get("metric", "accuracy"))

    def score(self, split: str, metric: str | None = None) -> float | None:
        """The final score on a split, where it is defined."""
        value = (self.meta.get("scores") or {}).get(metric or self.metric, {}).get(split)
        return float(value) if isinstance(value, (int, float)) else None

    @property
    def stored(self) -> int:
        """Weights that the net stores."""
        return int((self.meta.get("size") or {}).get("params", self.meta["weights_kept"]))

    @property
    def of_gcn(self) -> float:
        """The same as a share of a GCN with 64 hidden units on this graph."""
        return self.stored / self.gcn_weights

    @property
    def gcn_weights(self) -> int:
        return gcn_weights(self.meta["features"], len(self.meta["class_names"]))

    @property
    def speed(self) -> tuple[float, float] | None:
        """Milliseconds of one pass of the net, and of a GCN-64; None where neither was measured."""
        made = self.meta.get("speed") or {}
        net, gcn = (number(made, name) for name in ("ms", "gcn_ms"))
        return (net, gcn) if net is not None and gcn else None

    @property
    def propagates(self) -> bool:
        """Whether label propagation is added to what the net says."""
        return bool((self.meta.get("net") or {}).get("label_weight"))

    @property
    def alone(self) -> float | None:
        """Validation score of the net before label propagation, where that has a part."""
        if not self.propagates or labels_in_training(self.meta):
            return None
        best = self.meta.get("best_epoch")
        rows = (row for row in self.rows("retrain", stage=False) if row.get("epoch") == best)
        return next((number(row, "val_score") for row in rows), None)

    def rows(self, phase: str, *, stage: bool) -> list[Row]:
        """Epochs (`stage` False) or trainings of the search, or epochs of retraining."""
        of_phase = [row for row in self.history if row.get("phase") == phase]
        return [row for row in of_phase if bool(row.get("stage")) == stage]


def read_facts(folder: str | Path, edges: Array | None = None) -> Facts:
    """A run's folder; `edges` [2, E] are those of its graph, if it could be loaded."""
    path = Path(folder)
    meta = read_meta(path)
    if isinstance(meta["schema"], str):
        raise GassipError(f"{folder} was written by `gassip export`; a report needs a run's folder")
    large = int(meta["nodes"]) > MOST_NODES
    if is_row_run(meta):
        graph, inputs = ({}, {}) if large else stored_tensors(path, meta)
    else:
        graph = _optional(path, "graph.safetensors", meta)
        inputs = {} if large else _optional(path, "inputs.safetensors", meta)
    found = _optional(path, "found.safetensors", meta)
    keep = graph.get("edge_keep")
    return Facts(
        folder=str(folder),
        meta=meta,
        decisions=read_rows(path, DECISIONS, meta),
        history=read_history(path, meta) if HISTORY in meta["files"] else [],
        leaderboard=from_rows(read_rows(path, LEADERBOARD, meta), str(path / LEADERBOARD)),
        edge_keep=keep,
        edge_mask=graph.get("edge_mask"),
        edges=edges if not large and fits(edges, graph) else None,
        weight_keep=_masks(found),
        probs=_probs(path, inputs, is_row_run(meta)),
        y=inputs.get("y"),
        masks={s: graph[f"{s}_mask"] for s in SPLITS if f"{s}_mask" in graph},
        ids=read_ids(inputs, int(meta["nodes"])),
    )


def fits(edges: Array | None, graph: Mapping[str, Array]) -> bool:
    """Whether the edges that were kept of these are the ones stored."""
    keep = graph.get("edge_keep")
    if edges is None or keep is None or edges.shape != (2, len(keep)):
        return False
    return bool(np.array_equal(edges[:, keep], graph["edge_index"]))


def _masks(found: Tensors) -> list[Array]:
    """weight_keep of each layer, in order."""
    names = (f"weight_keep.{layer}" for layer in range(len(found)))
    return [found[name] for name in names if name in found]


def _optional(path: Path, name: str, meta: Mapping[str, Any]) -> Tensors:
    return read_tensors(path, name, meta) if name in meta["files"] else {}


def _probs(path: Path, inputs: Tensors, by_rows: bool) -> Array | None:
    """What the net says of every node of its graph; None where the run holds no inputs, or no net
    that the runtime knows."""
    if not inputs:
        return None
    if by_rows:  # its hops are there already
        return softmax(load_row_run(path).model.scores())
    model = load(path)
    return model.predict_proba() if model.x is not None else None
