"""The named datasets: what each is, where its raw files lie, how they are had and read (raw.py).

A dataset is one entry of DATASETS. torch and PyG are imported by the readers that use them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gassip.graph import raw
from gassip.graph.files import Parts


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """One named dataset: what it is, where its raw files lie, and how they are had and read."""

    description: str
    nodes: int
    edges: int  # directed, as loaded: an undirected edge counts twice, self-loops do not
    features: int
    classes: int
    split: str
    folder: str  # under $GASSIP_DATA; "" for the one inside the package
    files: tuple[str, ...]
    read: Callable[[Path, int], Parts]  # (folder, seed)
    fetch: Callable[[Path, tuple[str, ...]], None] | None = None  # puts `files` into a folder
    normalize: bool = False


PUBLIC_SPLIT = "fixed: 20 per class, 500, 1000"
TEN_SPLITS = "fixed: ten of 48/32/20, number seed % 10"
DRAWN_SPLIT = "drawn by seed: stratified 50/25/25"
TUNED_SPLIT = "fixed: 60/20/20, published with tuned nets"
CITATIONS = "citations between papers; bags of words; topic"


SHCHUR = {
    "physics": Dataset(
        description="co-authorship in physics; keywords of papers; field",
        nodes=34493,
        edges=495924,
        features=8415,
        classes=5,
        split=DRAWN_SPLIT,
        folder="Coauthor/Physics/raw",
        files=("ms_academic_phy.npz",),
        read=partial(raw.shchur, "ms_academic_phy.npz"),
        fetch=raw.fetch_coauthor,
    ),
    "coauthor-cs": Dataset(
        description="co-authorship in computer science; keywords of papers; field",
        nodes=18333,
        edges=163788,
        features=6805,
        classes=15,
        split=DRAWN_SPLIT,
        folder="Coauthor/CS/raw",
        files=("ms_academic_cs.npz",),
        read=partial(raw.shchur, "ms_academic_cs.npz"),
        fetch=raw.fetch_coauthor,
    ),
    "photo": Dataset(
        description="goods bought together on Amazon; words of reviews; category",
        nodes=7650,
        edges=238162,
        features=745,
        classes=8,
        split=DRAWN_SPLIT,
        folder="Amazon/Photo/raw",
        files=("amazon_electronics_photo.npz",),
        read=partial(raw.shchur, "amazon_electronics_photo.npz"),
        fetch=raw.fetch_amazon,
    ),
}


def on_tuned_split(entry: Dataset) -> Dataset:
    """The same graph on the fixed split of "Classic GNNs are strong baselines" (Luo et al., NeurIPS
    2024)."""
    kind, name, _ = entry.folder.split("/")
    split = f"tuned-splits/{kind}-{name}_split.npz".lower()
    file = f"{entry.folder}/{entry.files[0]}"
    return replace(
        entry,
        split=TUNED_SPLIT,
        folder=".",
        files=(file, split),
        read=partial(raw.shchur_on_split, file, split),
        fetch=None,
    )


DATASETS: dict[str, Dataset] = {
    "cora": Dataset(
        description=CITATIONS,
        nodes=2708,
        edges=10556,
        features=1433,
        classes=7,
        split=PUBLIC_SPLIT,
        folder="Planetoid/Cora/raw",
        files=raw.planetoid_files("cora"),
        read=partial(raw.planetoid, "cora"),
        fetch=raw.fetch_planetoid,
        normalize=True,
    ),
    "citeseer": Dataset(
        description=CITATIONS,
        nodes=3327,
        edges=9104,
        features=3703,
        classes=6,
        split=PUBLIC_SPLIT,
        folder="Planetoid/CiteSeer/raw",
        files=raw.planetoid_files("citeseer"),
        read=partial(raw.planetoid, "citeseer"),
        fetch=raw.fetch_planetoid,
        normalize=True,
    ),
    "pubmed": Dataset(
        description="citations between papers on diabetes; TF-IDF; type of diabetes",
        nodes=19717,
        edges=88648,
        features=500,
        classes=3,
        split=PUBLIC_SPLIT,
        folder="Planetoid/PubMed/raw",
        files=raw.planetoid_files("pubmed"),
        read=partial(raw.planetoid, "pubmed"),
        fetch=raw.fetch_planetoid,
        normalize=True,
    ),
    **SHCHUR,
    **{f"{name}-tuned": on_tuned_split(entry) for name, entry in SHCHUR.items()},
    "actor": Dataset(
        description="actors on the same Wikipedia page, directed; keywords; kind of actor",
        nodes=7600,
        edges=29926,
        features=932,
        classes=5,
        split=TEN_SPLITS,
        folder="Actor/raw",
        files=raw.ACTOR_FILES,
        read=raw.actor,
        fetch=raw.fetch_actor,
    ),
    "chameleon": Dataset(
        description="links between Wikipedia pages on chameleons; words; traffic in five steps",
        nodes=890,
        edges=17708,
        features=2325,
        classes=5,
        split=TEN_SPLITS,
        folder="Heterophilous",
        files=("chameleon_filtered.npz",),
        read=partial(raw.heterophilous, "chameleon_filtered.npz"),
    ),
    "squirrel": Dataset(
        description="links between Wikipedia pages on squirrels; words; traffic in five steps",
        nodes=2223,
        edges=93996,
        features=2089,
        classes=5,
        split=TEN_SPLITS,
        folder="Heterophilous",
        files=("squirrel_filtered.npz",),
        read=partial(raw.heterophilous, "squirrel_filtered.npz"),
    ),
    "ogbn-arxiv": Dataset(
        description="citations between arXiv papers, directed; word embeddings; subject area",
        nodes=169343,
        edges=1166243,
        features=128,
        classes=40,
        split="fixed: by year, to 2017, 2018, from 2019",
        folder="ogbn_arxiv",
        files=raw.OGB_FILES,
        read=raw.ogb,
        fetch=raw.fetch_ogb,
    ),
    "arxiv-standin": Dataset(
        description=(
            "not ogbn-arxiv: its edges, labels and split, but features made from the graph alone"
        ),
        nodes=169343,
        edges=1166243,
        features=128,
        classes=40,
        split="fixed: by year, to 2017, 2018, from 2019",
        folder="ogbn-arxiv-nofeat",
        files=("edges.npz", "structural-features.npz", "mapping/labelidx2arxivcategeory.csv.gz"),
        read=raw.arxiv_standin,
    ),
    "debian-packages": Dataset(
        description="dependencies between Debian packages; text embeddings; section",
        nodes=63436,
        edges=589362,
        features=128,
        classes=40,
        split="fixed: 50/25/25 by source package",
        folder="debian-packages",
        files=("debian-packages.npz",),
        read=raw.debian_packages,
    ),
    "debian": Dataset(
        description=(
            "dependencies between Debian packages, a small part inside this package; words; section"
        ),
        nodes=3134,
        edges=14300,
        features=1200,
        classes=9,
        split="fixed: 40 per class, 495, 2279",
        folder="",
        files=("debian.npz",),
        read=raw.debian,
        normalize=True,
    ),
}
