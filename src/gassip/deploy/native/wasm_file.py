"""A net as one JavaScript module: loader.js, and the WebAssembly and the weights as base64 of gzip.

The constants META, MODULE, NET and GRAPH, then the loader. The text of a run (class names, columns,
ids) stands in JSON literals alone, in which `<` and everything beyond ASCII is escaped: the same
constants stand in a page.
"""

import gzip
import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import asdict

from gassip import __version__
from gassip.deploy.native.graphs import GraphArrays
from gassip.deploy.native.net import FOLDER, NativeNet
from gassip.deploy.native.net_bytes import net_bytes
from gassip.runs.format import write_tensors

MODULE = FOLDER / "gassip.wasm"
LOADER = FOLDER / "loader.js"
NAMES = "GassipNet, load, readTensors, rowOf, best"


def wasm_file(net: NativeNet, graph: GraphArrays | None, ids: list[str] | None = None) -> str:
    """The text of the module; with `graph`, that one is in it."""
    head = f"// A graph neural network in WebAssembly, written by gassip {__version__}."
    return "\n".join(
        [head, constants(net, graph, {"ids": ids}), read(LOADER.name), f"export {{ {NAMES} }};\n"]
    )


def read(name: str) -> str:
    """A text beside this file."""
    return (FOLDER / name).read_text(encoding="utf-8")


def constants(net: NativeNet, graph: GraphArrays | None, more: Mapping[str, object]) -> str:
    """META, MODULE, NET and GRAPH."""
    model = net.model
    meta = {
        "class_names": model.class_names,
        "features": model.features,
        "preparation": None if model.preparation is None else asdict(model.preparation),
        **more,
    }
    packed = "null" if graph is None else f'"{pack(graph_bytes(graph))}"'
    return (
        f"const META = {js(meta)};\n"
        f'const MODULE = "{pack(MODULE.read_bytes())}";\n'
        f'const NET = "{pack(net_bytes(net))}";\n'
        f"const GRAPH = {packed};\n"
    )


def graph_bytes(graph: GraphArrays) -> bytes:
    """A safetensors file of the arrays that there are."""
    return write_tensors({key: array for key, array in graph.items() if array is not None})


def js(value: object) -> str:
    """A JSON literal that is safe inside of a script element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def pack(content: bytes) -> str:
    return b64encode(gzip.compress(content, 9, mtime=0)).decode()
