"""A run in the forms it is deployed in; each is compared with torch before it is kept.

    runtime      a folder for gassip.runtime: meta.json, model, graph and inputs, without what only
                 a retraining needs;
                 edges as int32 rows, weights as float32, float16 or int8, zeros left out where that
                 is smaller
    onnx         one file, onnx/
    executorch   one file, executorch.py

A file that does not agree with torch within 1e-4 in each of 30 runs on all threads (ExecuTorch,
whose portable kernels have one: 5 runs), or gives another label where the two best scores are
further apart than that, is not written.
"""

import hashlib
import io
import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse as sp

from gassip.deploy import runtime
from gassip.deploy.labelling import cost
from gassip.deploy.model import makes_no_columns
from gassip.deploy.numpy_graph import Inputs
from gassip.deploy.stored import stored_tensors, too_large
from gassip.errors import GassipError
from gassip.graph.checks import Table, clean_edges
from gassip.runs import format as store
from gassip.runs.read import open_net
from gassip.runs.write import check_target, replace_file, write_folder

if TYPE_CHECKING:
    from gassip.nn.net import Net

RUNS = 30
PORTABLE_RUNS = 5
TOLERANCE = 1e-4
KEPT = (
    "dataset",
    "source",
    "nodes",
    "features",
    "class_names",
    "architecture",
    "edges_kept",
    "edges_total",
)


def to_runtime(
    folder: str | Path,
    out: str | Path,
    *,
    precision: store.Precision = "float32",
    inputs: bool = True,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write the folder, and return its meta.json; `agreement` in it says what the precision
    costs."""
    out = Path(out)
    check_target(out, overwrite)
    contents, made = runtime_files(Path(folder), precision, inputs)
    write_folder(out.resolve(), contents)
    return made


def to_pack(folder: str | Path, out: str | Path, *, overwrite: bool = False) -> dict[str, Any]:
    """The files of `to_runtime`, whole, in one zip file; return its meta.json."""
    out = Path(out)
    store.check_file(out, overwrite)
    contents, made = runtime_files(Path(folder), "float32", True)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name)  # of a fixed date: equal runs give equal bytes
            entry.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(entry, content)
    store.replace_file(out, packed.getvalue())
    return made


def runtime_files(
    folder: Path, precision: store.Precision, inputs: bool
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """What prediction needs, by file, with a checksum of each in meta.json; and that."""
    meta = store.read_meta(folder)
    if meta["schema"] == store.EXPORTED:
        raise GassipError(f"{folder} is an export already; export the run it was made from")
    runtime.load(folder)  # refuses a run that does not fit itself
    state = store.unpack(store.read_tensors(folder, "model.safetensors", meta), meta, None)
    if reason := too_large(meta):
        raise GassipError(reason)
    graph, given = stored_tensors(folder, meta)
    contents = {
        "model.safetensors": store.write_tensors(_model_tensors(state, precision)),
        "graph.safetensors": store.write_tensors(_graph_tensors(graph, meta["nodes"])),
    }
    if inputs and given:
        masks = ("train_mask", "test_mask") if store.label_weight(meta) else ("test_mask",)
        if lost := [name for name in masks if name not in graph]:
            raise GassipError(f"{folder}: the run is not complete: {lost[0]} is missing")
        contents["inputs.safetensors"] = store.write_tensors(
            _input_tensors(given, {m: graph[m] for m in masks})
        )
    for name in (store.PREPARATION, store.STATISTICS):
        if name in meta["files"]:
            contents[name] = store.read_file(folder, name, meta)
    made = {name: meta[name] for name in KEPT} | {
        "schema": store.EXPORTED,
        "precision": precision,
    }
    made["soft_edges"] = store.soft_edges(meta)
    made["label_weight"] = store.label_weight(meta)
    made["labels_in_training"] = store.labels_in_training(meta)
    made["inductive"] = meta.get("inductive")
    made["agreement"] = _agreement(folder, precision)
    if made["label_weight"] and "inputs.safetensors" not in contents:
        made["agreement"] += "; without the run's labels the net's own scores"
    made["files"] = {
        name: hashlib.sha256(content).hexdigest() for name, content in contents.items()
    }
    made["bytes"] = {name: len(content) for name, content in contents.items()}
    made["sha256"] = store.digest(made)
    contents["meta.json"] = (json.dumps(made, indent=1) + "\n").encode()
    return contents, made


def _model_tensors(state: store.Tensors, precision: store.Precision) -> store.Tensors:
    """What inference reads; `num_batches_tracked` says nothing."""
    out: store.Tensors = {}
    for name, value in state.items():
        if name.startswith("layers.") and name.endswith(".weight"):
            out |= {
                f"{name}.{part}".rstrip("."): packed
                for part, packed in store.pack(value, precision).items()
            }
        elif not name.endswith("num_batches_tracked"):
            out[name] = value.astype(np.int32) if name == "feature_index" else value
    return out


def _graph_tensors(graph: store.Tensors, nodes: int) -> store.Tensors:
    """Edges by receiver: how many there are up to each, and their senders."""
    if "edge_index" in graph:
        sender, receiver = graph["edge_index"]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(receiver, minlength=nodes))])
    else:
        sender, indptr = graph["sender"], graph["indptr"]
    short = np.uint16 if nodes <= 2**16 else np.int32
    weight = {"edge_weight": graph["edge_weight"]} if "edge_weight" in graph else {}
    return {"indptr": indptr.astype(np.int32), "sender": sender.astype(short)} | weight


def _input_tensors(given: store.Tensors, masks: store.Tensors) -> store.Tensors:
    out = given | masks
    if "x_indices" in out and out["x_indices"].size and int(out["x_indices"].max()) < 2**16:
        out["x_indices"] = out["x_indices"].astype(np.uint16)
    return out


def _agreement(folder: Path, precision: store.Precision) -> str:
    """What rounding costs on the run's own graph; the runtime's float32 against torch's first."""
    whole = runtime.load(folder)
    if whole.x is None:
        return "not measured: the run was saved without its inputs"
    scores = whole.scores()
    check(lambda: scores, torch_scores(open_net(folder), whole, whole.stored), runs=1)
    rounded = runtime.load(folder, precision=precision)
    return cost(precision, rounded.predict(), scores.argmax(1), whole)


# ONNX


def to_onnx(
    folder: str | Path, out: str | Path, *, dynamic: bool = False, overwrite: bool = False
) -> int:
    """Write the file once it agrees with torch, and return its number of bytes."""
    out = Path(out)
    store.check_file(out, overwrite)
    try:
        import onnxruntime

        from gassip.deploy import onnx as onnx_graph
    except ImportError as error:
        raise GassipError(
            "ONNX export needs the 'onnx' extra: pip install 'gassip[onnx]'"
        ) from error
    run, model = open_net(folder), runtime.load(folder)
    makes_no_columns(model, "an ONNX file")
    made = onnx_graph.dynamic(model) if dynamic else onnx_graph.fixed(model, model.stored)
    content: bytes = made.SerializeToString()
    session = onnxruntime.InferenceSession(
        content, providers=["CPUExecutionProvider"]
    )  # on all threads
    graphs = [model.stored, _another(model)] if dynamic else [model.stored]
    for inputs in graphs:
        feeds = onnx_inputs(model, inputs, dynamic)
        check(lambda: session.run(None, feeds)[0], torch_scores(run, model, inputs))  # noqa: B023
    replace_file(out, content)
    return len(content)


def onnx_inputs(model: runtime.Model, inputs: Inputs, dynamic: bool) -> dict[str, np.ndarray]:
    """The arrays an exported file is fed with for a graph; columns of x that the net does not read
    are drawn."""
    feeds = {"x": all_columns(model, inputs.x)}
    if dynamic:
        coo = inputs.edges.tocoo()
        feeds |= {
            "edge_index": np.stack([coo.col, coo.row]).astype(np.int64),
            "edge_weight": coo.data,
        }
    if dynamic and model.label_weight:
        unknown = np.full(inputs.x.shape[0], -1)
        feeds["labels"] = (unknown if inputs.labels is None else inputs.labels).astype(np.int64)
    return feeds


def to_executorch(folder: str | Path, out: str | Path, *, overwrite: bool = False) -> int:
    """Write the .pte file of the run on its own graph once it agrees with torch, and return its
    number of bytes."""
    out = Path(out)
    store.check_file(out, overwrite)
    with warnings.catch_warnings():  # of the exporter about its own parts
        warnings.simplefilter("ignore")
        try:
            import executorch.exir
            import executorch.runtime  # noqa: F401

            from gassip.deploy import executorch as executorch_net
        except ImportError as error:
            raise GassipError(
                "ExecuTorch export needs the 'executorch' extra: pip install 'gassip[executorch]'"
            ) from error
        run, model = open_net(folder), runtime.load(folder)
        makes_no_columns(model, "an ExecuTorch file")
        x = all_columns(model, model.stored.x)
        content = executorch_net.program(model, model.stored, x)
        session = executorch_net.Session(content)
    check(lambda: session.run(x), torch_scores(run, model, model.stored), runs=PORTABLE_RUNS)
    replace_file(out, content)
    return len(content)


def all_columns(model: runtime.Model, x: Table) -> np.ndarray:
    """Dense x [N, D] from the columns that are read."""
    dense = x.toarray() if isinstance(x, sp.csr_array) else x
    if model.feature_index is None:
        return dense
    whole = np.random.default_rng(0).random((dense.shape[0], model.features), dtype=np.float32)
    whole[:, model.feature_index] = dense
    return whole


def _another(model: runtime.Model) -> Inputs:
    """A small random graph with an isolated node, weights, labels and sizes of its own."""
    rng = np.random.default_rng(0)
    nodes = 23
    x = rng.normal(size=(nodes, model.layers[0].weights[0].shape[0])).astype(np.float32)
    ends = rng.integers(0, nodes - 1, (2, 80))
    edges = clean_edges(ends, rng.uniform(0.1, 2, 80), nodes, undirected=False)
    return Inputs(x, edges, rng.integers(-1, len(model.class_names), nodes))


def torch_scores(net: "Net", model: runtime.Model, inputs: Inputs) -> np.ndarray:
    """The scores to agree with, by the net itself."""
    import torch

    from gassip.graph.csr import Csr
    from gassip.nn.propagate import MaskedGraph
    from gassip.train.label_propagation import label_logits

    edges = Csr.from_scipy(inputs.edges)
    assert edges.value is not None
    if isinstance(inputs.x, sp.csr_array):
        column = (
            inputs.x.indices
            if model.feature_index is None
            else model.feature_index[inputs.x.indices]
        )
        shape = (inputs.x.shape[0], model.features)
        x: Csr | torch.Tensor = Csr.from_scipy(
            sp.csr_array((inputs.x.data, column, inputs.x.indptr), shape=shape)
        )
    else:
        x = torch.from_numpy(np.array(all_columns(model, inputs.x)))
    graph = MaskedGraph(edges, edges.value)
    with torch.no_grad():
        scores = net.run(x, graph)
        if net.label_weight and inputs.labels is not None:
            labels = torch.from_numpy(inputs.labels)
            scores = scores + net.label_weight * label_logits(labels, len(model.class_names), graph)
    return np.asarray(scores.numpy())


def check(
    run: Callable[[], np.ndarray], expected: np.ndarray, *, runs: int = RUNS, by: str = "torch"
) -> None:
    """Refuse what differs from `expected`, computed `by` another, in any of `runs` runs."""
    best = expected.max(1)
    for at in range(1, runs + 1):
        got = run()
        far = float((np.abs(got - expected) / np.maximum(1, np.abs(expected))).max())
        chosen = np.take_along_axis(expected, got.argmax(1)[:, None], 1)[:, 0]
        others = int((best - chosen > 2 * TOLERANCE * np.maximum(1, np.abs(best))).sum())
        if not far <= TOLERANCE or others:
            what = (
                f"run {at} of {runs} is off by {far:.2g} and gives {others} of {best.size} "
                f"nodes another label"
            )
            raise GassipError(f"the export does not agree with {by}: {what}; nothing was written")
