"""What inference.py measures in processes of their own: `python -m benchmarks.latency WHAT ...`
prints one JSON object.

    latency NAME RUN    median seconds of a full pass, one after another and right after that of
                        another side (cold), and of 100 queries for one node, of every side
    training NAME RUN   seconds of some epochs of retraining the run, and of PyG's GCN-64
    rival NAME          accuracy of PyG's GCN-64

With one thread the clock is CPU time.
"""

import dataclasses
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks import pyg
from benchmarks.timing import alternate
from gassip.graph.datasets import load
from gassip.threads import set_threads

QUERIES = 100
FEW = 4  # queries timed of a side that is slow at them
REPEATS = {"cora": 81, "pubmed": 21, "physics": 9, "arxiv-standin": 3}
EPOCHS = {"cora": 100, "physics": 4}  # of the comparison of trainings
PYG, ONE_PASS = ("PyG GCN-64", "PyG GAT-64"), ("our GCN-64, torch", "found, torch", "found, ONNX")
Sides = dict[str, Callable[[], object]]


def latency(name: str, folder: str) -> dict[str, Any]:
    with torch.no_grad():
        full, queries = sides(name, folder)
        repeats = max(3, REPEATS.get(name, 5) // torch.get_num_threads() ** 2)
        passes = alternate(full, repeats=repeats, warmup=1, again=True)
        cold = alternate(full, repeats=repeats, warmup=0)
        asked = alternate(queries, repeats=3, warmup=1)
    # a side without a field of its own answers each query by a full pass
    times = dict.fromkeys(PYG, QUERIES / FEW) | dict.fromkeys(ONE_PASS, float(QUERIES))
    spans = {title: span * times.get(title, 1.0) for title, span in asked.items()}
    return {"full": passes, "cold": cold, "queries": spans, "c": c_seconds(folder)}


def sides(name: str, folder: str) -> tuple[Sides, Sides]:
    """What is timed: full passes, and queries for single nodes."""
    from gassip.budget.limits import gcn64, in_runtime
    from gassip.deploy import runtime
    from gassip.nn.propagate import MaskedGraph

    graph, model = load(name), runtime.load(folder, reorder=True)
    data, gcn, gat = graph.to_data(), pyg.gcn(graph).eval(), pyg.plain_gat(graph).eval()
    own, masked = gcn64(graph).eval(), MaskedGraph.of(graph)
    unpruned = dataclasses.replace(in_runtime(own, graph), reorder=True)
    full: Sides = {
        "PyG GCN-64": lambda: gcn(data.x, data.edge_index),
        "PyG GAT-64": lambda: gat(data.x, data.edge_index),
        "our GCN-64, torch": lambda: own.run(graph.x, masked),
        "our GCN-64, runtime": lambda: unpruned.scores(),
        "found, torch": in_torch(folder, graph),
        "found, ONNX": in_onnxruntime(folder, model),
        "found, runtime": lambda: model.scores(),
    }
    nodes = np.random.default_rng(0).integers(0, graph.num_nodes, QUERIES)
    queries: Sides = {
        "PyG GCN-64": lambda: around(gcn, data, nodes, 3),
        "PyG GAT-64": lambda: around(gat, data, nodes, 2),
        **{title: full[title] for title in ONE_PASS},
        "our GCN-64, runtime": lambda: [unpruned.scores(nodes=[node]) for node in nodes],
        "found, runtime": lambda: [model.scores(nodes=[node]) for node in nodes],
    }
    return full, queries


def in_torch(folder: str, graph: Any) -> Callable[[], object]:
    """The net of the run in torch, on its kept edges."""
    from gassip.nn.propagate import MaskedGraph
    from gassip.runs.read import open_run

    run = open_run(folder)
    kept = MaskedGraph.of(graph.keep(run.plan.edge_keep))
    if run.edge_weight is not None:
        kept.edge_weight = run.edge_weight
    return lambda: run.model.run(graph.x, kept)


def in_onnxruntime(folder: str, model: Any) -> Callable[[], object]:
    """The exported net, with as many threads as torch has."""
    import onnxruntime

    from gassip.deploy.export import onnx_inputs

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(
        folder + ".onnx", options, providers=["CPUExecutionProvider"]
    )
    feeds = onnx_inputs(model, model.stored, False)
    return lambda: session.run(None, feeds)


def around(net: Any, data: Any, nodes: Any, hops: int) -> None:
    """A node's neighbourhood, then the net on it; GCN needs a hop more, for the degrees of the
    outermost nodes."""
    from torch_geometric.utils import k_hop_subgraph

    for node in nodes[:FEW].tolist():
        part, edges, _, _ = k_hop_subgraph(
            node, hops, data.edge_index, relabel_nodes=True, num_nodes=data.num_nodes
        )
        net(data.x.index_select(0, torch.as_tensor(part)), edges)


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


def training(name: str, folder: str) -> dict[str, Any]:
    from gassip.runs.read import open_run
    from gassip.train.trainer import planned_net, train

    graph, found, epochs = load(name), open_run(folder).plan, EPOCHS[name]
    data, own = graph.to_data(), found.on(graph)
    spans: Sides = {
        "ours": lambda: train(
            planned_net(graph, found), own, epochs=epochs, lr=0.01, weight_decay=5e-4
        ),
        "pyg": lambda: pyg.train(pyg.gcn(graph), data, epochs),
    }
    return alternate(spans, repeats=3, warmup=0)


def rival(name: str) -> dict[str, Any]:
    return pyg.accuracy(load(name))


MEASURES: dict[str, Callable[..., dict[str, Any]]] = {
    "latency": latency,
    "training": training,
    "rival": rival,
}

if __name__ == "__main__":
    set_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    print(json.dumps(MEASURES[sys.argv[1]](*sys.argv[2:])))
