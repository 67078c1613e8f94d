"""The command line: gassip COMMAND; the commands are the modules of gassip.commands.

What needs torch is imported when a command runs, so that `gassip --help` is quick. Bad input ends
in one line on stderr and status 2; results go to stdout, progress to stderr.
"""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from gassip import __version__
from gassip.commands.common import Parser, fail
from gassip.errors import GassipError

COMMANDS = (
    "search",
    "evaluate",
    "front",
    "predict",
    "export",
    "datasets",
    "methods",
    "run",
    "tune",
    "table",
)  # modules of gassip.commands, as the help lists them


def main(argv: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    wait_briefly()
    large_pages()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an ASCII terminal shows ? for ‖
            stream.reconfigure(errors="replace")
    parser = build_parser()
    if not given:
        parser.print_help(sys.stderr)
        return 2
    args = parser.parse_args(given, argparse.Namespace(argv=given))
    try:
        status: int = args.run(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of our output has gone, e.g. `gassip datasets | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except GassipError as error:
        return fail(str(error))
    except OSError as error:
        return fail(
            f"{error.filename}: {error.strerror}"
            if error.filename
            else str(error.strerror or error)
        )
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "memory" in str(error):
            return fail(
                f"out of memory ({str(error).splitlines()[0] if str(error) else 'no more to be had'})"
            )
        raise
    except KeyboardInterrupt:
        return fail("interrupted", 130)


def large_pages() -> None:
    """Have torch, which is imported later, ask for large pages for large tensors.

    On large graphs up to a third of the time goes into handing out small ones, anew in every epoch.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def wait_briefly() -> None:
    """Have OpenMP's threads, which torch brings along later, sleep soon when they wait for each
    other.

    On a quiet machine that is as fast (sleeping at once is not: half as long again); where others
    use the cores too, threads that spin hold each other up.
    """
    if "OMP_WAIT_POLICY" not in os.environ:  # the user's own choice
        os.environ.setdefault("GOMP_SPINCOUNT", "20000")  # turns; by default 300,000


def build_parser() -> Parser:
    parser = Parser(
        prog="gassip",
        description="Search a light graph neural network for a graph.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"gassip {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in COMMANDS:
        import_module(f"gassip.commands.{name}").add(commands)
    return parser
