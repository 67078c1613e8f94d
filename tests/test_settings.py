import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, get_origin

import numpy as np
import pytest
import torch
from scipy import sparse as sp

import gassip
from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.operations import ALL_OPS, MORE_OPS, NET_OPS, OPERATIONS
from gassip.settings import PRESETS, Settings, preset
from gassip.settings.best import Best
from gassip.settings.presets import PAPER, best, literal, paper
from gassip.settings.settings import FIELDS, from_flat, read_settings, unread
from gassip.settings.training import Recipe, Retraining

SOURCE = Path(gassip.__file__).parent
LITERALS = [name for name, own in FIELDS.items() if get_origin(own.kind) is Literal]


def test_the_names_of_operations_are_those_of_ops() -> None:
    assert list(NET_OPS) == list(OPERATIONS) and NET_OPS[:7] == MORE_OPS and MORE_OPS[:5] == ALL_OPS


def ring(nodes: int) -> Graph:
    """A directed ring: the cheapest graph of a given size."""
    index = np.arange(nodes)
    split = index % 4
    return Graph.build(
        np.ones((nodes, 1)),
        np.stack([index, (index + 1) % nodes]),
        index // 4 % 2,
        masks=(split < 2, split == 2, split == 3),
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("layers", v) for v in (0, -1, 2.5, "2", True)),
        *(("hidden", v) for v in (0, None)),
        *(("heads", v) for v in (0, 3, 128)),  # 3 and 128 do not divide 64
        *(("dropout", v) for v in (-0.1, 1.0, 1.5, "0.5", float("nan"), float("inf"))),
        ("retrain_dropout", 1.0),
        *(("epochs", v) for v in (0, 10.0)),
        ("warmup_epochs", -1),
        *(("prune", v) for v in (1, "yes", None)),
        *(("curriculum", v) for v in (0, "off")),
        *((name, -1e-3) for name in ("lr_weight", "lr_score", "lr_edge", "lr_alpha", "retrain_lr")),
        *(
            (name, -1.0)
            for name in ("weight_decay", "retrain_weight_decay", "score_std", "score_sparsity")
        ),
        *((name, -1.0) for name in ("lambda1", "lambda2", "beta", "alpha_start", "update_eps")),
        *((name, 0.0) for name in ("weight_gain", "update_clamp", "weight_share", "edge_share")),
        *((name, 1.1) for name in ("weight_share", "edge_share")),
        ("sampled_paths", -1),
        ("num_archs", 0),
        ("retrain_epochs", 0),
        *(("score_mean", v) for v in (float("nan"), "low", True)),
        *((name, float("nan")) for name in ("edge_start", "threshold_start")),
        *((name, "other") for name in LITERALS),
        *(
            (name, 0)
            for name in ("candidates", "teachers", "students", "prune_from", "trial_epochs")
        ),
        *((name, -1) for name in ("teacher_hidden", "knn", "consistency", "distillation")),
        *((name, 0.0) for name in ("consistency_temperature", "size_share", "feature_share")),
        *((name, (0.5, v)) for name in ("clean_shares", "edge_shares") for v in (0, 1.1, "half")),
        ("size_steps", (-1.0,)),
        *((name, ()) for name in ("recipes", "edge_rankings", "edge_shares")),
        ("edge_rankings", ("hubs",)),
        ("recipes", ("weak",)),
        ("final_ops", "GCNConv"),  # one operation, two layers
        ("spectral", 1),
        ("edge_rule", ["paper"]),
        *(
            ("ops", v)
            for v in (
                (),
                ("GCNConv", "GCNConv"),
                ("GCN",),
                "GCNConv",
                5,
                None,
                (["GCNConv"],),
                (1,),
            )
        ),
    ],
)
def test_bad_values_name_the_field(name: str, value: Any) -> None:
    with pytest.raises(GassipError, match=rf"^{name}\b"):
        Settings.of(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("warmup_epochs", 0),
        ("sampled_paths", 0),
        ("dropout", 0),  # a whole number may stand for a fraction
        ("weight_share", 1),
        ("edge_share", 1.0),
        ("beta", 0.0),
        ("update_clamp", float("inf")),
        ("num_archs", 1000),
        ("ops", ["Linear", "GATConv"]),
    ],
)
def test_borders_that_are_allowed(name: str, value: Any) -> None:
    found = Settings.of(**{name: value})
    assert getattr(found.search, name) == (tuple(value) if name == "ops" else value)
    assert type(getattr(found.search, name)) is type(FIELDS[name].default)


def test_the_message_says_what_to_choose() -> None:
    with pytest.raises(GassipError, match="edge_rule is 'best'; choose one of paper, half, budget"):
        Settings.of(edge_rule="best")
    with pytest.raises(GassipError, match=r"dropout is 1\.0; it must be at least 0 and below 1"):
        Settings.of(dropout=1.0)
    with pytest.raises(GassipError, match="heads is 3, which does not divide hidden = 64"):
        Settings.of(heads=3, hidden=64)
    with pytest.raises(GassipError, match="heads is 4, which does not divide teacher_hidden = 6"):
        Settings.of(heads=4, teacher_hidden=6)
    with pytest.raises(GassipError, match=r"'GCN\+Linear' is no architecture; join operations by"):
        Settings.of(prune_candidates=("GCN+Linear",))


def test_what_the_paper_prints() -> None:
    stated = Settings().search
    assert (stated.epochs, stated.warmup_epochs, stated.num_archs, stated.layers) == (250, 10, 2, 2)
    assert (stated.lambda1, stated.lambda2, stated.beta) == (1.0, 1.0, 0.001)
    assert stated.ops == ("GCNConv", "GATConv", "SAGEConv", "ArmaConv", "Linear")
    assert stated.prune and stated.sparsify and stated.curriculum
    assert Settings().best is None


def test_settings_are_a_value() -> None:
    assert Settings.of() == Settings() != Settings.of(hidden=8)
    assert hash(Settings()) == hash(Settings()) and hash(best()) == hash(best())
    with pytest.raises(AttributeError):
        Settings().search.hidden = 8  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Settings().direction = "both"  # type: ignore[misc]


def test_every_field_has_help() -> None:
    assert all(own.help and own.title for own in FIELDS.values())
    assert not [own.name for own in FIELDS.values() if "row " in own.help]


READERS = {
    "": r"settings",
    "search": r"(settings|search)",
    "cleaning": r"settings",
    "recipe": r"recipe",
    "candidates": r"(chosen|candidates)",
    "teaching": r"(teaching|settings)",
    "student": r"(student|settings)",
    "edges": r"edges",
    "pruning": r"pruning",
    "labels": r"labels",
    "plain": r"plain",
}  # by which names a part is read


def outside() -> str:
    """The source without the settings, which only check themselves."""
    paths = [path for path in SOURCE.rglob("*.py") if path.parent.name != "settings"]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


OUTSIDE = outside()


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_is_read(name: str) -> None:
    """A setting that nothing reads is a promise nobody keeps."""
    own = FIELDS[name]
    if name == "retrain_dropouts":  # validation chooses the recipe's dropout among them
        assert re.search(r"\bretraining\.dropouts\b", OUTSIDE)
    elif own.part == "retraining":  # read by way of the recipe
        others = {"fresh": "rewind", "best": "last", "constant": "cosine", 300: 7, 1: 5}
        changed = Settings.of(**{name: others.get(own.default, 0.5)})
        recipe = Recipe.of(changed.retraining)
        assert getattr(recipe, own.attribute) == changed.value(own) != own.default
    else:
        assert re.search(rf"\b{READERS[own.part]}\.{own.attribute}\b", OUTSIDE)


@pytest.mark.parametrize("name", [own.name for own in fields(Recipe)])
def test_every_part_of_a_recipe_is_read(name: str) -> None:
    assert re.search(rf"\brecipe\.{name}\b", OUTSIDE)


def test_a_recipe_starts_as_retraining_does() -> None:
    assert Recipe.of(Retraining()) == Recipe()
    assert Recipe.of(Retraining(epochs=7), batch_norm=True) == Recipe(epochs=7, batch_norm=True)
    for wrong in ({"epochs": 0}, {"dropout": 1.0}, {"prune_to": -1}, {"label_weight": -0.5}):
        with pytest.raises(GassipError, match=rf"^{next(iter(wrong))} is"):
            Recipe(**wrong)
    with pytest.raises(GassipError, match="batch_norm and layer_norm are both on; a recipe has"):
        Recipe(batch_norm=True, layer_norm=True)


@pytest.mark.parametrize("settings", [paper(), best(), best().changed(heads=2, final_ops="")])
def test_flat_names_go_there_and_back(settings: Settings) -> None:
    flat = settings.flat()
    assert from_flat(flat) == settings and json.loads(json.dumps(flat)) == flat
    assert set(flat) == {
        name for name, own in FIELDS.items() if settings.best is not None or not own.stage
    }


def test_a_name_of_best_alone_switches_best_on() -> None:
    plain = Settings.of(hidden=8)
    assert plain.best is None and plain.changed(epochs=3).best is None
    on = plain.changed(teachers=2)
    assert on.best is not None and on.best.teaching.teachers == 2 and on.search.hidden == 8
    assert on == Settings(search=plain.search, best=Best()).changed(teachers=2)
    assert on.changed(teachers=3).best == Best()


def test_what_a_search_decides_cannot_be_set() -> None:
    for name in ("retrain_weights", "label_weight", "prune_to"):
        with pytest.raises(GassipError, match=f"^{name} is decided by the search, not set"):
            Settings.of(**{name: 1})


def test_what_the_settings_do_not_read_is_known() -> None:
    names = ["edge_share", "retrain_dropout", "trial_epochs", "teachers", "epochs"]
    assert unread(paper(), names) == ["trial_epochs", "teachers"]
    assert unread(best(), names) == ["edge_share", "retrain_dropout"]
    one = best().changed(recipes=("given",))
    assert unread(one, names) == ["edge_share", "trial_epochs"]


def test_preset_of_a_small_graph() -> None:
    assert preset("literal", ring(40)) == Settings() == literal()


@pytest.mark.parametrize(
    ("nodes", "layers", "wide"),
    [(29_999, 2, True), (30_000, 2, False), (99_999, 2, False), (100_000, 3, False)],
)
@pytest.mark.parametrize("name", ["paper", "literal"])
def test_preset_follows_the_size(name: str, nodes: int, layers: int, wide: bool) -> None:
    graph = ring(nodes)
    search = preset(name, graph).search
    assert search.layers == layers
    assert search.batch_norm is not wide
    assert ("SAGEConv" in search.ops) is wide and len(search.ops) == (5 if wide else 4)


def best_of(graph: Graph, **overrides: Any) -> dict[str, Any]:
    """The preset `best` by flat names."""
    return preset("best", graph, overrides).flat()


def steps(flat: dict[str, Any]) -> tuple[float, int, int, int]:
    names = ("retrain_lr", "retrain_epochs", "prune_epochs", "trial_epochs")
    return tuple(flat[name] for name in names)


def words(nodes: int, labelled: float) -> Graph:
    """A ring whose nodes have one word of forty each."""
    x = sp.csr_array((np.ones(nodes), (np.arange(nodes), np.arange(nodes) % 40)))
    train = np.arange(nodes) < labelled * nodes
    index = np.stack([np.arange(nodes), np.roll(np.arange(nodes), 1)])
    masks = (train, ~train & (np.arange(nodes) % 2 == 0), ~train & (np.arange(nodes) % 2 == 1))
    return Graph.build(x, index, np.arange(nodes) % 2, masks=masks, undirected=True)


def test_what_best_takes_from_the_graph() -> None:
    few = best_of(words(80, 0.05))
    assert (few["knn"], few["consistency"], few["feature_share"], few["epochs"]) == (
        50,
        1.0,
        0.5,
        15,
    )
    assert few["default_candidates"][0] == "Linear+APPNP5"
    assert few["consistency_temperature"] == 0.3
    many = best_of(words(80, 0.5))
    assert many["consistency"] == 0.0 and many["students"] == 3  # with many labels, no need
    dense = best_of(ring(40))
    assert (dense["knn"], dense["feature_share"], dense["students"]) == (0, 1.0, 3)
    pair = words(80, 0.05)
    assert isinstance(pair.x, Csr)
    odd = Csr.from_scipy(sp.csr_array(pair.x.to_scipy() + sp.eye_array(80, 40, k=1) * 0.5))
    assert best_of(replace(pair, x=odd))["knn"] == 0  # sparse numbers, but no words
    large, small = best_of(words(30_000, 0.5)), best_of(words(29_999, 0.5))
    assert (large["knn"], large["epochs"], large["candidates"]) == (0, 15, 7)
    assert steps(large) == steps(small) == (0.03, 150, 400, 50)
    assert steps(best_of(ring(30_000))) == (0.03, 75, 300, 30)  # fewer weights: fewer epochs
    usual, wider = large["default_candidates"][:-1], small["default_candidates"]
    assert large["default_candidates"][-1] == "ArmaConv+ArmaConv"
    assert wider[:5] == usual and wider[5] == "TAG2+Linear" and small["candidates"] == 9
    huge = best_of(words(100_000, 0.5))
    assert (huge["epochs"], huge["teacher_hidden"]) == (8, 256)
    assert huge["prune_candidates"] == ["GCNConv+APPNP5"]
    assert huge["default_candidates"] == large["default_candidates"]
    assert (huge["teachers"], huge["students"]) == (2, 2)


def test_no_net_is_made_smaller_than_is_of_use() -> None:
    tiny = words(80, 0.5)  # 40 words, two classes: a GCN-64 has 41 · 64 + 65 · 2 = 2,754 weights
    assert best_of(tiny)["size_share"] == 1.09
    assert best_of(tiny, size_share=0.1)["size_share"] == 0.1
    wide = replace(tiny, x=torch.zeros(80, 200))  # 201 · 64 + 130 = 12,994
    assert best_of(wide)["size_share"] == 0.35


def test_paper_is_literal_but_for_its_reading_of_the_gaps() -> None:
    assert paper() == literal().changed(**PAPER) != literal()
    assert paper().best is None
    changed = {name for name, value in paper().flat().items() if value != literal().flat()[name]}
    assert changed == set(PAPER)  # nothing is named that does not differ


def test_overrides_win_over_the_preset() -> None:
    found = preset("paper", ring(30_000), {"batch_norm": False, "hidden": 16})
    assert not found.search.batch_norm and found.search.hidden == 16
    with pytest.raises(GassipError, match=r"^hidden is 0"):
        preset("paper", ring(40), {"hidden": 0})


def test_unknown_names() -> None:
    with pytest.raises(GassipError, match=r"no preset 'papr'; did you mean paper\? choose one of"):
        preset("papr", ring(40))
    with pytest.raises(GassipError, match=f"choose one of {', '.join(PRESETS)}$"):
        preset("?", ring(40))
    with pytest.raises(GassipError, match=r"no setting 'lamda1'; did you mean lambda1\?"):
        Settings.of(lamda1=1.0)
    with pytest.raises(GassipError, match=r"no setting '\?'; see `gassip search --help-all`"):
        Settings.of(**{"?": 1})


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.toml", 'hidden = 16\nbeta = 0.01\nops = ["Linear", "GCNConv"]\nprune = false\n'),
        (
            "a.json",
            json.dumps({"hidden": 16, "beta": 0.01, "ops": ["Linear", "GCNConv"], "prune": False}),
        ),
    ],
)
def test_settings_from_a_file(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).write_text(text, encoding="utf-8")
    found = Settings.of(**read_settings(tmp_path / file))
    assert found == Settings.of(hidden=16, beta=0.01, ops=("Linear", "GCNConv"), prune=False)


def test_names_of_earlier_versions_are_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "old.toml").write_text(
        'finalists = 3\nportfolio = ["GCNConv+GCNConv"]\nsimilar = 4\nspare = 2\n'
        'edge_rules = ["hubs", "random"]\nprunable = []\nhear_labels = false\nrecipe = "given"\n'
    )
    assert read_settings(tmp_path / "old.toml") == {
        "candidates": 3,
        "default_candidates": ["GCNConv+GCNConv"],
        "knn": 4,
        "prune_from": 2,
        "edge_rankings": ["inverse-degree", "random"],
        "prune_candidates": [],
        "label_propagation": False,
        "recipes": ["given"],
    }
    (tmp_path / "auto.toml").write_text('recipe = "auto"\nretrain_weights = 0\n')
    assert read_settings(tmp_path / "auto.toml") == {}
    (tmp_path / "set.toml").write_text("retrain_weights = 50\n")
    with pytest.raises(GassipError, match="retrain_weights is decided by the search"):
        Settings.of(**read_settings(tmp_path / "set.toml"))


@pytest.mark.parametrize(
    ("file", "content"),
    [("a.toml", b"hidden = "), ("a.json", b"{"), ("b.json", b"[1, 2]"), ("c.toml", b"\xff\xfe")],
)
def test_bad_files_are_named(tmp_path: Path, file: str, content: bytes) -> None:
    (tmp_path / file).write_bytes(content)
    with pytest.raises(GassipError, match=re.escape(file)):
        read_settings(tmp_path / file)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GassipError, match=r"none\.toml"):
        read_settings(tmp_path / "none.toml")
