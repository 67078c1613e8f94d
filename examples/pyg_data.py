"""A PyG Data in, a module that PyG's tools can call out.

python examples/pyg_data.py
"""

import torch
from torch_geometric.datasets import KarateClub
from torch_geometric.transforms import RandomNodeSplit

import gassip

torch.manual_seed(0)
data = RandomNodeSplit(num_val=0.25, num_test=0.25)(KarateClub()[0])  # masks are read if given
model = gassip.GassipClassifier(preset="fast").fit(data)
print("test accuracy", model.score(data), "labels", model.predict(data)[:5])

module = model.to_pyg()  # module(x, edge_index), as torch_geometric.explain wants it
edges = model.solution_.graph.edge_index  # the edges that the search kept
logits = module(data.x, edges)
print(module.__class__.__name__, tuple(logits.shape))
