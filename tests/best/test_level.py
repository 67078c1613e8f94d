from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from gassip.best.candidates import Candidates
from gassip.best.edge_ranking import Known
from gassip.best.ensemble import Teacher
from gassip.best.level import keep_level, plain_nets, preferred
from gassip.best.student import ALL_EDGES, Chosen, Classroom
from gassip.best.trials import Request, Trial
from gassip.nn.net import Architecture, Net
from gassip.settings.training import Recipe
from tests.best.stages import judged, trials_on


def room_of() -> Classroom:
    trials = trials_on()
    graph = trials.graph
    probs = torch.full((graph.num_nodes, graph.num_classes), 1 / graph.num_classes)
    teacher = Teacher(probs=probs, trials=[], feature_weight=torch.ones(graph.num_features))
    return Classroom(
        trials=trials,
        graph=graph,
        teacher=teacher,
        recipe=Recipe(distillation=1.0),
        trial_epochs=1,
        heads=1,
        known=Known(graph, probs, torch.ones(graph.num_edges), 0),
        features=torch.arange(3),
        cuts={},
        graphs={},
    )


def right(count: int) -> Trial:
    trial = judged([1] * count + [0] * (20 - count))
    shape = Architecture(ops=("GCNConv", "GCNConv"), hidden=(64,))
    return replace(trial, architecture=shape, recipe=Recipe(epochs=9, distillation=1.0))


@pytest.mark.parametrize(
    ("student", "others", "taken"),
    [
        (18, [], "as it is"),
        (20, [], "as it is"),
        (15, [20], "all features"),
        (15, [12, 20], "labels alone"),
        (15, [12, 13, 19], "labels alone, larger"),
        (15, [12, 13, 14], "as it is"),  # none is better
    ],
)
def test_the_first_net_that_is_level_with_the_best_candidate_is_taken(
    student: int, others: list[int], taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, left = room_of(), [right(count) for count in others]
    asked: list[Request] = []
    candidates = Candidates(
        [right(20 if student < 18 else 18)], [], ["strong"], {"strong": Recipe(epochs=1)}
    )
    start = Chosen(right(student), "support 0.5")

    def train(stage: str, requests: Sequence[Request]) -> list[Trial]:
        asked.extend(requests)
        return [left.pop(0)]

    monkeypatch.setattr(room.trials, "train_all", train)
    found = keep_level(room, start, candidates, 0.35)
    assert found.decision.taken == taken and not left
    assert found.value.cut == ("support 0.5" if taken == "as it is" else ALL_EDGES)
    assert all(request.feature_index is None for request in asked)
    assert [request.recipe.distillation for request in asked] == [1.0, 0.0, 0.0][: len(asked)]
    widths = [request.architecture.hidden for request in asked]
    assert all(width < (64,) for width in widths[:2]) and widths[2:] in ([], [(64,)])


def test_the_best_plain_net_is_trained_in_full_on_labels_alone() -> None:
    room = room_of()
    recipe = Recipe(epochs=2, consistency=1.0, dropout=0.8, batch_norm=True)
    candidates = Candidates(
        [replace(right(18), recipe=recipe)], [], ["strong"], {"strong": Recipe(epochs=3)}
    )
    plain = ("GCNConv+GCNConv", "Linear+APPNP10")
    (found,) = plain_nets(room, right(0), candidates, plain, 1)
    assert [own.name for own in room.trials.board] == ["plain trial 0", "plain trial 1", "plain 0"]
    assert found.architecture.hidden == (64,) and not found.architecture.batch_norm
    assert (found.recipe.consistency, found.recipe.dropout, found.recipe.epochs) == (0.0, 0.5, 3)
    assert plain_nets(room, right(0), candidates, (), 1) == []


def test_the_best_candidate_is_trained_on_all_labels_where_it_missed_some() -> None:
    room = room_of()
    trial = replace(right(18), recipe=Recipe(epochs=2))
    fold = torch.zeros(room.graph.num_nodes, dtype=torch.bool)
    missed = Candidates([trial], [~fold], ["strong"], {"strong": Recipe(epochs=3)})
    (found,) = plain_nets(room, right(0), missed, ("Linear+Linear",), 1)
    assert [own.name for own in room.trials.board] == ["plain trial 0", "plain 0"]
    assert found.architecture == trial.architecture and found.recipe.epochs == 3
    assert plain_nets(room, right(0), replace(missed, folds=[fold]), (), 1) == []


def test_plain_nets_behind_the_student_are_not_trained_in_full() -> None:
    room = room_of()
    alone = replace(right(18), recipe=Recipe(epochs=3, consistency=1.0))
    candidates = Candidates([alone], [], ["strong"], {"strong": Recipe(epochs=3)})
    assert plain_nets(room, right(20), candidates, ("GCNConv+GCNConv",), 1) == []
    assert [own.name for own in room.trials.board] == ["plain trial 0"]


def test_a_net_with_more_weights_must_be_better_beyond_chance() -> None:
    light = right(15)
    heavy = Net(3, 2, Architecture(ops=("GCNConv", "GCNConv"), hidden=(640,)))
    assert light.net.num_weights()[0] < heavy.num_weights()[0]
    assert preferred(right(16), light) and not preferred(right(15), light)
    assert not preferred(replace(right(16), net=heavy), light)
    assert preferred(replace(right(20), net=heavy), light)
