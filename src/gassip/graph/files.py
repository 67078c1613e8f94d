"""A user's own files, as arrays: a .npz, or a folder of tables (tables.py).

numpy is all this needs, scipy for sparse features, and scikit-learn to fit named columns. No file
is trusted: what a reader cannot make sense of ends in one line, and nothing a file holds is
executed. What the arrays mean together is checked by `Graph.build`, not here.
"""

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gassip.errors import GassipError
from gassip.graph.limits import check_columns, check_packing, check_unpacked
from gassip.graph.parts import MASKS as MASKS
from gassip.graph.parts import SPLITS as SPLITS
from gassip.graph.parts import Parts as Parts
from gassip.graph.parts import naming as naming
from gassip.graph.parts import row_numbers as row_numbers
from gassip.graph.tables import read_tables

if TYPE_CHECKING:
    from scipy import sparse as sp

    from gassip.graph.preparation import Preparation

SPARSE_X = ("x_data", "x_indices", "x_indptr", "x_shape")
INPUT_KEYS = ("x", *SPARSE_X, "edge_index", "edge_weight")
NODES = "num_nodes"  # of a graph without features whose last nodes have no edge
LABEL_KEYS = ("y", *MASKS, "class_names")


def read_inputs(path: str | Path, preparation: "Preparation | None" = None) -> Parts:
    """What a prediction needs: x, edge_index, edge_weight and ids; labels need not be there and are
    not read. Named columns become x as `preparation` says."""
    with naming(path):
        return read_parts(Path(path), labels=False, preparation=preparation)


def read_parts(
    path: Path,
    *,
    labels: bool = True,
    prepared: bool = True,
    preparation: "Preparation | None" = None,
) -> Parts:
    """All the file has of a graph, or its inputs only; errors leave out the path, which `naming`
    adds."""
    if path.is_dir():
        return read_tables(path, labels=labels, prepared=prepared, preparation=preparation)
    if not path.exists():
        raise GassipError("no such file or folder")
    if not path.is_file():
        raise GassipError("it is a device or a pipe, not a file or folder")
    if preparation is not None:
        raise GassipError(not_a_table(preparation))
    if path.suffix.lower() == ".npz":
        return read_npz(path, labels=labels)
    if path.suffix.lower() == ".pt":
        raise GassipError(
            "a .pt file is not read without torch; write a .npz file with numpy.savez"
        )
    raise GassipError(
        "expected a .npz file, a .pt file or a folder that holds nodes.csv and edges.csv"
    )


def not_a_table(preparation: "Preparation") -> str:
    """Why arrays are no input for a run that knows its columns by name."""
    names = ", ".join(list(preparation.columns)[:5])
    return (
        f"the run reads columns by name ({names}, ...); give a folder that holds nodes.csv and "
        f"edges.csv"
    )


# .npz


def read_npz(path: Path, *, labels: bool = True) -> Parts:
    """x (or its four CSR arrays), edge_index and optionally edge_weight; y and optionally masks,
    class_names."""
    found = arrays(path, *INPUT_KEYS, *(LABEL_KEYS if labels else ()))
    needed = ("edge_index", "y") if labels else ("edge_index",)
    for key in needed:
        if key not in found:
            what = f"a graph needs {' and '.join(needed)}, and x (or {', '.join(SPARSE_X)}) if any"
            raise GassipError(f"{key} is missing; {what}")
    names = found.get("class_names")
    if names is not None and (names.ndim != 1 or names.dtype.kind != "U"):
        raise GassipError(
            f"class_names must be a row of texts, not {names.dtype} of shape {list(names.shape)}"
        )
    return Parts(
        x=_features(found, path),
        edge_index=found["edge_index"],
        y=found.get("y"),
        masks=given_masks(found),
        edge_weight=found.get("edge_weight"),
        class_names=None if names is None else tuple(str(name) for name in names),
    )


def _features(found: Mapping[str, np.ndarray], path: Path) -> "np.ndarray | sp.csr_array":
    """x; [N, 0] of a file without features, which has no array besides those that are known."""
    if "x" in found or any(key in found for key in SPARSE_X):
        return found["x"] if "x" in found else csr(found, "x")
    with np.load(path, allow_pickle=False) as archive:
        odd = [key for key in archive.files if key not in (*INPUT_KEYS, *LABEL_KEYS, NODES)]
    if odd:
        raise GassipError(f"x is missing, and {odd[0][:40]!r} is not read; call the features x")
    edges = found["edge_index"]
    if "y" in found:
        return np.zeros((found["y"].shape[0] if found["y"].ndim else 0, 0), dtype=np.float32)
    count = arrays(path, NODES).get(NODES, np.zeros(()))
    if count.shape != () or count.dtype.kind not in "iuf" or not 0 <= count < 2**31:
        raise GassipError(f"{NODES} must be one whole number")
    top = int(edges.max(initial=-1)) + 1 if edges.dtype.kind in "iu" else 0
    nodes = max(min(top, 2 * edges.size + 1), int(count))
    check_unpacked("x", 8 * nodes, path)
    return np.zeros((nodes, 0), dtype=np.float32)


def arrays(path: Path, *keys: str) -> dict[str, np.ndarray]:
    """Those of the arrays that the archive has; other keys are not even read."""
    key, found, needed = "", dict[str, np.ndarray](), 0
    with path.open("rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise GassipError(
                    "it holds one bare array; write x, edge_index and y with numpy.savez"
                )
            for key in keys:
                if key in archive:
                    needed += declared_bytes(archive.zip, key)
                    check_unpacked(key, needed, path)
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


def declared_bytes(archive: zipfile.ZipFile, key: str) -> int:
    """What an array of the archive says that it takes: by its own header, and by the archive."""
    name, header = f"{key}.npy", np.lib.format
    check_packing(archive.getinfo(name))
    with archive.open(name) as file:
        version = header.read_magic(file)
        read = header.read_array_header_1_0 if version == (1, 0) else header.read_array_header_2_0
        shape, _, dtype = read(file)
    count = math.prod(shape)
    if count < 0:
        raise ValueError("a negative size")
    return max(count * dtype.itemsize, archive.getinfo(name).file_size)


def given_masks(found: Mapping[str, np.ndarray]) -> tuple[np.ndarray | None, ...] | None:
    """The three masks, None for one that is not there; None if there is none."""
    masks = tuple(found.get(mask) for mask in MASKS)
    return None if all(mask is None for mask in masks) else masks


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
    check_columns(int(shape[1]), indices.size)
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
