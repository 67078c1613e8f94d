"""Peak resident memory of a search on Coauthor Physics, in a process of its own.

After two epochs of warm-up and two whole ones every array of the search has been there, and the
short trainings of the architectures that may be induced follow as in any search.
"""

import subprocess
import sys

from benchmarks.timing import PEAK_GIB, Bar, at_most, here

CHILD = """
from gassip.graph.datasets import load
from gassip.best.pipeline import search
from gassip.settings import preset
graph = load("physics")
search(graph, preset("paper", graph, {"epochs": 4, "warmup_epochs": 2}))
"""


def main() -> list[Bar]:
    if not here(["physics"]):
        return []
    run = subprocess.run(
        [sys.executable, "-c", CHILD + PEAK_GIB], capture_output=True, text=True, check=True
    )
    return [at_most("physics: peak GiB of a search", float(run.stdout), 4.0)]


if __name__ == "__main__":
    main()
