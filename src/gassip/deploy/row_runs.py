"""Runs of a search on rows: their graph stays in its folder. Labels by blocks of rows, no torch.

    meta.json["rows"]     graph and hops (folders), steps, precision, edges (given or both)

Shapes: N nodes, C classes.
"""

import csv
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from gassip.deploy.by_rows import RowModel
from gassip.deploy.numpy_layers import layers_of
from gassip.errors import GassipError
from gassip.graph.store import GraphFolder, is_graph_folder, parquet
from gassip.large.adjacency import stored_edges
from gassip.large.hops import Hops, needed, open_hops, propagate
from gassip.runs.format import label_weight, no_formula, read_meta, read_tensors, unpack


def is_row_run(meta: Mapping[str, Any]) -> bool:
    return isinstance(meta.get("rows"), dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class RowRun:
    """A run and the graph that it labels."""

    model: RowModel
    class_names: tuple[str, ...]
    graph: GraphFolder

    def lines(self) -> Iterator[tuple[Sequence[str], np.ndarray, np.ndarray]]:
        """Ids, classes and probabilities of consecutive nodes."""
        for start, scores in self.model.blocks():
            grown = np.exp(scores - scores.max(1, keepdims=True).astype(np.float64))
            probs = grown / grown.sum(1, keepdims=True)
            ids = ids_of(self.graph, start, start + len(scores))
            yield ids, scores.argmax(1), probs.max(1)

    def write_csv(self, out: TextIO) -> int:
        """id, label, probability: the number of nodes."""
        writer, count = csv.writer(out, lineterminator="\n"), 0
        writer.writerow(("id", "label", "probability"))
        names = [no_formula(name) for name in self.class_names]
        for ids, classes, probs in self.lines():
            writer.writerows(
                (no_formula(own), names[label], f"{prob:.6f}")
                for own, label, prob in zip(ids, classes, probs, strict=True)
            )
            count += len(ids)
        return count


def load_row_run(folder: str | Path, data: str | Path | None = None, threads: int = 1) -> RowRun:
    """The run on its own graph folder, or on another one, whose hops are computed if they are not
    there."""
    folder = Path(folder)
    meta = read_meta(folder)
    if not is_row_run(meta):
        raise GassipError(f"{folder} is no run of a search on rows; gassip.runtime reads it")
    state = read_tensors(folder, "model.safetensors", meta)
    layers = layers_of(meta["architecture"], unpack(state, meta, None), len(meta["class_names"]))
    told, own = meta["rows"], data is None
    path = Path(told["graph"] if data is None else data)
    if not is_graph_folder(path):
        raise GassipError(f"{path} is no graph folder; the run {folder} was made from one")
    graph = GraphFolder.open(path)
    if own and graph.meta["files"] != told["files"]:
        raise GassipError(f"{path} is no longer the graph that {folder} was made from")
    if int(graph.meta["features"]) != meta["features"]:
        raise GassipError(f"{path} has {graph.meta['features']} features, not {meta['features']}")
    hops = _hops(graph, told, own)
    edges = stored_edges(graph, told["edges"], hops.path)
    if needed(hops).blocks:
        propagate(hops, edges, threads=threads)
    weight = label_weight(meta) if own else 0.0
    model = RowModel(
        layers=layers,
        hops=hops,
        edges=edges,
        label_weight=weight,
        labels=known_labels(graph) if weight else None,
        threads=threads,
    )
    return RowRun(model=model, class_names=tuple(meta["class_names"]), graph=graph)


def _hops(graph: GraphFolder, told: Mapping[str, Any], own: bool) -> Hops:
    path = Path(told["hops"]) if own else graph.path / "hops" / hops_name(told)
    return open_hops(
        graph, path, steps=told["steps"], precision=told["precision"], edges_key=told["edges"]
    )


def hops_name(told: Mapping[str, Any]) -> str:
    return f"{told['edges']}-{told['precision']}"


def known_labels(graph: GraphFolder) -> np.ndarray:
    """Of training nodes, -1 elsewhere, [N]."""
    return np.where(graph.mask(1), np.asarray(graph.array("y")), -1)


def ids_of(graph: GraphFolder, start: int, stop: int) -> Sequence[str]:
    """What the user calls some consecutive nodes."""
    if "ids.parquet" not in graph.meta["files"]:
        return [str(row) for row in range(start, stop)]
    table = parquet().read_table(graph.path / "ids.parquet", memory_map=True)
    return [str(own) for own in table["id"].slice(start, stop - start).to_pylist()]


def write_labels(folder: Path, data: str | Path | None, out: str) -> None:
    """A CSV of all nodes, block by block, beside the file and then renamed; - is stdout."""
    run = load_row_run(folder, data)
    if out == "-":
        run.write_csv(sys.stdout)
        return
    path = Path(out)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("w", encoding="utf-8", newline="") as file:
            count = run.write_csv(file)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    print(f"written to {out}: {count} nodes")
