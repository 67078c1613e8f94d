"""Files that an import reads: found by names, folders or globs, all of one kind."""

import glob
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gassip.errors import GassipError


@dataclass(frozen=True, kw_only=True)
class Source:
    """What is imported, and how."""

    nodes: tuple[Path, ...]
    edges: tuple[Path, ...]
    undirected: bool = False
    seed: int = 0
    memory: int = 2**32  # bytes, all of the import's
    threads: int = 1  # of the joins
    order: bool = True  # renumber the nodes for locality

    @property
    def own_memory(self) -> int:
        """Bytes beside those of the database, in which nodes are ordered and rows moved."""
        return self.memory // 2

    @property
    def state(self) -> dict[str, object]:
        """Equal for an import that may go on with what is there."""
        stamps = [
            (str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns)
            for path in (*self.nodes, *self.edges)
        ]
        return {"files": stamps, "undirected": self.undirected, "seed": self.seed}


BYTES = {"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}
BYTES |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
LEAST_MEMORY = 200 * 2**20


def bytes_of(text: str) -> int:
    """An amount such as 4GB."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([a-z]*)", text.strip().lower())
    if found is None or found[2] not in BYTES:
        raise GassipError(f"--memory is {text!r}; give an amount such as 4GB")
    amount = int(float(found[1]) * BYTES[found[2]])
    if amount < LEAST_MEMORY:
        raise GassipError(f"--memory is {text!r}; an import needs 200MiB")
    return amount


def found_files(patterns: Sequence[str]) -> tuple[Path, ...]:
    """Files, folders of files and globs, in order; each must be there."""
    found: list[Path] = []
    for pattern in patterns:
        path = Path(pattern)
        matches = sorted(path.iterdir()) if path.is_dir() else sorted(map(Path, glob.glob(pattern)))
        matches = [file for file in matches if file.name[0] not in "._"]
        if not matches:
            raise GassipError(f"{pattern}: no such file; give files, folders or globs")
        found += matches
    kinds = {file_kind(path) for path in found}
    if len(kinds) > 1:
        raise GassipError(f"{' '.join(patterns)}: CSV and Parquet are mixed; give one kind")
    return tuple(found)


def file_kind(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz").removesuffix(".zst")
    kind = name.rpartition(".")[2]
    if kind not in ("csv", "parquet"):
        raise GassipError(f"{path} is neither CSV nor Parquet")
    return kind
