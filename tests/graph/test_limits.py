"""A file's declared sizes are judged before anything is allocated."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gassip.errors import GassipError
from gassip.graph.datasets import read, read_inputs
from gassip.graph.limits import VARIABLE, check_columns, check_unpacked, lifted

EDGES = np.array([[0, 1], [1, 0]])


def bomb(path: Path, gigabytes: int, packing: int = zipfile.ZIP_DEFLATED) -> None:
    """A small archive whose x declares many zeros; a few of them are there."""
    shape = (gigabytes * 2**20, 256)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(10**6))
        for name, value in (("edge_index", EDGES), ("y", np.array([0, 1]))):
            content = io.BytesIO()
            np.save(content, value)
            archive.writestr(f"{name}.npy", content.getvalue())


def test_what_an_npz_unpacks_to_is_bounded_by_its_header(tmp_path: Path) -> None:
    bomb(tmp_path / "g.npz", 4)
    with pytest.raises(GassipError, match=rf"x would take 4.0 GiB, the limit is 1.0.*{VARIABLE}=5"):
        read(tmp_path / "g.npz")


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_is_unpacked_without_a_bound_is_not_begun(tmp_path: Path, packing: int) -> None:
    """The first read of bzip2 unpacks all that 4 kB hold: 2 kB were 5 GB before a header was
    seen."""
    bomb(tmp_path / "g.npz", 4, packing)
    with pytest.raises(GassipError, match=r"x\.npy is packed by another method than numpy's"):
        read(tmp_path / "g.npz")


def test_a_sparse_table_of_empty_columns_is_refused(tmp_path: Path) -> None:
    sparse: dict[str, Any] = {
        "x_data": np.ones(2),
        "x_indices": np.array([0, 1]),
        "x_indptr": np.array([0, 1, 2]),
    }
    shape = np.array([2, 2**31 - 1])
    np.savez(tmp_path / "g.npz", **sparse, x_shape=shape, edge_index=EDGES, y=np.array([0, 1]))
    with pytest.raises(GassipError, match="2147483647 columns, but only 2 entries"):
        read(tmp_path / "g.npz")
    check_columns(400_000, 100_000)  # as a bag of words has


def test_a_view_that_repeats_one_number_is_counted_whole(tmp_path: Path) -> None:
    x = torch.zeros(1).expand(2**20, 2**10)
    torch.save({"x": x, "edge_index": torch.from_numpy(EDGES)}, tmp_path / "g.pt")
    with pytest.raises(GassipError, match=r"x would take 4\.0 GiB"):
        read_inputs(tmp_path / "g.pt")


def test_a_variable_lifts_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(b"")
    monkeypatch.setenv(VARIABLE, "3")
    assert lifted() == 3 * 2**30
    check_unpacked("x", 2.5 * 2**30, tmp_path / "f")
    check_columns(2**31 - 1, 2)
    monkeypatch.setenv(VARIABLE, "many")
    with pytest.raises(GassipError, match="'many'; it must be a number of gibibytes above 0"):
        lifted()
