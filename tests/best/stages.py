"""Stages of `best` on small graphs: what the tests of this room start from."""

from dataclasses import replace

import torch

from gassip.best.candidates import train_candidates
from gassip.best.decisions import Decided
from gassip.best.edge_cleaning import drop_dissimilar_edges
from gassip.best.ensemble import Teacher, build_teacher
from gassip.best.recipe import choose_recipe
from gassip.best.significance import Validation
from gassip.best.trials import Trial, Trials
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture
from gassip.settings import Settings
from gassip.settings.training import Recipe
from gassip.train.plan import Row
from tests.conftest import random_graph
from tests.small import bare_best

SHAPES = [
    Architecture(ops=ops, hidden=(6,)) for ops in (("GCNConv", "GCNConv"), ("Linear", "APPNP5"))
]
QUICK = bare_best(
    teachers=2,
    candidates=2,
    students=1,
    trial_epochs=2,
    retrain_epochs=3,
    recipes=("strong", "medium", "norm"),
    consistency=1.0,
)


def trials_on(graph: Graph | None = None, seed: int = 0, rows: list[Row] | None = None) -> Trials:
    tell = (rows if rows is not None else []).append
    graph = random_graph(1, nodes=30) if graph is None else graph
    return Trials(graph, seed=seed, metric="accuracy", tell=tell)


def judged(right: list[int], value: float | None = None) -> Trial:
    """A trial that gets these validation nodes right, of class 0 each."""
    own = trials_on()
    trial = own.train("", SHAPES[0], Recipe(epochs=1), own.graph)
    marks = torch.tensor(right, dtype=torch.bool)
    if value is None:
        value = float(marks.float().mean())
    probs = torch.eye(2)[(~marks).long()]
    said = Validation("accuracy", probs, torch.zeros_like(marks).long())
    return replace(trial, validation=said, value=value)


def taught(trials: Trials, settings: Settings) -> Decided[Teacher]:
    """The stages up to the teacher, the candidates being SHAPES."""
    assert settings.best is not None
    cleaned = drop_dissimilar_edges(trials, settings.best.cleaning).value
    own = choose_recipe(trials, cleaned.graph, SHAPES[0], settings).value
    name, recipe = own.name, own.recipe
    candidates = train_candidates(trials, cleaned.graph, SHAPES, name, recipe, recipe.epochs)
    return build_teacher(trials, cleaned, candidates, recipe, settings.best.teaching)


def garbled(graph: Graph) -> Graph:
    """Garbage for the labels of test nodes."""
    wrong = (graph.y + 1) % graph.num_classes
    return replace(graph, y=torch.where(graph.test_mask, wrong, graph.y))


def two_groups(blind: bool) -> Graph:
    """Two groups with words of their own; edges join any two nodes, or two of one group."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(240) % 2
    x = torch.zeros(240, 40)
    for node in range(240):  # a third of the words is shared
        x[node, torch.randperm(30, generator=generator)[:5] + 10 * int(y[node])] = 1.0
    ends = torch.randint(120, (2, 700), generator=generator) * 2
    index = torch.cat([ends, ends + 1], 1)
    if blind:
        index = torch.randint(240, (2, 1400), generator=generator)
    block = torch.arange(240) // 2 % 3
    masks = tuple((block == part).numpy() for part in range(3))
    return Graph.build(x, index, y, masks=masks, undirected=True)
