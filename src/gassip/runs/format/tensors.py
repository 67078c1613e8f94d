"""safetensors, read and written by hand.

    u64 length, JSON header {name: dtype, shape, offsets}, raw bytes

The only reader and writer: of runs, exports and checkpoints. The package of that name would be a
third dependency of the runtime and a quarter of its import time; the tests compare with it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gassip.errors import GassipError
from gassip.runs.format.meta import read_file

Array = np.ndarray
Tensors = dict[str, np.ndarray]


_DTYPES = {  # wide types first, so that each lies aligned; the order of the package, byte by byte
    "I64": "<i8",
    "F32": "<f4",
    "I32": "<i4",
    "F16": "<f2",
    "U16": "<u2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "?",
}
_TEXTS = "__metadata__"
_DAMAGED = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)


def read_tensors(folder: Path, name: str, meta: Mapping[str, Any]) -> Tensors:
    """A safetensors file of the run, whose numbers are all finite."""
    path, content = folder / name, read_file(folder, name, meta)
    try:
        found, _ = from_bytes(content)
    except ValueError as error:
        raise GassipError(f"{path} is not a safetensors file ({error})") from error
    for key, value in found.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise GassipError(
                f"{path}: {key[:40]} holds values that are NaN or infinite; the training diverged, "
                f"search again"
            )
    return found


def from_bytes(content: bytes) -> tuple[Tensors, dict[str, str]]:
    """The arrays of a safetensors file and the texts of its header; ValueError if it is none."""
    try:
        start = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:start])
        texts = {str(key): str(text) for key, text in header.pop(_TEXTS, {}).items()}
        return {key: _tensor(content, start, entry) for key, entry in header.items()}, texts
    except _DAMAGED as error:
        raise ValueError(str(error)[:80]) from error


def _tensor(content: bytes, start: int, entry: Mapping[str, Any]) -> Array:
    kind, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"])
    first, last = entry["data_offsets"]
    count = int(np.prod(shape, dtype=object))
    if not 0 <= first <= last <= len(content) - start or last - first != count * kind.itemsize:
        raise ValueError("a tensor lies outside the file")
    return np.frombuffer(content, kind, count, start + first).reshape(shape)


def write_tensors(tensors: Mapping[str, Array], texts: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file, with `texts` in its header."""
    kinds = {np.dtype(kind): name for name, kind in _DTYPES.items()}
    rank = {kind: at for at, kind in enumerate(kinds)}
    ordered = sorted(tensors.items(), key=lambda item: (rank[item[1].dtype], item[0]))
    header: dict[str, object] = {_TEXTS: dict(texts)} if texts else {}
    at = 0
    for key, value in ordered:
        offsets = (at, at + value.nbytes)
        header[key] = {"dtype": kinds[value.dtype], "shape": value.shape, "data_offsets": offsets}
        at += value.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    arrays = (np.ascontiguousarray(value).tobytes() for _, value in ordered)
    return b"".join([len(text).to_bytes(8, "little"), text, *arrays])
