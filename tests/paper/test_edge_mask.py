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
from gassip.settings import preset
from gassip.train.batched import retrain_many
from gassip.train.plan import Plan

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
