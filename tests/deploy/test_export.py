import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

import gassip
from gassip.cli import main
from gassip.deploy import export, labelling, runtime
from gassip.deploy.degree_buckets import groups
from gassip.deploy.export import check, onnx_inputs, to_executorch, to_onnx, to_runtime
from gassip.deploy.formats import PRECISIONS
from gassip.errors import GassipError
from gassip.graph.checks import clean_edges
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture
from gassip.operations import OPERATIONS
from gassip.runs import format as store
from gassip.runs.format import Precision
from gassip.runs.write import open_run
from tests.saved_runs import random_net, save_run

MakeGraph = Callable[..., Graph]
ORDERS = [(op, op) for op in OPERATIONS] + [("GATConv", "Linear", "ArmaConv")]


@pytest.fixture(scope="module")
def saved(make_graph: MakeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four of five weights of the first layer are pruned; half the columns of x are read."""
    graph = make_graph(5, nodes=60, edges=150, features=60, sparse=True)
    net = random_net(graph, Architecture(ops=("GCNConv", "SAGEConv"), hidden=(64,)), columns=30)
    keep = torch.rand(net.layers[0].weight.shape, generator=torch.Generator().manual_seed(0)) < 0.2
    net.prune([keep, torch.ones_like(net.layers[1].weight, dtype=torch.bool)])
    folder = tmp_path_factory.mktemp("export") / "run"
    save_run(folder, graph, net)
    return folder


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_the_exported_folder_computes_what_the_run_does(
    saved: Path, tmp_path: Path, precision: store.Precision
) -> None:
    meta = to_runtime(saved, tmp_path / "out", precision=precision)
    again, rounded = runtime.load(tmp_path / "out"), runtime.load(saved, precision=precision)
    np.testing.assert_array_equal(again.scores(), rounded.scores())
    differ = int((rounded.predict() != runtime.load(saved).predict()).sum())
    assert f"{differ} of 60 labels differ" in meta["agreement"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"meta.json", *meta["files"]}
    assert (
        meta["bytes"]["model.safetensors"]
        == (tmp_path / "out" / "model.safetensors").stat().st_size
    )


def test_each_precision_is_smaller_than_the_one_before(saved: Path, tmp_path: Path) -> None:
    sizes = [(saved / "model.safetensors").stat().st_size]
    for precision in ("float32", "float16", "int8"):
        to_runtime(saved, tmp_path / precision, precision=precision)
        sizes.append((tmp_path / precision / "model.safetensors").stat().st_size)
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 4
    assert (tmp_path / "int8" / "graph.safetensors").stat().st_size < (
        saved / "graph.safetensors"
    ).stat().st_size / 4


def test_another_precision_cannot_be_had_from_rounded_weights(saved: Path, tmp_path: Path) -> None:
    to_runtime(saved, tmp_path / "out", precision="int8", inputs=False)
    assert runtime.load(tmp_path / "out", precision="int8").x is None
    with pytest.raises(GassipError, match="stored as int8; float32 cannot be had"):
        runtime.load(tmp_path / "out", precision="float32")
    with pytest.raises(GassipError, match="an export already"):
        to_runtime(tmp_path / "out", tmp_path / "twice")
    with pytest.raises(GassipError, match="was written by `gassip export`"):
        open_run(tmp_path / "out")


# ONNX


@pytest.mark.parametrize("ops", ORDERS, ids=lambda ops: "-".join(ops))
@pytest.mark.parametrize("norm", ["plain", "batch", "layer"])
def test_onnx_agrees_with_torch_for_every_operation(
    make_graph: MakeGraph, tmp_path: Path, ops: tuple[str, ...], norm: str
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    graph = make_graph(
        3, nodes=30, edges=120, features=9, weighted=True, undirected=norm == "batch"
    )
    inner = len(ops) - 1
    shape = Architecture(
        ops=ops,
        hidden=(8,) * inner,
        heads=(2,) * inner,
        batch_norm=norm == "batch",
        layer_norm=norm == "layer",
        standardised=norm != "plain",
    )
    net = random_net(graph, shape, columns=5)
    save_run(tmp_path / "run", graph, net, soft=True)
    model, run = runtime.load(tmp_path / "run"), open_run(tmp_path / "run")
    with torch.no_grad():
        expected = run.model(graph.x, run.edge_index, run.edge_weight).numpy()
    for dynamic in (False, True):
        file = tmp_path / f"{dynamic}.onnx"
        assert to_onnx(tmp_path / "run", file, dynamic=dynamic) == file.stat().st_size
        session = onnxruntime.InferenceSession(str(file))
        feeds = onnx_inputs(model, model.stored, dynamic) | {"x": graph.to_data().x.numpy()}
        np.testing.assert_allclose(session.run(None, feeds)[0], expected, rtol=1e-4, atol=1e-4)
    ends, weight = (
        np.array([[0, 1, 1, 2], [1, 0, 1, 1]]),
        np.array([1, 0.5, 3, 0], dtype=np.float32),
    )
    feeds = {"x": np.ones((4, 9), dtype=np.float32), "edge_index": ends, "edge_weight": weight}
    with torch.no_grad():  # a self-loop, a weight of 0 and an isolated node
        other = net(torch.ones(4, 9), torch.from_numpy(ends), torch.from_numpy(weight))
    np.testing.assert_allclose(session.run(None, feeds)[0], other, rtol=1e-4, atol=1e-4)


def test_no_scatter_in_a_fixed_graph_and_no_scatternd_at_all(saved: Path, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    for dynamic, expected in ((False, set()), (True, {"ScatterElements"})):
        to_onnx(saved, tmp_path / f"{dynamic}.onnx", dynamic=dynamic)
        nodes = onnx.load(tmp_path / f"{dynamic}.onnx").graph.node
        assert {node.op_type for node in nodes if "Scatter" in node.op_type} == expected


def test_groups_hold_every_edge_once(make_graph: MakeGraph) -> None:
    graph = make_graph(1, nodes=200, edges=6000, features=3, weighted=True, undirected=False)
    weight = None if graph.edge_weight is None else graph.edge_weight.numpy()
    matrix = clean_edges(graph.edge_index.numpy(), weight, 200, undirected=False)
    rebuilt = np.zeros(matrix.shape, dtype=np.float32)
    cells = 0
    for receivers, senders, values in groups(matrix):
        np.add.at(
            rebuilt, (np.repeat(receivers, senders.shape[1]), senders.ravel()), values.ravel()
        )
        cells += values.size
    np.testing.assert_array_equal(rebuilt, matrix.toarray())
    assert cells <= 1.125 * matrix.nnz + 2  # 2: the isolated nodes


@pytest.mark.parametrize("wrong", ["one run of thirty", "another label"])
def test_what_does_not_agree_is_refused(wrong: str) -> None:
    right = np.array([[1.0, 2.0], [3.0, 0.0]])
    runs = iter(
        [right] * 29
        + [right + (1e-3 if wrong == "one run of thirty" else np.array([[9e-5, 0], [0, 0]]))]
    )
    if (
        wrong == "another label"
    ):  # within tolerance, and the two best are further apart than that: it agrees
        check(lambda: next(runs), right)
        near = np.array([[1.0, 1.0 + 5e-4]])
        with pytest.raises(GassipError, match="1 of 1 nodes another label"):
            check(lambda: near + np.array([[1e-3, 0]]), near)
        return
    with pytest.raises(GassipError, match=r"run 30 of 30 is off by 0\.001"):
        check(lambda: next(runs), right)


def test_a_file_that_disagrees_is_not_written(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    real = export.torch_scores
    monkeypatch.setattr(export, "torch_scores", lambda *given: real(*given) + 1)
    for write in (to_onnx, to_runtime):
        with pytest.raises(GassipError, match="does not agree with torch"):
            write(saved, tmp_path / "out")
        assert list(tmp_path.iterdir()) == []


# ExecuTorch


@pytest.mark.parametrize("ops", ORDERS, ids=lambda ops: "-".join(ops))
@pytest.mark.parametrize("norm", ["plain", "batch", "layer"])
def test_executorch_agrees_with_torch_for_every_operation(
    make_graph: MakeGraph, tmp_path: Path, ops: tuple[str, ...], norm: str
) -> None:
    pytest.importorskip("executorch")
    graph = make_graph(
        3, nodes=30, edges=120, features=9, weighted=True, undirected=norm == "batch"
    )
    inner = len(ops) - 1
    shape = Architecture(
        ops=ops,
        hidden=(8,) * inner,
        heads=(2,) * inner,
        batch_norm=norm == "batch",
        layer_norm=norm == "layer",
        standardised=norm != "plain",
    )
    save_run(tmp_path / "run", graph, random_net(graph, shape, columns=5), soft=True)
    run, file = open_run(tmp_path / "run"), tmp_path / "net.pte"
    assert to_executorch(tmp_path / "run", file) == file.stat().st_size
    from gassip.deploy.executorch import Session

    session, x = Session(file.read_bytes()), graph.to_data().x
    for own in (x, x.flip(0) + 1):  # features are an input, not part of the file
        with torch.no_grad():
            expected = run.model(own, run.edge_index, run.edge_weight)
        np.testing.assert_allclose(session.run(own.numpy()), expected, rtol=1e-4, atol=1e-4)


def test_an_executorch_file_that_disagrees_is_not_written(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("executorch")
    real = export.torch_scores
    monkeypatch.setattr(export, "torch_scores", lambda *given: real(*given) + 1)
    with pytest.raises(GassipError, match=r"run 1 of 5 .* nothing was written"):
        to_executorch(saved, tmp_path / "out.pte")
    assert list(tmp_path.iterdir()) == []


def test_the_command_exports_executorch(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("executorch")
    assert (
        main(["export", str(saved), "--format", "executorch", "--out", str(tmp_path / "net.pte")])
        == 0
    )
    assert "agrees with torch in 5 runs" in capsys.readouterr().out


# The command


def test_the_command_exports_both(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    assert (
        main(["export", str(saved), "--format", "onnx", "--out", str(tmp_path / "net.onnx")]) == 0
    )
    assert (
        main(
            [
                "export",
                str(saved),
                "--format",
                "runtime",
                "--precision",
                "int8",
                "--out",
                str(tmp_path / "d"),
            ]
        )
        == 0
    )
    said = capsys.readouterr().out
    assert "agrees with torch in 30 runs" in said and "int8 against float32" in said
    assert (
        main(
            [
                "export",
                str(saved),
                "--format",
                "runtime",
                "--out",
                str(tmp_path / "d"),
                "--overwrite",
            ]
        )
        == 0
    )
    assert labelling.main([str(tmp_path / "d"), "--out", str(tmp_path / "labels.csv")]) == 0


@pytest.mark.parametrize(
    ("more", "match"),
    [
        (["--format", "onnx", "--precision", "int8"], "belongs to --format runtime"),
        (["--format", "runtime", "--dynamic"], "--dynamic belongs to --format onnx"),
        (["--format", "executorch", "--dynamic"], "--dynamic belongs to --format onnx"),
        (["--format", "executorch", "--precision", "int8"], "belongs to --format runtime"),
        (["--format", "executorch", "--out", "."], "exists; choose another --out"),
        (["--format", "onnx", "--out", "."], "exists; choose another --out"),
        (["--format", "onnx", "--out", ".", "--overwrite"], "is a folder"),
        (["--format", "onnx", "--out", "no/net.onnx"], "no folder no"),
        (["--format", "runtime", "--out", "."], "exists; choose another --out"),
        (["--format", "tflite"], "no format 'tflite'"),
    ],
)
def test_bad_flags_are_one_line(
    saved: Path, tmp_path: Path, more: list[str], match: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(["export", str(saved), "--out", str(tmp_path / "out"), *more])
    except SystemExit as error:
        status = int(str(error.code))
    said = capsys.readouterr().err.splitlines()
    assert status == 2 and len(said) == 1 and match in said[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("form", "module"), [("onnx", "onnxruntime"), ("executorch", "gassip.deploy.executorch")]
)
def test_without_the_extra_its_name_is_said(
    saved: Path,
    tmp_path: Path,
    form: str,
    module: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delattr(
        gassip, module.removeprefix("gassip."), raising=False
    )  # where a test before imported it
    monkeypatch.setitem(sys.modules, module, None)
    assert main(["export", str(saved), "--format", form, "--out", str(tmp_path / "net")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and f"pip install 'gassip[{form}]'" in said[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["onnx", "runtime"])
def test_a_damaged_run_is_not_exported(
    saved: Path, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if form == "onnx":
        pytest.importorskip("onnxruntime")
    folder = Path(shutil.copytree(saved, tmp_path / "run"))
    meta = json.loads((folder / "meta.json").read_text())
    meta["architecture"] = ["GCNConv", "PoolConv"]
    (folder / "meta.json").write_text(json.dumps(meta | {"sha256": store.digest(meta)}))
    assert main(["export", str(folder), "--format", form, "--out", str(tmp_path / "out")]) == 2
    assert "operation" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_precisions_of_the_flag_are_those_of_the_runtime() -> None:
    assert get_args(Precision) == PRECISIONS
