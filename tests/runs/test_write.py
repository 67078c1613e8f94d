import csv
import hashlib
import json
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from gassip.best.pipeline import search
from gassip.deploy.runtime import load
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.runs import format as store
from gassip.runs import write as artefact
from gassip.runs.write import Run, check_target, open_run, save, save_method
from gassip.settings import Settings, preset
from gassip.train.plan import Decision, Plan, Solution
from gassip.train.trainer import planned_net, predict, retrain
from tests.conftest import random_graph
from tests.small import with_recipe

SMALL = Settings.of(
    hidden=8,
    epochs=6,
    warmup_epochs=2,
    retrain_epochs=4,
    edge_rule="budget",
    retrain_start="rewind",
)
Solved = tuple[Graph, Plan, Solution]
NET = {"hidden": [8], "heads": [1], "batch_norm": False, "dropout": 0.5}
WHOLE = (*artefact.FILES, "decisions.json", "leaderboard.json")


@pytest.fixture(scope="module")
def solved(make_graph: Callable[..., Graph]) -> Solved:
    graph = make_graph(nodes=60, edges=200, weighted=True)
    found = search(graph, SMALL, seed=3)
    return graph, found, retrain(graph, found, seed=3)


@pytest.fixture(scope="module")
def saved(solved: Solved, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "run"
    save(folder, *solved, seed=3, preset="paper", retrain_history=[{"epoch": 1, "train_loss": 2.5}])
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "run"))


def reseal(folder: Path, **changes: object) -> None:
    """Change meta.json as someone would who knows how its checksums are made."""
    meta = json.loads((folder / "meta.json").read_text()) | changes
    meta["files"] = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in WHOLE
    }
    meta["sha256"] = store.digest(meta)
    (folder / "meta.json").write_text(json.dumps(meta))


def test_what_is_opened_computes_the_same_bits(solved: Solved, folder: Path) -> None:
    graph, _, solution = solved
    run = open_run(folder)
    logits = run.model(graph.x, run.edge_index, run.edge_weight)
    assert torch.equal(logits, predict(solution.model, solution.graph))
    assert torch.equal(run.masks["test"], graph.test_mask)
    assert not run.model.training


def test_a_retraining_from_the_folder_is_the_one_from_memory(solved: Solved, folder: Path) -> None:
    graph, found, _ = solved
    again, before = retrain(graph, open_run(folder).plan, seed=9), retrain(graph, found, seed=9)
    for name, value in before.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name])


def test_found_comes_back_whole(solved: Solved, folder: Path) -> None:
    _, found, _ = solved
    opened = open_run(folder).plan
    assert opened.settings == found.settings and opened.architecture == found.architecture
    assert torch.equal(opened.edge_keep, found.edge_keep) and torch.equal(
        opened.edge_mask, found.edge_mask
    )
    assert opened.history == found.history and opened.seconds == found.seconds


def test_meta_holds_what_is_promised(solved: Solved, folder: Path) -> None:
    graph, found, solution = solved
    meta = json.loads(
        (folder / "meta.json").read_text(), parse_constant=lambda text: pytest.fail(text)
    )
    assert meta["schema"] == 2 and meta["preset"] == "paper" and meta["seed"] == 3
    assert meta["architecture"] == list(found.architecture.ops)
    assert meta["edges_kept"] == int(found.edge_keep.sum()) < meta["edges_total"] == graph.num_edges
    assert meta["accuracy"] == solution.accuracy and set(meta["seconds"]) == {"search", "retrain"}
    assert {"gassip", "torch", "torch_geometric", "numpy", "python"} == set(meta["versions"])
    assert meta["source"]["kind"] == "memory" and meta["source"]["fingerprint"] == graph.fingerprint


def test_a_split_without_nodes_is_null(make_graph: Callable[..., Graph], tmp_path: Path) -> None:
    whole = make_graph(nodes=30, edges=60)
    masks = (
        whole.train_mask.numpy(),
        whole.val_mask.numpy(),
        torch.zeros(30, dtype=torch.bool).numpy(),
    )
    graph = Graph.build(whole.x, whole.edge_index, whole.y, masks=masks)
    found = search(graph, SMALL)
    meta = save(tmp_path / "run", graph, found, retrain(graph, found))
    assert meta["accuracy"]["test"] is None
    assert open_run(tmp_path / "run").meta == meta


def test_history_has_one_row_per_epoch(folder: Path) -> None:
    with (folder / "history.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["phase"], row["epoch"]) for row in rows[-2:]] == [
        ("search", "6"),
        ("retrain", "1"),
    ]
    assert len(rows) == 7 and rows[0]["val_loss"] == "" and list(rows[0])[-1] == "seconds"


def test_the_drawing_is_the_same_each_time(solved: Solved) -> None:
    history = [{"phase": "search", **row} for row in solved[1].history]
    drawn = artefact.history_svg(history)
    assert drawn == artefact.history_svg(history)
    assert b"<svg" in drawn and b"dc:date" not in drawn


@pytest.mark.parametrize("name", ["meta.json", *WHOLE])
def test_a_flipped_byte_is_refused_by_name(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    refused(folder, name)


@pytest.mark.parametrize("name", ["meta.json", *WHOLE])
def test_a_missing_or_truncated_file_is_refused_by_name(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    refused(folder, name)
    (folder / name).unlink()
    refused(folder, name)


def refused(folder: Path, match: str) -> None:
    with pytest.raises(GassipError, match=match) as caught:
        open_run(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"schema": NaN}', "[" * 100_000, "\x00", '{"schema": 99}']
)
def test_a_foreign_meta_is_refused(folder: Path, text: str) -> None:
    (folder / "meta.json").write_text(text)
    refused(folder, "meta.json")


@pytest.mark.parametrize(
    "changes",
    [
        {"features": 10**12},
        {"nodes": 5},
        {"edges_total": "many"},
        {"architecture": ["Exec", "Linear"]},
        {"architecture": [["Linear"]]},
        {"architecture": []},
        {"class_names": ["a"]},
        {"net": {"hidden": [10**9], "heads": [1], "batch_norm": False, "dropout": 0.5}},
        {"net": {"hidden": [8], "heads": [3], "batch_norm": False, "dropout": 0.5}},
        {"net": NET | {"layer_norm": True}},
        {"net": NET | {"layer_norm": 1}},
        {"net": NET | {"batch_norm": True, "layer_norm": True}},
        {"recipe": {"batch_norm": True, "layer_norm": True}},
        {"settings": {"nonsense": 1}},
        {"settings": {"epochs": -1}},
        {"settings": {"retrain_weights": 5}},
        {"recipe": {"nonsense": 1}},
        {"recipe": {"epochs": -1}},
        {"recipe": {"dropout": 1.5}},
        {"recipe": [1]},
        {"symmetrised": "no"},
        {"soft_edges": 1},
        {"schema": 1},
        {"source": {"kind": "file", "path": 7}},
        {"seconds": {}},
    ],
)
def test_a_hostile_meta_is_refused_though_its_checksums_fit(
    folder: Path, changes: dict[str, object]
) -> None:
    reseal(folder, **changes)
    refused(folder, "json|safetensors")


def test_a_net_that_was_saved_before_there_was_layer_norm(folder: Path) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    tables = {name: dict(meta[name]) for name in ("net", "found", "recipe")}
    assert [table.pop("layer_norm") for table in tables.values()] == [False] * 3
    reseal(folder, **tables)
    run = open_run(folder)
    assert not run.model.architecture.layer_norm and not run.plan.recipe.layer_norm


def test_a_net_with_layer_norm_survives_its_folder(solved: Solved, tmp_path: Path) -> None:
    graph, found, _ = solved
    plan = with_recipe(found, layer_norm=True, start="fresh")
    shape = replace(found.architecture, layer_norm=True)
    plan = replace(plan, architecture=shape, first_weights={}, last_weights={})
    named = planned_net(graph, plan).named_parameters()
    weights = {name: value.detach() for name, value in named}
    plan = replace(plan, first_weights=weights, last_weights=weights)
    solution = retrain(graph, plan, seed=3)
    meta = save(tmp_path / "run", graph, plan, solution)
    assert meta["net"]["layer_norm"] and meta["found"]["layer_norm"]
    run = open_run(tmp_path / "run")
    assert run.model.architecture.layer_norm and run.plan.recipe == plan.recipe
    logits = run.model(graph.x, run.edge_index, run.edge_weight)
    assert torch.equal(logits, predict(solution.model, solution.graph))
    np.testing.assert_allclose(load(tmp_path / "run").scores(), logits.detach(), atol=1e-5)
    assert retrain(graph, run.plan, seed=3).scores == solution.scores
    tensors = load_file(tmp_path / "run" / "model.safetensors")
    tensors["norms.0.weight"] = torch.ones(7)
    save_file(tensors, tmp_path / "run" / "model.safetensors")
    reseal(tmp_path / "run")
    refused(tmp_path / "run", "model.safetensors")
    with pytest.raises(GassipError, match="layer norm 0 must have 8 numbers"):
        load(tmp_path / "run")


def test_edges_outside_the_nodes_are_refused(folder: Path) -> None:
    tensors = load_file(folder / "graph.safetensors")
    tensors["edge_index"][0, 0] = 60
    save_file(tensors, folder / "graph.safetensors")
    reseal(folder)
    refused(folder, "graph.safetensors")


def test_a_tensor_too_much_is_refused(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"extra": torch.zeros(1)}, folder / "model.safetensors")
    reseal(folder)
    refused(folder, "extra")


@pytest.mark.parametrize("part", ["", ".bits", ".shape"])
def test_a_mask_that_does_not_fit_its_weights_is_refused(folder: Path, part: str) -> None:
    name = f"layers.0.weight{part}"
    tensors = load_file(folder / "model.safetensors")
    for wrong in (tensors[name][:-1].contiguous(), torch.zeros_like(tensors[name]).half()):
        save_file(tensors | {name: wrong}, folder / "model.safetensors")
        reseal(folder)
        refused(folder, "model.safetensors does not fit meta.json: layers.0.weight is not of shape")
    save_file(tensors | {name: tensors[name].double()}, folder / "model.safetensors")
    reseal(folder)
    refused(folder, "model.safetensors .*F64")  # a type that no run holds is not read
    del tensors[name]
    save_file(tensors, folder / "model.safetensors")
    reseal(folder)
    refused(folder, "model.safetensors")


def test_a_teacher_comes_back_and_one_of_another_shape_is_refused(
    solved: Solved, folder: Path
) -> None:
    graph, found, solution = solved
    teacher = torch.softmax(predict(solution.model, solution.graph), 1)
    save(folder, graph, replace(found, teacher=teacher), solution, overwrite=True)
    opened = open_run(folder).plan.teacher
    assert opened is not None and torch.equal(opened, teacher)
    tensors = load_file(folder / "found.safetensors")
    save_file(tensors | {"teacher": teacher[:, 1:].contiguous()}, folder / "found.safetensors")
    reseal(folder)
    refused(folder, "found.safetensors does not fit meta.json: teacher is")


def test_a_pickle_under_a_tensor_files_name_is_refused(folder: Path) -> None:
    torch.save({"layers.0.weight": torch.zeros(1)}, folder / "model.safetensors")
    reseal(folder)
    refused(folder, "model.safetensors")


def test_a_folder_that_exists_stays_unless_it_is_a_run_to_overwrite(
    solved: Solved, folder: Path
) -> None:
    with pytest.raises(GassipError, match="--overwrite"):
        save(folder, *solved)
    other = folder.with_name("letters")
    other.mkdir()
    (other / "letter.txt").write_text("dear")
    with pytest.raises(GassipError, match="not the folder of a run"):
        check_target(other, overwrite=True)
    assert save(folder, *solved, seed=4, overwrite=True)["seed"] == 4
    assert sorted(p.name for p in folder.parent.iterdir()) == ["letters", "run"]
    assert isinstance(open_run(folder), Run)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The kernel refuses to write more into any one file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_fails_leaves_nothing_new_and_the_old_run(
    solved: Solved, folder: Path
) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for target, overwrite in ((folder, True), (folder.with_name("second"), False)):
        with files_of_at_most(2000), pytest.raises(GassipError, match=r"cannot write .*too large"):
            save(target, *solved, overwrite=overwrite)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == ["run"]


def test_a_run_that_reads_edges_both_ways_says_so_to_every_reader(tmp_path: Path) -> None:
    graph = random_graph(4, nodes=40, edges=90, undirected=False)
    settings = preset(
        "paper", graph, {"epochs": 2, "warmup_epochs": 1, "retrain_epochs": 3, "direction": "both"}
    )
    own = search(graph, settings, seed=0)
    solution = retrain(graph, own, seed=0)
    meta = save(tmp_path / "run", graph, own, solution)
    assert meta["edges_total"] == graph.both_ways.num_edges and meta["source"]["undirected"]
    assert meta["source"]["fingerprint"] == graph.both_ways.fingerprint
    run = open_run(tmp_path / "run")
    assert retrain(graph, run.plan, seed=0).scores == solution.scores
    light = load(tmp_path / "run")
    np.testing.assert_allclose(
        light.predict_proba(), predict(solution.model, solution.graph).softmax(1), atol=1e-5
    )
    other = random_graph(5, nodes=30, edges=50, undirected=False)
    expected = predict(solution.model, other.both_ways).softmax(1)
    assert isinstance(other.x, torch.Tensor)
    given = light.predict_proba(other.x.numpy(), other.edge_index.numpy())
    np.testing.assert_allclose(given, expected, atol=1e-5)


def test_the_run_of_a_method_that_reads_edges_both_ways_says_so(tmp_path: Path) -> None:
    graph = random_graph(4, nodes=40, edges=90, undirected=False)
    settings = preset(
        "paper", graph, {"epochs": 2, "warmup_epochs": 1, "retrain_epochs": 3, "direction": "both"}
    )
    solution = retrain(graph, search(graph, settings, seed=0), seed=0)
    about = {"method": "gassip", "settings": {}, "seconds": {"search": 0.0, "retrain": 0.0}}
    meta = save_method(tmp_path / "both", graph, solution, **about)  # type: ignore[arg-type]
    assert (
        meta["source"]["undirected"]
        and meta["source"]["fingerprint"] == graph.both_ways.fingerprint
    )
    plain = retrain(graph, search(graph, settings.changed(direction="given"), seed=0), seed=0)
    assert "undirected" not in save_method(tmp_path / "given", graph, plain, **about)["source"]  # type: ignore[arg-type]


def test_inputs_and_what_the_search_made_of_them_come_back_apart(
    solved: Solved, folder: Path
) -> None:
    graph, found, solution = solved
    opened = open_run(folder).plan
    assert (opened.settings, opened.recipe) == (found.settings, found.recipe)
    assert opened.soft_edges and not opened.symmetrised
    decided = with_recipe(found, prune_to=77, label_weight=0.5, batch_norm=True)
    save(folder, graph, replace(decided, soft_edges=False), solution, overwrite=True)
    opened = open_run(folder).plan
    assert opened.settings == found.settings and opened.recipe == decided.recipe
    assert not opened.soft_edges


def test_decisions_that_are_none_are_refused(solved: Solved, folder: Path) -> None:
    made = (Decision(stage="direction", taken="given", tried=({"name": "given"},), threshold=3.0),)
    save(folder, solved[0], replace(solved[1], decisions=made), solved[2], overwrite=True)
    assert open_run(folder).plan.decisions == made
    for content in ("{", "7", '[{"stage": "direction"}]', '[{"nonsense": 1, "tried": []}]', "[7]"):
        (folder / "decisions.json").write_text(content)
        reseal(folder)
        refused(folder, "decisions.json")
