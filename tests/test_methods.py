"""What every method must do, whatever it is; the list of methods is the list of tests."""

import dataclasses
import subprocess
import sys
from dataclasses import fields, replace

import pytest
import torch

from gassip.bench.execute import trains_plainly
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.methods import (
    METHODS,
    Method,
    Searcher,
    changed,
    entry,
    parsed,
    plain_settings,
)
from gassip.metrics import METRICS
from gassip.train.context import RunContext
from gassip.train.plan import Solution
from tests.conftest import random_graph

FEW = {
    **dict.fromkeys(("epochs", "every", "steps"), 3),
    **dict.fromkeys(
        ("rounds", "children", "samples", "generations", "population", "count", "trials"), 2
    ),
}
NAMED = {  # exactly the names of the comparison
    "gassip-all-edges",
    "gassip-random-edges",
    *(
        "gcn",
        "gat",
        "arma",
        "sage",
        "gin",
        "sgc",
        "appnp",
        "mlp",
        "dropedge",
        "neuralsparse",
        "ptdnet",
        "dspar",
    ),
    *(
        "darts",
        "graphnas",
        "gasso",
        "gauss",
        "sane",
        "autoattend",
        "random-search",
        "exhaustive",
        "darts-dropedge",
    ),
    *(
        "ugs",
        "imp",
        "darts-ugs",
        "cgp",
        "earlybird",
        "algnn",
        "hmnas",
        "glnn",
        "gcn-jaccard",
        "rgcn",
        "gnnguard",
    ),
    *("label-propagation", "correct-and-smooth"),
    *("random-mask", "random-edges", "magnitude", "small-gcn"),
    *("gassip", "gassip-literal", "gassip-best", "gassip-best-unfitted", "fitted"),
    *("gassip-no-prune", "gassip-no-sparsify", "gassip-no-curriculum"),
}


def quick(method: Method) -> Method:
    """The method with every number of epochs, rounds and the like cut down, and the warm-up ended
    at once."""
    small: dict[str, object] = {}
    for own in fields(method):  # type: ignore[arg-type]
        value = getattr(method, own.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            small[own.name] = quick(value)  # type: ignore[arg-type]
        if (not isinstance(value, int) and "epochs" not in own.name) or isinstance(value, bool):
            continue
        few = [count for word, count in FEW.items() if word in own.name]
        if few:
            small[own.name] = 1 if "warm" in own.name else min(few[0], value or few[0])
    if isinstance(getattr(method, "ops", None), tuple):
        small["ops"] = method.ops[:3]  # type: ignore[attr-defined]
    return replace(method, **small)  # type: ignore[type-var]


def solved(name: str, graph: Graph, seed: int = 0) -> Solution:
    return quick(entry(name).make(graph)).solve(graph, RunContext(seed))


@pytest.fixture(scope="module")
def graph() -> Graph:
    return random_graph(1, nodes=48, edges=110, features=24, isolated=4, sparse=True)


@pytest.fixture(scope="module")
def solutions() -> dict[str, Solution]:
    """What was solved already; every test asks for the same graph and seed."""
    return {}


@pytest.fixture(params=list(METHODS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def solution(name: str, graph: Graph, solutions: dict[str, Solution]) -> Solution:
    if name not in solutions:
        solutions[name] = solved(name, graph)
    return solutions[name]


def weights(solution: Solution) -> torch.Tensor:
    return torch.cat([torch.zeros(0), *(p.detach().flatten() for p in solution.model.parameters())])


def test_the_names_are_those_of_the_comparison() -> None:
    assert set(METHODS) == NAMED


def test_finite_on_a_graph_with_isolated_nodes(solution: Solution) -> None:
    assert torch.isfinite(weights(solution)).all()
    assert set(solution.scores["accuracy"]) == {"train", "val", "test"}
    for metric, splits in solution.scores.items():
        assert metric in METRICS and all(0 <= value <= 1 for value in splits.values())


def test_counts_fit_each_other(name: str, solution: Solution, graph: Graph) -> None:
    assert 0 <= solution.weights_kept <= solution.weights_total
    assert (solution.weights_kept == 0) == (name == "label-propagation")  # which has none
    assert 0 <= solution.edges_kept <= solution.edges_total == graph.num_edges
    assert solution.edges_kept in (0, solution.graph.num_edges)
    assert solution.seconds > 0 and solution.best_epoch >= 0


def test_equal_seeds_give_equal_results(name: str, solution: Solution, graph: Graph) -> None:
    again = solved(name, graph)
    assert again.scores == solution.scores
    assert torch.equal(weights(again), weights(solution))
    assert torch.equal(again.graph.edge_index, solution.graph.edge_index)


def test_test_labels_change_nothing(name: str, solution: Solution, graph: Graph) -> None:
    garbage = torch.where(graph.test_mask, (graph.y + 1) % graph.num_classes, graph.y)
    other = solved(name, replace(graph, y=garbage))
    for split in ("train", "val"):
        assert other.accuracy[split] == solution.accuracy[split]
    assert torch.equal(weights(other), weights(solution))
    assert torch.equal(other.graph.edge_index, solution.graph.edge_index)


def test_settings_are_plain_values_that_rebuild_the_method(name: str, graph: Graph) -> None:
    method = entry(name).make(graph)
    plain = plain_settings(method)
    flat = {key: value for key, value in plain.items() if not isinstance(value, dict)}
    assert changed(method, flat) == method


def test_texts_become_values_of_the_fields_types(graph: Graph) -> None:
    method = entry("gassip").make(graph)
    given = {
        "hidden": "32",
        "dropout": "0.25",
        "prune": "false",
        "ops": "GCNConv,Linear",
        "edge_rule": "half",
    }
    values = parsed(method, given)
    assert values == {
        "hidden": 32,
        "dropout": 0.25,
        "prune": False,
        "ops": ("GCNConv", "Linear"),
        "edge_rule": "half",
    }
    for wrong in ({"hidden": "1.5"}, {"prune": "yes"}, {"edge_rule": "all"}):
        with pytest.raises(GassipError, match=r"must be|is not a"):
            parsed(method, wrong)
    with pytest.raises(GassipError, match="did you mean hidden"):
        parsed(method, {"hiden": "3"})
    assert parsed(entry("darts-ugs").make(graph), {"search_epochs": "none"}) == {
        "search_epochs": None
    }


def test_which_methods_search_apart_and_which_train_plainly(graph: Graph) -> None:
    made = {name: own.make(graph) for name, own in METHODS.items()}
    assert {"gassip", "darts", "darts-ugs", "exhaustive"} <= {
        n for n, own in made.items() if isinstance(own, Searcher)
    }
    assert not isinstance(made["gcn"], Searcher) and not isinstance(made["hmnas"], Searcher)
    plain = {name for name, own in made.items() if trains_plainly(own, None)}
    assert {"gcn", "sage", "arma", "mlp", "small-gcn"} <= plain
    assert not plain & {"gat", "dropedge", "gassip", "ugs", "random-edges"}


def test_an_unknown_name_gets_a_hint() -> None:
    with pytest.raises(GassipError, match="did you mean gassip"):
        entry("gasip")


def test_a_list_may_be_given_empty() -> None:
    method = entry("gassip").make(random_graph(0))
    assert parsed(method, {"size_steps": "", "ops": "GCNConv,Linear", "edge_shares": "0.5"}) == {
        "size_steps": (),
        "ops": ("GCNConv", "Linear"),
        "edge_shares": (0.5,),
    }


def test_the_list_is_read_without_torch() -> None:
    code = "import sys, gassip.methods; print([m for m in sys.modules if m.startswith('torch')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_entry_names_a_class_of_its_own_module() -> None:
    for named in METHODS.values():
        module, _, kind = named.place.partition(":")
        made = named.load()
        assert (made.__module__, made.__name__) == (f"gassip.baselines.{module}", kind)  # type: ignore[attr-defined]
        assert made.version >= 1
