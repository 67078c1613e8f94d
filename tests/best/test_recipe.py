from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from gassip.best.pipeline import search
from gassip.best.recipe import (
    Taken,
    capped_dropout,
    choices_beside,
    choose_beside,
    choose_recipe,
    first_recipe,
    named,
    student_recipe,
)
from gassip.best.trials import Request, Trial
from gassip.budget.budget import Budget
from gassip.budget.fit import retrain_within
from gassip.errors import GassipError
from gassip.nn.net import Architecture, Net
from gassip.settings import Settings, preset
from gassip.settings.best import RECIPES
from gassip.settings.training import Recipe
from tests.best.stages import QUICK, SHAPES, judged, trials_on
from tests.conftest import random_graph


def test_a_recipe_that_is_known_to_be_good_is_harder_to_beat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second gets 8 more right and 4 fewer: 1.15 σ."""
    right = {"first": [1] * 6 + [0] * 14, "second": [0] * 4 + [1] * 10 + [0] * 6}
    for names, taken, sigmas in (
        (("strong", "medium"), "medium", 1.0),
        (("norm", "medium"), "norm", 2.0),
        (("medium",), "medium", None),
    ):
        settings, own = QUICK.changed(recipes=names), trials_on()

        def train(
            stage: str, requests: Sequence[Request], names: tuple[str, ...] = names
        ) -> list[Trial]:
            assert [request.what for request in requests] == list(names)
            assert all(request.recipe.epochs == 2 for request in requests)
            return [replace(judged(right[order])) for order in ("first", "second")]

        with monkeypatch.context() as patch:
            patch.setattr(own, "train_all", train)
            found = choose_recipe(own, own.graph, SHAPES[0], settings)
        assert found.value.name == taken
        assert found.value.recipe == named(taken, first_recipe(settings))
        assert found.decision.taken == taken and found.decision.threshold == sigmas


def test_recipes_that_there_are_not_are_refused() -> None:
    best = preset("best", random_graph(1, nodes=30)).best  # six features
    assert best is not None and best.recipe.recipes == RECIPES[:4]
    for wrong in ((), ("strong", "weak")):
        with pytest.raises(GassipError, match="name at least one of strong, medium, norm"):
            Settings.of(recipes=wrong)


def test_a_recipe_is_what_it_says() -> None:
    own = named("norm", Recipe(epochs=1))
    assert (own.dropout, own.weight_decay, own.batch_norm) == (0.2, 5e-5, True)
    trials = trials_on()
    net = trials.train("", SHAPES[0], own, trials.graph).net
    assert net.dropout == 0.2 and len(net.norms) == 1
    strong, medium = (named(name, own) for name in ("strong", "medium"))
    assert (strong.dropout, strong.weight_decay, strong.batch_norm) == (0.8, 5e-4, False)
    assert (medium.dropout, medium.weight_decay, medium.batch_norm) == (0.5, 5e-5, False)
    assert named("given", own) == own
    layer = named("layer", own)
    assert layer == replace(own, batch_norm=False, layer_norm=True)
    net = trials.train("", SHAPES[0], layer, trials.graph).net
    assert isinstance(net.norms[0], torch.nn.LayerNorm) and net.architecture.layer_norm
    assert not any(named(name, layer).layer_norm for name in RECIPES if name[0] in "smn")


def test_the_first_recipe_is_the_given_one_and_the_losses_of_best() -> None:
    settings = QUICK.changed(
        retrain_epochs=7, retrain_lr=0.02, retrain_dropout=0.3, batch_norm=True, distillation=0.5
    )
    settings = settings.changed(consistency=2.0, consistency_ramp=9, prune_rule="random")
    assert first_recipe(settings) == Recipe(
        epochs=7,
        lr=0.02,
        dropout=0.3,
        batch_norm=True,
        distillation=0.5,
        consistency=2.0,
        consistency_ramp=9,
        prune_rule="random",
    )


def test_a_net_that_drops_nodes_drops_fewer_entries() -> None:
    strong, medium = (named(name, Recipe()) for name in ("strong", "medium"))
    over_hops = Architecture(ops=("Hops4", "Linear"), hidden=(6,))
    assert capped_dropout(strong, over_hops).dropout == 0.5
    assert capped_dropout(replace(medium, dropout=0.2), over_hops).dropout == 0.2
    assert capped_dropout(strong, SHAPES[0]) is strong


def test_a_student_has_a_milder_recipe_where_the_recipe_is_left_to_the_tool() -> None:
    strong, medium, norm = (named(name, Recipe()) for name in ("strong", "medium", "norm"))
    assert student_recipe("strong", strong) == medium
    assert student_recipe("medium", medium) == medium
    assert student_recipe("norm", norm) == replace(norm, dropout=0.0)
    layer = named("layer", Recipe())
    assert student_recipe("layer", layer) == replace(layer, dropout=0.0)
    assert student_recipe("given", strong) == strong


def test_dense_features_are_standardised_and_classes_weighted_if_that_validates_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings, own = (
        QUICK.changed(recipes=("mild", "medium"), standardise_features=True),
        trials_on(),
    )
    own.metric = "macro-f1"
    first = replace(judged([1, 0, 0, 0]), value=0.25)
    asked: list[Recipe] = []

    def train(stage: str, requests: Sequence[Request]) -> list[Trial]:
        (request,) = requests
        asked.append(request.recipe)
        return [replace(judged([1, 1, 0, 0]), value=0.5 if request.recipe.standardised else 0.1)]

    monkeypatch.setattr(own, "train_all", train)
    taken = Taken("mild", named("mild", first_recipe(settings, "macro-f1")), first)
    found = choose_beside(own, own.graph, SHAPES[0], taken, settings)
    assert [(r.standardised, r.class_weights) for r in asked] == [(True, False), (True, True)]
    # the second has as many right: it is no better
    assert found.value.recipe == replace(taken.recipe, standardised=True)
    assert taken.recipe.fit_bias and found.value.name == "mild"
    assert found.decision.taken == "mild, features standardised"
    assert not choices_beside(own.graph, "accuracy", settings.changed(standardise_features=False))


def test_a_search_by_layer_norm_hands_over_a_net_that_has_it() -> None:
    graph = random_graph(1, nodes=60)
    plan = search(graph, QUICK.changed(recipes=("layer",), epochs=2, warmup_epochs=1))
    assert plan.recipe.layer_norm and not plan.recipe.batch_norm
    assert plan.architecture.layer_norm and not plan.architecture.batch_norm
    fitted, solution = retrain_within(graph, plan, Budget(max_params="20%", max_macs="60%"))
    assert fitted.architecture.layer_norm and isinstance(solution.model, Net)
    assert len(solution.model.norms) == len(fitted.architecture.hidden)
