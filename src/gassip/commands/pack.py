"""gassip pack: what prediction needs of a run, in one file."""

import argparse
from pathlib import Path
from typing import Any

from gassip.commands.common import command


def add(commands: Any) -> None:
    text = "write what prediction needs of a run to one file: net, kept edges, features"
    parser = command(commands, run, "pack", text, "gassip pack runs/cora --out cora.gassip")
    parser.add_argument("folder", metavar="RUN", help="folder that `gassip search` wrote")
    parser.add_argument("--out", metavar="FILE", required=True, help="file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")


def run(args: argparse.Namespace) -> int:
    from gassip.deploy.export import to_pack

    to_pack(args.folder, args.out, overwrite=args.overwrite)
    before = sum(file.stat().st_size for file in Path(args.folder).iterdir() if file.is_file())
    size = Path(args.out).stat().st_size
    print(f"written to {args.out}: {size:,} bytes of the run's {before:,}")
    print(f"next: gassip predict {args.out} --out labels.csv")
    return 0
