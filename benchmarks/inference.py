"""Inference and its footprint: PyG as a user writes it, our own GCN-64, what a search with a
budget found, and the same net in C.

On Cora and PubMed the net must be at least as accurate as PyG's GCN-64, which is trained here: a
race against a better net would say nothing. The runtime is compared with the C file that `gassip
export --format c` writes, compiled here.

Every number of a dataset and a thread count comes from one process in which the sides take turns.
With one thread the clock is CPU time. The net is what `gassip search` finds within BUDGET; its
accuracy is printed. On arxiv-standin a search as short as SHORT says gives the sizes, which is all
that speed depends on, with an accuracy below its best. `python -m benchmarks.inference [dataset
...]`.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

SHORT = {"arxiv-standin": (10, 100)}  # epochs of search and of retraining, under the preset `paper`
REPEATS = {"cora": 41, "pubmed": 15, "physics": 15, "arxiv-standin": 5}
FASTER_THAN_PYG = {"cora": 20.0, "physics": 4.0}
OF_C = {"cora": 1.5, "pubmed": 1.5}  # the runtime's pass / that of C, at most
EQUAL = ("cora", "pubmed")  # where the accuracy of PyG's GCN-64 is a bar
TRAINING = {"cora": (0.8, 100), "physics": (0.5, 6)}  # bar, epochs of the comparison
QUERIES = 100
BUDGET = ("25%", "10%")  # of GCN-64's weights and multiply-adds
LIGHT = {"cora": ("12%", ""), "pubmed": ("12%", "")}  # where accuracy is a bar
Sides = dict[str, Callable[[], object]]


def main() -> bool:
    datasets = sys.argv[1:] if __name__ == "__main__" and len(sys.argv) > 1 else list(REPEATS)
    met: list[bool] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in datasets:
            folder = Path(scratch, name)
            accuracy = search(name, folder)
            if name in EQUAL:
                rival = child("pyg_accuracy", name)["test"]
                detail = f"{name}: accuracy {accuracy:.3f} − that of PyG's GCN-64, {rival:.3f}"
                met.append(say(detail, accuracy - rival, 0.0, least=True))
            for threads in (1, 2):
                found = child("latency", name, str(folder), threads=threads)
                show(name, threads, found)
                met += latency_bars(name, threads, found)
            if name in TRAINING:
                met.append(training_bar(name, child("training", name, str(folder))))
        if "cora" in datasets:
            met += footprint_bars(Path(scratch, "cora"))
    return all(met)


def say(title: str, value: float, bar: float, *, least: bool) -> bool:
    """One line, and whether the bar is met."""
    met = value >= bar if least else value <= bar
    print(
        f"{'ok  ' if met else 'MISS'}  {title}: {value:.3g} (bar {'≥' if least else '≤'} {bar:g})",
        flush=True,
    )
    return met


def search(name: str, folder: Path) -> float:
    """A run within its budget, and its ONNX file; the test accuracy."""
    weights, macs = LIGHT.get(name, BUDGET)
    command = ["search", "--dataset", name, "--max-params", weights, "--out", str(folder)]
    command += ["--max-macs", macs] if macs else []
    command += ["--threads", "1", "--quiet", "--json"]
    if name in SHORT:
        epochs, retrain = (str(own) for own in SHORT[name])
        command += [
            "--preset",
            "paper",
            "--epochs",
            epochs,
            "--warmup-epochs",
            "0",
            "--retrain-epochs",
            retrain,
        ]
    meta = json.loads(gassip(*command))
    print(f"\n{name}: {' ‖ '.join(meta['architecture'])}, hidden {meta['net']['hidden']}", end="")
    print(
        f", weights {meta['weights_kept']:,}, edges {meta['edges_kept']:,} of "
        f"{meta['edges_total']:,}"
    )
    print(f"  budget: weights {weights}, multiply-adds {macs or 'any'} of GCN-64", end="")
    print(
        f"; test accuracy {meta['accuracy']['test']:.4f}, search {meta['seconds']['search']:.0f} s"
    )
    print(
        gassip("export", str(folder), "--format", "onnx", "--out", str(folder) + ".onnx"),
        end="",
        flush=True,
    )
    return float(meta["accuracy"]["test"])


def gassip(*command: str) -> str:
    run = subprocess.run([sys.executable, "-m", "gassip", *command], capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(run.stderr)
    return run.stdout


def child(what: str, *arguments: str, threads: int = 1) -> dict[str, Any]:
    """One of this module's measurements in a process of its own."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    env = os.environ | dict.fromkeys(names, str(threads))
    code = (
        f"import sys; from benchmarks import inference; inference.answer(inference.{what}, "
        f"sys.argv[1:])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=env, capture_output=True, text=True
    )
    if run.returncode:
        raise RuntimeError(run.stderr)
    return json.loads(run.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def answer(measure: Callable[..., dict[str, Any]], arguments: list[str]) -> None:
    print(json.dumps(measure(*arguments)))


# Latency


def latency(name: str, folder: str) -> dict[str, Any]:
    """Median seconds of a full pass, and of 100 single-node queries, of every side."""
    import torch

    from benchmarks.timing import alternate

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    with torch.no_grad():
        full, queries = sides(name, folder)
        found = {
            "full": alternate(full, repeats=REPEATS[name], warmup=1),
            "queries": alternate(queries, repeats=3, warmup=1),
        }
    return found | {"c": c_seconds(folder) if name in OF_C else None}


def c_seconds(folder: str) -> float | None:
    """The fewest CPU seconds of a full pass of the net in C; None without a compiler."""
    from gassip.deploy.native.c_file import c_file
    from gassip.deploy.native.compiled import REPEATS as PASSES
    from gassip.deploy.native.compiled import compiled
    from gassip.deploy.native.net import native_net
    from gassip.deploy.native.sample import golden

    net = native_net(folder, "float32")
    with compiled(c_file(net, "net", golden(net)), "net", net.classes) as made:
        return None if made is None else made[0].passes(net.model.stored, PASSES)[1]


def pyg_accuracy(name: str) -> dict[str, Any]:
    """Test accuracy of PyG's GCN-64 at its best validation epoch of 200."""
    import torch
    from torch.nn import functional as F

    from gassip.graph.datasets import load

    torch.set_num_threads(1)
    torch.manual_seed(0)
    graph = load(name)
    data, net, best, test = graph.to_data(), pyg("GCNConv", graph), -1.0, 0.0
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(200):
        net.train()
        optimizer.zero_grad()
        scores = net(data.x, data.edge_index)[data.train_mask]
        F.cross_entropy(scores, data.y[data.train_mask]).backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            right = (net(data.x, data.edge_index).argmax(1) == data.y).float()
        value = float(right[data.val_mask].mean())
        if value > best:
            best, test = value, float(right[data.test_mask].mean())
    return {"val": best, "test": test}


def sides(name: str, folder: str) -> tuple[Sides, Sides]:
    """What is timed; a side without a field of its own answers each query by a full pass, of which
    a few are timed."""
    import numpy as np
    import onnxruntime
    import torch

    from gassip.budget.fit import gcn64, in_runtime
    from gassip.deploy import runtime
    from gassip.deploy.export import onnx_inputs
    from gassip.graph.datasets import load
    from gassip.nn.propagate import MaskedGraph
    from gassip.runs.write import open_run

    graph, run, model = (
        load(name),
        open_run(folder),
        runtime.load(folder, reorder=True),
    )
    data = graph.to_data()
    gcn, gat = pyg("GCNConv", graph), pyg("GATConv", graph)
    own, masked = gcn64(graph).eval(), MaskedGraph.of(graph)
    unpruned = dataclasses.replace(in_runtime(own, graph), reorder=True)
    kept = MaskedGraph.of(graph.keep(run.plan.edge_keep))
    if run.edge_weight is not None:
        kept.edge_weight = run.edge_weight
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(
        folder + ".onnx", options, providers=["CPUExecutionProvider"]
    )
    feeds = onnx_inputs(model, model.stored, False)
    full: Sides = {
        "PyG GCN-64": lambda: gcn(data.x, data.edge_index),
        "PyG GAT-64": lambda: gat(data.x, data.edge_index),
        "our GCN-64, torch": lambda: own.run(graph.x, masked),
        "our GCN-64, runtime": lambda: unpruned.scores(),
        "shrunk, torch": lambda: run.model.run(graph.x, kept),
        "shrunk, onnxruntime": lambda: session.run(None, feeds),
        "shrunk, runtime": lambda: model.scores(),
    }
    nodes = np.random.default_rng(0).integers(0, graph.num_nodes, QUERIES)
    queries: Sides = {
        "PyG GCN-64": lambda: around(gcn, data, nodes, 3),
        "PyG GAT-64": lambda: around(gat, data, nodes, 2),
    }
    for title in ("our GCN-64, torch", "shrunk, torch", "shrunk, onnxruntime"):
        queries[title] = full[title]
    queries["our GCN-64, runtime"] = lambda: [unpruned.scores(nodes=[node]) for node in nodes]
    queries["shrunk, runtime"] = lambda: [model.scores(nodes=[node]) for node in nodes]
    return full, queries


FEW = 4  # queries timed of a side that is slow at them


def around(net: Any, data: Any, nodes: Any, hops: int) -> None:
    """A node's neighbourhood, then the net on it; GCN needs a hop more, for the degrees of the
    outermost nodes."""
    import torch
    from torch_geometric.utils import k_hop_subgraph

    for node in nodes[:FEW].tolist():
        part, edges, _, _ = k_hop_subgraph(
            node, hops, data.edge_index, relabel_nodes=True, num_nodes=data.num_nodes
        )
        net(data.x.index_select(0, torch.as_tensor(part)), edges)


def scaled(queries: dict[str, float]) -> dict[str, float]:
    """Seconds of 100 queries from what was timed: some by subgraph, one full pass, or all of
    them."""
    times = dict.fromkeys(queries, float(QUERIES)) | {
        "PyG GCN-64": QUERIES / FEW,
        "PyG GAT-64": QUERIES / FEW,
    }
    times |= {"our GCN-64, runtime": 1.0, "shrunk, runtime": 1.0}
    return {title: span * times[title] for title, span in queries.items()}


def pyg(layer: str, graph: Any) -> Any:
    """Two layers of 64 hidden units as the documentation of PyG writes them."""
    import torch
    import torch_geometric.nn as layers

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = getattr(layers, layer)(graph.num_features, 64)
            self.second = getattr(layers, layer)(64, graph.num_classes)

        def forward(self, x: Any, edge_index: Any) -> Any:
            x = torch.nn.functional.dropout(x, 0.5, self.training)
            x = self.first(x, edge_index).relu()
            x = torch.nn.functional.dropout(x, 0.5, self.training)
            return self.second(x, edge_index)

    return Net().eval()


def show(name: str, threads: int, found: dict[str, Any]) -> None:
    queries = scaled(found["queries"])
    print(f"{name}, {threads} thread(s), ms{'':8}{'full pass':>14}{QUERIES:>9} queries")
    for title, span in found["full"].items():
        print(f"  {title:26}{1e3 * span:12.2f}{1e3 * queries[title]:16.1f}", flush=True)


def latency_bars(name: str, threads: int, found: dict[str, Any]) -> list[bool]:
    full, ours = found["full"], found["full"]["shrunk, runtime"]
    met = []
    title = f"{name}, {threads} thread(s): "
    if name in FASTER_THAN_PYG:
        bar = FASTER_THAN_PYG[name]
        met.append(say(title + "PyG GCN-64 / runtime", full["PyG GCN-64"] / ours, bar, least=True))
    if found["c"] is not None and threads == 1:
        met.append(say(title + "runtime / C", ours / found["c"], OF_C[name], least=False))
    for where in ("torch", "runtime"):
        met.append(
            say(
                f"{title}our GCN-64 in {where} / runtime",
                full[f"our GCN-64, {where}"] / ours,
                1.5,
                least=True,
            )
        )
    return met


# Training


def training(name: str, folder: str) -> dict[str, Any]:
    """Seconds of some epochs of retraining what was found, and of PyG's GCN-64 in the same loop."""
    import torch
    from torch.nn import functional as F

    from gassip.graph.datasets import load
    from gassip.runs.write import open_run
    from gassip.train.trainer import planned_net, train

    torch.set_num_threads(1)
    graph, found, epochs = load(name), open_run(folder).plan, TRAINING[name][1]
    data, own = graph.to_data(), found.on(graph)

    def ours() -> None:
        train(planned_net(graph, found), own, epochs=epochs, lr=0.01, weight_decay=5e-4)

    def theirs() -> None:
        net = pyg("GCNConv", graph)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
        for _ in range(epochs):
            net.train()
            optimizer.zero_grad()
            F.cross_entropy(
                net(data.x, data.edge_index)[data.train_mask], data.y[data.train_mask]
            ).backward()
            optimizer.step()
            net.eval()
            with torch.no_grad():
                (
                    net(data.x, data.edge_index)[data.val_mask].argmax(1) == data.y[data.val_mask]
                ).float().mean()

    spans: dict[str, list[float]] = {"ours": [], "pyg": []}
    for _ in range(3):
        for title, side in (("ours", ours), ("pyg", theirs)):
            began = time.process_time()
            side()
            spans[title].append(time.process_time() - began)
    return {title: median(span) for title, span in spans.items()}


def training_bar(name: str, spans: dict[str, Any]) -> bool:
    bar, epochs = TRAINING[name]
    detail = (
        f"{name}: retraining / PyG GCN-64, {epochs} epochs, {spans['ours']:.2f} s / "
        f"{spans['pyg']:.2f} s"
    )
    return say(detail, spans["ours"] / spans["pyg"], bar, least=False)


# Footprint

TORCH = """
import sys, time
before = time.process_time()
import torch, torch_geometric.nn
spent = time.process_time() - before
import json, numpy as np
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch_geometric.nn.GCNConv(1433, 64)
        self.second = torch_geometric.nn.GCNConv(64, 7)
    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)
with np.load(sys.argv[2]) as arrays, torch.inference_mode():
    Net().eval()(torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["edge_index"]))
"""
ONNX = """
import sys, time
before = time.process_time()
import numpy as np, onnxruntime
spent = time.process_time() - before
import json
with np.load(sys.argv[2]) as arrays:
    onnxruntime.InferenceSession(sys.argv[1] + ".onnx").run(None, {"x": arrays["x"]})
"""
RUNTIME = """
import sys, time
before = time.process_time()
from gassip.deploy.runtime import load
spent = time.process_time() - before
import json
load(sys.argv[1]).predict()
"""
# not getrusage: its maximum outlives exec, so that a child starts with its parent's
PRINT = """
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps({"seconds": spent, "MiB": peak / 1024}))
"""


def footprint_bars(folder: Path) -> list[bool]:
    """Cora: import and peak resident memory of a prediction, bytes on disk."""
    import numpy as np

    from gassip.graph.datasets import load

    data = load("cora").to_data()
    np.savez(folder.with_suffix(".npz"), x=data.x.numpy(), edge_index=data.edge_index.numpy())
    sides = {"torch + PyG": TORCH, "onnxruntime": ONNX, "runtime": RUNTIME}
    found: dict[str, dict[str, float]] = {}
    for title, code in sides.items():
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            code + PRINT,
            str(folder),
            str(folder.with_suffix(".npz")),
        ]
        runs = [
            json.loads(subprocess.check_output(command, text=True).splitlines()[-1])
            for _ in range(7)
        ]
        found[title] = {what: median(run[what] for run in runs) for what in ("seconds", "MiB")}
        print(
            f"cora, {title}: import {found[title]['seconds']:.3f} s, resident "
            f"{found[title]['MiB']:.0f} MiB"
        )
    met = [
        say(
            "resident, runtime / torch + PyG",
            found["runtime"]["MiB"] / found["torch + PyG"]["MiB"],
            0.25,
            least=False,
        ),
        say("import of the runtime, s", found["runtime"]["seconds"], 0.3, least=False),
    ]
    return [*met, bytes_bar(folder)]


def bytes_bar(folder: Path) -> bool:
    """model.safetensors of the run and of its exports, against GCN-64's state dict."""
    from gassip.deploy.export import to_runtime

    whole = 4 * (1433 * 64 + 64 + 64 * 7 + 7)
    sizes = {"run": (folder / "model.safetensors").stat().st_size}
    for precision in ("float32", "float16", "int8"):
        out = folder.with_name(f"cora-{precision}")
        meta = to_runtime(folder, out, precision=precision)  # type: ignore[arg-type]
        sizes[precision] = meta["bytes"]["model.safetensors"]
        others = {file: meta["bytes"][file] for file in ("graph.safetensors", "inputs.safetensors")}
        print(f"cora, {precision}: model {sizes[precision]:,} bytes, {meta['agreement']}")
    onnx = folder.with_suffix(".onnx").stat().st_size
    print(
        f"cora, bytes: GCN-64 {whole:,}, run {sizes['run']:,}, ONNX with the graph {onnx:,}, "
        f"{others}"
    )
    return say(
        "model of the run / GCN-64's state dict, bytes", sizes["run"] / whole, 0.3, least=False
    )


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
