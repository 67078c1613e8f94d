"""Read and check a run's folder (artefact.py says what is in it): nothing is trusted before it
fits."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gassip.errors import GassipError
from gassip.graph.drift import Statistics
from gassip.graph.parts import SPLITS, row_numbers
from gassip.graph.preparation import Preparation
from gassip.nn.net import Architecture, Net
from gassip.operations import OPERATIONS
from gassip.runs.format import (
    label_weight,
    read_file,
    read_ids,
    read_meta,
    read_preparation,
    read_statistics,
    read_tensors,
    soft_edges,
)
from gassip.runs.history import read_history
from gassip.settings import Settings
from gassip.settings.old import OLD_RECIPE, schema_1
from gassip.settings.settings import FIELDS, from_flat
from gassip.settings.training import Recipe
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
SCHEMA = 2
SCHEMAS = (1, 2)
FILES = (
    "model.safetensors",
    "graph.safetensors",
    "found.safetensors",
    "history.csv",
    "history.svg",
)
Meta = dict[str, Any]


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
        meta = _read_meta(folder)
        return _net(folder / "model.safetensors", meta, _tensors(folder, "model.safetensors", meta))
    except BORDER as error:
        if isinstance(error, GassipError):
            raise
        raise GassipError(f"{folder}: the run does not fit itself ({str(error)[:80]})") from error


def _opened(folder: Path) -> Run:
    meta = _read_meta(folder)
    if "rows" in meta:
        raise GassipError(
            f"{folder} holds a search on rows, whose graph is in its own folder; the commands of "
            f"gassip and gassip.deploy.row_runs read it, this does not"
        )
    for name in FILES:
        read_file(folder, name, meta)
    model = _tensors(folder, "model.safetensors", meta)
    graph = _tensors(folder, "graph.safetensors", meta)
    found = _tensors(folder, "found.safetensors", meta)
    net = _net(folder / "model.safetensors", meta, model)
    start = _found_net(folder / "found.safetensors", meta, found)
    _check_graph(folder / "graph.safetensors", meta, graph)
    return Run(
        folder=folder,
        meta=meta,
        model=net,
        plan=Plan(
            **_inputs(folder / "meta.json", meta),
            architecture=start.architecture,
            weight_keep=_weight_keep(folder / "found.safetensors", start, found),
            edge_keep=graph["edge_keep"],
            edge_mask=graph["edge_mask"],
            first_weights=_start(folder / "found.safetensors", start, found, "first."),
            last_weights=_start(folder / "found.safetensors", start, found, "last."),
            history=read_history(folder / "history.csv", read_file(folder, "history.csv", meta)),
            seconds=float(meta["seconds"]["search"]),
            feature_index=found.get("feature_index"),
            teacher=_teacher(folder / "found.safetensors", meta, found),
            decisions=read_decisions(folder, meta),
            leaderboard=_leaderboard(folder, meta),
        ),
        edge_index=graph["edge_index"],
        edge_weight=graph.get("edge_weight"),
        masks={split: graph[f"{split}_mask"] for split in SPLITS},
        preparation=read_preparation(folder, meta),
        statistics=read_statistics(folder, meta),
    )


_KINDS: dict[str, type] = {
    **dict.fromkeys(("dataset", "metric", "device"), str),
    **dict.fromkeys(
        (
            "source",
            "settings",
            "net",
            "found",
            "size",
            "budget",
            "accuracy",
            "scores",
            "seconds",
            "versions",
            "files",
        ),
        dict,
    ),
    **dict.fromkeys(("class_names", "architecture", "notes"), list),
    **dict.fromkeys(
        ("nodes", "features", "seed", "weights_kept", "weights_total", "edges_kept", "edges_total"),
        int,
    ),
    **dict.fromkeys(("best_epoch", "threads"), int),
}
_FOUND_KINDS: dict[str, type] = {"ops": list, "hidden": list, "heads": list, "batch_norm": bool}
_NET_KINDS: dict[str, type] = {
    "hidden": list,
    "heads": list,
    "batch_norm": bool,
    "dropout": float,
    "label_weight": float,
}
_LOADED: dict[str, type] = {"seed": int, "undirected": bool, "normalize": bool}
_SOURCE_KINDS: dict[object, dict[str, type]] = {
    "dataset": {"name": str} | _LOADED,
    "file": {"path": str} | _LOADED,
}


def _read_meta(folder: Path) -> Meta:
    path, meta = folder / "meta.json", read_meta(folder)
    if meta["schema"] not in SCHEMAS:
        raise GassipError(
            f"{folder} was written by `gassip export` or `pack`; this reads runs of `search`"
        )
    if isinstance(method := meta.get("method"), str):
        raise GassipError(
            f"{folder} holds a run of `gassip run {method}`; this reads runs of `gassip search`"
        )
    _check_kinds(path, meta, _KINDS)
    if meta["schema"] != 1:
        _check_kinds(path, meta, {"recipe": dict, "symmetrised": bool, "soft_edges": bool})
    _check_kinds(path, {"label_weight": 0.0} | meta["net"], _NET_KINDS)
    _check_kinds(path, meta["found"], _FOUND_KINDS)
    _check_kinds(path, meta["seconds"], {"search": float, "retrain": float})
    _check_kinds(path, meta["source"], _SOURCE_KINDS.get(meta["source"].get("kind"), {"kind": str}))
    if not all(isinstance(name, str) for name in (*meta["class_names"], *meta["architecture"])):
        raise GassipError(f"{path}: class_names and architecture must be lists of names")
    return meta


def _check_kinds(path: Path, values: Meta, kinds: Mapping[str, type]) -> None:
    for name, kind in kinds.items():
        value = values.get(name)
        fits = isinstance(value, (int, float) if kind is float else kind) and (
            kind is bool
        ) == isinstance(value, bool)
        if not fits:
            raise GassipError(
                f"{path}: {name} is {str(value)[:40]!r}; it must be a {kind.__name__}"
            )


def _tensors(folder: Path, name: str, meta: Meta) -> dict[str, Tensor]:
    """A safetensors file of the run as torch has it."""
    arrays = read_tensors(folder, name, meta)
    return {key: torch.from_numpy(value.copy()) for key, value in arrays.items()}


def _inputs(path: Path, meta: Meta) -> dict[str, Any]:
    """Settings, recipe, and how edges are read: the fields of a Plan that meta.json holds."""
    try:
        if meta["schema"] == 1:
            return of_schema_1(meta)
        return {
            "settings": from_flat(meta["settings"]),
            "recipe": Recipe(**meta["recipe"]),
            "symmetrised": meta["symmetrised"],
            "soft_edges": meta["soft_edges"],
        }
    except (GassipError, TypeError, KeyError) as error:
        raise GassipError(
            f"{path}: settings do not fit this version of gassip ({error})"
        ) from error


def of_schema_1(meta: Meta) -> dict[str, Any]:
    """Schema 1 held one table of inputs and results; `searched` has the inputs if they differ."""
    stages = frozenset(name for name, field in FIELDS.items() if field.stage)
    taken = meta["settings"]
    recipe = {
        field.name: taken.get(OLD_RECIPE.get(field.name, field.name)) for field in fields(Recipe)
    }
    return {
        "settings": Settings.of(**schema_1(meta.get("searched") or taken, stages)),
        "recipe": Recipe(**{name: value for name, value in recipe.items() if value is not None}),
        "symmetrised": taken.get("direction") == "both",
        "soft_edges": soft_edges(meta),
    }


def read_leaderboard(folder: Path, meta: Meta) -> tuple[Standing, ...]:
    """leaderboard.json; () in the folder of an earlier version."""
    if LEADERBOARD not in meta["files"]:
        return ()
    path = folder / LEADERBOARD
    try:
        rows = json.loads(read_file(folder, LEADERBOARD, meta))
    except (ValueError, RecursionError) as error:
        raise GassipError(f"{path} is damaged: not JSON ({error})") from error
    return from_rows(rows, str(path))


def _leaderboard(folder: Path, meta: Meta) -> tuple[Standing, ...]:
    """What the search trained: the board without the net that was retrained from it."""
    return tuple(own for own in read_leaderboard(folder, meta) if own.kind != "final")


def read_decisions(folder: Path, meta: Meta) -> tuple[Decision, ...]:
    """decisions.json; none in schema 1."""
    if meta["schema"] == 1:
        return ()
    path = folder / "decisions.json"
    try:
        rows = json.loads(read_file(folder, path.name, meta))
        return tuple(
            Decision(**{**row, "tried": tuple(_tried(option) for option in row["tried"])})
            for row in rows
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise GassipError(f"{path} does not hold the decisions of a run ({error})") from error


def _tried(row: dict[str, Any]) -> Row:
    """A statistic that is no finite number was written as a text."""
    return {key: value if key == "name" else float(value) for key, value in row.items()}


def _net(path: Path, meta: Meta, state: dict[str, Tensor]) -> Net:
    """Shapes first, on a device without memory, so that a hostile size costs nothing."""
    net = _empty_net(
        path, meta, meta["net"] | {"ops": meta["architecture"]}, state.get("feature_index")
    )
    for at, layer in enumerate(net.layers):
        if f"layers.{at}.weight.bits" in state:
            net.register_buffer(
                f"weight_keep_{at}", torch.empty_like(layer.weight, dtype=torch.bool)
            )
            state = _unmasked(path, state, at, layer.weight.shape)
    _check_tensors(
        path, state, {name: (value.shape, value.dtype) for name, value in net.state_dict().items()}
    )
    net.load_state_dict(state, assign=True)
    net.label_weight = label_weight(meta)
    return net.eval()


def _unmasked(
    path: Path, state: dict[str, Tensor], at: int, shape: torch.Size
) -> dict[str, Tensor]:
    """The state with the matrix of layer `at` whole, its removed weights 0, and `weight_keep`
    beside it."""
    name, count = f"layers.{at}.weight", shape.numel()
    parts = {part: state.get(f"{name}{part}", torch.empty(0)) for part in ("", ".bits", ".shape")}
    bits = parts[".bits"]
    plain = (
        bits.dtype == torch.uint8
        and bits.shape == ((count + 7) // 8,)
        and parts[".shape"].tolist() == list(shape)
    )
    keep = (
        torch.from_numpy(np.unpackbits(bits.numpy(), count=count)).bool().view(shape)
        if plain
        else None
    )
    if keep is None or parts[""].shape != (int(keep.sum()),) or parts[""].dtype != torch.float32:
        raise GassipError(
            f"{path} does not fit meta.json: {name} is not of shape {list(shape)} under its mask"
        )
    whole = torch.zeros(shape)
    whole[keep] = parts[""]
    rest = {key: value for key, value in state.items() if not key.startswith(name)}
    return rest | {name: whole, f"weight_keep_{at}": keep}


def _found_net(path: Path, meta: Meta, found: dict[str, Tensor]) -> Net:
    """The net that was found, without its weights."""
    return _empty_net(path, meta, meta["found"], found.get("feature_index"))


def _empty_net(path: Path, meta: Meta, shape: Meta, feature_index: Tensor | None) -> Net:
    ops, where = shape["ops"], path.parent / "meta.json"
    if not all(name in list(OPERATIONS) for name in ops) or not ops:
        raise GassipError(f"{where}: architecture names an operation there is not")
    sizes = [*shape["hidden"], *shape["heads"]]
    if not all(isinstance(size, int) and not isinstance(size, bool) for size in sizes):
        raise GassipError(f"{where}: hidden and heads must be lists of whole numbers")
    try:
        architecture = Architecture(
            ops=tuple(ops),
            hidden=tuple(shape["hidden"]),
            heads=tuple(shape["heads"]),
            batch_norm=shape["batch_norm"],
            standardised=shape.get("standardised") is True,
        )
    except GassipError as error:
        raise GassipError(f"{where}: hidden and heads do not fit each other ({error})") from error
    if feature_index is not None:
        _check_index(path, meta["features"], feature_index)
    with torch.device("meta"):
        return Net(
            meta["features"],
            len(meta["class_names"]),
            architecture,
            meta["net"]["dropout"],
            feature_index,
        )


def _check_index(path: Path, features: int, index: Tensor) -> None:
    """Ascending columns of x."""
    plain = index.dtype == torch.int64 and index.ndim == 1 and index.numel() > 0
    if (
        not plain
        or bool((index.diff() <= 0).any())
        or int(index[0]) < 0
        or int(index[-1]) >= features
    ):
        raise GassipError(
            f"{path} does not fit meta.json: feature_index must name some of {features} columns "
            f"in order"
        )


def _check_tensors(
    path: Path,
    tensors: Mapping[str, Tensor],
    expected: Mapping[str, tuple[Sequence[int], torch.dtype]],
) -> None:
    """Exactly these tensors, of these shapes and types."""
    if odd := sorted(tensors.keys() ^ expected.keys()):
        raise GassipError(f"{path} does not fit meta.json: {odd[0]} is missing or too much")
    for name, (shape, dtype) in expected.items():
        value = tensors[name]
        if tuple(value.shape) != tuple(shape) or value.dtype != dtype:
            was = f"{list(value.shape)} {value.dtype}"
            raise GassipError(
                f"{path} does not fit meta.json: {name} is {was}, not {list(shape)} {dtype}"
            )


def _check_graph(path: Path, meta: Meta, graph: dict[str, Tensor]) -> None:
    nodes, total, kept = meta["nodes"], meta["edges_total"], meta["edges_kept"]
    expected: dict[str, tuple[Sequence[int], torch.dtype]] = {
        "edge_index": ((2, kept), torch.int64),
        "edge_keep": ((total,), torch.bool),
        "edge_mask": ((total,), torch.float32),
    }
    expected |= {f"{split}_mask": ((nodes,), torch.bool) for split in SPLITS}
    if "edge_weight" in graph:
        expected["edge_weight"] = ((kept,), torch.float32)
    _check_tensors(path, graph, expected)
    ends = graph["edge_index"]
    if int(graph["edge_keep"].sum()) != kept or (
        kept and not 0 <= int(ends.min()) <= int(ends.max()) < nodes
    ):
        raise GassipError(
            f"{path} does not fit meta.json: its edges are not {kept} among {nodes} nodes"
        )


def _teacher(path: Path, meta: Meta, found: dict[str, Tensor]) -> Tensor | None:
    if "teacher" not in found:
        return None
    shape = (meta["nodes"], len(meta["class_names"]))
    _check_tensors(path, {"teacher": found["teacher"]}, {"teacher": (shape, torch.float32)})
    return found["teacher"]


def _weight_keep(path: Path, net: Net, found: dict[str, Tensor]) -> list[Tensor]:
    mine = {name: value for name, value in found.items() if name.startswith("weight_keep.")}
    expected = {
        f"weight_keep.{at}": (layer.weight.shape, torch.bool) for at, layer in enumerate(net.layers)
    }
    _check_tensors(path, mine, expected)
    return [mine[name] for name in expected]


def _start(path: Path, net: Net, found: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Weights a retraining may start from, those of norms included; their running statistics start
    anew."""
    mine = {
        name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)
    }
    _check_tensors(
        path, mine, {name: (value.shape, value.dtype) for name, value in net.named_parameters()}
    )
    return mine
