"""A net as one C99 file: core.c, the weights as `static const` arrays, entries, and a test.

    NAME_scores(graph, work, bytes, scores)                    all nodes of a graph
    NAME_scores_node(graph, node, work, bytes, scores)         one of them, from its field
    NAME_scores_new_node(graph, x, count, neighbour, weight, work, bytes, scores)
    NAME_prepare(row, x)                                       a row of raw features made ready
    NAME_work_bytes(nodes, edges, neighbours)                  bytes of `work` that are enough
    NAME_probabilities(scores), NAME_label(scores)

NAME is the file's. With GASSIP_DECLARATIONS defined, including the file declares these alone; with
GASSIP_TEST it has NAME_test(), which compares golden rows and returns how many values are off; with
GASSIP_MAIN a main that runs it. Nothing of the user's text stands outside of string literals.
"""

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gassip import __version__
from gassip.deploy.native.graphs import graph_arrays
from gassip.deploy.native.net import CORE, NativeLayer, NativeNet, Passing
from gassip.deploy.native.sample import Golden
from gassip.deploy.numpy_graph import Inputs
from gassip.errors import GassipError
from gassip.graph.checks import Array

GOLDEN_TOLERANCE = 1e-4  # of a score, or of its share if it is above 1
PER_LINE = 12
KEYWORDS = re.compile(r"[^0-9a-z_]+")


def c_name(stem: str) -> str:
    """The prefix of all names, from the name of the file."""
    name = KEYWORDS.sub("_", stem.lower()).strip("_")
    if not name or not name[0].isalpha():
        raise GassipError(
            f"--out {stem!r} gives C no name; let the file's name begin with a letter of a to z"
        )
    return name


def c_string(text: str) -> str:
    """A literal; every byte that is no plain letter, digit or space in octal."""
    plain = set(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-.,:;()+")
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode()) + '"'


def c_file(net: NativeNet, name: str, golden: Golden, graph: Inputs | None = None) -> str:
    """The text; with `graph`, that one is in it as NAME_run_graph."""
    parts = [_head(net, name), CORE.read_text(encoding="utf-8"), _declarations(net, name, graph)]
    parts += ["#ifndef GASSIP_DECLARATIONS\n", *_tables(net, name), _entries(net, name)]
    if graph is not None:
        parts.append(_graph(f"{name}_run_graph", graph, static=False))
    parts += [*_test(net, name, golden), _main(name), "#endif\n"]
    return "\n".join(parts)


def _head(net: NativeNet, name: str) -> str:
    shape = " x ".join(str(width) for width in [net.read, *(layer.width for layer in net.layers)])
    return f"""\
/* A graph neural network in one file of C99, written by gassip {__version__}: {shape} units.

   cc -std=c99 -O3 -c {name}.c
   cc -std=c99 -O3 -DGASSIP_MAIN {name}.c -o {name} && ./{name}      compares the golden rows

   #define GASSIP_DECLARATIONS
   #include "{name}.c"                                               declares the entries

   The entries return 0, or a value of the enumeration below. `work` is memory of the caller;
   {name}_work_bytes says how much is enough. Nothing else is written to but `scores`. */
"""


def _declarations(net: NativeNet, name: str, graph: Inputs | None) -> str:
    upper, model = name.upper(), net.model
    both = "in both directions" if model.undirected else "to the new node only"
    built_in = f"extern const gassip_graph {name}_run_graph;\n" if graph is not None else ""
    if model.preparation is not None:
        built_in += f"extern const char *const {name}_feature_names[{upper}_FEATURES];\n"
    return f"""
#define {upper}_FEATURES {model.features} /* of a row as the user has it */
#define {upper}_READ {net.read} /* of these the net reads so many: d */
#define {upper}_CLASSES {net.classes}

/* [N, C] of all nodes. */
int {name}_scores(const gassip_graph *graph, void *work, size_t bytes, float *scores);
/* [C] of one node, from the nodes within reach. */
int {name}_scores_node(const gassip_graph *graph, int32_t node, void *work, size_t bytes,
                       float *scores);
/* [C] of a node that is not in the graph: x [d], its neighbours by number, each once, and the
   weights of these edges (0: all 1). The edges count {both}. */
int {name}_scores_new_node(const gassip_graph *graph, const float *x, int32_t count,
                           const int32_t *neighbour, const float *weight, void *work,
                           size_t bytes, float *scores);
size_t {name}_work_bytes(size_t nodes, size_t edges, size_t neighbours);
/* x [d] from a row [{upper}_FEATURES] as the user has it. */
void {name}_prepare(const float *row, float *x);
/* Scores [C] to probabilities, in place; the number of the best. */
void {name}_probabilities(float *scores);
int32_t {name}_label(const float *scores);
extern const char *const {name}_class_names[{upper}_CLASSES];
{built_in}"""


# arrays


def _cells(array: Array) -> Iterator[str]:
    if array.dtype.kind == "f":
        return (f"{value!s}f" for value in array.astype(np.float32).ravel())
    return map(str, array.ravel().tolist())


def c_array(kind: str, name: str, array: Array) -> str:
    """A static array; C has none of length 0."""
    cells = list(_cells(array)) or ["0"]
    lines = (", ".join(cells[at : at + PER_LINE]) for at in range(0, len(cells), PER_LINE))
    return f"static const {kind} {name}[] = {{\n" + ",\n".join(lines) + "};\n"


def _tables(net: NativeNet, name: str) -> Iterator[str]:
    """The weights, the layers and the net."""
    rows = []
    for at, layer in enumerate(net.layers):
        pieces = dict(_pieces(layer))
        for key, array in pieces.items():
            yield c_array(_kind(array), f"{name}_{key}_{at}", array)
        rows.append(_layer_row(layer, lambda key, at=at, has=pieces: _or_0(name, key, at, has)))  # type: ignore[misc]
    yield f"static const layer {name}_layers[] = {{\n" + ",\n".join(rows) + "};\n"
    model = net.model
    yield (
        f"static const net {name}_net = {{{len(net.layers)}, {net.read}, {net.classes}, "
        f"{int(model.undirected)}, {name}_layers, {_passing(net.spread)}, "
        f"{_number(model.label_weight)}, {_number(net.prior_weight)}}};\n"
    )
    if model.feature_index is not None:
        yield c_array("int32_t", f"{name}_index", model.feature_index)
    yield _strings(f"{name}_class_names[{name.upper()}_CLASSES]", model.class_names)
    if model.preparation is not None:  # of a row as gassip.graph.preparation makes it
        features = model.preparation.feature_names
        yield _strings(f"{name}_feature_names[{name.upper()}_FEATURES]", features)


def _strings(name: str, texts: Sequence[str]) -> str:
    return f"const char *const {name} = {{{', '.join(map(c_string, texts))}}};\n"


def _pieces(layer: NativeLayer) -> Iterator[tuple[str, Array]]:
    """The arrays of a layer by core.c's names."""
    yield ("weight" if layer.unit is None else "rounded"), layer.weight
    optional = (("unit", layer.unit), ("bias", layer.bias), ("attention", layer.attention))
    for key, array in (*optional, ("times", layer.times), ("shift", layer.shift)):
        if array is not None:
            yield key, array


def _kind(array: Array) -> str:
    return {"f": "float", "i": "int8_t" if array.itemsize == 1 else "int32_t"}[array.dtype.kind]


def _or_0(name: str, key: str, at: int, has: dict[str, Array]) -> str:
    return f"{name}_{key}_{at}" if key in has else "0"


def _layer_row(layer: NativeLayer, pointer: Callable[[str], str]) -> str:
    order = ("weight", "rounded", "unit", "bias", "attention", "times", "shift")
    pointers = ", ".join(map(pointer, order))
    sizes = f"{layer.matrices}, {layer.weight.shape[0]}, {layer.width}, {layer.heads}"
    norm = int(layer.layer_norm)
    return f"    {{{_passing(layer.passing)}, {sizes}, {pointers}, {norm}}}"


def _passing(passing: Passing) -> str:
    factors = ", ".join(map(_number, (passing.scale, passing.back, passing.start)))
    return f"{{{passing.norm}, {passing.steps}, {factors}}}"


def _number(value: float) -> str:
    return f"{np.float32(value)!s}f"


def _entries(net: NativeNet, name: str) -> str:
    index = "0" if net.model.feature_index is None else f"{name}_index"
    upper = name.upper()
    return f"""\
int {name}_scores(const gassip_graph *graph, void *work, size_t bytes, float *scores) {{
    return all_nodes(&{name}_net, graph, work, bytes, scores);
}}

int {name}_scores_node(const gassip_graph *graph, int32_t node, void *work, size_t bytes,
                       float *scores) {{
    return known_node(&{name}_net, graph, node, work, bytes, scores);
}}

int {name}_scores_new_node(const gassip_graph *graph, const float *x, int32_t count,
                           const int32_t *neighbour, const float *weight, void *work,
                           size_t bytes, float *scores) {{
    newcomer one;
    one.x = x, one.count = count, one.neighbour = neighbour, one.weight = weight;
    return new_node(&{name}_net, graph, &one, work, bytes, scores);
}}

size_t {name}_work_bytes(size_t nodes, size_t edges, size_t neighbours) {{
    return work_for(&{name}_net, nodes, edges, neighbours);
}}

void {name}_prepare(const float *row, float *x) {{
    prepare(row, {upper}_FEATURES, {int(net.model.normalize)}, {index}, {upper}_READ, x);
}}

void {name}_probabilities(float *scores) {{ softmax(scores, {upper}_CLASSES); }}

int32_t {name}_label(const float *scores) {{
    int32_t c, best = 0;
    for (c = 1; c < {upper}_CLASSES; c++)
        if (scores[c] > scores[best]) best = c;
    return best;
}}
"""


# graphs


def _graph(name: str, inputs: Inputs, *, static: bool) -> str:
    """A gassip_graph and the arrays that it points to."""
    out, pointers = [], []
    for key, array in graph_arrays(inputs).items():
        pointers.append("0" if array is None else f"{name}_{key}")
        if array is not None:
            out.append(c_array(_kind(array), f"{name}_{key}", array))
    kind = "static const" if static else "const"
    nodes = inputs.x.shape[0]
    return "".join(out) + f"{kind} gassip_graph {name} = {{{nodes}, {', '.join(pointers)}}};\n"


# the test in the file


def _test(net: NativeNet, name: str, golden: Golden) -> Iterator[str]:
    inputs = golden.inputs
    nodes, edges, count = inputs.x.shape[0], inputs.edges.nnz, golden.neighbours.size
    yield "#if defined(GASSIP_TEST) || defined(GASSIP_MAIN)\n"
    yield _graph(f"{name}_golden", inputs, static=True)
    yield c_array("float", f"{name}_golden_scores", golden.scores)
    yield c_array("float", f"{name}_golden_new_x", golden.new_x)
    yield c_array("int32_t", f"{name}_golden_neighbours", golden.neighbours)
    yield c_array("float", f"{name}_golden_new_scores", golden.new_scores)
    yield f"""\
#define GOLDEN_NODES {nodes}
static float {name}_golden_work[{work_floats(net, nodes, edges, count)}];

static int {name}_differ(const float *got, const float *expected, int32_t count) {{
    int32_t k, wrong = 0;
    for (k = 0; k < count; k++) {{
        float size = expected[k] < 0 ? -expected[k] : expected[k], off = got[k] - expected[k];
        float most = {_number(GOLDEN_TOLERANCE)} * (size > 1.0f ? size : 1.0f);
        wrong += !(off <= most && off >= -most);
    }}
    return wrong;
}}

int {name}_test(void);
int {name}_test(void) {{
    static float scores[GOLDEN_NODES * {net.classes}];
    const int32_t classes = {net.classes};
    size_t bytes = sizeof {name}_golden_work;
    int32_t i;
    int wrong = {name}_scores(&{name}_golden, {name}_golden_work, bytes, scores) != GASSIP_DONE;
    wrong += {name}_differ(scores, {name}_golden_scores, GOLDEN_NODES * classes);
    for (i = 0; i < GOLDEN_NODES; i++) {{
        wrong += {name}_scores_node(&{name}_golden, i, {name}_golden_work, bytes, scores) != 0;
        wrong += {name}_differ(scores, {name}_golden_scores + i * classes, classes);
    }}
    wrong += {name}_scores_new_node(&{name}_golden, {name}_golden_new_x, {count},
                                    {name}_golden_neighbours, 0, {name}_golden_work, bytes,
                                    scores) != GASSIP_DONE;
    return wrong + {name}_differ(scores, {name}_golden_new_scores, classes);
}}

#endif
"""


def work_floats(net: NativeNet, nodes: int, edges: int, neighbours: int) -> int:
    """core.c's `work_for`, in floats."""
    widest = max([net.classes, *(layer.matrices * layer.width for layer in net.layers)])
    heads = max(layer.heads for layer in net.layers)
    reach = sum(layer.passing.steps for layer in net.layers if layer.passing.norm)
    lists = 3 * (nodes + 1) + 1 + 2 * (edges + 2 * neighbours)
    cells = (nodes + 1) * (3 * widest + 2 * heads + 2)
    return cells + lists + reach + net.spread.steps + 1 + net.classes + 64


def _main(name: str) -> str:
    return f"""\
#ifdef GASSIP_MAIN
#include <stdio.h>

int main(void) {{
    int wrong = {name}_test();
    if (wrong) printf("%d values differ from the golden ones\\n", wrong);
    else printf("the golden rows agree\\n");
    return wrong != 0;
}}
#endif
"""
