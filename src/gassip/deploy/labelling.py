"""Labels of a run's nodes, or of another graph's, as CSV, without torch; and the command line of
`python -m gassip.runtime`."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from gassip.deploy.model import Model, softmax
from gassip.deploy.numpy_graph import Inputs
from gassip.deploy.runtime import load
from gassip.deploy.stored import is_row_run
from gassip.errors import GassipError
from gassip.graph.checks import Array
from gassip.graph.drift import told_once
from gassip.graph.structure import made_features
from gassip.runs.format import Precision, labels_csv, only_here, read_meta


def main(argv: Sequence[str] | None = None) -> int:
    from gassip.commands.common import fail, quiet_libraries

    args = _parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            quiet_libraries()
            return _carry_out(args)
    except GassipError as error:
        return max(fail(line) for line in error.lines)
    except OSError as error:
        where = f"{error.filename}: {error.strerror}" if error.filename else ""
        return fail(where or str(error.strerror or error))
    except MemoryError as error:
        return fail(f"out of memory ({error})")


def _carry_out(args: Any) -> int:
    from gassip.deploy import prediction

    prediction.check_flags(args)
    if args.json is not None:
        return prediction.answer_requests(args)
    if args.add is not None:
        return prediction.label_added(args)
    label(Path(args.folder), args.data, args.out, args.precision)
    return 0


def _parser() -> Any:
    from gassip.commands.common import Parser
    from gassip.deploy import prediction

    parser = Parser(
        prog="python -m gassip.runtime", description="Label nodes from a run, without torch."
    )
    parser.add_argument(
        "folder", metavar="RUN", help="folder that `gassip search` or `gassip export` wrote"
    )
    parser.add_argument(
        "--data", metavar="PATH", help="another graph: .npz, or folder with nodes.csv and edges.csv"
    )
    prediction.new_node_flags(parser)
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="CSV to write: id, label, probability; - is stdout (default with --json)",
    )
    parser.add_argument(
        "--precision",
        choices=get_args(Precision),
        help="round the weights first, and say at what cost",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace FILE where it exists")
    return parser


def label(folder: Path, data: str | None, out: str, precision: Precision | None) -> None:
    """Write the labels of the run's nodes, or of those of `data`, and say what a lower precision
    costs."""
    from gassip.deploy.prediction import tell

    if data is None and is_row_run(read_meta(folder)):
        from gassip.commands.common import warn
        from gassip.deploy.row_runs import write_labels

        if precision is not None:
            raise GassipError("--precision is not for the graph folder of a search on rows")
        return write_labels(folder, None, out, warn)
    model = load(folder, precision=precision)
    inputs, ids = _to_label(model, data)
    best, text = _labels(model, inputs, ids)
    tell(text, out)
    if precision not in (None, "float32"):
        print(
            cost(
                precision, best, load(folder).run(inputs).argmax(1), model if data is None else None
            )
        )


def label_text(folder: Path, data: str | None) -> str:
    """The CSV of `label`."""
    model = load(folder)
    return _labels(model, *_to_label(model, data))[1]


def _labels(model: Model, inputs: Inputs, ids: Sequence[str]) -> tuple[Array, str]:
    """The classes, and a CSV of ids, labels and probabilities."""
    probs = softmax(model.run(inputs))
    best = probs.argmax(1)
    names = [model.class_names[k] for k in best]
    return best, labels_csv(ids, names, probs.max(1).tolist())


def _to_label(model: Model, data: str | None) -> tuple[Inputs, Sequence[str]]:
    from gassip.commands.common import warn
    from gassip.graph.files import naming, read_inputs, row_numbers

    if data is None:
        return model.stored, model.ids or row_numbers(model.edges.shape[0])
    parts = read_inputs(data, model.preparation)
    with naming(data):
        if parts.bare:
            weight, ids = parts.edge_weight, parts.node_ids()
            x = made_features(model.structure, parts.edge_index, weight, ids)
            parts = replace(parts, x=x)
        inputs = model.prepare(parts.x, parts.edge_index, parts.edge_weight)
        lines = list(parts.notes)
        if inputs.edges is not model.edges:
            only_here(model.structure, parts.ids)
            lines = told_once(lines, model.drift(parts.x, parts.edge_index, parts.edge_weight))
            lines += [model.elsewhere] if model.elsewhere else []
    for line in lines:
        warn(line)
    return inputs, parts.node_ids()


def cost(precision: str, rounded: Array, whole: Array, known: Model | None) -> str:
    """Labels that differ from float32's, and both accuracies where the test nodes are known."""
    differ = int((rounded != whole).sum())
    text = (
        f"{precision} against float32: {differ} of {whole.size} labels differ "
        f"({differ / whole.size:.2%})"
    )
    if known is None or known.y is None or known.test_mask is None or not known.test_mask.any():
        return text
    y, test = known.y[known.test_mask], known.test_mask
    return (
        f"{text}; test accuracy {np.mean(rounded[test] == y):.4f}, float32 "
        f"{np.mean(whole[test] == y):.4f}"
    )
