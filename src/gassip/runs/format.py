"""A run's folder without torch: meta.json checked, safetensors read and written by hand, weights in
fewer bytes.

    safetensors     u64 length, JSON header {name: dtype, shape, offsets}, raw bytes: thirty lines
                    here, where the
                    package of that name would be a third dependency and a quarter of the import
                    time
    float16         w rounded to the nearest half
    int8            q = round(w / s), s = max|column| / 127, one s per column
    zeros           where they pay, one bit per weight says which are stored

Weights are widened to float32 when read: fewer bits make the file smaller, not the arithmetic
faster.
"""

import csv
import hashlib
import io
import json
import math
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from gassip.errors import GassipError, refuse_special
from gassip.graph.drift import Statistics
from gassip.graph.limits import check_unpacked
from gassip.graph.preparation import Preparation
from gassip.graph.structure import KINDS
from gassip.operations import OPERATIONS

EXPORTED = "runtime-1"  # what `gassip export --format runtime` writes
PREPARATION = "preparation.json"  # how named columns become x, where the graph came from tables
STATISTICS = "statistics.safetensors"  # ranges and means of the training graph's features
SCHEMAS = (1, 2, EXPORTED)  # a run's folder of either version, or an export
Precision = Literal["float32", "float16", "int8"]
Array = np.ndarray
Tensors = dict[str, np.ndarray]
_KINDS: dict[str, type] = {"files": dict, "source": dict, "architecture": list, "class_names": list}
_KINDS |= {"nodes": int, "features": int, "edges_total": int}
_DTYPES = {
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "U16": "<u2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "?",
}


def digest(meta: Mapping[str, Any]) -> str:
    """sha256 of a meta.json without its own, as artefact.py takes it."""
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
            check_unpacked(f"{folder}: {name}", file.getinfo(name).file_size, folder)
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


def only_for_own_graph(meta: Mapping[str, Any]) -> str | None:
    """Why the net is worse on other graphs; None if nothing of the training graph is missing."""
    weight = label_weight(meta)
    recipe = _entry(meta, "recipe")
    if not weight or not meta.get("labels_in_training", recipe.get("labels_in_training", True)):
        return None
    return (
        f"the net was trained with label propagation (weight {weight:.2f}), which another graph "
        "does not have: its labels are worse there; search with --for any"
    )


def structure_of(meta: Mapping[str, Any]) -> str | None:
    """What the features of the run's graph were made of; None: they were given."""
    kind = meta["source"].get("structure")
    if kind is not None and kind not in KINDS:
        raise GassipError(f"the run's features are made of {str(kind)[:40]!r}, which is not known")
    return None if kind is None else str(kind)


def only_here(kind: str | None, ids: Sequence[str] | None) -> None:
    """Refuse another graph where made features have no meaning in it."""
    if kind == KINDS[1] or (kind == KINDS[2] and ids is None):
        what = "positions" if kind == KINDS[1] else "numbers of nodes"
        raise GassipError(
            f"no features are given: the net reads {what} in its training graph, which another one "
            f"does not have; search on both graphs as one"
        )


def read_preparation(folder: Path, meta: Mapping[str, Any]) -> Preparation | None:
    """How named columns become x; None for a run whose x was given."""
    if PREPARATION not in meta["files"]:
        return None
    made = Preparation.from_json(read_file(folder, PREPARATION, meta))
    if len(made.feature_names) != meta["features"]:
        raise GassipError(
            f"{folder / PREPARATION} makes {len(made.feature_names)} features; the run has "
            f"{meta['features']}"
        )
    return made


def read_statistics(folder: Path, meta: Mapping[str, Any]) -> Statistics | None:
    """What drift is told by; None for a run of an earlier version."""
    if STATISTICS not in meta["files"]:
        return None
    found = read_tensors(folder, STATISTICS, meta)
    for name in ("low", "high", "mean"):
        own = found.get(name)
        if own is None or own.shape != (meta["features"],) or own.dtype != np.float32:
            raise GassipError(f"{folder / STATISTICS}: {name} is not one number per feature")
    return Statistics(low=found["low"], high=found["high"], mean=found["mean"])


def read_ids(tensors: Mapping[str, Array], nodes: int) -> tuple[str, ...] | None:
    """What the user calls the nodes, from inputs.safetensors; None: their numbers."""
    if (stored := tensors.get("ids")) is None:
        return None
    try:
        ids = json.loads(stored.tobytes())
    except (ValueError, RecursionError) as error:
        raise GassipError(f"the ids of the nodes are damaged ({error})") from error
    if not isinstance(ids, list) or len(ids) != nodes or not all(type(node) is str for node in ids):
        raise GassipError(f"the ids of the nodes are not {nodes} texts")
    return tuple(ids)


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


def read_tensors(folder: Path, name: str, meta: Mapping[str, Any]) -> Tensors:
    """A safetensors file of the run: u64 length, JSON header, raw bytes."""
    path, content = folder / name, read_file(folder, name, meta)
    try:
        start = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:start])
        entries = {key: entry for key, entry in header.items() if key != "__metadata__"}
        found = {key: _tensor(content, start, entry) for key, entry in entries.items()}
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        OverflowError,
    ) as error:
        raise GassipError(f"{path} is not a safetensors file ({str(error)[:80]})") from error
    for key, value in found.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise GassipError(
                f"{path}: {key[:40]} holds values that are NaN or infinite; the training diverged, "
                f"search again"
            )
    return found


def _tensor(content: bytes, start: int, entry: Mapping[str, Any]) -> Array:
    kind, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"])
    first, last = entry["data_offsets"]
    count = int(np.prod(shape, dtype=object))
    if not 0 <= first <= last <= len(content) - start or last - first != count * kind.itemsize:
        raise ValueError("a tensor lies outside the file")
    return np.frombuffer(content, kind, count, start + first).reshape(shape)


def write_tensors(tensors: Mapping[str, Array]) -> bytes:
    """The bytes of a safetensors file; wide types first, so that each lies aligned."""
    names = {np.dtype(kind): name for name, kind in _DTYPES.items()}
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    header: dict[str, object] = {}
    at = 0
    for key, value in ordered:
        header[key] = {
            "dtype": names[value.dtype],
            "shape": value.shape,
            "data_offsets": (at, at + value.nbytes),
        }
        at += value.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join(
        [
            len(text).to_bytes(8, "little"),
            text,
            *(np.ascontiguousarray(v).tobytes() for _, v in ordered),
        ]
    )


def pack(weight: Array, precision: Precision) -> Tensors:
    """A matrix as stored: "" the values, "scale" of int8's columns, "bits" and "shape" where
    leaving zeros out pays."""
    packed: Tensors = {}
    values = weight
    if precision == "int8":
        values, packed["scale"] = rounded(weight)
    elif precision == "float16":
        values = weight.astype(np.float16)
    kept = weight != 0
    # 200: two more entries in the header
    if int(kept.sum()) * values.itemsize + kept.size // 8 + 200 < values.nbytes:
        packed |= {"bits": np.packbits(kept), "shape": np.array(weight.shape, dtype=np.int64)}
        values = values[kept]
    return packed | {"": values}


def rounded(weight: Array) -> tuple[Array, Array]:
    """int8 and its scale per column."""
    scale = np.abs(weight).max(0) / 127
    scale = np.where(scale > 0, scale, 1).astype(np.float32)
    return np.rint(weight / scale).astype(np.int8), scale


def unpacked(packed: Tensors) -> Array:
    """The matrix again, as float32."""
    values = packed[""].astype(np.float32)
    if "bits" in packed:
        bits, shape = packed["bits"], tuple(packed["shape"].tolist())
        plain = (
            packed["shape"].dtype == np.int64
            and packed["shape"].ndim == 1
            and min(shape, default=0) > 0
        )
        if (
            not plain
            or bits.dtype != np.uint8
            or bits.shape != ((int(np.prod(shape, dtype=object)) + 7) // 8,)
        ):
            raise GassipError(
                f"bits of {list(bits.shape)} {bits.dtype} do not fit a matrix of shape {shape}"
            )
        whole = np.zeros(shape, dtype=np.float32)
        whole[np.unpackbits(packed["bits"], count=whole.size).astype(bool).reshape(shape)] = values
        values = whole
    return values * packed["scale"] if "scale" in packed else values


def unpack(state: Tensors, meta: Mapping[str, Any], precision: Precision | None) -> Tensors:
    """The net's state as float32, its matrices rounded to `precision`."""
    stored = meta.get("precision", "float32")
    if precision is not None and precision not in get_args(Precision):
        raise GassipError(
            f"precision must be one of {', '.join(get_args(Precision))}, not {precision!r}"
        )
    if stored != "float32" and precision not in (None, stored):
        raise GassipError(
            f"its weights are stored as {stored}; {precision} cannot be had from them"
        )
    out = dict(state)
    for at in range(len(meta["architecture"])):
        name = f"layers.{at}.weight"
        parts = {
            key.removeprefix(f"{name}."): out.pop(key)
            for key in state
            if key.startswith(f"{name}.")
        }
        weight = unpacked({"": state[name]} | parts)
        again = stored == "float32" and precision in ("float16", "int8")
        out[name] = unpacked(pack(weight, precision)) if again and precision else weight
    return out


def check_file(out: Path, overwrite: bool) -> None:
    """Refuse, before the work, a file that cannot be written: it exists, it is a folder, there is
    no folder for it."""
    try:
        mode = out.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = stat.S_IFREG
    except (OSError, ValueError) as error:
        raise GassipError(f"{out}: {getattr(error, 'strerror', None) or error}") from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise GassipError(f"{out} is a device or a pipe, not a file; choose another --out")
    if out.exists() and not overwrite:
        raise GassipError(f"{out} exists; choose another --out, or --overwrite to replace it")
    if out.is_dir():
        raise GassipError(f"{out} is a folder; --out must name a file")
    if not out.parent.is_dir():
        raise GassipError(
            f"{out} cannot be written: there is no folder {out.parent}; make it, or choose "
            f"another --out"
        )


def real(path: Path) -> Path:
    """The path without links, which names something besides the root."""
    found = Path(os.path.realpath(path))
    if not found.name:
        raise GassipError(f"{path} is the root of the file system; choose another --out")
    return found


def replace_file(path: Path, content: bytes) -> None:
    """Write `content` so that `path` holds either what it held before or all of it."""
    path = real(path)  # what a link names is replaced, not the link
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        error.filename = str(path)  # the name the user knows
        raise
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


FORMULA = re.compile(r"[=@\t\r]|[+-](?![0-9.]+$)")


def no_formula(text: str) -> str:
    """A spreadsheet executes a cell that begins so; an apostrophe makes it a text."""
    return f"'{text}" if FORMULA.match(text) else text


def labels_csv(ids: Sequence[str], names: Sequence[str], probs: Sequence[float]) -> str:
    """A line for each node: id, label, probability."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("id", "label", "probability"))
    for at, name, prob in zip(ids, names, probs, strict=True):
        if not math.isfinite(prob):
            raise GassipError(
                f"the probability of node {at[:40]!r} is {prob}: its features, or those of its "
                f"neighbours, are too large for the net; scale them as in training"
            )
        writer.writerow((no_formula(at), no_formula(name), f"{prob:.6f}"))
    return text.getvalue()
