"""The graph of Debian's files from a few lines of an index."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pq = pytest.importorskip("pyarrow.parquet")
TOOL = Path(__file__).parents[2] / "tools" / "build_debian_files.py"

LINES = [
    "usr/bin/foo                 utils/foo\n",
    "usr/bin/bar tool            contrib/net/bar,utils/foo\n",
    "usr/share/doc/foo/copyright utils/foo\n",
    "usr/share/doc/bar/copyright net/bar\n",
    "FILE LOCATION\n",
]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_debian_files", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_files_directories_and_equal_names(tool: ModuleType, tmp_path: Path) -> None:
    tree = tool.read(LINES)
    folders = ["usr", "usr/bin", "usr/share", "usr/share/doc"]
    assert list(tree.folders) == [*folders, "usr/share/doc/foo", "usr/share/doc/bar"]
    files = {name: label for name, label in zip(tree.names, tree.labels, strict=True) if label}
    assert files == {"foo": "utils", "bar tool": "net", "copyright": "net"}
    edges = {
        (tree.names[a], tree.names[b])
        for a, b in tool.pairs(tree)
        if tree.labels[a] and tree.labels[b]
    }
    assert edges == {("copyright", "copyright")}
    assert len(tool.pairs(tree)) == len(tree.names) - 1 + 1  # a tree below usr, and one pair
    tool.write(tree, tmp_path)
    nodes = pq.read_table(tmp_path / "nodes-0000.parquet").to_pandas()
    assert set(nodes["label"]) == {"", "utils", "net"}
    assert (nodes["split"] != "")[nodes["label"] != ""].all()
    rows = nodes.drop(columns=["id", "label", "split"]).to_numpy()
    copies = [k for k, name in enumerate(tree.names) if name == "copyright"]
    assert np.array_equal(rows[copies[0]], rows[copies[1]])
