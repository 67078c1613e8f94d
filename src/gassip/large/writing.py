"""Graphs in memory, drawn or read, written as graph folders."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gassip.graph import files
from gassip.graph.csr import Csr
from gassip.graph.datasets import build, read_parts
from gassip.graph.store import beside, write_ids, write_meta
from gassip.large.arrays import permuted_rows
from gassip.large.block_model import BlockModel, Drawn, parts
from gassip.large.csr import Edge, ordered_edges, places, sorted_edges

if TYPE_CHECKING:
    from gassip.graph.graph import Graph

SPLITS = ("train", "val", "test")  # 1, 2, 3 in split.npy
MEMORY = 2**34  # bytes: the graph is in memory as it is


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
    weight = None if graph.edge_weight is None else graph.edge_weight.numpy()
    split = np.zeros(graph.num_nodes, dtype=np.int8)
    for number, name_of_split in enumerate(SPLITS, 1):
        split[graph.mask(name_of_split).numpy()] = number
    rows = {"x": np.asarray(x, dtype=np.float32), "y": graph.y.numpy().astype(np.int32)}
    with beside(out, overwrite=overwrite) as folder:
        given = [(receiver, sender, weight)]
        place = write_arrays(folder, given, rows | {"split": split}, weight is not None)
        ids = graph.ids or tuple(str(row) for row in range(graph.num_nodes))
        write_ids(folder, [ids[k] for k in np.argsort(place)])
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
    note = f"block model, best possible test accuracy {best:.4f}"
    rows = {"x": drawn.x, "y": drawn.y.astype(np.int32), "split": drawn.split}
    with beside(out, overwrite=overwrite) as folder:
        write_arrays(folder, both_directions(drawn), rows, symmetric=True)
        write_meta(
            folder,
            name=out.name.removesuffix(".graph"),
            features=model.features,
            class_names=tuple(f"class {k}" for k in range(model.classes)),
            notes=(note,),
            more={"best_accuracy": best},
        )


def both_directions(drawn: Drawn) -> Iterator[Edge]:
    for part in parts(len(drawn.pairs)):
        one, other = drawn.pairs[part].T.astype(np.int64)
        yield one, other, None
        yield other, one, None


def write_arrays(
    folder: Path,
    edges: Iterable[Edge],
    rows: Mapping[str, np.ndarray],
    weighted: bool = False,
    symmetric: bool = False,
) -> np.ndarray:
    """Edges and rows of nodes, renumbered for locality; where each node came to stand."""
    nodes = len(rows["y"])
    sorted_edges(folder, "raw-", nodes, weighted, edges)
    found = places(folder, "raw-", symmetric, MEMORY)
    place = np.arange(nodes) if isinstance(found, str) else found
    ordered_edges(folder, "raw-", place, weighted)
    for name, values in rows.items():
        permuted_rows(folder, name, values, place, max(values.nbytes, 1))
    for path in folder.glob("raw-*.npy"):
        path.unlink()
    return place
