from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from gassip.best.candidates import Candidates, label_folds, train_best, train_candidates
from gassip.best.ensemble import KNN_STAGE, knn_request
from gassip.best.trials import Request, Trial, Trials
from gassip.nn.net import Architecture
from gassip.settings.training import Recipe
from tests.best.stages import QUICK, SHAPES, judged, taught, trials_on
from tests.conftest import random_graph


def test_folds_are_a_partition_of_the_training_nodes() -> None:
    graph = random_graph(1, nodes=30)
    folds = label_folds(graph, 3, seed=5)
    assert torch.equal(torch.stack(folds).sum(0), graph.train_mask.long())
    sizes = [int(fold.sum()) for fold in folds]
    assert max(sizes) - min(sizes) <= 1
    again = label_folds(graph, 3, seed=5)
    assert all(torch.equal(*pair) for pair in zip(folds, again, strict=True))


def test_where_labels_are_few_none_is_hidden() -> None:
    graph = random_graph(1, nodes=60)
    few = torch.zeros_like(graph.train_mask)
    few[:5] = True
    assert not torch.stack(label_folds(replace(graph, train_mask=few), 3, seed=0)).any()


def test_candidates_do_not_see_what_is_hidden_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    own, train = trials_on(), Trials.train_all
    seen: list[torch.Tensor] = []

    def spy(self: Trials, stage: str, requests: Sequence[Request]) -> list[Trial]:
        if stage == "candidate trial":
            seen.extend(request.graph.train_mask for request in requests)
        return train(self, stage, requests)

    monkeypatch.setattr(Trials, "train_all", spy)
    taught(own, QUICK)
    folds = label_folds(own.graph, 2, seed=0)
    assert all(
        torch.equal(mask, own.graph.train_mask & ~fold)
        for mask, fold in zip(seen, folds, strict=True)
    )


def test_the_best_are_told_best_first_each_architecture_once() -> None:
    low, high, same = (replace(judged([1]), value=value) for value in (0.1, 0.9, 0.9))
    low, high, same = (
        replace(trial, architecture=Architecture(ops=(op, "Linear"), hidden=(6,)))
        for trial, op in zip((low, high, same), ("GCNConv", "GATConv", "SAGEConv"), strict=True)
    )
    given = {"strong": Recipe(dropout=0.8), "norm": Recipe(dropout=0.2)}
    own = Candidates([low, high, same], [], ["strong", "norm", "strong"], given)
    assert own.ranked == [high, same, low]  # of equals the earlier
    assert own.best_architectures(2) == [high.architecture.ops, same.architecture.ops]
    assert own.best_recipe == ("norm", given["norm"])  # not as it was suited to an architecture
    twice = Candidates([low, high, replace(high, value=0.8)], [], ["strong"] * 3, given)
    assert twice.best_architectures(2) == [high.architecture.ops, low.architecture.ops]


def test_a_net_that_drops_nodes_is_trained_with_less_dropout() -> None:
    own = trials_on()
    shapes = [Architecture(ops=("Hops4", "Linear"), hidden=(6,)), SHAPES[0]]
    found = train_candidates(own, own.graph, shapes, "strong", Recipe(epochs=1, dropout=0.8), 1)
    assert [trial.recipe.dropout for trial in found.trials] == [0.5, 0.8]


def test_all_are_trained_for_a_few_epochs_and_the_best_in_full_on_the_same_labels() -> None:
    own = trials_on()
    first = train_candidates(own, own.graph, SHAPES, "strong", Recipe(epochs=3), 1)
    assert [trial.recipe.epochs for trial in first.trials] == [1, 1]
    found = train_best(own, own.graph, first, 1, "mild", Recipe(epochs=3, dropout=0.1))
    best = first.trials.index(first.ranked[0])
    assert found.trials[1 - best] is first.trials[1 - best]
    assert found.trials[best].recipe == Recipe(epochs=3, dropout=0.1)
    assert found.recipes[best] == "mild" and found.recipes[1 - best] == "strong"
    assert found.folds == first.folds and found.best_recipe[1].epochs == 3


def test_a_short_training_by_the_recipe_that_won_goes_on() -> None:
    own, recipe = trials_on(), Recipe(epochs=5, consistency=1.0, schedule="cosine")
    first = train_candidates(own, own.graph, SHAPES, "strong", recipe, 2)
    found = train_best(own, own.graph, first, 1, "strong", recipe)
    best = first.trials.index(first.ranked[0])
    begun, ended = first.trials[best], found.trials[best]
    assert ended.recipe == recipe and ended.best_epoch <= 3
    for name, value in begun.net.named_parameters():
        assert torch.equal(ended.first[name], value)
    again = train_best(own, own.graph, first, 2, "strong", replace(recipe, epochs=2))
    assert [trial.net for trial in again.trials] == [trial.net for trial in first.trials]


def test_what_was_trained_before_is_not_trained_again() -> None:
    own = trials_on()
    request = Request(architecture=SHAPES[0], recipe=Recipe(epochs=1), graph=own.graph)
    (first,) = own.train_all("recipe", [request])
    again, other = own.train_all(
        "candidate", [replace(request, what="again"), replace(request, architecture=SHAPES[1])]
    )
    assert again is first and other.architecture == SHAPES[1] and len(own.board) == 2


def test_a_net_of_another_stage_is_trained_beside_the_best_and_found_later() -> None:
    own, recipe = trials_on(), Recipe(epochs=3, consistency=1.0)
    first = train_candidates(own, own.graph, SHAPES, "strong", recipe, 1)
    request = knn_request(own.graph, SHAPES[0], recipe)
    found = train_best(own, own.graph, first, 1, "strong", recipe, [(KNN_STAGE, request)])
    assert len(found.trials) == len(first.trials)
    assert own.board[-1].name == "kNN teacher 0" and request.recipe.consistency == 0
    trained = len(own.board)
    (knn,) = own.train_all(KNN_STAGE, [knn_request(own.graph, SHAPES[0], recipe)])
    assert len(own.board) == trained and knn.name == "kNN teacher 0"
