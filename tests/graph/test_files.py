"""A user's own .npz and folders of CSV, as arrays, and what is refused."""

import csv
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse as sp

from gassip.errors import GassipError
from gassip.graph import files
from gassip.graph.files import Parts, naming, read_inputs, read_parts

X = np.arange(1.0, 13.0, dtype=np.float32).reshape(6, 2)
EDGES = np.array([[0, 1, 3], [1, 2, 4]])
Y = np.array([0, 0, 0, 1, 1, 1])
MASKS = {
    f"{split}_mask": np.isin(np.arange(6), at)
    for split, at in (("train", [0, 3]), ("val", [1]), ("test", [5]))
}
PLAIN: dict[str, np.ndarray] = {"x": X, "edge_index": EDGES, "y": Y, **MASKS}
SPARSE = sp.csr_array(np.eye(6, 20))
CSR = {
    "x_data": SPARSE.data,
    "x_indices": SPARSE.indices,
    "x_indptr": SPARSE.indptr,
    "x_shape": np.array([6, 20]),
}
NO_X = {key: value for key, value in PLAIN.items() if key != "x"}


def write_npz(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    np.savez(folder / "mine.npz", **arrays)  # type: ignore[arg-type]
    return folder / "mine.npz"


def refused(path: Path, *parts: str, labels: bool = True) -> None:
    """Lines, at most ten, each with the path the user gave; each of `parts` in one of them."""
    with pytest.raises(GassipError) as caught, naming(path):
        read_parts(path, labels=labels)
    message = str(caught.value)
    lines = message.splitlines()
    assert len(lines) <= 10 and tuple(lines) == caught.value.lines
    assert all(line.startswith(f"{path}: ") and len(line) < 500 for line in lines)
    for part in parts:
        assert part in message


def test_neither_torch_nor_pyg_is_imported() -> None:
    code = (
        "import sys, gassip.graph.files; sys.exit('torch' in sys.modules or 'torch_geometric' "
        "in sys.modules)"
    )
    source = str(Path(files.__file__).parents[2])
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": source}).returncode == 0


# .npz


def test_npz(tmp_path: Path) -> None:
    more = {"edge_weight": np.array([1.0, 2.0, 3.0]), "class_names": np.array(["cat", "dog"])}
    parts = read_parts(write_npz(tmp_path, PLAIN | more))
    assert parts.class_names == ("cat", "dog") and parts.ids is None
    for found, given in (
        (parts.x, X),
        (parts.edge_index, EDGES),
        (parts.y, Y),
        (parts.edge_weight, [1, 2, 3]),
    ):
        assert np.array_equal(found, given)  # type: ignore[arg-type]
    assert parts.masks is not None
    for mask, expected in zip(parts.masks, MASKS.values(), strict=True):
        assert mask is not None and np.array_equal(mask, expected)


def test_npz_sparse(tmp_path: Path) -> None:
    x = read_parts(write_npz(tmp_path, NO_X | CSR)).x
    assert sp.issparse(x) and x.shape == (6, 20) and (x != SPARSE).nnz == 0


def test_npz_other_keys_are_not_read(tmp_path: Path) -> None:
    path = write_npz(tmp_path, PLAIN | {"notes": np.array([{"any": 1}], dtype=object)})
    assert np.array_equal(read_parts(path).x, X)


def _csr(**changes: object) -> dict[str, np.ndarray]:
    return NO_X | CSR | {f"x_{key}": np.array(value) for key, value in changes.items()}


BAD_NPZ: dict[str, tuple[dict[str, np.ndarray], str]] = {
    "no edge_index": ({"x": X, "y": Y}, "edge_index is missing"),
    "no y": ({"x": X, "edge_index": EDGES}, "y is missing"),
    "x by another name": (NO_X | {"X": X}, "x is missing, and 'X' is not read"),
    "objects": (
        PLAIN | {"y": np.array([None] * 6, dtype=object)},
        "y is damaged or holds Python objects",
    ),
    "class names are numbers": (
        PLAIN | {"class_names": np.arange(2)},
        "class_names must be a row of texts",
    ),
    "no indices": (NO_X | {"x_data": X}, "x_indices is missing"),
    "indptr falls": (
        _csr(indptr=[0, 5, 1, 3, 4, 5, 6]),
        "x_indptr must rise from 0 to 6 in 6 steps",
    ),
    "indptr too short": (_csr(indptr=[0, 6]), "x_indptr must rise"),
    "indptr ends elsewhere": (_csr(indptr=[0, 1, 2, 3, 4, 5, 9]), "x_indptr must rise"),
    "indptr starts elsewhere": (_csr(indptr=[1, 1, 2, 3, 4, 5, 6]), "x_indptr must rise"),
    "indptr empty": (_csr(indptr=np.zeros(0, dtype=int)), "x_indptr must rise"),
    "column too high": (
        _csr(indices=[0, 1, 2, 3, 4, 10**9]),
        "x_indices refers to column 1000000000, but there are 20",
    ),
    "column negative": (_csr(indices=[0, 1, 2, 3, 4, -1]), "x_indices refers to column -1"),
    "indices are fractions": (
        _csr(indices=[0.0, 1, 2, 3, 4, 5]),
        "x_indices must be a row of whole numbers",
    ),
    "data too short": (_csr(data=[1.0]), "x_data must hold one number for each of the 6 entries"),
    "data is text": (_csr(data=["a"] * 6), "x_data must hold one number"),
    "shape of three": (_csr(shape=[6, 20, 1]), "x_shape must be [rows, columns]"),
    "shape negative": (_csr(shape=[6, -20]), "x_shape must be [rows, columns]"),
    "shape huge": (_csr(shape=[6, 2**40]), "x_shape must be [rows, columns]"),
}


@pytest.mark.parametrize("case", BAD_NPZ)
def test_bad_npz(case: str, tmp_path: Path) -> None:
    arrays, message = BAD_NPZ[case]
    refused(write_npz(tmp_path, arrays), message)


class Hostile:
    """Unpickled freely, it makes the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.path), "w")


def test_not_an_npz(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    for content in (
        b"",
        b"hello",
        pickle.dumps(Hostile(tmp_path / "made")),
        pickle.dumps({"x": 1}),
    ):
        path.write_bytes(content)
        refused(path, "not an npz archive")
    assert not (tmp_path / "made").exists()
    with path.open("wb") as file:
        np.save(file, X)
    refused(path, "one bare array")


def test_other_paths(tmp_path: Path) -> None:
    refused(tmp_path / "none.npz", "no such file or folder")
    (tmp_path / "mine.mat").write_text("")
    refused(
        tmp_path / "mine.mat",
        "expected a .npz file, a .pt file or a folder that holds nodes.csv and edges.csv",
    )
    (tmp_path / "mine.pt").write_text("")
    refused(tmp_path / "mine.pt", "not read without torch")


# A folder of CSV

NODES = """id,age,label,split,height
anna,1,cat,train,0.5
"b, c",2,dog,train,-1e3
ß,3,cat,val,7
d,4,,,8
e,5,10,train,9
f,6,9,test,9
g,6,9,train,9
"""
LINKS = 'source,target\nanna,"b, c"\nß,d\ne,anna\n'


def write_folder(
    folder: Path, nodes: str | bytes | None = NODES, edges: str | bytes | None = LINKS
) -> Path:
    for name, content in (("nodes.csv", nodes), ("edges.csv", edges)):
        if content is not None:
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def test_csv(tmp_path: Path) -> None:
    parts = read_parts(write_folder(tmp_path))
    assert parts.class_names == ("9", "10", "cat", "dog")  # numbers by value, then texts
    assert parts.ids == ("anna", "b, c", "ß", "d", "e", "f", "g") == parts.node_ids()
    assert parts.y is not None and parts.y.tolist() == [2, 3, 2, -1, 1, 0, 0]
    assert parts.preparation is not None and parts.preparation.feature_names == ("age", "height")
    np.testing.assert_allclose(parts.x.mean(0), 0, atol=1e-6)
    plain = read_parts(tmp_path, prepared=False)
    assert isinstance(plain.x, np.ndarray) and plain.x[:2].tolist() == [[1.0, 0.5], [2.0, -1000.0]]
    assert parts.edge_index.tolist() == [[0, 2, 4], [1, 3, 0]]
    assert parts.masks is not None and [
        np.flatnonzero(m).tolist() for m in parts.masks if m is not None
    ] == [
        [0, 1, 4, 6],
        [2],
        [5],
    ]
    assert parts.edge_weight is None


def test_csv_as_spreadsheets_write_it(tmp_path: Path) -> None:
    weighted = LINKS.replace("\n", ",0.5\n").replace("target,0.5", "target,weight")
    windows = [
        b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode() + b"\r\n"
        for text in (NODES, weighted)
    ]
    plain, theirs = (
        read_parts(write_folder(tmp_path, NODES, weighted)),
        read_parts(write_folder(tmp_path, *windows)),
    )
    assert np.array_equal(plain.x, theirs.x) and np.array_equal(plain.edge_index, theirs.edge_index)
    assert plain.ids == theirs.ids and plain.class_names == theirs.class_names
    assert plain.edge_weight is not None and plain.edge_weight.tolist() == [0.5] * 3


def test_csv_without_a_split(tmp_path: Path) -> None:
    nodes = "id,label,a\nx,c,1\ny,d,2\n"
    assert read_parts(write_folder(tmp_path, nodes, "source,target\nx,y\n")).masks is None
    empty = "id,label,split,a\nx,c,,1\ny,d,,2\n"
    assert read_parts(write_folder(tmp_path, empty, "source,target\nx,y\n")).masks is None


BAD_CSV: dict[str, tuple[str | bytes | None, str | bytes | None, str]] = {
    "not a number": (
        NODES.replace("d,4", "d,abc"),
        LINKS,
        "nodes.csv line 5: column age holds 'abc', not a number",
    ),
    "underscore": (NODES.replace("d,4", "d,1_000"), LINKS, "line 5: column age holds '1_000'"),
    "infinite": (NODES.replace("d,4", "d,inf"), LINKS, "nodes.csv line 5: column age holds 'inf'"),
    "beyond float32": (
        NODES.replace(",7", ",1e99"),
        LINKS,
        "nodes.csv line 4: column height holds '1e99'",
    ),
    "id twice": (
        NODES.replace("d,4", "anna,4"),
        LINKS,
        "nodes.csv line 5: id 'anna' was given before",
    ),
    "unknown split": (
        NODES.replace("val", "dev"),
        LINKS,
        "nodes.csv line 4: column split holds 'dev', not train, val",
    ),
    "too few cells": (
        NODES.replace("d,4,", "d,"),
        LINKS,
        "nodes.csv line 5: 4 cells, but the header names 5 columns",
    ),
    "no id": (
        NODES.replace("id,", "name,"),
        LINKS,
        "nodes.csv has no column id; its header is 'name,age,label",
    ),
    "no label": (NODES.replace("label", "class"), LINKS, "nodes.csv has no column label"),
    "column twice": (NODES.replace("height", "age"), LINKS, "nodes.csv has two columns 'age'"),
    "no rows": ("id,label,a\n", LINKS, "nodes.csv has a header but no rows"),
    "empty nodes": ("", LINKS, "nodes.csv is empty"),
    "empty edges": (NODES, b"", "edges.csv is empty"),
    "no nodes.csv": (
        None,
        LINKS,
        "nodes.csv is missing; the folder must hold nodes.csv and edges.csv",
    ),
    "no edges.csv": (NODES, None, "edges.csv is missing"),
    "unknown source": (
        NODES,
        LINKS.replace("ß", "x9"),
        "edges.csv line 3: source 'x9' is not an id in nodes.csv",
    ),
    "unknown target": (
        NODES,
        LINKS.replace(",d", ", d"),
        "edges.csv line 3: target ' d' is not an id",
    ),
    "no target": (NODES, "source,weight\nanna,1\n", "edges.csv has no column target"),
    "bad weight": (
        NODES,
        "source,target,weight\nanna,d,x\n",
        "edges.csv line 2: column weight holds 'x', not a number",
    ),
    "latin-1": (NODES.encode("latin-1"), LINKS, "nodes.csv is not UTF-8 text"),
    "open quote": (NODES, LINKS + '"anna,d\n', "edges.csv line 5: unexpected end of data"),
    "long cell": (
        NODES,
        LINKS + "a" * (csv.field_size_limit() + 1),
        "edges.csv line 5: field larger than field limit",
    ),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_bad_csv(case: str, tmp_path: Path) -> None:
    nodes, edges, message = BAD_CSV[case]
    refused(write_folder(tmp_path, nodes, edges), message)


# Inputs alone


def no_labels(parts: Parts) -> bool:
    return parts.y is None and parts.masks is None and parts.class_names is None


def test_inputs_of_npz_need_no_labels(tmp_path: Path) -> None:
    weight = np.array([1.0, 2.0, 3.0])
    bare = read_inputs(write_npz(tmp_path, {"x": X, "edge_index": EDGES, "edge_weight": weight}))
    assert no_labels(bare) and bare.node_ids() == ("0", "1", "2", "3", "4", "5")
    odd = {"y": np.array([None] * 6, dtype=object), "val_mask": np.zeros(2)}  # not even looked at
    labelled = read_inputs(str(write_npz(tmp_path, PLAIN | odd | {"edge_weight": weight})))
    assert no_labels(labelled)
    for name in ("x", "edge_index", "edge_weight"):
        assert np.array_equal(getattr(bare, name), getattr(labelled, name))
    refused(
        write_npz(tmp_path, {"x": X, "y": Y}),
        "edge_index is missing; a graph needs edge_index, and x",
        labels=False,
    )
    last = int(EDGES.max()) + 1
    for more, nodes in (({}, last), ({"num_nodes": np.array(9)}, 9)):
        bare = read_inputs(write_npz(tmp_path, {"edge_index": EDGES, **more}))
        assert bare.bare and bare.x.shape == (nodes, 0)


def test_inputs_of_csv_need_no_labels(tmp_path: Path) -> None:
    full = read_parts(write_folder(tmp_path))
    rows = [line.rsplit(",", 3) for line in NODES.splitlines()]  # id and age; label; split; height
    bare = "".join(f"{first},{height}\n" for first, _, _, height in rows)
    for nodes in (bare, NODES.replace("val", "dev")):  # the column split is passed over too
        parts = read_inputs(write_folder(tmp_path, nodes), full.preparation)
        assert no_labels(parts) and parts.ids == full.ids
        assert np.array_equal(parts.x, full.x) and np.array_equal(parts.edge_index, full.edge_index)
    refused(write_folder(tmp_path, bare.replace("id,", "name,")), "no column id", labels=False)
    refused(
        write_folder(tmp_path, bare.replace("d,4", "anna,4")),
        "'anna' was given before",
        labels=False,
    )


def test_errors_of_inputs_name_the_path(tmp_path: Path) -> None:
    with pytest.raises(GassipError, match=r"^nowhere/graph.npz: no such file or folder$"):
        read_inputs("nowhere/graph.npz")
