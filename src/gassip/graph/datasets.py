"""Graphs by name, `load("cora")`, and from a user's own files, `read("mine.npz")`.

Raw files of a named dataset are looked for under $GASSIP_DATA, in PyG's and OGB's own layout, which
is only ever read; then in the cache ($GASSIP_CACHE or ~/.cache/gassip), into which PyG's and OGB's
own downloads go. No file is trusted: what a reader cannot make sense of ends in one line, and
nothing a file holds is executed. torch and PyG, slow to come, are imported by the functions that
use them: the list of datasets needs neither.
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
from typing import TYPE_CHECKING

import numpy as np

from gassip.errors import GassipError
from gassip.graph import files
from gassip.graph.files import MASKS, Parts

if TYPE_CHECKING:
    from torch import Tensor

    from gassip.graph.graph import Graph

TIMEOUT = 30.0  # seconds without an answer after which a download is given up


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


def load(
    name: str, *, seed: int = 0, undirected: bool = False, normalize: bool | None = None
) -> "Graph":
    """A dataset by its name in DATASETS.

    `seed` draws the split where none is fixed; `normalize=None` divides rows by their sums where
    that is usual.
    """
    if name not in DATASETS:
        near = difflib.get_close_matches(name.lower(), DATASETS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise GassipError(f"there is no dataset {name!r}; {hint}Known: {', '.join(DATASETS)}")
    entry = DATASETS[name]
    folder = _find(entry) or _download(name, entry)
    parts = _parse(name, entry, folder, seed)
    wanted = entry.normalize if normalize is None else normalize
    return _build(parts, name=name, seed=seed, undirected=undirected, normalize=wanted)


def available(name: str) -> bool:
    """Whether `load(name)` finds its files here, without a download."""
    return _find(DATASETS[name]) is not None


def read(
    path: str | Path, *, seed: int = 0, undirected: bool = False, normalize: bool = False
) -> "Graph":
    """A user's own graph: a .npz, a .pt of PyG, or a folder with nodes.csv and edges.csv."""
    with files.naming(path):
        parts = _read_parts(Path(path), labels=True)
        return _build(
            parts, name=Path(path).stem, seed=seed, undirected=undirected, normalize=normalize
        )


def read_inputs(path: str | Path) -> Parts:
    """x, edge_index, edge_weight and ids from any file that `read` takes; labels need not be there
    and are not read."""
    with files.naming(path):
        return _read_parts(Path(path), labels=False)


def _read_parts(path: Path, *, labels: bool) -> Parts:
    ours = path.suffix.lower() == ".pt" and path.exists() and not path.is_dir()
    return _read_pt(path, labels) if ours else files.read_parts(path, labels=labels)


def _build(parts: Parts, *, name: str, seed: int, undirected: bool, normalize: bool) -> "Graph":
    from gassip.graph.graph import Graph

    assert parts.y is not None, "read with its labels"
    return Graph.build(
        parts.x,
        parts.edge_index,
        parts.y,
        masks=parts.masks,
        edge_weight=parts.edge_weight,
        class_names=parts.class_names,
        name=name,
        seed=seed,
        undirected=undirected or parts.undirected,
        normalize=normalize,
        notes=parts.notes,
    )


# Where the raw files are


def _find(entry: Dataset) -> Path | None:
    """The first folder that holds all the raw files."""
    roots = [Path(given).expanduser()] if (given := os.environ.get("GASSIP_DATA")) else []
    roots = (
        [*roots, _cache()]
        if entry.folder
        else [Path(str(resources.files("gassip.graph"))) / "embedded"]
    )
    folders = (root / entry.folder for root in roots)
    return next(
        (folder for folder in folders if all((folder / file).is_file() for file in entry.files)),
        None,
    )


def _cache() -> Path:
    return Path(os.environ.get("GASSIP_CACHE") or Path.home() / ".cache" / "gassip")


def _parse(name: str, entry: Dataset, folder: Path, seed: int) -> Parts:
    try:
        return entry.read(folder, seed)
    except Exception as error:  # numpy, pickle and zip each raise several kinds on a damaged file
        why = " ".join(f"{error}".split())[:200]
        raise GassipError(
            f"{name}: the files in {folder} cannot be read ({why}); get them again"
        ) from error


def _download(name: str, entry: Dataset) -> Path:
    """Into a scratch folder, read once as a check, then into the cache: a cut download never gets
    there."""
    if not entry.folder:
        raise GassipError(
            f"{name}: {entry.files[0]} is missing from the installed package; install gassip again"
        )
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
        raise GassipError(
            f"{name}: not found, and its download failed ({why}); {remedy}"
        ) from error
    finally:
        socket.setdefaulttimeout(timeout)
    return target


def _fetch_planetoid(folder: Path, wanted: tuple[str, ...]) -> None:
    from torch_geometric.data import download_url
    from torch_geometric.datasets import Planetoid

    for file in wanted:
        download_url(f"{Planetoid.url}/{file}", str(folder))


def _fetch_coauthor(folder: Path, wanted: tuple[str, ...]) -> None:
    from torch_geometric.data import download_url
    from torch_geometric.datasets import Coauthor

    for file in wanted:
        download_url(Coauthor.url + file, str(folder))


def _fetch_amazon(folder: Path, wanted: tuple[str, ...]) -> None:
    from torch_geometric.data import download_url
    from torch_geometric.datasets import Amazon

    for file in wanted:
        download_url(Amazon.url + file, str(folder))


def _fetch_actor(folder: Path, wanted: tuple[str, ...]) -> None:
    from torch_geometric.data import download_url
    from torch_geometric.datasets import Actor

    for file in wanted:
        download_url(
            f"{Actor.url}/{'new_data/film' if file.endswith('.txt') else 'splits'}/{file}",
            str(folder),
        )


def _fetch_ogb(folder: Path, wanted: tuple[str, ...]) -> None:
    """OGB's own address and download; not its dataset class, which goes on to write and read
    pickles."""
    try:
        from ogb.utils.url import download_url, extract_zip
    except ImportError as error:
        raise GassipError("needs the 'ogb' extra: pip install 'gassip[ogb]'") from error
    with (
        resources.files("ogb").joinpath("nodeproppred/master.csv").open(encoding="utf-8") as master
    ):
        about = {row[""]: row["ogbn-arxiv"] for row in csv.DictReader(master)}
    with redirect_stdout(sys.stderr):
        extract_zip(download_url(about["url"], str(folder)), str(folder))
    for file in wanted:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        os.replace(folder / about["download_name"] / file, folder / file)


# Named datasets, each from its raw folder


def _planetoid(prefix: str, folder: Path, seed: int) -> Parts:
    from torch_geometric.io import read_planetoid_data

    for file in sorted(folder.glob(f"ind.{prefix}.*")):
        if file.suffix != ".index":
            _refuse_foreign_pickle(file)
    with (
        warnings.catch_warnings()
    ):  # the pickles name modules that numpy and scipy have since renamed
        warnings.simplefilter("ignore")
        data = read_planetoid_data(str(folder), prefix)
    masks = tuple(data[mask].numpy() for mask in MASKS)
    return Parts(
        x=data.x.numpy(), edge_index=data.edge_index.numpy(), y=data.y.numpy(), masks=masks
    )


class _PlainUnpickler(pickle.Unpickler):
    """Arrays, sparse matrices and dicts of lists; anything else is refused before it is built."""

    def find_class(self, module: str, name: str) -> object:
        known = {"_reconstruct", "ndarray", "dtype", "csr_matrix", "defaultdict", "list"}
        if name in known and module.split(".")[0] in (
            "numpy",
            "scipy",
            "collections",
            "__builtin__",
            "builtins",
        ):
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
    arrays = files.arrays(
        folder / file, "labels", *(f"{kind}_{part}" for kind in ("attr", "adj") for part in parts)
    )
    x, adjacency = files.csr(arrays, "attr"), files.csr(arrays, "adj").tocoo()
    x.sum_duplicates()
    x.data = (x.data > 0).astype(np.float32)
    edge_index = np.stack([adjacency.row, adjacency.col])
    return Parts(x=x, edge_index=edge_index, y=arrays["labels"], undirected=True)


def _actor(folder: Path, seed: int) -> Parts:
    """PyG's loader writes beside its raw files, so it is given copies of them."""
    from torch_geometric.datasets import Actor

    with tempfile.TemporaryDirectory() as scratch, redirect_stderr(StringIO()):
        Path(scratch, "raw").mkdir()
        for file in ACTOR_FILES:
            shutil.copyfile(folder / file, Path(scratch, "raw", file))
        data = Actor(scratch)[0]
    masks = tuple(data[mask][:, seed % 10].numpy() for mask in MASKS)
    return Parts(
        x=data.x.numpy(), edge_index=data.edge_index.numpy(), y=data.y.numpy(), masks=masks
    )


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
    arrays = files.arrays(folder / "edges.npz", "edge_index", "y", *MASKS)
    features = files.arrays(folder / "structural-features.npz", "q", "scale")
    x = features["q"].astype(np.float32) * (
        10 * features["scale"]
    )  # rows of norm near 10, as its README advises
    return Parts(
        x=x,
        edge_index=arrays["edge_index"],
        y=arrays["y"],
        masks=files.three_masks(arrays),
        class_names=_arxiv_classes(folder),
    )


def _arxiv_classes(folder: Path) -> tuple[str, ...]:
    names = np.loadtxt(
        folder / "mapping" / "labelidx2arxivcategeory.csv.gz", dtype=str, delimiter=",", skiprows=1
    )
    return tuple(str(name) for name in names[:, 1])


def _debian_packages(folder: Path, seed: int) -> Parts:
    """Split by source package, so that no sibling of a test package is in training.

    One class, tasks, is a single source package and so wholly outside training: its 222 nodes stay,
    unlabelled.
    """
    masks = tuple(f"src_{mask}" for mask in MASKS)
    arrays = files.arrays(
        folder / "debian-packages.npz", "x", "edge_index", "y", "class_names", *masks
    )
    y, names = arrays["y"], arrays["class_names"]
    learnt = np.unique(y[arrays["src_train_mask"]])
    return Parts(
        x=arrays["x"],
        edge_index=arrays["edge_index"],
        y=np.where(np.isin(y, learnt), np.searchsorted(learnt, y), -1),
        masks=tuple(arrays[mask] for mask in masks),
        class_names=tuple(str(name) for name in names[learnt]),
        notes=(
            f"{int((~np.isin(y, learnt)).sum())} nodes of classes without a training node are "
            f"unlabelled",
        ),
    )


def _debian(folder: Path, seed: int) -> Parts:
    return files.read_npz(folder / "debian.npz")


# A user's own .pt; other files are read by gassip.graph.files


def _read_pt(path: Path, labels: bool) -> Parts:
    """A PyG `Data`, a dict of tensors, or what an InMemoryDataset of one graph saved."""
    import torch
    from torch_geometric.data import Data

    with path.open("rb") as file:
        try:
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
    return _from_tensors(found, labels)


def _from_tensors(found: dict[str, object], labels: bool) -> Parts:
    from gassip.graph.graph import to_numpy, to_table

    needed = ("x", "edge_index", "y") if labels else ("x", "edge_index")
    for key in needed:
        if found.get(key) is None:
            raise GassipError(
                f"{key} is missing; a graph needs {', '.join(needed[:-1])} and {needed[-1]}"
            )
    optional = ("edge_weight", *MASKS) if labels else ("edge_weight",)
    tensors = {
        key: _plain(key, found[key]) for key in (*needed, *optional) if found.get(key) is not None
    }
    arrays = {key: to_numpy(tensor) for key, tensor in tensors.items() if key != "x"}
    return Parts(
        x=to_table(tensors["x"]),
        edge_index=arrays["edge_index"],
        y=arrays.get("y"),
        masks=files.three_masks(arrays),
        edge_weight=arrays.get("edge_weight"),
    )


def _plain(key: str, value: object) -> "Tensor":
    """The value where it is a tensor whose numbers can be had."""
    from torch import Tensor

    if not isinstance(value, Tensor):
        raise GassipError(f"{key} is a {type(value).__name__}, not a tensor")
    if value.is_meta or value.is_quantized or value.is_nested:
        raise GassipError(f"{key} is a tensor without plain values (meta, quantised or nested)")
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
        yield
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)


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
    return tuple(
        f"ind.{prefix}.{part}"
        for part in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    )


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
        fetch=_fetch_coauthor,
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
        fetch=_fetch_coauthor,
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
        fetch=_fetch_amazon,
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
        description=(
            "not ogbn-arxiv: its edges, labels and split, but features made from the graph alone"
        ),
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
        description=(
            "dependencies between Debian packages, a small part inside this package; words; section"
        ),
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
