"""gassip export: a run as a small folder for gassip.runtime, or as an ONNX or ExecuTorch file."""

import argparse
from typing import Any, get_args

from gassip.commands.common import command
from gassip.errors import GassipError
from gassip.runs.format import Precision


def add(commands: Any) -> None:
    example = "gassip export runs/cora --format onnx --out cora.onnx"
    parser = command(commands, run, "export", "write a run in a form to deploy", example)
    parser.add_argument("folder", metavar="RUN", help="folder that `gassip search` wrote")
    parser.add_argument(
        "--format", choices=("runtime", "onnx", "executorch"), required=True, help="what to write"
    )
    parser.add_argument(
        "--out",
        metavar="PATH",
        required=True,
        help="folder (runtime) or file (onnx, executorch) to write",
    )
    parser.add_argument(
        "--precision",
        choices=get_args(Precision),
        help="of the weights in runtime (default float32)",
    )
    parser.add_argument(
        "--without-inputs", action="store_true", help="runtime: leave out the features and labels"
    )
    parser.add_argument(
        "--dynamic",
        action="store_true",
        help="onnx: any graph as input, not the run's own built in",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace PATH where it exists")


def run(args: argparse.Namespace) -> int:
    _check_flags(args)
    from gassip.deploy import export

    if args.format == "onnx":
        size = export.to_onnx(args.folder, args.out, dynamic=args.dynamic, overwrite=args.overwrite)
        print(
            f"written to {args.out}: {size:,} bytes; agrees with torch in {export.RUNS} runs on all threads"
        )
        return 0
    if args.format == "executorch":
        size = export.to_executorch(args.folder, args.out, overwrite=args.overwrite)
        print(
            f"written to {args.out}: {size:,} bytes; agrees with torch in {export.PORTABLE_RUNS} runs"
        )
        return 0
    precision: Precision = args.precision or "float32"
    inputs = not args.without_inputs
    meta = export.to_runtime(
        args.folder, args.out, precision=precision, inputs=inputs, overwrite=args.overwrite
    )
    sizes = ", ".join(
        f"{name.removesuffix('.safetensors')} {size:,}" for name, size in meta["bytes"].items()
    )
    print(f"written to {args.out}: bytes {sizes}\n{meta['agreement']}")
    return 0


def _check_flags(args: argparse.Namespace) -> None:
    """A flag of another format would be ignored silently."""
    if args.format != "runtime" and (args.precision or args.without_inputs):
        raise GassipError("--precision and --without-inputs belong to --format runtime")
    if args.format != "onnx" and args.dynamic:
        raise GassipError(
            "--dynamic belongs to --format onnx; the runtime takes any graph as it is"
        )
