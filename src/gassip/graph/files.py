"""A user's own files, as arrays: a .npz, or a folder with nodes.csv and edges.csv.

numpy is all this needs, and scipy for sparse features. No file is trusted: what a reader cannot
make sense of ends in
one line, and nothing a file holds is executed. What the arrays mean together is checked by
`Graph.build`, not here.
"""

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gassip.errors import GassipError

if TYPE_CHECKING:
    from scipy import sparse as sp

SPLITS = ("train", "val", "test")
MASKS = tuple(f"{split}_mask" for split in SPLITS)
SPARSE_X = ("x_data", "x_indices", "x_indptr", "x_shape")
INPUT_KEYS = ("x", *SPARSE_X, "edge_index", "edge_weight")
LABEL_KEYS = ("y", *MASKS, "class_names")
NOT_FEATURES = ("id", "label", "split")  # columns of nodes.csv


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a reader found, not yet checked."""

    x: "np.ndarray | sp.csr_array"
    edge_index: np.ndarray
    y: np.ndarray | None = None  # None where only the inputs were asked for
    masks: tuple[np.ndarray, ...] | None = None
    edge_weight: np.ndarray | None = None
    class_names: tuple[str, ...] | None = None
    ids: tuple[str, ...] | None = None  # of the nodes, where the file names them
    undirected: bool = False  # whatever the file stores
    notes: tuple[str, ...] = ()

    def node_ids(self) -> tuple[str, ...]:
        """The file's own names of the nodes, else the numbers of the rows."""
        return row_numbers(self.x.shape[0]) if self.ids is None else self.ids


def row_numbers(count: int) -> tuple[str, ...]:
    return tuple(str(row) for row in range(count))


def read_inputs(path: str | Path) -> Parts:
    """What a prediction needs: x, edge_index, edge_weight and ids; labels need not be there and are
    not read."""
    with naming(path):
        return read_parts(Path(path), labels=False)


def read_parts(path: Path, *, labels: bool = True) -> Parts:
    """All the file has of a graph, or its inputs only; errors leave out the path, which `naming`
    adds."""
    if path.is_dir():
        return read_csv(path, labels=labels)
    if not path.exists():
        raise GassipError("no such file or folder")
    if path.suffix.lower() == ".npz":
        return read_npz(path, labels=labels)
    if path.suffix.lower() == ".pt":
        raise GassipError(
            "a .pt file is not read without torch; write a .npz file with numpy.savez"
        )
    raise GassipError(
        "expected a .npz file, a .pt file or a folder that holds nodes.csv and edges.csv"
    )


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Errors inside begin with the path the user gave."""
    try:
        yield
    except OSError as error:
        raise GassipError(f"{path}: {error.strerror or error}") from error
    except GassipError as error:
        raise GassipError(f"{path}: {error}") from error


# .npz


def read_npz(path: Path, *, labels: bool = True) -> Parts:
    """x (or its four CSR arrays), edge_index and optionally edge_weight; y and optionally masks,
    class_names."""
    found = arrays(path, *INPUT_KEYS, *(LABEL_KEYS if labels else ()))
    needed = ("edge_index", "y", "x") if labels else ("edge_index", "x")
    for key in needed:
        if key not in found and not (key == "x" and "x_data" in found):
            what = f"a graph needs {', '.join(needed[:-1])} and x (or {', '.join(SPARSE_X)})"
            raise GassipError(f"{key} is missing; {what}")
    names = found.get("class_names")
    if names is not None and (names.ndim != 1 or names.dtype.kind != "U"):
        raise GassipError(
            f"class_names must be a row of texts, not {names.dtype} of shape {list(names.shape)}"
        )
    return Parts(
        x=found["x"] if "x" in found else csr(found, "x"),
        edge_index=found["edge_index"],
        y=found.get("y"),
        masks=three_masks(found),
        edge_weight=found.get("edge_weight"),
        class_names=None if names is None else tuple(str(name) for name in names),
    )


def arrays(path: Path, *keys: str) -> dict[str, np.ndarray]:
    """Those of the arrays that the archive has; other keys are not even read."""
    key, found = "", {}
    with path.open("rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise GassipError(
                    "it holds one bare array; write x, edge_index and y with numpy.savez"
                )
            for key in keys:
                if key in archive:
                    found[key] = archive[key]
        except GassipError:
            raise
        except (
            Exception
        ) as error:  # numpy, zip and zlib raise a dozen kinds on damaged or foreign bytes
            what = (
                f"{key} is damaged or holds Python objects"
                if key
                else "not an npz archive, or a damaged one"
            )
            raise GassipError(f"{what}; write plain numbers or texts with numpy.savez") from error
    return found


def three_masks(found: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...] | None:
    """All three or none."""
    given = [mask for mask in MASKS if mask in found]
    if given and len(given) < 3:
        missing = ", ".join(mask for mask in MASKS if mask not in found)
        raise GassipError(f"it has {', '.join(given)} but not {missing}; give all three or none")
    return (found[MASKS[0]], found[MASKS[1]], found[MASKS[2]]) if given else None


def csr(found: Mapping[str, np.ndarray], prefix: str) -> "sp.csr_array":
    """The matrix kept as four arrays; scipy would read out of bounds where they lie, so they are
    checked first."""
    from scipy import sparse as sp  # slow to come, and most files have no use for it

    keys = [f"{prefix}_{part}" for part in ("data", "indices", "indptr", "shape")]
    if missing := [key for key in keys if key not in found]:
        raise GassipError(f"{missing[0]} is missing; a sparse {prefix} needs {', '.join(keys)}")
    data, indices, indptr, shape = (found[key] for key in keys)
    for key, array in zip(keys[1:], (indices, indptr, shape), strict=True):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise GassipError(
                f"{key} must be a row of whole numbers, not {array.dtype} of shape "
                f"{list(array.shape)}"
            )
    if shape.size != 2 or (shape <= 0).any() or (shape >= 2**31).any():
        raise GassipError(f"{keys[3]} must be [rows, columns], not {shape.tolist()[:5]}")
    if data.shape != indices.shape or data.dtype.kind not in "fiub":
        raise GassipError(
            f"{keys[0]} must hold one number for each of the {indices.size} entries of {keys[1]}"
        )
    rises = indptr.size == shape[0] + 1 and indptr[0] == 0 and (indptr[1:] >= indptr[:-1]).all()
    if not rises or indptr[-1] != indices.size:
        raise GassipError(
            f"{keys[2]} must rise from 0 to {indices.size} in {shape[0]} steps, one per row"
        )
    outside = indices[(indices < 0) | (indices >= shape[1])]
    if outside.size:
        raise GassipError(
            f"{keys[1]} refers to column {outside[0]}, but there are {shape[1]} (0..{shape[1] - 1})"
        )
    return sp.csr_array(
        (data, indices.astype(np.int64), indptr.astype(np.int64)),
        shape=(int(shape[0]), int(shape[1])),
    )


# A folder of CSV files


def read_csv(folder: Path, *, labels: bool = True) -> Parts:
    """nodes.csv: id, label, optional split, features; edges.csv: source, target, optional
    weight."""
    nodes = _read_nodes(folder / "nodes.csv", labels)
    edge_index, weight = _read_edges(
        folder / "edges.csv", {name: at for at, name in enumerate(nodes.ids)}
    )
    inputs = Parts(
        x=np.stack(nodes.x), edge_index=edge_index, edge_weight=weight, ids=tuple(nodes.ids)
    )
    if not labels:
        return inputs
    known = set(nodes.labels) - {""}
    names = sorted(
        known, key=lambda text: (not text.isdecimal(), len(text) * text.isdecimal(), text)
    )
    number = {name: at for at, name in enumerate(names)} | {"": -1}
    split = np.array(nodes.splits)
    return replace(
        inputs,
        y=np.array([number[label] for label in nodes.labels]),
        masks=tuple(split == name for name in SPLITS) if any(nodes.splits) else None,
        class_names=tuple(names),
    )


def read_ids(folder: Path) -> tuple[str, ...]:
    """The id column of nodes.csv alone."""
    header, rows = _table(folder / "nodes.csv", ("id",))
    return tuple(row[header.index("id")] for _, row in rows)


@dataclass(frozen=True)
class _Nodes:
    """The columns of nodes.csv."""

    ids: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    x: list[np.ndarray] = field(default_factory=list)


def _read_nodes(path: Path, labels: bool) -> _Nodes:
    header, rows = _table(path, ("id", "label") if labels else ("id",))
    columns = [at for at, name in enumerate(header) if name not in NOT_FEATURES]
    if not columns:
        raise GassipError(
            "nodes.csv has no feature column: every column besides id, label and split is one"
        )
    at = {name: header.index(name) for name in NOT_FEATURES if name in header}
    nodes, seen = _Nodes(), set()
    for line, row in rows:
        name, where = row[at["id"]], f"nodes.csv line {line}"
        if name in seen:
            raise GassipError(f"{where}: id {name!r} was given before")
        seen.add(name)
        nodes.ids.append(name)
        if labels:
            split = row[at["split"]] if "split" in at else ""
            if split not in ("", *SPLITS):
                raise GassipError(
                    f"{where}: column split holds {split!r}, not train, val, test or nothing"
                )
            nodes.labels.append(row[at["label"]])
            nodes.splits.append(split)
        nodes.x.append(_numbers(row, columns, header, where))
    if not nodes.x:
        raise GassipError("nodes.csv has a header but no rows")
    return nodes


def _read_edges(path: Path, index: dict[str, int]) -> tuple[np.ndarray, np.ndarray | None]:
    header, rows = _table(path, ("source", "target"))
    ends = (header.index("source"), header.index("target"))
    columns = [header.index("weight")] if "weight" in header else []
    pairs, weights = [], []
    for line, row in rows:
        for at in ends:
            if row[at] not in index:
                raise GassipError(
                    f"edges.csv line {line}: {header[at]} {row[at]!r} is not an id in nodes.csv"
                )
        pairs.append((index[row[ends[0]]], index[row[ends[1]]]))
        if columns:
            weights.append(_numbers(row, columns, header, f"edges.csv line {line}"))
    edge_index = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return edge_index, np.concatenate(weights) if weights else None


def _table(
    path: Path, required: tuple[str, ...]
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The header, and each row with its line number."""
    if not path.is_file():
        raise GassipError(f"{path.name} is missing; the folder must hold nodes.csv and edges.csv")
    rows = _lines(path)
    _, header = next(rows, (0, []))
    if not header:
        raise GassipError(f"{path.name} is empty")
    for name in required:
        if name not in header:
            raise GassipError(
                f"{path.name} has no column {name}; its header is {','.join(header)[:200]!r}"
            )
    if twice := [name for name in header if header.count(name) > 1]:
        raise GassipError(f"{path.name} has two columns {twice[0]!r}")
    return header, rows


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    width = 0
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            for row in reader:
                if row and len(row) != (width := width or len(row)):
                    what = f"{len(row)} cells, but the header names {width} columns"
                    raise GassipError(f"{path.name} line {reader.line_num}: {what}")
                if row:
                    yield reader.line_num, row
        except UnicodeDecodeError as error:
            raise GassipError(
                f"{path.name} is not UTF-8 text ({error.reason}); save it as UTF-8"
            ) from error
        except csv.Error as error:
            raise GassipError(f"{path.name} line {reader.line_num}: {error}") from error


def _numbers(row: list[str], columns: list[int], header: list[str], where: str) -> np.ndarray:
    """The cells of `columns` as float32."""
    with np.errstate(over="ignore"):
        values = np.array([_number(row[at]) for at in columns]).astype(np.float32)
    if not np.isfinite(values).all():
        at = columns[int(np.flatnonzero(~np.isfinite(values))[0])]
        raise GassipError(f"{where}: column {header[at]} holds {row[at][:40]!r}, not a number")
    return values


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
