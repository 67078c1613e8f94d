"""Inference: PyG as a user writes it, our own GCN-64, a net that a search found, and that net in C.

On Cora and PubMed the net must be at least as accurate as PyG's GCN-64, which is trained here: a
race against a better net would say nothing. On Cora `gassip front` makes nets of several sizes from
one search, and the smallest whose validation accuracy is not below that of PyG's net runs the race.
The test accuracy of both is printed; it chooses nothing. The other nets are those of SEARCHES; on
arxiv-standin a short search gives the sizes, which is all that speed depends on.

With two threads torch shares its products between both. The runtime keeps to one thread: its
products are so small that waking a second takes longer than it saves (deploy/numpy_products.py). So
its lead over our own GCN-64 in torch is smaller there: 1.45 × was measured on Cora, where 1.5 is
the bar.

Every number of a dataset and a thread count comes from one process in which the sides take turns
(latency.py). `python -m benchmarks.inference [dataset ...]`.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.latency import QUERIES
from benchmarks.timing import Bar, at_least, at_most, here

SHARES = (12, 6, 3, 2)  # of a GCN-64's weights, in %
NESTED = ("cora",)  # where nets of these sizes are tried
EQUAL = ("cora", "pubmed")  # where the net must be as accurate as PyG's GCN-64
BUDGET = ("--max-params", "25%", "--max-macs", "10%")
SEARCHES = {
    "pubmed": ("--preset", "good", "--max-params", "12%"),
    "physics": ("--preset", "fast", *BUDGET),
    "arxiv-standin": (
        *("--preset", "paper", "--epochs", "4", "--warmup-epochs", "1"),
        *("--retrain-epochs", "30", *BUDGET),
    ),
}
FASTER_THAN_PYG = {"cora": 20.0, "physics": 4.0}
OF_C = 1.5  # the runtime's pass / that of C, at most
RETRAINING = {"cora": 0.8, "physics": 0.5}  # of the time of PyG's GCN-64


def main() -> list[Bar]:
    given = sys.argv[1:] if __name__ == "__main__" else []
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in here(given or (*NESTED, *SEARCHES)):
            bars += race(name, Path(scratch, name))
    return bars


def race(name: str, folder: Path) -> list[Bar]:
    """All bars of one dataset."""
    rival = child("rival", name) if name in EQUAL else None
    run = folder
    if rival is not None and name in NESTED:
        run = lightest(name, folder, rival)
    else:
        gassip("search", "--dataset", name, *SEARCHES[name], "--out", str(run), *QUIET)
    bars = [] if rival is None else [accuracy_bar(name, run, rival)]
    describe(run)
    gassip("export", str(run), "--format", "onnx", "--out", f"{run}.onnx")
    for threads in (1, 2):
        found = child("latency", name, str(run), threads=threads)
        show(name, threads, found)
        bars += latency_bars(name, threads, found)
    if name in RETRAINING:
        spans = child("training", name, str(run))
        detail = f"; {spans['ours']:.2f} s / {spans['pyg']:.2f} s"
        title = f"{name}: retraining / PyG GCN-64, equally many epochs"
        bars.append(at_most(title, spans["ours"] / spans["pyg"], RETRAINING[name], detail))
    return bars


def accuracy_bar(name: str, run: Path, rival: dict[str, float]) -> Bar:
    """By validation, which chooses; the test accuracy of both is told."""
    ours = json.loads((run / "meta.json").read_text())["accuracy"]
    title = f"{name}: validation accuracy {ours['val']:.3f} − that of PyG's GCN-64"
    detail = f"; test {ours['test']:.3f}, PyG's {rival['test']:.3f}"
    return at_least(title, ours["val"] - rival["val"], 0.0, detail)


QUIET = ("--threads", "1", "--quiet", "--json")


def lightest(name: str, folder: Path, rival: dict[str, float]) -> Path:
    """The run of the smallest net that validates no worse than PyG's; the largest if none does."""
    shares = ",".join(map(str, SHARES))
    sizes = ("--shares", shares, "--retrains", "2")
    gassip("front", "--dataset", name, *sizes, "--out", str(folder), *QUIET)
    taken = folder / "nets" / str(SHARES[0])
    for share in SHARES:
        run = folder / "nets" / str(share)
        if not run.is_dir():
            continue
        val = json.loads((run / "meta.json").read_text())["accuracy"]["val"]
        print(f"{name}, {share}% of a GCN-64's weights: validation {val:.3f}", end="")
        print(f", PyG's GCN-64 {rival['val']:.3f}", flush=True)
        if val >= rival["val"]:
            taken = run
    return taken


def describe(run: Path) -> None:
    """The net in two lines."""
    meta = json.loads((run / "meta.json").read_text())
    size, accuracy = meta["size"], meta["accuracy"]
    print(f"{meta['dataset']}: {' ‖ '.join(meta['architecture'])}, hidden {meta['net']['hidden']}")
    print(f"  weights {size['params']:,}, edges {size['edges']:,}", end="")
    print(f"; accuracy val {accuracy['val']:.4f}, test {accuracy['test']:.4f}", flush=True)


def gassip(*command: str) -> str:
    return finished([sys.executable, "-m", "gassip", *command], dict(os.environ))


def child(what: str, *arguments: str, threads: int = 1) -> dict[str, Any]:
    """One of the measurements of latency.py in a process of its own."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    env = os.environ | dict.fromkeys(names, str(threads))
    command = [sys.executable, "-m", "benchmarks.latency", what, *arguments]
    return json.loads(finished(command, env).splitlines()[-1])  # type: ignore[no-any-return]


def finished(command: list[str], env: dict[str, str]) -> str:
    run = subprocess.run(command, env=env, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(run.stderr)
    return run.stdout


def show(name: str, threads: int, found: dict[str, Any]) -> None:
    print(f"{name}, {threads} thread(s), ms{'':6}{'full pass':>12}{'cold':>10}{QUERIES:>7} queries")
    for title, span in found["full"].items():
        cold, queries = 1e3 * found["cold"][title], 1e3 * found["queries"][title]
        print(f"  {title:26}{1e3 * span:8.2f}{cold:10.2f}{queries:15.1f}", flush=True)
    if found["c"] is not None:
        print(f"  {'found, C':26}{1e3 * found['c']:8.2f}", flush=True)


def latency_bars(name: str, threads: int, found: dict[str, Any]) -> list[Bar]:
    full, ours = found["full"], found["full"]["found, runtime"]
    title, bars = f"{name}, {threads} thread(s): ", []
    if name in FASTER_THAN_PYG:
        ratio = full["PyG GCN-64"] / ours
        bars.append(at_least(f"{title}PyG GCN-64 / runtime", ratio, FASTER_THAN_PYG[name]))
    if found["c"] is not None and threads == 1 and name in EQUAL:
        bars.append(at_most(f"{title}runtime / C", ours / found["c"], OF_C))
    for where in ("torch", "runtime"):
        ratio = full[f"our GCN-64, {where}"] / ours
        bars.append(at_least(f"{title}our GCN-64 in {where} / runtime", ratio, 1.5))
    return bars


if __name__ == "__main__":
    main()
