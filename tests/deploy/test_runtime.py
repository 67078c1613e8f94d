import csv
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse as sp

import gassip
from gassip.deploy import numpy_graph, numpy_products
from gassip.deploy.labelling import main
from gassip.deploy.numpy_forward import apply, growth, safe_growth
from gassip.deploy.numpy_graph import Inputs, Step, field
from gassip.deploy.numpy_layers import Layer, filled, layers_of
from gassip.deploy.numpy_products import PLAIN, multiplied
from gassip.deploy.runtime import Model, load
from gassip.errors import GassipError
from gassip.graph.checks import Table, checked, clean_edges
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture
from gassip.operations import OPERATIONS
from gassip.runs import format as store
from gassip.runs.write import open_run
from gassip.train.trainer import predict
from tests.saved_runs import random_net, save_run

MakeGraph = Callable[..., Graph]
PAIRS = [(op, op) for op in OPERATIONS] + [
    ("SAGEConv", "GATConv"),
    ("Linear", "ArmaConv", "GCNConv"),
]


def architecture(*ops: str, norm: str = "batch") -> Architecture:
    inner = len(ops) - 1
    return Architecture(
        ops=ops,
        hidden=(8,) * inner,
        heads=(2,) * inner,
        batch_norm=norm == "batch",
        layer_norm=norm == "layer",
        standardised=norm != "",
    )


def arrays(graph: Graph) -> tuple[Table, np.ndarray, np.ndarray | None]:
    x = graph.x.to_scipy() if isinstance(graph.x, Csr) else graph.x.numpy()
    return (
        x,
        graph.edge_index.numpy(),
        None if graph.edge_weight is None else graph.edge_weight.numpy(),
    )


@pytest.fixture(scope="module")
def graph(make_graph: MakeGraph) -> Graph:
    return make_graph(5, nodes=40, edges=90, features=9, weighted=True)


@pytest.fixture(scope="module")
def saved(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runtime") / "run"
    save_run(folder, graph, random_net(graph, architecture("GCNConv", "SAGEConv")))
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "run"))


def reseal(folder: Path, **changes: object) -> None:
    meta = json.loads((folder / "meta.json").read_text()) | changes
    meta["files"] = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in meta["files"]
    }
    meta["sha256"] = store.digest(meta)
    (folder / "meta.json").write_text(json.dumps(meta))


@pytest.mark.parametrize("ops", PAIRS, ids=lambda ops: "-".join(ops))
@pytest.mark.parametrize(
    ("sparse", "columns"), [(False, 4), (True, None)], ids=["dense-some-columns", "csr"]
)
@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_scores_are_those_of_torch(
    make_graph: MakeGraph,
    tmp_path: Path,
    ops: tuple[str, ...],
    sparse: bool,
    columns: int | None,
    norm: str,
) -> None:
    graph = make_graph(
        3, nodes=40, edges=90, features=9, weighted=True, sparse=sparse, undirected=False
    )
    net = random_net(graph, architecture(*ops, norm=norm), columns=columns)
    save_run(tmp_path / "run", graph, net, soft=True)
    run, model = open_run(tmp_path / "run"), load(tmp_path / "run")
    with torch.no_grad():
        on_kept = run.model(graph.x, run.edge_index, run.edge_weight)
    np.testing.assert_allclose(model.scores(), on_kept, rtol=1e-5, atol=1e-5)
    other = make_graph(8, nodes=25, edges=60, features=9, weighted=True, sparse=sparse)
    np.testing.assert_allclose(
        model.scores(*arrays(other)), predict(net, other), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("ops", PAIRS, ids=lambda ops: "-".join(ops))
@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_order_and_kept_arrays_change_nothing(
    make_graph: MakeGraph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ops: tuple[str, ...],
    sparse: bool,
    norm: str,
) -> None:
    graph = make_graph(
        9, nodes=50, edges=140, features=9, weighted=True, sparse=sparse, undirected=False
    )
    net = random_net(graph, architecture(*ops, norm=norm), columns=6)
    save_run(tmp_path / "run", graph, net, soft=True)
    run = open_run(tmp_path / "run")
    with torch.no_grad():
        expected = run.model(graph.x, run.edge_index, run.edge_weight)
    for narrow in (0, 99):
        monkeypatch.setattr(numpy_graph, "NARROW", narrow)
        model = load(tmp_path / "run", reorder=True)
        first = model.scores()
        np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-5)
        other = make_graph(8, nodes=50, edges=60, features=9, sparse=sparse)  # into the same arrays
        assert not np.allclose(model.scores(*arrays(other)), first)
        np.testing.assert_array_equal(model.scores(), first)
        np.testing.assert_allclose(model.scores(nodes=[7, 3]), first[[7, 3]], rtol=1e-5, atol=1e-5)


def test_filled_widths_and_a_norm_in_the_weights_by_hand() -> None:
    """One unit of 2, norm h · 3 + 5, weight 7: (2 · 3 + 5) · 7 = 77."""
    one = np.ones(1, dtype=np.float32)
    first = Layer(op="Linear", weights=(2 * one[:, None],), bias=0 * one)
    second = Layer(
        op="Linear", weights=(7 * one[:, None],), bias=0 * one, scale=3 * one, shift=5 * one
    )
    layers = filled((first, second))
    np.testing.assert_array_equal(layers[0].bias, [0, 1, 0, 0])
    np.testing.assert_array_equal(layers[1].weights[0][:, 0], [21, 35, 0, 0])
    h: Table = one[:, None]
    for layer in layers:
        h = apply(layer, h, Step(None, slice(None)))
    np.testing.assert_array_equal(h, [[77, 0, 0, 0]])


def test_predictions_in_several_threads_at_once_are_those_of_one(saved: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    model = load(saved)
    expected = model.scores()
    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda _: model.scores(), range(40)):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("ops", PAIRS, ids=lambda ops: "-".join(ops))
def test_a_query_equals_the_full_pass(
    make_graph: MakeGraph, tmp_path: Path, ops: tuple[str, ...]
) -> None:
    graph = make_graph(4, nodes=60, edges=70, features=9, sparse=True)
    save_run(tmp_path / "run", graph, random_net(graph, architecture(*ops)))
    model = load(tmp_path / "run")
    whole = model.scores()
    for node in (0, 7, 59):  # the last one is isolated
        np.testing.assert_allclose(model.scores(nodes=[node]), whole[[node]], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        model.scores(nodes=[30, 2, 30]), whole[[30, 2, 30]], rtol=1e-6, atol=1e-6
    )


def test_a_query_reads_its_field_only(graph: Graph, saved: Path) -> None:
    model = load(saved)
    hops = model.edges + sp.eye_array(model.edges.shape[0])
    reach = np.flatnonzero((hops @ hops)[[3], :].toarray()[0])
    read, steps = field(model.stored, ("GCNConv", "SAGEConv"), np.array([3]))
    np.testing.assert_array_equal(read, reach)
    assert [step.matrix.shape[0] for step in steps if step.matrix is not None][-1] == 1


def test_gcn_on_a_path_by_hand(path: Graph, tmp_path: Path) -> None:
    """x = 1 for each node, W = 1: node 0 of 0 - 1 - 2 has 1/2 from itself and 1/√6 from node 1;
    node 3 is alone: 1."""
    edges = clean_edges(path.edge_index.numpy(), None, 4, undirected=False)
    one = np.ones((1, 1), dtype=np.float32)
    layer = Layer(op="GCNConv", weights=(one,), bias=np.zeros(1, dtype=np.float32))
    inputs = Inputs(np.ones((4, 1), dtype=np.float32), edges)
    got = apply(layer, inputs.x, Step(inputs.gcn, slice(None)))[:, 0]
    np.testing.assert_allclose(
        got, [1 / 2 + 6**-0.5, 1 / 3 + 2 * 6**-0.5, 1 / 2 + 6**-0.5, 1], rtol=1e-6
    )


@given(st.integers(0, 10_000), st.sampled_from(list(OPERATIONS)), st.booleans())
def test_layers_agree_on_any_graph(
    make_graph: MakeGraph, seed: int, op: str, undirected: bool
) -> None:
    graph = make_graph(
        seed, nodes=12, edges=seed % 30 + 1, features=4, weighted=True, undirected=undirected
    )
    net = random_net(graph, Architecture(ops=(op,), hidden=()), seed=seed)
    state = {name: value.numpy() for name, value in net.state_dict().items()}
    (layer,) = filled(layers_of((op,), state, graph.num_classes))
    inputs = Inputs(arrays(graph)[0], clean_edges(*arrays(graph)[1:], 12, undirected=False))
    got = apply(layer, inputs.x, Step(inputs.matrix(op), slice(None)))[:, : graph.num_classes]
    np.testing.assert_allclose(got, predict(net, graph), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [1, 30, 300])
def test_attention_of_numbers_far_apart_is_that_of_torch(
    make_graph: MakeGraph, tmp_path: Path, scale: float
) -> None:
    graph = make_graph(3, nodes=40, edges=90, features=5, weighted=True)
    net = random_net(graph, Architecture(ops=("GATConv", "GATConv"), hidden=(6,), heads=(2,)))
    with torch.no_grad():
        for layer in net.layers:
            assert layer.attention is not None
            layer.attention.mul_(scale)
    save_run(tmp_path / "run", graph, net, kept=1.0)
    with np.errstate(all="raise", under="ignore"):
        got = load(tmp_path / "run").scores()
    np.testing.assert_allclose(got, predict(net, graph), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("spread", [0.1, 20])
def test_growth_is_safe_growth_up_to_a_factor_of_each_row(path: Graph, spread: float) -> None:
    edges = clean_edges(path.edge_index.numpy(), None, 4, undirected=False)
    looped, rng = (
        Inputs(np.ones((4, 1), dtype=np.float32), edges).looped,
        np.random.default_rng(0),
    )
    sender, receiver = spread * rng.normal(size=(2, 4)).astype(np.float32)
    rows = [
        growth(sender, receiver, looped, PLAIN),
        safe_growth(sender, receiver, looped),
    ]
    shares = [own.toarray() / own.toarray().sum(1, keepdims=True) for own in rows]
    np.testing.assert_allclose(shares[0], shares[1], rtol=1e-4, atol=1e-7)


def test_the_graph_of_the_run_is_known_again_and_gets_its_kept_edges(
    graph: Graph, saved: Path
) -> None:
    model = load(saved)
    np.testing.assert_array_equal(model.scores(*arrays(graph)), model.scores())
    x, edge_index, weight = arrays(graph)
    assert not np.allclose(model.scores(x + 1, edge_index, weight), model.scores())
    assert model.edges.nnz < model.edges_total


def test_the_same_edges_with_other_weights_are_another_graph(
    make_graph: MakeGraph, tmp_path: Path
) -> None:
    graph = make_graph(6, nodes=30, edges=60, features=9, weighted=True)
    x, edge_index, weight = arrays(graph)
    assert weight is not None
    net = random_net(graph, architecture("GCNConv", "SAGEConv"))
    save_run(tmp_path / "run", graph, net)
    model = load(tmp_path / "run")
    for other in (2 * weight, None):
        with torch.no_grad():
            expected = net(
                torch.from_numpy(x),
                graph.edge_index,
                None if other is None else torch.from_numpy(other),
            )
        np.testing.assert_allclose(
            model.scores(x, edge_index, other), expected, rtol=1e-4, atol=1e-5
        )
    np.testing.assert_array_equal(model.scores(x, edge_index, weight), model.scores())
    save_run(tmp_path / "soft", graph, net, soft=True)
    model = load(tmp_path / "soft")
    assert model.soft  # its kept edges weigh other than given, and still are its own
    np.testing.assert_array_equal(model.scores(x, edge_index, weight), model.scores())


def test_a_stored_weight_of_zero_is_no_edge(graph: Graph, tmp_path: Path) -> None:
    weight = torch.ones(graph.num_edges)
    weight[:5] = 0
    own = replace(graph, edge_weight=weight)  # as folders of earlier versions may hold them
    net = random_net(graph, architecture("GCNConv", "GCNConv"))
    save_run(tmp_path / "run", own, net, kept=1.1)
    expected = predict(net, own.keep(weight > 0))
    np.testing.assert_allclose(load(tmp_path / "run").scores(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"bits": np.zeros(2, dtype=np.int64)},
        {"shape": np.array([[3, 4]])},
        {"shape": np.array([3.0, 4.0])},
        {"shape": np.array([2**40, 2**40])},
        {"shape": np.array([-3, -4])},
    ],
)
def test_bits_that_do_not_fit_their_matrix_are_refused(wrong: dict[str, np.ndarray]) -> None:
    weight = np.zeros((3, 4), dtype=np.float32)
    weight[0, 1] = 2
    packed = {
        "": weight[weight != 0],
        "bits": np.packbits(weight != 0),
        "shape": np.array(weight.shape),
    }
    np.testing.assert_array_equal(store.unpacked(packed), weight)
    with pytest.raises(GassipError, match=r"bits of .* do not fit a matrix of shape"):
        store.unpacked(packed | wrong)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_extending_is_predicting_on_the_larger_graph(
    make_graph: MakeGraph, tmp_path: Path, sparse: bool
) -> None:
    graph = make_graph(6, nodes=30, edges=60, features=9, sparse=sparse)
    net = random_net(graph, architecture("GCNConv", "GATConv"), columns=5)
    save_run(tmp_path / "run", graph, net)
    model, run = load(tmp_path / "run"), open_run(tmp_path / "run")
    rng = np.random.default_rng(0)
    x_new = rng.normal(size=(3, 9)).astype(np.float32)
    added = np.array([[30, 0, 31, 4, 31, 2], [0, 30, 4, 31, 30, 1]])
    larger = model.extend(sp.csr_array(x_new) if sparse else x_new, added)
    x = torch.from_numpy(np.concatenate([graph.to_data().x.numpy(), x_new]))
    kept = {(int(a), int(b)) for a, b in run.edge_index.T.tolist()} | {
        (int(a), int(b)) for a, b in added.T
    }
    with torch.no_grad():
        expected = net(x, torch.tensor(sorted(kept)).T)
    np.testing.assert_allclose(larger.scores(), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        larger.scores(nodes=[32, 30]), expected[[32, 30]], rtol=1e-5, atol=1e-5
    )
    assert model.scores().shape[0] == 30  # the model itself is as before


def test_edges_only_can_be_added(saved: Path) -> None:
    model = load(saved)
    more = model.extend(np.zeros((0, 9)), np.array([[38], [39]]))  # between the two isolated nodes
    changed = np.flatnonzero(np.abs(more.scores() - model.scores()).max(1) > 1e-7)
    np.testing.assert_array_equal(changed, [39])


def test_repeats_loops_and_zero_weights_are_cleaned_as_for_a_search() -> None:
    ends = np.array([[0, 0, 1, 2, 1], [1, 1, 1, 0, 2]])
    plain = clean_edges(ends, None, 3, undirected=False).toarray()
    np.testing.assert_array_equal(plain, [[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    weighted = clean_edges(ends, np.array([1, 2, 9, 0, 4]), 3, undirected=True).toarray()
    np.testing.assert_array_equal(weighted, [[0, 3, 0], [3, 0, 4], [0, 4, 0]])


def test_rows_are_normalised_where_the_runs_were(graph: Graph, folder: Path) -> None:
    before = load(folder)
    meta = json.loads((folder / "meta.json").read_text())
    reseal(folder, source=meta["source"] | {"normalize": True, "undirected": True})
    x, edge_index = np.abs(arrays(graph)[0])[:5], np.array([[0, 1], [1, 2]])
    both = np.concatenate([edge_index, edge_index[::-1]], axis=1)
    expected = before.scores(x / x.sum(1, keepdims=True), both)
    np.testing.assert_allclose(load(folder).scores(x, edge_index), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        load(folder).scores(sp.csr_array(x), edge_index), expected, rtol=1e-5, atol=1e-6
    )


def test_int8_rounds_by_column_scale() -> None:
    packed = store.pack(np.array([[1.27, 0.5], [-0.634, 0.0]], dtype=np.float32), "int8")
    np.testing.assert_array_equal(packed[""], [[127, 127], [-63, 0]])  # 0.634 / 0.01 = 63.4
    np.testing.assert_allclose(packed["scale"], [0.01, 0.5 / 127])
    np.testing.assert_allclose(store.unpacked(packed), [[1.27, 0.5], [-0.63, 0]], rtol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_zeros_are_left_out_and_come_back(precision: store.Precision) -> None:
    rng = np.random.default_rng(0)
    weight = np.where(rng.random((50, 40)) < 0.2, rng.normal(size=(50, 40)), 0).astype(np.float32)
    packed = store.pack(weight, precision)
    assert sum(part.nbytes for part in packed.values()) < weight.nbytes / 3
    bound = {"float32": 0, "float16": 1e-3, "int8": 0.51 * np.abs(weight).max() / 127}[precision]
    assert np.abs(store.unpacked(packed) - weight).max() <= bound * max(1, np.abs(weight).max())


def test_tensors_written_are_read_by_safetensors_and_back(tmp_path: Path) -> None:
    from safetensors.numpy import load as library
    from safetensors.numpy import save

    given: store.Tensors = {
        "ä": np.array(7, dtype=np.int32),
        "a": np.arange(3, dtype=np.int8),
        "b": np.ones((2, 2), np.float32),
        "c": np.zeros((0, 3), np.int64),
    }
    content = store.write_tensors(given)
    theirs = library(content)
    (tmp_path / "t.safetensors").write_bytes(content)
    meta = {"files": {"t.safetensors": hashlib.sha256(content).hexdigest()}}
    ours = store.read_tensors(tmp_path, "t.safetensors", meta)
    for name, value in given.items():
        np.testing.assert_array_equal(theirs[name], value)
        np.testing.assert_array_equal(ours[name], value)
    assert content == save(given)
    texts = {"identity": '{"α": 1}'}
    assert store.write_tensors(given, texts) == save(given, texts)
    assert store.from_bytes(save(given, texts))[1] == texts


# The command


def test_the_command_writes_what_gassip_predict_writes(
    graph: Graph, saved: Path, tmp_path: Path
) -> None:
    x, edge_index, weight = arrays(graph)
    assert weight is not None
    np.savez(tmp_path / "same.npz", x=x, edge_index=edge_index, edge_weight=weight)
    assert (
        main(
            [str(saved), "--data", str(tmp_path / "same.npz"), "--out", str(tmp_path / "ours.csv")]
        )
        == 0
    )
    from gassip.cli import main as gassip_main

    command = [
        "predict",
        str(saved),
        "--data",
        str(tmp_path / "same.npz"),
        "--out",
        str(tmp_path / "theirs.csv"),
    ]
    assert gassip_main(command) == 0
    ours, theirs = (
        list(csv.DictReader((tmp_path / name).read_text().splitlines()))
        for name in ("ours.csv", "theirs.csv")
    )
    assert [(row["id"], row["label"]) for row in ours] == [
        (row["id"], row["label"]) for row in theirs
    ]
    shares = [[float(row["probability"]) for row in rows] for rows in (ours, theirs)]
    np.testing.assert_allclose(shares[0], shares[1], atol=2e-6)
    assert main([str(saved), "--out", str(tmp_path / "stored.csv")]) == 0
    assert (tmp_path / "stored.csv").read_text() == (tmp_path / "ours.csv").read_text()


def test_what_a_precision_costs_is_printed(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(saved), "--precision", "int8", "--out", str(tmp_path / "a.csv")]) == 0
    said = capsys.readouterr().out
    model, rounded = load(saved), load(saved, precision="int8")
    differ = int((model.predict() != rounded.predict()).sum())
    assert model.y is not None and model.test_mask is not None
    accuracy = np.mean(rounded.predict()[model.test_mask] == model.y[model.test_mask])
    assert f"{differ} of 40 labels differ" in said and f"test accuracy {accuracy:.4f}" in said
    assert not np.array_equal(model.scores(), rounded.scores())


def test_ids_of_a_csv_folder_are_in_the_labels(make_graph: MakeGraph, tmp_path: Path) -> None:
    graph = make_graph(2, nodes=12, edges=20, features=2)
    save_run(tmp_path / "run", graph, random_net(graph, architecture("GCNConv", "GCNConv")))
    folder = tmp_path / "csv"
    folder.mkdir()
    rows = "".join(f"n{i},{a},{b}\n" for i, (a, b) in enumerate(arrays(graph)[0].tolist()))
    (folder / "nodes.csv").write_text("id,f0,f1\n" + rows)
    (folder / "edges.csv").write_text("source,target\nn0,n1\n")
    assert (
        main([str(tmp_path / "run"), "--data", str(folder), "--out", str(tmp_path / "l.csv")]) == 0
    )
    assert (tmp_path / "l.csv").read_text().splitlines()[1].startswith("n0,")


# Without torch

HOOK = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        absent = {"torch", "torch_geometric", "sklearn", "rich", "matplotlib", "safetensors"}
        if name.split(".")[0] in absent:
            raise ImportError(f"{name} is not here")
sys.meta_path.insert(0, Refuse())
"""
USE = """
import sys
import numpy as np
from gassip.deploy.labelling import main
from gassip.deploy.runtime import load
model = load(sys.argv[1])
new = model.scores(np.ones((3, 9)), np.array([[0, 1], [1, 2]]))
more = model.extend(np.ones((1, 9)), np.array([[0], [40]])).scores(nodes=[40])
np.savez(sys.argv[2], own=model.predict_proba(), new=new, more=more)
assert main([sys.argv[1], "--out", sys.argv[2] + ".csv", "--precision", "float16"]) == 0
assert not {"torch", "torch_geometric", "sklearn"} & set(sys.modules)
"""


def check_without_torch(python: str, code: str, graph: Graph, saved: Path, out: Path) -> None:
    source = str(Path(gassip.__file__).parents[1])
    run = subprocess.run(
        [python, "-c", code, str(saved), str(out)],
        env={"PYTHONPATH": source, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    opened = open_run(saved)
    with torch.no_grad():
        scores = opened.model(graph.x, opened.edge_index, opened.edge_weight)
        new = opened.model(torch.ones(3, 9), torch.tensor([[0, 1], [1, 2]]))
        x = torch.cat([graph.to_data().x, torch.ones(1, 9)])
        assert opened.edge_weight is not None
        ends = torch.cat([opened.edge_index, torch.tensor([[0], [40]])], dim=1)
        more = opened.model(x, ends, torch.cat([opened.edge_weight, torch.ones(1)]))[[40]]
    with np.load(out.with_suffix(".npz")) as got:
        np.testing.assert_allclose(got["own"], torch.softmax(scores, 1), atol=1e-5)
        np.testing.assert_allclose(got["new"], new, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(got["more"], more, rtol=1e-5, atol=1e-5)


def test_it_runs_where_torch_cannot_be_imported(graph: Graph, saved: Path, tmp_path: Path) -> None:
    check_without_torch(sys.executable, HOOK + USE, graph, saved, tmp_path / "got.npz")


def test_it_runs_in_an_environment_of_numpy_and_scipy_alone(
    graph: Graph, saved: Path, tmp_path: Path
) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True
    )
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "--disable-pip-version-check",
        "--quiet",
    ]
    installed = subprocess.run(
        [*pip, "install", "--no-compile", "numpy", "scipy"], capture_output=True, text=True
    )
    if installed.returncode:
        pytest.skip(
            f"pip cannot install numpy and scipy here: {installed.stderr.strip().splitlines()[-1]}"
        )
    found = subprocess.run([str(python), "-c", "import torch"], capture_output=True, text=True)
    assert "No module named 'torch'" in found.stderr
    check_without_torch(str(python), USE, graph, saved, tmp_path / "got.npz")


# Bad input


@pytest.mark.parametrize(
    "name", ["meta.json", "model.safetensors", "graph.safetensors", "inputs.safetensors"]
)
def test_a_flipped_byte_or_a_missing_file_is_refused(
    folder: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    content = bytearray((folder / name).read_bytes())
    content[-9] ^= 1
    (folder / name).write_bytes(content)
    assert main([str(folder), "--out", str(tmp_path / "labels.csv")]) == 2
    (folder / name).unlink()
    assert main([str(folder), "--out", str(tmp_path / "labels.csv")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and all(
        line.startswith("gassip: error:") and name in line for line in said
    )
    assert not (tmp_path / "labels.csv").exists()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"schema": 99}, "schema 99; this version of gassip reads schema 1"),
        ({"architecture": ["GCNConv", "PoolConv"]}, "operation 'PoolConv' is not supported"),
        ({"architecture": ["GCNConv"]}, "outputs for"),
        ({"architecture": ["GATConv", "SAGEConv"]}, "layers.0.attention is missing"),
        ({"architecture": ["SAGEConv", "SAGEConv"]}, "layer 0, SAGEConv, has weights"),
        ({"features": 8}, "the first layer reads 9 features"),
        ({"nodes": 7}, "does not fit itself"),
        ({"nodes": "7"}, "nodes is '7'; it must be a int"),
    ],
)
def test_what_does_not_fit_is_refused(folder: Path, changes: dict[str, object], match: str) -> None:
    reseal(folder, **changes)
    with pytest.raises(GassipError, match=match):
        load(folder)


def test_garbage_behind_a_right_checksum_is_refused(folder: Path) -> None:
    for content in (b"", b"\xff" * 100, b"\x02" + bytes(7) + b"[]", store.write_tensors({})):
        (folder / "model.safetensors").write_bytes(content)
        reseal(folder)
        with pytest.raises(GassipError, match=r"safetensors file|not complete"):
            load(folder)


def test_a_sparse_table_that_lies_is_refused() -> None:
    one = np.ones(1, dtype=np.float32)
    for indices, indptr in (([5], [0, 1]), ([0], [0, 2]), ([0], [1, 1]), ([-1], [0, 1])):
        with pytest.raises(GassipError, match="does not have the shape"):
            checked(one, np.array(indices), np.array(indptr), (1, 2))


ENDS = np.array([[0], [1]])


@pytest.mark.parametrize(
    ("ask", "match"),
    [
        (lambda m: m.predict(np.ones((3, 4)), ENDS), "x has 4 features; the run's graph has 9"),
        (lambda m: m.predict(np.ones(3), ENDS), "x must be a table"),
        (lambda m: m.predict(np.full((3, 9), np.nan), ENDS), "NaN or infinite"),
        (lambda m: m.predict(np.full((3, 9), 1e300), ENDS), "NaN or infinite"),
        (
            lambda m: m.predict(np.ones((3, 9)), np.array([[0], [3]])),
            r"edge_index refers to node 3, but x has only 3 rows",
        ),
        (lambda m: m.predict(np.ones((3, 9)), ENDS.astype(float)), "whole numbers"),
        (lambda m: m.predict(np.ones((3, 9)), ENDS, np.array([-1.0])), "weights must be 0 or more"),
        (lambda m: m.predict(np.ones((3, 9)), ENDS, np.array(["1"])), "must hold numbers, not <U1"),
        (lambda m: m.predict(np.ones((3, 9))), "come together"),
        (lambda m: m.predict(nodes=[40]), r"node 40 is not among 0\.\.39"),
        (lambda m: m.predict(nodes=[-1]), "node -1 is not among"),
        (lambda m: m.predict(nodes=[]), "some whole numbers"),
    ],
)
def test_bad_graphs_and_nodes_are_refused(
    saved: Path, ask: Callable[[Model], object], match: str
) -> None:
    with pytest.raises(GassipError, match=match):
        ask(load(saved))


def test_a_run_without_inputs_asks_for_a_graph(graph: Graph, folder: Path) -> None:
    (folder / "inputs.safetensors").unlink()
    files = json.loads((folder / "meta.json").read_text())["files"]
    meta = json.loads((folder / "meta.json").read_text()) | {
        "files": {k: files[k] for k in list(files) if "inputs" not in k}
    }
    (folder / "meta.json").write_text(json.dumps(meta | {"sha256": store.digest(meta)}))
    model = load(folder)
    with pytest.raises(GassipError, match="without its inputs"):
        model.predict()
    with torch.no_grad():
        run = open_run(folder)
        expected = run.model(graph.x, run.edge_index, run.edge_weight)
    np.testing.assert_allclose(model.scores(*arrays(graph)), expected, rtol=1e-5, atol=1e-5)


def test_wrong_usage_and_an_out_that_exists_end_with_status_2(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there.csv").write_text("mine")
    assert main([str(saved), "--out", str(tmp_path / "there.csv")]) == 2
    assert (tmp_path / "there.csv").read_text() == "mine"
    assert main([str(saved), "--out", str(tmp_path / "no" / "such.csv")]) == 2
    with pytest.raises(SystemExit):
        main([str(saved), "--precision", "int4", "--out", "x"])
    assert len(capsys.readouterr().err.splitlines()) == 3
    with pytest.raises(GassipError, match="precision must be one of"):
        load(saved, precision="int4")  # type: ignore[arg-type]


@pytest.mark.parametrize("most", [1, 5, 13, 2**18])
def test_a_product_by_parts_is_the_product(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_products, "UNSHARED", most)
    rng = np.random.default_rng(0)
    left, right = rng.random((7, 3), dtype=np.float32), rng.random((3, 2), dtype=np.float32)
    out = np.full((7, 2), np.nan, dtype=np.float32)
    assert multiplied(left, right, out) is out
    np.testing.assert_allclose(out, left @ right, rtol=1e-6)
