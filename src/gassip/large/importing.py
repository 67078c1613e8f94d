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
from typing import Any

import numpy as np

from gassip.errors import GassipError, error_of
from gassip.graph.columns import Column, Problems, Table, objects
from gassip.graph.preparation import Preparation
from gassip.graph.store import beside, write_ids, write_meta
from gassip.graph.tables import Names, refuse_other_weight, unread
from gassip.large import faults
from gassip.large.arrays import mapped, permuted_rows
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
from gassip.large.node_columns import SPLITS, write_features, write_labels
from gassip.large.sources import Source

EDGES = 2_000_000  # that are joined at once


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
    nodes, lines = work.source.nodes, list[str]()
    if not work.one("SELECT count(*) FROM nodes"):
        raise GassipError(f"{nodes[0]} has no rows")
    if missing := work.one(
        "SELECT count(*) FROM nodes WHERE id IS NULL OR CAST(id AS VARCHAR) = ''"
    ):
        lines += faults.faults(nodes, ["id"], faults.empty, f"{missing:,} nodes have no id")
    query = "SELECT CAST(id AS VARCHAR) FROM nodes WHERE id IS NOT NULL GROUP BY id"
    query += f" HAVING count(*) > 1 LIMIT {faults.MOST}"
    if twice := [row[0] for row in work.rows(query)]:
        told = f"id {twice[0]!r} is there more than once"
        lines += faults.faults(nodes, ["id"], faults.repeated(twice), told)
    if split:
        known = ", ".join(quoted(name) for name in SPLITS)
        query = f"SELECT split, count(*) FROM nodes WHERE split NOT IN ({known}, '') GROUP BY split"
        if odd := work.rows(f"{query} LIMIT 1"):
            told = f"split {odd[0][0]!r} ({odd[0][1]:,} nodes); use train, val, test or none"
            lines += faults.faults(nodes, ["split"], faults.unknown_split(tuple(SPLITS)), told)
    if lines:
        raise error_of(lines)


# Edges


def sort_edges(work: Work) -> None:
    """raw-*.npy: senders by receiver, distinct, without loops, in the order of the files."""
    weighted = check_edge_columns(work)
    nodes = work.one("SELECT count(*) FROM nodes")
    loops = rows = 0
    with EdgeSorter(work.folder, "raw-", nodes, weighted) as sorter:
        for batch in batches(work, joined_edges(work, weighted), EDGES):
            if batch.column(0).null_count or batch.column(1).null_count:
                raise error_of(unknown_ends(work))
            sender, receiver = (batch.column(k).to_numpy() for k in range(2))
            weight = weights_of(work, batch.column(2)) if weighted else None
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


def check_edge_columns(work: Work) -> bool:
    """Whether edges have weights; columns that are not read are noted, or refused if they are
    meant to be weights."""
    there, where = columns_of(work, work.source.edges), str(work.source.edges[0])
    table = Table(
        name=where, columns={name: Column(name, None, objects([])) for name in there}, rows=0
    )
    problems = Problems()
    if "weight" not in there:
        refuse_other_weight(table, Names(), problems)
        problems.end()
    work.notes += unread(table, Names())
    return "weight" in there


def weights_of(work: Work, column: Any) -> np.ndarray:
    """Of a batch of edges [e] float32: finite and not negative."""
    weight = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float32)
    if not (np.isfinite(weight) & (weight >= 0)).all():
        told = "column weight holds what is not a number of 0 or more"
        raise error_of(faults.faults(work.source.edges, ["weight"], faults.no_weight, told))
    return weight


def joined_edges(work: Work, weighted: bool) -> str:
    """Numbers of both ends, and the weight; an end that is no node has none."""
    relation, kind = reader(work.source.edges, ("source", "target")), id_type(work)
    weight = ", TRY_CAST(weight AS FLOAT)" if weighted else ""
    ends = " ".join(
        f"LEFT JOIN nodes {name} ON {name}.id = CAST(edges.{end} AS {kind})"
        for name, end in (("a", "source"), ("b", "target"))
    )
    return f"SELECT a.__k, b.__k{weight} FROM {relation} AS edges {ends}"


def unknown_ends(work: Work) -> list[str]:
    """The first few ends of edges that are no nodes."""
    edges, lines = work.source.edges, list[str]()
    for end in ("source", "target"):
        name = f"CAST({end} AS {id_type(work)})"
        query = f"SELECT CAST({name} AS VARCHAR), count(*) FROM {reader(edges, (end,))}"
        query += f" ANTI JOIN nodes ON nodes.id = {name} GROUP BY 1 LIMIT {faults.MOST}"
        unknown = {str(found or ""): count for found, count in work.rows(query)}
        for first, count in list(unknown.items())[:1]:
            told = f"{end} {first!r} is no id of a node ({count:,} edges)"
            lines += faults.faults(edges, [end], faults.no_node(end, unknown), told)
    return lines


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
