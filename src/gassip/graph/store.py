"""A graph as a folder of plain arrays that are mapped into memory, not read.

    indptr.npy [N + 1], indices.npy [E]   senders of each receiver, sorted; weight.npy [E] if given
    x.npy [N, D] float32                  features
    y.npy [N] int32                       classes, -1: unlabelled
    split.npy [N] int8                    0: none, 1: train, 2: val, 3: test
    ids.parquet                           what the user calls the nodes; absent: their numbers
    meta.json                             counts, class names, preparation, sha256 of every file

Nodes lie in an order of the store's own, so that neighbours are near; `ids` follow that order. A
folder is written beside its name and renamed when it is whole.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gassip.errors import GassipError
from gassip.graph.parts import Parts
from gassip.graph.preparation import Preparation

FORMAT, VERSION = "gassip-graph", 1
META = "meta.json"
TABLES = "needs the 'tables' extra: pip install 'gassip[tables]'"
ARRAYS = {
    "indptr": ("int64",),
    "indices": ("int32", "int64"),
    "weight": ("float32",),
    "x": ("float32",),
    "y": ("int32",),
    "split": ("int8",),
}
OPTIONAL = ("weight",)
BLOCK = 2**24  # bytes that are hashed at once


@dataclass(frozen=True, eq=False)
class GraphFolder:
    """A graph folder that was opened: nothing but meta.json is in memory."""

    path: Path
    meta: Mapping[str, Any]

    @staticmethod
    def open(path: str | Path) -> "GraphFolder":
        """Checked: shapes and types of the arrays agree with meta.json."""
        folder = GraphFolder(Path(path), read_meta(Path(path)))
        folder._check()
        return folder

    @property
    def nodes(self) -> int:
        return int(self.meta["nodes"])

    @property
    def edges(self) -> int:
        return int(self.meta["edges"])

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(self.meta["class_names"])

    @cached_property
    def preparation(self) -> Preparation | None:
        stored = self.meta.get("preparation")
        return None if stored is None else Preparation.from_json(json.dumps(stored))

    def array(self, name: str) -> np.ndarray:
        """The array, mapped; nothing is read before it is used."""
        return np.load(self.path / f"{name}.npy", mmap_mode="r", allow_pickle=False)

    def has(self, name: str) -> bool:
        return f"{name}.npy" in self.meta["files"]

    def ids(self) -> tuple[str, ...] | None:
        """What the user calls the nodes; None: their numbers."""
        if "ids.parquet" not in self.meta["files"]:
            return None
        column = parquet().read_table(self.path / "ids.parquet")["id"]
        return tuple(column.to_pylist())

    def mask(self, split: int) -> np.ndarray:
        return np.asarray(self.array("split")) == split

    def parts(self, *, labels: bool = True) -> Parts:
        """The whole graph in memory, as any reader has it."""
        indptr, indices = np.asarray(self.array("indptr")), np.asarray(self.array("indices"))
        receiver = np.repeat(np.arange(self.nodes), np.diff(indptr))
        return Parts(
            x=np.array(self.array("x")),
            edge_index=np.stack([indices.astype(np.int64), receiver]),
            y=np.asarray(self.array("y"), dtype=np.int64) if labels else None,
            masks=tuple(self.mask(split) for split in (1, 2, 3)) if labels else None,
            edge_weight=np.array(self.array("weight")) if self.has("weight") else None,
            class_names=self.class_names if labels else None,
            ids=self.ids(),
            preparation=self.preparation,
            notes=tuple(self.meta["notes"]),
        )

    def verify(self) -> None:
        """Every byte is as it was written."""
        for name, digest in self.meta["files"].items():
            if sha256(self.path / name) != digest:
                raise GassipError(
                    f"{self.path / name} is damaged (its sha256 differs); import again"
                )

    def _check(self) -> None:
        shapes = {
            "indptr": (self.nodes + 1,),
            "indices": (self.edges,),
            "weight": (self.edges,),
            "x": (self.nodes, int(self.meta["features"])),
            "y": (self.nodes,),
            "split": (self.nodes,),
        }
        for name, kinds in ARRAYS.items():
            if name in OPTIONAL and not self.has(name):
                continue
            try:
                found = self.array(name)
            except (OSError, ValueError) as error:
                raise GassipError(f"{self.path / name}.npy cannot be read ({error})") from error
            if found.shape != shapes[name] or str(found.dtype) not in kinds:
                raise GassipError(
                    f"{self.path / name}.npy has shape {found.shape} and type {found.dtype}; "
                    f"meta.json says {shapes[name]}; import again"
                )


def is_graph_folder(path: Path) -> bool:
    """Whether the folder is one of `gassip import`, and not one with tables."""
    try:
        return bool(json.loads((path / META).read_bytes()).get("format") == FORMAT)
    except (OSError, ValueError, AttributeError):
        return False


def read_meta(path: Path) -> Mapping[str, Any]:
    try:
        meta = json.loads((path / META).read_bytes())
    except (OSError, ValueError) as error:
        raise GassipError(f"{path} is no graph folder of `gassip import` ({error})") from error
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise GassipError(f"{path} is no graph folder of `gassip import`")
    if meta.get("version") != VERSION:
        raise GassipError(f"{path} has version {meta.get('version')}; this gassip reads {VERSION}")
    wanted = {"nodes": int, "edges": int, "features": int, "class_names": list, "files": dict}
    for name, kind in (wanted | {"notes": list}).items():
        if not isinstance(meta.get(name), kind):
            raise GassipError(f"{path / META} is damaged: {name} is {meta.get(name)!r}")
    return meta


# Writing


@contextmanager
def beside(out: Path, *, overwrite: bool, fresh: bool = True) -> Iterator[Path]:
    """A folder OUT.partial that becomes OUT when the block ends well; `fresh` starts it empty."""
    if out.exists() and not overwrite:
        raise GassipError(f"{out} is there; --overwrite to replace it")
    if out.exists() and not is_graph_folder(out):
        raise GassipError(f"{out} is no graph folder; it is not replaced")
    partial = out.with_name(out.name + ".partial")
    if fresh:
        shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True, exist_ok=True)
    yield partial
    if out.exists():
        shutil.rmtree(out)
    os.replace(partial, out)


def write_meta(
    folder: Path,
    *,
    name: str,
    features: int,
    class_names: tuple[str, ...],
    notes: tuple[str, ...],
    preparation: Preparation | None = None,
    more: Mapping[str, object] | None = None,
) -> None:
    """meta.json, last of all: counts and hashes of what is there."""
    files = sorted(path.name for path in folder.iterdir() if path.suffix in (".npy", ".parquet"))
    indptr = np.load(folder / "indptr.npy", mmap_mode="r")
    meta: dict[str, object] = {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "nodes": len(indptr) - 1,
        "edges": int(indptr[-1]),
        "features": features,
        "class_names": list(class_names),
        "notes": list(notes),
        "preparation": None if preparation is None else json.loads(preparation.to_json()),
        "files": {name: sha256(folder / name) for name in files},
    }
    text = json.dumps(meta | dict(more or {}), indent=1, allow_nan=False) + "\n"
    (folder / META).write_text(text, encoding="utf-8")


def index_type(nodes: int) -> str:
    return "int32" if nodes < 2**31 else "int64"


def write_ids(folder: Path, ids: Any) -> None:
    """Texts, as a list or an Arrow array."""
    import pyarrow as pa

    column = ids if isinstance(ids, pa.ChunkedArray) else pa.array(ids, pa.string())
    path, rows = folder / "ids.parquet", 2**16
    parquet().write_table(pa.table({"id": column}), path, row_group_size=rows)


def parquet() -> Any:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise GassipError(f"a graph folder with ids {TABLES}") from error
    return pq


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
