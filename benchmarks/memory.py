"""Peak resident memory of a search on Coauthor Physics, in a process of its own."""

import subprocess
import sys

import torch

from benchmarks.timing import report

CHILD = """
import resource
from gassip.graph.datasets import load
from gassip.best.pipeline import search
from gassip.settings import preset
graph = load("physics")
search(graph, preset("paper", graph, {"epochs": 15}))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


def main() -> bool:
    torch.set_num_threads(1)
    run = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    return report("physics: peak GiB of a search", float(run.stdout), 4.0, higher_is_better=False)


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
