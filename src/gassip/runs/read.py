"""Read and check a run's folder (gassip.runs says what is in it): nothing is trusted before it
fits."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gassip.errors import GassipError
from gassip.graph.drift import Statistics
from gassip.graph.parts import SPLITS, row_numbers
from gassip.graph.preparation import Preparation
from gassip.nn.net import Net
from gassip.runs.checked_meta import Meta, checked_meta, inputs_of
from gassip.runs.checked_tensors import (
    check_graph,
    found_net,
    start_weights,
    teacher_of,
    torch_tensors,
    trained_net,
    weight_keep_of,
)
from gassip.runs.format import (
    DECISIONS,
    read_file,
    read_ids,
    read_meta,
    read_preparation,
    read_rows,
    read_statistics,
    read_tensors,
)
from gassip.runs.history import of_search, read_history
from gassip.train.leaderboard import FILE as LEADERBOARD
from gassip.train.leaderboard import Standing, from_rows
from gassip.train.plan import Decision, Plan, Row

# what contents of a wrong kind raise, where checksums were made to fit
BORDER = (
    TypeError,
    ValueError,
    KeyError,
    IndexError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
)
FILES = (
    "model.safetensors",
    "graph.safetensors",
    "found.safetensors",
    "history.csv",
    "history.svg",
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """A run as read from its folder."""

    folder: Path
    meta: Meta
    model: Net  # in evaluation mode
    plan: Plan
    edge_index: Tensor  # [2, kept]
    edge_weight: Tensor | None  # [kept]
    masks: dict[str, Tensor]  # train, val, test: [N] bool
    preparation: Preparation | None = None  # how named columns become x; None: x was given
    statistics: Statistics | None = None  # of the features; None: of an earlier version

    def ids(self) -> tuple[str, ...]:
        """What the user calls the nodes of the run's graph; their numbers if they have no names."""
        tensors = read_tensors(self.folder, "inputs.safetensors", self.meta)
        nodes = self.meta["nodes"]
        return read_ids(tensors, nodes) or row_numbers(nodes)

    def labels(self) -> Tensor:
        """y [N] of the run's graph, -1 where unlabelled."""
        y = read_tensors(self.folder, "inputs.safetensors", self.meta).get("y")
        if y is None or y.shape != (self.meta["nodes"],) or y.dtype != np.int64:
            raise GassipError(
                f"{self.folder}: inputs.safetensors has no label for each of "
                f"{self.meta['nodes']} nodes"
            )
        return torch.from_numpy(y.copy())


def open_run(folder: str | Path) -> Run:
    """Read and check a run's folder; whatever is missing, damaged or does not fit is refused by
    name."""
    folder = Path(folder)
    try:
        return _opened(folder)
    except GassipError:
        raise
    except BORDER as error:
        raise GassipError(
            f"{folder}: the run does not fit itself ({type(error).__name__}: {str(error)[:80]})"
        ) from error


def open_net(folder: str | Path) -> Net:
    """The net alone, also of a search on rows, whose graph is in its own folder."""
    folder = Path(folder)
    if "rows" not in read_meta(folder):
        return open_run(folder).model
    try:
        meta, name = checked_meta(folder), "model.safetensors"
        return trained_net(folder / name, meta, torch_tensors(folder, name, meta))
    except BORDER as error:
        if isinstance(error, GassipError):
            raise
        raise GassipError(f"{folder}: the run does not fit itself ({str(error)[:80]})") from error


def _opened(folder: Path) -> Run:
    meta = checked_meta(folder)
    if "rows" in meta:
        raise GassipError(
            f"{folder} holds a search on rows, whose graph is in its own folder; the commands of "
            f"gassip and gassip.deploy.row_runs read it, this does not"
        )
    for name in FILES:
        read_file(folder, name, meta)
    model = torch_tensors(folder, "model.safetensors", meta)
    graph = torch_tensors(folder, "graph.safetensors", meta)
    found = torch_tensors(folder, "found.safetensors", meta)
    net = trained_net(folder / "model.safetensors", meta, model)
    start = found_net(folder / "found.safetensors", meta, found)
    check_graph(folder / "graph.safetensors", meta, graph)
    return Run(
        folder=folder,
        meta=meta,
        model=net,
        plan=Plan(
            **inputs_of(folder / "meta.json", meta),
            architecture=start.architecture,
            weight_keep=weight_keep_of(folder / "found.safetensors", start, found),
            edge_keep=graph["edge_keep"],
            edge_mask=graph["edge_mask"],
            first_weights=start_weights(folder / "found.safetensors", start, found, "first."),
            last_weights=start_weights(folder / "found.safetensors", start, found, "last."),
            history=of_search(read_history(folder, meta)),
            seconds=float(meta["seconds"]["search"]),
            feature_index=found.get("feature_index"),
            teacher=teacher_of(folder / "found.safetensors", meta, found),
            decisions=read_decisions(folder, meta),
            leaderboard=_leaderboard(folder, meta),
        ),
        edge_index=graph["edge_index"],
        edge_weight=graph.get("edge_weight"),
        masks={split: graph[f"{split}_mask"] for split in SPLITS},
        preparation=read_preparation(folder, meta),
        statistics=read_statistics(folder, meta),
    )


def read_leaderboard(folder: Path, meta: Meta) -> tuple[Standing, ...]:
    """leaderboard.json; () in the folder of an earlier version."""
    return from_rows(read_rows(folder, LEADERBOARD, meta), str(folder / LEADERBOARD))


def _leaderboard(folder: Path, meta: Meta) -> tuple[Standing, ...]:
    """What the search trained: the board without the net that was retrained from it."""
    return tuple(row for row in read_leaderboard(folder, meta) if row.kind != "final")


def read_decisions(folder: Path, meta: Meta) -> tuple[Decision, ...]:
    """decisions.json; none in schema 1."""
    if meta["schema"] == 1:
        return ()
    rows = read_rows(folder, DECISIONS, meta)
    try:
        return tuple(
            Decision(**{**row, "tried": tuple(_tried(option) for option in row["tried"])})
            for row in rows
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        path = folder / DECISIONS
        raise GassipError(f"{path} does not hold the decisions of a run ({error})") from error


def _tried(row: dict[str, Any]) -> Row:
    """A statistic that is no finite number was written as a text."""
    return {key: value if key == "name" else float(value) for key, value in row.items()}
