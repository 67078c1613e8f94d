import pytest
import torch

from gassip.best.edge_cleaning import Cleaned, drop_dissimilar_edges, edges_hurt
from gassip.best.pipeline import search
from gassip.best.spectral import spectral_probs
from gassip.graph.graph import Graph
from gassip.operations import MORE_OPS
from gassip.settings.best import Cleaning
from gassip.train.plan import Row
from tests.best.stages import QUICK, trials_on, two_groups
from tests.conftest import random_graph


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


@pytest.mark.parametrize("blind", [False, True])
def test_blind_edges_hurt_and_nets_that_do_not_smooth_come_first(blind: bool) -> None:
    graph = two_groups(blind)
    own = trials_on(graph)
    every = torch.ones(graph.num_edges, dtype=torch.bool)
    cleaned = Cleaned(own.graph, every, own.regress("", own.graph))
    assert edges_hurt(cleaned, "accuracy").value == blind
    settings = QUICK.changed(
        ops=MORE_OPS,
        default_candidates=("Linear+APPNP5", "Linear+Linear"),
        knn=3,
        spectral=True,
        feature_share=0.5,
        hidden=6,
        epochs=1,
        size_steps=(),
    )
    rows: list[Row] = []
    found = search(graph, settings, seed=0, on_epoch=rows.append)
    first = next(str(row["architecture"]) for row in rows if row.get("stage") == "candidate")
    assert first == ("Linear ‖ Linear" if blind else "Linear ‖ APPNP5")
    assert (found.feature_index is None) == blind
    assert found.feature_index is None or found.feature_index.numel() == 20
    assert ("kNN teacher" in [row.get("stage") for row in rows]) != blind
    decisions = {decision.stage: decision.taken for decision in found.decisions}
    assert decisions["edges"] == ("no edge" if blind else "with edges")
    assert ("spectral" in decisions["teacher"]) != blind
    assert found.settings == settings  # inputs stay inputs


def test_a_graph_without_edges_does_not_hurt() -> None:
    graph = random_graph(1, nodes=30)
    own = trials_on(graph.keep(torch.zeros(graph.num_edges, dtype=torch.bool)))
    cleaned = drop_dissimilar_edges(own, Cleaning()).value
    assert cleaned.graph.num_edges == 0 and not edges_hurt(cleaned, "accuracy").value
