"""The same graph from CSV, Parquet and frames; all errors of a table at once."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gassip
from gassip.errors import GassipError
from gassip.graph.parts import Parts
from gassip.graph.table_frames import table_of_mapping
from gassip.graph.tables import read_tables

NODES = pd.DataFrame(
    {
        "id": ["a", "b", "c", "d", "e", "f"],
        "label": ["cat", "dog", "cat", "dog", "cat", None],
        "split": ["train", "train", "val", "val", "test", None],
        "age": [1.0, 2.0, np.nan, 4.0, 5.5, 6.0],
        "town": ["x", "y", "x", None, "y", "y"],
        "member": [True, False, True, True, False, True],
        "since": pd.to_datetime(
            ["2020-01-01", "2021-06-05", None, "2020-02-29", "2022-01-01", "2023-03-04"]
        ),
    }
)
EDGES = pd.DataFrame({"source": ["a", "b", "c", "f"], "target": ["b", "c", "d", "e"]})


def write_csv(folder: Path, nodes: pd.DataFrame = NODES, edges: pd.DataFrame = EDGES) -> Path:
    folder.mkdir(exist_ok=True)
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges.to_csv(folder / "edges.csv", index=False)
    return folder


def write_parquet(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    NODES.to_parquet(folder / "nodes.parquet", index=False)
    EDGES.to_parquet(folder / "edges.parquet", index=False)
    return folder


def same(one: Parts, other: Parts) -> None:
    assert one.preparation == other.preparation and one.ids == other.ids
    for name in ("x", "edge_index", "y"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_csv_parquet_and_frames_agree(tmp_path: Path) -> None:
    csv, parquet = (
        read_tables(write_csv(tmp_path / "c")),
        read_tables(write_parquet(tmp_path / "p")),
    )
    same(csv, parquet)
    assert csv.preparation is not None
    assert csv.preparation.columns == {
        "age": "number",
        "member": "boolean",
        "since": "date",
        "town": "category",
    }
    graph = gassip.from_frames(NODES, EDGES)
    assert graph.preparation == csv.preparation and graph.ids == csv.ids
    np.testing.assert_array_equal(graph.x, csv.x)
    assert graph.class_names == ("cat", "dog") and graph.y.tolist() == [0, 1, 0, 1, 0, -1]
    assert graph.train_mask.tolist() == [True, True, False, False, False, False]


def test_frames_with_other_names_and_an_index() -> None:
    nodes = NODES.set_index("id").rename(columns={"label": "kind"})
    edges = EDGES.rename(columns={"source": "from", "target": "to"})
    graph = gassip.from_frames(nodes, edges, label="kind", id=None, source="from", target="to")
    plain = gassip.from_frames(NODES, EDGES)
    assert graph.ids == plain.ids and graph.fingerprint == plain.fingerprint


def test_a_frame_like_another_graph_needs_no_label_and_no_order() -> None:
    graph = gassip.from_frames(NODES, EDGES)
    turned = NODES[NODES.columns[::-1]].drop(columns=["label", "split"])
    other = gassip.from_frames(turned, EDGES, like=graph)
    np.testing.assert_array_equal(other.x, graph.x)
    assert (other.y == -1).all() and other.preparation == graph.preparation
    with pytest.raises(GassipError, match="nodes has no column age"):
        gassip.from_frames(NODES.drop(columns="age"), EDGES, like=graph)


def test_texts_of_figures_stay_texts_in_a_frame() -> None:
    nodes = NODES.assign(town=["01", "02", "01", "02", "01", "02"])
    made = gassip.from_frames(nodes, EDGES).preparation
    assert made is not None and made.columns["town"] == "category"


def test_all_errors_of_both_tables_at_once(tmp_path: Path) -> None:
    nodes = NODES.assign(
        id=["a", "a", "c", "d", "e", "f"], age=["1", "2", "3", "4", "5", "old"], split="dev"
    )
    folder = write_csv(tmp_path, nodes, EDGES.assign(weight=["1", "", "2", "x"]))
    with pytest.raises(GassipError) as caught:
        read_tables(folder)
    lines = caught.value.lines
    assert len(lines) == 10 and lines[0] == "nodes.csv line 3: id 'a' was given before"
    assert "nodes.csv line 2: column split holds 'dev', not train, val, test or nothing" in lines
    assert "nodes.csv line 7: column age holds 'old', not a number" in lines
    nodes = nodes.assign(split="train")
    with pytest.raises(GassipError) as caught:
        read_tables(write_csv(tmp_path, nodes, EDGES.assign(weight=["1", "", "2", "x"])))
    assert caught.value.lines == (
        "nodes.csv line 3: id 'a' was given before",
        "nodes.csv line 7: column age holds 'old', not a number",
        "edges.csv line 3: source 'b' is not an id in nodes.csv",
        "edges.csv line 2: target 'b' is not an id in nodes.csv",
        "edges.csv line 5: column weight holds 'x', not a number",
        "edges.csv line 3: column weight is empty, not a number",
    )


def test_cells_that_no_frame_may_hold_are_told_with_the_rest() -> None:
    nodes = NODES.assign(age=[1, np.inf, 3, 4, 5, 6], town=[["x"]] * 6)
    nodes = nodes.assign(id=["a", "b", "b", "d", "e", "f"])
    with pytest.raises(GassipError) as caught:
        gassip.from_frames(nodes, EDGES.assign(source="q"))
    assert caught.value.lines[:3] == (
        "nodes row 1: column age holds inf, not a number",
        "nodes row 0: column town holds a list, not one value; several labels are not supported",
        "nodes row 2: id 'b' was given before",
    )
    assert "edges row 0: source 'q' is not an id in nodes" in caught.value.lines


def test_a_label_that_is_a_measure_is_refused(tmp_path: Path) -> None:
    folder = write_csv(tmp_path, NODES.assign(label=[0.1, 0.25, 3.0, 4.0, 5.0, 6.0]))
    with pytest.raises(GassipError, match=r"column label holds '0.1': regression is not supported"):
        read_tables(folder)


def test_parquet_of_odd_types_and_damaged_files(tmp_path: Path) -> None:
    folder = write_parquet(tmp_path / "p")
    pq.write_table(pa.table({"id": ["a"], "label": ["x"], "v": [[1, 2]]}), folder / "nodes.parquet")
    with pytest.raises(GassipError, match=r"nodes.parquet: column v holds list<"):
        read_tables(folder)
    (folder / "nodes.parquet").write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(GassipError, match=r"nodes.parquet is not a Parquet file, or damaged"):
        read_tables(folder)


def test_not_frames() -> None:
    with pytest.raises(GassipError, match="nodes is a dict; it must be a pandas DataFrame"):
        gassip.from_frames({}, EDGES)


def test_cells_of_several_values_are_refused(tmp_path: Path) -> None:
    """Lists of labels would become classes of their own."""
    nodes = NODES.assign(label=[["cat"], ["cat", "dog"]] * 3, more=[{"a": 1}] * 6)
    said = r"nodes row 0: column label holds a list.*\n.*column more holds a dict"
    with pytest.raises(GassipError, match=said):
        gassip.from_frames(nodes, EDGES)
    with pytest.raises(GassipError, match="column label holds a list, not one value"):
        table_of_mapping({"id": ["a", "b"], "label": [["x"], "y"]}, "nodes")
    write_parquet(tmp_path)
    pq.write_table(pa.Table.from_pandas(nodes), tmp_path / "nodes.parquet")
    with pytest.raises(GassipError, match="column label holds list<"):
        gassip.read(tmp_path)


def test_a_text_that_a_parquet_file_holds_once_is_counted_for_each_row(tmp_path: Path) -> None:
    """Two million rows of one text of 1,000 characters: some kilobytes, and 2 GB in memory."""
    write_parquet(tmp_path)
    long = pa.DictionaryArray.from_arrays(np.zeros(2 * 10**6, dtype=np.int32), ["x" * 1000])
    nodes = pa.table({"id": np.arange(2 * 10**6), "label": long})
    pq.write_table(nodes, tmp_path / "nodes.parquet", compression="zstd")
    with pytest.raises(GassipError, match=r"nodes\.parquet would take 2\.0 GiB, the limit is"):
        gassip.read(tmp_path)
