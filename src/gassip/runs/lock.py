"""One writer at a time: a folder that a search writes is locked until the search has ended."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gassip.errors import GassipError


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Holds the lock of `folder`, a file beside it that goes in the end; a second writer is
    refused. The lock of a process that was killed goes with the process."""
    from filelock import FileLock, Timeout

    path = folder.with_name(f".{folder.name}.lock")
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise GassipError(
            f"another process is writing {folder}; wait for its end, or choose another --out"
        ) from None
    try:
        yield
    finally:
        with suppress(OSError):  # some systems do not remove a file that is open
            path.unlink()
        lock.release()
        with suppress(OSError):
            path.unlink(missing_ok=True)
