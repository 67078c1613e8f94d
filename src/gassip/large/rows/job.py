"""What is asked of a search on rows, and its rows: hops, computed if they are not there."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from gassip import __version__
from gassip.deploy.by_rows import OnDisk
from gassip.deploy.row_runs import hops_name
from gassip.errors import GassipError
from gassip.graph.store import META, GraphFolder, sha256
from gassip.large.adjacency import stored_edges
from gassip.large.cluster import InProcess, Tasks
from gassip.large.hops import Hops, Precision, needed, open_hops, propagate
from gassip.large.kernels import Edges
from gassip.large.rows.data import Chosen, Tables
from gassip.large.rows.kept import KeptNets
from gassip.large.rows.nets import MOST_HOPS
from gassip.large.rows.pace import Pace
from gassip.large.rows.search import Options
from gassip.large.rows.trials import Trials
from gassip.metrics import Metric
from gassip.train.plan import Row

HOPS_SHARE = 1 / 3  # of the time left


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
    hear: Callable[[Row], None] = lambda row: None
    said: Callable[[str], None] = lambda text: None
    pace: Pace = field(default_factory=Pace)  # knows when the search has to end
    tasks: Tasks = field(default_factory=InProcess)
    kept: KeptNets | None = None  # where trained nets are kept, for a search that is killed

    def identity(self) -> dict[str, object]:
        """Everything its bits follow from, but the machine and its threads."""
        return {
            "graph": sha256(self.graph.path / META),
            "seed": self.seed,
            "metric": self.metric,
            "precision": self.precision,
            "both": self.both,
            "gassip": __version__,
            "torch": str(torch.__version__),
            "settings": {name: str(value) for name, value in asdict(self.options).items()},
        }


def chosen_nodes(job: Job) -> Chosen:
    return Chosen.of(job.graph, (MOST_HOPS + 1) * int(job.graph.meta["features"]), job.seed)


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
    hops = hops_in_time(job, hops, edges, chosen)
    return Trials(
        hops=hops,
        edges=edges,
        chosen=chosen,
        tables=Tables(chosen, OnDisk(hops, hops.steps), hops.steps, hops.features),
        classes=len(job.graph.class_names),
        seed=job.seed,
        metric=job.metric,
        threads=job.threads,
        pace=job.pace,
        hear=job.hear,
        tasks=job.tasks,
        kept=job.kept,
        edges_key=key,
    )


def hops_in_time(job: Job, hops: Hops, edges: Edges, chosen: Chosen) -> Hops:
    """Computed; fewer, if those that are not there would take more than HOPS_SHARE of the time."""
    began, need = time.perf_counter(), needed(hops)
    if need.blocks:
        job.said(f"hops, edges {hops.path.name}: {need}")
    exact = None if job.precision == "float32" else chosen.val
    seconds = None
    if job.pace.deadline is not None:
        seconds = HOPS_SHARE * max(0.0, job.pace.deadline.left)
    made = propagate(
        hops,
        edges,
        threads=job.threads,
        exact=exact,
        tasks=job.tasks,
        said=job.said,
        seconds=seconds,
    )
    if need.blocks:
        passed = edges.indptr[-1] * made.steps * need.blocks * need.columns / 64
        job.pace.edges = float(passed) / (time.perf_counter() - began)
    if made.steps < hops.steps:
        job.pace.shortened = True
        job.said(f"the time limit leaves hops 0 to {made.steps} of {hops.steps}")
    return made


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
