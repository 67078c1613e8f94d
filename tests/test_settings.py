import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse as sp

import gassip.settings
from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.operations import ALL_OPS, MORE_OPS, NET_OPS, OPERATIONS
from gassip.settings import (
    Gassip,
    preset,
    read_settings,
    with_overrides,
)

SOURCE = Path(gassip.settings.__file__).parent


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
        *((f.name, "other") for f in fields(Gassip) if "Literal" in str(f.type)),
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
        Gassip(**{name: value})


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
    found = getattr(Gassip(**{name: value}), name)
    assert found == (tuple(value) if name == "ops" else value)


def test_the_message_says_what_to_choose() -> None:
    with pytest.raises(GassipError, match="edge_rule is 'best'; choose one of paper, half, budget"):
        Gassip(edge_rule="best")  # type: ignore[arg-type]
    with pytest.raises(GassipError, match=r"dropout is 1\.0; it must be at least 0 and below 1"):
        Gassip(dropout=1.0)
    with pytest.raises(GassipError, match="heads is 3, which does not divide hidden = 64"):
        Gassip(heads=3, hidden=64)


def test_what_the_paper_prints() -> None:
    stated = Gassip()
    assert (stated.epochs, stated.warmup_epochs, stated.num_archs, stated.layers) == (250, 10, 2, 2)
    assert (stated.lambda1, stated.lambda2, stated.beta) == (1.0, 1.0, 0.001)
    assert stated.ops == ("GCNConv", "GATConv", "SAGEConv", "ArmaConv", "Linear")
    assert stated.prune and stated.sparsify and stated.curriculum


def test_settings_are_a_value() -> None:
    assert Gassip() == Gassip() != Gassip(hidden=8)
    assert hash(Gassip()) == hash(Gassip())
    with pytest.raises(AttributeError):
        Gassip().hidden = 8  # type: ignore[misc]


def test_every_field_has_help() -> None:
    assert all(f.metadata["help"] for f in fields(Gassip))


@pytest.mark.parametrize("name", [f.name for f in fields(Gassip)])
def test_every_setting_is_read(name: str) -> None:
    """A setting that nothing reads is a promise nobody keeps; settings.py only checks them."""
    readers = [p for p in SOURCE.rglob("*.py") if p.name != "settings.py"]
    assert any(re.search(rf"\bsettings\.{name}\b", p.read_text(encoding="utf-8")) for p in readers)


def test_preset_of_a_small_graph() -> None:
    assert preset("paper", ring(40)) == Gassip()


@pytest.mark.parametrize(
    ("nodes", "layers", "wide"),
    [(29_999, 2, True), (30_000, 2, False), (99_999, 2, False), (100_000, 3, False)],
)
def test_preset_follows_the_size(nodes: int, layers: int, wide: bool) -> None:
    found = preset("paper", ring(nodes))
    assert found.layers == layers
    assert found.batch_norm is not wide
    assert ("SAGEConv" in found.ops) is wide and len(found.ops) == (5 if wide else 4)


def steps(settings: Gassip) -> tuple[float, int, int, int]:
    return (
        settings.retrain_lr,
        settings.retrain_epochs,
        settings.prune_epochs,
        settings.trial_epochs,
    )


def words(nodes: int, labelled: float) -> Graph:
    """A ring whose nodes have one word of forty each."""
    x = sp.csr_array((np.ones(nodes), (np.arange(nodes), np.arange(nodes) % 40)))
    train = np.arange(nodes) < labelled * nodes
    index = np.stack([np.arange(nodes), np.roll(np.arange(nodes), 1)])
    masks = (train, ~train & (np.arange(nodes) % 2 == 0), ~train & (np.arange(nodes) % 2 == 1))
    return Graph.build(x, index, np.arange(nodes) % 2, masks=masks, undirected=True)


def test_what_best_takes_from_the_graph() -> None:
    few = preset("best", words(80, 0.05))
    assert (few.similar, few.consistency, few.feature_share, few.epochs) == (50, 1.0, 0.5, 100)
    assert few.portfolio[0] == "Linear+APPNP5" and few.consistency_temperature == 0.3
    many = preset("best", words(80, 0.5))
    assert many.consistency == 0.0 and many.students == 3  # with many labels, nothing to agree on
    dense = preset("best", ring(40))
    assert (dense.similar, dense.feature_share, dense.students) == (0, 1.0, 3)
    pair = words(80, 0.05)
    mixed = replace(
        pair,
        x=Csr.from_scipy(sp.csr_array(pair.x.to_scipy() + sp.eye_array(80, 40, k=1) * 0.5)),  # type: ignore[union-attr]
    )
    assert preset("best", mixed).similar == 0  # sparse numbers, but no words
    large = preset("best", words(30_000, 0.5))
    assert (large.similar, large.epochs, large.finalists) == (0, 40, 7)
    assert steps(large) == steps(preset("best", words(29_999, 0.5))) == (0.01, 300, 1200, 100)
    assert steps(preset("best", ring(30_000))) == (
        0.03,
        150,
        600,
        40,
    )  # fewer weights, which larger steps suit
    assert large.portfolio == (*preset("best", words(29_999, 0.5)).portfolio, "ArmaConv+ArmaConv")
    huge = preset("best", words(100_000, 0.5))
    assert (huge.epochs, huge.teacher_hidden, huge.prunable) == (20, 256, ("GCNConv+APPNP5",))
    assert set(large.portfolio) - set(huge.portfolio) == {"Linear+APPNP10"}
    assert set(huge.portfolio) - set(large.portfolio) == {"GCNConv+APPNP5"}


def test_edges_stay_where_neighbours_are_unlike() -> None:
    unlike = words(
        300, 0.5
    )  # a ring of two classes in turn, 298 directed edges between its training nodes
    assert preset("best", unlike).edge_shares == (1.0,)
    assert preset("best", unlike, {"edge_shares": (0.5,)}).edge_shares == (0.5,)
    halves = replace(unlike, y=(torch.arange(300) % 150 < 75).long())  # the ring in four arcs
    assert preset("best", halves).edge_shares == (0.89,)
    assert preset("best", words(80, 0.5)).edge_shares == (0.89,)  # 78 edges say little


def test_no_net_is_made_smaller_than_is_of_use() -> None:
    tiny = words(80, 0.5)  # 40 words, two classes: a GCN-64 has 41 · 64 + 65 · 2 = 2,754 weights
    assert preset("best", tiny).size_share == 1.09
    assert preset("best", tiny, {"size_share": 0.1}).size_share == 0.1
    wide = replace(tiny, x=torch.zeros(80, 200))  # 201 · 64 + 130 = 12,994
    assert preset("best", wide).size_share == 0.35


def test_overrides_win_over_the_preset() -> None:
    found = preset("paper", ring(30_000), {"batch_norm": False, "hidden": 16})
    assert not found.batch_norm and found.hidden == 16
    with pytest.raises(GassipError, match=r"^hidden is 0"):
        preset("paper", ring(40), {"hidden": 0})


def test_unknown_names() -> None:
    with pytest.raises(GassipError, match=r"no preset 'papr'; choose one of .*paper"):
        preset("papr", ring(40))
    with pytest.raises(GassipError, match="no setting 'lamda1'"):
        with_overrides(Gassip(), {"lamda1": 1.0})


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
    found = with_overrides(Gassip(), read_settings(tmp_path / file))
    assert found == replace(Gassip(), hidden=16, beta=0.01, ops=("Linear", "GCNConv"), prune=False)


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
