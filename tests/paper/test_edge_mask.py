"""The learned edge mask on the embedded graph: no worse than a random one, and no search collapses.

A property with a margin, over two short searches; figures are in results/.
"""

from dataclasses import replace
from statistics import fmean

import pytest
import torch
from torch import Tensor

from gassip.best.pipeline import search
from gassip.graph.datasets import load
from gassip.graph.graph import Graph
from gassip.graph.undirected import keep_highest
from gassip.paper.choose import Tried, choose_cut, choose_plan, try_plan
from gassip.paper.induce import induce, kept_edges, uncertain
from gassip.paper.state import State
from gassip.settings import preset
from gassip.settings.search import Search
from gassip.train.batched import retrain_many
from gassip.train.plan import Plan
from tests.conftest import random_graph

SHORT = {"epochs": 40, "induced_from": 1, "retrain_epochs": 50}
MARGIN = 0.015  # of the accuracy: what three short trainings may differ by


@pytest.fixture(scope="module")
def graph() -> Graph:
    return load("debian")


@pytest.fixture(scope="module")
def plans(graph: Graph) -> list[Plan]:
    return [search(graph, preset("paper", graph, SHORT), seed=seed) for seed in range(2)]


def accuracy(graph: Graph, plan: Plan, keep: Tensor) -> float:
    """Mean accuracy of validation and test nodes over three trainings on these edges."""
    solutions = retrain_many(graph, replace(plan, edge_keep=keep), seeds=range(3))
    return fmean(s.accuracy[split] for s in solutions for split in ("val", "test"))


def test_the_learned_cut_is_not_behind_a_random_one(graph: Graph, plans: list[Plan]) -> None:
    learned, drawn = [], []
    for seed, plan in enumerate(plans):
        noise = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(seed))
        share = float(plan.edge_keep.float().mean())
        learned.append(accuracy(graph, plan, plan.edge_keep))
        drawn.append(accuracy(graph, plan, keep_highest(graph, noise, share)))
    assert fmean(learned) > fmean(drawn) - MARGIN


def test_no_search_collapses(graph: Graph, plans: list[Plan]) -> None:
    for plan in plans:
        everything = accuracy(graph, plan, torch.ones_like(plan.edge_keep))
        assert accuracy(graph, plan, plan.edge_keep) > everything - 2 * MARGIN
        assert 0.91 < float(plan.edge_keep.float().mean()) < 0.93


def test_what_the_mask_ranks_highest_counts(graph: Graph, plans: list[Plan]) -> None:
    """The check can fail: of half of the edges, the highest by M_G tell more than the lowest."""
    plan = plans[0]
    high = accuracy(graph, plan, keep_highest(graph, plan.edge_mask, 0.5))
    assert high > accuracy(graph, plan, keep_highest(graph, -plan.edge_mask, 0.5)) + MARGIN


def test_the_check_fails_for_the_mask_of_the_printed_formulas(graph: Graph) -> None:
    """Their judge with a tenth of the edges to remove; by γ they remove nearly none here."""
    cut = {"edge_rule": "budget", "edge_share": 0.92, "kept_edges": "binary"}
    plan = search(graph, preset("literal", graph, SHORT | cut), seed=0)
    noise = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0))
    drawn = accuracy(graph, plan, keep_highest(graph, noise, 0.92))
    assert accuracy(graph, plan, plan.edge_keep) < drawn - MARGIN


def test_edges_of_uncertain_nodes_stay() -> None:
    """A path of five nodes, by hand: the supernet is sure of nodes 0 to 2, and of 3 a little."""
    ends = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])
    state = State(replace(random_graph(0, nodes=5, edges=4), edge_index=ends), Search(hidden=4))
    state.logits = torch.tensor([[9.0, 0], [9, 0], [9, 0], [1, 0], [0, 0]])
    state.settings = replace(state.settings, certain_share=0.5)
    stay = uncertain(state)[state.slot]
    assert stay.tolist() == [False] * 4 + [True] * 4  # 2 – 3 and 3 – 4 have an uncertain end
    state.settings = replace(state.settings, edge_rule="budget", edge_share=0.75)
    with torch.no_grad():
        state.edge_score[state.slot[6]] = -5.0  # of 3 – 4, which would go
        state.edge_score[state.slot[0]] = -1.0
    assert kept_edges(state).tolist() == [False, False] + [True] * 6
    state.settings = replace(state.settings, certain_share=1.0)
    assert kept_edges(state).tolist() == [True] * 6 + [False, False]


def test_the_cut_between_certain_nodes_stays_unless_another_is_better_beyond_chance(
    graph: Graph,
) -> None:
    """Of 100 nodes 4 are won and none lost: 2.041 standard errors; of 4 and 1: 1.354."""
    plan = induce(State(graph, Search(hidden=4)), preset("paper", graph, SHORT))
    for lost, taken, sigmas in ((0, "anywhere", 2.041), (1, "between certain nodes", 1.354)):
        nodes = torch.arange(100)
        certain = Tried(plan, 0.0, (nodes < lost).double())
        anywhere = Tried(plan, 0.0, (nodes >= 96).double())
        better, decision = choose_cut(certain, anywhere)
        assert decision.taken == f"{taken}, {plan.architecture}"
        assert better is (lost == 0)
        assert decision.tried[1]["statistic"] == pytest.approx(sigmas, abs=1e-3)


def test_both_cuts_are_tried_and_the_decisions_say_how(graph: Graph) -> None:
    """Two architectures, one dropout: the plan taken has one of the two cuts, and its score."""
    few = {"induced_from": 2, "induce_epochs": 20, "retrain_epochs": 20}  # in full at once
    settings = preset("paper", graph, SHORT | few)
    settings = settings.changed(retrain_dropouts=(), edge_share=0.6, induced_by="alpha")
    torch.manual_seed(0)
    state = State(graph, replace(settings.search, hidden=4))
    state.logits = torch.randn(graph.num_nodes, graph.num_classes)
    with torch.no_grad():
        state.edge_score.normal_()
    plan, (induced, cut) = choose_plan(state, settings, "accuracy")
    assert [len(induced.tried), len(cut.tried)] == [2, 2]
    between = cut.taken.startswith("between")
    assert plan.edge_keep.equal(kept_edges(state, certain_share=None if between else 1.0))
    assert str(plan.architecture) in cut.taken
    again = try_plan(graph, plan, 20, "accuracy")
    assert cut.tried[not between]["score"] == float(again.right.mean())
