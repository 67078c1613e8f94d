"""`gassip import`: tables of nodes and edges into a graph folder, out of core.

    nodes     id, label, optional split (train, val, test); every other column is a feature
    edges     source, target: ids of nodes of any kind; optional weight

DuckDB numbers the nodes, joins the ids and sorts the edges by receiver, and spills to disk beyond
`memory`. Columns are prepared as in small tables; the preparation is fitted on a sample of the
nodes. A killed import goes on after the last step that was whole, if its files are the same.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gassip.errors import GassipError, error_of
from gassip.graph.labels import complete_masks
from gassip.graph.preparation import Preparation, fit_preparation
from gassip.graph.store import beside, create, index_type, write_ids, write_meta
from gassip.graph.table_frames import table_of_frame
from gassip.large.csr import locality_order, permuted_rows, write_csr
from gassip.large.database import (
    WORK,
    Say,
    Work,
    batches,
    columns_of,
    connect,
    named,
    quoted,
    reader,
    resumable,
    run,
)
from gassip.large.sources import Source, place_of

SAMPLE = 200_000  # nodes on which the preparation is fitted
MOST_ERRORS = 10
SPLITS = {"train": 1, "val": 2, "test": 3}


def import_tables(source: Source, out: Path, *, overwrite: bool = False, say: Say = print) -> None:
    """Tables into the folder `out`."""
    partial = out.with_name(out.name + ".partial")
    before = resumable(source, partial)
    with beside(out, overwrite=overwrite, fresh=before is None) as folder:
        work = Work(source, folder, connect(folder, source.memory), say)
        if before is not None:
            work.done, work.notes = before
            say(f"going on after: {work.done[-1]}")
        try:
            work.step("number the nodes", number_nodes)
            work.step("join and sort the edges", sort_edges)
            work.step("write labels", write_labels)
            work.step("prepare features", write_features)
            work.step("order the nodes", order_nodes)
            work.database.close()
        except GassipError:  # the data are at fault: nothing of it is worth keeping
            work.database.close()
            shutil.rmtree(folder)
            raise
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
    casts = ", ".join(f"CAST({named(name)} AS VARCHAR) AS {named(name)}" for name in texts)
    rest = [named(name) for name in there if name not in texts]
    chosen = ", ".join([casts, *rest, "row_number() OVER () - 1 AS __k"])
    run(
        work, f"CREATE OR REPLACE TABLE nodes AS SELECT {chosen} FROM {reader(source.nodes, texts)}"
    )
    check_nodes(work, "split" in there)


def check_nodes(work: Work, split: bool) -> None:
    where = work.source.nodes[0]
    lines = []
    if not work.one("SELECT count(*) FROM nodes"):
        raise GassipError(f"{where} has no rows")
    if missing := work.one("SELECT count(*) FROM nodes WHERE id IS NULL OR id = ''"):
        lines.append(f"{where}: {missing:,} nodes have no id")
    query = "SELECT id, count(*) FROM nodes WHERE id IS NOT NULL GROUP BY id HAVING count(*) > 1"
    for name, count in work.rows(f"{query} LIMIT {MOST_ERRORS}"):
        lines.append(f"{place_of(work.source.nodes, name)}: id {name!r} is there {count} times")
    if split:
        known = ", ".join(quoted(name) for name in SPLITS)
        query = f"SELECT split, count(*) FROM nodes WHERE split NOT IN ({known}, '') GROUP BY split"
        for name, count in work.rows(f"{query} LIMIT {MOST_ERRORS}"):
            lines.append(f"{where}: split {name!r} ({count:,} nodes); use train, val, test or none")
    if lines:
        raise error_of(lines[:MOST_ERRORS])


# Edges


def sort_edges(work: Work) -> None:
    """The table `pairs`: t, s and w, distinct, without loops; then the arrays, by receiver."""
    source = work.source
    weighted = "weight" in columns_of(work, source.edges)
    relation = reader(source.edges, ("source", "target"))
    weight = ", weight" if weighted else ""
    ends = "CAST(source AS VARCHAR) AS source, CAST(target AS VARCHAR) AS target"
    run(work, f"CREATE OR REPLACE TABLE given AS SELECT {ends}{weight} FROM {relation}")
    check_ends(work)
    value = "CAST(max(weight) AS FLOAT)" if weighted else "CAST(1 AS FLOAT)"
    pairs = "SELECT a.__k AS s, b.__k AS t" + (", weight" if weighted else "")
    joined = f"{pairs} FROM given JOIN nodes a ON a.id = source JOIN nodes b ON b.id = target"
    if source.undirected:
        swapped = "SELECT t AS s, s AS t" + (", weight" if weighted else "")
        joined = f"WITH j AS ({joined}) SELECT * FROM j UNION ALL {swapped} FROM j"
    query = f"SELECT t, s, {value} AS w FROM ({joined}) WHERE s <> t GROUP BY t, s"
    run(work, f"CREATE OR REPLACE TABLE pairs AS {query}")
    loops = work.one("SELECT count(*) FROM given WHERE source = target")
    if loops:
        work.notes.append(f"{loops:,} self-loops dropped (every operation carries the node itself)")
    kept, given = work.one("SELECT count(*) FROM pairs"), work.one("SELECT count(*) FROM given")
    given = (given - loops) * (1 + source.undirected)
    if given != kept:
        work.notes.append(f"{given - kept:,} repeated edges dropped")
    run(work, "DROP TABLE given")
    write_edges(work, kept, weighted)


def check_ends(work: Work) -> None:
    """Every end is a node; else the first few that are not."""
    lines = []
    for end in ("source", "target"):
        query = f"SELECT {end}, count(*) FROM given ANTI JOIN nodes ON nodes.id = {end} GROUP BY 1"
        for name, count in work.rows(f"{query} LIMIT {MOST_ERRORS}"):
            where = place_of(work.source.edges, str(name))
            lines.append(f"{where}: {end} {name!r} is no id of a node ({count:,} edges)")
    if not work.one("SELECT count(*) FROM given"):
        lines.append(f"{work.source.edges[0]} has no rows")
    if lines:
        raise error_of(lines[:MOST_ERRORS])


def write_edges(work: Work, edges: int, weighted: bool) -> None:
    """raw-*.npy: senders and weights by receiver, in the order of the files."""
    nodes = work.one("SELECT count(*) FROM nodes")
    senders = create(work.folder, "raw-indices", index_type(nodes), (edges,))
    weights = create(work.folder, "raw-weight", "float32", (edges,)) if weighted else None
    counts, at = np.zeros(nodes + 1, dtype=np.int64), 0
    for batch in batches(work, "SELECT t, s, w FROM pairs ORDER BY t, s"):
        receiver, sender, weight = (batch.column(k).to_numpy() for k in range(3))
        senders[at : at + len(sender)] = sender
        if weights is not None:
            weights[at : at + len(sender)] = weight
        low, high = int(receiver[0]), int(receiver[-1])  # sorted
        counts[low + 1 : high + 2] += np.bincount(receiver - low)
        at += len(sender)
    np.save(work.folder / "raw-indptr.npy", np.cumsum(counts))
    run(work, "DROP TABLE pairs")


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
    sample = f"SELECT {chosen} FROM nodes USING SAMPLE reservoir({SAMPLE} ROWS) REPEATABLE (1)"
    name = work.source.nodes[0].name
    table = table_of_frame(work.database.cursor().execute(sample).df(), name)
    preparation = fit_preparation(table, columns, work.notes)
    shape = (work.one("SELECT count(*) FROM nodes"), len(preparation.feature_names))
    x, at = create(work.folder, "raw-x", "float32", shape), 0
    for batch in batches(work, f"SELECT {chosen} FROM nodes ORDER BY __k"):
        rows = preparation.apply(table_of_frame(batch.to_pandas(), name))
        x[at : at + len(rows)] = rows
        at += len(rows)
    x.flush()
    (work.folder / "preparation.json").write_text(preparation.to_json(), encoding="utf-8")


# The folder


def order_nodes(work: Work) -> None:
    """The arrays of the store: nodes renumbered so that neighbours lie near each other."""
    folder = work.folder
    raw = {path.stem[4:]: np.load(path, mmap_mode="r") for path in folder.glob("raw-*.npy")}
    order = locality_order(raw["indptr"], raw["indices"]) if work.source.order else None
    write_csr(folder, raw["indptr"], raw["indices"], raw.get("weight"), order)
    for name in ("x", "y", "split"):
        permuted_rows(folder, name, raw[name], order)
    column = work.database.cursor().execute("SELECT id FROM nodes ORDER BY __k").fetchnumpy()["id"]
    write_ids(folder, list(column if order is None else column[order]))


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
