"""A user's own .pt: a PyG `Data`, a dict of tensors, or what a dataset of one graph saved.

Only what a Data is made of is unpickled; anything else in the file is refused.
"""

import re
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gassip.errors import GassipError
from gassip.graph import files
from gassip.graph.files import MASKS, Parts
from gassip.graph.limits import check_unpacked

if TYPE_CHECKING:
    from torch import Tensor


def read_pt(path: Path, labels: bool) -> Parts:
    """A PyG `Data`, a dict of tensors, or what an InMemoryDataset of one graph saved."""
    import torch
    from torch_geometric.data import Data

    with path.open("rb") as file:
        try:
            check_unpacked("it", _zip_bytes(path), path)
            with _only_data_classes(), torch.sparse.check_sparse_tensor_invariants():
                content = torch.load(file, map_location="cpu", weights_only=True)
            if isinstance(content, tuple) and content:
                if len(content) > 1 and content[1]:
                    raise GassipError(
                        "it holds a dataset of several graphs; save one: torch.save(dataset[0], "
                        "path)"
                    )
                content = content[0]
            found = content.to_dict() if isinstance(content, Data) else content
        except GassipError:
            raise
        except (
            Exception
        ) as error:  # torch, pickle and zip raise many kinds on damaged or hostile bytes
            foreign = re.search(r"GLOBAL ([\w.]+)", f"{error}")
            what = (
                f"refused, it holds {foreign[1]}"
                if foreign
                else "damaged, or not written by torch.save"
            )
            raise GassipError(f"{what}; only a PyG Data or a dict of tensors is read") from error
    if not isinstance(found, dict):
        raise GassipError(
            f"it holds a {type(found).__name__}; only a PyG Data or a dict of tensors is read"
        )
    return _from_tensors(found, labels, path)


def _zip_bytes(path: Path) -> int:
    """What the archive says that it unpacks to; 0 for a file of the older form, which is none."""
    if not zipfile.is_zipfile(path):
        return 0
    with zipfile.ZipFile(path) as archive:
        return sum(entry.file_size for entry in archive.infolist())


def _from_tensors(found: dict[str, object], labels: bool, path: Path) -> Parts:
    from gassip.graph.inputs import to_numpy, to_table
    from gassip.graph.memory import entries_of

    for key in ("adj_t", "edge_attr"):
        if found.get(key) is not None:
            _plain(key, found[key], path)
    found, notes = entries_of(found)
    needed = ("edge_index", "y") if labels else ("x", "edge_index")
    for key in needed:
        if found.get(key) is None:
            raise GassipError(f"{key} is missing; a graph needs {' and '.join(needed)}")
    optional = ("x", "edge_weight", *MASKS) if labels else ("edge_weight",)
    tensors = {
        key: _plain(key, found[key], path)
        for key in (*needed, *optional)
        if found.get(key) is not None
    }
    arrays = {key: to_numpy(tensor) for key, tensor in tensors.items() if key != "x"}
    return Parts(
        x=to_table(tensors["x"]) if "x" in tensors else np.zeros((arrays["y"].shape[0], 0)),
        edge_index=arrays["edge_index"],
        y=arrays.get("y"),
        masks=files.given_masks(arrays),
        edge_weight=arrays.get("edge_weight"),
        notes=notes,
    )


def _plain(key: str, value: object, path: Path) -> "Tensor":
    """The value where it is a tensor whose numbers can be had."""
    import torch
    from torch import Tensor

    if not isinstance(value, Tensor):
        raise GassipError(f"{key} is a {type(value).__name__}, not a tensor")
    if value.is_meta or value.is_quantized or value.is_nested:
        raise GassipError(f"{key} is a tensor without plain values (meta, quantised or nested)")
    stored = value.numel() if value.layout == torch.strided else value._nnz()
    check_unpacked(key, stored * value.element_size(), path)  # a view may repeat one number
    return value


@contextmanager
def _only_data_classes() -> Iterator[None]:
    """torch.load may build exactly what a Data is made of; PyG allows the whole process classes
    that write files."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    before = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    torch.serialization.add_safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage])
    try:
        with warnings.catch_warnings():  # torch 2.15 tells that it checks sparse tensors, as asked
            warnings.filterwarnings("ignore", message="Validating sparse tensor invariants")
            yield
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)
