"""The same functions in this process, or as tasks of a Ray cluster (extra `cluster`).

    a block of columns, a candidate, a block of rows: pure functions of their arguments, and of
    files in folders that every worker sees

A task that dies with its worker is started again by Ray; what it writes is renamed when whole, so
that nothing is lost or doubled. Bits are equal either way: seeds belong to tasks, not to workers.
A cluster that is started here listens on loopback alone.
"""

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from typing import Any, Protocol, TypeVar

from gassip import __version__
from gassip.errors import GassipError

T = TypeVar("T")
EXTRA = "--cluster needs the 'cluster' extra: pip install 'gassip[cluster]'"
LOOPBACK = "127.0.0.1"
KNOCK_SECONDS = 10


class Tasks(Protocol):
    """Where functions run."""

    def map(
        self,
        function: Callable[..., T],
        shared: Any,
        items: Sequence[tuple[Any, ...]],
        arrived: Callable[[int, T], None] | None = None,
    ) -> list[T]:
        """function(shared, *item) for every item, in their order; `arrived` is told the number of
        an item and its answer as soon as that is known."""


class InProcess:
    """One after the other."""

    def map(
        self,
        function: Callable[..., T],
        shared: Any,
        items: Sequence[tuple[Any, ...]],
        arrived: Callable[[int, T], None] | None = None,
    ) -> list[T]:
        answers = []
        for at, item in enumerate(items):
            answers.append(function(shared, *item))
            if arrived is not None:
                arrived(at, answers[-1])
        return answers


class RayTasks:
    """As tasks; `shared` is sent once."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray

    def map(
        self,
        function: Callable[..., T],
        shared: Any,
        items: Sequence[tuple[Any, ...]],
        arrived: Callable[[int, T], None] | None = None,
    ) -> list[T]:
        task, handle = self.ray.remote(checked), self.ray.put(shared)
        mine = versions_here()
        handles = [task.remote(mine, function, handle, *item) for item in items]
        answers: dict[int, T] = {}
        waiting = {ref: at for at, ref in enumerate(handles)}
        try:
            while waiting:
                done, _ = self.ray.wait(list(waiting), num_returns=1)
                at = waiting.pop(done[0])
                answers[at] = self.ray.get(done[0])
                if arrived is not None:
                    arrived(at, answers[at])
        except self.ray.exceptions.RayTaskError as error:
            raise told(error.cause) from error
        except self.ray.exceptions.RayError as error:
            raise GassipError(f"the cluster lost a task for good ({first_line(error)})") from error
        finally:
            for ref in waiting:  # of no use any more if one has failed
                self.ray.cancel(ref)
        return [answers[at] for at in range(len(handles))]


def versions_here() -> dict[str, str]:
    """Of what the bits of a task follow from."""
    found = {"gassip": __version__}
    for name in ("torch", "numpy"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def checked(versions: dict[str, str], function: Callable[..., T], shared: Any, *item: Any) -> T:
    """function(shared, *item) on a worker that has the versions of the machine that asks."""
    for name, here in versions_here().items():
        if versions.get(name, here) != here:
            raise GassipError(
                f"{name} is {here} there and {versions[name]} here; install the same on every "
                f"machine"
            )
    return function(shared, *item)


def told(cause: BaseException) -> BaseException:
    """A worker's error as one line here."""
    if isinstance(cause, GassipError):
        return GassipError(f"on a worker: {cause}")
    if isinstance(cause, OSError):
        return GassipError(
            f"a worker cannot read {cause.filename or cause}; graphs, hops and runs must lie where "
            f"every worker sees them"
        )
    return GassipError(f"on a worker: {type(cause).__name__}: {first_line(cause)}")


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


@contextmanager
def connected(address: str | None, workers: int | None = None) -> Iterator[Tasks]:
    """None: this process. `auto`: the cluster that runs here, else one of this machine for as long
    as it is needed. Otherwise HOST:PORT of a head."""
    if address is None:
        yield InProcess()
        return
    ray = library()
    start(ray, address, workers)
    try:
        yield RayTasks(ray)
    finally:
        ray.shutdown()


def library() -> Any:
    try:
        import ray
    except ImportError as error:
        raise GassipError(EXTRA) from error
    return ray


def knock(address: str) -> None:
    """Fails at once where nothing listens; Ray alone goes on trying for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()


def start(ray: Any, address: str, workers: int | None) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        knock(address)
        try:
            ray.init(address=address, **quiet)
        except ConnectionError:
            if address != "auto":
                raise
            local = {"_node_ip_address": LOOPBACK, "include_dashboard": False}
            ray.init(num_cpus=workers, **local, **quiet)
    except (OSError, ValueError) as error:
        raise GassipError(
            f"--cluster {address}: no head answers there ({first_line(error)}); start one with "
            f"`ray start --head`, or --cluster auto for this machine"
        ) from error
    except RuntimeError as error:
        raise GassipError(
            f"--cluster {address}: {first_line(error)}; every machine needs the same Python, Ray "
            f"and gassip"
        ) from error
