"""A run's folder: what a search found and a net trained, as JSON, safetensors, CSV and SVG. Nothing in it is a pickle.

    meta.json           what was done and how well it went, below
    model.safetensors   the state of `Net`, pruned weights as zeros, with `weight_keep_<l>` saying which exist (absent:
                        all) and `feature_index` saying which columns of x the net reads (absent: all)
    graph.safetensors   edge_index [2, kept], edge_weight [kept] where edges weigh other than 1; edge_keep [E] and
                        edge_mask [E] over the edges of the input graph; train_mask, val_mask, test_mask [N]
    found.safetensors   what a retraining starts from: weight_keep.<l>, first.<name>, last.<name>, feature_index
                        unless all features are read, and teacher [N, C] where there was one
    inputs.safetensors  what the net reads of the graph, for gassip.runtime: x [N, d], or x_data, x_indices, x_indptr
                        where it is sparse; y [N]; ids, a JSON list as bytes, where nodes have names. Counted in no size
    history.csv         one row per epoch, `phase` search or retrain; an empty cell was not measured
    history.svg         the same as a drawing

meta.json, schema 1 (strict JSON; null where a number is not defined):

    schema            1
    dataset           the graph's name
    source            kind (dataset | file | memory), name or path, seed, undirected, normalize; fingerprint of the
                      graph (Graph.fingerprint) and inputs_fingerprint (the same without labels and splits)
    nodes, features   sizes of the input graph
    class_names       list, in the order of the net's outputs
    preset            name, or null
    seed, metric      of search and retraining; what validation judged by
    settings          every field of Gassip
    architecture      list of operation names, one per layer
    net               hidden and heads (lists, one per hidden layer), batch_norm, dropout: what rebuilds `Net`
    found             ops, hidden, heads, batch_norm of what was found: the net's before shrinking
    weights_kept, weights_total, edges_kept, edges_total: by the masks, of the net that was retrained
    size              what is physically there: params stored, bytes of model.safetensors, edges, macs (gassip.size)
    accuracy          {train, val, test}; a split without nodes is null
    scores            {metric: {split: value}}, all that are defined
    budget            the bounds that were given, {max_params: "25%", ...}; empty without any
    seconds           {search, retrain}
    best_epoch        of retraining, from 1
    versions          gassip, torch, torch_geometric, numpy, python
    threads, device   what it ran on
    notes             what was cleaned or drawn on the way in
    files             {name: sha256} of the other six
    inputs_bytes      of inputs.safetensors
    sha256            of this object without this key, as compact JSON with sorted keys
"""

import csv
import hashlib
import io
import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric
from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from torch import Tensor

from gassip import __version__
from gassip.errors import GassipError
from gassip.files import read_ids
from gassip.graph import SPLITS, Graph
from gassip.ops import OPERATIONS
from gassip.retrain import Found, Solution
from gassip.settings import Gassip
from gassip.size import packed, size_of
from gassip.space import Architecture, Model, Net
from gassip.sparse import Csr
from gassip.store import replace_file as replace_file

SCHEMA = 1
FILES = ("model.safetensors", "graph.safetensors", "found.safetensors", "history.csv", "history.svg")
Meta = dict[str, Any]
History = Sequence[Mapping[str, float | str]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """A run as read from its folder."""

    folder: Path
    meta: Meta
    model: Net  # in evaluation mode
    found: Found
    edge_index: Tensor  # [2, kept]
    edge_weight: Tensor | None  # [kept]
    masks: dict[str, Tensor]  # train, val, test: [N] bool


def save(
    folder: str | Path,
    graph: Graph,
    found: Found,
    solution: Solution,
    *,
    seed: int = 0,
    metric: str = "accuracy",
    preset: str | None = None,
    source: Mapping[str, object] | None = None,
    budget: Mapping[str, float | str] | None = None,
    retrain_history: History = (),
    overwrite: bool = False,
) -> Meta:
    """Write a run's folder, all of it or nothing, and return its meta.json."""
    folder = Path(folder)
    check_target(folder, overwrite)
    history = [{"phase": "search", **row} for row in found.history]
    history += [{"phase": "retrain", **row} for row in retrain_history]
    contents = {
        "model.safetensors": packed(solution.model),
        "graph.safetensors": _pack(_graph_tensors(graph, found, solution)),
        "found.safetensors": _pack(_found_tensors(found)),
        "inputs.safetensors": _pack(_input_tensors(graph, solution.model, source or {})),
        "history.csv": history_csv(history).encode(),
        "history.svg": history_svg(history),
    }
    meta = _meta(graph, found, solution) | {"seed": seed, "metric": metric, "preset": preset}
    meta["budget"] = dict(budget or {})
    meta["inputs_bytes"] = len(contents["inputs.safetensors"])
    meta["source"] = {"kind": "memory"} | dict(source or {})
    meta["source"] |= {"fingerprint": graph.fingerprint, "inputs_fingerprint": inputs_fingerprint(graph)}
    return _sealed(folder, meta, contents)


def save_method(
    folder: str | Path,
    graph: Graph,
    solution: Solution,
    *,
    method: str,
    settings: Mapping[str, object],
    seconds: Mapping[str, float],
    seed: int = 0,
    metric: str = "accuracy",
    source: Mapping[str, object] | None = None,
    history: History = (),
    overwrite: bool = False,
) -> Meta:
    """Write the run of any method: meta.json with the keys of a search and `method`, the model, its graph, the history.

    Such a folder is to be read by people and other programs; `open_run` refuses it, since it holds nothing to retrain.
    """
    folder = Path(folder)
    check_target(folder, overwrite)
    rows = [{"phase": "retrain", **row} for row in history]
    masks = {f"{split}_mask": graph.mask(split) for split in SPLITS}
    weight = {} if solution.graph.edge_weight is None else {"edge_weight": solution.graph.edge_weight}
    contents = {
        "model.safetensors": packed(solution.model),
        "graph.safetensors": _pack({"edge_index": solution.graph.edge_index} | weight | masks),
        "history.csv": history_csv(rows).encode(),
        "history.svg": history_svg(rows),
    }
    net = _plain(solution.model.architecture) if isinstance(solution.model, Net) else None
    size = asdict(size_of(solution.model, solution.graph)) if isinstance(solution.model, Net) else None
    meta = _counts(graph, solution) | {
        "method": method,
        "settings": dict(settings),
        "architecture": None if net is None else net.pop("ops"),
        "net": net,
        "found": None,
        "size": size,
        "seconds": dict(seconds),
        "seed": seed,
        "metric": metric,
        "preset": None,
        "inputs_bytes": None,
    }
    meta["source"] = {"kind": "memory"} | dict(source or {})
    meta["source"] |= {"fingerprint": graph.fingerprint, "inputs_fingerprint": inputs_fingerprint(graph)}
    return _sealed(folder, meta, contents)


def _sealed(folder: Path, meta: Meta, contents: dict[str, bytes]) -> Meta:
    """Write the folder with the checksums of its files in meta.json."""
    meta["files"] = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    meta["sha256"] = _meta_digest(meta)
    contents["meta.json"] = to_json(meta).encode()
    try:
        write_folder(folder.resolve(), contents)
    except OSError as error:
        raise GassipError(f"cannot write {folder}: {error.strerror or error}; nothing was kept of it") from error
    return meta


def check_target(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that exists, unless it is a run that may be replaced."""
    if not os.path.lexists(folder):
        return
    if not overwrite:
        raise GassipError(f"{folder} exists; choose another --out, or --overwrite to replace it")
    if not all((folder / name).is_file() for name in ("meta.json", "model.safetensors")):
        raise GassipError(f"{folder} is not the folder of a run, so it is not overwritten; choose another --out")


def write_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Into a folder beside it, renamed at the end; an old run goes only when the new one is whole."""
    beside, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.rmtree(beside, ignore_errors=True)  # of a process that was killed while it wrote
        beside.mkdir()
        for name, content in contents.items():
            replace_file(beside / name, content)
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            folder.rename(old)
        try:
            beside.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def to_json(value: object) -> str:
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def inputs_fingerprint(graph: Graph) -> str:
    """sha256 of what a net reads: features, edges, given weights; not labels or splits."""
    none = torch.zeros(graph.num_nodes, dtype=torch.bool)
    blank = replace(graph, y=none.long(), train_mask=none, val_mask=none, test_mask=none, class_names=())
    return blank.fingerprint


def history_csv(history: History) -> str:
    """One line per epoch, the columns in the order of their first appearance, `seconds` last."""
    names = list(dict.fromkeys(name for row in history for name in row if name != "seconds"))
    text = io.StringIO()
    writer = csv.DictWriter(text, [*names, "seconds"], restval="", lineterminator="\n")
    writer.writeheader()
    for row in history:
        writer.writerow({name: "" if value != value else value for name, value in row.items()})
    return text.getvalue()


def history_svg(history: History) -> bytes:
    """Losses, validation score, and what would be kept, over the epochs of search and retraining."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    panels = {
        "loss": ("train_loss", "val_loss"),
        "validation score": ("val_score",),
        "share kept; entropy of α": ("weights_kept", "edges_kept", "alpha_entropy"),
    }
    with matplotlib.rc_context({"svg.hashsalt": "gassip", "svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(10, 3), layout="constrained")
        axes = figure.subplots(1, len(panels))
        for axis, (title, names) in zip(axes, panels.items(), strict=True):
            for phase, style in (("search", "-"), ("retrain", ":")):
                for at, name in enumerate(names):
                    rows = [row for row in history if row["phase"] == phase and name in row]
                    label = f"{name} ({phase})" if rows else None
                    values = [float(row[name]) for row in rows]
                    axis.plot([float(row["epoch"]) for row in rows], values, style, color=f"C{at}", lw=1, label=label)
            axis.set(title=title, xlabel="epoch")
            if axis.get_legend_handles_labels()[0]:
                axis.legend(frameon=False)
        drawn = io.BytesIO()
        FigureCanvasSVG(figure).print_svg(drawn, metadata={"Date": None})
    return drawn.getvalue()


def _meta(graph: Graph, found: Found, solution: Solution) -> Meta:
    assert isinstance(solution.model, Net)  # of the models there are, the one a folder can hold
    net = _plain(solution.model.architecture)
    return _counts(graph, solution) | {
        "settings": _plain(found.settings),
        "architecture": net.pop("ops"),
        "net": net | {"dropout": solution.model.dropout},
        "found": _plain(found.architecture),
        "size": asdict(solution.size or size_of(solution.model, solution.graph)),
        "seconds": {"search": found.seconds, "retrain": solution.seconds},
    }


def _counts(graph: Graph, solution: Solution) -> Meta:
    """What meta.json says of any run, whatever the model."""
    return {
        "schema": SCHEMA,
        "dataset": graph.name,
        "nodes": graph.num_nodes,
        "features": graph.num_features,
        "class_names": list(graph.class_names),
        "weights_kept": solution.weights_kept,
        "weights_total": solution.weights_total,
        "edges_kept": solution.edges_kept,
        "edges_total": solution.edges_total,
        "accuracy": {split: solution.accuracy.get(split) for split in SPLITS},
        "scores": solution.scores,
        "best_epoch": solution.best_epoch,
        "versions": versions(),
        "threads": torch.get_num_threads(),
        "device": str(graph.device),
        "notes": list(graph.notes),
    }


def _plain(fields: Architecture | Gassip) -> Meta:
    """As JSON has it: lists for tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(fields).items()}


def versions() -> dict[str, str]:
    return {
        "gassip": __version__,
        "torch": str(torch.__version__),
        "torch_geometric": str(torch_geometric.__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _graph_tensors(graph: Graph, found: Found, solution: Solution) -> dict[str, Tensor]:
    tensors = {"edge_index": solution.graph.edge_index, "edge_keep": found.edge_keep, "edge_mask": found.edge_mask}
    if solution.graph.edge_weight is not None:
        tensors["edge_weight"] = solution.graph.edge_weight
    return tensors | {f"{split}_mask": graph.mask(split) for split in SPLITS}


def _input_tensors(graph: Graph, model: Model, source: Mapping[str, object]) -> dict[str, Tensor]:
    """The columns of x that the net reads, the labels, and the nodes' names where a folder of CSV files gave them."""
    x = model.picked(graph.x) if isinstance(model, Net) else graph.x
    tensors = {"y": graph.y}
    if isinstance(x, Csr):
        assert x.value is not None
        tensors |= {"x_data": x.value, "x_indices": x.col, "x_indptr": x.rowptr}
    else:
        tensors["x"] = x
    if source.get("kind") == "file" and (folder := Path(str(source["path"]))).is_dir():
        names = json.dumps(read_ids(folder)).encode()
        tensors["ids"] = torch.frombuffer(bytearray(names), dtype=torch.uint8)
    return tensors


def _found_tensors(found: Found) -> dict[str, Tensor]:
    tensors = {f"weight_keep.{at}": keep for at, keep in enumerate(found.weight_keep)}
    if found.feature_index is not None:
        tensors["feature_index"] = found.feature_index
    if found.teacher is not None:
        tensors["teacher"] = found.teacher
    tensors |= {f"first.{name}": value for name, value in found.first_weights.items()}
    return tensors | {f"last.{name}": value for name, value in found.last_weights.items()}


def _pack(tensors: Mapping[str, Tensor]) -> bytes:
    # clone: safetensors refuses two names for one memory
    return to_bytes(
        {name: value.detach().cpu().clone(memory_format=torch.contiguous_format) for name, value in tensors.items()}
    )


def open_run(folder: str | Path) -> Run:
    """Read and check a run's folder; whatever is missing, damaged or does not fit is refused by name."""
    folder = Path(folder)
    meta = _read_meta(folder)
    contents = {name: _read_file(folder / name, meta["files"].get(name)) for name in FILES}
    model = _unpack(folder / "model.safetensors", contents["model.safetensors"])
    graph = _unpack(folder / "graph.safetensors", contents["graph.safetensors"])
    found = _unpack(folder / "found.safetensors", contents["found.safetensors"])
    net = _net(folder / "model.safetensors", meta, model)
    start = _found_net(folder / "found.safetensors", meta, found)
    _check_graph(folder / "graph.safetensors", meta, graph)
    return Run(
        folder=folder,
        meta=meta,
        model=net,
        found=Found(
            settings=_settings(folder / "meta.json", meta),
            architecture=start.architecture,
            weight_keep=_weight_keep(folder / "found.safetensors", start, found),
            edge_keep=graph["edge_keep"],
            edge_mask=graph["edge_mask"],
            first_weights=_start(folder / "found.safetensors", start, found, "first."),
            last_weights=_start(folder / "found.safetensors", start, found, "last."),
            history=_history(folder / "history.csv", contents["history.csv"]),
            seconds=float(meta["seconds"]["search"]),
            feature_index=found.get("feature_index"),
            teacher=found.get("teacher"),
        ),
        edge_index=graph["edge_index"],
        edge_weight=graph.get("edge_weight"),
        masks={split: graph[f"{split}_mask"] for split in SPLITS},
    )


_KINDS: dict[str, type] = {
    **dict.fromkeys(("dataset", "metric", "device"), str),
    **dict.fromkeys(
        ("source", "settings", "net", "found", "size", "budget", "accuracy", "scores", "seconds", "versions", "files"),
        dict,
    ),
    **dict.fromkeys(("class_names", "architecture", "notes"), list),
    **dict.fromkeys(("nodes", "features", "seed", "weights_kept", "weights_total", "edges_kept", "edges_total"), int),
    **dict.fromkeys(("best_epoch", "threads"), int),
}
_FOUND_KINDS: dict[str, type] = {"ops": list, "hidden": list, "heads": list, "batch_norm": bool}
_NET_KINDS: dict[str, type] = {"hidden": list, "heads": list, "batch_norm": bool, "dropout": float}
_LOADED: dict[str, type] = {"seed": int, "undirected": bool, "normalize": bool}
_SOURCE_KINDS: dict[object, dict[str, type]] = {"dataset": {"name": str} | _LOADED, "file": {"path": str} | _LOADED}


def _read_meta(folder: Path) -> Meta:
    path = folder / "meta.json"
    try:
        meta = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except FileNotFoundError:
        raise GassipError(f"{path} is missing; is {folder} the folder of a run?") from None
    except OSError as error:
        raise GassipError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise GassipError(f"{path} is damaged: not JSON ({error})") from error
    if not isinstance(meta, dict) or "schema" not in meta:
        raise GassipError(f"{path} is not that of a gassip run: it names no schema")
    if meta["schema"] != SCHEMA:
        raise GassipError(f"{path} has schema {meta['schema']!r}; this version of gassip reads schema {SCHEMA}")
    if meta.get("sha256") != _meta_digest(meta):
        raise GassipError(f"{path} is damaged or was edited: its checksum does not fit")
    if isinstance(method := meta.get("method"), str):
        raise GassipError(f"{folder} holds a run of `gassip run {method}`; this reads runs of `gassip search`")
    _check_kinds(path, meta, _KINDS)
    _check_kinds(path, meta["net"], _NET_KINDS)
    _check_kinds(path, meta["found"], _FOUND_KINDS)
    _check_kinds(path, meta["seconds"], {"search": float, "retrain": float})
    _check_kinds(path, meta["source"], _SOURCE_KINDS.get(meta["source"].get("kind"), {"kind": str}))
    if not all(isinstance(name, str) for name in (*meta["class_names"], *meta["architecture"])):
        raise GassipError(f"{path}: class_names and architecture must be lists of names")
    return meta


def _no_constant(text: str) -> float:
    raise ValueError(f"it holds {text}")


def _meta_digest(meta: Meta) -> str:
    rest = {name: value for name, value in meta.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _check_kinds(path: Path, values: Meta, kinds: Mapping[str, type]) -> None:
    for name, kind in kinds.items():
        value = values.get(name)
        fits = isinstance(value, (int, float) if kind is float else kind) and (kind is bool) == isinstance(value, bool)
        if not fits:
            raise GassipError(f"{path}: {name} is {str(value)[:40]!r}; it must be a {kind.__name__}")


def _read_file(path: Path, expected: object) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise GassipError(f"cannot read {path}: {error.strerror}; the run is not complete") from error
    if hashlib.sha256(content).hexdigest() != expected:
        raise GassipError(f"{path} is damaged: its checksum is not the one in meta.json")
    return content


def _unpack(path: Path, content: bytes) -> dict[str, Tensor]:
    try:
        return from_bytes(content)
    except (SafetensorError, ValueError, RuntimeError, KeyError) as error:
        raise GassipError(f"{path} is not a safetensors file ({error})") from error


def _settings(path: Path, meta: Meta) -> Gassip:
    try:
        return Gassip(**meta["settings"])
    except (GassipError, TypeError) as error:
        raise GassipError(f"{path}: settings do not fit this version of gassip ({error})") from error


def _net(path: Path, meta: Meta, state: dict[str, Tensor]) -> Net:
    """Shapes first, on a device without memory, so that a hostile size costs nothing."""
    net = _empty_net(path, meta, meta["net"] | {"ops": meta["architecture"]}, state.get("feature_index"))
    for at, layer in enumerate(net.layers):
        if f"weight_keep_{at}" in state:
            net.register_buffer(f"weight_keep_{at}", torch.empty_like(layer.weight, dtype=torch.bool))
    _check_tensors(path, state, {name: (value.shape, value.dtype) for name, value in net.state_dict().items()})
    net.load_state_dict(state, assign=True)
    return net.eval()


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
        )
    except GassipError as error:
        raise GassipError(f"{where}: hidden and heads do not fit each other ({error})") from error
    if feature_index is not None:
        _check_index(path, meta["features"], feature_index)
    with torch.device("meta"):
        return Net(meta["features"], len(meta["class_names"]), architecture, meta["net"]["dropout"], feature_index)


def _check_index(path: Path, features: int, index: Tensor) -> None:
    """Ascending columns of x."""
    plain = index.dtype == torch.int64 and index.ndim == 1 and index.numel() > 0
    if not plain or bool((index.diff() <= 0).any()) or int(index[0]) < 0 or int(index[-1]) >= features:
        raise GassipError(f"{path} does not fit meta.json: feature_index must name some of {features} columns in order")


def _check_tensors(
    path: Path, tensors: Mapping[str, Tensor], expected: Mapping[str, tuple[Sequence[int], torch.dtype]]
) -> None:
    """Exactly these tensors, of these shapes and types."""
    if odd := sorted(tensors.keys() ^ expected.keys()):
        raise GassipError(f"{path} does not fit meta.json: {odd[0]} is missing or too much")
    for name, (shape, dtype) in expected.items():
        value = tensors[name]
        if tuple(value.shape) != tuple(shape) or value.dtype != dtype:
            was = f"{list(value.shape)} {value.dtype}"
            raise GassipError(f"{path} does not fit meta.json: {name} is {was}, not {list(shape)} {dtype}")


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
    if int(graph["edge_keep"].sum()) != kept or (kept and not 0 <= int(ends.min()) <= int(ends.max()) < nodes):
        raise GassipError(f"{path} does not fit meta.json: its edges are not {kept} among {nodes} nodes")


def _weight_keep(path: Path, net: Net, found: dict[str, Tensor]) -> list[Tensor]:
    mine = {name: value for name, value in found.items() if name.startswith("weight_keep.")}
    expected = {f"weight_keep.{at}": (layer.weight.shape, torch.bool) for at, layer in enumerate(net.layers)}
    _check_tensors(path, mine, expected)
    return [mine[name] for name in expected]


def _start(path: Path, net: Net, found: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Weights a retraining may start from, those of norms included; their running statistics start anew."""
    mine = {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}
    _check_tensors(path, mine, {name: (value.shape, value.dtype) for name, value in net.named_parameters()})
    return mine


def _history(path: Path, content: bytes) -> list[dict[str, float | str]]:
    """The rows of the search, as it wrote them; an empty cell is left out."""
    try:
        rows = list(csv.DictReader(io.StringIO(content.decode()), strict=True))
        searched = [row for row in rows if row["phase"] == "search"]
        return [{name: _cell(name, text) for name, text in row.items() if name != "phase" and text} for row in searched]
    except (ValueError, KeyError, csv.Error) as error:
        raise GassipError(f"{path} is not the history of a run ({error})") from error


def _cell(name: str, text: str) -> float | str:
    if name in ("architecture", "stage"):
        return text
    return int(text) if name == "epoch" else float(text)
