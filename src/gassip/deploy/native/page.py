"""`gassip export --format html`: one page that runs the net, without a network.

page.html with page.css, the constants of wasm_file.py, loader.js and page.js inside. The page's
policy (Content-Security-Policy) allows no request. Text of the run reaches the page as a JSON
literal and is shown as text, never as markup.
"""

import html
from pathlib import Path

from gassip.deploy.native.export import compared_in_node
from gassip.deploy.native.net import NativeNet, NativePrecision, native_net
from gassip.deploy.native.page_graph import PageGraph, page_graph
from gassip.deploy.native.wasm_file import constants, read, wasm_file
from gassip.draw.svg import COLOURS, DARK, LIGHT, variables
from gassip.runs.format import check_file, read_meta, replace_file


def to_html(
    folder: str | Path,
    out: str | Path,
    *,
    precision: NativePrecision = "float32",
    overwrite: bool = False,
) -> str:
    """Write the page, and return the lines that say so."""
    out = Path(out)
    check_file(out, overwrite)
    net = native_net(folder, precision)
    graph = page_graph(net)
    compared = compared_in_node(net, wasm_file(net, None))
    text = page(net, graph, str(read_meta(Path(folder)).get("dataset") or "a graph"))
    replace_file(out, text.encode())
    size = f"written to {out}: {len(text.encode()):,} bytes; open it in a browser"
    return "\n".join([size, compared, *_sampled(net, graph)])


def _sampled(net: NativeNet, graph: PageGraph) -> list[str]:
    held, nodes = graph.nodes.size, net.model.edges.shape[0]
    if held == nodes:
        return []
    return [
        f"the page holds {held:,} of {nodes:,} nodes; {graph.differ(net.model):,} of their labels "
        f"differ from those on the whole graph"
    ]


def page(net: NativeNet, graph: PageGraph, name: str) -> str:
    """The text of the page."""
    data = constants(net, graph.arrays, _meta(net, graph, name))
    parts = {
        "TITLE": html.escape(f"{name}: a net that runs in this page"),
        "STYLE": _palette() + read("page.css"),
        "SCRIPT": f"{data}\n{read('loader.js')}\n{read('page.js')}",
    }
    text = read("page.html")
    for key, value in parts.items():
        before, after = text.split(f"@@{key}@@")
        text = before + value + after
    return text


def _palette() -> str:
    dark = f"@media (prefers-color-scheme:dark){{:root{{{variables(DARK)}}}}}"
    return f":root{{{variables(LIGHT)}}}{dark}\n"


def _meta(net: NativeNet, graph: PageGraph, name: str) -> dict[str, object]:
    """What the page says besides class names and preparation."""
    model, nodes = net.model, graph.nodes
    index = model.feature_index
    return {
        "name": name,
        "architecture": [layer.op for layer in model.layers],
        "weights": sum(int(layer.weight.size + layer.bias.size) for layer in net.layers),
        "nodes": int(model.edges.shape[0]),
        "differ": graph.differ(model),
        "undirected": model.undirected,
        "normalize": model.normalize,
        "ids": [str(node) if model.ids is None else model.ids[node] for node in nodes.tolist()],
        "known": None if model.y is None else model.y[nodes].tolist(),
        "index": None if index is None else index.tolist(),
        "drawn": graph.drawn.tolist(),
        "places": graph.places.round(4).tolist(),
        "colours": COLOURS,
    }
