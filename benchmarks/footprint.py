"""Cora: import and peak resident memory of a prediction, and bytes on disk.

A net of a quarter of a GCN-64's weights, found by the preset `fast`: bytes and memory depend on
sizes alone.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.inference import QUIET, gassip
from benchmarks.timing import Bar, at_most, here
from gassip.deploy.export import to_runtime
from gassip.graph.datasets import load
from gassip.runs.format import Precision

WITH_TORCH = """
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
WITH_ONNX = """
import sys, time
before = time.process_time()
import numpy as np, onnxruntime
spent = time.process_time() - before
import json
with np.load(sys.argv[2]) as arrays:
    onnxruntime.InferenceSession(sys.argv[1] + ".onnx").run(None, {"x": arrays["x"]})
"""
IN_RUNTIME = """
import sys, time
before = time.process_time()
from gassip.deploy.runtime import load
spent = time.process_time() - before
import json
load(sys.argv[1]).predict()
"""
# as PEAK_GIB of timing.py
PRINT = """
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps({"seconds": spent, "MiB": peak / 1024}))
"""
REPEATS = 5
GCN_BYTES = 4 * (1433 * 64 + 64 + 64 * 7 + 7)
PRECISIONS: tuple[Precision, ...] = ("float32", "float16", "int8")


def main() -> list[Bar]:
    if not here(["cora"]):
        return []
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch, "cora")
        size = ("--preset", "fast", "--max-params", "25%")
        gassip("search", "--dataset", "cora", *size, "--out", str(run), *QUIET)
        gassip("export", str(run), "--format", "onnx", "--out", f"{run}.onnx")
        return [*memory_bars(run), bytes_bar(run)]


def memory_bars(run: Path) -> list[Bar]:
    data, inputs = load("cora").to_data(), run.with_suffix(".npz")
    np.savez(inputs, x=data.x.numpy(), edge_index=data.edge_index.numpy())
    sides = {"torch + PyG": WITH_TORCH, "onnxruntime": WITH_ONNX, "runtime": IN_RUNTIME}
    found = {title: measured(code, run, inputs) for title, code in sides.items()}
    for title, taken in found.items():
        seconds, mib = taken["seconds"], taken["MiB"]
        print(f"cora, {title}: import {seconds:.3f} s, resident {mib:.0f} MiB")
    share = found["runtime"]["MiB"] / found["torch + PyG"]["MiB"]
    return [
        at_most("resident, runtime / torch + PyG", share, 0.25),
        at_most("import of the runtime, s", found["runtime"]["seconds"], 0.3),
    ]


def measured(code: str, run: Path, inputs: Path) -> dict[str, float]:
    """Median seconds of the import and MiB at the peak, each time in a new process."""
    command = [sys.executable, "-W", "ignore", "-c", code + PRINT, str(run), str(inputs)]
    runs = []
    for _ in range(REPEATS):
        text = subprocess.check_output(command, text=True)
        runs.append(json.loads(text.splitlines()[-1]))
    return {what: median(run[what] for run in runs) for what in ("seconds", "MiB")}


def bytes_bar(run: Path) -> Bar:
    """model.safetensors of the run and of its exports, against GCN-64's state dict."""
    for precision in PRECISIONS:
        meta = to_runtime(run, run.with_name(f"cora-{precision}"), precision=precision)
        size = meta["bytes"]["model.safetensors"]
        print(f"cora, {precision}: model {size:,} bytes, {meta['agreement']}")
    model, onnx = (run / "model.safetensors").stat().st_size, run.with_suffix(".onnx")
    print(f"cora, bytes: GCN-64 {GCN_BYTES:,}, run {model:,}, ONNX {onnx.stat().st_size:,}")
    return at_most("model of the run / GCN-64's state dict, bytes", model / GCN_BYTES, 0.3)


if __name__ == "__main__":
    main()
