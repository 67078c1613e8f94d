"""Graphs as files: bytes mutated, arrays and cells replaced; read by all readers."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from gassip.deploy.runtime import Model, load
from gassip.graph.datasets import read, read_inputs
from gassip.graph.files import read_inputs as read_light
from gassip.graph.graph import Graph
from tests.commands.test_bad_calls import place as place
from tests.fuzz.border import CASES, MORE, PARTS, mutated, names, refused
from tests.fuzz.values import CELLS, arrays
from tests.train.test_divergence import table, write


def valid(folder: Path, graph: Graph, kind: str) -> Path:
    """The graph as a file of that kind."""
    if kind == "npz":
        return write(folder / "g.npz", graph)
    if kind == "pt":
        given = {"x": graph.x, "edge_index": graph.edge_index, "y": graph.y}
        torch.save(given, folder / "g.pt")
        return folder / "g.pt"
    labels = ["", *(f"c{k}" for k in graph.y.tolist()[1:])]
    rows = [["id", "label", "split", "a", "b"]]
    for at, (label, x) in enumerate(zip(labels, table(graph), strict=True)):
        split = ("train", "val", "test", "")[at // 3 % 4]
        rows.append([f"n{at}", label, split, f"{x[0]:.4f}", ("red", "blue")[at % 2]])
    ends = [["source", "target", "weight"]]
    ends += [[f"n{a}", f"n{b}", "1.5"] for a, b in graph.edge_index.T.tolist()]
    for name, lines in (("nodes", rows), ("edges", ends)):
        if kind == "csv":
            text = "\n".join(",".join(line) for line in lines)
            (folder / f"{name}.csv").write_text(text + "\n")
        else:
            parquet(folder / f"{name}.parquet", lines)
    return folder


NUMBERS = ("a", "weight")


def parquet(path: Path, lines: list[list[str]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    header, *rows = lines
    columns = dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))
    typed = {name: [float(v) for v in own] for name, own in columns.items() if name in NUMBERS}
    pq.write_table(pa.table(columns | typed), path)


def read_all(path: Path, model: Model) -> str:
    """Read for a search, for a prediction, and by the runtime; what the first of them said."""
    if path.suffix != ".pt":
        refused(f"runtime {path}", lambda: run_light(path, model))
    refused(f"predict {path}", lambda: inputs_of(path))
    return refused(f"search {path}", lambda: read(path))


def inputs_of(path: Path) -> None:
    parts = read_inputs(path)
    Graph.inputs(
        parts.x, parts.edge_index, edge_weight=parts.edge_weight, class_names=("a", "b", "c")
    )


def run_light(path: Path, model: Model) -> None:
    parts = read_light(path)
    scores = model.run(model.prepare(parts.x, parts.edge_index, parts.edge_weight))
    assert scores.shape[0] == parts.x.shape[0]


@pytest.fixture(scope="module")
def model(place: Path) -> Model:
    return load(place / "run")


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", ["npz", "pt", "csv", "parquet"])
def test_bytes_of_files(
    make_graph: Callable[..., Graph], tmp_path: Path, model: Model, kind: str, part: int
) -> None:
    rng = random.Random(f"{kind} {part}")
    path = valid(tmp_path, make_graph(), kind)
    assert read_all(path, model) == ""
    before = names(tmp_path)
    files = sorted(own for own in tmp_path.iterdir())
    kept = {own: own.read_bytes() for own in files}
    for _ in range(MORE * CASES[kind] // PARTS):
        bad = rng.choice(files)
        bad.write_bytes(mutated(kept[bad], rng))
        read_all(path, model)
        bad.write_bytes(kept[bad])
    assert names(tmp_path) == before


@pytest.mark.parametrize("part", range(PARTS))
def test_arrays_of_npz_files(
    make_graph: Callable[..., Graph], tmp_path: Path, model: Model, part: int
) -> None:
    graph = make_graph()
    masks = ("train_mask", "val_mask", "test_mask")
    sparse = ("x_data", "x_indices", "x_indptr", "x_shape")
    keys = ("x", "edge_index", "y", "edge_weight", "class_names", *masks, *sparse)
    pool = arrays(graph.num_nodes, graph.num_edges)
    cases = [(key, at) for key in keys for at in range(len(pool))]
    shapes = [case for case in cases if case[0] == "x_shape"]  # the last are hostile
    random.Random(0).shuffle(cases)
    chosen = cases[:: max(1, 6 // MORE)] + shapes[-6:]
    for key, at in chosen[part::PARTS]:
        changed = {key: pool[at]}
        if key.startswith("x_"):
            changed = dict(zip(sparse, sparse_parts(graph.num_nodes), strict=True)) | changed
        path = write(tmp_path / "g.npz", graph, **changed)
        read_all(path, model)


def sparse_parts(n: int) -> list[np.ndarray]:
    return [np.ones(n), np.arange(n) % 3, np.arange(n + 1), np.array([n, 6])]


@pytest.mark.parametrize("part", range(PARTS))
def test_cells_of_tables(
    make_graph: Callable[..., Graph], tmp_path: Path, model: Model, part: int
) -> None:
    rng = random.Random(part)
    valid(tmp_path, make_graph(), "csv")
    kept = {own: own.read_text().splitlines() for own in sorted(tmp_path.iterdir())}
    for _ in range(MORE * CASES["cells of tables"] // PARTS):
        path = rng.choice(list(kept))
        lines = [line.split(",") for line in kept[path]]
        for _ in range(rng.choice((1, 1, 2, 40))):
            row = rng.choice(lines)
            row[rng.randrange(len(row))] = rng.choice(CELLS)
        path.write_bytes("\n".join(map(",".join, lines)).encode(errors="surrogatepass"))
        read_all(tmp_path, model)
        path.write_text("\n".join(kept[path]))


TENSORS: dict[str, Callable[[], object]] = {
    "a list": lambda: [1, 2],
    "a text": lambda: "x",
    "bfloat16": lambda: torch.zeros(18, 6, dtype=torch.bfloat16),
    "complex": lambda: torch.zeros(18, 6, dtype=torch.complex64),
    "sparse": lambda: torch.eye(18).to_sparse(),
    "sparse csr": lambda: torch.eye(18).to_sparse_csr(),
    "empty": lambda: torch.zeros(0),
    "0-d": lambda: torch.tensor(3),
    "meta": lambda: torch.zeros(18, 6, device="meta"),
    "a view": lambda: torch.zeros(1).expand(2**34, 6),
    "quantised": lambda: torch.quantize_per_tensor(torch.zeros(18, 6), 1.0, 0, torch.qint8),
    "infinite": lambda: torch.full((18, 6), float("inf")),
    "whole": lambda: torch.zeros(18, 6, dtype=torch.int64),
    "large": lambda: torch.full((2, 40), 2**62),
    "negated": lambda: torch.full((2, 40), -5),
    "requires a gradient": lambda: torch.zeros(18, 6, requires_grad=True),
}


@pytest.mark.parametrize("key", ["x", "edge_index", "y", "edge_weight", "train_mask"])
@pytest.mark.filterwarnings("ignore")  # torch's own, of quantised and sparse tensors
def test_tensors_of_pt_files(
    make_graph: Callable[..., Graph], tmp_path: Path, model: Model, key: str
) -> None:
    graph = make_graph()
    given = {"x": graph.x, "edge_index": graph.edge_index, "y": graph.y}
    for value in TENSORS.values():
        torch.save(given | {key: value()}, tmp_path / "g.pt")
        read_all(tmp_path / "g.pt", model)
    torch.save([1, 2], tmp_path / "g.pt")
    assert "only a PyG Data or a dict" in read_all(tmp_path / "g.pt", model)
