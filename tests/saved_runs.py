"""Runs with random weights, saved to a folder: what the tests of runtime and export start from."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch

from gassip.graph.graph import Graph
from gassip.metrics import all_scores
from gassip.nn.net import Architecture, Net
from gassip.runs.format import digest
from gassip.runs.write import Meta, save
from gassip.settings import Settings
from gassip.train.plan import Plan, Solution
from gassip.train.trainer import predict
from tests.small import inputs_of


def random_net(
    graph: Graph, architecture: Architecture, *, columns: int | None = None, seed: int = 0
) -> Net:
    """Weights, biases and running statistics all drawn, so that nothing is right by being 0 or
    1."""
    generator = torch.Generator().manual_seed(seed)
    index = (
        None
        if columns is None
        else torch.randperm(graph.num_features, generator=generator)[:columns].sort().values
    )
    net = Net(graph.num_features, graph.num_classes, architecture, 0.5, index)
    with torch.no_grad():
        for name, value in [*net.named_parameters(), *net.named_buffers()]:
            if name.endswith("running_var"):
                value.uniform_(0.5, 2.0, generator=generator)
            elif value.is_floating_point():
                value.normal_(generator=generator)
    return net.eval()


def save_run(
    folder: Path,
    graph: Graph,
    net: Net,
    *,
    kept: float = 0.8,
    soft: bool = False,
    source: Mapping[str, object] | None = None,
) -> Meta:
    """A run whose net is `net`, on a random share of the edges of `graph`."""
    generator = torch.Generator().manual_seed(1)
    edge_keep = torch.rand(graph.num_edges, generator=generator) < kept
    edge_mask = torch.rand(graph.num_edges, generator=generator) + 0.1
    sparser = graph.keep(edge_keep, graph.weight * edge_mask if soft else None)
    own: dict[str, torch.Tensor] = dict(net.named_parameters())
    plan = Plan(
        **inputs_of(Settings.of(kept_edges="soft" if soft else "binary")),
        architecture=net.architecture,
        weight_keep=[torch.ones_like(layer.weight, dtype=torch.bool) for layer in net.layers],
        edge_keep=edge_keep,
        edge_mask=edge_mask,
        first_weights=own,
        last_weights=own,
        history=[],
        seconds=1.0,
        feature_index=net.feature_index,
    )
    weights_kept, weights_total = net.num_weights()
    solution = Solution(
        model=net,
        graph=sparser,
        scores=all_scores(predict(net, sparser), sparser),
        weights_kept=weights_kept,
        weights_total=weights_total,
        edges_kept=sparser.num_edges,
        edges_total=graph.num_edges,
        seconds=1.0,
        best_epoch=1,
    )
    return save(folder, graph, plan, solution, source=source)


def refit(folder: Path, contents: Mapping[str, bytes], **changed: object) -> None:
    """Edit files and entries of meta.json, and make the checksums fit again."""
    meta = json.loads((folder / "meta.json").read_bytes()) | changed
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        meta["files"][name] = hashlib.sha256(content).hexdigest()
    meta["sha256"] = digest(meta)
    (folder / "meta.json").write_text(json.dumps(meta))
