"""A JavaScript module of gassip, run by node: for the comparison before it is kept."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from gassip.deploy.native.graphs import graph_arrays
from gassip.deploy.native.sample import Golden
from gassip.deploy.native.wasm_file import graph_bytes
from gassip.deploy.numpy_graph import Inputs
from gassip.errors import GassipError
from gassip.graph.checks import Array
from gassip.runs.format import write_tensors

MOST_SECONDS = 300
SCRIPT = """\
import { readFileSync, writeFileSync } from "node:fs";
import { load, readTensors } from "./net.mjs";

const net = await load();
const read = (name) => readTensors(readFileSync(name));
net.setGraph(read("graph.safetensors"));
let least = Infinity;
let scores;
const begun = performance.now();
for (let at = 0; at < 20 && performance.now() - begun < 1000; at++) {
  const start = performance.now();
  scores = net.scores();
  least = Math.min(least, performance.now() - start);
}
writeFileSync("scores.bin", scores);
net.setGraph(read("golden.safetensors"));
const added = read("added.safetensors");
writeFileSync("new.bin", net.scoresOfNew(added.x, added.neighbours));
console.log(least);
"""


@dataclass(frozen=True, eq=False)
class Ran:
    """What the module computed."""

    scores: Array  # [N, C]
    new_scores: Array  # [C]
    milliseconds: float  # of the fastest pass


def node() -> str | None:
    """The command of node, or None."""
    return shutil.which("node")


def in_node(text: str, inputs: Inputs, rows: Golden) -> Ran | None:
    """All nodes of a graph, and the golden new node; None where there is no node."""
    command = node()
    if command is None:
        return None
    added = {"x": rows.new_x.astype(np.float32), "neighbours": rows.neighbours.astype(np.int32)}
    with TemporaryDirectory(prefix="gassip-") as name:
        folder = Path(name)
        (folder / "net.mjs").write_text(text, encoding="utf-8")
        (folder / "run.mjs").write_text(SCRIPT, encoding="utf-8")
        (folder / "graph.safetensors").write_bytes(graph_bytes(graph_arrays(inputs)))
        (folder / "golden.safetensors").write_bytes(graph_bytes(graph_arrays(rows.inputs)))
        (folder / "added.safetensors").write_bytes(write_tensors(added))
        said = _run([command, "run.mjs"], folder)
        scores = np.fromfile(folder / "scores.bin", dtype="<f4").reshape(inputs.x.shape[0], -1)
        return Ran(scores, np.fromfile(folder / "new.bin", dtype="<f4"), float(said))


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=MOST_SECONDS)
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if "Error" in line] or ["no message"]
        raise GassipError(f"node does not run the module: {last[0]}; nothing was written")
    return done.stdout
