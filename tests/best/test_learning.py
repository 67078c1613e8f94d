"""A recipe is chosen with a net that learns something."""

from dataclasses import replace

import pytest
import torch

from gassip.best.learning import commonest, first_that_learns, has_learned
from gassip.best.recipe import Taken
from gassip.best.significance import Validation
from gassip.nn.net import Architecture
from gassip.settings.training import Recipe
from tests.best.stages import SHAPES, judged
from tests.conftest import random_graph


def right(count: int) -> Validation:
    return judged([1] * count + [0] * (40 - count)).validation


@pytest.mark.parametrize(
    ("net", "judge", "common", "learned"),
    [
        (30, 30, 20, True),  # 10 nodes more than the commonest class: 3.2 standard errors
        (23, 20, 20, False),  # 3 nodes: 1.7
        (30, 33, 20, True),  # 3 nodes fewer than the regression
        (25, 32, 20, False),  # 7 nodes fewer: 2.6; less than half of the way, 26
        (28, 34, 20, True),
    ],
)
def test_learned_is_beyond_chance(net: int, judge: int, common: int, learned: bool) -> None:
    assert has_learned(right(net), right(judge), right(common)) is learned


@pytest.mark.parametrize(
    ("counts", "asked", "taken"),
    [
        ([30, 35], 1, 0),  # the first learns: the second is not tried
        ([20, 35], 2, 1),
        ([21, 22], 2, 1),  # neither learns: the better one
        ([22, 21], 2, 0),
    ],
)
def test_recipes_compete_until_a_net_learns(counts: list[int], asked: int, taken: int) -> None:
    names: list[tuple[str, ...]] = []

    def recipe_for(architecture: Architecture, given: tuple[str, ...]) -> Taken:
        trial = judged([1] * counts[len(names)] + [0] * (40 - counts[len(names)]))
        names.append(given)
        return Taken(str(len(names) - 1), Recipe(epochs=1), trial)

    found = first_that_learns(SHAPES, ["strong", "norm"], right(20), right(20), recipe_for)
    assert found.name == str(taken) and len(names) == asked
    assert names == [("strong", "norm"), ("strong", "norm", "mild")][:asked]


def test_a_recipe_that_is_given_is_not_tried() -> None:
    taken = Taken("given", Recipe(epochs=1))
    judge = right(20)
    assert first_that_learns(SHAPES, ["given"], judge, judge, lambda own, names: taken) is taken


def test_the_commonest_class_is_that_of_training_nodes() -> None:
    graph = random_graph(0, nodes=30)
    y = torch.where(graph.train_mask, 1, 0)
    said = commonest(replace(graph, y=y), "accuracy")
    assert (said.probs.argmax(1) == 1).all() and said.score() == 0.0
