"""Run folders and settings files of schema 1, written before settings became parts, stay readable.

Beside each folder are the scores that torch and the runtime gave then, and its settings file.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from gassip.deploy import runtime
from gassip.graph.graph import Graph
from gassip.nn.net import Net
from gassip.runs.write import Run, open_run, save
from gassip.settings.settings import from_flat, read_settings
from gassip.train.trainer import predict, retrain
from tests.golden import GRAPHS
from tests.small import with_recipe

FOLDER = Path(__file__).parents[1] / "fixtures" / "schema-1"
NAMES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


def opened(name: str) -> tuple[Run, Graph]:
    graph = "one-way" if "one-way" in name else name.split("-")[1]
    return open_run(FOLDER / name), GRAPHS[graph]()


def test_there_are_fixtures_of_both_presets() -> None:
    assert len(NAMES) == 5 and {name.split("-")[0] for name in NAMES} == {"best", "paper"}
    assert all(open_run(FOLDER / name).meta["schema"] == 1 for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_then(name: str) -> None:
    run, graph = opened(name)
    stored = np.load(FOLDER / f"{name}.npz")
    read = run.plan.on(graph)
    assert torch.equal(read.edge_index, run.edge_index)
    found = predict(run.model, read).numpy()
    np.testing.assert_allclose(found, stored["scores"], rtol=1e-5, atol=1e-5)
    light = runtime.load(FOLDER / name).scores()
    np.testing.assert_allclose(light, stored["runtime"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_what_was_found_then_is_retrained(name: str) -> None:
    run, graph = opened(name)
    solution = retrain(graph, run.plan, seed=run.meta["seed"])
    assert isinstance(solution.model, Net)
    assert solution.model.architecture == run.plan.architecture
    assert solution.model.label_weight == run.plan.recipe.label_weight == run.model.label_weight
    assert (solution.edges_kept, solution.edges_total) == (
        run.meta["edges_kept"],
        run.meta["edges_total"],
    )
    assert solution.weights_kept == run.meta["weights_kept"]
    assert solution.scores == run.meta["scores"] and solution.best_epoch == run.meta["best_epoch"]


@pytest.mark.parametrize("name", NAMES)
def test_inputs_and_results_are_told_apart(name: str) -> None:
    run, _ = opened(name)
    meta, plan = run.meta, run.plan
    assert (plan.settings.best is not None) == name.startswith("best") == (plan.teacher is not None)
    assert plan.recipe.prune_to == meta["settings"]["retrain_weights"]
    assert plan.recipe.label_weight == meta["settings"]["label_weight"]
    assert plan.symmetrised == (meta["settings"]["direction"] == "both")
    assert plan.decisions == ()
    assert plan.soft_edges == name.startswith("paper")
    assert plan.architecture.batch_norm == plan.recipe.batch_norm


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_of_schema_1_is_saved_anew_as_schema_2(name: str, tmp_path: Path) -> None:
    run, graph = opened(name)
    quick = with_recipe(run.plan, epochs=2, prune_to=0)
    meta = save(tmp_path / "run", graph, quick, retrain(graph, quick))
    assert meta["schema"] == 2
    again = open_run(tmp_path / "run").plan
    assert (again.settings, again.recipe) == (quick.settings, quick.recipe)
    assert (again.symmetrised, again.soft_edges) == (quick.symmetrised, quick.soft_edges)
    assert torch.equal(again.edge_keep, quick.edge_keep)


@pytest.mark.parametrize("name", NAMES)
def test_an_old_settings_file_gives_the_settings_of_the_run(name: str) -> None:
    run, _ = opened(name)
    found = from_flat(read_settings(FOLDER / f"{name}.settings.json"))
    assert found == run.plan.settings
