"""Arrays on disk written from front to back and read piece by piece, in bounded memory.

Plain reads and writes: pages of mapped files would count as memory of the process.

Shapes: N rows.
"""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np

PIECE = 2**26  # bytes that are read at once
ROOM = 2**30  # bytes that rows in a new order may take, if nothing else is said


class Appending:
    """A new .npy file whose number of rows is known when the last is there."""

    def __init__(self, path: Path, dtype: str, width: tuple[int, ...] = ()) -> None:
        self.path, self.dtype, self.width, self.rows = path, np.dtype(dtype), width, 0

    def __enter__(self) -> "Appending":
        self.file = self.path.open("w+b")
        self._header()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.file.seek(0)
        self._header()  # numpy pads it, so that its length does not change with the rows
        self.file.close()

    def _header(self) -> None:
        told = {
            "descr": np.lib.format.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": (self.rows, *self.width),
        }
        np.lib.format.write_array_header_1_0(self.file, told)

    def append(self, rows: np.ndarray) -> None:
        self.file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        self.rows += len(rows)


def slab(array: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Rows of an array; of a mapped one by a plain read, so that its pages do not fill memory."""
    name = getattr(array, "filename", None)
    if name is None or not isinstance(array, np.memmap) or not array.flags.c_contiguous:
        return np.asarray(array[start:stop])
    width = int(np.prod(array.shape[1:], dtype=np.int64))
    offset = int(array.offset) + int(start) * width * array.itemsize
    count = int(stop - start) * width
    flat = np.fromfile(Path(name), dtype=array.dtype, count=count, offset=offset)
    return flat.reshape(int(stop - start), *array.shape[1:])


def mapped(path: Path) -> np.ndarray:
    return np.load(path, mmap_mode="r", allow_pickle=False)


def pieces(array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Consecutive rows, with the number of the first."""
    rows = max(1, PIECE // max(1, array[:1].nbytes))
    for start in range(0, len(array), rows):
        yield start, slab(array, start, min(len(array), start + rows))


def permuted_rows(
    folder: Path, name: str, values: np.ndarray, place: np.ndarray | None, room: int = ROOM
) -> None:
    """name.npy: row k of `values` comes to stand at place[k]; a part of at most `room` bytes at a
    time, collected beside and then put in order."""
    kind, width = str(values.dtype), values.shape[1:]
    with Appending(folder / f"{name}.npy", kind, width) as out:
        if place is None:
            for _, rows in pieces(values):
                out.append(rows)
            return
        count = max(1, -(-values.nbytes // max(1, room)))
        size = -(-len(values) // count)
        parts = [values] if count == 1 else _collected(folder, values, place, size)
        for number, part in enumerate(parts):
            at = place[place // size == number] - number * size
            rows = np.empty((len(at), *width), dtype=kind)
            for start, piece in pieces(part):
                rows[at[start : start + len(piece)]] = piece
            out.append(rows)
    for path in folder.glob("part-*.npy"):
        path.unlink()


def _collected(
    folder: Path, values: np.ndarray, place: np.ndarray, size: int
) -> Iterator[np.ndarray]:
    """The rows that come to stand in each range of `size`, as they follow each other now."""
    count = -(-len(values) // size)
    paths = [folder / f"part-{number}.npy" for number in range(count)]
    files = [Appending(path, str(values.dtype), values.shape[1:]) for path in paths]
    for file in files:
        file.__enter__()
    for start, rows in pieces(values):
        part = place[start : start + len(rows)] // size
        for number in np.unique(part):
            files[number].append(rows[part == number])
    for file in files:
        file.__exit__(None, None, None)
    for path in paths:
        yield mapped(path)
        path.unlink()
