"""Labels of nodes that are added to a run's graph by their ids: from two tables, or one node at a
time as JSON, for a service. Without torch.

    nodes.csv    id and the columns of the run's nodes; of a run without named columns, its features
    edges.csv    source, target, optional weight: ids of the run's nodes or of new ones

A request is one JSON object, a line each:

    {"id": "new", "columns": {"age": 3, "colour": "red"}, "neighbours": ["a", "b"]}
    {"x": [0.1, 0.2], "edges": [{"source": "a", "target": "new", "weight": 2.0}], "id": "new"}

and its answer another: id, label, probability, the probability of each class, and warnings if there
are some; or {"error": [lines]}. `neighbours` are edges both ways; requests do not know each other.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gassip.deploy.model import added
from gassip.deploy.row_added import RowLabeller
from gassip.deploy.row_runs import load_row_run
from gassip.deploy.runtime import Model, load, softmax
from gassip.errors import GassipError, refuse_special
from gassip.graph.checks import Array
from gassip.graph.columns import Table
from gassip.graph.parts import naming
from gassip.graph.table_files import read_table
from gassip.graph.table_frames import table_of_mapping
from gassip.runs.format import labels_csv

Labeller = Model | RowLabeller
NEW = "new"  # the id of a node that has none
KEYS = ("id", "columns", "x", "neighbours", "edges")
ENDS = ("source", "target", "weight")


def labels_of_added(folder: Path, nodes: str, edges: str) -> tuple[str, list[str]]:
    """A CSV of the new nodes, and what there is to warn of."""
    model = load_labeller(folder)
    tables = []
    for path in (Path(nodes), Path(edges)):
        refuse_special(path)
        with naming(path.parent):
            tables.append(read_table(path))
    ids, scores, lines = new_scores(model, *tables)
    probs = softmax(scores)
    names = [model.class_names[k] for k in probs.argmax(1)]
    return labels_csv(ids, names, probs.max(1).tolist()), lines


def load_labeller(folder: Path) -> Labeller:
    """The run on its graph: in memory, or, if that is too large, in its folder."""
    model = load(folder)
    if model.absent is None:
        return model
    return RowLabeller(run=load_row_run(folder), undirected=model.undirected)


def new_scores(model: Labeller, nodes: Table, edges: Table) -> tuple[list[str], Array, list[str]]:
    """Ids and class scores [n, C] of new nodes, and what there is to warn of."""
    if isinstance(model, RowLabeller):
        return model.scored(nodes, edges)
    more, lines = added(model, nodes, edges)
    assert more.ids is not None
    new = np.arange(model.edges.shape[0], more.edges.shape[0])
    return [more.ids[at] for at in new], more.scores(nodes=new), lines


def answers(model: Labeller, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """One answer for each request. A first line that is no whole JSON begins a document of several
    lines: one request, or a list of them."""
    waiting = iter(lines)
    for at, line in enumerate(waiting):
        if not line.strip():
            continue
        try:
            found = _parsed(line)
        except GassipError as error:
            if at == 0:
                yield from _document(model, line + "".join(waiting))
                return
            yield {"error": list(error.lines)}
            continue
        yield from _all_of(model, found)


def _document(model: Labeller, text: str) -> Iterator[dict[str, Any]]:
    try:
        found = _parsed(text)
    except GassipError as error:
        yield {"error": list(error.lines)}
        return
    yield from _all_of(model, found)


def _all_of(model: Labeller, found: object) -> Iterator[dict[str, Any]]:
    for request in found if isinstance(found, list) else [found]:
        try:
            yield answer(model, request)
        except GassipError as error:
            yield {"error": list(error.lines)}


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GassipError(f"a request must be a JSON object ({str(error)[:80]})") from error


def answer(model: Labeller, request: object) -> dict[str, Any]:
    """The label of one new node."""
    if not isinstance(request, dict):
        raise GassipError(f"a request must be a JSON object, not {str(request)[:40]!r}")
    if odd := [key for key in request if key not in KEYS]:
        raise GassipError(f"a request has no key {odd[0][:40]!r}; known are {', '.join(KEYS)}")
    given = request.get("id", NEW)
    if not isinstance(given, (str, int)) or isinstance(given, bool):
        raise GassipError(f"id is {str(given)[:40]!r}; it must be a text")
    name = str(given)
    tables = (_node(model, request, name), _edges(request, name))
    _, scores, warnings = new_scores(model, *tables)
    probs = softmax(scores)[0]
    if not np.isfinite(probs).all():
        raise GassipError("the probabilities are no numbers: the features are too large")
    best = int(probs.argmax())
    out = {
        "id": name,
        "label": model.class_names[best],
        "probability": round(float(probs[best]), 6),
        "probabilities": {
            class_name: round(float(prob), 6)
            for class_name, prob in zip(model.class_names, probs, strict=True)
        },
    }
    return out | ({"warnings": warnings} if warnings else {})


def _node(model: Labeller, request: Mapping[str, Any], name: str) -> Table:
    """The new node as a table of one row."""
    if model.preparation is not None:
        columns = request.get("columns")
        if not isinstance(columns, dict):
            known = ", ".join(model.preparation.columns)[:200]
            raise GassipError(f"columns must be an object with the run's columns: {known}")
        plain = (str, int, float, bool, type(None))
        for key, value in columns.items():
            if not isinstance(value, plain) or _huge(value):
                raise GassipError(f"column {key[:40]} holds {str(value)[:40]!r}, not one value")
        rows = {key: [value] for key, value in columns.items() if key not in ("id", "label")}
        return table_of_mapping({"id": [name]} | rows, "columns")
    x = request.get("x")
    if not isinstance(x, list) or len(x) != model.features:
        raise GassipError(f"x must be a list of the {model.features} features")
    if any(isinstance(v, bool) or not isinstance(v, (int, float)) or _huge(v) for v in x):
        raise GassipError("x must hold numbers alone")
    return table_of_mapping({"id": [name]} | {f"x{at}": [v] for at, v in enumerate(x)}, "x")


def _huge(value: object) -> bool:
    """What float32 cannot hold, NaN too."""
    return isinstance(value, (int, float)) and not abs(value) <= 3.4e38


def _edges(request: Mapping[str, Any], name: str) -> Table:
    near, rows = request.get("neighbours", []), request.get("edges", [])
    if not isinstance(near, list) or not all(
        isinstance(neighbour, (str, int)) for neighbour in near
    ):
        raise GassipError("neighbours must be a list of ids of the run's nodes")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise GassipError("edges must be a list of objects with source, target, optional weight")
    ends: list[dict[str, Any]] = [{"source": str(neighbour), "target": name} for neighbour in near]
    ends += [{"source": name, "target": str(neighbour)} for neighbour in near]
    for row in rows:
        _check_edge(row)
        ends.append(row)
    columns: dict[str, list[object]] = {
        end: [str(row[end]) for row in ends] for end in ("source", "target")
    }
    if any("weight" in row for row in ends):
        columns["weight"] = [float(row.get("weight", 1.0)) for row in ends]
    return table_of_mapping(columns, "edges")


def _check_edge(row: Mapping[str, Any]) -> None:
    if odd := [key for key in row if key not in ENDS]:
        raise GassipError(f"an edge has no key {str(odd[0])[:40]!r}; known are {', '.join(ENDS)}")
    if not all(isinstance(row.get(end), (str, int)) for end in ("source", "target")):
        raise GassipError("an edge needs source and target, ids of nodes")
    weight = row.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or _huge(weight):
        raise GassipError(f"the weight of an edge is {str(weight)[:40]!r}, not a number")
