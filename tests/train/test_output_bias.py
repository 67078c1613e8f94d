from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gassip.best.incumbent import plan_of
from gassip.best.trials import Trials
from gassip.graph.graph import Graph
from gassip.metrics import macro_f1, score
from gassip.nn.net import Architecture, Net, net_for
from gassip.settings import Settings
from gassip.settings.training import Recipe
from gassip.train.output_bias import best_bias, fit_output_bias, margins, scores, smoothed
from gassip.train.plan import Plan
from gassip.train.refit import refit_plan, with_validation_labels
from gassip.train.trainer import predict, retrain
from tests.conftest import random_graph


def test_scores_under_a_shift_by_hand() -> None:
    # margins of class 1 over class 0: -3, -1, 1; a shift of 2 names the last two
    logits, y = np.array([[3.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0, 1, 1])
    margin, rival = margins(logits, 1)
    assert margin.tolist() == [-3, -1, 1] and rival.tolist() == [0, 0, 0]
    found = scores(margin, rival, y, 1, np.array([0.0, 2.0, 4.0]))
    # none shifted: F1 2/3 and 2/3; then all right; then all are called 1: 0 and 4/5
    np.testing.assert_allclose(found, [2 / 3, 1.0, 0.4])
    np.testing.assert_allclose(smoothed(np.arange(81.0))[[0, 40, 80]], [2.5, 40, 77.5])


def test_a_rare_class_is_named_at_a_lower_probability() -> None:
    rng = np.random.default_rng(0)
    y = (np.arange(2000) % 50 == 0).astype(np.int64)
    signal = rng.normal(size=2000) + 2 * y
    odds = 2 * signal - 2 - np.log(49)  # log p(1 | signal) - log p(0 | signal)
    logits = np.stack([np.zeros(2000), odds], 1)
    half = slice(None, 1000)
    bias = best_bias(logits[half], y[half])
    assert bias[1] > bias[0] and abs(bias.sum()) < 1e-9
    before, after = (macro_f1(y[1000:], own[1000:].argmax(1), 2) for own in (logits, logits + bias))
    assert after > before + 0.03


def test_nothing_changes_if_nothing_is_gained() -> None:
    logits = np.array([[9.0, 0.0], [0.0, 9.0]] * 4)
    assert best_bias(logits, np.array([0, 1] * 4)).tolist() == [0.0, 0.0]


def test_the_bias_is_in_the_last_layer_and_reads_validation_nodes_alone() -> None:
    graph = random_graph(2, nodes=60, classes=3)
    net = net_for(graph, Architecture(ops=("GCNConv", "GCNConv"), hidden=(4,)))
    before = predict(net, graph)
    fit_output_bias(net, graph)
    after, val = predict(net, graph), graph.val_mask
    shift = (after - before)[0]
    torch.testing.assert_close(after - before, shift.expand_as(after), rtol=1e-4, atol=1e-5)
    values = [score("macro-f1", own[val], graph.y[val]) or 0.0 for own in (before, after)]
    assert values[1] >= values[0]


def bias_after(graph: Graph, plan: Plan) -> Tensor:
    net = retrain(graph, plan, metric="macro-f1").model
    assert isinstance(net, Net)
    return net.layers[-1].bias.detach()[0]


def test_a_refit_keeps_the_fitted_bias() -> None:
    graph = random_graph(2, nodes=90, classes=3)
    recipe = Recipe(epochs=30, dropout=0.2, fit_bias=True)
    trials = Trials(graph, seed=0, metric="macro-f1", tell=lambda row: None)
    shape = Architecture(ops=("GCNConv", "GCNConv"), hidden=(6,))
    found = plan_of(trials.train("", shape, recipe, graph), graph, Settings(), symmetrised=False)
    plan = refit_plan(found, 2, graph, seed=0, metric="macro-f1")
    fitted = torch.tensor(plan.recipe.output_bias)
    assert fitted.shape == (graph.num_classes,) and bool(fitted.any()) and plan.recipe.epochs == 2
    without = replace(found, recipe=replace(recipe, fit_bias=False))
    torch.testing.assert_close(bias_after(graph, found) - bias_after(graph, without), fitted)
    joined = with_validation_labels(graph)
    plain = replace(plan, recipe=replace(plan.recipe, output_bias=()))
    torch.testing.assert_close(bias_after(joined, plan) - bias_after(joined, plain), fitted)
