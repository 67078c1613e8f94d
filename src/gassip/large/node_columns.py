"""Labels, splits and features of an import, from the table `nodes` of its database.

Classes are named as in small tables. Columns are prepared as a sample of the nodes says; those of
CSV files are told by their texts, as there.

Shapes: N nodes, D features.
"""

import json
from typing import TYPE_CHECKING

import numpy as np

from gassip.errors import GassipError, error_of
from gassip.graph.columns import Column, Table, is_missing, is_number, objects
from gassip.graph.labels import class_numbers, complete_masks
from gassip.graph.preparation import Preparation, fit_preparation
from gassip.graph.table_frames import table_of_frame
from gassip.large import faults
from gassip.large.arrays import Appending
from gassip.large.database import Work, batches, named, quoted, run
from gassip.large.sources import file_kind

if TYPE_CHECKING:
    import pandas as pd

SPLITS = {"train": 1, "val": 2, "test": 3}
SAMPLE, COPIES = 200_000, 64  # nodes on which the preparation is fitted; bytes of a cell
MOST_CLASSES = 100_000


def write_labels(work: Work) -> None:
    """raw-y.npy, raw-split.npy and classes.json."""
    names = number_classes(work)
    there = [row[0] for row in work.rows("DESCRIBE nodes")]
    cases = " ".join(f"WHEN {quoted(name)} THEN {k}" for name, k in SPLITS.items())
    part = f"CASE split {cases} ELSE 0 END" if "split" in there else "0"
    joined = "nodes LEFT JOIN classes USING (label)"
    rows = list(batches(work, f"SELECT coalesce(c, -1), {part} FROM {joined} ORDER BY __k"))
    labels = np.concatenate([batch.column(0).to_numpy() for batch in rows]).astype(np.int32)
    parts = np.concatenate([batch.column(1).to_numpy() for batch in rows]).astype(np.int8)
    given = [parts == k if (parts == k).any() else None for k in SPLITS.values()]
    masks = complete_masks(given, labels.astype(np.int64), names, work.source.seed, work.notes)
    for number_of_split, mask in zip(SPLITS.values(), masks, strict=True):
        parts[mask] = number_of_split
    np.save(work.folder / "raw-y.npy", labels)
    np.save(work.folder / "raw-split.npy", parts)
    (work.folder / "classes.json").write_text(json.dumps(names), encoding="utf-8")


def number_classes(work: Work) -> tuple[str, ...]:
    """The table `classes`: label and c, its number or -1; the names, in their order."""
    import pyarrow as pa

    where = f"{work.source.nodes[0]}: column label"
    query = "SELECT DISTINCT label FROM nodes WHERE label IS NOT NULL"
    texts = [str(row[0]) for row in work.rows(f"{query} LIMIT {MOST_CLASSES + 1}")]
    if len(texts) > MOST_CLASSES:
        raise GassipError(f"{where} has more than {MOST_CLASSES:,} classes")
    told = ["" if is_missing(text) else text for text in sorted(texts)]
    numbers, names = class_numbers(told, where)
    if len(names) < 2:
        raise GassipError(f"{where} has {len(names)} classes; need 2")
    table = pa.table({"label": pa.array(sorted(texts), pa.string()), "c": numbers})
    work.database.register("numbered", table)
    run(work, "CREATE OR REPLACE TABLE classes AS SELECT * FROM numbered")
    work.database.unregister("numbered")
    return names


def write_features(work: Work) -> None:
    """raw-x.npy and preparation.json."""
    there = [row[0] for row in work.rows("DESCRIBE nodes")]
    columns = [name for name in there if name not in ("id", "label", "split", "__k")]
    if not columns:
        where = work.source.nodes[0]
        raise GassipError(f"{where} has no feature column besides id, label and split")
    chosen = ", ".join(named(name) for name in columns)
    count = min(SAMPLE, work.source.own_memory // (COPIES * len(columns)))
    sample = f"SELECT {chosen} FROM nodes USING SAMPLE reservoir({count} ROWS) REPEATABLE (1)"
    frame = work.database.cursor().execute(sample).df()
    try:
        preparation = fit_preparation(table_of(work, frame), columns, work.notes)
        apply(work, preparation, columns)
    except GassipError as error:
        raise in_lines(work, frame, error) from error
    (work.folder / "preparation.json").write_text(preparation.to_json(), encoding="utf-8")


def apply(work: Work, preparation: Preparation, columns: list[str]) -> None:
    """raw-x.npy [N, D], some nodes at a time."""
    chosen, at = ", ".join(named(name) for name in columns), 0
    width = len(preparation.feature_names)
    with Appending(work.folder / "raw-x.npy", "float32", (width,)) as x:
        for batch in batches(work, f"SELECT {chosen}, __k FROM nodes"):  # as they were written
            numbers = batch.column(len(columns)).to_numpy()
            if not np.array_equal(numbers, np.arange(at, at + len(numbers))):
                raise GassipError("DuckDB gave the nodes in another order; import again")
            frame = batch.select(range(len(columns))).to_pandas()
            x.append(preparation.apply(table_of(work, frame)))
            at += len(numbers)


def table_of(work: Work, frame: "pd.DataFrame") -> Table:
    """Columns that DuckDB took for texts in CSV files are still to be told."""
    table = table_of_frame(frame, str(work.source.nodes[0]))
    if file_kind(work.source.nodes[0]) != "csv":
        return table
    untold = {
        name: Column(name, None, objects(frame[name].where(frame[name].notna(), "").tolist()))
        for name, column in table.columns.items()
        if column.kind == "category"
    }
    return Table(name=table.name, columns={**table.columns, **untold}, rows=table.rows)


def in_lines(work: Work, frame: "pd.DataFrame", error: GassipError) -> GassipError:
    """The cells of a CSV that are no numbers, in columns that mostly hold some; else the error."""
    lines = list[str]()
    for name in frame.columns:
        filled = [str(cell) for cell in frame[name] if not is_missing(str(cell))]
        if 2 * sum(map(is_number, filled)) > len(filled):
            lines += faults.faults(work.source.nodes, [name], faults.no_number(name), "")
    lines = [line for line in lines if ", line " in line]
    return error_of(lines) if lines else error
