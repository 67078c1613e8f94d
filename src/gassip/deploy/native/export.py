"""`gassip export --format c` and `--format wasm`: compared with the runtime before they are kept.

The C file is compiled with the C compiler of the machine and run on the run's graph (on the golden
graph where the run was saved without its inputs). Where there is no compiler, it is written all the
same, and the line says so: its golden rows can be compared on the machine that compiles it. The
JavaScript module is run by node in the same way.
"""

from pathlib import Path

from gassip.deploy.export import check
from gassip.deploy.labelling import cost
from gassip.deploy.native.c_file import c_file, c_name
from gassip.deploy.native.compiled import REPEATS, compiled
from gassip.deploy.native.graphs import graph_arrays
from gassip.deploy.native.in_node import in_node
from gassip.deploy.native.net import NativeNet, NativePrecision, native_net
from gassip.deploy.native.sample import Golden, golden
from gassip.deploy.native.wasm_file import wasm_file
from gassip.deploy.runtime import load
from gassip.runs.format import check_file, replace_file


def to_c(
    folder: str | Path,
    out: str | Path,
    *,
    precision: NativePrecision = "float32",
    with_graph: bool = False,
    overwrite: bool = False,
) -> str:
    """Write the file, and return the lines that say so."""
    out = Path(out)
    check_file(out, overwrite)
    name, net = c_name(out.stem), native_net(folder, precision)
    rows = golden(net)
    text = c_file(net, name, rows, net.model.stored if with_graph else None)
    compared = _compared(net, name, text, rows)
    replace_file(out, text.encode())
    size = f"written to {out}: {len(text):,} bytes of C, weights {net.weights_bytes:,} bytes"
    return "\n".join([size, compared, *_rounding(folder, net, precision)])


def _compared(net: NativeNet, name: str, text: str, rows: Golden) -> str:
    """Refuse what differs from the runtime; else the size and the speed."""
    inputs = rows.inputs if net.model.x is None else net.model.stored
    with compiled(text, name, net.classes) as made:
        if made is None:
            return (
                "not compiled here: there is no C compiler (cc, gcc, clang or $CC); compile with "
                "-DGASSIP_MAIN where there is one, and run it: it compares its golden rows"
            )
        library, size = made
        scores, seconds = library.passes(inputs, REPEATS)
        check(lambda: scores, net.model.run(inputs), runs=1, by="the runtime")
        check(lambda: library.scores(rows.inputs), rows.scores, runs=1, by="the runtime")
        new = library.new_node(rows.inputs, rows.new_x, rows.neighbours)
        check(lambda: new[None], rows.new_scores[None], runs=1, by="the runtime")
    return (
        f"compiled: object {size:,} bytes, {inputs.x.shape[0]:,} nodes in {1e3 * seconds:.3g} ms "
        f"of CPU time; agrees with the runtime"
    )


def _rounding(folder: str | Path, net: NativeNet, precision: str) -> list[str]:
    """What fewer bits cost, where the graph is known."""
    if precision == "float32" or net.model.x is None:
        return []
    return [cost(precision, net.model.predict(), load(folder).predict(), net.model)]


def to_wasm(
    folder: str | Path,
    out: str | Path,
    *,
    precision: NativePrecision = "float32",
    with_graph: bool = False,
    overwrite: bool = False,
) -> str:
    """Write the module, and return the lines that say so."""
    out = Path(out)
    check_file(out, overwrite)
    net = native_net(folder, precision)
    graph = graph_arrays(net.model.stored) if with_graph else None
    ids = list(net.model.ids) if with_graph and net.model.ids else None
    text = wasm_file(net, graph, ids)
    compared = compared_in_node(net, text)
    replace_file(out, text.encode())
    size = f"written to {out}: {len(text):,} bytes of JavaScript with WebAssembly and weights"
    return "\n".join([size, compared, *_rounding(folder, net, precision)])


def compared_in_node(net: NativeNet, text: str) -> str:
    """Refuse what differs from the runtime; else the speed."""
    rows = golden(net)
    inputs = rows.inputs if net.model.x is None else net.model.stored
    ran = in_node(text, inputs, rows)
    if ran is None:
        return "not run here: there is no node; its module of WebAssembly is the tested one"
    check(lambda: ran.scores, net.model.run(inputs), runs=1, by="the runtime")
    check(lambda: ran.new_scores[None], rows.new_scores[None], runs=1, by="the runtime")
    nodes = f"{inputs.x.shape[0]:,} nodes in {ran.milliseconds:.3g} ms"
    return f"run by node: {nodes}; agrees with the runtime"
