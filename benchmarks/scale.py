"""Time and memory of the large path: tables → `gassip import` → `gassip search` → `gassip predict`.

    python -m benchmarks.scale --nodes 10000 100000 1000000 --work DIR [--out scale.jsonl]
    python -m benchmarks.scale --draw scale.jsonl docs/growth.svg

The graph is a block model whose best possible accuracy is known. Drawing it and writing its tables
is not counted. Each step is a process; its peak memory is the kernel's count (ru_maxrss).
"""

import argparse
import json
import math
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from gassip.large.block_model import BlockModel, Drawn, best_accuracy, draw, parts

ROWS = 500_000  # of a parquet file
STEPS = ("import", "search", "predict")
# a small process between: a child's peak begins at that of the one that starts it
WAITING = """
import json, os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=sys.stderr)
_, status, used = os.wait4(child.pid, 0)
cpu = used.ru_utime + used.ru_stime
print(json.dumps([os.waitstatus_to_exitcode(status), cpu, used.ru_maxrss]))
"""


def write_tables(model: BlockModel, drawn: Drawn, folder: Path) -> None:
    """nodes-*.parquet and edges-*.parquet, pairs once each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for start in range(0, model.nodes, ROWS):
        part = slice(start, min(model.nodes, start + ROWS))
        names = np.array(["", "train", "val", "test"])
        columns: dict[str, Any] = {
            "id": pa.array(np.arange(part.start, part.stop)),
            "label": pa.array([f"class {y}" for y in drawn.y[part]]),
            "split": pa.array(names[drawn.split[part]].tolist()),
        }
        columns |= {f"x{k}": pa.array(drawn.x[part, k]) for k in range(model.features)}
        pq.write_table(pa.table(columns), folder / f"nodes-{start:09}.parquet")
    for number, part in enumerate(parts(len(drawn.pairs))):
        one, other = drawn.pairs[part].T
        table = pa.table({"source": one, "target": other})
        pq.write_table(table, folder / f"edges-{number:04}.parquet")


def measured(words: list[str]) -> dict[str, float]:
    """Wall and CPU seconds, peak GiB of one command; its words go to stderr."""
    print("$ gassip", *words, file=sys.stderr, flush=True)
    began = time.perf_counter()
    command = [sys.executable, "-c", WAITING, sys.executable, "-m", "gassip", *words]
    told = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    seconds = time.perf_counter() - began
    status, cpu, peak = json.loads(told)
    if status:
        raise SystemExit(f"gassip {words[0]} ended with status {status}")
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "peak_gib": round(peak / 2**20, 2),
    }


def one_size(nodes: int, work: Path, args: argparse.Namespace) -> dict[str, Any]:
    model = BlockModel(nodes=nodes, degree=args.degree, features=args.features, seed=args.seed)
    tables, graph, run = (work / f"{nodes}{end}" for end in (".tables", ".graph", ".run"))
    for path in (tables, graph, run):
        shutil.rmtree(path, ignore_errors=True)
    drawn = draw(model)
    write_tables(model, drawn, tables)
    row: dict[str, Any] = {"nodes": nodes, "edges": len(drawn.pairs), "features": model.features}
    if not args.without_best:
        row["best_possible"] = round(best_accuracy(model, drawn), 4)
    del drawn
    files = ["--nodes", f"{tables}/nodes-*.parquet", "--edges", f"{tables}/edges-*.parquet"]
    memory = ["--memory", args.memory] if args.memory else []
    row["import"] = measured(["import", *files, "--undirected", "--out", str(graph), *memory])
    asked = ["--large", "on", *shlex.split(args.search)]
    row["search"] = measured(["search", "--data", str(graph), "--out", str(run), *asked])
    row["predict"] = measured(["predict", str(run), "--out", f"{run}/labels.csv"])
    meta = json.loads((run / "meta.json").read_bytes())
    row["architecture"] = " ‖ ".join(meta["architecture"])
    row["weights"] = meta["size"]["params"]
    row["test"] = round(meta["accuracy"]["test"], 4)
    if not args.keep:
        for path in (tables, graph, run):
            shutil.rmtree(path, ignore_errors=True)
    return row


def drawing(rows: list[dict[str, Any]]) -> bytes:
    """CPU seconds and peak memory against nodes, both axes by powers of ten; steps that were not
    measured are left out."""
    from gassip.draw.chart import Panel, Place, Series, panel
    from gassip.draw.svg import document

    rows = sorted(rows, key=lambda row: row["nodes"])
    panels = []
    for at, (title, key) in enumerate((("CPU seconds", "cpu_seconds"), ("peak GiB", "peak_gib"))):
        series = [
            Series(
                name=step,
                x=[row["nodes"] for row in rows if step in row],
                y=[math.log10(max(0.01, row[step][key])) for row in rows if step in row],
                colour=k,
                size=3.0,
            )
            for k, step in enumerate(STEPS, 1)
        ]
        shown = Panel(title=title, below="nodes", series=series, log=True, form_y=power)
        panels.append(panel(shown, Place(left=360.0 * at)))
    return document(panels, 720, 240, "time and memory against nodes")


def power(value: float) -> str:
    return f"{10**value:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--degree", type=float, default=20.0)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--memory", help="of the import, such as 2GB")
    parser.add_argument("--out", type=Path, help="JSON lines are appended")
    parser.add_argument(
        "--without-best", action="store_true", help="no best possible accuracy: takes memory"
    )
    parser.add_argument("--keep", action="store_true", help="leave graphs and runs in --work")
    text = "further words for the search: --search='--time-limit 32m'"
    parser.add_argument("--search", default="", metavar="WORDS", help=text)
    parser.add_argument("--draw", type=Path, nargs=2, metavar=("JSONL", "SVG"))
    args = parser.parse_args()
    if args.draw:
        lines = args.draw[0].read_text(encoding="utf-8").splitlines()
        args.draw[1].write_bytes(drawing([json.loads(line) for line in lines]))
        return
    if args.work is None:
        parser.error("--work is missing")
    args.work.mkdir(parents=True, exist_ok=True)
    for nodes in args.nodes:
        text = json.dumps(one_size(nodes, args.work, args), ensure_ascii=False)
        print(text, flush=True)
        if args.out:
            with args.out.open("a", encoding="utf-8") as file:
                file.write(text + "\n")


if __name__ == "__main__":
    main()
