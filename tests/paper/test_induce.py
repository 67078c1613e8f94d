"""Which architectures may be induced."""

import torch

from gassip.paper import loop
from gassip.paper.induce import path_score, paths_to_try
from gassip.paper.state import State
from gassip.paper.supernet import top_paths
from gassip.settings import Settings
from gassip.train.trainer import seeded
from tests.conftest import random_graph

QUICK = Settings.of(hidden=4, epochs=5, warmup_epochs=2, dropout=0.5, induced_from=5)


def searched(**changes: object) -> State:
    graph = random_graph(3, nodes=60, edges=150)
    with seeded(1, graph.device):
        return loop.run(graph, QUICK.changed(**changes).search)


def test_the_score_of_a_path_is_its_accuracy_inside_the_supernet() -> None:
    state = searched()
    graph, path = state.graph, (2, 1)
    logits = state.supernet(graph.x, state.masked, state.weights(), path=path)
    right = logits.argmax(1)[graph.val_mask] == graph.y[graph.val_mask]
    assert path_score(state, path, "accuracy") == float(right.float().mean())


def test_alpha_alone_names_the_most_probable() -> None:
    state = searched()
    assert paths_to_try(state, "accuracy") == top_paths(state.supernet.alpha, 5)


def test_half_are_the_most_probable_and_half_those_that_validate_best() -> None:
    state = searched(induced_by="both")
    probable = top_paths(state.supernet.alpha, 25)
    tried = paths_to_try(state, "accuracy")
    assert tried[:3] == probable[:3] and len(set(tried)) == 5  # of five the odd one is α's
    scores = {path: path_score(state, path, "accuracy") for path in probable}
    left_out = [path for path in probable if path not in tried]
    assert min(scores[path] for path in tried[3:]) >= max(scores[path] for path in left_out)
    assert scores[tried[3]] >= scores[tried[4]]


def test_one_architecture_is_the_most_probable_whatever_the_rule() -> None:
    state = searched(induced_by="both", induced_from=1)
    assert paths_to_try(state, "accuracy") == top_paths(state.supernet.alpha, 1)


def test_no_more_paths_than_there_are() -> None:
    state = searched(induced_by="both", induced_from=40)
    assert sorted(paths_to_try(state, "accuracy")) == sorted(top_paths(state.supernet.alpha, 25))


def test_choosing_paths_draws_no_random_number() -> None:
    state = searched(induced_by="both")
    before = torch.get_rng_state()
    paths_to_try(state, "accuracy")
    assert torch.equal(torch.get_rng_state(), before)
