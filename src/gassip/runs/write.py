"""A run's folder: what a search found and a net trained, as JSON, safetensors, CSV and SVG. Nothing
in it is a pickle.

    meta.json           what was done and how well it went, below
    model.safetensors   the state of `Net`; where weights of layer l are removed, layers.<l>.weight
                        [kept] holds the others, row by row, layers.<l>.weight.bits which they are,
                        one bit each, and layers.<l>.weight.shape their matrix; `feature_index`
                        names the columns of x that the net reads (absent: all)
    graph.safetensors   edge_index [2, kept], edge_weight [kept] where edges weigh other than 1;
                        edge_keep [E] and edge_mask [E] over the edges of the input graph;
                        train_mask, val_mask, test_mask [N]
    found.safetensors   what a retraining starts from: weight_keep.<l>, first.<name>, last.<name>,
                        feature_index unless all features are read, teacher [N, C] if there is one
    inputs.safetensors  what the net reads of the graph, for gassip.runtime: x [N, d], or x_data,
                        x_indices, x_indptr where it is sparse; y [N]; ids, a JSON list as bytes,
                        where nodes have names. Counted in no size
    statistics.safetensors  low, high and mean [D] of the features, by which drift is told
                        (gassip.graph.drift)
    preparation.json    how named columns become x, if the graph came from tables: plain numbers
                        (gassip.graph.preparation)
    decisions.json      what the search decided: a list of stage, taken, tried, statistic, threshold
    leaderboard.json    every net that was trained, best on validation first
                        (gassip.train.leaderboard)
    history.csv         one row per epoch, `phase` search or retrain; an empty cell was not measured
    history.svg         the same as a drawing

meta.json, schema 2 (strict JSON; null where a number is not defined):

    schema            2
    dataset           the graph's name
    source            kind (dataset | file | memory), name or path, seed, undirected, normalize;
                      structure (what x was made of, if no features were given);
                      weighted (where edges have weights: whether these are used);
                      fingerprint of the graph (Graph.fingerprint) and inputs_fingerprint (the same
                      without labels and splits)
    nodes, features   sizes of the input graph
    class_names       list, in the order of the net's outputs
    preset            name, or null
    seed, metric      of search and retraining; what validation judged by
    settings          the inputs of the search, by flat name (gassip.settings)
    recipe            how the net was trained (gassip.settings.training.Recipe)
    symmetrised       whether every edge is read both ways
    soft_edges        whether kept edges weigh M_G besides what was given
    architecture      list of operation names, one per layer
    net               hidden and heads (lists, one per hidden layer), batch_norm, dropout: what
                      rebuilds `Net`; and label_weight of the label-propagation logits (0: none)
    found             ops, hidden, heads, batch_norm of what was found: the net's before shrinking
    weights_kept, weights_total, edges_kept, edges_total: by the masks, of the net that was
        retrained
    size              what is physically there: params stored, bytes of model.safetensors, edges,
                      macs (gassip.nn.size)
    accuracy          {train, val, test}; a split without nodes is null
    scores            {metric: {split: value}}, all that are defined
    budget            the bounds that were given, {max_params: "25%", ...}; empty without any
    constant          validation score of the largest class named for every node; null: undefined
    inductive         score, seen, nodes, seconds (gassip.train.inductive); null or absent: not
                      measured
    latency_ms        of one inference, if a budget bounds it
    seconds           {search, retrain}
    best_epoch        of retraining, from 1
    versions          gassip, torch, torch_geometric, numpy, python
    threads, device   what it ran on
    notes             what was cleaned or drawn on the way in
    files             {name: sha256} of the others
    inputs_bytes      of inputs.safetensors
    sha256            of this object without this key, as compact JSON with sorted keys
"""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib import metadata
from math import isfinite
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save as to_bytes
from torch import Tensor

from gassip import __version__
from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.drift import Statistics
from gassip.graph.graph import SPLITS, Graph
from gassip.nn.net import Architecture, Model, Net
from gassip.nn.size import packed, size_of
from gassip.runs.format import PREPARATION, STATISTICS, digest, real, recover, write_tensors
from gassip.runs.format import replace_file as replace_file
from gassip.runs.history import History, history_csv
from gassip.runs.history import history_svg as history_svg
from gassip.runs.read import FILES as FILES
from gassip.runs.read import SCHEMA
from gassip.runs.read import Meta as Meta
from gassip.runs.read import Run as Run
from gassip.runs.read import open_run as open_run
from gassip.train.leaderboard import FILE as LEADERBOARD
from gassip.train.leaderboard import Standing, final, to_rows
from gassip.train.plan import Decision, Plan, Solution, unweighted


def save(
    folder: str | Path,
    graph: Graph,
    plan: Plan,
    solution: Solution,
    *,
    seed: int = 0,
    metric: str = "accuracy",
    preset: str | None = None,
    source: Mapping[str, object] | None = None,
    budget: Mapping[str, float | str] | None = None,
    retrain_history: History = (),
    overwrite: bool = False,
    measured: Mapping[str, object] | None = None,
) -> Meta:
    """Write a run's folder, all of it or nothing, and return its meta.json."""
    folder = Path(folder)
    check_target(folder, overwrite)
    if graph.edge_weight is not None:
        source = {**(source or {}), "weighted": plan.weighted}
        graph = graph if plan.weighted else unweighted(graph)
    if graph.structure is not None:
        source = {**(source or {}), "structure": graph.structure}
    if plan.symmetrised:  # a reader of the folder starts from the graph so made
        graph, source = plan.on(graph, all_edges=True), {**(source or {}), "undirected": True}
    history = [{"phase": "search", **row} for row in plan.history]
    history += [{"phase": "retrain", **row} for row in retrain_history]
    board = final(plan.leaderboard, retrained(solution, metric))
    contents = {
        "model.safetensors": packed(solution.model),
        "graph.safetensors": _pack(_graph_tensors(graph, plan, solution)),
        "found.safetensors": _pack(_found_tensors(plan)),
        "inputs.safetensors": _pack(_input_tensors(graph, solution.model)),
        STATISTICS: write_tensors(_statistics(graph).to_tensors()),
        "decisions.json": to_json([decision_row(made) for made in plan.decisions]).encode(),
        LEADERBOARD: to_json(to_rows(board)).encode(),
        "history.csv": history_csv(history).encode(),
        "history.svg": history_svg(
            history, _about(graph, solution, metric, preset, seed), solution.best_epoch
        ),
    }
    if graph.preparation is not None:
        contents[PREPARATION] = graph.preparation.to_json().encode()
    meta = _meta(graph, plan, solution) | {"seed": seed, "metric": metric, "preset": preset}
    meta |= {**(measured or {}), "budget": dict(budget or {})}
    meta["inputs_bytes"] = len(contents["inputs.safetensors"])
    meta["source"] = {"kind": "memory"} | dict(source or {})
    meta["source"] |= {
        "fingerprint": graph.fingerprint,
        "inputs_fingerprint": inputs_fingerprint(graph),
    }
    return sealed(folder, meta, contents)


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
    """Write the run of any method: meta.json with the keys of a search and `method`, the model, its
    graph, the history.

    Such a folder is to be read by people and other programs; `open_run` refuses it, since it holds
    nothing to retrain.
    """
    folder = Path(folder)
    check_target(folder, overwrite)
    # it read the edges both ways
    if graph.num_edges != solution.edges_total == graph.both_ways.num_edges:
        graph, source = graph.both_ways, {**(source or {}), "undirected": True}
    rows = [{"phase": "retrain", **row} for row in history]
    masks = {f"{split}_mask": graph.mask(split) for split in SPLITS}
    weight = (
        {} if solution.graph.edge_weight is None else {"edge_weight": solution.graph.edge_weight}
    )
    contents = {
        "model.safetensors": packed(solution.model),
        "graph.safetensors": _pack({"edge_index": solution.graph.edge_index} | weight | masks),
        "history.csv": history_csv(rows).encode(),
        "history.svg": history_svg(
            rows, _about(graph, solution, metric, method, seed), solution.best_epoch
        ),
    }
    net = plain(solution.model.architecture) if isinstance(solution.model, Net) else None
    size = (
        asdict(size_of(solution.model, solution.graph)) if isinstance(solution.model, Net) else None
    )
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
    meta["source"] |= {
        "fingerprint": graph.fingerprint,
        "inputs_fingerprint": inputs_fingerprint(graph),
    }
    return sealed(folder, meta, contents)


def _about(graph: Graph, solution: Solution, metric: str, how: str | None, seed: int) -> str:
    """The title of the history: the graph, the preset or method, and the final score."""
    scores = solution.scores.get(metric, {})
    split = "test" if "test" in scores else "val"
    final = f"{split} {metric} {100 * scores[split]:.2f} %" if split in scores else ""
    return " · ".join(part for part in (graph.name, how or "", f"seed {seed}", final) if part)


def sealed(folder: Path, meta: Meta, contents: dict[str, bytes]) -> Meta:
    """Write the folder with the checksums of its files in meta.json."""
    meta["files"] = {
        name: hashlib.sha256(content).hexdigest() for name, content in contents.items()
    }
    meta["sha256"] = digest(meta)
    contents["meta.json"] = to_json(meta).encode()
    try:
        write_folder(folder.resolve(), contents)
    except OSError as error:
        raise GassipError(
            f"cannot write {folder}: {error.strerror or error}; nothing was kept of it"
        ) from error
    return meta


def check_target(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that exists, unless it is a run that may be replaced."""
    real(folder)
    recover(folder)
    if not os.path.lexists(folder):
        return
    if not overwrite:
        raise GassipError(f"{folder} exists; choose another --out, or --overwrite to replace it")
    if not all((folder / name).is_file() for name in ("meta.json", "model.safetensors")):
        raise GassipError(
            f"{folder} is not the folder of a run, so it is not overwritten; choose another --out"
        )


def write_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Into a folder beside it, renamed at the end; an old run goes only when the new one is
    whole."""
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


def retrained(solution: Solution, metric: str) -> Standing:
    """The run's net as a row of the leaderboard."""
    assert isinstance(solution.model, Net)
    size = solution.size or size_of(solution.model, solution.graph)
    return Standing(
        name="retrained",
        kind="final",
        architecture=str(solution.model.architecture),
        val_score=solution.scores.get(metric, {}).get("val"),
        weights=size.params,
        edges=size.edges,
        macs=size.macs,
        seconds=solution.seconds,
    )


def decision_row(made: Decision) -> Meta:
    """As strict JSON has it: a statistic that is no finite number is a text."""
    rows = [
        {k: v if isinstance(v, str) or isfinite(v) else str(v) for k, v in row.items()}
        for row in made.tried
    ]
    return asdict(made) | {"tried": rows}


def to_json(value: object) -> str:
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def inputs_fingerprint(graph: Graph) -> str:
    """sha256 of what a net reads: features, edges, given weights; not labels or splits."""
    none = torch.zeros(graph.num_nodes, dtype=torch.bool)
    blank = replace(
        graph, y=none.long(), train_mask=none, val_mask=none, test_mask=none, class_names=()
    )
    return blank.fingerprint


def _meta(graph: Graph, plan: Plan, solution: Solution) -> Meta:
    assert isinstance(solution.model, Net)  # of the models there are, the one a folder can hold
    net = plain(solution.model.architecture)
    return _counts(graph, solution) | {
        "settings": plan.settings.flat(),
        "recipe": asdict(plan.recipe),
        "symmetrised": plan.symmetrised,
        "soft_edges": plan.soft_edges,
        "architecture": net.pop("ops"),
        "net": net
        | {"dropout": solution.model.dropout, "label_weight": solution.model.label_weight},
        "found": plain(plan.architecture),
        "size": asdict(solution.size or size_of(solution.model, solution.graph)),
        "seconds": {"search": plan.seconds, "retrain": solution.seconds},
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


def plain(fields: Architecture) -> Meta:
    """As JSON has it: lists for tuples."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(fields).items()
    }


def versions() -> dict[str, str]:
    return {
        "gassip": __version__,
        "torch": str(torch.__version__),
        "torch_geometric": metadata.version("torch_geometric"),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _graph_tensors(graph: Graph, plan: Plan, solution: Solution) -> dict[str, Tensor]:
    tensors = {
        "edge_index": solution.graph.edge_index,
        "edge_keep": plan.edge_keep,
        "edge_mask": plan.edge_mask,
    }
    if solution.graph.edge_weight is not None:
        tensors["edge_weight"] = solution.graph.edge_weight
    return tensors | {f"{split}_mask": graph.mask(split) for split in SPLITS}


def _input_tensors(graph: Graph, model: Model) -> dict[str, Tensor]:
    """The columns of x that the net reads, the labels, and the nodes' names if they have some."""
    x = model.picked(graph.x) if isinstance(model, Net) else graph.x
    tensors = {"y": graph.y}
    if isinstance(x, Csr):
        assert x.value is not None
        tensors |= {"x_data": x.value, "x_indices": x.col, "x_indptr": x.rowptr}
    else:
        tensors["x"] = x
    if graph.ids is not None:
        names = json.dumps(graph.ids).encode()
        tensors["ids"] = torch.frombuffer(bytearray(names), dtype=torch.uint8)
    return tensors


def _statistics(graph: Graph) -> Statistics:
    x = graph.x.to_scipy() if isinstance(graph.x, Csr) else graph.x.detach().cpu().numpy()
    return Statistics.of(x)


def _found_tensors(plan: Plan) -> dict[str, Tensor]:
    tensors = {f"weight_keep.{at}": keep for at, keep in enumerate(plan.weight_keep)}
    if plan.feature_index is not None:
        tensors["feature_index"] = plan.feature_index
    if plan.teacher is not None:
        tensors["teacher"] = plan.teacher
    tensors |= {f"first.{name}": value for name, value in plan.first_weights.items()}
    return tensors | {f"last.{name}": value for name, value in plan.last_weights.items()}


def _pack(tensors: Mapping[str, Tensor]) -> bytes:
    # clone: safetensors refuses two names for one memory
    return to_bytes(
        {
            name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
            for name, value in tensors.items()
        }
    )
