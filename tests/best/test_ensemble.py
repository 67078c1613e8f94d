from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gassip.best.calibration import bias_corrected, fit_temperature, temper
from gassip.best.candidates import Candidates, label_folds
from gassip.best.ensemble import combined, ensemble_weights, fewest, out_of_fold
from gassip.best.trials import Request, Trial, Trials
from gassip.settings.training import Recipe
from gassip.train.plan import Row
from tests.best.stages import QUICK, SHAPES, garbled, judged, taught, trials_on
from tests.conftest import random_graph


def normal(probs: Tensor) -> Tensor:
    return (probs + 0.01) / (probs + 0.01).sum(1, keepdim=True)


def test_a_hidden_label_is_judged_by_the_net_that_did_not_see_it() -> None:
    own = trials_on()
    folds = label_folds(own.graph, 2, seed=0)
    nets = [own.train("", shape, Recipe(epochs=1), own.graph) for shape in SHAPES]
    each = [net.probs for net in nets]
    mixed = out_of_fold(each[1], Candidates(nets, folds, ["given"] * 2, {"given": Recipe()}))
    torch.testing.assert_close(mixed[folds[0]], each[0][folds[0]])
    torch.testing.assert_close(mixed[~folds[0]], each[1][~folds[0]])
    torch.testing.assert_close(mixed.sum(1), torch.ones(own.graph.num_nodes))


def test_equal_seeds_teach_the_same_and_test_labels_do_not_matter() -> None:
    rows: list[Row] = []
    graph = random_graph(1, nodes=30)
    first = taught(trials_on(graph, rows=rows), QUICK).value
    again = taught(trials_on(garbled(graph)), QUICK).value
    assert torch.equal(first.probs, again.probs)
    assert torch.equal(first.feature_weight, again.feature_weight)
    assert [own.recipe for own in first.trials] == [own.recipe for own in again.trials]
    assert not torch.equal(first.probs, taught(trials_on(seed=1), QUICK).value.probs)
    recipes = [f"recipe {name}" for name in ("strong", "medium", "norm")]
    stages = ["graph with all edges", *recipes, "candidate trial", "candidate trial"]
    assert [row["stage"] for row in rows] == stages
    assert [row["epoch"] for row in rows] == list(range(1, 7))


def test_predictors_weigh_alike_unless_other_weights_are_likelier_by_more_than_chance() -> None:
    graph = trials_on().graph
    val = torch.nonzero(graph.val_mask).squeeze(1)
    y = graph.y[val]
    truth = torch.eye(graph.num_classes)[graph.y.clamp_min(0)]
    wrong = (1.01 - truth) / (1.01 - truth).sum(1, keepdim=True)
    sure = normal(truth)

    def calm(probs: Tensor) -> Tensor:
        return temper(probs, fit_temperature(probs[val], y))

    def agreed(*given: Tensor) -> tuple[Tensor, list[float]]:
        predictors = {str(at): probs for at, probs in enumerate(given)}
        weights, decision = ensemble_weights(predictors, graph)
        gain = float(decision.tried[-1]["statistic"])
        assert decision.threshold == 3 and (gain > 3) == (len(set(weights.tolist())) > 1)
        return combined(predictors, weights, graph), weights.tolist()

    # one is always wrong: the other alone
    for given, expected in (((wrong, sure), [0, 1]), ((sure, wrong), [1, 0])):
        probs, weights = agreed(*given)
        assert weights == expected
        torch.testing.assert_close(probs, bias_corrected(calm(sure), val, y))
    # one is silent on a single validation node: a mean would be a little less likely, which may be
    # chance
    silent = sure.clone()
    silent[val[0]] = 1 / graph.num_classes
    probs, weights = agreed(sure, silent)
    assert weights == [0.5, 0.5]
    mean = (calm(sure) + calm(silent)) / 2
    torch.testing.assert_close(probs, bias_corrected(mean, val, y))
    torch.testing.assert_close(agreed(sure, silent, wrong)[0].sum(1), torch.ones(graph.num_nodes))


def test_candidates_teach_together_unless_the_first_are_likelier_by_more_than_chance() -> None:
    graph = trials_on().graph
    truth = torch.eye(graph.num_classes)[graph.y.clamp_min(0)]
    noise = torch.rand(truth.shape, generator=torch.Generator().manual_seed(0))

    def saying(probs: Tensor) -> Trial:
        return replace(judged([1]), probs=normal(probs))

    good, unsure = saying(truth + noise), saying(truth + noise.flip(0))
    misled = saying(4 * (1 - truth))
    assert fewest([good, unsure], graph) == [good, unsure]  # their mean is no worse
    assert fewest([good, misled, misled], graph) == [good]
    assert fewest([good], graph) == [good]


@pytest.mark.parametrize(
    ("knn", "spectral", "predictors"),
    [
        (0, False, ["candidates"]),
        (3, False, ["candidates", "kNN graph"]),
        (0, True, ["candidates", "spectral"]),
        (3, True, ["candidates", "kNN graph", "spectral"]),
    ],
)
def test_those_who_teach_beside_the_candidates_are_asked_by_the_settings(
    knn: int, spectral: bool, predictors: list[str]
) -> None:
    rows: list[Row] = []
    found = taught(trials_on(rows=rows), QUICK.changed(knn=knn, spectral=spectral))
    assert [part.rsplit(" ", 1)[0] for part in found.decision.taken.split(", ")] == predictors
    assert ("kNN teacher" in [row["stage"] for row in rows]) == (knn > 0)
    assert all("similar" not in str(trial.architecture) for trial in found.value.trials)


def test_the_best_candidates_are_trained_anew_wider_on_all_labels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own, train = trials_on(), Trials.train_all
    trained: list[tuple[str, Request, Trial]] = []

    def spy(self: Trials, stage: str, requests: Sequence[Request]) -> list[Trial]:
        nets = train(self, stage, requests)
        trained.extend((stage, *pair) for pair in zip(requests, nets, strict=True))
        return nets

    monkeypatch.setattr(Trials, "train_all", spy)
    found = taught(own, QUICK.changed(teachers=1, teacher_hidden=24)).value
    candidates = [net for stage, _, net in trained if stage == "candidate trial"]
    (asked, teacher), *more = [(asked, net) for stage, asked, net in trained if stage == "teacher"]
    best = max(candidates, key=lambda net: net.value).architecture
    assert not more  # and no label is hidden
    assert torch.equal(asked.graph.train_mask, own.graph.train_mask)
    assert teacher.architecture == replace(best, hidden=(24,)) and found.trials == [teacher]
    probs = combined({"candidates": teacher.probs}, torch.ones(1), own.graph)
    unlabelled = ~own.graph.train_mask
    torch.testing.assert_close(found.probs[unlabelled], probs[unlabelled])
    rows = teacher.net.layers[0].weight.detach().norm(dim=1)
    torch.testing.assert_close(found.feature_weight, rows)
