"""The graph that a command works on: its flags, and how it is loaded, also again from a run."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gassip.commands.common import whole
from gassip.errors import GassipError

if TYPE_CHECKING:
    from gassip.graph.graph import Graph
    from gassip.runs.write import Run


EMBEDDED = "debian"  # the graph that comes with the package
SPLIT = "split of the dataset: usual, or tuned, which is --dataset NAME-tuned"


def source_flags(parser: Any) -> None:
    """Which graph, and how it is read."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--dataset",
        metavar="NAME",
        help=f"one of `gassip datasets` (default: the embedded graph {EMBEDDED})",
    )
    which.add_argument(
        "--data",
        metavar="PATH",
        help="own graph: .npz, PyG's .pt, or a folder with nodes.csv and edges.csv",
    )
    parser.add_argument("--undirected", action="store_true", help="add the reverse of every edge")
    parser.add_argument(
        "--normalize", action=argparse.BooleanOptionalAction, help="divide rows of x by their sum"
    )


def graph_flags(parser: Any, split: str = SPLIT) -> None:
    """What `load_graph` reads, besides the device."""
    source_flags(parser)
    parser.add_argument(
        "--split",
        choices=("usual", "tuned"),
        default="usual",
        metavar="NAME",
        help=split,
    )
    parser.add_argument(
        "--seed",
        type=whole(0),
        default=0,
        metavar="N",
        help="seed of the split, if one is drawn, of search and training (default 0)",
    )


def load_graph(args: argparse.Namespace) -> "tuple[Graph, dict[str, object]]":
    """The graph on its device, and where it came from."""
    from gassip.graph.graph import on_device
    from gassip.graph.known_datasets import DATASETS

    source: dict[str, object] = {"seed": args.seed, "undirected": args.undirected}
    if args.data and args.split != "usual":
        raise GassipError(f"--split {args.split} is of a named dataset; --data has its own masks")
    if args.data:
        source |= {
            "kind": "file",
            "path": str(Path(args.data).resolve()),
            "normalize": bool(args.normalize),
            "prepared": True,
        }
    else:
        name = dataset_name(args)
        usual = name in DATASETS and DATASETS[name].normalize
        normalize = usual if args.normalize is None else args.normalize
        source |= {"kind": "dataset", "name": name, "normalize": normalize}
    return on_device(load_source(source), args.device), source


def load_source(source: Mapping[str, Any]) -> "Graph":
    """The graph again, from what `load_graph` said of it."""
    from gassip.graph import datasets as data

    options: dict[str, Any] = {
        name: source.get(name) for name in ("seed", "undirected", "normalize")
    }
    if source.get("kind") == "dataset":
        return as_read(data.load(source["name"], **options), source)
    if source.get("kind") == "file":
        # runs of version 0.2 took the numbers of a table as they were
        graph = data.read(source["path"], prepared=bool(source.get("prepared")), **options)
        return as_read(graph, source)
    raise GassipError(
        "the run was made from a graph in memory, which cannot be loaded again: "
        "predict takes --data PATH, the rest needs a search of a file"
    )


def as_read(graph: "Graph", source: Mapping[str, Any]) -> "Graph":
    """The training graph: with its validation nodes for training too, if the run was a refit."""
    from gassip.train.refit import with_validation_labels

    graph = with_columns(as_weighted(graph, source), source)
    return with_validation_labels(graph) if source.get("refit") else graph


def as_weighted(graph: "Graph", source: Mapping[str, Any]) -> "Graph":
    """The graph without the weights of its edges, if the run has left them out."""
    from gassip.train.plan import unweighted

    return unweighted(graph) if source.get("weighted") is False else graph


def with_columns(graph: "Graph", source: Mapping[str, Any]) -> "Graph":
    """The graph with columns of degree beside its features, if the run reads them."""
    from gassip.graph.structure import BESIDE

    return graph.with_degrees if source.get("structure") == BESIDE else graph


def training_graph(run: "Run", device: str) -> "Graph":
    """The run's graph, loaded again from where it came."""
    from gassip.graph.graph import on_device

    graph = load_source(run.meta["source"])
    if graph.fingerprint != run.meta["source"].get("fingerprint"):
        where = run.meta["source"].get("path") or run.meta["source"].get("name")
        raise GassipError(
            f"{where} is no longer the graph that {run.folder} was made from (its fingerprint "
            f"differs)"
        )
    return on_device(graph, device)


def dataset_name(args: argparse.Namespace) -> str:
    """The dataset with the split that was asked for."""
    name = str(args.dataset or EMBEDDED)
    return name if args.split == "usual" else f"{name}-{args.split}"


def graph_name(args: argparse.Namespace) -> str:
    """What the graph is called in names of folders."""
    return Path(args.data).resolve().stem if args.data else dataset_name(args)


def say_which_graph(args: argparse.Namespace) -> None:
    """One line on stderr if no graph is named: a search of the embedded one takes a minute."""
    if not (args.data or args.dataset or args.quiet):
        print(
            f"gassip: neither --dataset nor --data is given: the embedded graph {EMBEDDED} is used",
            file=sys.stderr,
        )
