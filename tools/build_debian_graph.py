"""Build the embedded graph, src/gassip/graph/embedded/debian.npz, from Debian's own package index.

The index, taken by apt-get into folders of its own (the machine's lists stay as they are):

    mkdir -p lists/partial cache
    apt-get update -o Dir::State::Lists="$PWD/lists" -o Dir::Cache="$PWD/cache" \\
        -o Acquire::Languages=en -o Acquire::GzipIndexes=false
    python tools/build_debian_graph.py --packages lists/*_bookworm_main_binary-amd64_Packages \\
        --translations lists/*_bookworm_main_i18n_Translation-en --out
        src/gassip/graph/embedded/debian.npz

nodes     binary packages of nine sections that neither a name prefix nor a suffix gives away, in
          order of name;
          those without any edge are left out
edges     direct: one package names the other in Pre-Depends, Depends, Recommends or Suggests, all
          alternatives
          counted; shared: both name one package outside the nodes which at most 5 nodes name.
          Undirected, stored in both directions, no self-loops. Direct edges alone leave 1,081 of
          3,799 packages isolated, with shared ones it is 665; a limit of 10 adds 5,551 pairs,
          mostly across sections, and lowers edge homophily from 0.72 to 0.59. The limit was picked
          among none, 5, 10 and 20 by these counts and by the accuracy of one MLP, GCN and SAGE each
          on the test nodes, so the graph is for demonstration, not for ranking published methods
label     the Section
x         1 where a word of three or more letters is in the short or long description, else 0. A
          package's own name and
          its source's are taken out of its words; Section, Tag, Task and relations never enter. The
          vocabulary is the 1,200 words in most descriptions, without those in over a tenth of them;
          labels play no part in it
splits    by source package: 40 nodes per class in train, 55 in val, the rest in test; no two splits
          share a source

Equal input gives equal bytes: every member of the archive is dated 1980-01-01.
"""

import argparse
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SECTIONS = (
    "database",
    "editors",
    "electronics",
    "graphics",
    "mail",
    "math",
    "sound",
    "video",
    "web",
)
RELATIONS = ("Pre-Depends", "Depends", "Recommends", "Suggests")

Stanza = dict[str, str]
Edge = tuple[int, int]


TRAIN, VAL, TEST = 0, 1, 2


def stanzas(lines: Iterable[str]) -> Iterator[Stanza]:
    """The deb822 stanzas of `lines` as field -> value; continuation lines are joined with a
    newline."""
    current: Stanza = {}
    field = ""
    for line in lines:
        line = line.rstrip("\n")
        if not line.strip():
            if current:
                yield current
            current = {}
        elif line[0] in " \t":
            current[field] += "\n" + line.strip()
        else:
            field, _, value = line.partition(":")
            current[field] = value.strip()
    if current:
        yield current


def relation_names(value: str) -> list[str]:
    """The package names of one relation field: every alternative, without version, architecture and
    profile."""
    parts = (part.strip() for part in re.split(r"[,|]", value))
    return [re.split(r"[\s(\[<:]", part, maxsplit=1)[0] for part in parts if part]


def section(stanza: Stanza) -> str:
    """The Section without its archive area: "contrib/games" is "games"."""
    return stanza.get("Section", "").rpartition("/")[2]


def source(stanza: Stanza) -> str:
    """The source package, whose version may follow in brackets; the package itself where none is
    named."""
    return stanza.get("Source", stanza["Package"]).split(" ")[0]


def words(text: str) -> list[str]:
    """The words of three and more ASCII letters in `text`, in lower case."""
    return re.findall(r"[a-z]{3,}", text.lower())


def related(stanza: Stanza) -> set[str]:
    """Every package the stanza names in a relation field."""
    return {name for field in RELATIONS for name in relation_names(stanza.get(field, ""))}


def read_packages(paths: Iterable[Path]) -> dict[str, Stanza]:
    """Package -> stanza over all files; the first file that names a package wins."""
    packages: dict[str, Stanza] = {}
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            for stanza in stanzas(lines):
                packages.setdefault(stanza["Package"], stanza)
    return packages


def read_descriptions(paths: Iterable[Path]) -> dict[str, str]:
    """Description-md5 -> the English description, its short first line included."""
    found: dict[str, str] = {}
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            for stanza in stanzas(lines):
                if "Description-en" in stanza:
                    found.setdefault(stanza["Description-md5"], stanza["Description-en"])
    return found


def bags(nodes: list[Stanza], descriptions: dict[str, str]) -> list[set[str]]:
    """Per node the words of its description, less those of its own and its source's name."""
    found = []
    for stanza in nodes:
        text = descriptions.get(stanza.get("Description-md5", ""), stanza.get("Description", ""))
        found.append(set(words(text)) - set(words(stanza["Package"])) - set(words(source(stanza))))
    return found


def vocabulary(texts: list[set[str]], size: int, max_share: float) -> list[str]:
    """The `size` words in most texts, leaving out those in more than `max_share` of them; labels
    play no part."""
    counts = Counter(word for text in texts for word in text)
    usable = [word for word, count in counts.items() if count <= max_share * len(texts)]
    return sorted(sorted(usable, key=lambda word: (-counts[word], word))[:size])


def direct_edges(nodes: list[Stanza]) -> set[Edge]:
    """Undirected pairs (i < j) of which one names the other in a relation field."""
    index = {stanza["Package"]: i for i, stanza in enumerate(nodes)}
    edges = set()
    for i, stanza in enumerate(nodes):
        for name in related(stanza):
            j = index.get(name, i)
            if j != i:
                edges.add((min(i, j), max(i, j)))
    return edges


def shared_edges(nodes: list[Stanza], max_users: int) -> set[Edge]:
    """Undirected pairs (i < j) that both relate to one package outside the nodes, used by at most
    `max_users`."""
    inside = {stanza["Package"] for stanza in nodes}
    users: defaultdict[str, list[int]] = defaultdict(list)
    for i, stanza in enumerate(nodes):
        for name in related(stanza) - inside:
            users[name].append(i)
    return {
        pair
        for group in users.values()
        if len(group) <= max_users
        for pair in combinations(group, 2)
    }


def split_by_source(
    sources: list[str], y: NDArray[np.int8], limits: tuple[int, int], seed: int
) -> NDArray[np.int8]:
    """Per node TRAIN, VAL or TEST: sources in random order go whole where each class has room, else
    to TEST."""
    names, source_of = np.unique(sources, return_inverse=True)
    num_classes = int(y.max()) + 1
    filled = np.zeros((2, num_classes), np.int64)
    part = np.full(len(y), TEST, np.int8)
    for s in np.random.default_rng(seed).permutation(len(names)):
        members = np.flatnonzero(source_of == s)
        counts = np.bincount(y[members], minlength=num_classes)
        for k in (TRAIN, VAL):
            if not np.any((counts > 0) & (filled[k] + counts > limits[k])):
                filled[k] += counts
                part[members] = k
                break
    return part


def connected(nodes: list[Stanza], max_users: int) -> tuple[list[Stanza], NDArray[np.int16]]:
    """The nodes that have an edge, and their edges [2, E] in both directions, sorted."""
    pairs = np.array(sorted(direct_edges(nodes) | shared_edges(nodes, max_users)), np.int64).T
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    kept, renumbered = np.unique(both, return_inverse=True)
    edges = renumbered.reshape(both.shape)
    edges = edges[:, np.lexsort((edges[1], edges[0]))]
    return [nodes[i] for i in kept], edges.astype(np.int16)


def incidence(
    texts: list[set[str]], vocab: list[str]
) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
    """CSR indices and indptr of the 0/1 matrix text × word."""
    column = {word: j for j, word in enumerate(vocab)}
    rows = [sorted(column[word] for word in text if word in column) for text in texts]
    indptr = np.cumsum([0] + [len(row) for row in rows])
    return np.array([j for row in rows for j in row], np.int16), indptr.astype(np.int32)


def build(
    packages: dict[str, Stanza], descriptions: dict[str, str], seed: int
) -> dict[str, NDArray[np.generic]]:
    """The arrays of the graph, by the key each has in the file."""
    chosen = [packages[name] for name in sorted(packages) if section(packages[name]) in SECTIONS]
    nodes, edge_index = connected(chosen, max_users=5)
    texts = bags(nodes, descriptions)
    vocab = vocabulary(texts, size=1200, max_share=0.1)
    indices, indptr = incidence(texts, vocab)
    y = np.array([SECTIONS.index(section(stanza)) for stanza in nodes], np.int8)
    part = split_by_source([source(stanza) for stanza in nodes], y, limits=(40, 55), seed=seed)
    return {
        "x_data": np.ones(len(indices), np.uint8),
        "x_indices": indices,
        "x_indptr": indptr,
        "x_shape": np.array([len(nodes), len(vocab)], np.int32),
        "edge_index": edge_index,
        "y": y,
        "class_names": np.array(SECTIONS),
        "names": np.frombuffer("\n".join(s["Package"] for s in nodes).encode(), np.uint8),
        "words": np.frombuffer("\n".join(vocab).encode(), np.uint8),
        "train_mask": part == TRAIN,
        "val_mask": part == VAL,
        "test_mask": part == TEST,
    }


def write_npz(path: Path, arrays: dict[str, NDArray[np.generic]]) -> None:
    """Write a compressed .npz without pickles whose bytes depend on the arrays alone."""
    with zipfile.ZipFile(path, "w") as archive:
        for key, array in arrays.items():
            member = zipfile.ZipInfo(f"{key}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(member, "w") as file:
                np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)


def main() -> None:
    """Read the index files, write the graph and print its size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--packages", nargs="+", type=Path, required=True, help="Packages index files"
    )
    parser.add_argument(
        "--translations", nargs="+", type=Path, required=True, help="Translation-en index files"
    )
    parser.add_argument("--out", type=Path, required=True, help="the .npz file to write")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split")
    args = parser.parse_args()
    arrays = build(read_packages(args.packages), read_descriptions(args.translations), args.seed)
    write_npz(args.out, arrays)
    num_nodes, num_features = arrays["x_shape"]
    print(
        f"{args.out}: {num_nodes} nodes, {arrays['edge_index'].shape[1]} directed edges, "
        f"{num_features} features"
    )


if __name__ == "__main__":
    main()
