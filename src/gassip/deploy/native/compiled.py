"""A C file of gassip, compiled here and called from Python: for the comparison before it is kept.

The compiler is $CC, or the first of cc, gcc and clang. The file is compiled to a shared library in
a folder of its own, which is removed afterwards.
"""

import ctypes
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np

from gassip.deploy.native.graphs import GraphArrays, graph_arrays
from gassip.deploy.numpy_graph import Inputs
from gassip.errors import GassipError
from gassip.graph.checks import Array

FLAGS = ("-std=c99", "-O3", "-Wall", "-Wextra", "-pedantic")
REPEATS = 20  # full passes, of which the fastest counts
MOST_SECONDS = 1.0


class Graph(ctypes.Structure):
    """core.c's gassip_graph."""

    _fields_ = (
        ("nodes", ctypes.c_int32),
        *(
            (name, ctypes.c_void_p)
            for name in (
                "indptr",
                "sender",
                "weight",
                "degree",
                "x",
                "x_indptr",
                "x_index",
                "x_value",
                "labels",
            )
        ),
    )


def compiler() -> list[str] | None:
    """The command of a C compiler, or None."""
    if given := os.environ.get("CC"):
        words = shlex.split(given)
        return words if words and shutil.which(words[0]) else None
    return next(([name] for name in ("cc", "gcc", "clang") if shutil.which(name)), None)


def compile_c(command: list[str], *arguments: str | Path) -> None:
    done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        first = next(iter(done.stderr.splitlines()), "no message")
        raise GassipError(f"{command[0]} does not compile the file: {first}; nothing was written")


class Compiled:
    """The entries of a shared library."""

    def __init__(self, library: Path, name: str, classes: int) -> None:
        self.library, self.name, self.classes = ctypes.CDLL(str(library)), name, classes
        self._entry("work_bytes").restype = ctypes.c_size_t

    def _entry(self, what: str) -> "ctypes._NamedFuncPointer":
        return self.library[f"{self.name}_{what}"]

    def work(self, nodes: int, edges: int, neighbours: int = 0) -> Array:
        sizes = (ctypes.c_size_t(size) for size in (nodes, edges, neighbours))
        return np.empty(self._entry("work_bytes")(*sizes), dtype=np.uint8)

    def scores(self, inputs: Inputs) -> Array:
        """[N, C] of all nodes."""
        return self.passes(inputs, 1)[0]

    def passes(self, inputs: Inputs, repeats: int) -> tuple[Array, float]:
        """The scores, and the fewest seconds of CPU time that a pass took."""
        arrays = graph_arrays(inputs)
        out = np.empty((inputs.x.shape[0], self.classes), dtype=np.float32)
        work, given = self.work(out.shape[0], arrays.sender.size), pointed(arrays)
        least, begun = float("inf"), process_time()
        for _ in range(repeats):
            start = process_time()
            self._checked(self._entry("scores")(*_call(given, work), _pointer(out)))
            least = min(least, process_time() - start)
            if process_time() - begun > MOST_SECONDS:
                break
        return out, least

    def node(self, inputs: Inputs, node: int) -> Array:
        """[C] of one node."""
        arrays = graph_arrays(inputs)
        out, work = self._one(inputs)
        given, *rest = _call(pointed(arrays), work)
        entry = self._entry("scores_node")
        self._checked(entry(given, ctypes.c_int32(node), *rest, _pointer(out)))
        return out

    def new_node(
        self, inputs: Inputs, x: Array, neighbours: Array, weight: Array | None = None
    ) -> Array:
        """[C] of a node that is not in the graph."""
        arrays, row = graph_arrays(inputs), np.ascontiguousarray(x, dtype=np.float32)
        ends = np.ascontiguousarray(neighbours, dtype=np.int32)
        out, work = self._one(inputs, ends.size)
        given = _call(pointed(arrays), work)
        more = (_pointer(row), ctypes.c_int32(ends.size), _pointer(ends), _pointer(weight))
        entry = self._entry("scores_new_node")
        self._checked(entry(given[0], *more, *given[1:], _pointer(out)))
        return out

    def prepare(self, row: Array, read: int) -> Array:
        """The features that are read, of a row as the user has it."""
        out = np.empty(read, dtype=np.float32)
        self._entry("prepare")(_pointer(np.ascontiguousarray(row, dtype=np.float32)), _pointer(out))
        return out

    def _one(self, inputs: Inputs, neighbours: int = 0) -> tuple[Array, Array]:
        work = self.work(inputs.x.shape[0], inputs.edges.nnz, neighbours)
        return np.empty(self.classes, dtype=np.float32), work

    def _checked(self, status: int) -> None:
        if status:
            raise GassipError(f"{self.name} in C returned {status}")


def pointed(arrays: GraphArrays) -> Graph:
    """The structure; it keeps nothing alive."""
    pointers = {key: _pointer(array) for key, array in arrays.items()}
    return Graph(nodes=arrays.indptr.size - 1, **pointers)


def _pointer(array: Array | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if array is None else array.ctypes.data)


def _call(
    graph: Graph, work: Array
) -> "tuple[ctypes._CArgObject, ctypes.c_void_p, ctypes.c_size_t]":
    return ctypes.byref(graph), _pointer(work), ctypes.c_size_t(work.nbytes)


@contextmanager
def compiled(text: str, name: str, classes: int) -> Iterator[tuple[Compiled, int] | None]:
    """The compiled file and the bytes of its object; None where there is no compiler."""
    command = compiler()
    if command is None:
        yield None
        return
    with TemporaryDirectory(prefix="gassip-") as folder:
        source, parts = Path(folder) / f"{name}.c", Path(folder)
        source.write_text(text, encoding="utf-8")
        compile_c([*command, *FLAGS], "-fPIC", "-c", source, "-o", parts / "net.o")
        compile_c(command, "-shared", parts / "net.o", "-o", parts / "net.so")
        yield Compiled(parts / "net.so", name, classes), (parts / "net.o").stat().st_size
