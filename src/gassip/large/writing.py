"""Graphs in memory, drawn or read, written as graph folders."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gassip.graph import files
from gassip.graph.csr import Csr
from gassip.graph.datasets import build, read_parts
from gassip.graph.store import beside, index_type, write_ids, write_meta
from gassip.large.block_model import BlockModel, Drawn
from gassip.large.csr import counted, locality_order, permuted_rows, write_csr

if TYPE_CHECKING:
    from gassip.graph.graph import Graph

SPLITS = ("train", "val", "test")  # 1, 2, 3 in split.npy


def import_file(path: Path, out: Path, *, overwrite: bool = False, seed: int = 0) -> None:
    """A .npz, or a folder of tables that fits into memory."""
    with files.naming(path):
        parts = read_parts(path, labels=True)
    write_parts(parts, out, name=path.stem, overwrite=overwrite, seed=seed)


def write_parts(
    parts: files.Parts, out: Path, *, name: str, overwrite: bool = False, seed: int = 0
) -> None:
    """A graph in memory as a folder; checked and cleaned like every other graph."""
    graph = build(parts, name=name, seed=seed, undirected=False, normalize=False)
    write_graph(graph, out, name=name, overwrite=overwrite)


def write_graph(graph: "Graph", out: Path, *, name: str, overwrite: bool = False) -> None:
    """A checked graph as a folder."""
    x = graph.x.to_scipy().toarray() if isinstance(graph.x, Csr) else graph.x.numpy()
    sender, receiver = graph.edge_index.numpy()
    by_receiver = np.lexsort((sender, receiver))
    indptr = counted(graph.num_nodes, receiver)
    indices = sender[by_receiver].astype(index_type(graph.num_nodes))
    weight = None if graph.edge_weight is None else graph.edge_weight.numpy()[by_receiver]
    split = np.zeros(graph.num_nodes, dtype=np.int8)
    for number, name_of_split in enumerate(SPLITS, 1):
        split[graph.mask(name_of_split).numpy()] = number
    with beside(out, overwrite=overwrite) as folder:
        order = locality_order(indptr, indices)
        write_csr(folder, indptr, indices, weight, order)
        permuted_rows(folder, "x", np.asarray(x, dtype=np.float32), order)
        permuted_rows(folder, "y", graph.y.numpy().astype(np.int32), order)
        permuted_rows(folder, "split", split, order)
        ids = graph.ids or tuple(str(row) for row in range(graph.num_nodes))
        write_ids(folder, [ids[k] for k in order])
        write_meta(
            folder,
            name=name,
            features=x.shape[1],
            class_names=graph.class_names,
            notes=graph.notes,
            preparation=graph.preparation,
        )


def write_block_model(
    model: BlockModel, drawn: Drawn, best: float, out: Path, *, overwrite: bool = False
) -> None:
    """A drawn graph as a folder; nodes are called by their numbers."""
    ends = np.concatenate([drawn.pairs, drawn.pairs[:, ::-1]])
    ends = ends[np.lexsort((ends[:, 0], ends[:, 1]))]
    indptr = counted(model.nodes, ends[:, 1])
    indices = ends[:, 0].astype(index_type(model.nodes))
    note = f"block model, best possible test accuracy {best:.4f}"
    with beside(out, overwrite=overwrite) as folder:
        order = locality_order(indptr, indices)
        write_csr(folder, indptr, indices, None, order)
        permuted_rows(folder, "x", drawn.x, order)
        permuted_rows(folder, "y", drawn.y.astype(np.int32), order)
        permuted_rows(folder, "split", drawn.split, order)
        write_meta(
            folder,
            name=out.name.removesuffix(".graph"),
            features=model.features,
            class_names=tuple(f"class {k}" for k in range(model.classes)),
            notes=(note,),
            more={"best_accuracy": best},
        )
