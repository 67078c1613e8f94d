"""`gassip import`: tables of nodes and edges into a graph folder, out of core.

    nodes     id, label, optional split (train, val, test); every other column is a feature
    edges     source, target: ids of nodes of any kind; optional weight

DuckDB numbers the nodes, joins the ids and sorts the edges by receiver, and spills to disk beyond
`memory`. Columns are prepared as in small tables; the preparation is fitted on a sample of the
nodes. A killed import goes on after the last step that was whole, if its files are the same.

Of the memory a part is DuckDB's; rows are moved, and nodes ordered, in the rest.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gassip.errors import GassipError, error_of
from gassip.graph.labels import complete_masks
from gassip.graph.preparation import Preparation, fit_preparation
from gassip.graph.store import beside, write_ids, write_meta
from gassip.graph.table_frames import table_of_frame
from gassip.large.arrays import Appending, mapped, permuted_rows
from gassip.large.csr import EdgeSorter, ordered_edges, places
from gassip.large.database import (
    WORK,
    Say,
    Work,
    batches,
    columns_of,
    connect,
    integers,
    named,
    quoted,
    reader,
    resumable,
    run,
)
from gassip.large.sources import Source, place_of

SAMPLE, COPIES = 200_000, 64  # nodes on which the preparation is fitted; bytes of a cell
MOST_ERRORS = 10
EDGES = 2_000_000  # that are joined at once
SPLITS = {"train": 1, "val": 2, "test": 3}


def import_tables(source: Source, out: Path, *, overwrite: bool = False, say: Say = print) -> None:
    """Tables into the folder `out`."""
    partial = out.with_name(out.name + ".partial")
    before = resumable(source, partial)
    with beside(out, overwrite=overwrite, fresh=before is None) as folder:
        work = Work(source, folder, connect(folder, source), say)
        if before is not None:
            work.done, work.notes = before
            say(f"going on after: {work.done[-1]}")
        try:
            work.step("number the nodes", number_nodes)
            work.step("join and sort the edges", sort_edges)
            work.step("write labels", write_labels)
            work.step("prepare features", write_features)
            work.step("order the nodes", order_nodes)
        except GassipError:  # the data are at fault: nothing of it is worth keeping
            work.database.close()
            shutil.rmtree(folder)
            raise
        work.database.close()
        finish(work, out.name)


# Nodes


def needed(paths: Sequence[Path], there: Sequence[str], names: Sequence[str]) -> list[str]:
    return [
        f"{paths[0]} has no column {name}; its columns are {', '.join(there)[:120]}"
        for name in names
        if name not in there
    ]


def number_nodes(work: Work) -> None:
    """The table `nodes`: every column, and k, the number of the node."""
    source = work.source
    there = columns_of(work, source.nodes)
    lines = needed(source.nodes, there, ("id", "label"))
    lines += needed(source.edges, columns_of(work, source.edges), ("source", "target"))
    if lines:
        raise error_of(lines)
    texts = [name for name in ("id", "label", "split") if name in there]
    kinds = {name: "VARCHAR" for name in texts} | {"id": id_type(work)}
    casts = ", ".join(f"CAST({named(name)} AS {kind}) AS {name}" for name, kind in kinds.items())
    rest = [named(name) for name in there if name not in texts]
    chosen = ", ".join([casts, *rest, "row_number() OVER () - 1 AS __k"])
    run(
        work, f"CREATE OR REPLACE TABLE nodes AS SELECT {chosen} FROM {reader(source.nodes, texts)}"
    )
    check_nodes(work, "split" in there)


def id_type(work: Work) -> str:
    """Texts, but for Parquet files with whole numbers alone, which are joined faster."""
    source = work.source
    whole = integers(work, source.nodes, ("id",))
    return "BIGINT" if whole and integers(work, source.edges, ("source", "target")) else "VARCHAR"


def check_nodes(work: Work, split: bool) -> None:
    where = work.source.nodes[0]
    lines = []
    if not work.one("SELECT count(*) FROM nodes"):
        raise GassipError(f"{where} has no rows")
    if missing := work.one(
        "SELECT count(*) FROM nodes WHERE id IS NULL OR CAST(id AS VARCHAR) = ''"
    ):
        lines.append(f"{where}: {missing:,} nodes have no id")
    query = "SELECT id, count(*) FROM nodes WHERE id IS NOT NULL GROUP BY id HAVING count(*) > 1"
    for name, count in work.rows(f"{query} LIMIT {MOST_ERRORS}"):
        where_not = place_of(work.source.nodes, str(name))
        lines.append(f"{where_not}: id {str(name)!r} is there {count} times")
    if split:
        known = ", ".join(quoted(name) for name in SPLITS)
        query = f"SELECT split, count(*) FROM nodes WHERE split NOT IN ({known}, '') GROUP BY split"
        for name, count in work.rows(f"{query} LIMIT {MOST_ERRORS}"):
            lines.append(f"{where}: split {name!r} ({count:,} nodes); use train, val, test or none")
    if lines:
        raise error_of(lines[:MOST_ERRORS])


# Edges


def sort_edges(work: Work) -> None:
    """raw-*.npy: senders by receiver, distinct, without loops, in the order of the files."""
    weighted = "weight" in columns_of(work, work.source.edges)
    nodes = work.one("SELECT count(*) FROM nodes")
    loops = rows = 0
    with EdgeSorter(work.folder, "raw-", nodes, weighted) as sorter:
        for batch in batches(work, joined_edges(work, weighted), EDGES):
            if batch.column(0).null_count or batch.column(1).null_count:
                raise error_of(unknown_ends(work))
            sender, receiver = (batch.column(k).to_numpy() for k in range(2))
            weight = batch.column(2).to_numpy() if weighted else None
            keep = sender != receiver
            if not keep.all():
                sender, receiver = sender[keep], receiver[keep]
                weight = None if weight is None else weight[keep]
            sorter.add(receiver, sender, weight)
            if work.source.undirected:
                sorter.add(sender, receiver, weight)
            rows, loops = rows + len(keep), loops + int((~keep).sum())
        if not rows:
            raise GassipError(f"{work.source.edges[0]} has no rows")
        kept = sorter.write()
    if loops:
        work.notes.append(f"{loops:,} self-loops dropped (every operation carries the node itself)")
    if sorter.given != kept:
        work.notes.append(f"{sorter.given - kept:,} repeated edges dropped")


def joined_edges(work: Work, weighted: bool) -> str:
    """Numbers of both ends, and the weight; an end that is no node has none."""
    relation, kind = reader(work.source.edges, ("source", "target")), id_type(work)
    weight = ", CAST(weight AS FLOAT)" if weighted else ""
    ends = " ".join(
        f"LEFT JOIN nodes {name} ON {name}.id = CAST(edges.{end} AS {kind})"
        for name, end in (("a", "source"), ("b", "target"))
    )
    return f"SELECT a.__k, b.__k{weight} FROM {relation} AS edges {ends}"


def unknown_ends(work: Work) -> list[str]:
    """The first few ends of edges that are no nodes."""
    lines, relation = [], reader(work.source.edges, ("source", "target"))
    for end in ("source", "target"):
        name = f"CAST({end} AS {id_type(work)})"
        query = f"SELECT {name}, count(*) FROM {relation} ANTI JOIN nodes ON nodes.id = {name}"
        for end_id, count in work.rows(f"{query} GROUP BY 1 LIMIT {MOST_ERRORS}"):
            where = place_of(work.source.edges, str(end_id))
            lines.append(f"{where}: {end} {str(end_id)!r} is no id of a node ({count:,} edges)")
    return lines[:MOST_ERRORS]


# Labels and features


def write_labels(work: Work) -> None:
    """raw-y.npy and raw-split.npy; classes in the order of their names."""
    query = "SELECT DISTINCT label FROM nodes WHERE label IS NOT NULL AND label <> '' ORDER BY 1"
    names = tuple(str(row[0]) for row in work.rows(query))
    if len(names) < 2:
        raise GassipError(f"{work.source.nodes[0]}: column label has {len(names)} classes; need 2")
    run(work, f"CREATE OR REPLACE TABLE classes AS {query}")
    there = [row[0] for row in work.rows("DESCRIBE nodes")]
    cases = " ".join(f"WHEN {quoted(name)} THEN {k}" for name, k in SPLITS.items())
    part = f"CASE split {cases} ELSE 0 END" if "split" in there else "0"
    number = "SELECT label, row_number() OVER (ORDER BY label) - 1 AS c FROM classes"
    joined = f"nodes LEFT JOIN ({number}) AS numbered USING (label)"
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


def write_features(work: Work) -> None:
    """raw-x.npy: the columns, prepared as a sample of the nodes says."""
    there = [row[0] for row in work.rows("DESCRIBE nodes")]
    columns = [name for name in there if name not in ("id", "label", "split", "__k")]
    if not columns:
        where = work.source.nodes[0]
        raise GassipError(f"{where} has no feature column besides id, label and split")
    chosen = ", ".join(named(name) for name in columns)
    count = min(SAMPLE, work.source.own_memory // (COPIES * len(columns)))
    sample = f"SELECT {chosen} FROM nodes USING SAMPLE reservoir({count} ROWS) REPEATABLE (1)"
    name = work.source.nodes[0].name
    table = table_of_frame(work.database.cursor().execute(sample).df(), name)
    preparation = fit_preparation(table, columns, work.notes)
    features, at = len(preparation.feature_names), 0
    with Appending(work.folder / "raw-x.npy", "float32", (features,)) as x:
        for batch in batches(work, f"SELECT {chosen}, __k FROM nodes"):  # as they were written
            numbers = batch.column(len(columns)).to_numpy()
            if not np.array_equal(numbers, np.arange(at, at + len(numbers))):
                raise GassipError("DuckDB gave the nodes in another order; import again")
            frame = batch.select(range(len(columns))).to_pandas()
            x.append(preparation.apply(table_of_frame(frame, name)))
            at += len(numbers)
    (work.folder / "preparation.json").write_text(preparation.to_json(), encoding="utf-8")


# The folder


def order_nodes(work: Work) -> None:
    """The arrays of the store: nodes renumbered so that neighbours lie near each other."""
    folder, source, place = work.folder, work.source, None
    if source.order:
        found = places(folder, "raw-", source.undirected, source.own_memory)
        if isinstance(found, str):
            work.notes.append(found)
        else:
            place = found
    ordered_edges(folder, "raw-", place, (folder / "raw-weight.npy").exists())
    for name in ("x", "y", "split"):
        values = mapped(folder / f"raw-{name}.npy")
        permuted_rows(folder, name, values, place, source.own_memory // 3)
    query = "SELECT CAST(id AS VARCHAR) AS id FROM nodes ORDER BY __k"
    ids = work.database.cursor().sql(query).to_arrow_table()["id"]
    write_ids(folder, ids if place is None else ids.take(np.argsort(place)))


def finish(work: Work, name: str) -> None:
    """meta.json; what served the import goes."""
    folder = work.folder
    classes = tuple(json.loads((folder / "classes.json").read_bytes()))
    preparation = Preparation.from_json((folder / "preparation.json").read_bytes())
    for path in (*folder.glob("raw-*.npy"), *folder.glob("*.json"), *folder.glob(f"{WORK}*")):
        path.unlink()
    shutil.rmtree(folder / "spill", ignore_errors=True)
    write_meta(
        folder,
        name=name.removesuffix(".graph"),
        features=len(preparation.feature_names),
        class_names=classes,
        notes=tuple(work.notes),
        preparation=preparation,
    )
