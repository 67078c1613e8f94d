"""What the commands share: flags, the graph they name, progress and tables.

Nothing here imports torch before a command runs, so that `gassip --help` is quick.
"""

import argparse
import difflib
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gassip.errors import GassipError
from gassip.settings.old import DECIDED, RENAMED
from gassip.threads import set_threads as set_threads
from gassip.train.events import figures

if TYPE_CHECKING:
    from gassip.graph.graph import Graph
    from gassip.runs.write import Run

METRICS = ("accuracy", "macro-f1", "roc-auc")  # as gassip.metrics, which needs torch
EMBEDDED = "debian"  # the graph that comes with the package
WIDEST = 100  # columns of a help screen
THREADS = "threads of torch in each process (default 1)"
SPLIT = "split of the dataset: usual, or tuned, which is --dataset NAME-tuned"
Row = Mapping[str, float | str]


def fail(message: str, status: int = 2) -> int:
    """One line on stderr."""
    print("gassip: error:", " ".join(message.split()), file=sys.stderr)
    return status


def warn(message: str) -> None:
    """One line on stderr; the command goes on."""
    print("gassip: warning:", " ".join(message.split()), file=sys.stderr)


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
        """As argparse, which makes an empty list of the value `--`."""
        if arg_strings == ["--"] and action.option_strings and action.nargs is None:
            raise argparse.ArgumentError(action, "expected one argument, not '--'")
        return super()._get_values(action, arg_strings)

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


def graph_flags(parser: Any, split: str = SPLIT) -> None:
    """What `load_graph` reads, besides the device."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--dataset",
        metavar="NAME",
        type=filled,
        help=f"one of `gassip datasets` (default: the embedded graph {EMBEDDED})",
    )
    which.add_argument(
        "--data",
        metavar="PATH",
        type=filled,
        help="own graph: .npz, PyG's .pt, or a folder with nodes.csv and edges.csv",
    )
    parser.add_argument("--undirected", action="store_true", help="add the reverse of every edge")
    parser.add_argument(
        "--normalize", action=argparse.BooleanOptionalAction, help="divide rows of x by their sum"
    )
    parser.add_argument(
        "--split",
        choices=("usual", "tuned"),
        default="usual",
        metavar="NAME",
        help=split,
    )
    parser.add_argument(
        "--seed",
        type=whole(0),
        default=0,
        metavar="N",
        help="seed of the split, if one is drawn, of search and training (default 0)",
    )


def machine_flags(parser: Any, threads: str = THREADS) -> None:
    parser.add_argument(
        "--device", default="cpu", help="cpu, cuda, cuda:1, ... (default %(default)s)"
    )
    parser.add_argument("--threads", type=whole(1, 1024), default=1, metavar="N", help=threads)
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout instead of the summary"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")


def filled(text: str) -> str:
    """A text that is not empty: an unset variable of the shell is no name."""
    if not text:
        raise argparse.ArgumentTypeError("the value is empty; is a variable unset?")
    if "\0" in text:
        raise argparse.ArgumentTypeError("the value holds a NUL character")
    return text


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


# The graph


def load_graph(args: argparse.Namespace) -> "tuple[Graph, dict[str, object]]":
    """The graph on its device, and where it came from."""
    from gassip.graph.datasets import DATASETS
    from gassip.graph.graph import on_device

    source: dict[str, object] = {"seed": args.seed, "undirected": args.undirected}
    if args.data and args.split != "usual":
        raise GassipError(f"--split {args.split} is of a named dataset; --data has its own masks")
    if args.data:
        source |= {
            "kind": "file",
            "path": str(Path(args.data).resolve()),
            "normalize": bool(args.normalize),
            "prepared": True,
        }
    else:
        name = dataset_name(args)
        usual = name in DATASETS and DATASETS[name].normalize
        normalize = usual if args.normalize is None else args.normalize
        source |= {"kind": "dataset", "name": name, "normalize": normalize}
    return on_device(load_source(source), args.device), source


def load_source(source: Mapping[str, Any]) -> "Graph":
    """The graph again, from what `load_graph` said of it."""
    from gassip.graph import datasets as data

    options: dict[str, Any] = {
        name: source.get(name) for name in ("seed", "undirected", "normalize")
    }
    if source.get("kind") == "dataset":
        return as_read(data.load(source["name"], **options), source)
    if source.get("kind") == "file":
        # runs of version 0.2 took the numbers of a table as they were
        graph = data.read(source["path"], prepared=bool(source.get("prepared")), **options)
        return as_read(graph, source)
    raise GassipError(
        "the run was made from a graph in memory, which cannot be loaded again: "
        "predict takes --data PATH, the rest needs a search of a file"
    )


def as_read(graph: "Graph", source: Mapping[str, Any]) -> "Graph":
    """The training graph: with its validation nodes for training too, if the run was a refit."""
    from gassip.train.refit import with_validation_labels

    graph = as_weighted(graph, source)
    return with_validation_labels(graph) if source.get("refit") else graph


def as_weighted(graph: "Graph", source: Mapping[str, Any]) -> "Graph":
    """The graph without the weights of its edges, if the run has left them out."""
    from gassip.train.plan import unweighted

    return unweighted(graph) if source.get("weighted") is False else graph


def training_graph(run: "Run", device: str) -> "Graph":
    """The run's graph, loaded again from where it came."""
    from gassip.graph.graph import on_device

    graph = load_source(run.meta["source"])
    if graph.fingerprint != run.meta["source"].get("fingerprint"):
        where = run.meta["source"].get("path") or run.meta["source"].get("name")
        raise GassipError(
            f"{where} is no longer the graph that {run.folder} was made from (its fingerprint "
            f"differs)"
        )
    return on_device(graph, device)


def dataset_name(args: argparse.Namespace) -> str:
    """The dataset with the split that was asked for."""
    name = str(args.dataset or EMBEDDED)
    return name if args.split == "usual" else f"{name}-{args.split}"


def graph_name(args: argparse.Namespace) -> str:
    """What the graph is called in names of folders."""
    return Path(args.data).resolve().stem if args.data else dataset_name(args)


def say_which_graph(args: argparse.Namespace) -> None:
    """One line on stderr if no graph is named: a search of the embedded one takes a minute."""
    if not (args.data or args.dataset or args.quiet):
        print(
            f"gassip: neither --dataset nor --data is given: the embedded graph {EMBEDDED} is used",
            file=sys.stderr,
        )


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
        if console.width >= 100:  # the figures alone fill 80 columns
            columns.append(TimeRemainingColumn())
        with Progress(*columns, console=console) as bar:
            task = bar.add_task(title, total=total, figures="")
            yield lambda row: bar.update(task, completed=int(row["epoch"]), figures=figures(row))


def _line(title: str, total: int, row: Row) -> None:
    print(f"{title} {row['epoch']}/{total}  {figures(row)}", file=sys.stderr, flush=True)


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
