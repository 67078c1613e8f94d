"""Two writers on one folder: the second is refused in one line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gassip.cli import main
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.runs.lock import sole_writer
from tests.train.test_divergence import QUICK, write


def test_the_second_writer_is_refused_and_the_lock_goes(tmp_path: Path) -> None:
    with sole_writer(tmp_path / "run"):
        with (
            pytest.raises(GassipError, match="another process is writing"),
            sole_writer(tmp_path / "run"),
        ):
            raise AssertionError("the second writer was let in")
        with sole_writer(tmp_path / "other"):
            pass
    assert not list(tmp_path.iterdir())
    with sole_writer(tmp_path / "run"):
        pass


@pytest.mark.parametrize("flag", ["--resume", "--overwrite"])
def test_a_search_into_a_folder_that_is_being_written(
    make_graph: Callable[..., Graph],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flag: str,
) -> None:
    path = write(tmp_path / "g.npz", make_graph())
    with sole_writer(tmp_path / "o"):
        assert (
            main(["search", "--data", str(path), "--out", str(tmp_path / "o"), *QUICK, flag]) == 2
        )
    assert "another process is writing" in capsys.readouterr().err
    assert [own.name for own in tmp_path.iterdir()] == ["g.npz"]
