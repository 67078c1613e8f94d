"""gassip import: nodes and edges from CSV, Parquet or .npz into a graph folder, out of core."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

from gassip.commands.common import command, whole
from gassip.errors import GassipError

ABOUT = (
    "read nodes and edges, of any number, into a folder of mapped arrays",
    "gassip import --nodes nodes.parquet --edges 'edges-*.parquet' --out big.graph",
)


def add(commands: Any) -> None:
    parser = command(commands, run, "import", *ABOUT)
    text = "CSV or Parquet files, folders or globs: id, label, optional split, features"
    parser.add_argument("--nodes", metavar="FILE", nargs="+", help=text)
    text = "CSV or Parquet files, folders or globs: source, target, optional weight"
    parser.add_argument("--edges", metavar="FILE", nargs="+", help=text)
    text = "instead of --nodes and --edges: a graph that fits into memory, .npz or a folder"
    parser.add_argument("--data", metavar="PATH", help=text)
    parser.add_argument("--out", metavar="DIR", required=True, help="graph folder")
    parser.add_argument("--undirected", action="store_true", help="add the reverse of every edge")
    text = "memory of the import, such as 4GB (default: half of the machine's)"
    parser.add_argument("--memory", metavar="AMOUNT", help=text)
    text = "threads of the joins (default 1)"
    parser.add_argument("--threads", type=whole(1, 1024), default=1, metavar="N", help=text)
    text = "seed of the split, if the table has none (default 0)"
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N", help=text)
    parser.add_argument("--overwrite", action="store_true", help="replace the folder in DIR")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    if bool(args.data) == bool(args.nodes or args.edges):
        raise GassipError("give --nodes and --edges, or --data, and not both")
    if not args.data and not (args.nodes and args.edges):
        raise GassipError("--nodes and --edges belong together; one is missing")
    from gassip.graph.store import GraphFolder

    began, out = time.perf_counter(), Path(args.out)
    read(args, out)
    folder = GraphFolder.open(out)
    seconds = time.perf_counter() - began
    print(
        f"written to {out}: {folder.nodes:,} nodes, {folder.edges:,} edges, "
        f"{folder.meta['features']} features, {len(folder.class_names)} classes, {seconds:.1f} s"
    )
    for note in folder.meta["notes"]:
        print(f"note: {note}")
    print(f"next: gassip search --data {out}")
    return 0


def read(args: argparse.Namespace, out: Path) -> None:
    from gassip.large.importing import import_tables
    from gassip.large.sources import Source, bytes_of, found_files

    if args.data:
        from gassip.large.writing import import_file  # needs torch

        import_file(Path(args.data), out, overwrite=args.overwrite, seed=args.seed)
        return
    source = Source(
        nodes=found_files(args.nodes),
        edges=found_files(args.edges),
        undirected=args.undirected,
        seed=args.seed,
        memory=bytes_of(args.memory) if args.memory else half_of_memory(),
        threads=args.threads,
    )
    import_tables(source, out, overwrite=args.overwrite, say=teller(args.quiet))


def half_of_memory() -> int:
    """Bytes; 2 GiB where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return 2**31


def teller(quiet: bool) -> Any:
    """What is being done, with the seconds since the start, on stderr."""
    began = time.perf_counter()

    def say(text: str) -> None:
        if not quiet:
            print(f"{time.perf_counter() - began:7.1f} s  {text}", file=sys.stderr, flush=True)

    return say
