"""gassip export: a run in a form to deploy; the formats are gassip.deploy.formats."""

import argparse
from typing import Any

from gassip.commands.common import Parser, command
from gassip.deploy.formats import FORMATS, Flag, Options
from gassip.errors import GassipError


def add(commands: Any) -> None:
    example = "gassip export runs/cora --format onnx --out cora.onnx"
    parser = command(commands, run, "export", "write a run in a form to deploy", example)
    parser.add_argument("folder", metavar="RUN", help="folder that `gassip search` wrote")
    parser.add_argument(
        "--format",
        choices=tuple(FORMATS),
        required=True,
        help="; ".join(f"{name}: {form.help}" for name, form in FORMATS.items()),
    )
    parser.add_argument("--out", metavar="PATH", required=True, help="folder or file to write")
    for key, formats in _flags().items():
        _add_flag(parser, key, formats)
    parser.add_argument("--overwrite", action="store_true", help="replace PATH if it exists")


def _flags() -> dict[str, dict[str, Flag]]:
    """Flags by name: the formats that have it, and what it is there."""
    found: dict[str, dict[str, Flag]] = {}
    for name, form in FORMATS.items():
        for key, flag in form.flags.items():
            found.setdefault(key, {})[name] = flag
    return found


def _add_flag(parser: Parser, key: str, formats: dict[str, Flag]) -> None:
    flag = next(iter(formats.values()))
    text, written = f"{', '.join(formats)}: {flag.help}", "--" + key.replace("_", "-")
    if flag.choices:
        choices = tuple(dict.fromkeys(c for form in formats.values() for c in form.choices))
        text += f" (default {flag.choices[0]})"
        parser.add_argument(written, choices=choices, help=text)
    else:
        parser.add_argument(written, action="store_true", help=text)


def run(args: argparse.Namespace) -> int:
    given = _given(args)
    print(FORMATS[args.format].write(args.folder, args.out, args.overwrite, given))
    return 0


def _given(args: argparse.Namespace) -> Options:
    """The flags of the format that were given; one of another format is refused."""
    given: Options = {}
    for key, formats in _flags().items():
        value, flag = vars(args)[key], "--" + key.replace("_", "-")
        if not value:
            continue
        if args.format not in formats:
            having = " and ".join(formats)
            raise GassipError(f"{flag} belongs to --format {having}, not to {args.format}")
        choices = formats[args.format].choices
        if choices and value not in choices:
            known = ", ".join(choices)
            raise GassipError(f"{flag} {value} is not there for --format {args.format}; {known}")
        given[key] = value
    return given
