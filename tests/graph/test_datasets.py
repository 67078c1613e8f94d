"""Named datasets from their raw files, a user's own files, and what is refused; nothing here needs
a network."""

import gzip
import http.server
import io
import os
import pickle
import random
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.io import read_npz

from gassip.errors import GassipError
from gassip.graph import datasets as data
from gassip.graph.csr import Csr
from gassip.graph.datasets import available, load, read, read_inputs
from gassip.graph.graph import Graph
from gassip.graph.known_datasets import DATASETS
from tests.graph.test_files import (
    CSR,
    EDGES,
    MASKS,
    NO_X,
    PLAIN,
    SPARSE,
    Hostile,
    X,
    Y,
    write_folder,
    write_npz,
)

RAW = Path(os.environ.get("GASSIP_DATA") or "no-such-folder")


def has(name: str) -> pytest.MarkDecorator:
    folder = RAW / DATASETS[name].folder
    found = all((folder / file).is_file() for file in DATASETS[name].files)
    return pytest.mark.skipif(
        not found, reason=f"$GASSIP_DATA does not hold {DATASETS[name].folder}"
    )


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No data, an empty cache, and a proxy that refuses every connection."""
    monkeypatch.delenv("GASSIP_DATA", raising=False)
    monkeypatch.setenv("GASSIP_CACHE", str(tmp_path / "cache"))
    for variable in (
        "http_proxy",
        "https_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("urllib.request._opener", None)  # it remembers the proxies of its first use
    return tmp_path


# Named datasets

FIXED = {
    "cora": (140, 500, 1000),
    "citeseer": (120, 500, 1000),
    "pubmed": (60, 500, 1000),
    "physics": (17246, 8623, 8624),
    "coauthor-cs": (9166, 4583, 4584),
    "photo": (3826, 1913, 1911),
    "physics-tuned": (20695, 6898, 6900),
    "coauthor-cs-tuned": (10999, 3666, 3668),
    "photo-tuned": (4590, 1530, 1530),
    "chameleon": (409, 287, 194),
    "squirrel": (1053, 718, 452),
    "actor": (3648, 2432, 1520),
    "arxiv-standin": (90941, 29799, 48603),
    "debian-packages": (32027, 15511, 15676),
    "debian": (360, 495, 2279),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=has(name)) if DATASETS[name].folder else name for name in FIXED],
)
def test_counts(name: str) -> None:
    entry, graph = DATASETS[name], load(name)
    assert available(name)
    assert graph.name == name
    assert graph.num_nodes == entry.nodes
    assert graph.num_edges == entry.edges
    assert graph.num_features == entry.features
    assert graph.num_classes == entry.classes
    assert tuple(int(graph.mask(split).sum()) for split in ("train", "val", "test")) == FIXED[name]
    if name in ("cora", "citeseer", "pubmed", "physics", "coauthor-cs", "debian"):
        assert isinstance(graph.x, Csr)
    total = _row_sums(graph)
    usual = (total - 1).abs() < 1e-5
    assert (usual | (total == 0)).all() if entry.normalize else not usual.all()


def _row_sums(graph: Graph) -> torch.Tensor:
    return (
        torch.from_numpy(graph.x.to_scipy().sum(1)) if isinstance(graph.x, Csr) else graph.x.sum(1)
    )


def test_every_entry_is_listed() -> None:
    assert set(DATASETS) - set(FIXED) == {"ogbn-arxiv"}
    for name, entry in DATASETS.items():
        assert entry.description and "\n" not in entry.description and entry.split, name
    assert DATASETS["arxiv-standin"].description.startswith("not ogbn-arxiv")


def test_the_list_needs_neither_torch_nor_pyg() -> None:
    code = (
        "import sys, gassip.graph.datasets as d; d.available('cora'); sys.exit('torch' in "
        "sys.modules)"
    )
    source = str(Path(data.__file__).parents[2])
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONPATH": source, "HOME": "/"}
        ).returncode
        == 0
    )


@has("photo")
def test_npz_equals_pyg() -> None:
    entry = DATASETS["photo"]
    theirs = Graph.from_data(read_npz(str(RAW / entry.folder / entry.files[0])))
    assert load("photo", normalize=False).fingerprint == theirs.fingerprint


@has("photo")
def test_a_drawn_split_follows_the_seed() -> None:
    one, again, other = load("photo", seed=1), load("photo", seed=1), load("photo", seed=2)
    assert one.fingerprint == again.fingerprint
    assert (one.train_mask != other.train_mask).any()


@has("actor")
def test_actor_takes_the_split_of_the_seed() -> None:
    for seed in (3, 13):
        with np.load(RAW / "Actor/raw/film_split_0.6_0.2_3.npz") as file:
            assert (
                load("actor", seed=seed).train_mask.tolist()
                == file["train_mask"].astype(bool).tolist()
            )


@has("actor")
def test_undirected_on_request() -> None:
    graph = load("actor", undirected=True)
    assert graph.num_edges == 2 * int(graph.pair.max() + 1) > load("actor").num_edges


@has("arxiv-standin")
def test_arxiv_class_names() -> None:
    assert load("arxiv-standin").class_names[:2] == ("arxiv cs na", "arxiv cs mm")


@has("cora")
@has("actor")
@has("photo")
def test_the_data_folder_is_only_read() -> None:
    def listing() -> list[tuple[str, int]]:
        return sorted((str(path), path.stat().st_mtime_ns) for path in RAW.rglob("*"))

    before = listing()
    for name in ("cora", "photo", "actor"):
        load(name)
    assert listing() == before


@has("cora")
def test_a_damaged_raw_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / DATASETS["cora"].folder
    shutil.copytree(RAW / DATASETS["cora"].folder, folder, copy_function=shutil.copyfile)
    (folder / "ind.cora.graph").write_bytes((folder / "ind.cora.graph").read_bytes()[:1000])
    monkeypatch.setenv("GASSIP_DATA", str(tmp_path))
    with pytest.raises(
        GassipError, match=r"cora: the files in .* cannot be read .* get them again"
    ):
        load("cora")


def test_a_hostile_planetoid_file_is_refused(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = empty / "data" / DATASETS["cora"].folder
    folder.mkdir(parents=True)
    for file in DATASETS["cora"].files:
        (folder / file).write_bytes(pickle.dumps(Hostile(empty / "made")))
    monkeypatch.setenv("GASSIP_DATA", str(empty / "data"))
    with pytest.raises(GassipError, match=r"it holds .*open, which no such dataset does"):
        load("cora")
    assert not (empty / "made").exists()


@pytest.mark.parametrize("name", ["Cora", "cora ", "croa"])
def test_an_unknown_name_gets_the_nearest(name: str) -> None:
    with pytest.raises(
        GassipError, match=f"no dataset '{name}'; did you mean cora. Known: cora, citeseer"
    ):
        load(name)


def test_an_unknown_name_with_nothing_near() -> None:
    with pytest.raises(GassipError, match="no dataset 'zzz'; Known: cora"):
        load("zzz")


@pytest.mark.parametrize("name", [name for name, entry in DATASETS.items() if entry.folder])
def test_offline_without_data(name: str, empty: Path) -> None:
    if name == "ogbn-arxiv":
        pytest.importorskip("ogb")
    entry = DATASETS[name]
    assert not available(name)
    with pytest.raises(GassipError) as caught:
        load(name)
    message = str(caught.value)
    assert message.startswith(f"{name}: not found") and "\n" not in message
    assert f"set GASSIP_DATA to a folder that holds {entry.folder}/{entry.files[0]}" in message
    assert [path for path in (empty / "cache").rglob("*")] == []


def test_the_embedded_graph_needs_nothing(empty: Path) -> None:
    assert available("debian")
    assert load("debian").num_classes == 9


# ogbn-arxiv from tiny files in OGB's layout

ARXIV = {
    "raw/edge": "0,1\n1,2\n3,2\n4,5\n",
    "raw/node-feat": "".join(f"{node}.5,-0.25\n" for node in range(6)),
    "raw/node-label": "0\n0\n0\n1\n1\n1\n",
    "raw/num-node-list": "6\n",
    "raw/num-edge-list": "4\n",
    "split/time/train": "0\n3\n",
    "split/time/valid": "1\n4\n",
    "split/time/test": "5\n2\n",
    "mapping/labelidx2arxivcategeory": "label idx,arxiv category\n0,arxiv cs na\n1,arxiv cs mm\n",
}


def _write_arxiv(root: Path) -> None:
    for name, text in ARXIV.items():
        path = root / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))


def _check_arxiv(graph: Graph) -> None:
    assert graph.edge_index.tolist() == [[0, 1, 3, 4], [1, 2, 2, 5]]
    assert isinstance(graph.x, torch.Tensor) and graph.x[:2].tolist() == [
        [0.5, -0.25],
        [1.5, -0.25],
    ]
    assert graph.y.tolist() == [0, 0, 0, 1, 1, 1]
    assert graph.class_names == ("arxiv cs na", "arxiv cs mm")
    assert graph.train_mask.nonzero().flatten().tolist() == [0, 3]
    assert graph.val_mask.nonzero().flatten().tolist() == [1, 4]
    assert graph.test_mask.nonzero().flatten().tolist() == [2, 5]


def test_ogb_raw_files(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_arxiv(empty / "ogbn_arxiv")
    monkeypatch.setenv("GASSIP_DATA", str(empty))
    assert available("ogbn-arxiv")
    _check_arxiv(load("ogbn-arxiv"))


def test_ogb_raw_files_equal_ogbs_reader(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = pytest.importorskip("ogb.io.read_graph_raw")
    _write_arxiv(empty / "ogbn_arxiv")
    monkeypatch.setenv("GASSIP_DATA", str(empty))
    theirs = reader.read_csv_graph_raw(str(empty / "ogbn_arxiv" / "raw"))[0]
    graph = load("ogbn-arxiv")
    assert isinstance(graph.x, torch.Tensor) and graph.x.tolist() == theirs["node_feat"].tolist()
    assert sorted(graph.edge_index.T.tolist()) == sorted(theirs["edge_index"].T.tolist())


def test_ogb_missing(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ogb.utils.url", None)
    with pytest.raises(
        GassipError, match=r"ogbn-arxiv: .*needs the 'ogb' extra: pip install 'gassip\[ogb\]'"
    ):
        load("ogbn-arxiv")


@pytest.fixture
def served(empty: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """A proxy on this machine that answers every address with `answer`."""
    answer = {"body": b""}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer["body"])))
            self.end_headers()
            self.wfile.write(answer["body"])

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.server_address[1]}")
        yield answer
        server.shutdown()


def test_a_download_that_is_cut_does_not_stay(empty: Path, served: dict[str, bytes]) -> None:
    pytest.importorskip("ogb")
    _write_arxiv(empty / "zip" / "arxiv")
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        for path in (empty / "zip").rglob("*.gz"):
            archive.write(path, path.relative_to(empty / "zip"))
    for broken in (body.getvalue()[:700], b"<html>log in to this network</html>"):
        served["body"] = broken
        with pytest.raises(GassipError, match="ogbn-arxiv: not found, and its download failed"):
            load("ogbn-arxiv")
        assert not available("ogbn-arxiv")
        assert list((empty / "cache").rglob("*")) == []
    served["body"] = body.getvalue()
    _check_arxiv(load("ogbn-arxiv"))
    served["body"] = b""  # from the cache now
    _check_arxiv(load("ogbn-arxiv"))
    assert {path.name for path in (empty / "cache").iterdir()} == {"ogbn_arxiv"}


# A user's own files


def _refused(path: Path, *parts: str) -> None:
    """One line, with the path the user gave and each of `parts`."""
    with pytest.raises(GassipError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message and len(message) < 500
    for part in parts:
        assert part in message


def testwrite_npz(tmp_path: Path) -> None:
    names = np.array(["cat", "dog"])
    graph = read(
        write_npz(
            tmp_path, PLAIN | {"edge_weight": np.array([1.0, 2.0, 3.0]), "class_names": names}
        )
    )
    assert graph.name == "mine" and graph.class_names == ("cat", "dog")
    assert (
        graph.fingerprint
        == Graph.build(
            X,
            EDGES,
            Y,
            masks=tuple(MASKS.values()),
            edge_weight=np.array([1.0, 2.0, 3.0]),
            class_names=["cat", "dog"],
        ).fingerprint
    )
    assert read(str(tmp_path / "mine.npz"), undirected=True, normalize=True).num_edges == 6


def test_npz_sparse(tmp_path: Path) -> None:
    graph = read(write_npz(tmp_path, NO_X | CSR))
    assert isinstance(graph.x, Csr) and (graph.x.to_scipy() != SPARSE).nnz == 0


def test_npz_without_masks_is_split_by_seed(tmp_path: Path) -> None:
    path = write_npz(tmp_path, {"x": X, "edge_index": EDGES, "y": Y})
    assert "seed 4" in read(path, seed=4).notes[0]


def test_other_paths(tmp_path: Path) -> None:
    _refused(tmp_path / "none.pt", "no such file or folder")
    (tmp_path / "mine.mat").write_text("")
    _refused(
        tmp_path / "mine.mat",
        "expected a .npz file, a .pt file or a folder that holds nodes.csv and edges.csv",
    )


def test_what_the_graph_refuses_names_the_file(tmp_path: Path) -> None:
    _refused(write_npz(tmp_path, PLAIN | {"y": Y[:3]}), "y has 3 labels, but x has 6 rows")
    _refused(write_folder(tmp_path, edges="source,target\n"), "the graph has no edges")
    alike = "id,label,a\nx,c,1\ny,c,2\n"
    _refused(
        write_folder(tmp_path, alike, "source,target\nx,y\n"), "a classifier needs at least two"
    )


# .pt


def _data() -> Data:
    tensors = {key: torch.from_numpy(value) for key, value in PLAIN.items()}
    return Data(edge_weight=torch.tensor([1.0, 2.0, 3.0]), **tensors)


def test_pt_of_every_kind(tmp_path: Path) -> None:
    path, expected = tmp_path / "mine.pt", Graph.from_data(_data()).fingerprint
    torch.save(_data(), path)
    assert read(path).fingerprint == expected
    torch.save(_data().to_dict(), path)
    assert read(path).fingerprint == expected
    torch.save(InMemoryDataset.collate([_data()]), path)
    assert read(path).fingerprint == expected
    InMemoryDataset.save([_data()], str(path))
    assert read(path).fingerprint == expected
    torch.save(_data(), path, _use_new_zipfile_serialization=False)
    assert read(path).fingerprint == expected


def test_pt_with_sparse_x(tmp_path: Path) -> None:
    data = _data()
    data.x = torch.eye(6, 20).to_sparse()
    torch.save(data, tmp_path / "mine.pt")
    graph = read(tmp_path / "mine.pt")
    assert isinstance(graph.x, Csr) and (graph.x.to_scipy() != SPARSE).nnz == 0


def test_pt_leaves_torchs_list_of_safe_classes(tmp_path: Path) -> None:
    before = set(torch.serialization.get_safe_globals())
    torch.save(_data(), tmp_path / "mine.pt")
    read(tmp_path / "mine.pt")
    assert Data in before and set(torch.serialization.get_safe_globals()) == before


@pytest.mark.parametrize("inside", [False, True])
def test_a_hostile_pt_is_refused(inside: bool, tmp_path: Path) -> None:
    hostile = Hostile(tmp_path / "made")
    torch.save(_data().to_dict() | {"extra": hostile} if inside else hostile, tmp_path / "mine.pt")
    _refused(
        tmp_path / "mine.pt",
        "refused, it holds",
        "open; only a PyG Data or a dict of tensors is read",
    )
    (tmp_path / "mine.pt").write_bytes(pickle.dumps(hostile))
    _refused(tmp_path / "mine.pt", "only a PyG Data or a dict of tensors is read")
    assert not (tmp_path / "made").exists()


BAD_INDEX = torch.sparse_coo_tensor(
    torch.tensor([[0], [10**9]]), torch.ones(1), (6, 20), check_invariants=False
)
BAD_PT: dict[str, tuple[object, str]] = {
    "a tensor": (torch.ones(3), "it holds a Tensor; only"),
    "a list": ([1, 2], "it holds a list; only"),
    "nothing": ((), "it holds a tuple; only"),
    "several graphs": (InMemoryDataset.collate([_data(), _data()]), "several graphs; save one"),
    "no x": (Data(y=torch.zeros(3)), "x is missing"),
    "x is a list": (_data().to_dict() | {"x": [1, 2]}, "x is a list, not a tensor"),
    "x is meta": (
        _data().to_dict() | {"x": torch.ones(6, 2, device="meta")},
        "x is a tensor without plain values",
    ),
    "x is a bad sparse tensor": (_data().to_dict() | {"x": BAD_INDEX}, "damaged"),
    "x is a hybrid": (
        _data().to_dict() | {"x": torch.ones(6, 2).to_sparse(1)},
        "x must be a sparse table",
    ),
    "some masks": (
        _data().to_dict() | {"train_mask": None},
        "val_mask and test_mask but no train_mask",
    ),
    "from the graph": (_data().to_dict() | {"y": torch.zeros(2)}, "y has 2 labels"),
}


@pytest.mark.parametrize("case", BAD_PT)
def test_bad_pt(case: str, tmp_path: Path) -> None:
    content, message = BAD_PT[case]
    torch.save(content, tmp_path / "mine.pt")
    _refused(tmp_path / "mine.pt", message)


# A folder of CSV


def test_csv(tmp_path: Path) -> None:
    graph = read(write_folder(tmp_path))
    assert graph.name == tmp_path.name and graph.class_names == ("9", "10", "cat", "dog")
    assert graph.y.tolist() == [2, 3, 2, -1, 1, 0, 0]
    assert graph.edge_index.tolist() == [[4, 0, 2], [0, 1, 3]]
    assert graph.val_mask.nonzero().tolist() == [[2]] and graph.test_mask.nonzero().tolist() == [
        [5]
    ]


def test_csv_without_split(tmp_path: Path) -> None:
    nodes = "id,label,a\n" + "".join(f"{node},{'ab'[node % 2]},{node}\n" for node in range(12))
    graph = read(write_folder(tmp_path, nodes, "source,target\n0,1\n"), seed=2)
    assert "seed 2" in graph.notes[-1]
    none = nodes.replace(",a\n", ",a,split\n", 1).replace("\n", ",\n").replace("split,", "split")
    assert (
        read(write_folder(tmp_path, none, "source,target\n0,1\n"), seed=2).fingerprint
        == graph.fingerprint
    )


# Inputs alone


def test_inputs_of_every_kind_of_file(tmp_path: Path) -> None:
    bare = {"x": X, "edge_index": EDGES, "edge_weight": np.array([1.0, 2.0, 3.0], dtype=np.float32)}
    torch.save(
        Data(**{key: torch.from_numpy(value) for key, value in bare.items()}), tmp_path / "mine.pt"
    )
    for path in (tmp_path / "mine.pt", write_npz(tmp_path, bare)):
        parts = read_inputs(path)
        assert parts.y is None and parts.masks is None and parts.node_ids() == tuple("012345")
        for name, given in bare.items():
            assert np.array_equal(getattr(parts, name), given)
    assert read_inputs(write_folder(tmp_path)).node_ids()[:3] == ("anna", "b, c", "ß")


def test_inputs_of_pt_pass_over_labels(tmp_path: Path) -> None:
    torch.save(_data().to_dict() | {"y": "unknown", "val_mask": None}, tmp_path / "mine.pt")
    parts = read_inputs(tmp_path / "mine.pt")
    assert parts.y is None and parts.masks is None and np.array_equal(parts.x, X)
    torch.save({"x": torch.from_numpy(X)}, tmp_path / "mine.pt")
    with pytest.raises(
        GassipError, match=r"mine.pt: edge_index is missing; a graph needs x and edge_index$"
    ):
        read_inputs(tmp_path / "mine.pt")
    with pytest.raises(GassipError, match=r"none.pt: no such file or folder$"):
        read_inputs(tmp_path / "none.pt")


# Damage at random


def _damaged(content: bytes, rng: random.Random) -> bytes:
    """Cut short, or with bytes changed, removed or put in."""
    at, kind = rng.randrange(len(content)), rng.randrange(4)
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + content[at + rng.randrange(1, 40) :]
    if kind == 2:
        return content[:at] + rng.randbytes(8) + content[at:]
    changed = bytearray(content)
    for _ in range(rng.choice((1, 3, 20))):
        changed[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(changed)


@pytest.mark.parametrize(
    "file", ["mine.npz", "packed.npz", "mine.pt", "sparse.pt", "old.pt", "nodes.csv", "edges.csv"]
)
def test_damaged_files_end_in_one_line(file: str, tmp_path: Path) -> None:
    write_folder(tmp_path)
    write_npz(tmp_path, PLAIN)
    np.savez_compressed(tmp_path / "packed.npz", **NO_X, **CSR)  # type: ignore[arg-type]
    torch.save(_data(), tmp_path / "mine.pt")
    torch.save(_data().to_dict() | {"x": torch.eye(6, 20).to_sparse()}, tmp_path / "sparse.pt")
    torch.save(_data(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    path, rng = tmp_path / file, random.Random(0)
    content = path.read_bytes()
    for _ in range(150):
        path.write_bytes(_damaged(content, rng))
        try:
            read(tmp_path if path.suffix == ".csv" else path)
        except GassipError as error:
            assert len(error.lines) <= (10 if path.suffix == ".csv" else 1)
            assert not any("\n" in line for line in error.lines)
