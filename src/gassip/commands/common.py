"""What the commands share: their parser, words about it, flags of the machine.

Nothing here imports torch before a command runs, so that `gassip --help` is quick.
"""

import argparse
import difflib
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from gassip.errors import GassipError
from gassip.settings.old import DECIDED, RENAMED
from gassip.threads import set_threads as set_threads

METRICS = ("accuracy", "macro-f1", "roc-auc")  # as gassip.metrics, which needs torch
WIDEST = 100  # columns of a help screen
THREADS = "threads of torch in each process (default 1)"


def fail(message: str, status: int = 2) -> int:
    """One line on stderr."""
    print("gassip: error:", " ".join(message.split()), file=sys.stderr)
    return status


def warn(message: str) -> None:
    """One line on stderr; the command goes on."""
    print("gassip: warning:", " ".join(message.split()), file=sys.stderr)


def quiet_libraries() -> None:
    """Warnings of libraries are no line that a user can do something about; -W shows them."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The name that was probably meant."""
    found = difflib.get_close_matches(given, list(known), n=1)
    return found[0] if found else None


# Flags


class Parser(argparse.ArgumentParser):
    """Wrong usage is one line; a mistyped word is answered with the nearest."""

    commands: "dict[str, Parser]"  # of the whole command line, by name

    def error(self, message: str) -> NoReturn:
        sys.exit(fail(f"{message} (see `{self.prog} --help`)"))

    def check_flags(self, words: Iterable[str]) -> None:
        """Refuse the first flag that there is not, before another that is missing is asked for."""
        known = self._option_string_actions
        for word in words:
            flag = word.partition("=")[0]
            if flag == "--":
                return
            if flag.startswith("--") and flag not in known:
                raise GassipError(unknown_flag(self.prog, flag, known))

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """As argparse, which makes an empty list of the value `--`. No name and no path may be
        empty, as an unset variable of the shell is."""
        if arg_strings == ["--"] and action.option_strings and action.nargs is None:
            raise argparse.ArgumentError(action, "expected one argument, not '--'")
        if action.type is None and action.nargs != argparse.PARSER:  # plain texts: names, paths
            self._check_texts(action, arg_strings)
        return super()._get_values(action, arg_strings)

    def _check_texts(self, action: argparse.Action, texts: list[str]) -> None:
        if "" in texts:
            raise argparse.ArgumentError(action, "the value is empty; is a variable unset?")
        if any("\0" in text for text in texts):
            raise argparse.ArgumentError(action, "the value holds a NUL character")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        name = (action.option_strings or [str(action.dest)])[-1].removeprefix("--")
        near, known = nearest(str(value), action.choices), ", ".join(map(str, action.choices))
        hint = f"did you mean {near}?" if near else f"choose one of {known}"
        sys.exit(fail(f"there is no {name.replace('-', ' ')} {value!r}; {hint}"))


def unknown_flag(prog: str, flag: str, known: Iterable[str]) -> str:
    """One line: the new name of a setting, the nearest flag, or where the flags are listed."""
    known = list(known)
    off = "--no-" if flag.startswith("--no-") else "--"
    name = flag.removeprefix(off).replace("-", "_")
    now = off + RENAMED.get(name, "").replace("_", "-")
    if now in known:
        return f"{flag} has a new name: {now}"
    if name in DECIDED and "--explain" in known:
        return f"{flag} is decided by the search, not set; `{prog} --explain` shows the decision"
    near = nearest(flag, known)
    hint = f"did you mean {near}?" if near else f"see `{prog} --help`"
    return f"{prog} has no flag {flag}; {hint}"


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """At most 100 columns, also where there is no terminal to ask."""

    def __init__(self, prog: str) -> None:
        columns = shutil.get_terminal_size((WIDEST, 24)).columns
        super().__init__(prog, max_help_position=28, width=min(columns, WIDEST))

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """--[no-]name for a switch."""
        if isinstance(action, argparse.BooleanOptionalAction):
            return f"--[no-]{action.option_strings[0].removeprefix('--')}"
        return super()._format_action_invocation(action)


def command(
    commands: Any,
    run: Callable[[argparse.Namespace], int],
    name: str,
    text: str,
    example: str,
    *,
    add_help: bool = True,
) -> Parser:
    """The parser of the command `name`, which `run` carries out."""
    parser: Parser = commands.add_parser(
        name, help=text, allow_abbrev=False, add_help=add_help, **described(text, example)
    )
    parser.set_defaults(run=run)
    return parser


def described(text: str, example: str) -> dict[str, Any]:
    """The texts around the flags of a help screen."""
    return {
        "description": text[0].upper() + text[1:] + ".",
        "epilog": f"example: {example}",
        "formatter_class": HelpFormatter,
    }


def machine_flags(parser: Any, threads: str = THREADS) -> None:
    parser.add_argument(
        "--device", default="cpu", help="cpu, cuda, cuda:1, ... (default %(default)s)"
    )
    parser.add_argument("--threads", type=whole(1, 1024), default=1, metavar="N", help=threads)
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout instead of the summary"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")


def whole(least: int, most: int = 2**32 - 1) -> Callable[[str], int]:
    """Reads a whole number from `least` to `most`."""

    def parse(text: str) -> int:
        if not text.isdecimal() or len(text) > 12 or not least <= int(text) <= most:
            upto = "on" if most >= 2**32 - 1 else f"to {most}"
            raise argparse.ArgumentTypeError(
                f"{text[:40]!r} is not a whole number from {least} {upto}"
            )
        return int(text)

    return parse


def jobs_flag(parser: Any) -> None:
    parser.add_argument(
        "--jobs",
        type=whole(1),
        metavar="N",
        help="processes that train the nets of a stage (default: one per core)",
    )


def jobs_of(args: argparse.Namespace) -> int:
    """--jobs, or the cores divided by the threads of each process."""
    from gassip.train.processes import cores

    return int(args.jobs or max(1, cores() // args.threads))
