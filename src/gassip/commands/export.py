"""gassip export: a run in a form to deploy; the formats are gassip.deploy.formats."""

import argparse
from typing import Any

from gassip.commands.common import Parser, command, filled
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
        help="; ".join(f"{name}: {own.help}" for name, own in FORMATS.items()),
    )
    parser.add_argument(
        "--out", metavar="PATH", type=filled, required=True, help="folder or file to write"
    )
    for name, own in FORMATS.items():
        for key, flag in own.flags.items():
            _add_flag(parser, name, key, flag)
    parser.add_argument("--overwrite", action="store_true", help="replace PATH if it exists")


def _add_flag(parser: Parser, name: str, key: str, flag: Flag) -> None:
    text, written = f"{name}: {flag.help}", "--" + key.replace("_", "-")
    if flag.choices:
        text += f" (default {flag.choices[0]})"
        parser.add_argument(written, choices=flag.choices, help=text)
    else:
        parser.add_argument(written, action="store_true", help=text)


def run(args: argparse.Namespace) -> int:
    given = _given(args)
    print(FORMATS[args.format].write(args.folder, args.out, args.overwrite, given))
    return 0


def _given(args: argparse.Namespace) -> Options:
    """The flags of the format that were given; one of another format is refused."""
    given: Options = {}
    for name, own in FORMATS.items():
        for key in own.flags:
            value = vars(args)[key]
            if value and name != args.format:
                flag = "--" + key.replace("_", "-")
                raise GassipError(f"{flag} belongs to --format {name}, not to {args.format}")
            if value:
                given[key] = value
    return given
