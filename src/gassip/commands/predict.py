"""gassip predict: label the nodes of the run's graph or of another one."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gassip.commands.common import command, warn
from gassip.commands.graphs import as_weighted, training_graph, with_columns
from gassip.deploy.prediction import (
    answer_requests,
    check_flags,
    label_added,
    new_node_flags,
    tell,
)
from gassip.errors import GassipError

if TYPE_CHECKING:
    from gassip.graph.graph import Graph
    from gassip.runs.write import Run


def add(commands: Any) -> None:
    example = "gassip predict runs/mine --data tomorrow.npz --out labels.csv"
    parser = command(
        commands, run, "predict", "label the nodes of the run's graph or of another one", example
    )
    parser.add_argument(
        "folder", metavar="RUN", help="folder of `gassip search`, or file of `pack`"
    )
    parser.add_argument(
        "--data",
        metavar="PATH",
        help="another graph, with the same features; labels are not needed",
    )
    new_node_flags(parser)
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="CSV to write: id, label, probability; - is stdout (default with --json)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")


def run(args: argparse.Namespace) -> int:
    from gassip.deploy.labelling import label_text
    from gassip.deploy.row_runs import write_labels
    from gassip.deploy.stored import is_row_run
    from gassip.graph.store import is_graph_folder
    from gassip.runs.format import EXPORTED, read_meta

    check_flags(args)
    if args.json is not None:
        return answer_requests(args)
    if args.add is not None:
        return label_added(args)
    folder = Path(args.folder)
    meta = read_meta(folder)
    rows = is_row_run(meta)
    if rows and (args.data is None or is_graph_folder(Path(args.data))):
        write_labels(folder, args.data, args.out, warn)
        return 0
    exported = meta["schema"] == EXPORTED  # by `pack` or `export`
    without_torch = exported or rows or not _has_torch()
    tell(label_text(folder, args.data) if without_torch else _labels(folder, args.data), args.out)
    return 0


def _has_torch() -> bool:
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


def _labels(folder: Path, data: str | None) -> str:
    """A CSV of ids, labels and probabilities."""
    import torch

    from gassip.runs import write as artefact
    from gassip.runs.format import labels_csv
    from gassip.train.trainer import predict

    made = artefact.open_run(folder)
    graph, ids = _graph_to_label(made, data)
    best = torch.softmax(predict(made.model, graph).double(), 1).max(1)
    names = [made.meta["class_names"][k] for k in best.indices.tolist()]
    return labels_csv(ids, names, best.values.tolist())


def _graph_to_label(made: "Run", path: str | None) -> "tuple[Graph, Sequence[str]]":
    """The graph and its nodes' ids; where it is the one of the run, with the kept edges only and
    the run's labels."""
    from gassip.graph.drift import told_once
    from gassip.runs.format import on_other_graphs, only_here, structure_of
    from gassip.runs.write import inputs_fingerprint

    source = made.meta["source"]
    graph, ids = _own_graph(made) if path is None else _other_graph(made, path)
    lines = [] if path is None else list(graph.notes)
    if inputs_fingerprint(graph) == source.get("inputs_fingerprint"):
        graph = replace(graph, edge_index=made.edge_index, edge_weight=made.edge_weight)
        if made.model.label_weight:
            graph = replace(graph, y=made.labels(), train_mask=made.masks["train"])
    else:
        if path is not None:
            only_here(structure_of(made.meta), graph.ids)
        lines = [*told_once(lines, _drift(made, graph)), on_other_graphs(made.meta) or ""]
    for line in filter(None, lines):
        warn(line)
    return graph, ids


def _drift(made: "Run", graph: "Graph") -> list[str]:
    """What differs from the training graph."""
    from gassip.graph.csr import Csr
    from gassip.graph.drift import drift

    index, then = made.model.feature_index, made.meta["edges_total"] / max(made.meta["nodes"], 1)
    return drift(
        graph.x.to_scipy() if isinstance(graph.x, Csr) else graph.x.numpy(),
        made.statistics,
        degree=(graph.num_edges / graph.num_nodes, then),
        preparation=made.preparation,
        columns=None if index is None else index.numpy(),
    )


def _own_graph(made: "Run") -> "tuple[Graph, Sequence[str]]":
    from gassip.graph.parts import row_numbers

    graph = training_graph(made, "cpu")
    return graph, graph.ids or row_numbers(graph.num_nodes)


def _other_graph(made: "Run", path: str) -> "tuple[Graph, Sequence[str]]":
    """Read as for a search, but without asking for labels."""
    from gassip.graph import datasets as data
    from gassip.graph import files
    from gassip.graph.graph import Graph
    from gassip.graph.structure import made_features
    from gassip.runs.format import given_features, structure_of

    parts = data.read_inputs(path, made.preparation)
    with files.naming(path):
        if parts.bare:
            kind = structure_of(made.meta)
            weight, ids = parts.edge_weight, parts.node_ids()
            parts = replace(parts, x=made_features(kind, parts.edge_index, weight, ids))
        graph = Graph.inputs(
            parts.x,
            parts.edge_index,
            edge_weight=parts.edge_weight,
            class_names=made.meta["class_names"],
            ids=parts.ids,
            name=Path(path).stem,
            undirected=bool(made.meta["source"].get("undirected")),
            normalize=bool(made.meta["source"].get("normalize")),
        )
        graph = replace(as_weighted(graph, made.meta["source"]), notes=parts.notes)
        if graph.num_features != given_features(made.meta):
            raise GassipError(
                f"x has {graph.num_features} features; the run's graph has "
                f"{given_features(made.meta)}"
            )
        graph = with_columns(graph, made.meta["source"])
    return graph, parts.node_ids()
