"""Graphs without features: degree, positions and hashed ids, chosen on validation."""

from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

from gassip.cli import main
from gassip.deploy.labelling import main as runtime
from gassip.errors import GassipError
from gassip.graph.datasets import read
from gassip.graph.graph import Graph
from gassip.graph.memory import as_graph, unlabelled
from gassip.graph.structure import KINDS, degree, hashed, position, structural
from gassip.nn.net import Architecture
from tests.saved_runs import random_net, refit, save_run


def test_degrees_by_hand() -> None:
    # 0 -> 1, 2 -> 1, 1 -> 2: node 1 receives from 0 (in 0) and 2 (in 1)
    x = degree(np.array([[0, 2, 1], [1, 1, 2]]), 3)
    log2 = np.log(2)
    np.testing.assert_allclose(x[1, :3], [np.log(3), log2, log2 / 2])
    np.testing.assert_allclose(x[0, :3], [0, log2, 0])
    assert x[:, 3:].argmax(1).tolist() == [1, 2, 1] and (x[:, 3:].sum(1) == 1).all()


def test_ids_are_hashed_alike_wherever_they_stand() -> None:
    np.testing.assert_array_equal(hashed(["a", "b"])[0], hashed(["c", "a"])[1])
    np.testing.assert_allclose((hashed(["a", "b"]) ** 2).sum(1), 1)


def test_positions_tell_two_parts_apart() -> None:
    graph = nx.disjoint_union(nx.complete_graph(6), nx.complete_graph(6))
    x = position(np.array(graph.edges).T, 12)
    assert np.linalg.norm(x[0] - x[5]) < np.linalg.norm(x[0] - x[6])


def blocks(seed: int = 0) -> nx.Graph:
    """Three parts, told by position alone."""
    graph = nx.planted_partition_graph(3, 40, 0.3, 0.05, seed=seed)
    for node in graph:
        graph.nodes[node].clear()
        graph.nodes[node]["label"] = "abc"[node // 40]
    return graph


def hubs(seed: int = 0) -> Graph:
    """The class is whether a node is a hub, for 85 % of them."""
    rng = np.random.default_rng(seed)
    edges = np.stack([rng.integers(0, 120, 900), rng.integers(0, 20, 900)])
    y = (np.arange(120) < 20) ^ (rng.random(120) < 0.15)
    return as_graph(edges, y=y.astype(int), undirected=True)


def test_more_than_degrees_is_taken_where_it_tells() -> None:
    graph = as_graph(blocks())
    assert graph.structure != "degree" and graph.class_names == ("a", "b", "c")
    assert f"no features given: made of {graph.structure} (" in graph.notes[-1]
    np.testing.assert_array_equal(unlabelled(blocks(), graph).x, graph.x)


@pytest.mark.parametrize(
    ("kind", "match"), [(KINDS[1], "positions in that graph"), (KINDS[2], "numbers of nodes")]
)
def test_what_another_graph_does_not_have_is_refused(kind: str, match: str) -> None:
    graph, other = replace(hubs(), structure=kind), hubs(1).edge_index.numpy()
    with pytest.raises(GassipError, match=match):
        unlabelled(other, graph)
    assert unlabelled(hubs().edge_index.numpy(), graph).num_nodes == 120


def test_degrees_are_taken_where_they_tell_and_can_be_made_for_another_graph() -> None:
    graph, other = hubs(), hubs(1)
    assert graph.structure == "degree"
    edges = other.edge_index.numpy()
    found = unlabelled(edges, graph)
    expected = structural("degree", edges, [str(node) for node in range(120)])
    np.testing.assert_array_equal(found.x, expected)


def ring(nodes: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """A ring with chords at every fourth node, one way; the label is the degree."""
    at = np.arange(nodes)
    chords = np.stack([at[::4], (at[::4] + 8) % nodes])
    edges = np.concatenate([np.stack([at, (at + 1) % nodes]), chords], axis=1)
    return edges, (at % 4 == 0).astype(int)


def write_bare(folder: Path, kind: str) -> Path:
    edges, y = ring()
    if kind == "npz":
        np.savez(folder / "g.npz", edge_index=edges, y=y)
        return folder / "g.npz"
    if kind == "pt":
        given = {"edge_index": torch.from_numpy(edges), "y": torch.from_numpy(y)}
        torch.save(given, folder / "g.pt")
        return folder / "g.pt"
    rows = "\n".join(f"n{at},{label}" for at, label in enumerate(y))
    (folder / "nodes.csv").write_text(f"id,label\n{rows}\n")
    ends = "\n".join(f"n{a},n{b}" for a, b in edges.T)
    (folder / "edges.csv").write_text(f"source,target\n{ends}\n")
    return folder


@pytest.mark.parametrize("kind", ["csv", "npz", "pt"])
def test_files_without_features(tmp_path: Path, kind: str) -> None:
    path = write_bare(tmp_path, kind)
    graph, both = read(path), read(path, undirected=True)
    assert graph.structure == "degree" and "no features given" in graph.notes[-1]
    assert torch.equal(graph.x, both.x) and both.num_edges > graph.num_edges  # type: ignore[arg-type]


def test_a_run_on_made_features_labels_other_graphs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command line and the runtime, with the features made again."""
    path = write_bare(tmp_path, "npz")
    graph = read(path)
    net = random_net(graph, Architecture(ops=("GCNConv", "GCNConv"), hidden=(4,)))
    source = {"kind": "file", "path": str(path), "seed": 0, "undirected": False, "normalize": False}
    save_run(tmp_path / "run", graph, net, source=source)
    edges, _ = ring(40)
    np.savez(tmp_path / "other.npz", edge_index=edges)
    found = []
    for data in (path, tmp_path / "other.npz"):
        for start in (lambda words: main(["predict", *words]), runtime):
            assert start([str(tmp_path / "run"), "--data", str(data), "--out", "-"]) == 0
            found.append([line.split(",")[1] for line in capsys.readouterr().out.splitlines()])
    assert found[0] == found[1] and found[2] == found[3] and len(found[3]) == 41
    other = [str(tmp_path / "run"), "--data", str(tmp_path / "other.npz"), "--out", "-"]
    refit(tmp_path / "run", {}, source=source | {"structure": "degree and position"})
    assert main(["predict", *other]) == 2
    refit(tmp_path / "run", {}, source=source | {"structure": "odd"})
    assert runtime(other) == 2
    assert "made of 'odd', which is not known" in capsys.readouterr().err
