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
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from gassip.errors import GassipError
from gassip.graph import files, store
from gassip.graph.files import Parts
from gassip.graph.known_datasets import DATASETS, Dataset

if TYPE_CHECKING:
    from gassip.graph.graph import Graph
    from gassip.graph.preparation import Preparation

TIMEOUT = 30.0  # seconds without an answer after which a download is given up


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

    from gassip.graph.inputs import to_numpy
    from gassip.graph.structure import choose_structure, structural

    blank = replace(parts, x=np.ones((parts.x.shape[0], 1)))
    given = build(blank, name=name, seed=seed, undirected=False, normalize=False)
    edges, ids = to_numpy(given.edge_index), parts.node_ids()
    y, train, val = (to_numpy(tensor) for tensor in (given.y, given.train_mask, given.val_mask))
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
