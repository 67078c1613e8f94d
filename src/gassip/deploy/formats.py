"""The formats of `gassip export`: what each writes, its own flags, and the function that writes it.

A format is one entry of FORMATS. Its function writes `out` and returns the lines that say so.
numpy and torch are imported by the functions: the command line makes its flags from here.
"""

from collections.abc import Callable
from dataclasses import dataclass

PRECISIONS = ("float32", "float16", "int8")  # as gassip.runs.format, which needs numpy
NATIVE = ("float32", "int8")  # of C and WebAssembly
WEIGHTS = "precision of the weights"
WITH_GRAPH = "put the run's graph and features into the file"
Options = dict[str, bool | str]


@dataclass(frozen=True, kw_only=True)
class Flag:
    """A flag of one format; without choices, a switch."""

    help: str
    choices: tuple[str, ...] = ()  # the first is the default


@dataclass(frozen=True, kw_only=True)
class Format:
    """A form in which a run is deployed."""

    help: str
    write: Callable[[str, str, bool, Options], str]  # run, out, overwrite, given flags
    flags: dict[str, Flag]  # by name, with underscores


def write_runtime(folder: str, out: str, overwrite: bool, given: Options) -> str:
    from gassip.deploy.export import to_runtime

    meta = to_runtime(
        folder,
        out,
        precision=given.get("precision", PRECISIONS[0]),  # type: ignore[arg-type]
        inputs=not given.get("without_inputs", False),
        overwrite=overwrite,
    )
    sizes = (f"{n.removesuffix('.safetensors')} {size:,}" for n, size in meta["bytes"].items())
    return f"written to {out}: bytes {', '.join(sizes)}\n{meta['agreement']}"


def write_onnx(folder: str, out: str, overwrite: bool, given: Options) -> str:
    from gassip.deploy.export import RUNS, to_onnx

    size = to_onnx(folder, out, dynamic=bool(given.get("dynamic", False)), overwrite=overwrite)
    return f"written to {out}: {size:,} bytes; agrees with torch in {RUNS} runs on all threads"


def write_executorch(folder: str, out: str, overwrite: bool, given: Options) -> str:
    from gassip.deploy.export import PORTABLE_RUNS, to_executorch

    size = to_executorch(folder, out, overwrite=overwrite)
    return f"written to {out}: {size:,} bytes; agrees with torch in {PORTABLE_RUNS} runs"


def write_c(folder: str, out: str, overwrite: bool, given: Options) -> str:
    from gassip.deploy.native.export import to_c

    return to_c(
        folder,
        out,
        precision=given.get("precision", NATIVE[0]),  # type: ignore[arg-type]
        with_graph=bool(given.get("with_graph", False)),
        overwrite=overwrite,
    )


def write_wasm(folder: str, out: str, overwrite: bool, given: Options) -> str:
    from gassip.deploy.native.export import to_wasm

    return to_wasm(
        folder,
        out,
        precision=given.get("precision", NATIVE[0]),  # type: ignore[arg-type]
        with_graph=bool(given.get("with_graph", False)),
        overwrite=overwrite,
    )


def write_html(folder: str, out: str, overwrite: bool, given: Options) -> str:
    from gassip.deploy.native.page import to_html

    precision = given.get("precision", NATIVE[0])
    return to_html(folder, out, precision=precision, overwrite=overwrite)  # type: ignore[arg-type]


FORMATS = {
    "runtime": Format(
        help="folder for gassip.runtime, which needs numpy and scipy alone",
        write=write_runtime,
        flags={
            "precision": Flag(help=WEIGHTS, choices=PRECISIONS),
            "without_inputs": Flag(help="leave out the features and labels"),
        },
    ),
    "onnx": Format(
        help="ONNX file",
        write=write_onnx,
        flags={"dynamic": Flag(help="take any graph as input; otherwise the run's is built in")},
    ),
    "executorch": Format(help="ExecuTorch file (.pte)", write=write_executorch, flags={}),
    "c": Format(
        help="one C99 file without libc",
        write=write_c,
        flags={
            "precision": Flag(help=WEIGHTS, choices=NATIVE),
            "with_graph": Flag(help=WITH_GRAPH),
        },
    ),
    "wasm": Format(
        help="one JavaScript module (.mjs) with WebAssembly, for browsers and node",
        write=write_wasm,
        flags={
            "precision": Flag(help=WEIGHTS, choices=NATIVE),
            "with_graph": Flag(help=WITH_GRAPH),
        },
    ),
    "html": Format(
        help="one page that runs the net, offline",
        write=write_html,
        flags={"precision": Flag(help=WEIGHTS, choices=NATIVE)},
    ),
}
