"""gassip report: one page about a run, to look at, print or send."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gassip.commands.common import command
from gassip.errors import GassipError

if TYPE_CHECKING:
    import numpy as np


def add(commands: Any) -> None:
    text = "write report.html of a run anew: one page, without a network"
    parser = command(commands, run, "report", text, "gassip report runs/cora")
    parser.add_argument("folder", metavar="RUN", help="folder that `search` or `run` wrote")
    parser.add_argument("--out", metavar="FILE", help="page to write (default RUN/report.html)")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")


def run(args: argparse.Namespace) -> int:
    from gassip.report.report import write_report
    from gassip.runs.format import check_file

    out = Path(args.out) if args.out else None
    if out is not None:
        check_file(out, args.overwrite)
    edges, why = stored_edges(args.folder)
    path = write_report(args.folder, edges, out)
    if why:
        print(f"without the removed edges: {why}")
    print(f"written to {path}")
    return 0


def stored_edges(folder: str) -> "tuple[np.ndarray | None, str]":
    """The edges of the run's graph, if it can be loaded as it was; else why not."""
    from gassip.commands.graphs import load_source
    from gassip.deploy.stored import is_row_run
    from gassip.runs.format import read_meta

    meta = read_meta(Path(folder))
    if is_row_run(meta):
        return None, ""
    source = meta["source"]
    try:
        graph = load_source(source)
    except (GassipError, OSError) as error:
        return None, str(error)
    if graph.fingerprint != source.get("fingerprint"):
        return None, "the graph is no longer the one of the run"
    return graph.edge_index.numpy(), ""
