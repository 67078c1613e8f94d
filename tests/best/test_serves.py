"""Which net is taken for which graphs, by both figures."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from gassip.best.pipeline import search
from gassip.best.serves import STAGE, WITH, WITHOUT, Judged, relies_on_labels, weigh_graphs
from gassip.best.significance import Validation
from gassip.graph.graph import Graph
from gassip.settings import preset
from gassip.train.plan import Plan, Solution
from gassip.train.trainer import retrain


def validation(right: int, of: int = 100) -> Validation:
    """A net that gets the first `right` of so many nodes right."""
    y = torch.zeros(of, dtype=torch.long)
    probs = torch.tensor([[0.1, 0.9]]).repeat(of, 1)
    probs[:right] = torch.tensor([0.9, 0.1])
    return Validation("accuracy", probs, y)


def judged(here: int, new: int | None) -> Judged:
    of_new = None if new is None else validation(new)
    return Judged(None, None, validation(here), of_new, None)  # type: ignore[arg-type]


# McNemar: (b - c) / sqrt(b + c) is 3 for nine nodes gained and none lost; the threshold is 2
@pytest.mark.parametrize(
    ("without", "trained_with", "own", "any_"),
    [
        ((80, 70), (89, 70), True, True),  # ahead here, level there
        ((80, 70), (89, 60), True, False),  # bought with new nodes
        ((80, 70), (81, 90), True, False),  # ahead by chance
        ((80, 70), (80, 90), False, False),
        ((80, None), (89, None), True, False),  # not known how it does elsewhere
    ],
)
def test_both_figures_count(
    without: tuple[int, int | None], trained_with: tuple[int, int | None], own: bool, any_: bool
) -> None:
    nets = judged(*without), judged(*trained_with)
    assert relies_on_labels(*nets, "own") is own and relies_on_labels(*nets, "any") is any_


@pytest.fixture(scope="module")
def found(make_graph: Callable[..., Graph]) -> tuple[Graph, Plan]:
    graph = make_graph(nodes=120, edges=400)
    few = {"epochs": 2, "warmup_epochs": 1, "retrain_epochs": 5, "hidden": 8, "trial_epochs": 3}
    plan = search(graph, preset("fast", graph, few), seed=0)
    recipe = replace(plan.recipe, label_weight=0.5, labels_in_training=False)
    return graph, replace(plan, recipe=recipe)


@pytest.mark.parametrize("in_training", [False, True])
def test_the_decision_holds_both_figures_of_both_nets(
    found: tuple[Graph, Plan], in_training: bool
) -> None:
    graph, plan = found
    plan = replace(plan, recipe=replace(plan.recipe, labels_in_training=in_training))
    solution, trained = retrain(graph, plan, seed=0), list[Plan]()

    def train(other: Plan) -> tuple[Plan, Solution]:
        trained.append(other)
        return other, retrain(graph, other, seed=0)

    served = weigh_graphs(graph, plan, solution, train, seed=0, metric="accuracy")
    assert served is not None
    assert [own.recipe.labels_in_training for own in trained] == [not in_training]
    made = served.plan.decisions[-1]
    assert made.stage == STAGE and [row["name"] for row in made.tried] == [WITHOUT, WITH]
    assert all({"score", "new_nodes", "statistic"} <= set(row) for row in made.tried)
    assert served.plan.recipe.labels_in_training == (made.taken == WITH)
    taken = next(row for row in made.tried if row["name"] == made.taken)
    assert served.inductive is not None and served.inductive.score == taken["new_nodes"]
    assert served.solution.accuracy["val"] == pytest.approx(taken["score"])


def test_nothing_is_weighed_without_label_propagation(found: tuple[Graph, Plan]) -> None:
    graph, plan = found
    plan = replace(plan, recipe=replace(plan.recipe, label_weight=0.0))
    solution = retrain(graph, plan, seed=0)
    assert weigh_graphs(graph, plan, solution, _never, seed=0, metric="accuracy") is None


def _never(plan: Plan) -> tuple[Plan, Solution]:
    raise AssertionError("trained for nothing")
