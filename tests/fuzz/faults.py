"""Faults of the machine, injected at every write: the disk is full, memory is out, the process is
killed.

A point is a call that changes files under a folder: opening a file to write (the fault comes when
half of it is written), fsync, rename, replace, mkdir, unlink, rmdir.
"""

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FULL, MEMORY, KILLED = "full", "memory", "killed"
KILLED_STATUS = 137
NAMES = ("replace", "rename", "mkdir", "unlink", "rmdir", "fsync")
FREE = ("unlink", "rmdir")  # need no room: a full disk does not stop them


class HalfWritten:
    """A file of which only half arrives."""

    def __init__(self, file: Any, fail: Callable[[], None]) -> None:
        self.file, self.fail = file, fail

    def write(self, content: Any) -> int:
        self.file.write(content[: len(content) // 2])
        self.file.flush()
        self.fail()
        return 0

    def __enter__(self) -> "HalfWritten":
        return self

    def __exit__(self, *args: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


class Faults:
    """Counts the points under `folder`; at number `at` (from 0) the fault comes."""

    def __init__(self, folder: Path, kind: str = "", at: int = -1) -> None:
        self.folder, self.kind, self.at, self.points = str(folder), kind, at, list[str]()

    def fail(self) -> None:
        if self.kind == KILLED:
            os._exit(KILLED_STATUS)
        if self.kind == MEMORY:
            raise MemoryError
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def here(self, name: str, path: object) -> bool:
        """Whether the fault comes at this call."""
        if name != "fsync" and not str(path).startswith(self.folder):
            return False
        if str(path).endswith(".lock"):  # of the library that locks
            return False
        self.points.append(name)
        if len(self.points) - 1 != self.at:
            return False
        return not (self.kind == FULL and name in FREE)

    def opened(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            writes = isinstance(path, (str, Path)) and set(mode) & set("wxa+")
            broken = bool(writes) and self.here("open", path)
            file = real(path, mode, *args, **kwargs)
            return HalfWritten(file, self.fail) if broken else file

        return call

    def wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            if self.here(name, path):
                self.fail()
            return real(path, *args, **kwargs)

        return call

    @contextmanager
    def injected(self) -> Iterator[None]:
        old = {name: getattr(os, name) for name in NAMES}
        real_open = io.open
        for name, own in old.items():
            setattr(os, name, self.wrapped(name, own))
        io.open = builtins.open = self.opened(real_open)
        try:
            yield
        finally:
            io.open = builtins.open = real_open
            for name, own in old.items():
                setattr(os, name, own)


def count(folder: Path, call: Callable[[], int]) -> list[str]:
    """The points of a call that goes well."""
    faults = Faults(folder)
    with faults.injected():
        assert call() == 0
    return faults.points


def broken(folder: Path, call: Callable[[], int], kind: str, at: int) -> int:
    """The status of a call with a fault; a process that is to be killed is a fork."""
    faults = Faults(folder, kind, at)
    if kind != KILLED:
        with faults.injected():
            return call()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with faults.injected():
                status = call()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
