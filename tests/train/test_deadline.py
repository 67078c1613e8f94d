"""Durations as people write them, and trainings that a deadline ends."""

import time

import pytest
import torch

from gassip.errors import GassipError
from gassip.nn.net import Architecture, net_for
from gassip.paper import loop
from gassip.settings.search import Search
from gassip.train.deadline import Deadline, TimeUp, seconds_of
from gassip.train.gradual_pruning import Pruning
from gassip.train.trainer import train
from tests.conftest import random_graph

SMALL = Architecture(ops=("GCNConv", "GCNConv"), hidden=(4,))
PAST = Deadline(time.monotonic() - 1)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("60", 60), ("60s", 60), ("1.5m", 90), ("2h", 7200), (" 10 M ", 600), (45, 45), (0.5, 0.5)],
)
def test_durations(given: str | float, seconds: float) -> None:
    assert seconds_of(given) == seconds


@pytest.mark.parametrize("given", ["", "0", "-5", "1,5m", "ten", "5d", "1e3", "inf", True, -1])
def test_what_is_no_duration_is_refused_by_name(given: str | float) -> None:
    with pytest.raises(GassipError, match=r"time limit is .*such as 60s, 10m or 2h"):
        seconds_of(given)


def test_a_deadline_counts_from_a_reading_of_the_clock() -> None:
    began = time.monotonic() - 100
    deadline = Deadline.after(160, since=began)
    assert 59 < deadline.left <= 60 and not deadline.passed
    assert deadline.earlier(61).passed
    deadline.check()
    with pytest.raises(TimeUp):
        deadline.earlier(61).check()


@pytest.mark.parametrize("keep", ["best", "last"])
def test_a_deadline_leaves_the_net_of_the_first_epoch(keep: str) -> None:
    """One epoch is always trained, so that there is a net: the same as a training of one epoch."""
    graph, nets = random_graph(0), []
    for epochs, deadline in ((1, None), (50, PAST)):
        torch.manual_seed(0)
        net = net_for(graph, SMALL)
        last = train(
            net, graph, epochs=epochs, lr=0.01, weight_decay=0.0, keep=keep, deadline=deadline
        )
        assert last == 1
        nets.append(net.state_dict())
    assert all(torch.equal(nets[0][name], nets[1][name]) for name in nets[0])


def test_a_net_that_is_not_yet_pruned_is_not_handed_over() -> None:
    graph = random_graph(0)
    net = net_for(graph, SMALL)
    pruning = Pruning(weights=30, first=1, last=20)
    with pytest.raises(TimeUp):
        train(net, graph, epochs=30, lr=0.01, weight_decay=0.0, pruning=pruning, deadline=PAST)


def test_the_search_ends_at_a_deadline() -> None:
    with pytest.raises(TimeUp):
        loop.run(random_graph(0), Search(epochs=3), deadline=PAST)
