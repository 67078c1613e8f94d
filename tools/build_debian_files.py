"""debian-files: the files of Debian's packages as a graph of nine million nodes.

    python tools/build_debian_files.py Contents-amd64.gz Contents-all.gz --out debian-files
    python tools/build_debian_files.py /var/lib/apt/lists/*Contents*.lz4 --out debian-files

Debian's Contents indices name each file with the section and name of its package (`apt-file update`
fetches them). Nodes are files and directories, features are hashed letters of the name, a label is
the section of a file's package, edges are the tree of directories and equal base names. Edges from
files to packages would give the label away and are left out. The split is by package, so that no
file of a test package has a neighbour from its own package in training by accident of the draw.

Writes nodes-*.parquet and edges-*.parquet for `gassip import`.
"""

import argparse
import gzip
import hashlib
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.feature_extraction.text import HashingVectorizer

FEATURES = 64
CHUNK = 100_000  # names that are hashed at once
SPLITS = ("train", "train", "val", "test")  # by the hash of the package: 50/25/25


@dataclass(eq=False)
class Tree:
    """Nodes as they are met: names, parents, labels and splits."""

    names: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)  # -1: the root
    labels: list[str] = field(default_factory=list)  # "": a directory
    splits: list[str] = field(default_factory=list)
    folders: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, parent: int, label: str, split: str) -> int:
        self.names.append(name)
        self.parents.append(parent)
        self.labels.append(label)
        self.splits.append(split)
        return len(self.names) - 1

    def folder(self, path: str) -> int:
        """The number of a directory, its parents before it."""
        if not path:
            return -1
        if path not in self.folders:
            above, _, name = path.rpartition("/")
            self.folders[path] = self.add(name, self.folder(above), "", "")
        return self.folders[path]


def lines_of(paths: Iterable[Path]) -> Iterator[str]:
    """Of indices as they are on a mirror (.gz), or as apt keeps them (.lz4), which unpacks them."""
    for path in paths:
        if path.suffix == ".lz4":
            yield from unpacked_by_apt(path)
            continue
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8", errors="replace") as file:
            yield from file


def unpacked_by_apt(path: Path) -> Iterator[str]:
    words = ["/usr/lib/apt/apt-helper", "cat-file", str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stdout is not None
        yield from process.stdout
    if process.returncode:
        raise SystemExit(f"{path}: apt-helper ended with status {process.returncode}")


def read(lines: Iterable[str]) -> Tree:
    """One node per file, of its first package; files without a section are left out."""
    tree = Tree()
    for line in lines:
        path, _, owners = line.rstrip("\n").rpartition(" ")
        path, owner = path.rstrip().strip("/"), owners.partition(",")[0].split("/")
        if len(owner) < 2 or not path:
            continue
        above, _, name = path.rpartition("/")
        tree.add(name, tree.folder(above), owner[-2], split_of(owner[-1]))
    return tree


def split_of(package: str) -> str:
    return SPLITS[hashlib.sha256(package.encode()).digest()[0] % len(SPLITS)]


def pairs(tree: Tree) -> np.ndarray:
    """Edges [E, 2]: child and parent, and files of equal base names one after the other."""
    parents = np.array(tree.parents, dtype=np.int64)
    children = np.flatnonzero(parents >= 0)
    files = np.array([k for k, label in enumerate(tree.labels) if label], dtype=np.int64)
    hashes = np.array([hash_of(tree.names[k]) for k in files], dtype=np.uint64)
    order = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    chain = np.stack([files[order[same]], files[order[same + 1]]], axis=1)
    return np.concatenate([np.stack([children, parents[children]], axis=1), chain])


def hash_of(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def write(tree: Tree, folder: Path) -> None:
    """nodes-*.parquet, edges-0.parquet."""
    folder.mkdir(parents=True, exist_ok=True)
    hashed = HashingVectorizer(
        analyzer="char_wb", ngram_range=(2, 3), n_features=FEATURES, alternate_sign=False
    )
    for part, start in enumerate(range(0, len(tree.names), CHUNK)):
        rows = slice(start, start + CHUNK)
        x = hashed.transform(tree.names[rows]).toarray().astype(np.float32)
        columns: dict[str, object] = {
            "id": np.arange(start, start + len(x)).astype(str),
            "label": tree.labels[rows],
            "split": tree.splits[rows],
        }
        columns |= {f"n{k}": x[:, k] for k in range(FEATURES)}
        pq.write_table(pa.table(columns), folder / f"nodes-{part:04d}.parquet")
    ends = pairs(tree).astype(str)
    table = pa.table({"source": ends[:, 0], "target": ends[:, 1]})
    pq.write_table(table, folder / "edges-0000.parquet")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("contents", nargs="+", type=Path, help="Debian's Contents indices")
    parser.add_argument("--out", type=Path, required=True, help="folder for the tables")
    args = parser.parse_args()
    tree = read(lines_of(args.contents))
    write(tree, args.out)
    print(f"{len(tree.names):,} nodes, {len(tree.folders):,} of them directories", file=sys.stderr)
    print(f"next: gassip import --nodes '{args.out}/nodes-*.parquet' ", end="", file=sys.stderr)
    print(f"--edges '{args.out}/edges-*.parquet' --undirected --out big.graph", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
