"""A graph that need not fit into memory: drawn to a folder, searched on rows, a new node labelled.

On the command line: gassip make csbm, gassip import, gassip search --large on, gassip predict.
"""

from pathlib import Path

import numpy as np

from gassip import cli
from gassip.deploy.row_runs import load_row_run
from gassip.graph.store import GraphFolder

GRAPH, RUN = Path("csbm.graph"), Path("runs/csbm")

cli.main(["make", "csbm", "--nodes", "4000", "--homophily", "0.8", "--out", str(GRAPH)])
words = ["--data", str(GRAPH), "--large", "on", "--preset", "fast", "--out", str(RUN), "--quiet"]
cli.main(["search", *words])

graph = GraphFolder.open(GRAPH)
print("hops on disk:", sorted(path.name for path in (GRAPH / "hops").rglob("*-4.npy")))

model = load_row_run(RUN).model  # numpy alone from here on
scores = model.new_node(np.array(graph.array("x")[7]), senders=np.array([1, 2, 3]))
print("a new node is", graph.class_names[int(scores.argmax())])
