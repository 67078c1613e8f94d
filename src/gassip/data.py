"""Graphs by name, `load("cora")`, and from a user's own files, `read("mine.npz")`.

Raw files of a named dataset are looked for under $GASSIP_DATA, in PyG's and OGB's own layout, which is only ever read;
then in the cache ($GASSIP_CACHE or ~/.cache/gassip), into which PyG's and OGB's own downloads go. No file is trusted:
what a reader cannot make sense of ends in one line, and nothing a file holds is executed.
"""

import csv
import difflib
import os
import pickle
import re
import shutil
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib import resources
from io import StringIO
from pathlib import Path

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor
from torch_geometric.data import Data, download_url
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage
from torch_geometric.datasets import Actor, Amazon, Coauthor, Planetoid
from torch_geometric.io import read_planetoid_data

from gassip.errors import GassipError
from gassip.graph import SPLITS, Graph

Array = np.ndarray | Tensor
MASKS = tuple(f"{split}_mask" for split in SPLITS)
SPARSE_X = ("x_data", "x_indices", "x_indptr", "x_shape")
NPZ_KEYS = ("x", *SPARSE_X, "edge_index", "y", *MASKS, "edge_weight", "class_names")
TIMEOUT = 30.0  # seconds without an answer after which a download is given up


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a reader found, not yet checked."""

    x: Array | sp.csr_array
    edge_index: Array
    y: Array
    masks: tuple[Array, ...] | None = None
    edge_weight: Array | None = None
    class_names: tuple[str, ...] | None = None
    undirected: bool = False  # whatever the file stores
    notes: tuple[str, ...] = ()

    def graph(self, *, name: str, seed: int, undirected: bool, normalize: bool) -> Graph:
        return Graph.build(
            self.x,
            self.edge_index,
            self.y,
            masks=self.masks,
            edge_weight=self.edge_weight,
            class_names=self.class_names,
            name=name,
            seed=seed,
            undirected=undirected or self.undirected,
            normalize=normalize,
            notes=self.notes,
        )


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """One named dataset: what it is, where its raw files lie, and how they are had and read."""

    description: str
    nodes: int
    edges: int  # directed, as loaded: an undirected edge counts twice, self-loops do not
    features: int
    classes: int
    split: str
    folder: str  # under $GASSIP_DATA; "" for the one inside the package
    files: tuple[str, ...]
    read: Callable[[Path, int], Parts]  # (folder, seed)
    fetch: Callable[[Path, tuple[str, ...]], None] | None = None  # puts `files` into a folder
    normalize: bool = False


def load(name: str, *, seed: int = 0, undirected: bool = False, normalize: bool | None = None) -> Graph:
    """A dataset by its name in DATASETS.

    `seed` draws the split where none is fixed; `normalize=None` divides rows by their sums where that is usual.
    """
    if name not in DATASETS:
        near = difflib.get_close_matches(name.lower(), DATASETS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise GassipError(f"there is no dataset {name!r}; {hint}Known: {', '.join(DATASETS)}")
    entry = DATASETS[name]
    folder = _find(entry) or _download(name, entry)
    parts = _parse(name, entry, folder, seed)
    wanted = entry.normalize if normalize is None else normalize
    return parts.graph(name=name, seed=seed, undirected=undirected, normalize=wanted)


def available(name: str) -> bool:
    """Whether `load(name)` finds its files here, without a download."""
    return _find(DATASETS[name]) is not None


def read(path: str | Path, *, seed: int = 0, undirected: bool = False, normalize: bool = False) -> Graph:
    """A user's own graph: a .npz, a .pt of PyG, or a folder with nodes.csv and edges.csv."""
    path = Path(path)
    try:
        if path.is_dir():
            parts = _read_csv(path)
        elif not path.exists():
            raise GassipError("no such file or folder")
        elif path.suffix.lower() == ".npz":
            parts = _read_npz(path)
        elif path.suffix.lower() == ".pt":
            parts = _read_pt(path)
        else:
            raise GassipError("expected a .npz file, a .pt file or a folder that holds nodes.csv and edges.csv")
        return parts.graph(name=path.stem, seed=seed, undirected=undirected, normalize=normalize)
    except OSError as error:
        raise GassipError(f"{path}: {error.strerror or error}") from error
    except GassipError as error:
        raise GassipError(f"{path}: {error}") from error


# Where the raw files are


def _find(entry: Dataset) -> Path | None:
    """The first folder that holds all the raw files."""
    roots = [Path(given).expanduser()] if (given := os.environ.get("GASSIP_DATA")) else []
    roots = [*roots, _cache()] if entry.folder else [Path(str(resources.files("gassip")))]
    folders = (root / entry.folder for root in roots)
    return next((folder for folder in folders if all((folder / file).is_file() for file in entry.files)), None)


def _cache() -> Path:
    return Path(os.environ.get("GASSIP_CACHE") or Path.home() / ".cache" / "gassip")


def _parse(name: str, entry: Dataset, folder: Path, seed: int) -> Parts:
    try:
        return entry.read(folder, seed)
    except Exception as error:  # numpy, pickle and zip each raise several kinds on a damaged file
        why = " ".join(f"{error}".split())[:200]
        raise GassipError(f"{name}: the files in {folder} cannot be read ({why}); get them again") from error


def _download(name: str, entry: Dataset) -> Path:
    """Into a scratch folder, read once as a check, then into the cache: a cut download never gets there."""
    if not entry.folder:
        raise GassipError(f"{name}: {entry.files[0]} is missing from the installed package; install gassip again")
    more = ", ..." if len(entry.files) > 1 else ""
    remedy = f"set GASSIP_DATA to a folder that holds {entry.folder}/{entry.files[0]}{more}"
    if entry.fetch is None:
        raise GassipError(f"{name}: not found, and there is nowhere to download it from; {remedy}")
    target = _cache() / entry.folder
    timeout = socket.getdefaulttimeout()
    try:
        socket.setdefaulttimeout(TIMEOUT)
        _cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_cache(), prefix="download-") as scratch:
            entry.fetch(Path(scratch), entry.files)
            _parse(name, entry, Path(scratch), 0)
            for file in entry.files:
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                os.replace(Path(scratch, file), target / file)
    except Exception as error:  # urllib, ssl, zip and OGB raise many kinds
        why = " ".join(f"{error}".split())[:200]
        raise GassipError(f"{name}: not found, and its download failed ({why}); {remedy}") from error
    finally:
        socket.setdefaulttimeout(timeout)
    return target


def _fetch_planetoid(folder: Path, files: tuple[str, ...]) -> None:
    for file in files:
        download_url(f"{Planetoid.url}/{file}", str(folder))


def _fetch_npz(base: str, folder: Path, files: tuple[str, ...]) -> None:
    for file in files:
        download_url(base + file, str(folder))


def _fetch_actor(folder: Path, files: tuple[str, ...]) -> None:
    for file in files:
        download_url(f"{Actor.url}/{'new_data/film' if file.endswith('.txt') else 'splits'}/{file}", str(folder))


def _fetch_ogb(folder: Path, files: tuple[str, ...]) -> None:
    """OGB's own address and download; not its dataset class, which goes on to write and read pickles."""
    try:
        from ogb.utils.url import download_url, extract_zip
    except ImportError as error:
        raise GassipError("needs the 'ogb' extra: pip install 'gassip[ogb]'") from error
    with resources.files("ogb").joinpath("nodeproppred/master.csv").open(encoding="utf-8") as master:
        about = {row[""]: row["ogbn-arxiv"] for row in csv.DictReader(master)}
    with redirect_stdout(sys.stderr):
        extract_zip(download_url(about["url"], str(folder)), str(folder))
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        os.replace(folder / about["download_name"] / file, folder / file)


# Named datasets, each from its raw folder


def _planetoid(prefix: str, folder: Path, seed: int) -> Parts:
    for file in sorted(folder.glob(f"ind.{prefix}.*")):
        if file.suffix != ".index":
            _refuse_foreign_pickle(file)
    with warnings.catch_warnings():  # the pickles name modules that numpy and scipy have since renamed
        warnings.simplefilter("ignore")
        data = read_planetoid_data(str(folder), prefix)
    masks = (data.train_mask, data.val_mask, data.test_mask)
    return Parts(x=data.x, edge_index=data.edge_index, y=data.y, masks=masks)


class _PlainUnpickler(pickle.Unpickler):
    """Arrays, sparse matrices and dicts of lists; anything else is refused before it is built."""

    def find_class(self, module: str, name: str) -> object:
        known = {"_reconstruct", "ndarray", "dtype", "csr_matrix", "defaultdict", "list"}
        if name in known and module.split(".")[0] in ("numpy", "scipy", "collections", "__builtin__", "builtins"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it holds {module}.{name}, which no such dataset does")


def _refuse_foreign_pickle(path: Path) -> None:
    """Planetoid's files are pickles and PyG unpickles them freely: look inside first."""
    with path.open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _PlainUnpickler(file, encoding="latin1").load()


def _shchur(file: str, folder: Path, seed: int) -> Parts:
    """As PyG's Coauthor and Amazon, but X stays sparse: Physics alone is 1.2 GB when dense."""
    parts = ("data", "indices", "indptr", "shape")
    arrays = _arrays(folder / file, "labels", *(f"{kind}_{part}" for kind in ("attr", "adj") for part in parts))
    x, adjacency = _csr(arrays, "attr"), _csr(arrays, "adj").tocoo()
    x.sum_duplicates()
    x.data = (x.data > 0).astype(np.float32)
    edge_index = np.stack([adjacency.row, adjacency.col])
    return Parts(x=x, edge_index=edge_index, y=arrays["labels"], undirected=True)


def _actor(folder: Path, seed: int) -> Parts:
    """PyG's loader writes beside its raw files, so it is given copies of them."""
    with tempfile.TemporaryDirectory() as scratch, redirect_stderr(StringIO()):
        Path(scratch, "raw").mkdir()
        for file in ACTOR_FILES:
            shutil.copyfile(folder / file, Path(scratch, "raw", file))
        data = Actor(scratch)[0]
    at = seed % 10
    masks = (data.train_mask[:, at], data.val_mask[:, at], data.test_mask[:, at])
    return Parts(x=data.x, edge_index=data.edge_index, y=data.y, masks=masks)


def _ogb(folder: Path, seed: int) -> Parts:
    """OGB's own raw files by numpy: its loader unpickles, which torch 2.6 and later refuse."""
    table = partial(np.loadtxt, delimiter=",", ndmin=1)
    y = table(folder / "raw" / "node-label.csv.gz", dtype=np.int64)
    masks = []
    for split in ("train", "valid", "test"):
        mask = np.zeros(y.size, dtype=bool)
        mask[table(folder / "split" / "time" / f"{split}.csv.gz", dtype=np.int64)] = True
        masks.append(mask)
    return Parts(
        x=table(folder / "raw" / "node-feat.csv.gz", dtype=np.float32, ndmin=2),
        edge_index=table(folder / "raw" / "edge.csv.gz", dtype=np.int64, ndmin=2).T,
        y=y,
        masks=(masks[0], masks[1], masks[2]),
        class_names=_arxiv_classes(folder),
    )


def _arxiv_standin(folder: Path, seed: int) -> Parts:
    arrays = _arrays(folder / "edges.npz", "edge_index", "y", *MASKS)
    features = _arrays(folder / "structural-features.npz", "q", "scale")
    x = features["q"].astype(np.float32) * (10 * features["scale"])  # rows of norm near 10, as its README advises
    return Parts(
        x=x,
        edge_index=arrays["edge_index"],
        y=arrays["y"],
        masks=_masks(arrays),
        class_names=_arxiv_classes(folder),
    )


def _arxiv_classes(folder: Path) -> tuple[str, ...]:
    names = np.loadtxt(folder / "mapping" / "labelidx2arxivcategeory.csv.gz", dtype=str, delimiter=",", skiprows=1)
    return tuple(str(name) for name in names[:, 1])


def _debian_packages(folder: Path, seed: int) -> Parts:
    """Split by source package, so that no sibling of a test package is in training.

    One class, tasks, is a single source package and so wholly outside training: its 222 nodes stay, unlabelled.
    """
    masks = tuple(f"src_{mask}" for mask in MASKS)
    arrays = _arrays(folder / "debian-packages.npz", "x", "edge_index", "y", "class_names", *masks)
    y, names = arrays["y"], arrays["class_names"]
    learnt = np.unique(y[arrays["src_train_mask"]])
    return Parts(
        x=arrays["x"],
        edge_index=arrays["edge_index"],
        y=np.where(np.isin(y, learnt), np.searchsorted(learnt, y), -1),
        masks=tuple(arrays[mask] for mask in masks),
        class_names=tuple(str(name) for name in names[learnt]),
        notes=(f"{int((~np.isin(y, learnt)).sum())} nodes of classes without a training node are unlabelled",),
    )


def _debian(folder: Path, seed: int) -> Parts:
    return _read_npz(folder / "debian.npz")


# A user's own files


def _read_npz(path: Path) -> Parts:
    return _from_arrays(_arrays(path, *NPZ_KEYS))


def _arrays(path: Path, *keys: str) -> dict[str, np.ndarray]:
    """Those of the arrays that the archive has; other keys are not even read."""
    key, arrays = "", {}
    with path.open("rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise GassipError("it holds one bare array; write x, edge_index and y with numpy.savez")
            for key in keys:
                if key in archive:
                    arrays[key] = archive[key]
        except GassipError:
            raise
        except Exception as error:  # numpy, zip and zlib raise a dozen kinds on damaged or foreign bytes
            what = f"{key} is damaged or holds Python objects" if key else "not an npz archive, or a damaged one"
            raise GassipError(f"{what}; write plain numbers or texts with numpy.savez") from error
    return arrays


def _from_arrays(arrays: dict[str, np.ndarray]) -> Parts:
    for key in ("edge_index", "y", "x"):
        if key not in arrays and not (key == "x" and "x_data" in arrays):
            raise GassipError(f"{key} is missing; a graph needs edge_index, y and x (or {', '.join(SPARSE_X)})")
    names = arrays.get("class_names")
    if names is not None and (names.ndim != 1 or names.dtype.kind != "U"):
        raise GassipError(f"class_names must be a row of texts, not {names.dtype} of shape {list(names.shape)}")
    return Parts(
        x=arrays["x"] if "x" in arrays else _csr(arrays, "x"),
        edge_index=arrays["edge_index"],
        y=arrays["y"],
        masks=_masks(arrays),
        edge_weight=arrays.get("edge_weight"),
        class_names=None if names is None else tuple(str(name) for name in names),
    )


def _masks(found: dict[str, np.ndarray] | dict[str, Tensor]) -> tuple[Array, ...] | None:
    given = [mask for mask in MASKS if mask in found]
    if given and len(given) < 3:
        missing = ", ".join(mask for mask in MASKS if mask not in found)
        raise GassipError(f"it has {', '.join(given)} but not {missing}; give all three or none")
    return (found[MASKS[0]], found[MASKS[1]], found[MASKS[2]]) if given else None


def _csr(arrays: dict[str, np.ndarray], prefix: str) -> sp.csr_array:
    """scipy trusts these four arrays and reads out of bounds where they lie, so they are checked first."""
    keys = [f"{prefix}_{part}" for part in ("data", "indices", "indptr", "shape")]
    if missing := [key for key in keys if key not in arrays]:
        raise GassipError(f"{missing[0]} is missing; a sparse {prefix} needs {', '.join(keys)}")
    data, indices, indptr, shape = (arrays[key] for key in keys)
    for key, array in zip(keys[1:], (indices, indptr, shape), strict=True):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise GassipError(f"{key} must be a row of whole numbers, not {array.dtype} of shape {list(array.shape)}")
    if shape.size != 2 or (shape <= 0).any() or (shape >= 2**31).any():
        raise GassipError(f"{keys[3]} must be [rows, columns], not {shape.tolist()[:5]}")
    if data.shape != indices.shape or data.dtype.kind not in "fiub":
        raise GassipError(f"{keys[0]} must hold one number for each of the {indices.size} entries of {keys[1]}")
    rises = indptr.size == shape[0] + 1 and indptr[0] == 0 and (indptr[1:] >= indptr[:-1]).all()
    if not rises or indptr[-1] != indices.size:
        raise GassipError(f"{keys[2]} must rise from 0 to {indices.size} in {shape[0]} steps, one per row")
    outside = indices[(indices < 0) | (indices >= shape[1])]
    if outside.size:
        raise GassipError(f"{keys[1]} refers to column {outside[0]}, but there are {shape[1]} (0..{shape[1] - 1})")
    return sp.csr_array((data, indices.astype(np.int64), indptr.astype(np.int64)), shape=(int(shape[0]), int(shape[1])))


def _read_pt(path: Path) -> Parts:
    """A PyG `Data`, a dict of tensors, or what an InMemoryDataset of one graph saved."""
    with path.open("rb") as file:
        try:
            with _only_data_classes(), torch.sparse.check_sparse_tensor_invariants():
                content = torch.load(file, map_location="cpu", weights_only=True)
            if isinstance(content, tuple) and content:
                if len(content) > 1 and content[1]:
                    raise GassipError("it holds a dataset of several graphs; save one: torch.save(dataset[0], path)")
                content = content[0]
            found = content.to_dict() if isinstance(content, Data) else content
        except GassipError:
            raise
        except Exception as error:  # torch, pickle and zip raise many kinds on damaged or hostile bytes
            foreign = re.search(r"GLOBAL ([\w.]+)", f"{error}")
            what = f"refused, it holds {foreign[1]}" if foreign else "damaged, or not written by torch.save"
            raise GassipError(f"{what}; only a PyG Data or a dict of tensors is read") from error
    if not isinstance(found, dict):
        raise GassipError(f"it holds a {type(found).__name__}; only a PyG Data or a dict of tensors is read")
    return _from_tensors(found)


def _from_tensors(found: dict[str, object]) -> Parts:
    tensors: dict[str, Tensor] = {}
    for key in ("x", "edge_index", "y", "edge_weight", *MASKS):
        value = found.get(key)
        if value is None and key in ("x", "edge_index", "y"):
            raise GassipError(f"{key} is missing; a graph needs x, edge_index and y")
        if value is None:
            continue
        if not isinstance(value, Tensor):
            raise GassipError(f"{key} is a {type(value).__name__}, not a tensor")
        if value.is_meta or value.is_quantized or value.is_nested:
            raise GassipError(f"{key} is a tensor without plain values (meta, quantised or nested)")
        tensors[key] = value
    return Parts(
        x=tensors["x"],
        edge_index=tensors["edge_index"],
        y=tensors["y"],
        masks=_masks(tensors),
        edge_weight=tensors.get("edge_weight"),
    )


@contextmanager
def _only_data_classes() -> Iterator[None]:
    """torch.load may build exactly what a Data is made of; PyG allows the whole process classes that write files."""
    before = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    torch.serialization.add_safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage])
    try:
        yield
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)


def _read_csv(folder: Path) -> Parts:
    """nodes.csv: id, label, optional split, features; edges.csv: source, target, optional weight."""
    index, labels, splits, x = _read_nodes(folder / "nodes.csv")
    edge_index, weight = _read_edges(folder / "edges.csv", index)
    names = sorted(set(labels) - {""}, key=lambda text: (not text.isdecimal(), len(text) * text.isdecimal(), text))
    number = {name: at for at, name in enumerate(names)} | {"": -1}
    split = np.array(splits)
    return Parts(
        x=x,
        edge_index=edge_index,
        y=np.array([number[label] for label in labels]),
        masks=(split == "train", split == "val", split == "test") if any(splits) else None,
        edge_weight=weight,
        class_names=tuple(names),
    )


def _read_nodes(path: Path) -> tuple[dict[str, int], list[str], list[str], np.ndarray]:
    """Number by id, labels, splits, features."""
    header, rows = _table(path, ("id", "label"))
    columns = [at for at, name in enumerate(header) if name not in ("id", "label", "split")]
    if not columns:
        raise GassipError("nodes.csv has no feature column: every column besides id, label and split is one")
    id_at, label_at = header.index("id"), header.index("label")
    split_at = header.index("split") if "split" in header else None
    index: dict[str, int] = {}
    labels: list[str] = []
    splits, x = [], []
    for line, row in rows:
        if index.setdefault(row[id_at], len(index)) != len(labels):
            raise GassipError(f"nodes.csv line {line}: id {row[id_at]!r} was given before")
        split = "" if split_at is None else row[split_at]
        if split not in ("", *SPLITS):
            raise GassipError(f"nodes.csv line {line}: column split holds {split!r}, not train, val, test or nothing")
        labels.append(row[label_at])
        splits.append(split)
        x.append(_numbers(row, columns, header, f"nodes.csv line {line}"))
    if not x:
        raise GassipError("nodes.csv has a header but no rows")
    return index, labels, splits, np.stack(x)


def _read_edges(path: Path, index: dict[str, int]) -> tuple[np.ndarray, np.ndarray | None]:
    header, rows = _table(path, ("source", "target"))
    ends = (header.index("source"), header.index("target"))
    columns = [header.index("weight")] if "weight" in header else []
    pairs, weights = [], []
    for line, row in rows:
        for at in ends:
            if row[at] not in index:
                raise GassipError(f"edges.csv line {line}: {header[at]} {row[at]!r} is not an id in nodes.csv")
        pairs.append((index[row[ends[0]]], index[row[ends[1]]]))
        if columns:
            weights.append(_numbers(row, columns, header, f"edges.csv line {line}"))
    edge_index = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return edge_index, np.concatenate(weights) if weights else None


def _table(path: Path, required: tuple[str, ...]) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The header, and each row with its line number."""
    if not path.is_file():
        raise GassipError(f"{path.name} is missing; the folder must hold nodes.csv and edges.csv")
    rows = _lines(path)
    _, header = next(rows, (0, []))
    if not header:
        raise GassipError(f"{path.name} is empty")
    for name in required:
        if name not in header:
            raise GassipError(f"{path.name} has no column {name}; its header is {','.join(header)[:200]!r}")
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
            raise GassipError(f"{path.name} is not UTF-8 text ({error.reason}); save it as UTF-8") from error
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


ACTOR_FILES = (
    "out1_node_feature_label.txt",
    "out1_graph_edges.txt",
    *(f"film_split_0.6_0.2_{at}.npz" for at in range(10)),
)
OGB_FILES = (
    *(f"raw/{name}.csv.gz" for name in ("edge", "node-feat", "node-label")),
    *(f"split/time/{name}.csv.gz" for name in ("train", "valid", "test")),
    "mapping/labelidx2arxivcategeory.csv.gz",
)
PUBLIC_SPLIT = "fixed: 20 per class, 500, 1000"
DRAWN_SPLIT = "drawn by seed: stratified 50/25/25"
CITATIONS = "citations between papers; bags of words; topic"


def _planetoid_files(prefix: str) -> tuple[str, ...]:
    return tuple(f"ind.{prefix}.{part}" for part in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"))


DATASETS: dict[str, Dataset] = {
    "cora": Dataset(
        description=CITATIONS,
        nodes=2708,
        edges=10556,
        features=1433,
        classes=7,
        split=PUBLIC_SPLIT,
        folder="Planetoid/Cora/raw",
        files=_planetoid_files("cora"),
        read=partial(_planetoid, "cora"),
        fetch=_fetch_planetoid,
        normalize=True,
    ),
    "citeseer": Dataset(
        description=CITATIONS,
        nodes=3327,
        edges=9104,
        features=3703,
        classes=6,
        split=PUBLIC_SPLIT,
        folder="Planetoid/CiteSeer/raw",
        files=_planetoid_files("citeseer"),
        read=partial(_planetoid, "citeseer"),
        fetch=_fetch_planetoid,
        normalize=True,
    ),
    "pubmed": Dataset(
        description="citations between papers on diabetes; TF-IDF; type of diabetes",
        nodes=19717,
        edges=88648,
        features=500,
        classes=3,
        split=PUBLIC_SPLIT,
        folder="Planetoid/PubMed/raw",
        files=_planetoid_files("pubmed"),
        read=partial(_planetoid, "pubmed"),
        fetch=_fetch_planetoid,
        normalize=True,
    ),
    "physics": Dataset(
        description="co-authorship in physics; keywords of papers; field",
        nodes=34493,
        edges=495924,
        features=8415,
        classes=5,
        split=DRAWN_SPLIT,
        folder="Coauthor/Physics/raw",
        files=("ms_academic_phy.npz",),
        read=partial(_shchur, "ms_academic_phy.npz"),
        fetch=partial(_fetch_npz, Coauthor.url),
        normalize=True,
    ),
    "coauthor-cs": Dataset(
        description="co-authorship in computer science; keywords of papers; field",
        nodes=18333,
        edges=163788,
        features=6805,
        classes=15,
        split=DRAWN_SPLIT,
        folder="Coauthor/CS/raw",
        files=("ms_academic_cs.npz",),
        read=partial(_shchur, "ms_academic_cs.npz"),
        fetch=partial(_fetch_npz, Coauthor.url),
        normalize=True,
    ),
    "photo": Dataset(
        description="goods bought together on Amazon; words of reviews; category",
        nodes=7650,
        edges=238162,
        features=745,
        classes=8,
        split=DRAWN_SPLIT,
        folder="Amazon/Photo/raw",
        files=("amazon_electronics_photo.npz",),
        read=partial(_shchur, "amazon_electronics_photo.npz"),
        fetch=partial(_fetch_npz, Amazon.url),
        normalize=True,
    ),
    "actor": Dataset(
        description="actors on the same Wikipedia page, directed; keywords; kind of actor",
        nodes=7600,
        edges=29926,
        features=932,
        classes=5,
        split="fixed: ten of 48/32/20, number seed % 10",
        folder="Actor/raw",
        files=ACTOR_FILES,
        read=_actor,
        fetch=_fetch_actor,
    ),
    "ogbn-arxiv": Dataset(
        description="citations between arXiv papers, directed; word embeddings; subject area",
        nodes=169343,
        edges=1166243,
        features=128,
        classes=40,
        split="fixed: by year, to 2017, 2018, from 2019",
        folder="ogbn_arxiv",
        files=OGB_FILES,
        read=_ogb,
        fetch=_fetch_ogb,
    ),
    "arxiv-standin": Dataset(
        description="not ogbn-arxiv: its edges, labels and split, but features made from the graph alone",
        nodes=169343,
        edges=1166243,
        features=128,
        classes=40,
        split="fixed: by year, to 2017, 2018, from 2019",
        folder="ogbn-arxiv-nofeat",
        files=("edges.npz", "structural-features.npz", "mapping/labelidx2arxivcategeory.csv.gz"),
        read=_arxiv_standin,
    ),
    "debian-packages": Dataset(
        description="dependencies between Debian packages; text embeddings; section",
        nodes=63436,
        edges=589362,
        features=128,
        classes=40,
        split="fixed: 50/25/25 by source package",
        folder="debian-packages",
        files=("debian-packages.npz",),
        read=_debian_packages,
    ),
    "debian": Dataset(
        description="dependencies between Debian packages, a small part inside this package; words; section",
        nodes=3134,
        edges=14300,
        features=1200,
        classes=9,
        split="fixed: 40 per class, 495, 2279",
        folder="",
        files=("debian.npz",),
        read=_debian,
        normalize=True,
    ),
}
