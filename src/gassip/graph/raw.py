"""Raw files of the named datasets: how each form is downloaded and read.

    fetch(folder, files)   puts the files into the folder by PyG's or OGB's own address
    read(folder, seed)     Parts of a graph; the seed picks one of several fixed splits

Nothing that a file holds is executed. torch and PyG are imported by the functions that use them.
"""

import csv
import os
import pickle
import shutil
import sys
import tempfile
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import partial
from importlib import resources
from io import StringIO
from pathlib import Path

import numpy as np

from gassip.errors import GassipError
from gassip.graph import files
from gassip.graph.files import MASKS, Parts

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

# Downloads


def fetch_planetoid(folder: Path, wanted: tuple[str, ...]) -> None:
    from torch_geometric.data import download_url
    from torch_geometric.datasets import Planetoid

    for file in wanted:
        download_url(f"{Planetoid.url}/{file}", str(folder))


def fetch_coauthor(folder: Path, wanted: tuple[str, ...]) -> None:
    from torch_geometric.data import download_url
    from torch_geometric.datasets import Coauthor

    for file in wanted:
        download_url(Coauthor.url + file, str(folder))


def fetch_amazon(folder: Path, wanted: tuple[str, ...]) -> None:
    from torch_geometric.data import download_url
    from torch_geometric.datasets import Amazon

    for file in wanted:
        download_url(Amazon.url + file, str(folder))


def fetch_actor(folder: Path, wanted: tuple[str, ...]) -> None:
    from torch_geometric.data import download_url
    from torch_geometric.datasets import Actor

    for file in wanted:
        download_url(
            f"{Actor.url}/{'new_data/film' if file.endswith('.txt') else 'splits'}/{file}",
            str(folder),
        )


def fetch_ogb(folder: Path, wanted: tuple[str, ...]) -> None:
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


# Readers


def planetoid_files(prefix: str) -> tuple[str, ...]:
    return tuple(
        f"ind.{prefix}.{part}"
        for part in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    )


def planetoid(prefix: str, folder: Path, seed: int) -> Parts:
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


def shchur(file: str, folder: Path, seed: int) -> Parts:
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


def actor(folder: Path, seed: int) -> Parts:
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


def ogb(folder: Path, seed: int) -> Parts:
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
        class_names=arxiv_classes(folder),
    )


def arxiv_standin(folder: Path, seed: int) -> Parts:
    arrays = files.arrays(folder / "edges.npz", "edge_index", "y", *MASKS)
    features = files.arrays(folder / "structural-features.npz", "q", "scale")
    x = features["q"].astype(np.float32) * (
        10 * features["scale"]
    )  # rows of norm near 10, as its README advises
    return Parts(
        x=x,
        edge_index=arrays["edge_index"],
        y=arrays["y"],
        masks=files.given_masks(arrays),
        class_names=arxiv_classes(folder),
    )


def arxiv_classes(folder: Path) -> tuple[str, ...]:
    names = np.loadtxt(
        folder / "mapping" / "labelidx2arxivcategeory.csv.gz", dtype=str, delimiter=",", skiprows=1
    )
    return tuple(str(name) for name in names[:, 1])


def debian_packages(folder: Path, seed: int) -> Parts:
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


def debian(folder: Path, seed: int) -> Parts:
    return files.read_npz(folder / "debian.npz")


def heterophilous(file: str, folder: Path, seed: int) -> Parts:
    """Chameleon and squirrel without repeated nodes (Platonov et al., ICLR 2023)."""
    kinds = tuple(f"{mask}s" for mask in MASKS)
    arrays = files.arrays(folder / file, "node_features", "node_labels", "edges", *kinds)
    masks = tuple(arrays[kind][seed % 10] for kind in kinds)
    return Parts(
        x=arrays["node_features"],
        edge_index=arrays["edges"].T,
        y=arrays["node_labels"],
        masks=(masks[0], masks[1], masks[2]),
        undirected=True,
    )


def shchur_on_split(file: str, split: str, folder: Path, seed: int) -> Parts:
    """The same graph with a fixed split, given as the numbers of its nodes."""
    parts = shchur(file, folder, seed)
    arrays = files.arrays(folder / split, "train", "valid", "test")
    masks = np.zeros((3, parts.x.shape[0]), dtype=bool)
    for mask, name in zip(masks, ("train", "valid", "test"), strict=True):
        mask[arrays[name]] = True
    return replace(parts, masks=(masks[0], masks[1], masks[2]))
