"""The embedded graph file, read with numpy alone, and the functions that build it, on a
hand-written index."""

import importlib.util
import zipfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
GRAPH = ROOT / "src" / "gassip" / "graph" / "embedded" / "debian.npz"

INDEX = """\
Package: alpha
Source: alphabet (1.2-3)
Section: contrib/sound
Pre-Depends: dpkg (>= 1.17.5)
Depends: libc6 (>= 2.36), beta:any (= 1.0) | gamma [amd64 i386], python3:any <!nocheck>
Description: alpha plays waveforms
 It decodes many waveforms.
 .
 Second paragraph.

Package: beta
Section: video
Suggests: alpha, beta, rare

Package: gamma
Section: mail
Recommends: rare
"""


def load_builder() -> ModuleType:
    """tools/build_debian_graph.py as a module; tools is not a package."""
    spec = importlib.util.spec_from_file_location(
        "build_debian_graph", ROOT / "tools" / "build_debian_graph.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILD = load_builder()


@pytest.fixture(scope="module")
def graph() -> dict[str, NDArray[np.generic]]:
    with np.load(GRAPH, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def test_shapes_agree(graph: dict[str, NDArray[np.generic]]) -> None:
    num_nodes, num_features = graph["x_shape"].tolist()
    indptr, indices = graph["x_indptr"], graph["x_indices"]
    assert indptr.shape == (num_nodes + 1,)
    assert indptr[0] == 0 and indptr[-1] == len(indices) == len(graph["x_data"])
    assert indices.min() >= 0 and indices.max() < num_features
    for key in ("y", "train_mask", "val_mask", "test_mask"):
        assert graph[key].shape == (num_nodes,)
    assert graph["edge_index"].shape[0] == 2
    assert graph["edge_index"].min() >= 0 and graph["edge_index"].max() < num_nodes
    assert len(graph["class_names"]) == graph["y"].max() + 1


def test_names_and_words_are_one_per_row_and_column(graph: dict[str, NDArray[np.generic]]) -> None:
    for key, size in zip(("names", "words"), graph["x_shape"].tolist(), strict=True):
        entries = graph[key].tobytes().decode().split("\n")
        assert len(entries) == len(set(entries)) == size
        assert entries == sorted(entries)


def test_edges_are_symmetric_unique_and_without_self_loops(
    graph: dict[str, NDArray[np.generic]],
) -> None:
    rows, columns = graph["edge_index"].tolist()
    edges = set(zip(rows, columns, strict=True))
    assert len(edges) == len(rows)
    assert edges == {(j, i) for i, j in edges}
    assert all(i != j for i, j in edges)


def test_every_node_is_in_one_split_and_every_class_in_each(
    graph: dict[str, NDArray[np.generic]],
) -> None:
    masks = [graph[key] for key in ("train_mask", "val_mask", "test_mask")]
    assert np.all(np.sum(masks, axis=0) == 1)
    for mask in masks:
        assert set(graph["y"][mask].tolist()) == set(range(len(graph["class_names"])))


def test_file_is_small_and_undated() -> None:
    assert GRAPH.stat().st_size < 1_000_000
    with zipfile.ZipFile(GRAPH) as archive:
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_stanzas_join_continuation_lines() -> None:
    alpha, beta, gamma = BUILD.stanzas(INDEX.splitlines(keepends=True))
    assert [s["Package"] for s in (alpha, beta, gamma)] == ["alpha", "beta", "gamma"]
    assert (
        alpha["Description"]
        == "alpha plays waveforms\nIt decodes many waveforms.\n.\nSecond paragraph."
    )
    assert BUILD.section(alpha) == "sound"
    assert (BUILD.source(alpha), BUILD.source(beta)) == ("alphabet", "beta")


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("", []),
        ("libc6", ["libc6"]),
        ("libc6 (>= 2.36), zlib1g(>= 1)", ["libc6", "zlib1g"]),
        ("exim4 | mail-transport-agent", ["exim4", "mail-transport-agent"]),
        ("python3:any, perl:native (>= 5)", ["python3", "perl"]),
        ("linux-image [amd64 i386], foo <!nocheck>", ["linux-image", "foo"]),
        ("a,\nb |\nc", ["a", "b", "c"]),
        ("g++, libstdc++6, 0ad-data", ["g++", "libstdc++6", "0ad-data"]),
    ],
)
def test_relation_names(value: str, names: list[str]) -> None:
    assert BUILD.relation_names(value) == names


def test_edges_of_the_tiny_index() -> None:
    nodes = list(BUILD.stanzas(INDEX.splitlines()))
    # alpha names beta and gamma, beta names alpha and itself; beta and gamma share "rare".
    assert BUILD.direct_edges(nodes) == {(0, 1), (0, 2)}
    assert BUILD.shared_edges(nodes, 2) == {(1, 2)}
    assert BUILD.shared_edges(nodes, 1) == set()


def test_words_leave_out_the_own_name_and_vocabulary_is_by_document_frequency() -> None:
    nodes = list(BUILD.stanzas(INDEX.splitlines()))
    assert BUILD.bags(nodes, {})[0] == {
        "plays",
        "waveforms",
        "decodes",
        "many",
        "second",
        "paragraph",
    }
    texts = [{"all", "two", "one"}, {"all", "two"}, {"all"}]
    assert BUILD.vocabulary(texts, size=2, max_share=0.7) == ["one", "two"]
    assert BUILD.vocabulary(texts, size=1, max_share=0.7) == ["two"]


def test_split_keeps_sources_whole_and_within_limits() -> None:
    sources = [f"s{i // 2}" for i in range(40)]
    y = np.array([i // 2 % 2 for i in range(40)], np.int8)
    part = BUILD.split_by_source(sources, y, limits=(4, 6), seed=0)
    assert np.array_equal(part[::2], part[1::2])
    for label in (0, 1):
        assert np.bincount(part[y == label]).tolist() == [4, 6, 10]


def test_written_bytes_depend_on_the_arrays_alone(tmp_path: Path) -> None:
    arrays = {"a": np.arange(5), "b": np.array(["x", "yz"])}
    for name in ("one.npz", "two.npz"):
        BUILD.write_npz(tmp_path / name, arrays)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    with np.load(tmp_path / "one.npz", allow_pickle=False) as file:
        assert file["b"].tolist() == ["x", "yz"]
