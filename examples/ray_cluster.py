"""The same search on rows as tasks of Ray: two workers of this machine, on loopback.

On the command line: gassip search --data csbm.graph --large on --cluster auto (or HOST:PORT).
"""

from pathlib import Path

from gassip import cli
from gassip.graph.store import GraphFolder
from gassip.large.cluster import connected
from gassip.large.rows.job import Job
from gassip.large.rows.run import run_on_rows
from gassip.large.rows.search import Options

GRAPH = Path("csbm.graph")

cli.main(["make", "csbm", "--nodes", "2000", "--homophily", "0.8", "--out", str(GRAPH)])
graph, options = GraphFolder.open(GRAPH), Options(teach=False, sizes=(1.0,))

alone = run_on_rows(Job(graph=graph, hops=Path("alone"), options=options))
with connected("auto", workers=2) as tasks:
    shared = run_on_rows(Job(graph=graph, hops=Path("shared"), options=options, tasks=tasks))

print("test accuracy", round(shared.scores["accuracy"]["test"], 3))
print("equal scores:", alone.scores == shared.scores)
