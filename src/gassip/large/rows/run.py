"""A whole run on rows: graph folder in, run folder out.

    direction → hops → search on rows → scores of all labelled nodes by blocks of rows → folder

The folder is that of any run (runs/write.py) without graph, inputs and what a retraining of the
whole graph starts from: the graph stays in its own folder, which meta.json names in `rows`.

Shapes: N nodes, C classes.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from gassip.best.calibration import log_likelihood
from gassip.best.decisions import LIKELIHOOD
from gassip.best.rules import LIKELIHOOD_SIGMAS
from gassip.best.significance import likelihood_gain
from gassip.deploy.by_rows import RowModel
from gassip.deploy.row_runs import hops_name, known_labels
from gassip.errors import GassipError
from gassip.graph.store import META, GraphFolder, sha256
from gassip.large.adjacency import stored_edges, symmetric
from gassip.large.cluster import InProcess, Tasks
from gassip.large.hops import Hops, Precision, needed, open_hops, propagate
from gassip.large.kernels import LARGE, Edges, compiled_here
from gassip.large.rows.data import Chosen, Tables
from gassip.large.rows.nets import MOST_HOPS, Shape
from gassip.large.rows.search import Found, Options, search_rows
from gassip.large.rows.training import LR, WEIGHT_DECAY, judged_rows
from gassip.large.rows.trials import Trials, numpy_layers
from gassip.metrics import METRICS, Metric, score
from gassip.nn.size import Size, macs_of, packed
from gassip.runs.format import PREPARATION
from gassip.runs.history import history_csv, history_svg
from gassip.runs.write import Meta, check_target, decision_row, plain, sealed, to_json, versions
from gassip.settings.training import Recipe
from gassip.train.deadline import Deadline
from gassip.train.leaderboard import FILE as LEADERBOARD
from gassip.train.leaderboard import final, to_rows
from gassip.train.plan import Decision, Row

Scores = dict[str, dict[str, float]]
SPLITS = {"train": 1, "val": 2, "test": 3}


@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """What a user asks of a search on rows."""

    graph: GraphFolder
    hops: Path  # folder of the hops
    options: Options
    steps: int = MOST_HOPS
    precision: Precision = "float32"
    memory: int | None = None  # bytes that a block of columns may take
    both: bool = False  # edges are read both ways, without asking validation
    seed: int = 0
    metric: Metric = "accuracy"
    threads: int = 1
    deadline: Deadline | None = None
    hear: Callable[[Row], None] = lambda row: None
    said: Callable[[str], None] = lambda text: None
    tasks: Tasks = field(default_factory=InProcess)


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """What a run writes."""

    job: Job
    hops: Hops
    edges: Edges
    edges_key: str
    found: Found
    trials: Trials
    scores: Scores
    decisions: tuple[Decision, ...]
    seconds: float


def run_on_rows(job: Job) -> Outcome:
    began = time.perf_counter()
    if not compiled_here():
        job.said(f"hops are computed by scipy, several times slower; numba {LARGE}")
    chosen = Chosen.of(job.graph, (job.steps + 1) * int(job.graph.meta["features"]), job.seed)
    made: list[Decision] = []
    key = direction(job, chosen, made)
    trials = prepared(job, chosen, key)
    found = search_rows(trials, job.options)
    if job.precision != "float32":
        job.said(cost_of_rounding(trials, found, job.precision))
    scores = all_scores(trials, found)
    return Outcome(
        job=job,
        hops=trials.hops,
        edges=trials.edges,
        edges_key=key,
        found=found,
        trials=trials,
        scores=scores,
        decisions=(*made, *found.decisions),
        seconds=time.perf_counter() - began,
    )


def prepared(job: Job, chosen: Chosen, key: str) -> Trials:
    """Hops, computed if they are not there, and the rows of the chosen nodes."""
    path = job.hops / hops_name({"edges": key, "precision": job.precision})
    edges = stored_edges(job.graph, key, path)
    hops = open_hops(
        job.graph,
        path,
        steps=job.steps,
        memory=job.memory,
        precision=job.precision,
        edges_key=key,
    )
    need = needed(hops)
    if need.blocks:
        job.said(f"hops, edges {key}: {need}")
    exact = None if job.precision == "float32" else chosen.val
    propagate(hops, edges, threads=job.threads, exact=exact, tasks=job.tasks, said=job.said)
    return Trials(
        hops=hops,
        edges=edges,
        chosen=chosen,
        tables=Tables(chosen, hops, job.steps),
        classes=len(job.graph.class_names),
        seed=job.seed,
        metric=job.metric,
        threads=job.threads,
        deadline=job.deadline,
        hear=job.hear,
        tasks=job.tasks,
    )


def direction(job: Job, chosen: Chosen, made: list[Decision]) -> str:
    """`given`, or `both` if a net over hops of the symmetrised graph has a higher validation
    likelihood beyond chance."""
    if symmetric(Edges.of(job.graph)):
        return "given"
    if job.both:
        return "both"
    results = {}
    for key in ("given", "both"):
        trials = prepared(job, chosen, key)
        shape = Shape(hops=tuple(range(min(2, job.steps) + 1)))
        results[key] = trials.train("candidate direction", 0, shape)
        y = trials.tables.val.target
    likelihood = [log_likelihood(own.probs, y) for own in results.values()]
    statistic = likelihood_gain(likelihood[1], likelihood[0])
    taken = "both" if statistic > LIKELIHOOD_SIGMAS else "given"
    tried: list[Row] = [
        {"name": key, "score": own.value, "statistic": value}
        for (key, own), value in zip(results.items(), (0.0, statistic), strict=True)
    ]
    made.append(
        Decision(
            stage="direction",
            taken=taken,
            tried=tuple(tried),
            statistic=LIKELIHOOD,
            threshold=float(LIKELIHOOD_SIGMAS),
        )
    )
    return taken


def cost_of_rounding(trials: Trials, found: Found, precision: str) -> str:
    """The first net that was taught, on rounded and on exact hops of the validation nodes."""
    first = trials.first
    if first is None:
        return f"{precision} hops: no net was trained to compare them with"
    ks = range(first.shape.hops[-1] + 1)
    exact = trials.hops.exact_rows(trials.chosen.val, ks)
    if exact is None:
        return f"{precision} hops: exact ones of these validation nodes were not kept"
    logits = judged_rows(first.net, torch.from_numpy(exact))
    value = score(trials.metric, logits, trials.tables.val.target)
    changed = float((logits.argmax(1) != first.logits.argmax(1)).float().mean())
    return (
        f"{precision} hops: validation {trials.metric} {first.value:.4f}, with exact hops "
        f"{value or 0:.4f}; {changed:.2%} of the labels differ"
    )


def model_of(trials: Trials, found: Found) -> RowModel:
    return RowModel(
        layers=numpy_layers(found.trained.net),
        hops=trials.hops,
        edges=trials.edges,
        label_weight=found.label_weight,
        labels=known_labels(trials.hops.graph) if found.label_weight else None,
        threads=trials.threads,
    )


def all_scores(trials: Trials, found: Found) -> Scores:
    """{metric: {split: score}} over every labelled node; test labels are read here, once."""
    graph = trials.hops.graph
    y, split = np.asarray(graph.array("y")), np.asarray(graph.array("split"))
    kept: dict[str, list[np.ndarray]] = {name: [] for name in SPLITS}
    for start, scores in model_of(trials, found).blocks(trials.tasks):
        stop = start + len(scores)
        for name, number in SPLITS.items():
            kept[name].append(scores[(split[start:stop] == number) & (y[start:stop] >= 0)])
    table: Scores = {}
    for metric in METRICS:
        for name, number in SPLITS.items():
            truth = torch.from_numpy(y[(split == number) & (y >= 0)].astype(np.int64))
            value = score(metric, torch.from_numpy(np.concatenate(kept[name])), truth)
            if value is not None:
                table.setdefault(metric, {})[name] = value
    return table


def save(
    out: Path,
    outcome: Outcome,
    *,
    preset: str,
    source: Mapping[str, object],
    budget: Mapping[str, float | str],
    overwrite: bool,
) -> Meta:
    """The run's folder, all of it or nothing; its meta.json."""
    check_target(out, overwrite)
    found, job, graph = outcome.found, outcome.job, outcome.job.graph
    net = found.trained.net
    net.label_weight = found.label_weight
    history = [{"phase": "search", **row} for row in outcome.trials.history]
    own = replace(outcome.trials.board[-1], name="taken", kind="final")
    sized = size_of(outcome)
    own = replace(
        own,
        architecture=str(net.architecture),
        val_score=outcome.scores.get(job.metric, {}).get("val"),
        weights=sized.params,
        macs=sized.macs,
    )
    title = f"{graph.meta['name']} · {preset}, search on rows · seed {job.seed}"
    contents = {
        "model.safetensors": packed(net),
        "decisions.json": to_json([decision_row(one) for one in outcome.decisions]).encode(),
        LEADERBOARD: to_json(to_rows(final(outcome.trials.board, own))).encode(),
        "history.csv": history_csv(history).encode(),
        "history.svg": history_svg(history, title, found.trained.epoch),
    }
    if graph.preparation is not None:
        contents[PREPARATION] = graph.preparation.to_json().encode()
    meta = _meta(outcome, sized) | {"preset": preset, "budget": dict(budget)}
    meta["source"] = dict(source) | {"fingerprint": sha256(graph.path / META)}
    return sealed(out, meta, contents)


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
    net = found.trained.net
    kept, total = net.num_weights()
    shape = plain(net.architecture)
    recipe = Recipe(
        epochs=max(1, found.trained.epoch),
        lr=LR,
        weight_decay=WEIGHT_DECAY,
        dropout=net.dropout,
        label_weight=found.label_weight,
        labels_in_training=False,
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
        "edges_total": sized.edges,
        "accuracy": {name: outcome.scores.get("accuracy", {}).get(name) for name in SPLITS},
        "scores": outcome.scores,
        "best_epoch": found.trained.epoch,
        "versions": versions(),
        "threads": job.threads,
        "device": "cpu",
        "notes": [*graph.meta["notes"], "search on rows (docs/LARGE.md)"],
        "settings": {"size_shares": list(job.options.sizes), "hops": job.steps},
        "recipe": asdict(recipe),
        "symmetrised": outcome.edges_key == "both",
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
            "steps": job.steps,
            "precision": job.precision,
            "edges": outcome.edges_key,
        },
    }


def hops_folder(graph: GraphFolder, out: Path) -> Path:
    """In the graph's folder, where later searches find them; beside the run if that is not
    writable."""
    path = graph.path / "hops"
    try:
        path.mkdir(exist_ok=True)
        probe = path / ".probe"
        probe.touch()
        probe.unlink()
    except OSError:
        path = out.with_name(f"{out.name}.hops")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GassipError(f"hops can be written neither to {graph.path} nor {path}") from error
    return path
