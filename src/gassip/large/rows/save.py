"""The folder of a run on rows.

It is that of any run (runs/write.py) without graph, inputs and what a retraining of the whole graph
starts from: the graph stays in its own folder, which meta.json names in `rows`.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from math import isinf
from pathlib import Path

import numpy as np

from gassip.graph.drift import Statistics
from gassip.graph.store import META, GraphFolder, sha256
from gassip.large.arrays import slab
from gassip.large.hops import ROWS
from gassip.large.rows.run import Outcome
from gassip.large.rows.scores import SPLITS
from gassip.large.rows.training import LR
from gassip.nn.size import Size, macs_of, packed
from gassip.runs.format import DECISIONS, PREPARATION, STATISTICS, write_tensors
from gassip.runs.history import history_csv, history_svg
from gassip.runs.write import Meta, check_target, decision_row, plain, sealed, to_json, versions
from gassip.settings.training import Recipe
from gassip.train.leaderboard import FILE as LEADERBOARD
from gassip.train.leaderboard import NET_OF_ROWS, final, to_rows
from gassip.train.refit import NOTE

TEACHER = "teacher.safetensors"  # the nodes that a teacher told of, and what it told


def save(
    out: Path,
    outcome: Outcome,
    *,
    preset: str,
    source: Mapping[str, object],
    budget: Mapping[str, float | str],
    overwrite: bool,
    measured: Mapping[str, object] | None = None,
) -> Meta:
    """The run's folder, all of it or nothing; its meta.json."""
    check_target(out, overwrite)
    found, job, graph = outcome.found, outcome.job, outcome.job.graph
    net = found.trained.net
    net.label_weight = found.label_weight
    history = [{"phase": "search", **row} for row in outcome.trials.history]
    final_row = replace(outcome.trials.board[-1], name=NET_OF_ROWS, kind="final")
    sized = size_of(outcome)
    final_row = replace(
        final_row,
        architecture=str(net.architecture),
        val_score=outcome.scores.get(job.metric, {}).get("val"),
        weights=sized.params,
        macs=sized.macs,
    )
    title = f"{graph.meta['name']} · {preset}, search on rows · seed {job.seed}"
    contents = {
        "model.safetensors": packed(net),
        DECISIONS: to_json([decision_row(one) for one in outcome.decisions]).encode(),
        LEADERBOARD: to_json(to_rows(final(outcome.trials.board, final_row))).encode(),
        "history.csv": history_csv(history).encode(),
        "history.svg": history_svg(history, title, found.trained.epoch),
    }
    if found.probs is not None:
        taught = {"nodes": outcome.trials.chosen.others, "probs": found.probs.numpy()}
        contents[TEACHER] = write_tensors(taught)
    if graph.preparation is not None:
        contents[PREPARATION] = graph.preparation.to_json().encode()
    contents[STATISTICS] = write_tensors(statistics(graph).to_tensors())
    meta = _meta(outcome, sized) | {"preset": preset, "budget": dict(budget)} | dict(measured or {})
    if source.get("refit"):
        meta["notes"].append(NOTE)
    meta["source"] = dict(source) | {"fingerprint": sha256(graph.path / META)}
    return sealed(out, meta, contents)


def statistics(graph: GraphFolder) -> Statistics:
    """Of the features, block by block."""
    x = graph.array("x")
    starts = range(0, len(x), ROWS)
    parts = [Statistics.of(slab(x, start, min(len(x), start + ROWS))) for start in starts]
    rows = [min(ROWS, len(x) - start) for start in starts]
    mean = np.average([part.mean for part in parts], axis=0, weights=rows)
    return Statistics(
        low=np.min([part.low for part in parts], axis=0),
        high=np.max([part.high for part in parts], axis=0),
        mean=np.asarray(mean, dtype=np.float32),
    )


def size_of(outcome: Outcome) -> Size:
    graph, net = outcome.job.graph, outcome.found.trained.net
    edges = int(outcome.edges.indptr[-1])
    read = graph.nodes * outcome.hops.features
    return Size(
        params=net.num_weights()[0],
        bytes=len(packed(net)),
        edges=edges,
        macs=macs_of(net, nodes=graph.nodes, edges=edges, read=read),
    )


def _meta(outcome: Outcome, sized: Size) -> Meta:
    job, found, graph = outcome.job, outcome.found, outcome.job.graph
    net, options = found.trained.net, asdict(job.options)
    options["most_weights"] = None if isinf(job.options.most_weights) else job.options.most_weights
    kept, total = net.num_weights()
    shape = plain(net.architecture)
    recipe = Recipe(
        epochs=max(1, found.trained.epoch),
        lr=LR,
        weight_decay=found.student.shape.decay,
        dropout=net.dropout,
        label_weight=found.label_weight,
        labels_in_training=bool(found.student.label_weight),
    )
    return {
        "schema": 2,
        "dataset": graph.meta["name"],
        "nodes": graph.nodes,
        "features": outcome.hops.features,
        "class_names": list(graph.class_names),
        "weights_kept": kept,
        "weights_total": total,
        "edges_kept": sized.edges,
        "edges_total": outcome.edges_total,
        "accuracy": {name: outcome.scores.get("accuracy", {}).get(name) for name in SPLITS},
        "scores": outcome.scores,
        "best_epoch": found.trained.epoch,
        "versions": versions(),
        "threads": job.threads,
        "device": "cpu",
        "notes": [*graph.meta["notes"], "search on rows (docs/LARGE.md)"],
        "settings": {"size_shares": list(job.options.sizes), "hops": job.steps},
        "recipe": asdict(recipe),
        "symmetrised": outcome.edges_key.startswith("both"),
        "soft_edges": False,
        "found": dict(shape),
        "architecture": shape.pop("ops"),
        "net": shape | {"dropout": net.dropout, "label_weight": found.label_weight},
        "size": asdict(sized),
        "seconds": {"search": outcome.seconds, "retrain": 0.0},
        "seed": job.seed,
        "metric": job.metric,
        "inputs_bytes": None,
        "rows": {
            "graph": str(graph.path.resolve()),
            "files": dict(graph.meta["files"]),
            "hops": str(outcome.hops.path.resolve()),
            "steps": outcome.hops.steps,
            "precision": job.precision,
            "edges": outcome.edges_key,
            "student": asdict(found.student),
            "options": options,
        },
    }
