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
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from gassip.errors import GassipError
from gassip.operations import OPERATIONS

EXPORTED = "runtime-1"  # what `gassip export --format runtime` writes
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
    try:
        meta = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
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


def _no_constant(text: str) -> float:
    raise ValueError(f"it holds {text}")


def soft_edges(meta: Mapping[str, Any]) -> bool:
    """Whether the kept edges weigh M_G besides what was given."""
    settings = meta.get("settings") or {}
    return bool(
        meta.get("soft_edges", settings.get("kept_edges") == "soft" and settings.get("sparsify"))
    )


def label_weight(meta: Mapping[str, Any]) -> float:
    """How much training labels count beside the net; 0: not at all."""
    given = meta.get("label_weight", (meta.get("net") or {}).get("label_weight", 0.0))
    if (
        isinstance(given, bool)
        or not isinstance(given, (int, float))
        or not 0 <= given < float("inf")
    ):
        raise GassipError(
            f"label_weight is {str(given)[:40]!r}; it must be a number, and not negative"
        )
    return float(given)


def read_file(folder: Path, name: str, meta: Mapping[str, Any]) -> bytes:
    """A file of the run whose checksum is the one in meta.json."""
    path = folder / name
    try:
        content = path.read_bytes()
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
        entries = {key: own for key, own in header.items() if key != "__metadata__"}
        return {key: _tensor(content, start, own) for key, own in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise GassipError(f"{path} is not a safetensors file ({error})") from error


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
        scale = np.abs(weight).max(0) / 127
        packed["scale"] = scale = np.where(scale > 0, scale, 1).astype(np.float32)
        values = np.rint(weight / scale).astype(np.int8)
    elif precision == "float16":
        values = weight.astype(np.float16)
    kept = weight != 0
    # 200: two more entries in the header
    if int(kept.sum()) * values.itemsize + kept.size // 8 + 200 < values.nbytes:
        packed |= {"bits": np.packbits(kept), "shape": np.array(weight.shape, dtype=np.int64)}
        values = values[kept]
    return packed | {"": values}


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
    if out.exists() and not overwrite:
        raise GassipError(f"{out} exists; choose another --out, or --overwrite to replace it")
    if out.is_dir():
        raise GassipError(f"{out} is a folder; --out must name a file")
    if not out.parent.is_dir():
        raise GassipError(
            f"{out} cannot be written: there is no folder {out.parent}; make it, or choose "
            f"another --out"
        )


def replace_file(path: Path, content: bytes) -> None:
    """Write `content` so that `path` holds either what it held before or all of it."""
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


def labels_csv(ids: Sequence[str], names: Sequence[str], probs: Sequence[float]) -> str:
    """A line for each node: id, label, probability."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("id", "label", "probability"))
    writer.writerows((i, name, f"{p:.6f}") for i, name, p in zip(ids, names, probs, strict=True))
    return text.getvalue()
