"""Write a run's folder (gassip.runs says what is in it): all of it, or nothing."""

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib import metadata
from math import isfinite
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gassip import __version__
from gassip.graph.csr import Csr
from gassip.graph.drift import Statistics
from gassip.graph.graph import SPLITS, Graph
from gassip.graph.structure import BESIDE
from gassip.nn.net import Architecture, Model, Net
from gassip.nn.size import packed, size_of, to_bytes
from gassip.runs.checked_meta import SCHEMA
from gassip.runs.checked_meta import Meta as Meta
from gassip.runs.folder import check_target as check_target
from gassip.runs.folder import sealed as sealed
from gassip.runs.folder import to_json as to_json
from gassip.runs.folder import write_folder as write_folder
from gassip.runs.format import DECISIONS, PREPARATION, STATISTICS, write_tensors
from gassip.runs.format import replace_file as replace_file
from gassip.runs.history import History, history_csv
from gassip.runs.history import history_svg as history_svg
from gassip.runs.read import FILES as FILES
from gassip.runs.read import Run as Run
from gassip.runs.read import open_run as open_run
from gassip.settings.training import Recipe
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
    source = _said_of(graph, plan, source)
    if graph.edge_weight is not None and not plan.weighted:
        graph = unweighted(graph)
    if plan.symmetrised or plan.degrees:  # a reader of the folder starts from the graph so made
        graph = plan.on(graph, all_edges=True)
    history = [{"phase": "search", **row} for row in plan.history]
    history += [{"phase": "retrain", **row} for row in retrain_history]
    board = final(plan.leaderboard, retrained(solution, metric))
    contents = {
        "model.safetensors": packed(solution.model),
        "graph.safetensors": to_bytes(_graph_tensors(graph, plan, solution)),
        "found.safetensors": to_bytes(_found_tensors(plan)),
        "inputs.safetensors": to_bytes(_input_tensors(graph, solution.model)),
        STATISTICS: write_tensors(_statistics(graph).to_tensors()),
        DECISIONS: to_json([decision_row(made) for made in plan.decisions]).encode(),
        LEADERBOARD: to_json(to_rows(board)).encode(),
    } | _drawn(history, _about(graph, solution, metric, preset, seed), solution)
    if graph.preparation is not None:
        contents[PREPARATION] = graph.preparation.to_json().encode()
    meta = _meta(graph, plan, solution) | {"seed": seed, "metric": metric, "preset": preset}
    meta |= {**(measured or {}), "budget": dict(budget or {})}
    meta["inputs_bytes"] = len(contents["inputs.safetensors"])
    meta["source"] = _source(source, graph)
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
    if solution.graph.structure == BESIDE:
        graph = graph.with_degrees
    rows = [{"phase": "retrain", **row} for row in history]
    masks = {f"{split}_mask": graph.mask(split) for split in SPLITS}
    weight = solution.graph.edge_weight
    edges = {"edge_index": solution.graph.edge_index}
    edges |= {} if weight is None else {"edge_weight": weight}
    contents = {
        "model.safetensors": packed(solution.model),
        "graph.safetensors": to_bytes(edges | masks),
    } | _drawn(rows, _about(graph, solution, metric, method, seed), solution)
    meta = _counts(graph, solution) | _shape(solution)
    meta |= {
        "method": method,
        "settings": dict(settings),
        "found": None,
        "seconds": dict(seconds),
        "seed": seed,
        "metric": metric,
        "preset": None,
        "inputs_bytes": None,
    }
    meta["source"] = _source(source, graph)
    return sealed(folder, meta, contents)


def _said_of(graph: Graph, plan: Plan, source: Mapping[str, object] | None) -> dict[str, object]:
    """Where the graph came from, and how the plan reads it."""
    said = dict(source or {})
    if graph.edge_weight is not None:
        said["weighted"] = plan.weighted
    if graph.structure is not None or plan.degrees:
        said["structure"] = graph.structure or BESIDE
    if plan.symmetrised:
        said["undirected"] = True
    return said


def _source(said: Mapping[str, object] | None, graph: Graph) -> Meta:
    """`source` of meta.json."""
    return {
        "kind": "memory",
        **(said or {}),
        "fingerprint": graph.fingerprint,
        "inputs_fingerprint": inputs_fingerprint(graph),
    }


def _drawn(rows: History, title: str, solution: Solution) -> dict[str, bytes]:
    """The history as a table and as a drawing."""
    return {
        "history.csv": history_csv(rows).encode(),
        "history.svg": history_svg(rows, title, solution.best_epoch),
    }


def _shape(solution: Solution) -> Meta:
    """Architecture and size, if the model is a `Net`."""
    if not isinstance(solution.model, Net):
        return {"architecture": None, "net": None, "size": None}
    net = plain(solution.model.architecture)
    size = asdict(size_of(solution.model, solution.graph))
    return {"architecture": net.pop("ops"), "net": net, "size": size}


def _about(graph: Graph, solution: Solution, metric: str, how: str | None, seed: int) -> str:
    """The title of the history: the graph, the preset or method, and the final score."""
    scores = solution.scores.get(metric, {})
    split = "test" if "test" in scores else "val"
    final = f"{split} {metric} {100 * scores[split]:.2f} %" if split in scores else ""
    return " · ".join(part for part in (graph.name, how or "", f"seed {seed}", final) if part)


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
        "recipe": plain(plan.recipe),
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


def plain(fields: Architecture | Recipe) -> Meta:
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
