"""The settings as flags: two help screens with the values in force, and what is read and what not.

`--help` shows what people use, `--help-all` every setting by stage. Both show the values of the
preset that was given. A setting that the preset does not read is refused by name.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from gassip.commands.common import METRICS, Parser, described
from gassip.errors import GassipError
from gassip.settings import PRESETS, Settings
from gassip.settings.numbers import number
from gassip.settings.presets import MAKERS
from gassip.settings.settings import (
    CHOSEN_BY_RECIPE,
    FIELDS,
    Field,
    foreign,
    read_settings,
    unread,
    why_unread,
    without_effect,
)

SETTING = "setting."  # how the names of settings begin among the parsed arguments
USUAL = (
    "direction",
    "ops",
    "hidden",
    "epochs",
    "retrain_epochs",
    "retrain_dropout",
    "edge_rule",
    "candidates",
    "size_share",
    "edge_shares",
    "for",
)  # settings on the short help screen, where the preset reads them


@dataclass(frozen=True, kw_only=True)
class Screen:
    """What the flags of a command are shown with."""

    preset: str
    everything: bool = True  # every setting, or the usual ones
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the command to the preset
    reads: tuple[str, ...] = ()  # settings that the command reads, whatever the preset does

    @property
    def settings(self) -> Settings:
        return MAKERS[self.preset]().changed(**self.changes)

    def rare(self, text: str) -> str:
        """The help of a flag that only the long screen shows."""
        return text if self.everything else argparse.SUPPRESS


def preset_flags(parser: Any, screen: Screen) -> None:
    """What a search starts from, and what validation judges by."""
    parser.add_argument(
        "--preset",
        choices=PRESETS,
        default=screen.preset,
        metavar="NAME",
        help=f"settings to start from: {', '.join(PRESETS)} (default %(default)s)",
    )
    parser.add_argument(
        "--settings",
        metavar="FILE",
        help="settings over those of the preset, TOML or JSON; flags go over both",
    )
    parser.add_argument(
        "--metric",
        choices=METRICS,
        default="accuracy",
        metavar="NAME",
        help=f"on validation nodes: {', '.join(METRICS)} (default %(default)s)",
    )


def help_flags(parser: Any) -> None:
    """Shown by `run`, when the preset is known; a flag that ended the parsing could not wait."""
    parser.set_defaults(screen=None)
    screens = {
        "usual": (("-h", "--help"), "show the flags most used, with the values under --preset"),
        "all": (("--help-all",), "show every setting by stage, with the values under --preset"),
    }
    for name, (flags, text) in screens.items():
        parser.add_argument(*flags, action="store_const", dest="screen", const=name, help=text)


def show_help(
    args: argparse.Namespace,
    name: str,
    about: tuple[str, str],
    add_flags: Callable[[Parser, Screen], None],
    screen: Screen,
) -> int:
    """Print the screen that was asked for."""
    screen = replace(screen, preset=args.preset, everything=args.screen == "all")
    usage = f"gassip {name} [--dataset NAME | --data PATH] [--preset NAME] [--out DIR] [FLAG ...]"
    parser = Parser(prog=f"gassip {name}", usage=usage, add_help=False, **described(*about))
    add_flags(parser, screen)
    print(parser.format_help(), end="")
    return 0


# Flags


def setting_flags(parser: Parser, screen: Screen) -> None:
    """One flag per setting; what the screen does not show is accepted all the same."""
    settings = screen.settings
    other = foreign(settings)
    shown = [entry for entry in FIELDS.values() if entry.name not in other]
    if screen.everything:
        for title in dict.fromkeys(entry.title for entry in shown):
            members = [entry for entry in shown if entry.title == title]
            _group(parser, title[0].lower() + title[1:], members, screen)
    else:
        unused = set(unread(settings, FIELDS)) - set(screen.reads)
        shown = [entry for entry in shown if entry.name in USUAL and entry.name not in unused]
        title = f"most used settings, with the value under the preset {screen.preset} in brackets"
        _group(parser, title, shown, screen)
    for entry in FIELDS.values():
        if entry not in shown:
            parser.add_argument(_flag(entry.name), **_options(entry), help=argparse.SUPPRESS)
    parser.epilog = _epilog(screen, str(parser.epilog))


def _epilog(screen: Screen, example: str) -> str:
    note = "from 30,000 nodes on the preset takes some values of the paper's appendix"
    if screen.preset == "best":
        note = "rules of the preset replace some values by facts of the graph (METHOD.md)"
    return f"{note}\n{example}"


def _group(parser: Parser, title: str, members: list[Field], screen: Screen) -> None:
    group, settings = parser.add_argument_group(title), screen.settings
    for entry in members:
        text = f"{_help(entry, screen)} [{shown_value(settings.value(entry))}]".replace("%", "%%")
        group.add_argument(_flag(entry.name), **_options(entry), help=text)


def _help(entry: Field, screen: Screen) -> str:
    """The help of a setting, with its choices unless the help names them."""
    by_recipe = screen.preset == "best" and entry.name not in screen.reads
    if by_recipe and entry.name in CHOSEN_BY_RECIPE:
        return f"{entry.help}; read with --recipes given"
    choices = get_args(entry.kind) if get_origin(entry.kind) is Literal else ()
    if all(choice in entry.help for choice in choices):
        return entry.help
    return f"{entry.help} ({', '.join(choices)})"


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def shown_value(value: Any) -> str:
    """As it is written on the command line."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(shown_value(item) for item in value) or "none"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value) or "none"


def _options(entry: Field) -> dict[str, Any]:
    """argparse's options for the type of a setting."""
    kind = entry.kind
    options: dict[str, Any] = {"dest": SETTING + entry.name, "default": argparse.SUPPRESS}
    if get_origin(kind) is Literal:
        return options | {"choices": get_args(kind), "metavar": "NAME"}
    if kind is bool:
        return options | {"action": argparse.BooleanOptionalAction}
    if get_origin(kind) is tuple:
        return options | {"type": _several(get_args(kind)[0]), "metavar": "A,B,..."}
    metavar = {int: "N", float: "X", str: "TEXT"}[kind]
    return options | {"type": str if kind is str else _one(kind), "metavar": metavar}


def _one(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def value(text: str) -> Any:
        try:
            return number(kind, text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return value


def _several(kind: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    one = kind if kind is str else _one(kind)

    def row(text: str) -> tuple[Any, ...]:
        return tuple(one(part) for part in text.split(",") if part)

    row.__name__ = f"list of {kind.__name__}s"  # argparse names it where a value is refused
    return row


# What was given


def given_settings(args: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """The settings of the file and the flags, over the command's own changes to the preset; one
    that the preset does not read is refused by name."""
    screen = replace(screen, preset=args.preset)
    file = read_settings(Path(args.settings)) if args.settings else {}
    flags = {
        name.removeprefix(SETTING): value
        for name, value in vars(args).items()
        if name.startswith(SETTING)
    }
    check_read(screen, file | flags, {name: _flag(name) for name in flags}, args.settings)
    return {**screen.changes, **file, **flags}


def check_read(
    screen: Screen, given: Mapping[str, Any], flags: Mapping[str, str], file: str | None
) -> None:
    """Refuse what does nothing: any flag, and a line of a file that holds no default."""
    base, usual, defaults = screen.settings, screen.settings.flat(), Settings().flat()
    stages = foreign(base) if base.best is None else set()
    settings = base.changed(**{name: given[name] for name in given if name not in stages})
    for name in without_effect(settings, [name for name in given if name not in screen.reads]):
        value = list(given[name]) if isinstance(given[name], tuple) else given[name]
        if name not in flags and any(known.get(name, ...) == value for known in (usual, defaults)):
            continue
        where = flags.get(name, f"{name} in {file}")
        raise GassipError(f"{where} is not read by {why_unread(settings, name, screen.preset)}")
