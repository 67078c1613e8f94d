"""The record book: what was run and what came of it, one JSON line each, in
results/<dataset>.jsonl.

A line holds `schema`, `key` (a hash of `run`), `run` (what was run: the fields of Run) and what
came out (the other fields of Record). Lines are only ever appended, under a lock and in one write,
so that several processes can share a book; a line that cannot be read is moved to results/damaged/
and named. Nothing here needs torch.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from filelock import FileLock

if TYPE_CHECKING:
    from gassip.metrics import Metric

SCHEMA = 1
LATER_FIELDS = {"method_version"}  # of Record, which lines written before them lack
LATER_SETTINGS = {"certain_share": 1.0}  # each with the value of the runs before it; not in a key
Status = Literal["ok", "oom", "failed"]


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
    metric: "Metric" = "accuracy"

    @property
    def key(self) -> str:
        """A setting that came later leaves the keys of the runs before it as they were."""
        told = {
            name: value
            for name, value in self.settings.items()
            if name not in LATER_SETTINGS or value != LATER_SETTINGS[name]
        }
        content = asdict(self) | {"settings": told}
        return hashlib.sha256(canonical(content).encode()).hexdigest()[:24]


@dataclass(frozen=True, kw_only=True)
class Record:
    """A run and what came out; where it failed, `reason` says why and the figures are empty."""

    run: Run
    status: Status
    reason: str | None = None
    method_version: int = 1  # as the method's class says; a line without it is of version 1
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
        content = json.loads(line)
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise ValueError("not a record")
        names = {f.name for f in fields(Record)} - {"run"}
        names -= LATER_FIELDS - content.keys()
        try:
            run = Run(**content["run"])
            record = Record(run=run, **{name: content[name] for name in names})
        except (TypeError, KeyError) as error:
            raise ValueError(f"not a record: {error}") from None
        if run.key != content.get("key"):
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

    def datasets(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.jsonl"))

    def append(self, record: Record) -> None:
        """One line, in one write, on the disk when this returns."""
        with self._lock(), self.path(record.run.dataset).open("ab+", buffering=0) as file:
            line = record.to_line().encode()
            if _is_torn(file):
                line = b"\n" + line
            file.write(line)
            os.fsync(file.fileno())

    def read(self, dataset: str) -> tuple[list[Record], list[str]]:
        """The records of a dataset, and a line about each that could not be read and was set
        aside."""
        path = self.path(dataset)
        if not path.exists():
            return [], []
        with self._lock():
            records, good, bad = _parse(path.read_bytes())
            if bad:
                self._set_aside(path, good, [line for _, line, _ in bad])
        aside = self.folder / "damaged" / path.name
        return records, [
            f"{path} line {number} is damaged ({why}); moved to {aside}" for number, _, why in bad
        ]

    def _lock(self) -> FileLock:
        """Entered by one process at a time among all that use this folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.folder / ".lock")

    def _set_aside(self, path: Path, good: list[bytes], bad: list[bytes]) -> None:
        from gassip.runs.write import replace_file  # which needs torch

        folder = self.folder / "damaged"
        folder.mkdir(exist_ok=True)
        with (folder / path.name).open("ab") as file:
            file.write(b"".join(line + b"\n" for line in bad))
            file.flush()
            os.fsync(file.fileno())
        replace_file(path, b"".join(line + b"\n" for line in good))


def _is_torn(file: FileIO) -> bool:
    """Whether the last line has no end, after a crash in the middle of it."""
    size = file.seek(0, os.SEEK_END)
    if size == 0:
        return False
    file.seek(size - 1)
    return file.read(1) != b"\n"


def _parse(content: bytes) -> tuple[list[Record], list[bytes], list[tuple[int, bytes, str]]]:
    """The records, their lines, and of each damaged line its number, its bytes and the reason."""
    records, good, bad = [], [], []
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            records.append(Record.from_line(line.decode()))
            good.append(line)
        except ValueError as error:
            bad.append((number, line, str(error)))
    return records, good, bad


def latest(records: Sequence[Record]) -> dict[str, Record]:
    """The last record of each key; one that went well stands before one that did not, and a newer
    version of the method before an older one."""
    kept: dict[str, Record] = {}
    for record in records:
        before = kept.get(record.run.key)
        if before is None or _rank(record) >= _rank(before):
            kept[record.run.key] = record
    return kept


def _rank(record: Record) -> tuple[int, bool]:
    return record.method_version, record.status == "ok"


def of_version(records: Sequence[Record], method: str, version: int) -> list[Record]:
    """The records without those of another version of this method."""
    return [
        record
        for record in records
        if record.run.method != method or record.method_version == version
    ]


def to_do(runs: Sequence[Run], records: Sequence[Record], *, retry: bool) -> list[Run]:
    """The runs that are not in the book; with `retry` also those that did not go well."""
    there = latest(records)
    return [
        run for run in runs if run.key not in there or (retry and there[run.key].status != "ok")
    ]
