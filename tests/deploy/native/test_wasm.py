"""The WebAssembly module: rebuilt and compared; every operation in node against the runtime."""

import importlib.util
import json
import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from gassip.cli import main
from gassip.deploy.native import export as exporting
from gassip.deploy.native import wasm_file as writing
from gassip.deploy.native.export import compared_in_node, to_wasm
from gassip.deploy.native.graphs import graph_arrays
from gassip.deploy.native.in_node import Ran, in_node, node
from gassip.deploy.native.net import NativePrecision, native_net
from gassip.deploy.native.net_bytes import net_bytes
from gassip.deploy.native.page import to_html
from gassip.deploy.native.sample import golden
from gassip.deploy.native.wasm_file import NAMES, js, read, wasm_file
from gassip.errors import GassipError
from gassip.operations import OPERATIONS
from tests.deploy.native.test_c import MakeGraph, save

ROOT = Path(__file__).parents[3]


def load_builder() -> ModuleType:
    """tools/build_wasm.py as a module; tools is not a package."""
    spec = importlib.util.spec_from_file_location("build_wasm", ROOT / "tools" / "build_wasm.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build_wasm = load_builder()
needs_node = pytest.mark.skipif(node() is None, reason="there is no node")


def evaluate(folder: Path, text: str, script: str) -> str:
    """What a script prints that imports the module."""
    (folder / "net.mjs").write_text(text, encoding="utf-8")
    (folder / "script.mjs").write_text(
        f'import {{ GassipNet, load, readTensors, rowOf }} from "./net.mjs";\n{script}'
    )
    done = subprocess.run([node() or "", "script.mjs"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(build_wasm.compiler() is None, reason="there is no clang with wasm-ld")
def test_the_shipped_module_is_what_its_source_makes(
    make_graph: MakeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte by the named compiler; by another it computes the same."""
    build_wasm.build(tmp_path / "again.wasm")
    if build_wasm.version() == build_wasm.SHIPPED_BY:
        assert (tmp_path / "again.wasm").read_bytes() == build_wasm.SHIPPED.read_bytes()
    elif node() is not None:
        monkeypatch.setattr(writing, "MODULE", tmp_path / "again.wasm")
        net = native_net(save(tmp_path / "run", make_graph, ("GATConv", "APPNP5")), "float32")
        assert "agrees" in compared_in_node(net, wasm_file(net, None))


@needs_node
@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_node_computes_what_the_runtime_does(
    make_graph: MakeGraph, tmp_path: Path, op: str, norm: str
) -> None:
    directed = op in ("GATConv", "APPNP5", "TAG3")
    run = save(
        tmp_path / "run",
        make_graph,
        (op, op),
        undirected=not directed,
        sparse=directed,
        label_weight=0.5 * directed,
        norm=norm,
    )
    net = native_net(run, "int8" if directed else "float32")
    rows = golden(net)
    ran = in_node(wasm_file(net, None), net.model.stored, rows)
    assert ran is not None
    np.testing.assert_allclose(ran.scores, net.model.run(net.model.stored), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ran.new_scores, rows.new_scores, rtol=1e-4, atol=1e-4)


@needs_node
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_deep_net_with_layer_norm_as_a_module_and_in_a_page(
    make_graph: MakeGraph, tmp_path: Path, precision: NativePrecision
) -> None:
    """All nodes at once, and each alone from its field; a page's own constants, read by node."""
    six = ("SAGEConv", "GCNConv", "GATConv", "Linear", "TAG2", "GCNConv")
    run = save(tmp_path / "run", make_graph, six, norm="layer")
    module, page = tmp_path / "out.mjs", tmp_path / "out.html"
    said = to_wasm(run, module, precision=precision, with_graph=True)
    assert "agrees with the runtime" in said
    assert "agrees with the runtime" in to_html(run, page, precision=precision)
    script = """
const net = await load();
const alone = Array.from({ length: net.nodes }, (_, node) => Array.from(net.scoresOf(node)));
console.log(JSON.stringify([Array.from(net.scores()), alone]));
"""
    net = native_net(run, precision)
    assert [layer.layer_norm for layer in net.layers] == [False, *[True] * 5]
    expected = net.model.run(net.model.stored)
    for text in (module.read_text(), loader_of(page.read_text())):
        scores, alone = json.loads(evaluate(tmp_path, text, script))
        np.testing.assert_allclose(np.reshape(scores, (30, 3)), expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(alone, expected, rtol=1e-4, atol=1e-4)


def loader_of(page: str) -> str:
    """The constants and the loader of a page, as a module."""
    script = page.split("<script>")[1].split(read("page.js"))[0]
    return f"{script}\nexport {{ {NAMES} }};\n"


@needs_node
@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_the_module_alone_labels_its_graph_and_new_nodes(
    make_graph: MakeGraph, tmp_path: Path, norm: str
) -> None:
    run = save(tmp_path / "run", make_graph, ("GCNConv", "SAGEConv"), norm=norm)
    said = to_wasm(run, tmp_path / "out.mjs", with_graph=True)
    assert "agrees with the runtime" in said
    model = native_net(run, "float32").model
    script = """
const net = await load();
const labels = [];
for (let node = 0; node < net.nodes; node++) labels.push(net.label(net.scoresOf(node)));
const x = net.prepare(Float32Array.from([0, 1, 2, 3, 4, 5, 6, 7, 8]));
const added = net.scoresOfNew(x, [2, 5], [1, 0.5]);
const sum = net.probabilities(added).reduce((a, b) => a + b);
console.log(JSON.stringify([labels, Array.from(added), sum]));
"""
    said = evaluate(tmp_path, (tmp_path / "out.mjs").read_text(), script)
    labels, added, total = json.loads(said)
    assert labels == [model.class_names[k] for k in model.predict()]
    ends = np.array([[2, 5], [30, 30]])
    larger = model.extend(np.arange(9, dtype=np.float32)[None], ends, np.array([1, 0.5]))
    np.testing.assert_allclose(added, larger.scores(nodes=[30])[0], rtol=1e-4, atol=1e-4)
    assert total == pytest.approx(1)


@needs_node
def test_what_does_not_fit_is_refused_in_words(make_graph: MakeGraph, tmp_path: Path) -> None:
    """Damaged bytes, graphs that do not fit, nodes that are not there: no trap, no wrong label."""
    run = save(tmp_path / "run", make_graph, ("GATConv", "SAGEConv"))
    net = native_net(run, "float32")
    script = """
const module = await inflate(MODULE), bytes = new Uint8Array(await inflate(NET));
const said = new Set();
const attempt = async (what) => {
  try { await what(); return "taken"; } catch (error) { return error.message; }
};
for (let length = 0; length < bytes.length; length += 37)
  said.add(await attempt(() => GassipNet.open(module, bytes.slice(0, length), META)));
const sizes = [0, 1, 2, 3, 5, 8, 9, 15, 16, 20, 21, 22, 23, 24, 25, 26, 30, 31, 32, 33, 34];
for (const word of sizes) {
  const bad = bytes.slice();
  new DataView(bad.buffer).setInt32(4 * word, -77, true);
  said.add(await attempt(() => GassipNet.open(module, bad, META)));
}
console.log(JSON.stringify([...said]));
const net = await load();
const graph = net.graph;
const changed = (more) => attempt(() => net.setGraph({ ...graph, ...more }));
console.log(await changed({ sender: Int32Array.from(graph.sender, () => 99) }));
console.log(await changed({ indptr: Int32Array.from(graph.indptr).reverse() }));
console.log(await changed({ x: new Float32Array(3) }));
console.log(await changed({ labels: new Int32Array(30).fill(3) }));
console.log(await attempt(() => net.scoresOf(30)));
console.log(await attempt(() => net.scoresOfNew(new Float32Array(5), [1, 1])));
console.log(await attempt(() => net.scoresOfNew(new Float32Array(4), [1])));
console.log(await attempt(() => net.prepare([1, 2])));
"""
    text = wasm_file(net, graph_arrays(net.model.stored))
    text = text.replace("export {", "export { inflate, META, MODULE, NET,")
    script = 'import { inflate, META, MODULE, NET } from "./net.mjs";\n' + script
    lines = evaluate(tmp_path, text, script).splitlines()
    assert json.loads(lines[0]) == ["the net's bytes are damaged"]
    expected = [
        "edges refer to 99 of 30",
        "edges do not fit 30 nodes",
        "x does not have 30 rows of 5 features",
        "a label is not among the 3 classes",
        "there is no such node",
        "a neighbour is given twice",
        "x has 4 features, not 5",
        "the row has 2 features, not 9",
    ]
    assert lines[1:] == expected


def test_bytes_of_a_net_by_hand(make_graph: MakeGraph, tmp_path: Path) -> None:
    """15 words, 10 of the layer, 5 x 3 weights, 3 biases, 5 columns that are read."""
    net = native_net(save(tmp_path / "run", make_graph, ("GCNConv",)), "float32")
    words = np.frombuffer(net_bytes(net), dtype="<i4")
    assert words.size == 15 + 10 + 15 + 3 + 5
    assert words[:8].tolist() == [0x324E4E47, 1, 5, 3, 1, 9, 0, 1]
    assert words[15:25][[0, 5, 6, 7, 8, 9]].tolist() == [1, 1, 5, 3, 1, 0]
    np.testing.assert_array_equal(words[25:40].view("<f4"), net.layers[0].weight.ravel())
    assert net.model.feature_index is not None
    np.testing.assert_array_equal(words[43:], net.model.feature_index)
    small = native_net(tmp_path / "run", "int8")
    assert len(net_bytes(small)) == 4 * (15 + 10 + 4 + 3 + 3 + 5)  # 15 int8 fill four words


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_flags_of_a_norm_by_hand(make_graph: MakeGraph, tmp_path: Path, norm: str) -> None:
    """4: a factor and a shift for each column, as of the features; 8: of layer norm."""
    run = save(tmp_path / "run", make_graph, ("Linear", "Linear"), norm=norm)
    words = np.frombuffer(net_bytes(native_net(run, "float32")), dtype="<i4")
    assert words[[24, 34]].tolist() == [4, 4 + 8 * (norm == "layer")]


@needs_node
def test_words_that_ask_for_what_is_not_there_are_refused(
    make_graph: MakeGraph, tmp_path: Path
) -> None:
    """As above: the magic of an earlier format; layer norm of the features, without factors and
    shifts, and as it should be; a flag that is not known."""
    script = """
const bytes = new Uint8Array(await inflate(NET));
new DataView(bytes.buffer).setInt32(4 * WORD, VALUE, true);
const opened = GassipNet.open(await inflate(MODULE), bytes, META);
console.log(await opened.then(() => "taken", (error) => error.message));
"""
    tried = [("batch", 0, 0x314E4E47), ("batch", 24, 4 + 8), ("none", 34, 8), ("batch", 34, 4 + 16)]
    said = []
    for norm, word, value in [*tried, ("batch", 34, 4 + 8)]:
        run = save(tmp_path / f"{norm}-{word}-{value}", make_graph, ("Linear", "Linear"), norm=norm)
        text = wasm_file(native_net(run, "float32"), None)
        text = text.replace("export {", "export { inflate, META, MODULE, NET,")
        names = 'import { inflate, META, MODULE, NET } from "./net.mjs";\n'
        own = script.replace("WORD", str(word)).replace("VALUE", str(value))
        said.append(evaluate(tmp_path, text, names + own).strip())
    assert said == ["the net's bytes are damaged"] * 4 + ["taken"]


def test_text_in_a_script_is_escaped() -> None:
    text = js({"a": "</script><!-- & \u2028 é"})
    assert not set("<>&\u2028é") & set(text)
    assert json.loads(text) == {"a": "</script><!-- & \u2028 é"}


def test_the_command_says_what_it_did(
    make_graph: MakeGraph,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = str(save(tmp_path / "run", make_graph, ("GCNConv",)))
    command = ["export", run, "--format", "wasm", "--out", str(tmp_path / "net.mjs")]
    monkeypatch.setattr("gassip.deploy.native.in_node.node", lambda: None)
    assert main([*command, "--precision", "int8"]) == 0
    said = capsys.readouterr().out
    assert "not run here: there is no node" in said and "int8 against float32" in said
    wrong = Ran(np.zeros((30, 3), dtype=np.float32), np.zeros(3, dtype=np.float32), 1.0)
    monkeypatch.setattr(exporting, "in_node", lambda *given: wrong)
    with pytest.raises(GassipError, match="does not agree with the runtime"):
        to_wasm(run, tmp_path / "other.mjs")
    assert not (tmp_path / "other.mjs").exists()
