import torch

from gassip.best.edge_cleaning import drop_dissimilar_edges
from gassip.best.spectral import spectral_probs
from gassip.graph.graph import Graph
from gassip.settings.best import Cleaning
from tests.best.stages import trials_on


def test_edges_between_unlike_nodes_go_where_that_validates_better() -> None:
    # two groups that share words and labels, and as many edges across as within
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(120) % 2
    x = torch.zeros(120, 40)
    for node in range(120):
        x[node, torch.randperm(20, generator=generator)[:6] + 20 * int(y[node])] = 1.0
    within = torch.randint(60, (2, 200), generator=generator) * 2
    across = torch.randint(60, (2, 300), generator=generator) * 2 + torch.tensor([[0], [1]])
    index = torch.cat([within, within + 1, across], 1)
    block = torch.arange(120) // 2 % 3
    masks = tuple((block == part).numpy() for part in range(3))
    graph = Graph.build(x, index, y, masks=masks, undirected=True)
    settings = Cleaning(clean_shares=(0.6,))
    decided = drop_dissimilar_edges(trials_on(graph), settings)
    found, kept = decided.value, graph.keep(decided.value.kept)
    same = kept.y[kept.edge_index[0]] == kept.y[kept.edge_index[1]]
    assert kept.num_edges < graph.num_edges and float(same.float().mean()) > 0.8  # .55 before
    assert torch.equal(found.graph.edge_index, kept.edge_index)
    torch.testing.assert_close(found.judge.probs, spectral_probs(kept))
    assert decided.decision.taken == "0.6 of the edges"
    assert float(decided.decision.tried[1]["statistic"]) > 3
    untouched = drop_dissimilar_edges(trials_on(), settings)
    assert untouched.value.kept.all() and untouched.decision.taken == "all edges"
