from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch
from scipy import sparse as sp

from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.graph.similarity import joined, nearest
from tests.conftest import random_graph

WORDS = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]]


def pairs(x: torch.Tensor | Csr, count: int) -> set[tuple[int, int]]:
    return set(zip(*(own.tolist() for own in nearest(x, count)), strict=True))


def test_the_nearest_by_hand() -> None:
    dense = torch.tensor(WORDS, dtype=torch.float)
    expected = {(0, 1), (1, 0), (2, 3), (3, 2)}  # node 4 has no words and is like none
    assert pairs(dense, 1) == expected
    assert pairs(Csr.from_scipy(sp.csr_array(dense.numpy())), 1) == expected


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    # node 0 shares the common words 0, 1 with nodes 2..9 and the rare word 2 with node 1
    x = np.zeros((10, 4), np.float32)
    x[0, :3] = 1
    x[1, 2:] = 1
    x[2:, :2] = 1
    assert log(10 / 2) > 2 * log(10 / 9)
    assert (0, 1) in pairs(Csr.from_scipy(sp.csr_array(x)), 1)
    assert (0, 1) not in pairs(
        torch.from_numpy(x), 1
    )  # dense numbers are no words: by the plain cosine


@pytest.mark.parametrize("sparse", [False, True])
def test_the_nearest_are_those_of_a_full_table(
    sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(40, 12, generator=generator) * (torch.rand(40, 12, generator=generator) < 0.5)
    unit = x / x.norm(dim=1, keepdim=True).clamp_min(1e-12)
    table = (unit @ unit.T).fill_diagonal_(-1)
    full = {(i, int(j)) for i in range(40) for j in table[i].topk(5).indices if table[i, j] > 0}
    monkeypatch.setattr("gassip.graph.similarity.DENSE_BLOCK", 40 * 7)  # blocks of seven nodes
    assert pairs(Csr.from_scipy(sp.csr_array(x.numpy())) if sparse else x, 5) == full


def test_the_joined_graph_weighs_similar_nodes_twice_as_much_as_its_own_edges(path: Graph) -> None:
    x = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
    wide = joined(replace(path, x=x), 1)
    # 0 ~ 1 and 2 ~ 3: four directed entries share twice the weight of the four given edges
    given = {(0, 1): 1.0, (1, 0): 1.0, (1, 2): 1.0, (2, 1): 1.0}
    alike = dict.fromkeys([(0, 1), (1, 0), (2, 3), (3, 2)], 2.0)
    expected = {key: given.get(key, 0.0) + alike.get(key, 0.0) for key in given | alike}
    assert (
        dict(zip(map(tuple, wide.edge_index.t().tolist()), wide.weight.tolist(), strict=True))
        == expected
    )
    key = wide.edge_index[1] * 4 + wide.edge_index[0]
    assert (key.diff() > 0).all()  # sorted by receiver, as every graph


def test_joining_leaves_the_features_as_they_are() -> None:
    graph = random_graph(1, sparse=True)
    assert isinstance(graph.x, Csr) and graph.x.value is not None
    bag = replace(graph, x=graph.x.with_value(torch.full_like(graph.x.value, 0.25)))
    joined(bag, 3)
    assert (
        isinstance(bag.x, Csr) and bag.x.value is not None and set(bag.x.value.tolist()) == {0.25}
    )


def test_graphs_without_features_or_edges_are_joined_too() -> None:
    graph = random_graph(1)
    blank = replace(graph, x=torch.zeros(graph.num_nodes, 3))
    assert joined(blank, 5) is blank
    bare = replace(
        graph,
        x=torch.ones(graph.num_nodes, 3),
        edge_index=graph.edge_index[:, :0],
        edge_weight=None,
    )
    assert set(joined(bare, 2).weight.tolist()) == {1.0}
