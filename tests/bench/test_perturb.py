import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gassip.bench.perturb import mettack, noise, prbcd
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from tests.conftest import random_graph

METTACK = Path(os.environ.get("GASSIP_DATA", "/nowhere")) / "Mettack"
needs_mettack = pytest.mark.skipif(
    not METTACK.is_dir(), reason="GASSIP_DATA holds no Mettack graphs"
)


def pairs(graph: Graph) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in graph.edge_index.T}


@given(st.integers(0, 60), st.integers(0, 60))
def test_noise_adds_exactly_that_many_undirected_edges(count: int, seed: int) -> None:
    graph = random_graph(seed, weighted=seed % 2 == 0)
    noisy = noise(graph, count, seed)
    before, after = pairs(graph), pairs(noisy)
    assert before <= after and len(after) == noisy.num_edges == graph.num_edges + 2 * count
    assert after - before == {(b, a) for a, b in after - before}
    assert all(a != b for a, b in after)
    order = noisy.edge_index[1] * graph.num_nodes + noisy.edge_index[0]
    assert torch.equal(order, order.sort().values)


def test_noise_follows_its_seed_and_keeps_the_rest(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(1, weighted=True)
    noisy = noise(graph, 9, 5)
    assert noisy.fingerprint == noise(graph, 9, 5).fingerprint != noise(graph, 9, 6).fingerprint
    assert noisy.x is graph.x and noisy.name == graph.name and "seed 5" in noisy.notes[-1]
    given_weight = dict(
        zip(map(tuple, graph.edge_index.T.tolist()), graph.weight.tolist(), strict=True)
    )
    for edge, weight in zip(
        map(tuple, noisy.edge_index.T.tolist()), noisy.weight.tolist(), strict=True
    ):
        assert weight == given_weight.get(edge, 1.0)


def test_noise_fills_the_graph_and_no_more(path: Graph) -> None:
    # 4 nodes have 6 pairs, 2 are edges
    assert noise(path, 4, 0).num_edges == 12
    with pytest.raises(
        GassipError, match="noise asks for 5 new edges; this graph has room for 0 to 4"
    ):
        noise(path, 5, 0)


@needs_mettack
@pytest.mark.parametrize(
    ("name", "sizes", "flips"),
    [
        ("cora", (2485, 5069, 1433, 7, 247, 249, 1988), (253, 506, 760, 1013, 1267)),
        ("citeseer", (2110, 3668, 3703, 6, 210, 211, 1688), (183, 366, 550, 733, 917)),
    ],
)
def test_mettack_graphs_are_as_published(
    name: str, sizes: tuple[int, ...], flips: tuple[int, ...]
) -> None:
    clean = mettack(name, 0)
    split = [int(clean.mask(part).sum()) for part in ("train", "val", "test")]
    assert (
        clean.num_nodes,
        clean.num_edges // 2,
        clean.num_features,
        clean.num_classes,
        *split,
    ) == sizes
    for rate, expected in zip((0.05, 0.1, 0.15, 0.2, 0.25), flips, strict=True):
        attacked = mettack(name, rate)
        assert len(pairs(clean) ^ pairs(attacked)) == 2 * expected
        assert torch.equal(attacked.y, clean.y) and torch.equal(attacked.test_mask, clean.test_mask)
    assert attacked.name == f"{name}-mettack-0.25"


def test_mettack_names_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        GassipError, match=r"no Mettack graph 'pubmed' at 0\.05; there are cora and citeseer"
    ):
        mettack("pubmed", 0.05)
    with pytest.raises(GassipError, match=r"at 0\.07"):
        mettack("cora", 0.07)
    monkeypatch.setenv("GASSIP_DATA", str(tmp_path))
    with pytest.raises(GassipError, match="set GASSIP_DATA"):
        mettack("cora", 0.05)


def attacked(graph: Graph, seed: int = 0) -> Graph:
    return prbcd(graph, 0.2, seed, block=300, epochs=10)


def test_prbcd_stays_in_its_budget_and_symmetric(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(2, nodes=40, edges=90)
    other = attacked(graph)
    flipped = pairs(graph) ^ pairs(other)
    assert 0 < len(flipped) // 2 <= int(0.2 * graph.num_edges / 2)
    assert flipped == {(b, a) for a, b in flipped}
    assert other.fingerprint == attacked(graph).fingerprint


def test_prbcd_reads_no_label_outside_the_training_set(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(3, nodes=40, edges=90)
    garbage = replace(graph, y=torch.where(graph.test_mask, (graph.y + 1) % 3, graph.y))
    assert torch.equal(attacked(graph).edge_index, attacked(garbage).edge_index)


def test_prbcd_says_what_it_needs(make_graph: Callable[..., Graph]) -> None:
    with pytest.raises(GassipError, match="edge weights"):
        prbcd(make_graph(0, weighted=True), 0.1, 0)
    with pytest.raises(GassipError, match=r"share is 1\.5"):
        prbcd(make_graph(0), 1.5, 0)
    with pytest.raises(GassipError, match="does not fit 3 pairs"):
        prbcd(make_graph(0, edges=90), 0.5, 0, block=3)


def test_prbcd_attacks_directed_graphs_too(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(4, nodes=40, edges=90, undirected=False)
    assert 0 < len(pairs(graph) ^ pairs(attacked(graph))) <= int(0.2 * graph.num_edges)
