"""Nodes and edges of a networkx graph as tables."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from gassip.errors import GassipError
from gassip.graph.columns import Table
from gassip.graph.parts import MASKS, SPLITS
from gassip.graph.table_frames import table_of_mapping


def is_networkx(source: object) -> bool:
    return any(kind.__module__.startswith("networkx.") for kind in type(source).__mro__)


def networkx_tables(source: Any, labels: bool) -> tuple[Table, Table, bool]:
    """Nodes and edges as tables, and whether edges have a direction."""
    ids = [str(node) for node in source]
    if not ids:
        raise GassipError("the networkx graph has no nodes")
    columns = _attributes([data for _, data in source.nodes(data=True)], "node")
    if "y" in columns and "label" not in columns:
        columns["label"] = columns.pop("y")
    for split, mask in zip(SPLITS, MASKS, strict=True):
        if mask in columns:
            marked = columns.pop(mask)
            before = columns.get("split", [None] * len(ids))
            columns["split"] = [
                split if is_marked else old for is_marked, old in zip(marked, before, strict=True)
            ]
    if labels and "label" not in columns:
        raise GassipError("no node of the networkx graph has an attribute label or y")
    columns = {"id": list[object](ids)} | {
        key: column for key, column in columns.items() if key != "id"
    }
    nodes = table_of_mapping(columns, "nodes")
    ends = list(source.edges(data=True))
    about: dict[str, list[object]] = {
        "source": [str(a) for a, _, _ in ends],
        "target": [str(b) for _, b, _ in ends],
    }
    about |= _attributes([data for _, _, data in ends], "edge")
    return nodes, table_of_mapping(about, "edges"), bool(source.is_directed())


def _attributes(rows: Sequence[Mapping[Any, Any]], what: str) -> dict[str, list[object]]:
    """Columns by name over all rows, None where a row lacks one; a vector becomes one column for
    each entry."""
    columns: dict[str, list[object]] = {}
    for key in dict.fromkeys(str(key) for row in rows for key in row):
        values = [row.get(key) for row in rows]
        width = {np.size(cast(Any, v)) for v in values if isinstance(v, (list, tuple, np.ndarray))}
        if not width:
            columns[key] = [v.item() if isinstance(v, np.generic) else v for v in values]
            continue
        if len(width) > 1 or not all(np.size(cast(Any, v)) in width for v in values):
            raise GassipError(f"{what} attribute {key} has {min(width)} to {max(width)} entries")
        table = np.array([np.ravel(cast(Any, v)) for v in values], dtype=np.float64)
        columns |= {f"{key}{at}": column.tolist() for at, column in enumerate(table.T)}
    return columns
