"""A net within hard limits: at most a tenth of the weights of a GCN with 64 hidden units.

gassip search --max-params 10% does the same. A budget that no net can keep is refused.
"""

import gassip

graph = gassip.load("debian")
settings = {"plain": ("Linear+APPNP10",), "plain_epochs": 60}  # few, to be quick
limits = {"max_params": "10%", "max_macs": "25%"}  # also: max_edges, max_bytes, max_latency_ms
model = gassip.GassipClassifier(preset="fast", settings=settings, budget=limits).fit(graph)
size = model.fit_summary()["size"]
print(f"{size['params']:,} weights, {size['macs']:,} multiply-adds")
print("test accuracy", round(model.score(graph), 3))

try:
    gassip.GassipClassifier(preset="fast", budget={"max_params": 5}).fit(graph)
except gassip.GassipError as error:
    print("refused:", error)
