"""The C file: every operation against the runtime, on this machine and on a bare Cortex-M4."""

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from gassip.cli import main
from gassip.deploy import runtime
from gassip.deploy.native import compiled as compiling
from gassip.deploy.native.c_file import c_file, c_name, c_string, work_floats
from gassip.deploy.native.compiled import compiled, compiler
from gassip.deploy.native.export import to_c
from gassip.deploy.native.net import (
    NORMS,
    OPERATION_FIELDS,
    OPERATION_IGNORED,
    NativePrecision,
    native_net,
    refuse_unknown,
)
from gassip.deploy.native.sample import golden, joined
from gassip.deploy.numpy_graph import Inputs
from gassip.errors import GassipError
from gassip.graph.checks import clean_edges
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture
from gassip.operations import NORMS as ALL_NORMS
from gassip.operations import OPERATIONS, Operation
from tests.saved_runs import random_net, save_run

MakeGraph = Callable[..., Graph]
HERE = Path(__file__).parent
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
ARM = "-O2 -mthumb -mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16 -ffreestanding -nostdlib"
needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


Word = str | Path


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings are errors; little is gained by speed."""
    monkeypatch.setattr(compiling, "FLAGS", (*STRICT, "-O1"))


def execute(*words: Word) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([str(word) for word in words], capture_output=True, text=True)


def succeed(*words: Word) -> str:
    done = execute(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def save(
    folder: Path,
    make_graph: MakeGraph,
    ops: tuple[str, ...],
    *,
    label_weight: float = 0,
    undirected: bool = True,
    sparse: bool = False,
    norm: str = "batch",
) -> Path:
    graph = make_graph(
        3, nodes=30, edges=60, features=9, weighted=True, undirected=undirected, sparse=sparse
    )
    inner = len(ops) - 1
    shape = Architecture(
        ops=ops,
        hidden=(8,) * inner,
        heads=(2,) * inner,
        batch_norm=inner > 0 and norm == "batch",
        layer_norm=inner > 0 and norm == "layer",
        standardised=inner > 0,
    )
    net = random_net(graph, shape, columns=5)
    net.label_weight = label_weight
    save_run(folder, graph, net, soft=True, source={"kind": "memory", "undirected": undirected})
    return folder


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("norm", ["batch", "layer"])
@needs_compiler
def test_c_computes_what_the_runtime_does(
    make_graph: MakeGraph, tmp_path: Path, op: str, norm: str
) -> None:
    """Two layers with a norm between them, all nodes, each node alone and a node that is added."""
    directed = op in ("GATConv", "APPNP5", "TAG3")
    sizes = {"undirected": not directed, "sparse": directed}
    run = save(tmp_path / "run", make_graph, (op, op), norm=norm, **sizes)
    net = native_net(run, "float32")
    inputs = net.model.stored
    assert net.model.undirected is not directed
    assert [layer.layer_norm for layer in net.layers] == [False, norm == "layer"]
    with compiled(c_file(net, "tried", golden(net)), "tried", net.classes) as made:
        assert made is not None
        library = made[0]
        assert library.work(30, 100, 4).nbytes == 4 * work_floats(net, 30, 100, 4)
        expected = net.model.run(inputs)
        np.testing.assert_allclose(library.scores(inputs), expected, rtol=1e-4, atol=1e-4)
        alone = np.stack([library.node(inputs, node) for node in range(30)])
        np.testing.assert_allclose(alone, expected, rtol=1e-4, atol=1e-4)
        x, ends = np.linspace(-1, 1, net.read, dtype=np.float32), np.array([3, 0, 29])
        larger = joined(inputs, x, ends, both_ways=net.model.undirected)
        np.testing.assert_allclose(
            library.new_node(inputs, x, ends), net.model.run(larger, [30])[0], rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("precision", ["float32", "int8"])
@needs_compiler
def test_labels_that_count_and_fewer_bits(
    make_graph: MakeGraph, tmp_path: Path, precision: NativePrecision
) -> None:
    """Label propagation reaches five hops, further than the net."""
    run = save(tmp_path / "run", make_graph, ("GCNConv", "Linear"), label_weight=0.7)
    net = native_net(run, precision)
    inputs = net.model.stored
    assert inputs.labels is not None and net.model.label_logits(inputs) is not None
    x, ends = np.ones(net.read, dtype=np.float32), np.array([0, 1])
    with compiled(c_file(net, "tried", golden(net)), "tried", net.classes) as made:
        assert made is not None
        expected = net.model.run(inputs)
        np.testing.assert_allclose(made[0].scores(inputs), expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(made[0].node(inputs, 4), expected[4], rtol=1e-4, atol=1e-4)
        wanted = net.model.run(joined(inputs, x, ends, both_ways=True), [30])[0]
        np.testing.assert_allclose(made[0].new_node(inputs, x, ends), wanted, rtol=1e-4, atol=1e-4)


@needs_compiler
@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_three_layers_of_int8_behind_either_norm(
    make_graph: MakeGraph, tmp_path: Path, norm: str
) -> None:
    run = save(tmp_path / "run", make_graph, ("SAGEConv", "Linear", "GCNConv"), norm=norm)
    said = to_c(run, tmp_path / "net.c", precision="int8", with_graph=True)
    assert "agrees with the runtime" in said


@needs_compiler
def test_a_new_node_is_what_extend_makes_of_it(make_graph: MakeGraph, tmp_path: Path) -> None:
    run = save(tmp_path / "run", make_graph, ("GATConv", "SAGEConv"))
    net = native_net(run, "float32")
    row = np.arange(9, dtype=np.float32)
    larger = net.model.extend(row[None], np.array([[2, 5], [30, 30]]))
    with compiled(c_file(net, "tried", golden(net)), "tried", net.classes) as made:
        assert made is not None
        x = made[0].prepare(row, net.read)
        got = made[0].new_node(net.model.stored, x, np.array([2, 5]))
    np.testing.assert_allclose(got, larger.scores(nodes=[30])[0], rtol=1e-4, atol=1e-4)


@needs_compiler
def test_bad_arguments_return_a_status(make_graph: MakeGraph, tmp_path: Path) -> None:
    run = save(tmp_path / "run", make_graph, ("GCNConv",))
    net = native_net(run, "float32")
    inputs, x = net.model.stored, np.zeros(net.read)
    with compiled(c_file(net, "tried", golden(net)), "tried", net.classes) as made:
        assert made is not None
        for node in (-1, 30):
            with pytest.raises(GassipError, match="returned -2"):
                made[0].node(inputs, node)
        with pytest.raises(GassipError, match="returned -2"):
            made[0].new_node(inputs, x, np.array([30]))
        with pytest.raises(GassipError, match="returned -3"):
            made[0].new_node(inputs, x, np.array([1, 2, 1]))
        made[0].work = lambda *sizes: np.empty(600, dtype=np.uint8)  # type: ignore[method-assign]
        with pytest.raises(GassipError, match="returned -1"):
            made[0].scores(inputs)
        with pytest.raises(GassipError, match="returned -1"):
            made[0].node(inputs, 0)


@needs_compiler
def test_rows_are_normalised_as_the_run_does(make_graph: MakeGraph, tmp_path: Path) -> None:
    run = save(tmp_path / "run", make_graph, ("Linear",))
    net = native_net(run, "float32")
    net = replace(net, model=replace(net.model, normalize=True))
    row = np.array([1, -2, 0, 3, 0, 0, 4, 0, 1], dtype=np.float32)
    with compiled(c_file(net, "tried", golden(net)), "tried", net.classes) as made:
        assert made is not None
        got = made[0].prepare(row, net.read), made[0].prepare(0 * row, net.read)
    assert net.model.feature_index is not None
    np.testing.assert_allclose(got[0], (row / 11)[net.model.feature_index], rtol=1e-6)
    assert not got[1].any()


@needs_compiler
def test_attention_far_apart_and_self_loops_do_no_harm(
    make_graph: MakeGraph, tmp_path: Path
) -> None:
    """Scores of thousands, an edge of weight 0 and a self-loop: what the runtime cleans away."""
    run = save(tmp_path / "run", make_graph, ("GATConv",))
    net = native_net(run, "float32")
    x = np.eye(4, net.read, dtype=np.float32) * 3000
    clean = clean_edges(np.array([[0, 1], [1, 2]]), None, 4, undirected=False)
    raw = Inputs(x, clean.copy())
    raw.edges.indices, raw.edges.indptr = np.array([3, 0, 1, 1, 2]), np.array([0, 1, 3, 5, 5])
    raw.edges.data = np.array([0, 1, 1, 1, 1], dtype=np.float32)
    with compiled(c_file(net, "tried", golden(net)), "tried", net.classes) as made:
        assert made is not None
        got = made[0].scores(raw)
    np.testing.assert_allclose(got, net.model.run(Inputs(x, clean)), rtol=1e-4, atol=1e-4)


# the file itself


@pytest.fixture(scope="module")
def exported(make_graph: MakeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("c")
    run = save(folder / "run", make_graph, ("GATConv", "ArmaConv"), label_weight=0.5)
    to_c(run, folder / "my-net.c", precision="int8", with_graph=True)
    return folder / "my-net.c"


@pytest.mark.parametrize("command", ["gcc", "clang"])
def test_the_golden_rows_agree_and_nothing_is_called(
    exported: Path, tmp_path: Path, command: str
) -> None:
    if shutil.which(command) is None:
        pytest.skip(f"there is no {command}")
    program = tmp_path / "program"
    succeed(command, *STRICT, "-O2", "-DGASSIP_MAIN", exported, "-o", program)
    assert succeed(program) == "the golden rows agree\n"
    made = tmp_path / "net.o"
    for level in ("-O0", "-O2", "-Os"):
        succeed(
            command, *STRICT, level, "-ffreestanding", "-DGASSIP_TEST", "-c", exported, "-o", made
        )
        names = succeed("nm", "-u", made).split()
        assert not [name for name in names if name not in ("U", "__stack_chk_fail")]


@needs_compiler
def test_a_golden_row_that_is_wrong_is_noticed(exported: Path, tmp_path: Path) -> None:
    text = exported.read_text()
    at = text.index("my_net_golden_scores[] = {\n") + len("my_net_golden_scores[] = {\n")
    (tmp_path / "bad.c").write_text(text[:at] + "9" + text[at:].lstrip("-"))
    source, program = tmp_path / "bad.c", tmp_path / "bad"
    succeed(*(compiler() or []), *STRICT, "-DGASSIP_MAIN", source, "-o", program)
    done = execute(program)
    assert done.returncode == 1 and "differ from the golden ones" in done.stdout


def test_the_golden_rows_agree_on_a_bare_cortex_m4(exported: Path, tmp_path: Path) -> None:
    for tool in ("arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool}")
    flags = [*STRICT, *ARM.split(), "-DGASSIP_TEST", "-DNAME_test=my_net_test"]
    parts: list[Word] = [exported, HERE / "bare_metal.c", "-T", HERE / "bare_metal.ld", "-lgcc"]
    program = tmp_path / "net.elf"
    succeed("arm-none-eabi-gcc", *flags, *parts, "-o", program)
    machine = ["-M", "mps2-an386", "-display", "none", "-monitor", "none", "-serial", "none"]
    machine += ["-semihosting-config", "enable=on,target=native", "-kernel", str(program)]
    done = subprocess.run(["qemu-system-arm", *machine], timeout=60)
    assert done.returncode == 0


@needs_compiler
def test_a_program_includes_the_declarations_and_reads_the_graph_in_the_file(
    exported: Path, tmp_path: Path
) -> None:
    (tmp_path / "use.c").write_text(
        "#define GASSIP_DECLARATIONS\n"
        f'#include "{exported}"\n'
        "#include <stdio.h>\n"
        "int main(void) {\n"
        "    static float work[100000], scores[30 * MY_NET_CLASSES];\n"
        "    int i;\n"
        "    if (my_net_scores(&my_net_run_graph, work, sizeof work, scores)) return 2;\n"
        "    for (i = 0; i < my_net_run_graph.nodes; i++)\n"
        '        printf("%s\\n", my_net_class_names[my_net_label(scores + i * MY_NET_CLASSES)]);\n'
        "    my_net_probabilities(scores);\n"
        "    return !(scores[0] + scores[1] + scores[2] > 0.999f);\n"
        "}\n"
    )
    program = tmp_path / "use"
    succeed(*(compiler() or []), *STRICT, tmp_path / "use.c", exported, "-o", program)
    model = runtime.load(exported.parent / "run", precision="int8")
    assert succeed(program).split() == [model.class_names[k] for k in model.predict()]


def test_names_and_strings_are_safe_in_c() -> None:
    assert c_name("Cora-2.bits") == "cora_2_bits"
    for bad in ("", "2nd", "-", "δ"):
        with pytest.raises(GassipError, match="begin with a letter"):
            c_name(bad)
    assert c_string('a"\\\n*/?é') == r'"a\042\134\012\052\057\077\303\251"'


# the command


def test_the_command_says_size_speed_and_cost(
    make_graph: MakeGraph,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = str(save(tmp_path / "run", make_graph, ("GCNConv",)))
    out = str(tmp_path / "net.c")
    command = ["export", run, "--format", "c", "--out", out]
    if compiler() is not None:
        assert main([*command, "--precision", "int8"]) == 0
        said = capsys.readouterr().out
        assert "agrees with the runtime" in said and "ms of CPU time" in said
        assert "int8 against float32" in said
    monkeypatch.setenv("CC", "no-such-compiler")
    assert main([*command, "--overwrite"]) == 0
    assert "not compiled here" in capsys.readouterr().out
    for more, line in (
        ([], "exists; choose another --out"),
        (["--overwrite", "--precision", "float16"], "float16 is not there for --format c"),
        (["--overwrite", "--dynamic"], "--dynamic belongs to --format onnx"),
    ):
        assert main([*command, *more]) == 2
        assert line in capsys.readouterr().err


@needs_compiler
def test_what_differs_from_the_runtime_is_not_written(
    make_graph: MakeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = save(tmp_path / "run", make_graph, ("GCNConv",))
    monkeypatch.setattr(compiling.Compiled, "scores", lambda self, inputs: np.zeros((1, 3)))
    with pytest.raises(GassipError, match="does not agree with the runtime"):
        to_c(run, tmp_path / "net.c")
    assert not (tmp_path / "net.c").exists()
    monkeypatch.setenv("CC", "false")
    with pytest.raises(GassipError, match="does not compile"):
        to_c(run, tmp_path / "net.c")


def test_what_c_does_not_know_is_an_error(make_graph: MakeGraph, tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Wider(Operation):
        skip: bool = False
        parts: tuple[str, ...] = field(default_factory=tuple)

    known = OPERATION_FIELDS + OPERATION_IGNORED
    refuse_unknown(Wider(norm=None), known, "it")
    with pytest.raises(GassipError, match="it has skip, which C and WebAssembly do not know"):
        refuse_unknown(Wider(norm=None, skip=True), known, "it")
    with pytest.raises(GassipError, match="it has parts"):
        refuse_unknown(Wider(norm=None, parts=("a",)), known, "it")
    assert set(NORMS) == {None, *ALL_NORMS}  # a new norm is written in core.c too


def test_an_export_without_inputs_can_be_written_too(make_graph: MakeGraph, tmp_path: Path) -> None:
    from gassip.deploy.export import to_runtime

    run = save(tmp_path / "run", make_graph, ("APPNP5",))
    to_runtime(run, tmp_path / "small", precision="int8", inputs=False)
    said = to_c(tmp_path / "small", tmp_path / "net.c", precision="int8")
    assert "13 nodes" in said or "not compiled" in said
    with pytest.raises(GassipError, match="saved without its inputs"):
        to_c(tmp_path / "small", tmp_path / "more.c", with_graph=True)
