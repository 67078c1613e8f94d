"""safetensors, read and written by hand.

    u64 length, JSON header {name: dtype, shape, offsets}, raw bytes

Thirty lines here; the package of that name would be a third dependency of the runtime and a
quarter of its import time.
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
