"""gassip completion: the script that completes commands, flags and their values in a shell."""

import argparse
from collections.abc import Iterator
from typing import Any

from gassip.commands.common import Parser, command
from gassip.commands.flags import SETTING
from gassip.errors import GassipError
from gassip.settings.settings import FIELDS

SHELLS = ("bash", "zsh", "fish")
INSTALL = """install:
  bash   gassip completion bash > ~/.local/share/bash-completion/completions/gassip
  zsh    gassip completion zsh > DIR/_gassip, with DIR in fpath before compinit
  fish   gassip completion fish > ~/.config/fish/completions/gassip.fish"""
FILES = ("PATH", "FILE")  # how the flags call what they take
FOLDERS = ("DIR", "RUN")


def add(commands: Any) -> None:
    text = "print the script that completes gassip in a shell"
    parser = command(commands, run, "completion", text, 'eval "$(gassip completion bash)"')
    parser.epilog = f"{parser.epilog}\n{INSTALL}"
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def run(args: argparse.Namespace) -> int:
    from gassip.cli import build_parser

    print(script(build_parser(), args.shell))
    return 0


def script(parser: Parser, shell: str) -> str:
    """shtab's script for the parser."""
    try:
        import shtab
    except ImportError as error:
        raise GassipError("completion needs the package shtab: pip install shtab") from error
    for action in actions(parser):
        if action.metavar in FILES:
            vars(action)["complete"] = shtab.FILE
        elif action.metavar in FOLDERS:
            vars(action)["complete"] = shtab.DIRECTORY
        elif "--dataset" in action.option_strings:
            action.choices = dataset_names()
        elif action.metavar == "METHOD":
            action.choices = method_names()
        elif action.metavar == "EXPERIMENT":
            action.choices = experiment_names()
        if action.dest.startswith(SETTING):  # also those that the usual preset does not read
            action.help = FIELDS[action.dest.removeprefix(SETTING)].help.replace("%", "%%")
    return str(shtab.complete(parser, shell))


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Every argument of the parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from actions(command)


def dataset_names() -> tuple[str, ...]:
    from gassip.graph.known_datasets import DATASETS

    return tuple(DATASETS)


def experiment_names() -> tuple[str, ...]:
    from gassip.reproduce.experiments import EXPERIMENTS

    return tuple(EXPERIMENTS)


def method_names() -> tuple[str, ...]:
    from gassip.methods import METHODS

    return tuple(METHODS)
