"""The command line: gassip COMMAND; the commands are the modules of gassip.commands.

What needs torch is imported when a command runs, so that `gassip --help` is quick. Bad input ends
in one line on stderr and status 2; results go to stdout, progress to stderr.
"""

import argparse
import io
import os
import sys
import time
import warnings
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword

from gassip import __version__
from gassip.commands.common import HelpFormatter, Parser, fail, nearest, quiet_libraries
from gassip.errors import GassipError
from gassip.train.deadline import process_age

COMMANDS = (
    "search",
    "explain",
    "report",
    "compare",
    "leaderboard",
    "evaluate",
    "refit",
    "front",
    "predict",
    "export",
    "pack",
    "import",
    "make",
    "datasets",
    "methods",
    "run",
    "tune",
    "table",
    "reproduce",
    "completion",
    "doctor",
)  # modules of gassip.commands, as the help lists them


def module_of(command: str) -> str:
    return f"{command}_" if iskeyword(command) else command


def main(argv: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    since = time.monotonic() - (process_age() if argv is None else 0.0)
    wait_briefly()
    large_pages()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an ASCII terminal shows ? for ‖
            stream.reconfigure(errors="replace")
    parser = build_parser()
    if not given:
        parser.print_help(sys.stderr)
        return 2
    try:
        check_words(parser, given)
        args = parser.parse_args(given, argparse.Namespace(argv=given, since=since))
        with warnings.catch_warnings():
            quiet_libraries()
            status: int = args.run(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of our output has gone, e.g. `gassip datasets | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return fail("interrupted", 130)
    except (GassipError, OSError, MemoryError, RuntimeError, ModuleNotFoundError) as error:
        line = one_line(error, given[0])
        if line is None:
            raise
        lines = error.lines if isinstance(error, GassipError) else (line,)
        return max(fail(line) for line in lines)


def one_line(error: Exception, command: str) -> str | None:
    """What a user can do something about, in one line; None for a fault of the program."""
    if isinstance(error, GassipError):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package == "gassip":
            return None
        return f"gassip {command} needs {package}, which is not installed: pip install {package}"
    if isinstance(error, OSError):
        reason = str(error.strerror or error)
        return f"{error.filename}: {reason}" if error.filename else reason
    if str(error).startswith("Symlink loop"):  # of pathlib, before Python 3.13
        return f"{str(error)[:200]}: the link leads to itself"
    if isinstance(error, MemoryError) or "memory" in str(error):
        first = [*str(error).splitlines(), "no more to be had"][0]
        return f"out of memory ({first})"
    return None


def check_words(parser: Parser, given: Sequence[str]) -> None:
    """Refuse a command or a flag that there is not, with the nearest that there is."""
    name = given[0]
    if name.startswith("-"):
        parser.check_flags(given[:1])
        return
    if name not in COMMANDS:
        near = nearest(name, COMMANDS)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(COMMANDS)}"
        raise GassipError(f"there is no command {name!r}; {hint}")
    parser.commands[name].check_flags(given[1:])


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
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gassip {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in COMMANDS:
        import_module(f"gassip.commands.{module_of(name)}").add(commands)
    parser.commands = dict(commands.choices)
    return parser
