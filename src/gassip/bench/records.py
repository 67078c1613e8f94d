"""The record book: what was run and what came of it, one JSON line each, in
results/<dataset>.jsonl.

A line holds `schema`, `key` (a hash of `run`), `run` (what was run: the fields of Run) and what
came out (the other fields of Record). Lines are only ever appended, under a lock and in one write,
so that several processes can share a book; a line that cannot be read is moved to results/damaged/
and named.
"""

import fcntl
import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch

from gassip.baselines._shared.searched import Searched
from gassip.baselines._shared.stack import Stack
from gassip.errors import GassipError
from gassip.graph import perturb
from gassip.graph.datasets import load, read
from gassip.graph.graph import Graph
from gassip.methods import Method, Resumer, Searcher, StartsFromPlan, changed, entry
from gassip.metrics import Metric
from gassip.nn.net import Net
from gassip.runs.checkpoint import discard
from gassip.runs.write import replace_file, versions
from gassip.train.batched import retrain_many, solve_many
from gassip.train.context import Listener, RunContext
from gassip.train.trainer import Found, Solution

SCHEMA = 1
UNFINISHED = ".unfinished"  # beside the records: searches that were killed
Status = Literal["ok", "oom", "failed"]
Watch = Callable[
    [str, int], AbstractContextManager[Listener | None]
]  # given a stage and how many rows it will tell


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is run; two equal ones have one key."""

    method: str
    settings: dict[str, Any]
    dataset: str
    fingerprint: str | None = None  # of a graph from a file, whose name says little
    split_seed: int = 0
    undirected: bool = False
    normalize: bool | None = None  # None: as is usual for the dataset
    noise: int = 0
    noise_seed: int = 0
    attack: str | None = None  # mettack-0.05, prbcd-0.05
    search_seed: int | None = None  # None for a method that does not search apart from its training
    retrain_seed: int = 0
    metric: Metric = "accuracy"

    @property
    def key(self) -> str:
        return hashlib.sha256(canonical(asdict(self)).encode()).hexdigest()[:24]


@dataclass(frozen=True, kw_only=True)
class Record:
    """A run and what came out; where it failed, `reason` says why and the figures are empty."""

    run: Run
    status: Status
    reason: str | None = None
    tuned: bool = False  # whether the settings come from tuned.json
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    accuracy: dict[str, float] = field(default_factory=dict)
    architecture: list[str] | None = None
    weights_kept: int | None = None
    weights_total: int | None = None
    weights_stored: int | None = None  # numbers in the saved model
    edges_kept: int | None = None
    edges_total: int | None = None
    best_epoch: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)  # search, retrain
    batched: int = 1  # copies that were trained together; seconds are an even share
    peak_mb: float | None = None
    details: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    commit: str | None = None
    dirty: bool | None = None
    machine: dict[str, Any] = field(default_factory=dict)
    threads: int = 1
    when: str = ""  # UTC, ISO 8601

    def to_line(self) -> str:
        return canonical({"schema": SCHEMA, "key": self.run.key} | asdict(self)) + "\n"

    @staticmethod
    def from_line(line: str) -> "Record":
        """Raises ValueError where the line is not a record whose key fits."""
        found = json.loads(line)
        if (
            not isinstance(found, dict)
            or found.get("schema") != SCHEMA
            or not isinstance(found.get("run"), dict)
        ):
            raise ValueError("not a record")
        try:
            run = Run(**found["run"])
            known = {f.name for f in fields(Record)} - {"run"}
            record = Record(run=run, **{name: found[name] for name in known})
        except (TypeError, KeyError) as error:
            raise ValueError(f"not a record: {error}") from None
        if run.key != found.get("key"):
            raise ValueError("its key does not fit")
        return record


def canonical(value: object) -> str:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


class Book:
    """The records of one folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, dataset: str) -> Path:
        return self.folder / f"{dataset}.jsonl"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone among all processes that use this folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)  # which releases the lock

    def append(self, record: Record) -> None:
        """One line, in one write, on the disk when this returns."""
        path = self.path(record.run.dataset)
        with self._locked():
            handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                size = os.fstat(handle).st_size
                torn = (
                    size > 0 and os.pread(handle, 1, size - 1) != b"\n"
                )  # a crash in the middle of a line
                line = ("\n" if torn else "") + record.to_line()
                os.write(handle, line.encode())
                os.fsync(handle)
            finally:
                os.close(handle)

    def read(self, dataset: str) -> tuple[list[Record], list[str]]:
        """The records of a dataset, and a line about each that could not be read and was set
        aside."""
        path = self.path(dataset)
        if not path.exists():
            return [], []
        with self._locked():
            lines = path.read_bytes().split(b"\n")
            records, good, bad = [], [], []
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    records.append(Record.from_line(line.decode()))
                    good.append(line)
                except ValueError as error:
                    bad.append((number, line, str(error)))
            if bad:
                self._set_aside(path, [line for _, line, _ in bad])
                replace_file(path, b"".join(line + b"\n" for line in good))
        aside = self.folder / "damaged" / path.name
        return records, [
            f"{path} line {number} is damaged ({why}); moved to {aside}" for number, _, why in bad
        ]

    def _set_aside(self, path: Path, lines: list[bytes]) -> None:
        folder = self.folder / "damaged"
        folder.mkdir(exist_ok=True)
        with (folder / path.name).open("ab") as file:
            file.write(b"".join(line + b"\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())

    def datasets(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.jsonl"))


def latest(records: Sequence[Record]) -> dict[str, Record]:
    """The last record of each key; one that went well stands before one that did not."""
    kept: dict[str, Record] = {}
    for record in records:
        before = kept.get(record.run.key)
        if before is None or before.status != "ok" or record.status == "ok":
            kept[record.run.key] = record
    return kept


def to_do(runs: Sequence[Run], records: Sequence[Record], *, retry: bool) -> list[Run]:
    """The runs that are not in the book; with `retry` also those that did not go well."""
    there = latest(records)
    return [
        run for run in runs if run.key not in there or (retry and there[run.key].status != "ok")
    ]


# Carrying runs out


def graph_of(run: Run, path: str | None = None) -> Graph:
    """The graph of a run, perturbed as it says; `path` for one from a file."""
    kind, _, rate = (run.attack or "").partition("-")
    if kind not in ("", "mettack", "prbcd") or (kind and not _is_share(rate)):
        raise GassipError(
            f"attack is {run.attack!r}; it must be mettack-RATE or prbcd-RATE, such as mettack-0.05"
        )
    if kind == "mettack":
        graph = perturb.mettack(run.dataset, float(rate))
    elif path is not None:
        graph = read(
            path, seed=run.split_seed, undirected=run.undirected, normalize=bool(run.normalize)
        )
    else:
        graph = load(
            run.dataset, seed=run.split_seed, undirected=run.undirected, normalize=run.normalize
        )
    if kind == "prbcd":
        graph = perturb.prbcd(graph, float(rate), run.noise_seed)
    return perturb.noise(graph, run.noise, run.noise_seed) if run.noise else graph


def _is_share(text: str) -> bool:
    try:
        return 0 <= float(text) < 1
    except ValueError:
        return False


def method_of(run: Run, graph: Graph) -> Method:
    """The method with exactly the settings of the run."""
    return changed(entry(run.method).make(graph), run.settings)


@contextmanager
def unwatched(stage: str, total: int) -> Iterator[None]:
    yield None


def carry_out(
    runs: Sequence[Run],
    tell: Callable[[Record, Solution | None], None],
    *,
    path: str | None = None,
    tuned: bool = False,
    watch: Watch = unwatched,
    book: Book | None = None,
) -> None:
    """Run each and tell its record; runs that differ in the retrain seed only share the search and
    the training.

    With a book, a search that is killed goes on from what it left there.
    """
    for group in groups(runs):
        reset_peak()
        with unfinished_search(group[0], book) as partial:
            try:
                graph = graph_of(group[0], path)
                found = search_for(group[0], graph, watch, partial)
            except (
                Exception
            ) as error:  # whatever a method raises is a result of the run, not of the batch
                for run in group:
                    tell(_record(run, tuned, **_failure(error)), None)
                continue
            train_group(group, graph, found, tell, tuned=tuned, watch=watch)


@contextmanager
def unfinished_search(run: Run, book: Book | None) -> Iterator[Path | None]:
    """The folder that a search is kept in until its trainings are recorded; only where a commit
    names the code."""
    commit, dirty = commit_of()
    if book is None or commit is None or dirty or run.search_seed is None:
        yield None
        return
    folder = book.folder / UNFINISHED / f"{replace(run, retrain_seed=0).key}-{commit[:12]}"
    yield folder
    discard(folder)
    with suppress(OSError):
        folder.parent.rmdir()


def train_group(
    group: Sequence[Run],
    graph: Graph,
    found: Found | None,
    tell: Callable[[Record, Solution | None], None],
    *,
    tuned: bool,
    watch: Watch,
) -> None:
    """The trainings of one search, or of none."""
    for part in to_parts(group, graph, found):
        try:
            with watch("train", num_epochs(part[0], found)) as on_epoch:
                solutions = solve_part(part, graph, found, on_epoch)
        except Exception as error:
            for run in part:
                tell(_record(run, tuned, **_failure(error)), None)
            continue
        for run, solution in zip(part, solutions, strict=True):
            tell(_record(run, tuned, **_outcome(solution, found, len(part))), solution)


def groups(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that are alike but for the retrain seed, in order."""
    alike: dict[str, list[Run]] = {}
    for run in runs:
        rest = {name: value for name, value in asdict(run).items() if name != "retrain_seed"}
        alike.setdefault(canonical(rest), []).append(run)
    return list(alike.values())


def search_for(run: Run, graph: Graph, watch: Watch, partial: Path | None = None) -> Found | None:
    """What the run's search finds; None where the method has no search apart from its training."""
    method = method_of(run, graph)
    if run.search_seed is None or not isinstance(method, Searcher):
        return None
    with watch("search", method.num_steps(graph)) as on_event:
        context = RunContext(run.search_seed, run.metric, on_event)
        if partial is not None and isinstance(method, Resumer):
            return method.resume(partial, graph, context)
        return method.search(graph, context)


def num_epochs(run: Run, found: Found | None) -> int:
    """Of one training, where the method says how many."""
    settings = run.settings if found is None else vars(found.settings)
    return int(settings.get("retrain_epochs") or settings.get("epochs") or 1)


def to_parts(group: Sequence[Run], graph: Graph, found: Found | None = None) -> list[list[Run]]:
    """Which runs train at once: all, where the batched trainer does what the method does; else each
    alone."""
    method = method_of(group[0], graph)
    return [list(group)] if trains_plainly(method, found) else [[run] for run in group]


def trains_plainly(method: Method, plan: Found | None) -> bool:
    """Whether the method's training is that of a plain `Net`, which the batched trainer does for
    many seeds."""
    if plan is None:
        return isinstance(method, Stack) and type(method).solve is Stack.solve
    plain = isinstance(method, Searched) and type(method).solve_from is Searched.solve_from
    return plain and plan.teacher is None


def solve_part(
    part: Sequence[Run], graph: Graph, plan: Found | None, on_event: Listener | None
) -> list[Solution]:
    """The solutions of runs that differ in the retrain seed only."""
    method, first = method_of(part[0], graph), part[0]
    context = RunContext(first.retrain_seed, first.metric, on_event)
    if len(part) > 1:
        return solve_together(method, part, graph, plan, context)
    if plan is None:
        return [method.solve(graph, context)]
    if not isinstance(method, StartsFromPlan):
        raise GassipError(f"{first.method} cannot start from what a search found")
    return [method.solve_from(plan, graph, context)]


def solve_together(
    method: Method, part: Sequence[Run], graph: Graph, plan: Found | None, context: RunContext
) -> list[Solution]:
    """The runs' trainings in one batch; each has the seed of its run."""
    seeds = [run.retrain_seed for run in part]
    if plan is not None:
        return retrain_many(
            graph, plan, seeds=seeds, metric=context.metric, on_epoch=context.on_event
        )
    assert isinstance(method, Stack), "as `trains_plainly` found"
    return solve_many(
        graph,
        lambda: method.net(graph),
        seeds=seeds,
        epochs=method.epochs,
        lr=method.lr,
        weight_decay=method.weight_decay,
        metric=context.metric,
        on_epoch=context.on_event,
    )


def _failure(error: Exception) -> dict[str, Any]:
    text = " ".join(str(error).split())[:300] or type(error).__name__
    memory = isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and "memory" in text
    )
    reason = text if isinstance(error, GassipError) else f"{type(error).__name__}: {text}"
    return {"status": "oom" if memory else "failed", "reason": reason}


def _outcome(solution: Solution, found: Found | None, batched: int) -> dict[str, Any]:
    stored = sum(
        value.numel() for value in solution.model.state_dict().values() if value.is_floating_point()
    )
    masked = (
        solution.weights_total - solution.weights_kept if isinstance(solution.model, Net) else 0
    )
    within = solution.details.get("search_seconds")
    search = (
        found.seconds
        if found is not None
        else float(within)
        if isinstance(within, (int, float))
        else 0.0
    )
    retrain = solution.seconds if found is not None else solution.seconds - search
    return {
        "status": "ok",
        "scores": solution.scores,
        "accuracy": solution.accuracy,
        "architecture": list(solution.model.architecture.ops)
        if isinstance(solution.model, Net)
        else None,
        "weights_kept": solution.weights_kept,
        "weights_total": solution.weights_total,
        "weights_stored": stored - masked,
        "edges_kept": solution.edges_kept,
        "edges_total": solution.edges_total,
        "best_epoch": solution.best_epoch,
        "seconds": {"search": search, "retrain": max(0.0, retrain)},
        "batched": batched,
        "details": jsonable(solution.details),
    }


def jsonable(value: Any) -> Any:
    """A method's details as strict JSON: what JSON has no word for becomes text, NaN and infinity
    null."""
    if isinstance(value, Mapping):
        return {str(name): jsonable(own) for name, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(own) for own in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return value if value is None or isinstance(value, (str, int)) else str(value)


def _record(run: Run, tuned: bool, **outcome: Any) -> Record:
    commit, dirty = commit_of()
    return Record(
        run=run,
        tuned=tuned,
        peak_mb=peak_mb(),
        versions=versions(),
        commit=commit,
        dirty=dirty,
        machine=machine(),
        threads=torch.get_num_threads(),
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        **outcome,
    )


# What it ran on


def reset_peak() -> None:
    """Let the peak of resident memory count from now, where the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_mb() -> float | None:
    """The peak of resident memory in MB; None where the system does not say or `reset_peak` has no
    effect."""
    try:
        status = Path("/proc/self/status").read_text()
        if not os.access("/proc/self/clear_refs", os.W_OK):
            return None
    except OSError:
        return None
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return round(int(found[0]) / 1024, 1) if found else None


def commit_of() -> tuple[str | None, bool | None]:
    """The commit of the code that runs, and whether it was changed since; None where it is not in a
    repository."""
    where = Path(__file__).resolve().parent
    try:
        commit = _git(where, "rev-parse", "HEAD")
        return commit, bool(_git(where, "status", "--porcelain", "--untracked-files=no", "--", "."))
    except (OSError, subprocess.SubprocessError):
        return None, None


def _git(where: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=where, capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    """CPU model, cores that may be used, memory in MB."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(
            (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
            model,
        )
    except OSError:
        pass
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "memory_mb": memory}


def unfinished(run: Run, exitcode: int | None, tuned: bool) -> Record:
    """The record of a run whose process ended before it did; signal 9 is what the system sends when
    memory is out."""
    killed = exitcode is not None and exitcode < 0
    reason = (
        f"the process was ended by signal {-exitcode}"
        if killed and exitcode
        else f"exit status {exitcode}"
    )
    return _record(run, tuned, status="oom" if exitcode == -9 else "failed", reason=reason)
