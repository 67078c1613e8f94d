"""Write docs/REFERENCE.md: every command, setting and public Python name, from the code itself.

    python tools/build_reference.py

A test compares the file with what the code says.
"""

import argparse
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import dedent, fill
from typing import Any, Literal, get_args, get_origin

from torch import nn

import gassip
import gassip.runtime
from gassip.cli import build_parser
from gassip.commands.common import Parser
from gassip.commands.flags import SETTING, shown_value
from gassip.settings.presets import MAKERS, PRESETS
from gassip.settings.settings import FIELDS, Field
from gassip.train import events, loggers

WIDTH = 100
FILE = Path(__file__).parent.parent / "docs" / "REFERENCE.md"
HEAD = """# Reference

Written by `python tools/build_reference.py` from the code; a test compares them.
[Tutorial](TUTORIAL.md) · [how-to](HOWTO.md) · [index](README.md)
"""


def reference() -> str:
    parts = [HEAD, *commands(), *settings(), *names()]
    return "\n".join(parts).rstrip() + "\n"


def wrapped(text: str, indent: str = "") -> str:
    return fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def cell(text: str) -> str:
    """One line that a Markdown table can hold."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(map(cell, row))} |" for row in rows), ""]


# Commands


def commands() -> Iterator[str]:
    parser = build_parser()
    yield "## Commands\n"
    for name, own in parser.commands.items():
        yield f"### gassip {name}\n"
        yield f"{wrapped(own.description or '')}\n"
        example = str(own.epilog).partition("example: ")[2].splitlines()
        yield f"```bash\n{example[0]}\n```\n"
        yield from table(("argument", "meaning"), arguments(own))
        if any(action.dest.startswith(SETTING) for action in own._actions):
            yield "Every [setting](#settings) is a flag too: `size_share` is `--size-share`.\n"


def arguments(parser: Parser) -> Iterator[tuple[str, str]]:
    """What a command takes, but for settings and what is not shown."""
    for action in parser._actions:
        if action.dest.startswith(SETTING) or action.help == argparse.SUPPRESS:
            continue
        if action.dest in ("help", "screen"):
            continue
        yield (
            written(action),
            (action.help or "").replace("%%", "%").replace("%(default)s", str(action.default)),
        )


def written(action: argparse.Action) -> str:
    taken = action.metavar or (
        "" if action.nargs == 0 else ",".join(map(str, action.choices or ()))
    )
    taken = taken if isinstance(taken, str) else " ".join(taken)
    if not action.option_strings:
        return f"`{taken}`"
    return f"`{', '.join(action.option_strings)}{' ' + taken if taken else ''}`"


# Settings


def settings() -> Iterator[str]:
    presets = {name: MAKERS[name]() for name in PRESETS}
    yield "## Settings\n"
    yield "The default is that of the preset `best`; the other presets are " + ", ".join(
        f"`{name}`" for name in PRESETS[1:]
    )
    yield "(`gassip search --preset NAME --help-all` shows their values).\n"
    for title in dict.fromkeys(entry.title for entry in FIELDS.values()):
        yield f"### {title}\n"
        members = [entry for entry in FIELDS.values() if entry.title == title]
        rows = [
            (f"`{own.name}`", kind_of(own), shown_value(presets["best"].value(own)), own.help)
            for own in members
        ]
        yield from table(("setting", "takes", "default", "meaning"), rows)


def kind_of(own: Field) -> str:
    """As a user would say it."""
    words = {int: "whole number", float: "number", str: "text", bool: "on or off"}
    if get_origin(own.kind) is Literal:
        return ", ".join(get_args(own.kind))
    if get_origin(own.kind) is tuple:
        return f"list of {words[get_args(own.kind)[0]]}s"
    return words[own.kind]


# Python


def names() -> Iterator[str]:
    yield "## Python\n"
    for name in sorted(set(gassip.__all__) - {"__version__"}, key=str.lower):
        yield from described(f"gassip.{name}", getattr(gassip, name))
    yield from described("gassip.runtime.load", gassip.runtime.load)
    yield from described("gassip.runtime.Model", gassip.runtime.Model)
    for module in (events, loggers):
        yield f"### {module.__name__}\n"
        first, _, rest = (module.__doc__ or "").partition("\n")
        yield f"{wrapped(first)}\n\n```text\n{dedent(rest).strip()}\n```\n"


def described(name: str, value: Any) -> Iterator[str]:
    """A heading, the call and the first paragraph; of a class its public methods too."""
    yield f"### {name}\n"
    call = "" if issubclass_of(value, Exception) else signature(value)
    if call:
        yield f"```text\n{wrapped(name + call, '    ')}\n```\n"
    yield f"{wrapped(paragraph(value))}\n"
    if inspect.isclass(value) and not issubclass(value, (Exception, nn.Module)):
        rows = [(f"`{own}{call}`", paragraph(found)) for own, call, found in members(value)]
        if rows:
            yield from table(("member", "meaning"), rows)


def issubclass_of(value: Any, kind: type) -> bool:
    return inspect.isclass(value) and issubclass(value, kind)


def members(value: type) -> Iterator[tuple[str, str, Any]]:
    """The public methods and properties that the class itself defines and explains."""
    for name, own in vars(value).items():
        found = own.__func__ if isinstance(own, (classmethod, staticmethod)) else own
        if name.startswith("_") or not inspect.getdoc(found):
            continue
        if inspect.isfunction(found):
            yield name, signature(found), found
        elif isinstance(found, property) or hasattr(found, "func"):
            yield name, "", found


def signature(value: Any) -> str:
    """Names and defaults, without types: these are in the code."""
    plain = []
    for own in inspect.signature(value).parameters.values():
        if own.name in ("self", "cls"):
            continue
        default = own.default
        made = default is not own.empty and type(default).__name__ == "_HAS_DEFAULT_FACTORY_CLASS"
        plain.append(own.replace(annotation=own.empty, default=... if made else default))
    text = str(inspect.Signature(plain))
    return text.replace("Ellipsis", "...")


def paragraph(value: Any) -> str:
    first = (inspect.getdoc(value) or "").partition("\n\n")[0]
    return " ".join(first.split())


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
    print(f"written to {FILE}")
