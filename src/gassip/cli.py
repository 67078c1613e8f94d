"""The command line: gassip search | evaluate | predict | datasets.

A command is a function of its parsed arguments that returns the exit status. What needs torch is imported inside, so
that `gassip --help` is quick. Bad input ends in one line on stderr and status 2; results go to stdout,
progress to stderr.
"""

import argparse
import io
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args, get_origin

from gassip import __version__
from gassip.errors import GassipError

if TYPE_CHECKING:
    import numpy as np

    from gassip.artefact import Meta, Run
    from gassip.graph import Graph
    from gassip.retrain import Found, Solution

METRICS = ("accuracy", "macro-f1", "roc-auc")  # as gassip.metrics, which needs torch
Row = Mapping[str, float | str]


def main(argv: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an ASCII terminal shows ? for ‖
            stream.reconfigure(errors="replace")
    parser = build_parser(with_settings=given[:1] == ["search"])
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
        return fail(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "memory" in str(error):
            return fail(f"out of memory ({str(error).splitlines()[0] if str(error) else 'no more to be had'})")
        raise
    except KeyboardInterrupt:
        return fail("interrupted", 130)


def fail(message: str, status: int = 2) -> int:
    print("gassip: error:", " ".join(message.split()), file=sys.stderr)
    return status


# The parser


class Parser(argparse.ArgumentParser):
    """Wrong usage is one line too."""

    def error(self, message: str) -> NoReturn:
        sys.exit(fail(f"{message} (see `{self.prog} --help`)"))


def build_parser(with_settings: bool = True) -> Parser:
    """`with_settings`: also the flags of the method's settings, for which torch must be imported."""
    parser = Parser(prog="gassip", description="Search a light graph neural network for a graph.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"gassip {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _search_parser(commands, with_settings)
    _evaluate_parser(commands)
    _predict_parser(commands)
    _datasets_parser(commands)
    return parser


def _command(commands: Any, run: Callable[[argparse.Namespace], int], text: str, example: str) -> Parser:
    parser: Parser = commands.add_parser(
        run.__name__,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=f"example: {example}",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def _search_parser(commands: Any, with_settings: bool) -> None:
    example = "gassip search --dataset cora --preset paper --seed 1 --out runs/cora"
    parser = _command(commands, search, "find a light net for a graph, train it and write it to a folder", example)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--dataset", metavar="NAME", default="debian", help="one of `gassip datasets` (default debian)")
    which.add_argument("--data", metavar="PATH", help="own graph: .npz, PyG's .pt, folder with nodes.csv, edges.csv")
    parser.add_argument("--undirected", action="store_true", help="add the reverse of every edge")
    parser.add_argument("--normalize", action=argparse.BooleanOptionalAction, help="divide rows of x by their sum")
    parser.add_argument("--preset", default="paper", help="settings to start from (default %(default)s)")
    parser.add_argument("--settings", metavar="FILE", help="settings that differ from the preset, TOML or JSON")
    parser.add_argument("--seed", type=_whole(0), default=0, help="of the split where one is drawn, and of all else")
    parser.add_argument("--metric", choices=METRICS, default="accuracy", help="what validation judges by")
    parser.add_argument("--out", metavar="DIR", help="default runs/<name>-<preset>-seed<N>")
    parser.add_argument("--resume", action="store_true", help="go on with a search that was killed or interrupted")
    parser.add_argument("--overwrite", action="store_true", help="replace the run in DIR once this one is complete")
    parser.add_argument("--checkpoint-every", type=_whole(1), default=25, metavar="N", help="epochs (default 25)")
    _machine_flags(parser)
    if with_settings:
        add_setting_flags(parser.add_argument_group("settings of the method, over --settings, over --preset"))


def _evaluate_parser(commands: Any) -> None:
    example = "gassip evaluate runs/cora --seeds 10"
    parser = _command(commands, evaluate, "retrain a run with other seeds: mean and deviation", example)
    parser.add_argument("folder", metavar="RUN", help="folder that `gassip search` wrote")
    parser.add_argument("--seeds", type=_whole(1), required=True, metavar="N", help="retrainings of each search")
    parser.add_argument("--searches", type=_whole(1), default=1, metavar="S", help="searches, the run's own the first")
    _machine_flags(parser)


def _predict_parser(commands: Any) -> None:
    example = "gassip predict runs/mine --data tomorrow.npz --out labels.csv"
    parser = _command(commands, predict, "label the nodes of the run's graph or of another one", example)
    parser.add_argument("folder", metavar="RUN", help="folder that `gassip search` wrote")
    parser.add_argument("--data", metavar="PATH", help="another graph, with the same features; labels are not needed")
    parser.add_argument("--out", metavar="FILE", required=True, help="CSV to write: id, label, probability")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE where it exists")


def _datasets_parser(commands: Any) -> None:
    parser = _command(commands, datasets, "list the datasets known by name", "gassip datasets --json")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def _machine_flags(parser: Parser) -> None:
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, ... (default %(default)s)")
    parser.add_argument("--threads", type=_whole(1), metavar="N", help="of torch (default: its own choice)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout instead of the summary")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def _whole(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) < 2**32:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
        return int(text)

    return parse


def add_setting_flags(group: Any) -> None:
    """One flag per field of Gassip: its name, its type, its help."""
    from dataclasses import fields

    from gassip.settings import Gassip

    for field in fields(Gassip):
        shown = ",".join(field.default) if isinstance(field.default, tuple) else field.default
        text = f"{field.metadata['help']} (default {shown})".replace("%", "%%")
        options: dict[str, Any] = {"dest": f"setting.{field.name}", "default": argparse.SUPPRESS, "help": text}
        group.add_argument("--" + field.name.replace("_", "-"), **options, **_flag_kind(field.type))


def _flag_kind(kind: Any) -> dict[str, Any]:
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind)}
    if kind is bool:
        return {"action": argparse.BooleanOptionalAction}
    if kind in (int, float):
        return {"type": kind, "metavar": "N" if kind is int else "X"}
    return {"type": lambda text: tuple(text.split(",")), "metavar": "A,B,..."}


# gassip search


def search(args: argparse.Namespace) -> int:
    from gassip import artefact, checkpoint

    name = Path(args.data).resolve().stem if args.data else args.dataset
    out = Path(args.out or f"runs/{name}-{args.preset}-seed{args.seed}")
    partial = out.resolve().with_name(out.resolve().name + ".partial")
    _check_out(out, partial, args)
    resumed = args.resume and (partial / checkpoint.FILE).exists()
    if not resumed:
        checkpoint.discard(partial)
    created = [folder for folder in partial.parents if not folder.exists()]
    try:
        partial.mkdir(parents=True, exist_ok=True)  # an --out that cannot be written shows now, not after hours
        meta = _search(args, out, partial)
    except KeyboardInterrupt:
        return _interrupted(args, partial, created)
    except (GassipError, OSError):
        if not resumed:
            _clean(partial, created)
        raise
    checkpoint.discard(partial)
    print(artefact.to_json(meta), end="") if args.json else summary(meta, out)
    return 0


def _check_out(out: Path, partial: Path, args: argparse.Namespace) -> None:
    from gassip import artefact

    if args.resume and out.exists() and not partial.exists():
        raise GassipError(f"{out} is there and nothing is unfinished; there is nothing to resume")
    artefact.check_target(out, args.overwrite)
    if partial.exists() and not (args.resume or args.overwrite):
        raise GassipError(f"{partial} holds an unfinished search; --resume to go on, or --overwrite to start anew")


def _search(args: argparse.Namespace, out: Path, partial: Path) -> "Meta":
    from gassip import artefact
    from gassip.checkpoint import FolderCheckpoint
    from gassip.retrain import retrain
    from gassip.search import search as run_search
    from gassip.settings import preset, read_settings

    _set_threads(args.threads)
    given = read_settings(Path(args.settings)) if args.settings else {}
    given |= {name[8:]: value for name, value in vars(args).items() if name.startswith("setting.")}
    graph, source = _load(args)
    settings = preset(args.preset, graph, given)
    kept = FolderCheckpoint(
        partial, graph=graph, settings=settings, seed=args.seed, metric=args.metric, every=args.checkpoint_every
    )
    with progress("search", settings.epochs, args.quiet) as show:
        found = run_search(graph, settings, seed=args.seed, metric=args.metric, on_epoch=show, checkpoint=kept)
    rows: list[Row] = []
    with progress("retrain", settings.retrain_epochs, args.quiet) as show:

        def keep_and_show(row: Row) -> None:
            rows.append(row)
            show(row)

        solution = retrain(graph, found, seed=args.seed, metric=args.metric, on_epoch=keep_and_show)
    return artefact.save(
        out,
        graph,
        found,
        solution,
        seed=args.seed,
        metric=args.metric,
        preset=args.preset,
        source=source,
        retrain_history=rows,
        overwrite=args.overwrite,
    )


def _load(args: argparse.Namespace) -> "tuple[Graph, dict[str, object]]":
    """The graph on its device, and where it came from."""
    from gassip.data import DATASETS
    from gassip.estimator import on_device

    source: dict[str, object] = {"seed": args.seed, "undirected": args.undirected}
    if args.data:
        source |= {"kind": "file", "path": str(Path(args.data).resolve()), "normalize": bool(args.normalize)}
    else:
        usual = args.dataset in DATASETS and DATASETS[args.dataset].normalize
        normalize = usual if args.normalize is None else args.normalize
        source |= {"kind": "dataset", "name": args.dataset, "normalize": normalize}
    return on_device(_load_source(source), args.device), source


def _load_source(source: Mapping[str, Any]) -> "Graph":
    from gassip import data

    options: dict[str, Any] = {name: source.get(name) for name in ("seed", "undirected", "normalize")}
    if source.get("kind") == "dataset":
        return data.load(source["name"], **options)
    if source.get("kind") == "file":
        return data.read(source["path"], **options)
    raise GassipError("the run was made from a graph in memory, which cannot be loaded again; pass --data PATH")


def _set_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def _interrupted(args: argparse.Namespace, partial: Path, created: list[Path]) -> int:
    from gassip.checkpoint import FILE

    if not (partial / FILE).exists():
        _clean(partial, created)
        return fail("interrupted before the first checkpoint; nothing was kept", 130)
    again = shlex.join(["gassip", *(word for word in args.argv if word != "--resume"), "--resume"])
    return fail(f"interrupted; go on with: {again}", 130)


def _clean(partial: Path, created: list[Path]) -> None:
    """Nothing of a failed run stays, not even the folders made for it."""
    from gassip.checkpoint import discard

    discard(partial)
    for folder in created:
        with suppress(OSError):
            folder.rmdir()


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
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = [TextColumn("{task.description}"), BarColumn(10), MofNCompleteColumn()]
        columns += [TextColumn("{task.fields[figures]}", markup=False)]
        columns += [TimeRemainingColumn()] * (console.width >= 100)  # the figures alone fill 80 columns
        with Progress(*columns, console=console) as bar:
            task = bar.add_task(title, total=total, figures="")
            yield lambda row: bar.update(task, completed=int(row["epoch"]), figures=figures(row))


def _line(title: str, total: int, row: Row) -> None:
    print(f"{title} {row['epoch']}/{total}  {figures(row)}", file=sys.stderr, flush=True)


def figures(row: Row) -> str:
    """The live figures of one epoch."""
    shown = {"val_score": "val {:.3f}", "alpha_entropy": "entropy {:.2f}", "edges_kept": "edges {:.0%}"}
    shown |= {"weights_kept": "weights {:.0%}", "architecture": "{}"}
    text = " ".join(text.format(row[name]) for name, text in shown.items() if name in row)
    return text.replace("Conv", "").replace(" ‖ ", "‖")


def summary(meta: "Meta", out: Path) -> None:
    """The summary table, what was written, and what to try next."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, title=f"{meta['dataset']}, preset {meta['preset']}, seed {meta['seed']}")
    table.add_row("architecture", " ‖ ".join(meta["architecture"]))
    for metric, values in meta["scores"].items():
        table.add_row(metric, "   ".join(f"{split} {value:.4f}" for split, value in values.items()))
    for what in ("weights", "edges"):
        table.add_row(f"{what} kept", _share(meta[f"{what}_kept"], meta[f"{what}_total"]))
    table.add_row("seconds", "   ".join(f"{phase} {value:.1f}" for phase, value in meta["seconds"].items()))
    for note in meta["notes"]:
        table.add_row("note", note)
    Console(markup=False, highlight=False).print(table)
    print(f"written to {out}\nnext: gassip evaluate {shlex.quote(str(out))} --seeds 10")
    print(f"      gassip predict {shlex.quote(str(out))} --out labels.csv")


def _share(kept: int, total: int) -> str:
    return f"{kept:,} of {total:,} ({kept / total:.1%})"


# gassip evaluate


def evaluate(args: argparse.Namespace) -> int:
    from gassip import artefact

    _set_threads(args.threads)
    run = artefact.open_run(args.folder)
    graph = _training_graph(run, args.device)
    seed = run.meta["seed"]
    founds = [_on_device(run.found, args.device)]
    founds += [_search_again(run, graph, seed + s, args.quiet) for s in range(1, args.searches)]
    result = _result(run, founds, [_retrain_all(run, graph, found, args.seeds, args.quiet) for found in founds])
    artefact.replace_file(run.folder / "evaluate.json", artefact.to_json(result).encode())
    print(artefact.to_json(result), end="") if args.json else _evaluate_table(result, run.folder / "evaluate.json")
    return 0


def _search_again(run: "Run", graph: "Graph", seed: int, quiet: bool) -> "Found":
    from gassip.search import search as run_search

    settings = run.found.settings
    with progress(f"search, seed {seed}", settings.epochs, quiet) as show:
        return run_search(graph, settings, seed=seed, metric=run.meta["metric"], on_epoch=show)


def _retrain_all(run: "Run", graph: "Graph", found: "Found", count: int, quiet: bool) -> "list[Solution]":
    from gassip.retrain import retrain

    solutions = []
    with progress("retrain", count, quiet) as show:
        for r in range(count):
            solution = retrain(graph, found, seed=run.meta["seed"] + r, metric=run.meta["metric"])
            solutions.append(solution)
            value = solution.scores.get(run.meta["metric"], {}).get("val", float("nan"))
            show({"epoch": r + 1, "val_score": value, "architecture": str(found.architecture)})
    return solutions


def _on_device(found: "Found", device: str) -> "Found":
    from dataclasses import replace

    return replace(found, edge_keep=found.edge_keep.to(device), edge_mask=found.edge_mask.to(device))


def _result(run: "Run", founds: "list[Found]", solutions: "list[list[Solution]]") -> dict[str, Any]:
    """evaluate.json: per metric and split, mean and deviations over [searches][retrainings]."""
    first, seed = solutions[0][0].scores, run.meta["seed"]
    scores: dict[str, dict[str, Any]] = {metric: {} for metric in first}
    for metric, splits in first.items():
        for split in splits:
            scores[metric][split] = spread([[s.scores[metric][split] for s in own] for own in solutions])
    return {
        "dataset": run.meta["dataset"],
        "metric": run.meta["metric"],
        "search_seeds": [seed + s for s in range(len(solutions))],
        "retrain_seeds": [seed + r for r in range(len(solutions[0]))],
        "architectures": [list(found.architecture.ops) for found in founds],
        "weights_kept": [own[0].weights_kept for own in solutions],
        "edges_kept": [own[0].edges_kept for own in solutions],
        "scores": scores,
    }


def spread(values: list[list[float]]) -> dict[str, Any]:
    """Mean; deviation over all; over the searches' means; over retrainings within a search (null for one)."""
    means = [fmean(own) for own in values]
    within = [stdev(own) for own in values] if len(values[0]) > 1 else []
    flat = [value for own in values for value in own]
    return {
        "mean": fmean(flat),
        "std": stdev(flat) if len(flat) > 1 else None,
        "std_searches": stdev(means) if len(means) > 1 else None,
        "std_retrains": fmean(within) if within else None,
        "values": values,
    }


def _evaluate_table(result: dict[str, Any], written: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    searches, retrains = len(result["search_seeds"]), len(result["retrain_seeds"])
    table = Table(title=f"{result['dataset']}: {searches} × search, {retrains} × retrain")
    columns = ["metric", "split", "mean ± deviation"] + ["over searches", "over retrains"] * (searches > 1)
    for column in columns:
        table.add_column(column)
    for metric, splits in result["scores"].items():
        for split, own in splits.items():
            more = [_number(own["std_searches"]), _number(own["std_retrains"])] if searches > 1 else []
            table.add_row(metric, split, f"{own['mean']:.4f} ± {_number(own['std'])}", *more)
    Console(markup=False, highlight=False).print(table)
    print("architectures: " + ", ".join(" ‖ ".join(ops) for ops in result["architectures"]))
    print(f"written to {written}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


# gassip predict


def predict(args: argparse.Namespace) -> int:
    import torch

    from gassip import artefact
    from gassip.retrain import predict as class_scores

    out = Path(args.out)
    if out.exists() and not args.overwrite:
        raise GassipError(f"{out} exists; choose another --out, or --overwrite to replace it")
    run = artefact.open_run(args.folder)
    graph, ids = _graph_to_label(run, args.data)
    share = torch.softmax(class_scores(run.model, graph).double(), 1)
    best = share.max(1)
    names = [run.meta["class_names"][k] for k in best.indices.tolist()]
    artefact.replace_file(out, _labels_csv(ids, names, best.values.tolist()).encode())
    print(f"written to {out}: {graph.num_nodes} nodes")
    return 0


def _labels_csv(ids: Sequence[str], names: Sequence[str], share: Sequence[float]) -> str:
    import csv

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("id", "label", "probability"))
    writer.writerows((i, name, f"{p:.6f}") for i, name, p in zip(ids, names, share, strict=True))
    return text.getvalue()


def _graph_to_label(run: "Run", path: str | None) -> "tuple[Graph, Sequence[str]]":
    """The graph and its nodes' ids; where it is the one of the run, with the kept edges only."""
    from dataclasses import replace

    from gassip.artefact import inputs_fingerprint

    source = run.meta["source"]
    if path is None:
        graph = _training_graph(run, "cpu")
        path = source.get("path", "")
    else:
        graph = _read_inputs(Path(path), run)
        if graph.num_features != run.meta["features"]:
            raise GassipError(
                f"{path}: x has {graph.num_features} features; the run's graph has {run.meta['features']}"
            )
    if inputs_fingerprint(graph) == source.get("inputs_fingerprint"):
        graph = replace(graph, edge_index=run.edge_index, edge_weight=run.edge_weight)
    return graph, _node_ids(Path(path), graph.num_nodes)


def _training_graph(run: "Run", device: str) -> "Graph":
    """The run's graph, loaded again from where it came."""
    from gassip.estimator import on_device

    graph = _load_source(run.meta["source"])
    if graph.fingerprint != run.meta["source"].get("fingerprint"):
        where = run.meta["source"].get("path") or run.meta["source"].get("name")
        raise GassipError(f"{where} is no longer the graph that {run.folder} was made from (its fingerprint differs)")
    return on_device(graph, device)


def _read_inputs(path: Path, run: "Run") -> "Graph":
    """A graph to label: read as for a search, but without asking for labels."""
    from gassip.estimator import inputs_only

    try:
        x, edge_index, weight = _csv_inputs(path) if path.is_dir() else _file_inputs(path)
        options = {name: bool(run.meta["source"].get(name)) for name in ("undirected", "normalize")}
        return inputs_only(
            x, edge_index, edge_weight=weight, class_names=run.meta["class_names"], name=path.stem, **options
        )
    except OSError as error:
        raise GassipError(f"{path}: {error.strerror or error}") from error
    except GassipError as error:
        raise GassipError(f"{path}: {error}") from error


def _file_inputs(path: Path) -> "tuple[Any, Any, Any]":
    """x, edge_index and edge_weight of a .npz (y may be absent) or a .pt."""
    import numpy as np

    from gassip import data

    if path.suffix.lower() == ".npz":
        arrays = data._arrays(path, "x", *data.SPARSE_X, "edge_index", "edge_weight")
        parts = data._from_arrays(arrays | {"y": np.zeros(0)})
    elif path.suffix.lower() == ".pt":
        parts = data._read_pt(path)
    else:
        raise GassipError("expected a .npz file, a .pt file or a folder that holds nodes.csv and edges.csv")
    return parts.x, parts.edge_index, parts.edge_weight


def _csv_inputs(folder: Path) -> "tuple[np.ndarray, np.ndarray, np.ndarray | None]":
    """x, edge_index and edge_weight of a folder; columns label and split are passed over where there are any."""
    import numpy as np

    from gassip import data

    header, rows = data._table(folder / "nodes.csv", ("id",))
    columns = [at for at, name in enumerate(header) if name not in ("id", "label", "split")]
    index: dict[str, int] = {}
    x: list[np.ndarray] = []
    for line, row in rows:
        if index.setdefault(row[header.index("id")], len(index)) != len(x):
            raise GassipError(f"nodes.csv line {line}: id {row[header.index('id')]!r} was given before")
        x.append(data._numbers(row, columns, header, f"nodes.csv line {line}"))
    if not columns or not x:
        raise GassipError("nodes.csv has no feature column or no rows")
    return np.stack(x), *data._read_edges(folder / "edges.csv", index)


def _node_ids(path: Path, count: int) -> Sequence[str]:
    """The id column of a folder of CSV files, else the numbers of the rows."""
    from gassip import data

    if not (path / "nodes.csv").is_file():
        return [str(i) for i in range(count)]
    header, rows = data._table(path / "nodes.csv", ("id",))
    return [row[header.index("id")] for _, row in rows]


# gassip datasets


def datasets(args: argparse.Namespace) -> int:
    from gassip.data import DATASETS, available

    known: list[dict[str, Any]] = []
    for name, entry in DATASETS.items():
        sizes = {"nodes": entry.nodes, "edges": entry.edges, "features": entry.features, "classes": entry.classes}
        where = "here" if available(name) else "download" if entry.fetch else "not here"
        about = f"{entry.description}; split {entry.split}"
        known.append({"name": name, "available": where, **sizes, "about": about})
    if args.json:
        print(json.dumps({"datasets": known}))
        return 0
    print(f"{'name':16}{'files':10}{'nodes':>8}{'edges':>11}{'features':>10}{'classes':>9}")
    for own in known:
        numbers = "{nodes:>8,}{edges:>11,}{features:>10,}{classes:>9}".format(**own)
        print(f"{own['name']:16}{own['available']:10}{numbers}\n    {own['about']}")
    print("here: found under $GASSIP_DATA, in the cache or in the package; download: fetched when first used")
    return 0
