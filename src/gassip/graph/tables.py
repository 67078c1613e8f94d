"""Tables of nodes and edges as the parts of a graph.

    nodes    id, label, optional split (train, val, test); every other column is a feature
    edges    source, target: ids of nodes; optional weight

Tables come from CSV and Parquet (table_files.py) or from pandas and mappings (table_frames.py). All
errors of a table are told at once. Features are prepared by preparation.py: fitted if labels are
read, otherwise as the run's own preparation has it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gassip.errors import GassipError
from gassip.graph.columns import Problems, Table, is_missing, values_as
from gassip.graph.labels import class_numbers
from gassip.graph.parts import SPLITS, Parts
from gassip.graph.preparation import Preparation, fit_preparation, listed
from gassip.graph.table_files import read_named


@dataclass(frozen=True, kw_only=True)
class Names:
    """What the columns are called that are no features; id None: rows are called by number."""

    id: str | None = "id"
    label: str = "label"
    split: str = "split"
    source: str = "source"
    target: str = "target"
    weight: str = "weight"

    @property
    def of_nodes(self) -> tuple[str, ...]:
        return tuple(name for name in (self.id, self.label, self.split) if name is not None)


def read_tables(
    folder: Path,
    *,
    labels: bool = True,
    prepared: bool = True,
    preparation: Preparation | None = None,
) -> Parts:
    """A folder with nodes.csv and edges.csv, or with nodes.parquet and edges.parquet."""
    nodes, edges = read_named(folder, "nodes"), read_named(folder, "edges")
    return parts_of(nodes, edges, labels=labels, prepared=prepared, preparation=preparation)


def parts_of(
    nodes: Table,
    edges: Table,
    *,
    names: Names | None = None,
    labels: bool = True,
    prepared: bool = True,
    fit: bool | None = None,
    preparation: Preparation | None = None,
    known: Sequence[str] = (),
    problems: Problems | None = None,
) -> Parts:
    """The graph of two tables. With `labels`, y and the split are read and, if `prepared`, a
    preparation is fitted unless one is given; `fit` fits one whether labels are read or not.
    Without a preparation x is the numbers given. `known`: ids of nodes that are there already,
    which edges may name; the nodes of the table follow them in number. `problems`: what was found
    in the cells before, told with the rest."""
    names, said, problems = names or Names(), list[str](), problems or Problems()
    missing = Problems()
    _check_columns(nodes, edges, names, labels, missing)
    if missing.lines:  # nothing else can be read
        problems.lines.extend(missing.lines)
        problems.end()
    ids = node_ids(nodes, names, problems, known)
    y, classes = labels_of(nodes, names, problems) if labels else (None, None)
    masks = split_of(nodes, names, problems) if labels else None
    fitted = (labels if fit is None else fit) and prepared and preparation is None
    x, made = _features(nodes, names, fitted, preparation, said, problems)
    where = f"{nodes.name} or in the run" if known else nodes.name
    edge_index, weight = edge_ends(edges, (*known, *ids), where, names, problems)
    problems.end()
    said += unread(edges, names)
    return Parts(
        x=x,
        edge_index=edge_index,
        y=y,
        masks=masks,
        edge_weight=weight,
        class_names=classes,
        whole_labels=labels and are_whole(nodes, names, classes),
        ids=ids,
        preparation=made,
        notes=tuple(said),
    )


def _features(
    nodes: Table,
    names: Names,
    fitted: bool,
    preparation: Preparation | None,
    said: list[str],
    problems: Problems,
) -> tuple[np.ndarray, Preparation | None]:
    """x [N, D] and how it was made; None: the numbers are as given."""
    columns = [name for name in nodes.columns if name not in names.of_nodes]
    try:
        if preparation is None and not columns:
            return np.zeros((nodes.rows, 0), dtype=np.float32), None  # made from the edges
        if fitted:
            preparation = fit_preparation(nodes, columns, said)
        if preparation is None:
            return plain_numbers(nodes, columns), None
        x = preparation.apply(nodes)
        if new := preparation.new_columns(nodes, names.of_nodes):
            said.append(f"{nodes.name}: left out, since training did not have it: {listed(new)}")
        if not fitted:
            said += preparation.new_texts(nodes)
        return x, preparation
    except GassipError as error:
        problems.lines.extend(error.lines)
        return np.zeros((nodes.rows, 0)), None


def _check_columns(
    nodes: Table, edges: Table, names: Names, labels: bool, problems: Problems
) -> None:
    needed = [] if names.id is None else [names.id]
    for name in [*needed, *([names.label] if labels else [])]:
        _require(nodes, name, problems)
    for name in (names.source, names.target):
        _require(edges, name, problems)
    if not nodes.rows:
        problems.add(f"{nodes.name} has a header but no rows")


def _require(table: Table, name: str, problems: Problems) -> None:
    if name not in table.columns:
        there = ",".join(table.columns)[:200]
        problems.add(f"{table.name} has no column {name}; its header is {there!r}")


def node_ids(
    nodes: Table, names: Names, problems: Problems, known: Sequence[str] = ()
) -> tuple[str, ...]:
    """One name for each node, none of them twice or among `known`."""
    if names.id is None:
        return tuple(str(row) for row in range(nodes.rows))
    ids = nodes.texts(names.id)
    seen, old = set[str](), set(known)
    for row, name in enumerate(ids):
        if not name:
            problems.add(f"{nodes.where(row)}: {names.id} is empty")
        elif name in seen:
            problems.add(f"{nodes.where(row)}: {names.id} {name[:40]!r} was given before")
        elif name in old:
            problems.add(f"{nodes.where(row)}: {names.id} {name[:40]!r} is in the run's graph")
        seen.add(name)
    return tuple(ids)


def edge_ends(
    edges: Table, ids: Sequence[str], nodes: str, names: Names, problems: Problems
) -> tuple[np.ndarray, np.ndarray | None]:
    """edge_index [2, E], and the weights if there are some."""
    index = {name: row for row, name in enumerate(ids)}
    ends = np.zeros((2, edges.rows), dtype=np.int64)
    for at, column in enumerate((names.source, names.target)):
        for row, name in enumerate(edges.texts(column)):
            found = index.get(name)
            if found is None:
                what = f"{column} {name[:40]!r} is not an id in {nodes}"
                problems.add(f"{edges.where(row)}: {what}")
            else:
                ends[at, row] = found
    if names.weight not in edges.columns:
        refuse_other_weight(edges, names, problems)
        return ends, None
    return ends, full_numbers(edges, names.weight, problems)


def unread(edges: Table, names: Names) -> list[str]:
    """A note on the columns of edges that have no part in the graph."""
    known = (names.source, names.target, names.weight)
    more = [name for name in edges.columns if name not in known]
    if not more:
        return []
    what = f"only {names.weight} is read besides {names.source} and {names.target}"
    return [f"{edges.name}: left out: {listed(more)} ({what})"]


def refuse_other_weight(edges: Table, names: Names, problems: Problems) -> None:
    """A column that is meant for the weights, under another name, is not left out silently."""
    meant = {f"{names.weight}s", f"edge_{names.weight}", f"edge_{names.weight}s", names.weight}
    for name in edges.columns:
        if name.strip().lower() in meant and name not in (names.source, names.target):
            what = f"has a column {name[:40]!r}, which is not read"
            problems.add(f"{edges.name} {what}; call it {names.weight}, or drop it")


def full_numbers(table: Table, name: str, problems: Problems) -> np.ndarray:
    """A column of numbers without gaps."""
    values = values_as(table.columns[name], "number", table, problems)
    if table.columns[name].kind is None:
        texts = table.columns[name].values
        gaps = [row for row, text in enumerate(texts) if is_missing(text)]
    else:
        gaps = np.flatnonzero(np.isnan(values)).tolist()
    for row in gaps:
        problems.add(f"{table.where(row)}: column {name} is empty, not a number")
    return values


def labels_of(
    nodes: Table, names: Names, problems: Problems
) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    """y [N], -1 where unlabelled, and the names of the classes."""
    texts = ["" if is_missing(text) else text for text in nodes.texts(names.label)]
    try:
        return class_numbers(texts, f"{nodes.name}: column {names.label}")
    except GassipError as error:
        problems.lines.extend(error.lines)
        return None, None


def are_whole(nodes: Table, names: Names, classes: Sequence[str] | None) -> bool:
    """Whether the user's labels are whole numbers; texts of a typed table are not."""
    kind = nodes.columns[names.label].kind
    return kind != "category" and all(_is_whole(name) for name in classes or ("",))


def _is_whole(name: str) -> bool:
    return name.removeprefix("-").isdecimal() and str(int(name)) == name


def split_of(
    nodes: Table, names: Names, problems: Problems
) -> tuple[np.ndarray | None, ...] | None:
    """The three masks; None for a split that no node is in, None for all if no node is in any."""
    if names.split not in nodes.columns:
        return None
    texts = nodes.texts(names.split)
    for row, text in enumerate(texts):
        if text not in ("", *SPLITS):
            what = f"column {names.split} holds {text[:40]!r}, not train, val, test or nothing"
            problems.add(f"{nodes.where(row)}: {what}")
    split = np.array(texts)
    masks = tuple(split == name for name in SPLITS)
    if not any(mask.any() for mask in masks):
        return None
    return tuple(mask if mask.any() else None for mask in masks)


def plain_numbers(nodes: Table, columns: Sequence[str]) -> np.ndarray:
    """x [N, D] of a table of numbers, as it is: for runs that know no columns."""
    problems = Problems()
    values = [full_numbers(nodes, name, problems) for name in columns]
    problems.end()
    return np.stack(values, axis=1).astype(np.float32)
