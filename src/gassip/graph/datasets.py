"""Graphs by name, `load("cora")`, and from a user's own files, `read("mine.npz")`.

Raw files of a named dataset are looked for under $GASSIP_DATA, in PyG's and OGB's own layout, which
is only ever read; then in the cache ($GASSIP_CACHE or ~/.cache/gassip), into which PyG's and OGB's
own downloads go. No file is trusted: what a reader cannot make sense of ends in one line, and
nothing a file holds is executed. torch and PyG, slow to come, are imported by the functions that
use them: the list of datasets needs neither.
"""

import difflib
import os
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from gassip.errors import GassipError
from gassip.graph import files, raw, store
from gassip.graph.files import Parts

if TYPE_CHECKING:
    from gassip.graph.graph import Graph
    from gassip.graph.preparation import Preparation

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
    name: str,
    *,
    seed: int = 0,
    undirected: bool = False,
    normalize: bool | None = None,
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
    return build(parts, name=name, seed=seed, undirected=undirected, normalize=wanted)


def available(name: str) -> bool:
    """Whether `load(name)` finds its files here, without a download."""
    return _find(DATASETS[name]) is not None


def read(
    path: str | Path,
    *,
    seed: int = 0,
    undirected: bool = False,
    normalize: bool = False,
    prepared: bool = True,
) -> "Graph":
    """A user's own graph: a .npz, a .pt of PyG, or a folder with nodes.csv and edges.csv (or
    .parquet), whose columns are prepared unless they are to be taken as plain numbers."""
    with files.naming(path):
        parts = read_parts(Path(path), labels=True, prepared=prepared)
        return build(
            parts, name=Path(path).stem, seed=seed, undirected=undirected, normalize=normalize
        )


def read_inputs(path: str | Path, preparation: "Preparation | None" = None) -> Parts:
    """x, edge_index, edge_weight and ids from any file that `read` takes; labels need not be there
    and are not read. Named columns become x as `preparation` says."""
    with files.naming(path):
        return read_parts(Path(path), labels=False, preparation=preparation)


def read_parts(
    path: Path, *, labels: bool, prepared: bool = True, preparation: "Preparation | None" = None
) -> Parts:
    """What any reader finds at a path, not yet checked."""
    if store.is_graph_folder(path):
        found = store.GraphFolder.open(path).parts(labels=labels)
        return found if preparation is None else _same_preparation(path, found, preparation)
    ours = path.suffix.lower() == ".pt" and path.is_file()
    if ours and preparation is None:
        from gassip.graph.pt_files import read_pt

        return read_pt(path, labels)
    return files.read_parts(path, labels=labels, prepared=prepared, preparation=preparation)


def _same_preparation(path: Path, found: Parts, preparation: "Preparation") -> Parts:
    """Features of a graph folder are prepared already; they must be those of the run."""
    if found.preparation != preparation:
        raise GassipError(
            f"{path} was imported with another preparation of its columns than the run has; "
            f"give the tables themselves"
        )
    return found


def build(parts: Parts, *, name: str, seed: int, undirected: bool, normalize: bool) -> "Graph":
    """The checked graph of what a reader found."""
    from gassip.graph.graph import Graph

    assert parts.y is not None, "read with its labels"
    if parts.bare:
        return _with_structure(parts, name=name, seed=seed, undirected=undirected)
    return Graph.build(
        parts.x,
        parts.edge_index,
        parts.y,
        masks=parts.masks,
        edge_weight=parts.edge_weight,
        class_names=parts.class_names,
        whole_labels=parts.whole_labels,
        name=name,
        seed=seed,
        undirected=undirected or parts.undirected,
        normalize=normalize,
        notes=parts.notes,
        ids=parts.ids,
        preparation=parts.preparation,
    )


def _with_structure(parts: Parts, *, name: str, seed: int, undirected: bool) -> "Graph":
    """A graph whose features are made from its edges as given, whichever way they are read."""
    import numpy as np
    import torch

    from gassip.graph.graph import to_numpy
    from gassip.graph.structure import choose_structure, structural

    blank = replace(parts, x=np.ones((parts.x.shape[0], 1)))
    given = build(blank, name=name, seed=seed, undirected=False, normalize=False)
    edges, ids = to_numpy(given.edge_index), parts.node_ids()
    y, train, val = (to_numpy(own) for own in (given.y, given.train_mask, given.val_mask))
    kind, note = choose_structure(edges, ids, y, train, val)
    x = torch.from_numpy(structural(kind, edges, ids))
    graph = build(blank, name=name, seed=seed, undirected=undirected, normalize=False)
    return replace(graph, x=x, structure=kind, notes=(*graph.notes, note))


# Where the raw files are


def _find(entry: Dataset) -> Path | None:
    """The first folder that holds all the raw files."""
    embedded = Path(str(resources.files("gassip.graph"))) / "embedded"
    roots = folders() if entry.folder else [embedded]
    there = (root / entry.folder for root in roots)
    return next(
        (folder for folder in there if all((folder / file).is_file() for file in entry.files)),
        None,
    )


def folders() -> list[Path]:
    """$GASSIP_DATA, then the cache."""
    given = os.environ.get("GASSIP_DATA")
    return [*([Path(given).expanduser()] if given else []), _cache()]


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


PUBLIC_SPLIT = "fixed: 20 per class, 500, 1000"
TEN_SPLITS = "fixed: ten of 48/32/20, number seed % 10"
DRAWN_SPLIT = "drawn by seed: stratified 50/25/25"
TUNED_SPLIT = "fixed: 60/20/20, published with tuned nets"
CITATIONS = "citations between papers; bags of words; topic"


SHCHUR = {
    "physics": Dataset(
        description="co-authorship in physics; keywords of papers; field",
        nodes=34493,
        edges=495924,
        features=8415,
        classes=5,
        split=DRAWN_SPLIT,
        folder="Coauthor/Physics/raw",
        files=("ms_academic_phy.npz",),
        read=partial(raw.shchur, "ms_academic_phy.npz"),
        fetch=raw.fetch_coauthor,
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
        read=partial(raw.shchur, "ms_academic_cs.npz"),
        fetch=raw.fetch_coauthor,
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
        read=partial(raw.shchur, "amazon_electronics_photo.npz"),
        fetch=raw.fetch_amazon,
    ),
}


def on_tuned_split(entry: Dataset) -> Dataset:
    """The same graph on the fixed split of "Classic GNNs are strong baselines" (Luo et al., NeurIPS
    2024)."""
    kind, name, _ = entry.folder.split("/")
    split = f"tuned-splits/{kind}-{name}_split.npz".lower()
    file = f"{entry.folder}/{entry.files[0]}"
    return replace(
        entry,
        split=TUNED_SPLIT,
        folder=".",
        files=(file, split),
        read=partial(raw.shchur_on_split, file, split),
        fetch=None,
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
        files=raw.planetoid_files("cora"),
        read=partial(raw.planetoid, "cora"),
        fetch=raw.fetch_planetoid,
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
        files=raw.planetoid_files("citeseer"),
        read=partial(raw.planetoid, "citeseer"),
        fetch=raw.fetch_planetoid,
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
        files=raw.planetoid_files("pubmed"),
        read=partial(raw.planetoid, "pubmed"),
        fetch=raw.fetch_planetoid,
        normalize=True,
    ),
    **SHCHUR,
    **{f"{name}-tuned": on_tuned_split(entry) for name, entry in SHCHUR.items()},
    "actor": Dataset(
        description="actors on the same Wikipedia page, directed; keywords; kind of actor",
        nodes=7600,
        edges=29926,
        features=932,
        classes=5,
        split=TEN_SPLITS,
        folder="Actor/raw",
        files=raw.ACTOR_FILES,
        read=raw.actor,
        fetch=raw.fetch_actor,
    ),
    "chameleon": Dataset(
        description="links between Wikipedia pages on chameleons; words; traffic in five steps",
        nodes=890,
        edges=17708,
        features=2325,
        classes=5,
        split=TEN_SPLITS,
        folder="Heterophilous",
        files=("chameleon_filtered.npz",),
        read=partial(raw.heterophilous, "chameleon_filtered.npz"),
    ),
    "squirrel": Dataset(
        description="links between Wikipedia pages on squirrels; words; traffic in five steps",
        nodes=2223,
        edges=93996,
        features=2089,
        classes=5,
        split=TEN_SPLITS,
        folder="Heterophilous",
        files=("squirrel_filtered.npz",),
        read=partial(raw.heterophilous, "squirrel_filtered.npz"),
    ),
    "ogbn-arxiv": Dataset(
        description="citations between arXiv papers, directed; word embeddings; subject area",
        nodes=169343,
        edges=1166243,
        features=128,
        classes=40,
        split="fixed: by year, to 2017, 2018, from 2019",
        folder="ogbn_arxiv",
        files=raw.OGB_FILES,
        read=raw.ogb,
        fetch=raw.fetch_ogb,
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
        read=raw.arxiv_standin,
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
        read=raw.debian_packages,
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
        read=raw.debian,
        normalize=True,
    ),
}
