"""What the commands share: flags, the graph they name, progress and tables.

Nothing here imports torch before a command runs, so that `gassip --help` is quick.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NoReturn,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from gassip.errors import GassipError

if TYPE_CHECKING:
    from gassip.graph.graph import Graph
    from gassip.runs.write import Run

METRICS = ("accuracy", "macro-f1", "roc-auc")  # as gassip.metrics, which needs torch
SETTING = "setting."  # how the names of settings begin among the parsed arguments
Row = Mapping[str, float | str]


def fail(message: str, status: int = 2) -> int:
    """One line on stderr."""
    print("gassip: error:", " ".join(message.split()), file=sys.stderr)
    return status


# Flags


class Parser(argparse.ArgumentParser):
    """Wrong usage is one line too."""

    def error(self, message: str) -> NoReturn:
        sys.exit(fail(f"{message} (see `{self.prog} --help`)"))


def command(
    commands: Any, run: Callable[[argparse.Namespace], int], name: str, text: str, example: str
) -> Parser:
    """The parser of the command `name`, which `run` carries out."""
    parser: Parser = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=f"example: {example}",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def graph_flags(parser: Parser) -> None:
    """What `load_graph` reads, besides the device."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--dataset",
        metavar="NAME",
        default="debian",
        help="one of `gassip datasets` (default debian)",
    )
    which.add_argument(
        "--data",
        metavar="PATH",
        help="own graph: .npz, PyG's .pt, folder with nodes.csv, edges.csv",
    )
    parser.add_argument("--undirected", action="store_true", help="add the reverse of every edge")
    parser.add_argument(
        "--normalize", action=argparse.BooleanOptionalAction, help="divide rows of x by their sum"
    )
    parser.add_argument(
        "--seed", type=whole(0), default=0, help="of the split where one is drawn, and of all else"
    )


def machine_flags(parser: Parser) -> None:
    parser.add_argument(
        "--device", default="cpu", help="cpu, cuda, cuda:1, ... (default %(default)s)"
    )
    parser.add_argument(
        "--threads", type=whole(1), metavar="N", help="of torch (default: its own choice)"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout instead of the summary"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")


def whole(least: int) -> Callable[[str], int]:
    """Reads a whole number from `least` on."""

    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) < 2**32:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
        return int(text)

    return parse


def add_setting_flags(group: Any, kind: type) -> None:
    """One flag per field of the dataclass `kind`: its name, its type, its help.

    A field that holds a value of no simple type, such as other settings, gets none.
    """
    types = get_type_hints(kind)
    for field in fields(kind):
        options = _flag_kind(types[field.name])
        if options is not None:
            options |= {
                "dest": SETTING + field.name,
                "default": argparse.SUPPRESS,
                "help": _flag_help(field),
            }
            group.add_argument("--" + field.name.replace("_", "-"), **options)


def given_settings(args: argparse.Namespace) -> dict[str, Any]:
    """The settings given as flags, by field; only those."""
    return {
        name.removeprefix(SETTING): value
        for name, value in vars(args).items()
        if name.startswith(SETTING)
    }


def _flag_help(field: "Field[Any]") -> str:
    value = field.default if field.default_factory is MISSING else field.default_factory()
    shown = ",".join(map(str, value)) if isinstance(value, tuple) else value
    text = field.metadata.get("help", field.name.replace("_", " "))
    return (text if value is MISSING else f"{text} (default {shown})").replace("%", "%%")


def _flag_kind(kind: Any) -> dict[str, Any] | None:
    """argparse's options for a type; None where no text stands for its values."""
    if get_origin(kind) in (Union, UnionType):
        (kind,) = [own for own in get_args(kind) if own is not NoneType][:1]
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind), "type": type(get_args(kind)[0])}
    if kind is bool:
        return {"action": argparse.BooleanOptionalAction}
    if kind in (int, float, str):
        return {"type": kind, "metavar": {int: "N", float: "X", str: "TEXT"}[kind]}
    if get_origin(kind) is tuple and get_args(kind)[0] in (int, float, str):
        return {"type": _several(get_args(kind)[0]), "metavar": "A,B,..."}
    return None


def _several(kind: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    def row(text: str) -> tuple[Any, ...]:
        return tuple(kind(part) for part in text.split(",") if part)

    return row


# The graph


def load_graph(args: argparse.Namespace) -> "tuple[Graph, dict[str, object]]":
    """The graph on its device, and where it came from."""
    from gassip.estimator import on_device
    from gassip.graph.datasets import DATASETS

    source: dict[str, object] = {"seed": args.seed, "undirected": args.undirected}
    if args.data:
        source |= {
            "kind": "file",
            "path": str(Path(args.data).resolve()),
            "normalize": bool(args.normalize),
        }
    else:
        usual = args.dataset in DATASETS and DATASETS[args.dataset].normalize
        normalize = usual if args.normalize is None else args.normalize
        source |= {"kind": "dataset", "name": args.dataset, "normalize": normalize}
    return on_device(load_source(source), args.device), source


def load_source(source: Mapping[str, Any]) -> "Graph":
    """The graph again, from what `load_graph` said of it."""
    from gassip.graph import datasets as data

    options: dict[str, Any] = {
        name: source.get(name) for name in ("seed", "undirected", "normalize")
    }
    if source.get("kind") == "dataset":
        return data.load(source["name"], **options)
    if source.get("kind") == "file":
        return data.read(source["path"], **options)
    raise GassipError(
        "the run was made from a graph in memory, which cannot be loaded again: "
        "predict takes --data PATH, the rest needs a search of a file"
    )


def training_graph(run: "Run", device: str) -> "Graph":
    """The run's graph, loaded again from where it came."""
    from gassip.estimator import on_device

    graph = load_source(run.meta["source"])
    if graph.fingerprint != run.meta["source"].get("fingerprint"):
        where = run.meta["source"].get("path") or run.meta["source"].get("name")
        raise GassipError(
            f"{where} is no longer the graph that {run.folder} was made from (its fingerprint differs)"
        )
    return on_device(graph, device)


def graph_name(args: argparse.Namespace) -> str:
    """What the graph is called in names of folders."""
    return Path(args.data).resolve().stem if args.data else str(args.dataset)


def set_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


# Progress and summary


@contextmanager
def progress(title: str, total: int, quiet: bool) -> Iterator[Callable[[Row], None]]:
    """A function that shows one epoch's row: a bar on a terminal, some lines elsewhere."""
    if quiet:
        yield lambda row: None
    elif not sys.stderr.isatty():
        every = max(1, total // 5)
        yield lambda row: _line(title, total, row) if int(row["epoch"]) % every == 0 else None
    else:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        columns = [TextColumn("{task.description}"), BarColumn(10), MofNCompleteColumn()]
        columns += [TextColumn("{task.fields[figures]}", markup=False)]
        columns += [TimeRemainingColumn()] * (
            console.width >= 100
        )  # the figures alone fill 80 columns
        with Progress(*columns, console=console) as bar:
            task = bar.add_task(title, total=total, figures="")
            yield lambda row: bar.update(task, completed=int(row["epoch"]), figures=figures(row))


def _line(title: str, total: int, row: Row) -> None:
    print(f"{title} {row['epoch']}/{total}  {figures(row)}", file=sys.stderr, flush=True)


def figures(row: Row) -> str:
    """The live figures of one epoch."""
    shown = {
        "val_score": "val {:.3f}",
        "alpha_entropy": "entropy {:.2f}",
        "edges_kept": "edges {:.0%}",
    }
    shown |= {"weights_kept": "weights {:.0%}", "architecture": "{}"}
    shown |= {"stage": "{}"}
    text = " ".join(text.format(row[name]) for name, text in shown.items() if name in row)
    return text.replace("Conv", "").replace(" ‖ ", "‖")


def print_summary(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """A table of names and values on stdout."""
    from rich.table import Table

    table = Table(show_header=False, title=title)
    for name, value in rows:
        table.add_row(name, value)
    print_table(table)


def print_table(table: Any) -> None:
    """One of rich's tables on stdout; what is in it is text, not markup."""
    from rich.console import Console

    Console(markup=False, highlight=False).print(table)


def score_rows(scores: Mapping[str, Mapping[str, float]]) -> list[tuple[str, str]]:
    """For a summary: each metric with its value on each split."""
    return [
        (metric, "   ".join(f"{split} {value:.4f}" for split, value in values.items()))
        for metric, values in scores.items()
    ]


def seconds_row(seconds: Mapping[str, float]) -> tuple[str, str]:
    return "seconds", "   ".join(f"{phase} {value:.1f}" for phase, value in seconds.items())


def share(kept: int, total: int) -> str:
    return f"{kept:,} of {total:,} ({kept / total:.1%})"


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
