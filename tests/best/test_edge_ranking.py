import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from gassip.best.edge_ranking import RANKINGS, Known, kept_edges
from gassip.graph.graph import Graph
from gassip.graph.undirected import keep_highest, num_neighbours
from tests.conftest import random_graph


@given(st.integers(0, 200), st.floats(0.3, 1.0), st.booleans())
def test_a_cut_keeps_its_share_and_every_last_edge(
    seed: int, share: float, undirected: bool
) -> None:
    graph = random_graph(seed, undirected=undirected)
    value = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(seed))
    keep = keep_highest(graph, value, share)
    before, after = num_neighbours(graph), num_neighbours(graph.keep(keep))
    assert torch.equal(before > 0, after > 0)
    pairs = int(graph.pair.max()) + 1
    kept = graph.pair[keep].unique().numel()
    assert kept >= round(share * pairs)  # more only where the rest are last edges
    assert torch.equal(
        keep,
        keep[torch.argsort(graph.pair, stable=True)][
            torch.argsort(torch.argsort(graph.pair, stable=True))
        ],
    )


def test_the_lowest_edges_go_first(path: Graph) -> None:
    # 0 - 1 - 2: both edges are a last one of 0 or of 2
    assert keep_highest(path, torch.tensor([0.1, 0.1, 0.9, 0.9]), 0.5).all()
    masks = (np.array([1, 1, 0]), np.array([0, 0, 1]), np.zeros(3))
    index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    triangle = Graph.build(
        torch.eye(3), index, torch.tensor([0, 1, 0]), masks=masks, undirected=True
    )
    value = torch.tensor([float(pair == 1) for pair in triangle.pair.tolist()])
    keep = keep_highest(triangle, 1 - value, 2 / 3)
    assert torch.equal(keep, triangle.pair != 1)


def test_rankings_by_hand(path: Graph) -> None:
    # edges by receiver: 1→0, 0→1, 2→1, 1→2; neighbours 1, 2, 1
    teacher = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [1.0, 0.0]])
    given_mask = torch.tensor([0.1, 0.2, 0.3, 0.4])
    rank = {name: own(Known(path, teacher, given_mask, 0)) for name, own in RANKINGS.items()}
    torch.testing.assert_close(rank["agreement"], torch.tensor([0.5, 0.5, 0.5, 0.5]))
    torch.testing.assert_close(rank["inverse-degree"], torch.tensor([1.5, 1.5, 1.5, 1.5]))
    assert torch.equal(rank["curriculum"], given_mask)
    torch.testing.assert_close(rank["support"], rank["agreement"] * rank["inverse-degree"])
    assert float(rank["similarity"].abs().sum()) == 0  # features are all apart
    again, other = (RANKINGS["random"](Known(path, teacher, given_mask, seed)) for seed in (0, 1))
    assert torch.equal(rank["random"], again) and not torch.equal(again, other)


def test_what_stays_ranks_highest() -> None:
    graph = random_graph(1, nodes=48, edges=110, features=24, isolated=4)
    known = Known(graph, torch.ones(48, 3) / 3, torch.ones(graph.num_edges), 0)
    for name in ("inverse-degree", "random"):
        for share in (0.9, 0.5):
            kept = keep_highest(graph, RANKINGS[name](known), share)
            assert torch.equal(kept_edges(known, name, share), kept)
