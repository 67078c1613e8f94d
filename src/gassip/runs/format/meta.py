"""meta.json of a run's folder, checked, and what it says of the net; files of the folder by their
checksums."""

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gassip.errors import GassipError, refuse_special
from gassip.graph.limits import check_unpacked, is_bounded
from gassip.graph.structure import BESIDE, DEGREES, KINDS
from gassip.operations import OPERATIONS

DECISIONS = "decisions.json"
EXPORTED = "runtime-1"  # what `gassip export --format runtime` writes
SCHEMAS = (1, 2, EXPORTED)  # a run's folder of either version, or an export
_KINDS: dict[str, type] = {"files": dict, "source": dict, "architecture": list, "class_names": list}
_KINDS |= {"nodes": int, "features": int, "edges_total": int}


def digest(meta: Mapping[str, Any]) -> str:
    """sha256 of a meta.json without its own."""
    rest = {name: value for name, value in meta.items() if name != "sha256"}
    return hashlib.sha256(
        json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def read_meta(folder: Path) -> dict[str, Any]:
    """meta.json, of a schema that is known here and unaltered."""
    path = folder / "meta.json"
    recover(folder)
    try:
        meta = json.loads(_content(folder, "meta.json"), parse_constant=_no_constant)
    except FileNotFoundError:
        raise GassipError(f"{path} is missing; is {folder} the folder of a run?") from None
    except OSError as error:
        raise GassipError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise GassipError(f"{path} is damaged: not JSON ({error})") from error
    if not isinstance(meta, dict) or "schema" not in meta:
        raise GassipError(f"{path} is not that of a gassip run: it names no schema")
    if meta["schema"] not in SCHEMAS:
        known = " and ".join(map(str, SCHEMAS))
        raise GassipError(
            f"{path} has schema {meta['schema']!r}; this version of gassip reads schema {known}"
        )
    if meta.get("sha256") != digest(meta):
        raise GassipError(f"{path} is damaged or was edited: its checksum does not fit")
    for name, kind in _KINDS.items():
        if not isinstance(meta.get(name), kind) or isinstance(meta[name], bool):
            raise GassipError(
                f"{path}: {name} is {str(meta.get(name))[:40]!r}; it must be a {kind.__name__}"
            )
    for op in meta["architecture"] or ["none"]:
        if op not in list(OPERATIONS):
            known = ", ".join(OPERATIONS)
            raise GassipError(f"{path}: operation {op!r} is not supported; known are {known}")
    return meta


def _content(folder: Path, name: str) -> bytes:
    """A file in the folder, or in the one file that `gassip pack` wrote."""
    if not folder.is_file():
        refuse_special(folder / name)
        return (folder / name).read_bytes()
    try:
        with zipfile.ZipFile(folder) as file:
            entry = file.getinfo(name)
            check_unpacked(f"{folder}: {name}", entry.file_size, folder)
            if not is_bounded(entry):
                raise NotImplementedError("bzip2 or lzma")
            return file.read(name)
    except KeyError:
        raise GassipError(f"{folder} is not what `gassip pack` wrote: it has no {name}") from None
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise GassipError(f"{folder} is damaged, or not what `gassip pack` wrote") from error


def recover(folder: Path) -> None:
    """Bring back a folder whose replacement was killed between its two renames: the new one if it
    is whole, else the old one."""
    if os.path.lexists(folder) or not folder.name:
        return
    new, old = (folder.with_name(f".{folder.name}.{age}") for age in ("new", "old"))
    if old.is_dir():
        with suppress(OSError):
            ((new if (new / "meta.json").is_file() else old).rename(folder))


def _no_constant(text: str) -> float:
    raise ValueError(f"it holds {text}")


def _entry(meta: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A table in meta.json; empty if it is missing or of another kind, which `open_run` refuses."""
    found = meta.get(name)
    return found if isinstance(found, dict) else {}


def soft_edges(meta: Mapping[str, Any]) -> bool:
    """Whether the kept edges weigh M_G besides what was given."""
    settings = _entry(meta, "settings")
    return bool(
        meta.get("soft_edges", settings.get("kept_edges") == "soft" and settings.get("sparsify"))
    )


def label_weight(meta: Mapping[str, Any]) -> float:
    """How much training labels count beside the net; 0: not at all."""
    given = meta.get("label_weight", _entry(meta, "net").get("label_weight", 0.0))
    if (
        isinstance(given, bool)
        or not isinstance(given, (int, float))
        or not 0 <= given < float("inf")
    ):
        raise GassipError(
            f"label_weight is {str(given)[:40]!r}; it must be a number, and not negative"
        )
    return float(given)


def labels_in_training(meta: Mapping[str, Any]) -> bool:
    """Whether the net was trained with label propagation, which other graphs do not have."""
    recipe = _entry(meta, "recipe")
    given = meta.get("labels_in_training", recipe.get("labels_in_training", True))
    return bool(label_weight(meta)) and bool(given)


def on_other_graphs(meta: Mapping[str, Any]) -> str | None:
    """What label propagation, of the training graph alone, means on another graph; None if it has
    no part in the net."""
    weight, made = label_weight(meta), _entry(meta, "inductive")
    if not weight:
        return None
    scores = [made.get(name) for name in ("score", "seen")]
    new, seen = (score if isinstance(score, float) else None for score in scores)
    figures = "" if new is None or seen is None else f" (val {new:.4f} on new nodes for {seen:.4f})"
    if labels_in_training(meta):
        return (
            f"the net was trained with label propagation (weight {weight:.2f}), which another "
            f"graph does not have: its labels are worse there{figures}; search with --for any"
        )
    return (
        f"labels of the training graph, which count there with weight {weight:.2f}, are not used "
        f"on another graph{figures}"
    )


def structure_of(meta: Mapping[str, Any]) -> str | None:
    """What the features of the run's graph were made of; None: they are those given."""
    kind = meta["source"].get("structure")
    if kind is not None and kind not in (*KINDS, BESIDE):
        raise GassipError(f"the run's features are made of {str(kind)[:40]!r}, which is not known")
    return None if kind is None else str(kind)


def given_features(meta: Mapping[str, Any]) -> int:
    """Columns of x that the user gives; those of degree are made from the edges."""
    return int(meta["features"]) - (DEGREES if structure_of(meta) == BESIDE else 0)


def no_new_nodes(kind: str) -> str:
    """Why nodes cannot be added where features were made from the edges, and what to do instead."""
    remedy = "give the whole graph, new nodes and all: --data PATH"
    if kind == KINDS[1]:
        remedy = "search again on the graph with the new nodes in it"
    return f"the run's features are made of {kind}, which new nodes change for all; {remedy}"


def only_here(kind: str | None, ids: Sequence[str] | None) -> None:
    """Refuse another graph where made features have no meaning in it."""
    if kind == KINDS[1] or (kind == KINDS[2] and ids is None):
        what = "positions" if kind == KINDS[1] else "numbers of nodes"
        raise GassipError(
            f"no features are given: the net reads {what} in its training graph, which another one "
            f"does not have; search on both graphs as one"
        )


def read_rows(folder: Path, name: str, meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A file of the run that holds a list of objects; none where an earlier version wrote none."""
    if name not in meta["files"]:
        return []
    try:
        rows = json.loads(read_file(folder, name, meta))
    except (ValueError, RecursionError) as error:
        raise GassipError(f"{folder / name} is damaged: not JSON ({error})") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise GassipError(f"{folder / name} is damaged: not a list of objects")
    return rows


def read_file(folder: Path, name: str, meta: Mapping[str, Any]) -> bytes:
    """A file of the run whose checksum is the one in meta.json."""
    path = folder / name
    try:
        content = _content(folder, name)
    except OSError as error:
        raise GassipError(
            f"cannot read {path}: {error.strerror}; the run is not complete"
        ) from error
    if hashlib.sha256(content).hexdigest() != meta["files"].get(name):
        raise GassipError(f"{path} is damaged: its checksum is not the one in meta.json")
    return content
