"""A small run on rows that the tests of this folder share."""

from pathlib import Path

import pytest

from gassip import cli
from gassip.large.block_model import BlockModel, draw
from gassip.large.writing import write_block_model

MODEL = BlockModel(nodes=1500, degree=10, features=6, classes=3, homophily=0.8, labelled=0.2)


@pytest.fixture(scope="session")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A graph folder and a run on its rows."""
    place = tmp_path_factory.mktemp("search")
    write_block_model(MODEL, draw(MODEL), 0.9, place / "csbm.graph")
    words = ["search", "--data", str(place / "csbm.graph"), "--large", "on", "--preset", "fast"]
    assert cli.main([*words, "--out", str(place / "run"), "--quiet"]) == 0
    return place / "csbm.graph", place / "run"
