"""A graph in, a small net and a page about it out. Takes about ten seconds.

python examples/quickstart.py
"""

import gassip
from gassip.report.report import write_report

graph = gassip.load("debian")  # 3,134 Debian packages, shipped with gassip; or gassip.read(PATH)
model = gassip.GassipClassifier(preset="fast", seed=0)  # "good" and "best" take longer, and win
model.fit(graph)

summary = model.fit_summary()
print("architecture", " ‖ ".join(summary["architecture"]))
print("test accuracy", round(model.score(graph), 4))
print("weights", summary["size"]["params"], "edges", summary["edges_kept"])

model.save("runs/quickstart", overwrite=True)  # what the other examples deploy
print("look at", write_report("runs/quickstart", graph.edge_index.numpy()))
