from dataclasses import replace

import torch

from gassip.best.direction import choose_direction
from gassip.graph.graph import Graph
from tests.conftest import random_graph


def cited() -> Graph:
    """Four classes; 120 old nodes whose features tell theirs, 120 new ones whose features say
    nothing, each with six edges to old nodes of its class. Validation and test nodes are new."""
    generator = torch.Generator().manual_seed(0)
    y, new = torch.arange(240) % 4, torch.arange(240) >= 120
    x = torch.eye(8)[y] * ~new[:, None] + 0.2 * torch.randn(240, 8, generator=generator)
    sender = torch.nonzero(new).squeeze(1).repeat_interleave(6)
    receiver = 4 * torch.randint(30, (sender.numel(),), generator=generator) + y[sender]
    part = torch.arange(240) // 4 % 3
    masks = (~new | (part == 0), new & (part == 1), new & (part == 2))
    return Graph.build(x, torch.stack([sender, receiver]), y, masks=masks)


def test_edges_are_symmetrised_where_that_makes_validation_nodes_likelier() -> None:
    graph = cited()
    both = choose_direction(graph, "auto", "accuracy")
    assert both.value and both.decision.taken == "both"
    assert float(both.decision.tried[1]["statistic"]) > 3 == both.decision.threshold
    assert not choose_direction(graph, "given", "accuracy").value  # not asked
    assert not choose_direction(graph.both_ways, "auto", "accuracy").value  # nothing to add
    noise = random_graph(3, nodes=60, edges=200, undirected=False)
    assert not choose_direction(noise, "auto", "accuracy").value
    assert choose_direction(noise, "both", "accuracy").value  # asked
    # no test label has a part in it
    hidden = replace(graph, y=torch.where(graph.test_mask, 0, graph.y))
    assert choose_direction(hidden, "auto", "accuracy").value
